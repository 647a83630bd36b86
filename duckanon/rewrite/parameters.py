"""Parameters of a statement about a protected table: their values are written into it as typed constants.

So the key of the question has the values, and they are checked like constants that were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from sqlglot import exp

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import ROOT, Node, copied, nodes_of
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.quote import stands_for

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
_LONGEST = 10_000
# The most values of a list, and the types of DuckDB's own class of values, which says the type of a text.
_MOST_ITEMS = 10_000
_OWN_TYPES = frozenset({"INTERVAL", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})


def filled(query: Node, parameters: Parameters) -> Node:
    """The query with constants in place of its parameters. Raises UnsupportedQuery."""
    if parameters is None:
        raise UnsupportedQuery(
            "The statement has parameters: give their values beside it, or write them out, as for explain_privacy, "
            "which takes none."
        )
    if not is_given(parameters):
        raise UnsupportedQuery("Values of parameters are a list, for ? and $1, or a dictionary, for $name.")
    copy = copied(query)
    nodes = nodes_of(copy, exp.Placeholder, exp.Parameter)
    if len({_name(node) for node in nodes}) < len(parameters):
        raise UnsupportedQuery("There are more values than parameters in the statement: give one for each.")
    for node in nodes:
        constant = _constant(_value(node, parameters))
        stands_for(constant, node)
        node.replace(constant)
    return copy


def is_given(parameters: Any) -> bool:
    """Whether something can be the values of parameters."""
    return isinstance(parameters, Mapping | Sequence) and not isinstance(parameters, str | bytes)


def _name(node: Node) -> str:
    return node.this.name if isinstance(node.this, ROOT) else str(node.this or "")


def _value(node: Node, parameters: Sequence[Any] | Mapping[str, Any]) -> Any:
    name = _name(node)
    try:
        if isinstance(parameters, Mapping):
            return parameters[name]
        if name.isdigit() and int(name) > 0:
            return parameters[int(name) - 1]
    except (KeyError, IndexError):
        pass
    raise UnsupportedQuery("A parameter of the statement has no value: give one for each, in order or by its name.")


def _constant(value: Any) -> Node:
    """A value as a constant with its type."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return _signed(str(abs(value)), negative=value < 0)
    if isinstance(value, Decimal) and value.is_finite():
        return _signed(f"{abs(value):f}", negative=value < 0)
    if isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value:
        return exp.Literal.string(value)
    if isinstance(value, list | tuple) and len(value) <= _MOST_ITEMS:
        return exp.Array(expressions=list(map(_constant, value)))
    typed = _typed(value)
    if typed is None:
        raise UnsupportedQuery(
            "A parameter of a statement about a protected table is NULL, a truth value, a number, a text of up to "
            f"{_LONGEST:,} characters, a date, a time without time zone, a timestamp, a UUID or a time span, or a list "
            "of these."
        )
    written, kind = typed
    return exp.Cast(this=exp.Literal.string(written), to=exp.DataType.build(kind, dialect=DIALECT))


def _signed(digits: str, *, negative: bool) -> Node:
    number = exp.Literal.number(digits)
    return exp.Neg(this=number) if negative else number


def _typed(value: Any) -> tuple[str, str] | None:
    """The text and the type of a constant that is written with its type."""
    if isinstance(value, float):
        return repr(value), "DOUBLE"
    if isinstance(value, UUID):
        return str(value), "UUID"
    if isinstance(value, datetime):
        return value.isoformat(sep=" "), "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    if isinstance(value, date):
        return value.isoformat(), "DATE"
    if isinstance(value, time):
        return (value.isoformat(), "TIME") if value.tzinfo is None else None
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds", "INTERVAL"
    own, kind = getattr(value, "object", None), str(getattr(value, "type", ""))
    return (own, kind) if isinstance(own, str) and kind in _OWN_TYPES else None
