"""One form for equivalent queries: names resolved, projections merged, windows and pivots written as grouping."""
