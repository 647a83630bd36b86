"""Values on their way through Arrow. Of types that Arrow has not, or not whole, they travel as texts.

Arrow has decimals of 38 digits for whole numbers of 39, nanoseconds for the microseconds of an INTERVAL, of which it
holds fewer, and would make UUIDs texts for good. The types wait in the table's metadata, until DuckDB makes the values
anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from duckanon.catalog.names import quoted

# A text says each of their values without loss.
_AS_TEXT = re.compile(r"\b(U?HUGEINT|UUID|BIT|JSON|INTERVAL|TIME_NS|TIME WITH TIME ZONE)\b")
# The parts of a type's name: names and values in quotes, which stand for themselves, what has a width, and the rest.
_PARTS = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|(\w+(?: \w+)*)|(.)""")
# Of these the parts in parentheses have names before their types.
_NAMED = ("STRUCT", "UNION")


def on_the_way(kind: str) -> str:
    """The type as which values of a type are sent: within a LIST, a STRUCT or a MAP each value is a text by itself.

    A text of the whole would not tell a JSON of null from NULL.
    """
    text, opened, last, begins = "", [""], "", True
    for name, words, other in _PARTS.findall(kind):
        if other == "(":
            opened.append(last)
        elif other == ")":
            opened.pop()
        elif words:
            label, _, last = words.partition(" ") if begins and opened[-1] in _NAMED else ("", "", words)
            text += f"{label} " if label else ""
        text += _AS_TEXT.sub("VARCHAR", last) if words else name or other
        # What comes first in parentheses, and after each comma.
        begins = other in ("(", ",") or (begins and other == " ")
    return text


def sent(name: str, kind: str) -> str:
    """A column of that type as Arrow is given it, as SQL for a SELECT."""
    column, other = quoted([name]), on_the_way(kind)
    return column if other == kind else f"CAST({column} AS {other}) AS {column}"


def labelled(table: pa.Table, kinds: Mapping[str, str]) -> pa.Table:
    """A table of what was sent, with the types of those columns that are others on the way. kinds: of all, by name."""
    others = {name: kind for name, kind in kinds.items() if on_the_way(kind) != kind}
    return table.replace_schema_metadata(others) if others else table


def received(table: pa.Table) -> str:
    """The columns of a labelled table as DuckDB had them, as SQL for a SELECT."""
    kinds = {name.decode(): kind.decode() for name, kind in (table.schema.metadata or {}).items()}
    columns = [(quoted([name]), kinds.get(name)) for name in table.column_names]
    return ", ".join(name if kind is None else f"CAST({name} AS {kind}) AS {name}" for name, kind in columns)
