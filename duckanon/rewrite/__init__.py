"""Statements in, statements out: what a query asks of protected tables."""
