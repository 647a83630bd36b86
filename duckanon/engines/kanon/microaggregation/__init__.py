"""Microaggregation: classes of at least k records whose squared distances from their mean add up to little."""
