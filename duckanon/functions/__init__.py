"""Between SQL and the engines: a module for each family of SQL functions."""
