"""Group sizes over a hierarchy of regions, released with differential privacy."""
