"""What every program in a terminal does alike: output, errors, progress, and work that Ctrl-C stops."""
