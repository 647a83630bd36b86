"""The types of a statement's parameters, from what they are compared with, cast to or stored in.

DuckDB cannot say them before it has values. A parameter whose type is not found is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import fold
from duckanon.server.lexer import parameters

# The types of the columns of each table, by folded names, in order; tables without their schemas.
Columns: TypeAlias = Mapping[str, Mapping[str, str]]
_Node: TypeAlias = Any
_PAIRS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
)
_TEXTS = (exp.Like, exp.ILike, exp.DPipe, exp.SimilarTo)
# sqlglot's short names of types.
_SHOWN_AS = {
    "INT": "INTEGER",
    "REAL": "FLOAT",
    "TEXT": "VARCHAR",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
}
_FAILURES = (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError)


def parameter_types(text: str, columns: Columns) -> list[str]:
    """The DuckDB types of $1, $2, ... in a statement."""
    count = parameters(text)
    if not count:
        return []
    texts = [""] * count
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
        scope = _Scope(tree, columns)
        for node in tree.find_all(exp.Parameter, exp.Placeholder):
            number = _number(node)
            if 0 < number <= count:
                texts[number - 1] = texts[number - 1] or scope.wanted(node)
    except _FAILURES:
        pass
    return [text or "VARCHAR" for text in texts]


def _number(node: _Node) -> int:
    said = node.name or str(node.this or "")
    return int(said) if said.isdecimal() else 0


def _kind(cast: _Node) -> str:
    """The type of a cast, by the name that DuckDB shows."""
    written = str(cast.to.sql("duckdb"))
    base = written.partition("(")[0].rstrip("[]0123456789")
    return _SHOWN_AS.get(base, base) + written[len(base) :]


def _is_quantifier(node: _Node) -> bool:
    """Whether it is ALL or SOME of a list, which sqlglot takes for a function."""
    return isinstance(node, exp.Anonymous) and fold(node.name) in ("all", "some", "any") and len(node.expressions) == 1


class _Scope:
    """The tables that a statement names, and the known types of their columns."""

    def __init__(self, tree: _Node, columns: Columns) -> None:
        self._columns, self._tables = columns, {}
        for table in tree.find_all(exp.Table):
            self._tables[fold(table.alias_or_name)] = columns.get(fold(table.name), {})

    def wanted(self, node: _Node) -> str:
        """The type that a parameter should have; '' if it is not known."""
        above = node.parent
        while isinstance(above, exp.Paren | exp.Neg):
            node, above = above, above.parent
        if isinstance(above, exp.Cast):
            return _kind(above)
        if isinstance(above, exp.Limit | exp.Offset):
            return "BIGINT"
        if isinstance(above, _TEXTS):
            return "VARCHAR"
        if isinstance(above, exp.Any | exp.All) or _is_quantifier(above):
            listed = self.wanted(above)
            return f"{listed}[]" if listed else ""
        if isinstance(above, _PAIRS):
            return self._type(above.expression if above.this is node else above.this)
        if isinstance(above, exp.Between | exp.In):
            parts = [above.this, above.args.get("low"), above.args.get("high"), *above.expressions]
            return next(
                (kind for part in parts if part is not None and part is not node and (kind := self._type(part))), ""
            )
        if isinstance(above, exp.Coalesce):
            parts = [above.this, *above.expressions]
            types = [kind for part in parts if part is not node and (kind := self._type(part))]
            return types[0] if types else self.wanted(above)
        return self._stored(node, above)

    def _stored(self, node: _Node, above: _Node) -> str:
        """The type of the column in which an INSERT stores a parameter."""
        insert = node.find_ancestor(exp.Insert)
        row = isinstance(above, exp.Tuple) and isinstance(above.parent, exp.Values)
        if insert is None or not (row or (isinstance(above, exp.Select) and above.parent is insert)):
            return ""
        target = insert.this
        table = self._columns.get(fold((target.this if isinstance(target, exp.Schema) else target).name), {})
        names = (
            [fold(expression.name) for expression in target.expressions]
            if isinstance(target, exp.Schema)
            else list(table)
        )
        place = next(at for at, expression in enumerate(above.expressions) if expression is node)
        return table.get(names[place], "") if place < len(names) else ""

    def _type(self, node: _Node) -> str:
        """The type of an expression, if it is simple enough to be known."""
        if isinstance(node, exp.Paren | exp.Neg | exp.Min | exp.Max | exp.Any):
            return self._type(node.this)
        if isinstance(node, exp.Cast):
            return _kind(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal):
            whole = str(node.this).isdecimal()
            return "VARCHAR" if node.is_string else "BIGINT" if whole else "DOUBLE"
        if isinstance(node, exp.Boolean):
            return "BOOLEAN"
        if isinstance(node, exp.Count | exp.Length):
            return "BIGINT"
        if isinstance(node, exp.Lower | exp.Upper | exp.Trim | exp.Substring | exp.DPipe | exp.Concat):
            return "VARCHAR"
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
            return self._type(node.this) or self._type(node.expression)
        return ""

    def _column(self, node: _Node) -> str:
        name, table = fold(node.name), fold(node.table)
        if table in self._tables:
            return self._tables[table].get(name, "")
        kinds = {kind for table in self._tables.values() if (kind := table.get(name))}
        return kinds.pop() if len(kinds) == 1 else ""
