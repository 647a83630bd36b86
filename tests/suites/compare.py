"""Whether an answer without noise is DuckDB's own, for any query: rows in any order, numbers to a step.

LIMIT and OFFSET at the end of a query are left off on both sides, since any of tied rows may be shown, and rows of
zeros, which DuckDB omits, take places. So what is compared is all that a limited answer could show.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from math import isclose, isnan, sqrt
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

Row = tuple[Any, ...]
_STEPS = re.compile(r"to steps of (\d[\d.e+-]*\d|\d)")
_PLACE = re.compile(r"\b(?:RANK|DENSE_RANK|ROW_NUMBER|GROUPING|GROUPING_ID)\(", re.IGNORECASE)
RELATIVE = 1e-9


@dataclass(frozen=True)
class Difference:
    """A row that only one of two answers has. wrong: `missing` in ours, or `too many`."""

    wrong: str
    row: Row


def unlimited(sql: str) -> str:
    """A query without the LIMIT and OFFSET at its end."""
    tree = sqlglot.parse_one(sql, read="duckdb")
    if not (tree.args.get("limit") or tree.args.get("offset")):
        return sql
    tree.set("limit", None)
    tree.set("offset", None)
    return tree.sql(dialect="duckdb")


def step(reasons: Sequence[str]) -> float:
    """The largest step that values are rounded to, as the decision says it; 0 where nothing is rounded."""
    return max((float(one) for reason in reasons for one in _STEPS.findall(reason)), default=0.0)


class Column(StrEnum):
    """What a column of an answer holds. PLACE: a rank or a level of ROLLUP, which rows of zeros have too."""

    KEY = "key"
    MEAN = "mean"
    NUMBER = "number"
    PLACE = "place"


@dataclass(frozen=True)
class Rounding:
    """How far values that are rounded to a step may move an answer: a mean by half a step at most, a sum by chance.

    records: how many there are in a cell at most. A sum of so many errors is within four standard deviations.
    """

    step: float = 0.0
    records: int = 0

    def allowed(self, kind: Column) -> float:
        return self.step / 2 if kind is Column.MEAN else self.step * 4 * sqrt(self.records / 12)


def difference(
    mine: list[Row], theirs: list[Row], kinds: Sequence[Column], rounding: Rounding | None = None
) -> Difference | None:
    """The first row that only one answer has; None where they are equal.

    DuckDB has no row for a cell without records, and we have one with zeros. So a row whose numbers are all zero or
    NULL is equal to none.
    """
    keys = [at for at, kind in enumerate(kinds) if kind is Column.KEY]
    numbers = [at for at, kind in enumerate(kinds) if kind in (Column.MEAN, Column.NUMBER)]
    allowed = [(rounding or Rounding()).allowed(kind) for kind in kinds]
    left: dict[Row, list[Row]] = defaultdict(list)
    for row in map(_plain, mine):
        left[tuple(row[at] for at in keys)].append(row)

    def is_empty(row: Row) -> bool:
        return bool(keys and numbers) and all(_is_nothing(row[at]) for at in numbers)

    for row in map(_plain, theirs):
        candidates = left[tuple(row[at] for at in keys)]
        met = next((one for one in candidates if all(map(_near, one, row, allowed))), None)
        if met is not None:
            candidates.remove(met)
        elif not is_empty(row):
            return Difference("missing", row)
    extra = next((row for rows in left.values() for row in rows if not is_empty(row)), None)
    return None if extra is None else Difference("too many", extra)


def columns(sql: str, schema: Mapping[str, Mapping[str, str]]) -> list[Column]:
    """What the columns of a query's answer hold. schema: of each table its columns with their types.

    A column that an inner query computes is a key where the query around it groups by it.
    """
    tree = sqlglot.parse_one(sql, read="duckdb")
    scope = build_scope(qualify(tree, schema=dict(schema), dialect="duckdb", validate_qualify_columns=False))
    assert scope is not None
    return _columns(scope)


def _columns(scope: Scope) -> list[Column]:
    if scope.set_operation_scopes:
        arms = [_columns(arm) for arm in scope.set_operation_scopes]
        return [next((one for one in of if one is not Column.KEY), Column.KEY) for of in zip(*arms, strict=True)]
    query = scope.expression
    assert isinstance(query, exp.Select)
    groups = query.args.get("group") is not None or any(one.find(exp.AggFunc) for one in query.selects)
    return [_column(one, scope, groups) for one in query.selects]


def _column(value: Any, scope: Scope, groups: bool) -> Column:
    if _PLACE.search(value.sql(dialect="duckdb")):
        return Column.PLACE
    if value.find(exp.AggFunc, exp.Subquery, exp.Window):
        return Column.MEAN if value.find(exp.Avg) and not value.find(exp.Sum, exp.Subquery) else Column.NUMBER
    for column in [] if groups else value.find_all(exp.Column):
        source = scope.sources.get(column.table)
        if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
            names = [one.alias_or_name.lower() for one in source.expression.selects]
            inner = _columns(source)[names.index(column.name.lower())]
            if inner is not Column.KEY:
                return inner
    return Column.KEY


def _plain(row: Row) -> Row:
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        return value.date()
    return value


def _near(mine: Any, theirs: Any, absolute: float) -> bool:
    """Counts are whole numbers, which are never rounded."""
    if isinstance(mine, int | float) and isinstance(theirs, int | float):
        absolute = 0.0 if isinstance(mine, int) and isinstance(theirs, int) else absolute
        return isclose(mine, theirs, rel_tol=RELATIVE, abs_tol=max(absolute, RELATIVE))
    return bool(mine == theirs) or (_is_nothing(mine) and _is_nothing(theirs))


def _is_nothing(value: Any) -> bool:
    return value is None or value == 0 or (isinstance(value, float) and isnan(value))
