"""Meeting other programs. The command line is one of them; each needs an extra of its own."""
