"""Groups within a unit: keys and aggregates, as SQL that cannot fail and does not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

from duckanon.catalog.names import quoted
from duckanon.rewrite.algebra.constants import WHOLE, digits
from duckanon.rewrite.algebra.expressions import SOMEWHERE, Aggregate, Coalesce, Column, Constant, Expr, rebuilt
from duckanon.rewrite.algebra.filters import NotTotal, scalar, written
from duckanon.rewrite.algebra.order import in_order
from duckanon.units.fields import Bounds, Field, Made
from duckanon.units.relation import Grouped, Joined, Part, Shown
from duckanon.units.scope import NotLocal, Scope

# Sums of these could leave the widest type.
_TOO_WIDE = frozenset({"HUGEINT", "UHUGEINT"})
# Sums of decimals have 38 digits: so many values of this width fit into them as no table has.
_WIDEST_DECIMAL = 24


class Groups:
    """Groups of a relation's rows: those of each unit apart. They get keys and aggregates, then the relation."""

    def __init__(self, scope: Scope, made: Made) -> None:
        self._scope, self._made = scope, made
        self.fields: dict[str, Field] = {}
        self.keys: list[Shown] = []
        self._aggregates: list[Shown] = []
        self._columns: dict[Expr, Column] = {}

    def key(self, expr: Expr, *, is_new: bool = False) -> str:
        """The column of the groups that has a key. is_new: whether it gets a name of its own."""
        if isinstance(expr, Column):
            name = self._scope.new_name(expr.name) if is_new else expr.name
            sql, self.fields[name] = quoted([expr.name]), self._made.fields[expr.name]
        else:
            name = self._scope.new_name("key")
            sql, kind = scalar(expr, self._made.types, self._scope.today)
            self.fields[name] = Field(kind)
        self.keys.append(Shown(name, sql))
        self._columns[expr] = Column(SOMEWHERE, name)
        return name

    def over(self, expr: Expr, *, is_optional: bool = False) -> Expr:
        """An expression over the columns of the groups.

        is_optional: whether there may be no group: then counts are 0, as they are of no rows. Raises NotLocal.
        """

        def change(one: Expr) -> Expr | None:
            if one in self._columns:
                column = self._columns[one]
                counts = is_optional and self.fields[column.name].never_null
                return Coalesce((column, Constant("0"))) if counts else column
            if isinstance(one, Aggregate):
                self._aggregate(one)
                return change(one)
            if isinstance(one, Column):
                raise NotLocal("A column of the groups is neither a key nor an aggregate.")
            return None

        return rebuilt(expr, change)

    def _aggregate(self, call: Aggregate) -> None:
        made = self._made
        of = made.fields[call.operands[0].name] if call.operands and isinstance(call.operands[0], Column) else None
        bounds = None if of is None else self._scope.bounds(of)
        found = aggregated(call, made.types, self._scope.today, made.rows, bounds)
        name = self._scope.new_name(call.name)
        self._aggregates.append(Shown(name, found.sql))
        self.fields[name] = Field(found.kind, bounds=found.bounds, never_null=found.counts)
        if of is not None and of.origin is not None and call.name in ("min", "max"):
            # The least of a column's values is one of them, so it has the column's domain.
            origin = replace(of.origin, source=self._scope.new_source())
            self.fields[name] = replace(self.fields[name], origin=origin)
        self._columns[call] = Column(SOMEWHERE, name)

    def relation(self, where: Sequence[Expr]) -> Grouped:
        """The groups of the rows that meet conditions."""
        made = self._made
        tests = tuple(sorted(self._scope.written(one, made.fields) for one in where))
        shown = tuple(Shown(one, quoted([one])) for one in made.fields)
        rows = Joined((Part(made.relation, unit=made.shows_unit),), tests, shown) if tests else made.relation
        return Grouped(rows, tuple(self.keys), tuple(self._aggregates), made.shows_unit)


@dataclass(frozen=True)
class Aggregated:
    """An aggregate of a group: its SQL and type. bounds: of its value, if the values that it is of have bounds.

    counts: whether it is 0, not NULL, where there is no row.
    """

    sql: str
    kind: str
    bounds: Bounds | None = None
    counts: bool = False


def aggregated(call: Aggregate, types: Mapping[str, str], today: date, rows: int, bounds: Bounds | None) -> Aggregated:
    """An aggregate over the rows of a unit. rows: how many of them count, at most. bounds: of what it is of.

    Counts and sums are not cut to `rows`; their bounds are what they are clamped to where numbers leave the unit.
    Raises NotTotal for aggregates that could fail, or whose value depends on the order of rows.
    """
    where = " AND ".join(written(one, types, today) for one in in_order(call.where))
    kept = f" FILTER (WHERE {where})" if where else ""
    if call.order or len(call.operands) > 1:
        raise NotTotal("An aggregate within a unit has one argument and no order: use count, sum, avg, min or max.")
    counted = (Fraction(0), Fraction(rows), Fraction(1))
    if not call.operands:
        return Aggregated(f"system.main.count(*){kept}", "BIGINT", counted, counts=True)
    value, kind = scalar(call.operands[0], types, today)
    if call.distinct and call.name not in ("count", "min", "max"):
        raise NotTotal("Within a unit different values are only counted: leave DISTINCT out.")
    match call.name:
        case "count":
            distinct = "DISTINCT " if call.distinct else ""
            return Aggregated(f"system.main.count({distinct}{value}){kept}", "BIGINT", counted, counts=True)
        case "sum" if not call.distinct:
            return Aggregated(f"system.main.sum({value}){kept}", _type_of_sum(kind), _of_sum(bounds, rows))
        case "avg" if not call.distinct:
            # It is a quotient of an exact sum, so it is total where a sum is.
            _type_of_sum(kind)
            return Aggregated(f"system.main.avg({value}){kept}", "DOUBLE", bounds and _finer(bounds))
        case "min" | "max":
            return Aggregated(f"system.main.{call.name}({value}){kept}", kind, bounds)
        case "bool_and" | "bool_or" if kind == "BOOLEAN":
            return Aggregated(f"system.main.{call.name}({value}){kept}", kind)
    name = f"{call.name} of different values" if call.distinct else call.name
    if call.name == "any_value":
        name = "The value of any of several rows, as by any_value or DISTINCT ON,"
    raise NotTotal(
        f"{name} is not computed within a unit: count, sum of whole numbers and decimals, avg, min, max, bool_and "
        "and bool_or are."
    )


def _type_of_sum(kind: str) -> str:
    """DuckDB's type for a sum. Raises NotTotal."""
    decimal = digits(kind)
    if decimal is not None and decimal[0] <= _WIDEST_DECIMAL:
        return f"DECIMAL(38,{decimal[1]})"
    if kind in WHOLE and kind not in _TOO_WIDE:
        return "HUGEINT"
    raise NotTotal("Within a unit whole numbers and decimals are added up: a sum of others depends on their order.")


def _of_sum(bounds: Bounds | None, rows: int) -> Bounds | None:
    """The bounds of a sum of so many values at most, and of one at least."""
    if bounds is None:
        return None
    low, high, step = bounds
    return min(low, low * rows), max(high, high * rows), step


def _finer(bounds: Bounds) -> Bounds:
    """A mean lies between steps."""
    return bounds[0], bounds[1], bounds[2] / 100
