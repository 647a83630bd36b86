"""Cell suppression in tables with totals, and counts perturbed by cell key."""
