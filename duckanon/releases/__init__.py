"""The releases that an analyst can get, a module for each kind: what it objects to, costs and needs, how it answers."""
