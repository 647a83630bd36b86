"""What a table of conditional proportions and its sample size disclose about its cells (Wright and Smucker 2014)."""
