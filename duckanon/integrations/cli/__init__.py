"""The command line: `duckanon`. Its libraries come with the extra `cli`."""
