"""The PostgreSQL wire in front of the guard: PostgreSQL clients ask a DuckDB database that this process alone opens."""
