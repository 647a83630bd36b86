"""k-anonymity by optimisation (Liang and Samavi 2020): records, orders, methods, measures."""
