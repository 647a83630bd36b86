"""Values on their way through Arrow. Of types that Arrow has not, or not whole, they travel as texts.

Arrow has decimals of 38 digits for whole numbers of 39, and would make UUIDs texts for good. The types wait in the
table's metadata, until DuckDB makes the values anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from duckanon.catalog.names import quoted

# Also within a LIST, a STRUCT or a MAP. A text says each of their values without loss.
_AS_TEXT = re.compile(r"\b(U?HUGEINT|UUID|BIT|JSON|TIME_NS|TIME WITH TIME ZONE)\b")


def sent(name: str, kind: str) -> str:
    """A column of that type as Arrow is given it, as SQL for a SELECT."""
    column = quoted([name])
    return f"CAST({column} AS VARCHAR) AS {column}" if _AS_TEXT.search(kind) else column


def labelled(table: pa.Table, kinds: Mapping[str, str]) -> pa.Table:
    """A table of what was sent, with the types of those columns that are texts on the way. kinds: of all, by name."""
    texts = {name: kind for name, kind in kinds.items() if _AS_TEXT.search(kind)}
    return table.replace_schema_metadata(texts) if texts else table


def received(table: pa.Table) -> str:
    """The columns of a labelled table as DuckDB had them, as SQL for a SELECT."""
    kinds = {name.decode(): kind.decode() for name, kind in (table.schema.metadata or {}).items()}
    columns = [(quoted([name]), kinds.get(name)) for name in table.column_names]
    return ", ".join(name if kind is None else f"CAST({name} AS {kind}) AS {name}" for name, kind in columns)
