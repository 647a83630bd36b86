"""What a table of conditional proportions and its sample size give away of its cells (Wright and Smucker 2014)."""
