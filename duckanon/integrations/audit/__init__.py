"""What `duckanon audit` finds: SQL is read, never run."""
