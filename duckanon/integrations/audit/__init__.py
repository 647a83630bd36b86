"""`duckanon audit`: reads SQL, without running it, and lists what it takes from protected tables."""
