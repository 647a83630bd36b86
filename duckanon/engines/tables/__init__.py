"""Several released tables of the same records at once: what they tell together."""
