"""Groups within a unit: keys and aggregates, as SQL that cannot fail and does not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

from duckanon.catalog.names import quoted
from duckanon.catalog.types import FLOATS, WHOLE, digits
from duckanon.rewrite.algebra.constants import in_sql
from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    Aggregate,
    Coalesce,
    Column,
    Constant,
    Direction,
    Expr,
    Window,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal, scalar, written
from duckanon.rewrite.algebra.forms import parts_of_tuple
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.possible_values import or_null
from duckanon.units.fields import Bounds, Field, Made
from duckanon.units.relation import Grouped, Joined, Part, Shown
from duckanon.units.scope import NotLocal, Scope
from duckanon.units.values import computed, meeting

# Sums of these could leave the widest type.
_TOO_WIDE = frozenset({"HUGEINT", "UHUGEINT"})
# Sums of decimals have 38 digits: so many values of this width fit into them as no table has.
_DIGITS_OF_ROWS = 14
_WIDEST_DECIMAL = 38 - _DIGITS_OF_ROWS
# Decimals that are kept in 64 bits.
_WIDEST_MEDIAN = 18
# The aggregates that show a value of the row with the least or the largest of another, and which of both.
EXTREME_BY = {
    **dict.fromkeys(("arg_min", "argmin", "min_by"), "min"),
    **dict.fromkeys(("arg_max", "argmax", "max_by"), "max"),
}
# The aggregates that show a value of the first or the last row in an order.
IN_ORDER = ("first", "last", "any_value")
# Those whose value is that of a row.
_OF_ONE_ROW = ("min", "max", *EXTREME_BY, *IN_ORDER)


def _columns(exprs: Iterable[Expr]) -> list[Column]:
    return [node for expr in exprs for node in walk(expr) if isinstance(node, Column)]


class Groups:
    """Groups of a relation's rows: those of each unit apart. They get keys and aggregates, then the relation."""

    def __init__(self, scope: Scope, made: Made) -> None:
        self._scope, self._made = scope, made
        self.fields: dict[str, Field] = {}
        self.keys: list[Shown] = []
        self._aggregates: list[Shown] = []
        self._columns: dict[Expr, Column] = {}
        # The aggregates that are 0 where there is no row.
        self._counts: set[str] = set()

    def key(self, expr: Expr, *, is_new: bool = False) -> str:
        """The column of the groups that has a key. is_new: whether it gets a name of its own."""
        if isinstance(expr, Column):
            name = self._scope.new_name(expr.name) if is_new else expr.name
            sql, self.fields[name] = quoted([expr.name]), self._made.fields[expr.name]
        else:
            name = self._scope.new_name("key")
            sql, kind = scalar(expr, self._made.types, self._scope.today)
            self.fields[name] = computed(self._scope, expr, self._made.fields, kind)
        self.keys.append(Shown(name, sql))
        self._columns[expr] = Column(SOMEWHERE, name)
        return name

    def over(self, expr: Expr, *, is_optional: bool = False) -> Expr:
        """An expression over the columns of the groups.

        is_optional: whether there may be no group: then counts are 0, as they are of no rows. Raises NotLocal.
        """

        def change(expression: Expr) -> Expr | None:
            if expression in self._columns:
                column = self._columns[expression]
                counts = is_optional and column.name in self._counts
                return Coalesce((column, Constant("0"))) if counts else column
            if isinstance(expression, Window):
                # Its own function is over rows of the groups.
                return expression.over(expression.call.with_parts(into), into)
            if isinstance(expression, Aggregate):
                self._aggregate(expression)
                return change(expression)
            if isinstance(expression, Column):
                raise NotLocal("A column of the groups is neither a key nor an aggregate.")
            return None

        def into(expression: Expr) -> Expr:
            return rebuilt(expression, change)

        return into(expr)

    def _aggregate(self, call: Aggregate) -> None:
        relation = replace(self._made, fields=meeting(self._scope, self._made.fields, call.where))
        if any(self._scope.is_enum(relation.fields.get(column.name)) for column in _columns(call.order)):
            raise NotLocal("An ENUM is ordered by its list of values, which is not followed: order by another column.")
        of = relation.fields[call.operands[0].name] if call.operands and isinstance(call.operands[0], Column) else None
        of = of or self._computed(call, relation.fields)
        bounds = None if of is None else self._scope.bounds(of)
        found = aggregated(call, relation.types, self._scope.today, relation.rows, bounds)
        name = self._scope.new_name(call.name)
        self._aggregates.append(Shown(name, found.sql()))
        if found.counts:
            self._counts.add(name)
        lacks = None if of is None or bounds is not None or found.bounds is not None else of.origin or of.lacks
        self.fields[name] = Field(found.kind, bounds=found.bounds, never_null=found.counts, lacks=lacks)
        if of is not None and of.origin is not None and call.name in _OF_ONE_ROW:
            # The least of a column's values is one of them, so it has the column's domain.
            # Without a row that meets the conditions it is NULL.
            optional = of.origin.optional or bool(call.where) or call.name in EXTREME_BY
            origin = replace(of.origin, source=self._scope.new_source(), optional=optional)
            self.fields[name] = replace(self.fields[name], origin=origin)
        elif of is not None and call.name in _OF_ONE_ROW:
            listed = or_null(of.listed) if call.where or call.name in EXTREME_BY else of.listed
            never_null = bool(listed) and NULL not in listed
            self.fields[name] = replace(self.fields[name], listed=listed, never_null=never_null, unit=of.unit)
        self._columns[call] = Column(SOMEWHERE, name)

    def _computed(self, call: Aggregate, fields: Mapping[str, Field]) -> Field | None:
        """What is known of what an aggregate is of, where that is computed. fields: of the rows that it is of."""
        if not call.operands:
            return None
        kind = scalar(call.operands[0], self._made.types, self._scope.today)[1]
        return computed(self._scope, call.operands[0], fields, kind)

    def relation(self, where: Sequence[Expr]) -> Grouped:
        """The groups of the rows that meet conditions."""
        made = self._made
        tests = tuple(sorted(self._scope.written(condition, made.fields) for condition in where))
        shown = tuple(Shown(field, quoted([field])) for field in made.fields)
        rows = Joined((Part(made.relation, unit=made.shows_unit),), tests, shown) if tests else made.relation
        return Grouped(rows, tuple(self.keys), tuple(self._aggregates), made.shows_unit)


@dataclass(frozen=True)
class Aggregated:
    """An aggregate of a group: its call and type. bounds: of its value, if the values that it is of have bounds.

    counts: whether it is 0, not NULL, where there is no row. is_cast: whether the call has another type.
    """

    call: str
    kind: str
    bounds: Bounds | None = None
    counts: bool = False
    is_cast: bool = False

    def sql(self, over: str = "") -> str:
        """It as SQL. over: a window."""
        called = f"{self.call} {over}" if over else self.call
        return f"CAST({called} AS {self.kind})" if self.is_cast else called


def aggregated(call: Aggregate, types: Mapping[str, str], today: date, rows: int, bounds: Bounds | None) -> Aggregated:
    """An aggregate over the rows of a unit. rows: how many of them count, at most. bounds: of what it is of.

    Counts and sums are not cut to `rows`; their bounds are what they are clamped to where numbers leave the unit.
    Raises NotTotal for aggregates that could fail, or whose value depends on the order of rows.
    """
    of_one_row = _of_one_row(call)
    if of_one_row is not None:
        return of_one_row(call, types, today, bounds)
    where = " AND ".join(written(expression, types, today) for expression in in_order(call.where))
    kept = f" FILTER (WHERE {where})" if where else ""
    if call.order or len(call.operands) > 1:
        raise NotTotal(
            "An aggregate within a unit has one argument and no order: use count, sum, avg, min or max, and for the "
            "value of a first or last row arg_min, arg_max, first(x ORDER BY y) or last(x ORDER BY y)."
        )
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
        case "sum":
            return _sum(value, kind, kept, bounds, rows)
        case "avg":
            # It is a quotient of an exact sum, so it is total where a sum is.
            value, _ = _narrow(value, kind, bounds)
            return Aggregated(f"system.main.avg({value}){kept}", "DOUBLE", bounds and _finer(bounds))
        case "median" if _has_median(kind):
            own = digits(kind) is not None
            text = f"system.main.median({value}){kept}"
            return Aggregated(text, kind if own else "DOUBLE", bounds if own or bounds is None else _finer(bounds))
        case "min" | "max":
            return Aggregated(f"system.main.{call.name}({value}){kept}", kind, bounds)
        case "bool_and" | "bool_or" if kind == "BOOLEAN":
            return Aggregated(f"system.main.{call.name}({value}){kept}", kind)
    raise NotTotal(_not_computed(call, kind))


def _not_computed(call: Aggregate, kind: str) -> str:
    """That an aggregate of values of a type is not computed within a unit, and what is."""
    if call.name == "median" and kind in FLOATS:
        return (
            "Within a unit medians are of whole numbers and decimals: of floats ask for min or max, or the steward for "
            "a column of DECIMALs."
        )
    name = f"{call.name} of different values" if call.distinct else call.name
    if call.name == "any_value":
        name = "The value of any of several rows, as by any_value or DISTINCT ON,"
    return (
        f"{name} is not computed within a unit: count, sum of whole numbers and decimals, avg, median, min, max, "
        "bool_and and bool_or are."
    )


def _sum(value: str, kind: str, kept: str, bounds: Bounds | None, rows: int) -> Aggregated:
    """The sum of a value. kept: its FILTER. Raises NotTotal."""
    value, kind = _narrow(value, kind, bounds)
    text, decimal = f"system.main.sum({value}){kept}", digits(kind)
    if decimal is None:
        return Aggregated(text, "HUGEINT", _of_sum(bounds, rows))
    # No more digits than sums of so many records have: so that they are computed with.
    kind = f"DECIMAL({decimal[0] + _DIGITS_OF_ROWS},{decimal[1]})"
    return Aggregated(text, kind, _of_sum(bounds, rows), is_cast=True)


def _of_one_row(call: Aggregate) -> Callable[[Aggregate, Mapping[str, str], date, Bounds | None], Aggregated] | None:
    """What writes an aggregate that shows a value of one row; None for other aggregates."""
    if call.distinct:
        return None
    if call.name in IN_ORDER and call.order and len(call.operands) == 1:
        return _of_first_row
    return _of_extreme_row if call.name in EXTREME_BY and len(call.operands) == 2 and not call.order else None


def _of_extreme_row(call: Aggregate, types: Mapping[str, str], today: date, bounds: Bounds | None) -> Aggregated:
    """The value of the row that has the least or the largest of another, as arg_min and arg_max have it.

    Of rows that tie it is that of the least or the largest value, so that it does not depend on their order.
    """
    value, kind = scalar(call.operands[0], types, today)
    by = parts_of_tuple(call.operands[1])
    places = [scalar(expression, types, today)[0] for expression in by or call.operands[1:]]
    met = [written(expression, types, today) for expression in in_order(call.where)]
    # A tuple is not NULL, whatever is in it.
    met += [] if by else [f"{places[0]} IS NOT NULL"]
    where = " AND ".join([*met, f"{value} IS NOT NULL"])
    order = ", ".join(f"a{at} := {place}" for at, place in enumerate(places))
    row = f"system.main.struct_pack({order}, b := {value})"
    text = f"system.main.{EXTREME_BY[call.name]}({row}) FILTER (WHERE {where})"
    return Aggregated(f"system.main.struct_extract({text}, 'b')", kind, bounds)


def _of_first_row(call: Aggregate, types: Mapping[str, str], today: date, bounds: Bounds | None) -> Aggregated:
    """The value of the first or the last row in an order, which goes on by all columns: so only equal rows tie."""
    value, kind = scalar(call.operands[0], types, today)
    met = [written(expression, types, today) for expression in in_order(call.where)]
    if call.name == "any_value":
        met.append(f"{value} IS NOT NULL")
    ways = call.directions or (Direction(),) * len(call.order)
    order = [
        f"{scalar(one, types, today)[0]} {'DESC' if way.descending else 'ASC'} "
        f"NULLS {'FIRST' if way.nulls_first else 'LAST'}"
        for one, way in zip(call.order, ways, strict=True)
    ]
    order += [f"{quoted([kind])} ASC NULLS LAST" for kind in sorted(types)]
    kept = f" FILTER (WHERE {' AND '.join(met)})" if met else ""
    name = "last" if call.name == "last" else "first"
    return Aggregated(f"system.main.{name}({value} ORDER BY {', '.join(order)}){kept}", kind, bounds)


def _has_median(kind: str) -> bool:
    """Whether the median of values of a type has a value whatever they are: two of them are subtracted in 64 bits."""
    decimal = digits(kind)
    return decimal[0] <= _WIDEST_MEDIAN if decimal is not None else kind in WHOLE and kind not in _TOO_WIDE


def _narrow(value: str, kind: str, bounds: Bounds | None) -> tuple[str, str]:
    """What is added up, as SQL of a type of which DuckDB's own sum cannot overflow. Raises NotTotal.

    Wide decimals are clamped to their bounds.
    """
    decimal = digits(kind)
    if decimal is None:
        if kind in WHOLE and kind not in _TOO_WIDE:
            return value, kind
        raise NotTotal(
            "Within a unit whole numbers and decimals are added up, for sums and averages: a sum of others depends on "
            "their order. Of floats ask for min or max, or the steward for a column of DECIMALs."
        )
    width, scale = decimal
    if width <= _WIDEST_DECIMAL:
        return value, kind
    ends = None if bounds is None else bounds[:2]
    if ends is None or any((end * 10**scale).denominator != 1 for end in ends):
        raise NotTotal(
            "A sum of decimals of so many digits could overflow within a unit: bounds for all columns in it, or a cast "
            "to a narrower type, bound it."
        )
    needed = max(len(str(int(max(map(abs, ends)) * 10**scale))), scale)
    if needed > _WIDEST_DECIMAL:
        raise NotTotal("A sum of numbers with so wide bounds could overflow within a unit: round what is added up.")
    low, high = (in_sql(end, kind) for end in ends)
    clamped = f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {value} END"
    narrow = f"DECIMAL({needed},{scale})"
    return f"CAST({clamped} AS {narrow})", narrow


def _of_sum(bounds: Bounds | None, rows: int) -> Bounds | None:
    """The bounds of a sum of so many values at most, and of one at least."""
    if bounds is None:
        return None
    low, high, step = bounds
    return min(low, low * rows), max(high, high * rows), step


def _finer(bounds: Bounds) -> Bounds:
    """A mean lies between steps."""
    return bounds[0], bounds[1], bounds[2] / 100
