"""One form for queries that mean the same: names resolved, projections dissolved, windows and pivots as grouping."""
