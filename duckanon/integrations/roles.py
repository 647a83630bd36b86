"""Sentences about the two roles, shown when a database is opened."""

from __future__ import annotations

from typing import Any

ROLES = {
    "analyst": "You are an analyst: protected tables answer through releases only, and what has noise says so.",
    "steward": "You are a steward: statements run as they are written, on records too.",
}


def protects(con: Any) -> bool:
    """Whether the databases of a steward's connection have protected tables. Raises duckdb.Error as any query does."""
    ((many,),) = con.execute("SELECT system.main.count(*) FROM policies()").fetchall()
    return bool(many)


def prompt(con: Any) -> str:
    """The word of a console's prompt: the role, for analysts and in databases with protected tables."""
    return str(con.role) if con.role == "analyst" or protects(con) else "duckanon"
