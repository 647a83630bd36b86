"""The releases that an analyst can get, a module for each kind: when it is refused, its cost, and how it answers."""
