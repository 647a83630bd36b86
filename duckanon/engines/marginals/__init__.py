"""Many marginals of one table at once: planned together, measured with Gaussian noise, answered by one estimate."""
