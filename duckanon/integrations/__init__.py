"""Meeting other programs."""
