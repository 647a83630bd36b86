"""Privacy criteria beyond k: l-diversity and t-closeness, and the classes that are merged or suppressed for them."""
