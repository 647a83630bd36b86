"""Serves a database to PostgreSQL clients: `duckanon serve`."""
