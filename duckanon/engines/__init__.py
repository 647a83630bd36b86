"""Pure numerics: arrays in, frozen results out. No database, no policy."""
