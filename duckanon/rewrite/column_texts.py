"""A query whose dates, timestamps and intervals come as texts: Python has no value for all that DuckDB has of them.

Its dates end with the year 9999, and none is infinite. Its time spans have no months.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TYPE = re.compile(r"(?:DATE|INTERVAL|TIMESTAMP(?: WITH TIME ZONE|_S|_MS|_NS)?)(\[\d*\])?")


def has_texts(types: Sequence[str]) -> bool:
    """Whether columns of these types, as DuckDB writes them, are ones that `with_texts` changes."""
    return any(_TYPE.fullmatch(kind) for kind in types)


def with_texts(query: str, types: Sequence[str]) -> str:
    """The query with texts in place of dates, timestamps and intervals, and of lists of these, in the same order.

    types: of its columns, as DESCRIBE says them. The columns have other names.
    """
    if not has_texts(types):
        return query
    names = [f"c{at}" for at in range(len(types))]
    shown = ", ".join(_shown(name, kind) for name, kind in zip(names, types, strict=True))
    # Its lines keep their numbers, which DuckDB's errors have.
    return f"FROM ({query}\n) AS t({', '.join(names)}) SELECT {shown}"


def _shown(name: str, kind: str) -> str:
    match = _TYPE.fullmatch(kind)
    if match is None:
        return name
    # As a timestamp of microseconds, which are all that clients know.
    several = match[1] or ""
    moment = f"CAST({name} AS TIMESTAMP{several})" if kind.startswith("TIMESTAMP_NS") else name
    return f"CAST({moment} AS VARCHAR{several})"
