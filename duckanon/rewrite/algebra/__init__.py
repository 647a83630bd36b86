"""What a query computes, as values: expressions over columns, relations, and the way to and from SQL."""
