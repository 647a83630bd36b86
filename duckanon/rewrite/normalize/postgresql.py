"""PostgreSQL's constants and casts that DuckDB does not have, written as DuckDB has them.

    to_date('31/03/2024', 'DD/MM/YYYY')          CAST('2024-03-31' AS DATE)
    to_timestamp('2024-03-31 08', ...)           a TIMESTAMP WITH TIME ZONE of the session's zone
    to_char(x, 'YYYY-MM')                        strftime(x, '%Y-%m')
    '2024-03-31 +00'::date                       CAST('2024-03-31' AS DATE)
    '{1,2}'::int[]                               CAST([1, 2] AS int[])
    x::jsonb                                     CAST(x AS JSON)

and without its cast date_trunc('month'::text, x), as drivers write a parameter.

DuckDB fails on each of the former, or means the same, so nothing that runs there is changed. A function of a user that
has one of these names stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node, nodes_of
from duckanon.rewrite.date_formats import PATTERNS, NotOfFormat, as_strftime, read
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.quote import of_part, stands_for

# The nodes that it is about.
CONSTANTS = (exp.Anonymous, exp.Cast)
# A day with a time zone and no time, as pgjdbc sends dates.
_DAY_IN_ZONE = re.compile(r"(\d{4}-\d{2}-\d{2}) ?(Z|[+-]\d{2}(?::?\d{2})?)", re.ASCII)
_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^{},"\\]+))\s*(?:,|$)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def as_duckdb(query: Node, macros: Collection[str]) -> None:
    """Write PostgreSQL's constants in a query as DuckDB's, in place. macros: folded names of users' functions.

    Raises UnsupportedQuery for a text or a format of a date that is not read.
    """
    for node in [cast for cast in nodes_of(query, exp.Cast) if _is_plain_text(cast)]:
        _without_cast(node, macros)
    for node in nodes_of(query, *CONSTANTS):
        if isinstance(node, exp.Cast):
            new = _cast(node)
        else:
            write = _WRITTEN.get(fold(node.name))
            new = None if write is None or fold(node.name) in macros else write(node)
        if new is not None:
            stands_for(new, node)
            node.replace(new)


def _is_plain_text(cast: Node) -> bool:
    """Whether it is a constant text that is cast to a text."""
    return isinstance(cast.this, exp.Literal) and cast.this.is_string and cast.to.is_type("text", "varchar")


def _without_cast(cast: Node, macros: Collection[str]) -> None:
    """Write the unit or the format of a function of dates without its cast to a text, in place."""
    call, written = cast.parent, str(cast.this.this)
    if isinstance(call, exp.TimestampTrunc | exp.DateTrunc) and cast.arg_key == "unit" and written.isalpha():
        cast.replace(exp.Var(this=written.upper()))
    elif isinstance(call, exp.Anonymous) and fold(call.name) in _WITH_TEXTS and fold(call.name) not in macros:
        cast.replace(cast.this)


_WITH_TEXTS = frozenset(
    {"date_part", "datepart", "date_diff", "datediff", "date_sub", "datesub", "datetrunc", "strftime", "to_char"}
)


def _constant_texts(call: Node, places: slice) -> list[str] | None:
    """The constant texts among the two arguments of a call; None where there are others."""
    expression = call.expressions[places]
    is_plain = len(call.expressions) == 2 and all(
        isinstance(argument, exp.Literal) and argument.is_string for argument in expression
    )
    return [str(argument.this) for argument in expression] if is_plain else None


def _moment(call: Node) -> datetime:
    date_and_format = _constant_texts(call, slice(2))
    try:
        if date_and_format is not None:
            return read(date_and_format[0], date_and_format[1])
    except NotOfFormat:
        pass
    raise of_part(
        UnsupportedQuery(
            f"{fold(call.name)} takes a constant text, and a constant format of {PATTERNS} that it has: write it so, "
            "or as in DATE '2024-03-31' or TIMESTAMP '2024-03-31 08:30:00'."
        ),
        call,
    )


def _to_date(call: Node) -> Node:
    return _typed(_moment(call).date().isoformat(), "DATE")


def _to_timestamp(call: Node) -> Node | None:
    """to_timestamp of a number is DuckDB's own."""
    if len(call.expressions) == 1:
        return None
    return exp.Cast(this=_typed(_moment(call).isoformat(sep=" "), "TIMESTAMP"), to=_type("TIMESTAMPTZ"))


def _to_char(call: Node) -> Node:
    formats = _constant_texts(call, slice(1, 2))
    try:
        if formats is not None:
            form = exp.Literal.string(as_strftime(formats[0]))
            return exp.Anonymous(this="strftime", expressions=[call.expressions[0].copy(), form])
    except NotOfFormat:
        pass
    sentence = f"to_char takes a date or a time, and a constant format of {PATTERNS}: for others see DuckDB's strftime."
    raise of_part(UnsupportedQuery(sentence), call)


_WRITTEN: Mapping[str, Callable[[Node], Node | None]] = {
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "to_char": _to_char,
}


def _cast(cast: Node) -> Node | None:
    """A cast that PostgreSQL knows and DuckDB does not: of a text, or to jsonb."""
    if cast.to.this is exp.DataType.Type.JSONB:
        return type(cast)(this=cast.this.copy(), to=_type("JSON"))
    if not isinstance(cast.this, exp.Literal) or not cast.this.is_string:
        return None
    quoted, kind = str(cast.this.this), cast.to
    if kind.this in (exp.DataType.Type.ARRAY, exp.DataType.Type.LIST):
        items = items_of(quoted)
        if items is None:
            return None
        listed = [exp.Null() if item is None else exp.Literal.string(item) for item in items]
        return exp.Cast(this=exp.Array(expressions=listed), to=kind.copy())
    match = _DAY_IN_ZONE.fullmatch(quoted)
    shown = str(kind.sql("duckdb"))
    if match is None or shown not in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        return None
    written = f"{match[1]} 00:00:00{match[2]}" if shown == "TIMESTAMPTZ" else match[1]
    return exp.Cast(this=exp.Literal.string(written), to=kind.copy())


def items_of(text: str) -> list[str | None] | None:
    """The items of a list such as {a,NULL,"b c"}; None for another text, and for lists of lists."""
    inner = text.strip()
    if not inner.startswith("{") or not inner.endswith("}"):
        return None
    inner, at = inner[1:-1].strip(), 0
    items: list[str | None] = []
    while at < len(inner):
        match = _ITEM.match(inner, at)
        if match is None:
            return None
        at = match.end()
        if match[1] is not None:
            items.append(_ESCAPED.sub(r"\1", match[1]))
        else:
            items.append(None if match[2].strip().upper() == "NULL" else match[2].strip())
    return None if inner.endswith(",") else items


def _typed(text: str, kind: str) -> Node:
    return exp.Cast(this=exp.Literal.string(text), to=_type(kind))


def _type(kind: str) -> Node:
    return exp.DataType.build(kind, dialect=DIALECT)
