"""Tables that cannot be protected: with generated columns, or with collations."""

from __future__ import annotations

import re

# Strings and quoted names of a CREATE TABLE statement.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_UNFIT = (
    (
        re.compile(r"\bGENERATED\s+ALWAYS\s+AS\b", re.IGNORECASE),
        "has a generated column, which may fail on a record, and that would tell about it: make the table with a "
        "column of values in its place.",
    ),
    (
        re.compile(r"\bCOLLATE\b", re.IGNORECASE),
        "has a column with COLLATE, under which a record may have two keys: make the table without it.",
    ),
)


def obstacle(sql: str) -> str | None:
    """Why a table cannot be protected, by the statement that made it; None if it can."""
    bare = _QUOTED.sub(" ", sql)
    return next((why for found, why in _UNFIT if found.search(bare)), None)
