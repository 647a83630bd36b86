"""Unit-local relations: whatever is computed within each privacy unit, free of noise."""
