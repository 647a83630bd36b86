"""Whether rows of open tables have values of some columns once each, which their contents say."""

from __future__ import annotations

from collections.abc import Iterable

from duckanon.catalog.names import quoted


def most_alike(rows: str, columns: Iterable[str]) -> str:
    """A query for how many rows have the same values in all of some columns, at most. rows: a query."""
    by = ", ".join(quoted([column]) for column in sorted(columns))
    numbers = f"SELECT system.main.count(*) AS n FROM ({rows}) AS r{f' GROUP BY {by}' if by else ''}"
    return f"SELECT coalesce(system.main.max(n), 1) FROM ({numbers}) AS c"


def no_two_share(rows: str, columns: Iterable[str]) -> str:
    """A query for whether no two rows have the same values in all of some columns, NULL in none of them.

    rows: what stands for them after FROM. columns: one or more.
    """
    names = [quoted([column]) for column in sorted(columns)]
    known = " AND ".join(f"{name} IS NOT NULL" for name in names)
    several = f"SELECT 1 FROM {rows} AS r WHERE {known} GROUP BY {', '.join(names)} HAVING system.main.count(*) > 1"
    return f"SELECT NOT EXISTS ({several})"
