"""A lower bound on the loss of every k-anonymous partition, with prices that prove it, for tables of any size."""
