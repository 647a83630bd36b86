"""Single values suppressed where a suppressed value may stand for any: what a reader can match, and the search."""
