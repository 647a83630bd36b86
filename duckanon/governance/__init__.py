"""Policies, budgets, paid answers and publications, stored in the database's schema `duckanon`."""
