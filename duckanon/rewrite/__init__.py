"""Decides about analysts' statements: what a query asks of protected tables, and which text runs in its place."""
