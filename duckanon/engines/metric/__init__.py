"""Metric differential privacy: optimal perturbation of records, every ratio certified."""
