"""Windows within a unit: numbers, ranks, earlier and later values, and running totals over the rows of one unit.

Where a value depends on the order of rows, ORDER BY is extended by all columns of the row: then only equal rows tie,
and whichever of these comes first, the rows are the same. Ranks and frames that end at equal values stay as they are
written: extended, they would have other values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from duckanon.catalog.names import fold, quoted
from duckanon.rewrite.algebra.constants import Value, folded
from duckanon.rewrite.algebra.expressions import (
    SOMEWHERE,
    Aggregate,
    Column,
    Comparison,
    Constant,
    Direction,
    Expr,
    Window,
    WindowFunction,
    is_windowed,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.possible_values import in_order, or_null
from duckanon.rewrite.algebra.relations import Block, Output, Source
from duckanon.rewrite.algebra.scalars import of_constant
from duckanon.rewrite.normalize.windows import distinct_on
from duckanon.units.fields import UNIT_ITSELF, Field, Made
from duckanon.units.grouping import EXTREME_BY, aggregated
from duckanon.units.relation import UNIT, Shown, Windowed
from duckanon.units.scope import NotLocal, Scope
from duckanon.units.values import computed

_ACROSS = (
    "A window over records of several units is not computed within a unit: add the unit's column to its PARTITION BY."
)
_RANKED = (
    "A window over records of several units is not computed within a unit: add the unit's column to its PARTITION BY, "
    "or for percentiles ask for quantile_cont of what it is ordered by."
)
_FRAME = (
    "This frame is not followed within a unit: write ROWS with whole numbers, or RANGE or GROUPS from UNBOUNDED "
    "PRECEDING to CURRENT ROW or UNBOUNDED FOLLOWING."
)
_UNORDERED = "GROUPS needs an ORDER BY."
# Shares of a unit's rows are rounded to this where they leave the unit.
_SHARE = Fraction(1, 1000)
# The largest offset, and the largest number of parts of ntile.
_MOST = 1_000_000
_RANKS = {
    "rank": "BIGINT",
    "dense_rank": "BIGINT",
    "rank_dense": "BIGINT",
    "percent_rank": "DOUBLE",
    "cume_dist": "DOUBLE",
}
_END = r"(UNBOUNDED PRECEDING|\d{1,6} PRECEDING|CURRENT ROW|\d{1,6} FOLLOWING|UNBOUNDED FOLLOWING)"
_FRAMES = re.compile(rf"(ROWS|RANGE|GROUPS) BETWEEN {_END} AND {_END}")
_ENDS = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")
_WHOLE = "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def as_grouped(block: Block, number: int) -> Block:
    """DISTINCT of what windows computed, or of rows that they chose, as groups of these rows.

    number: of a source that the statement does not have.
    """
    is_computed = block.qualify or any(is_windowed(output.expr) for output in block.outputs)
    names = [fold(output.name) for output in block.outputs]
    is_whole = block.distinct is not None and set(block.distinct) == {output.expr for output in block.outputs}
    if not is_computed or not is_whole or len(set(names)) < len(names) or block.limited:
        return block
    columns = [Column(number, name) for name in names]
    outputs = tuple(Output(output.name, column) for output, column in zip(block.outputs, columns, strict=True))
    return Block((Source(number, replace(block, distinct=None, order=())),), outputs, keys=tuple(columns))


def as_first_rows(block: Block) -> Block:
    """DISTINCT ON as the first row of each. Raises NotLocal where it is of what windows computed."""
    on = distinct_on(block)
    if block.distinct and (on is None or block.qualify or any(is_windowed(output.expr) for output in block.outputs)):
        raise NotLocal(
            "DISTINCT of what windows computed is not followed within a unit: group by the columns around it."
        )
    if on is None:
        return block
    window = Window(WindowFunction("row_number"), frozenset(on.keys), on.order, directions=on.directions)
    return replace(block, distinct=None, qualify=frozenset([Comparison("=", window, Constant("1"))]))


def first_rows(block: Block, partition: Iterable[Expr]) -> Block:
    """LIMIT as a condition on row numbers in the order of ORDER BY, in each part of what a block reads.

    Raises NotLocal where it is no constant number of rows, or of what windows and DISTINCT leave.
    """
    if block.first is None or block.qualify or block.distinct is not None or block.sets is not None:
        raise NotLocal(
            "LIMIT is followed within a unit where it is a number, without OFFSET, DISTINCT and QUALIFY beside it: "
            "number the rows by row_number(), and keep those up to a number."
        )
    most, directions = block.first
    window = Window(WindowFunction("row_number"), frozenset(partition), block.order, directions=directions)
    kept = frozenset([Comparison("<=", window, Constant(str(most)))])
    return replace(block, qualify=kept, limited=False, first=None, order=())


def numbered(made: Made, conditions: Iterable[Expr]) -> Made:
    """What is known of rows that meet conditions on row numbers: one with a given number, or so many up to it."""
    unique, rows = set(made.unique), made.rows
    for condition in conditions:
        match condition:
            case Comparison("=" | "<=" | "<" as operator, Column(name=name), Constant(text, False)) if text.isdigit():
                within = made.fields[name].numbers if name in made.fields else None
            case _:
                continue
        if within is None:
            continue
        most = 1 if operator == "=" else max(1, int(text) - (operator == "<"))
        if most == 1:
            unique.add(within)
        if not within:
            rows = min(rows, most)
    return replace(made, rows=rows, unique=frozenset(unique))


class Windows:
    """A relation's rows with columns for windows over them. made: the rows that meet the conditions of WHERE."""

    def __init__(self, scope: Scope, made: Made) -> None:
        self._scope, self._rows = scope, made
        self._fields = dict(made.fields)
        self._unique = set(made.unique)
        self._shown: list[Shown] = []
        self._columns: dict[Expr, Column] = {}

    def over(self, expr: Expr) -> Expr:
        """An expression over the rows' columns, with those of windows. Raises NotLocal and NotTotal."""

        def change(expression: Expr) -> Expr | None:
            if not isinstance(expression, Window):
                return None
            if expression not in self._columns:
                self._columns[expression] = self._column(expression)
            return self._columns[expression]

        return rebuilt(expr, change)

    def made(self) -> Made:
        """The rows with all columns that were asked for."""
        relation = Windowed(self._rows.relation, tuple(self._shown))
        return replace(self._rows, relation=relation, fields=self._fields, unique=frozenset(self._unique))

    def _column(self, window: Window) -> Column:
        self._check(window)
        call = window.call
        name = self._scope.new_name(call.name if isinstance(call, Aggregate | WindowFunction) else "window")
        if isinstance(call, WindowFunction):
            sql, field = self._of_function(window, call)
        elif isinstance(call, Aggregate) and not window.skips_nulls:
            sql, field = self._of_aggregate(window, call)
        else:
            raise NotLocal(
                "This window is not followed within a unit: use an aggregate, row_number, rank, lag or lead."
            )
        self._shown.append(Shown(name, sql))
        self._fields[name] = field
        if field.numbers is not None:
            self._unique.add(field.numbers | {name})
        return Column(SOMEWHERE, name)

    def _check(self, window: Window) -> None:
        rows = self._rows
        columns = {column.name for column in window.partition if isinstance(column, Column)}
        if rows.has_unit and not any(set(names) <= columns for names in rows.fixes.values()):
            raise NotLocal(_RANKED if window.order and isinstance(window.call, WindowFunction) else _ACROSS)
        parts = [part for expression in window.order for part in walk(expression) if isinstance(part, Column)]
        if any(self._scope.is_enum(self._fields.get(part.name)) for part in parts):
            raise NotLocal(
                "An ENUM is ordered by its list of values, which is not followed in a window: order by another column."
            )

    # --- functions ----------------------------------------------------------------------------------------------------

    def _of_function(self, window: Window, call: WindowFunction) -> tuple[str, Field]:
        numbers, values = (Fraction(0), Fraction(self._rows.rows), Fraction(1)), call.operands
        if call.name in ("lag", "lead", "first_value", "last_value", "nth_value") and values:
            return self._of_value(window, call)
        if not window.skips_nulls:
            # Of these a frame makes no difference.
            if call.name == "row_number" and not values:
                field = Field("BIGINT", bounds=numbers, never_null=True, numbers=self._partition(window))
                return f"system.main.row_number() {self._over(window, extended=True)}", field
            if call.name in _RANKS and not values:
                kind = _RANKS[call.name]
                bounds = numbers if kind == "BIGINT" else (Fraction(0), Fraction(1), _SHARE)
                sql = f"system.main.{call.name}() {self._over(window, extended=False)}"
                return sql, Field(kind, bounds=bounds, never_null=True)
            if call.name == "ntile" and len(values) == 1:
                parts = self._whole(values[0], 1, "ntile takes a whole number of at least 1.")
                sql = f"system.main.ntile({parts}) {self._over(window, extended=True)}"
                return sql, Field("BIGINT", bounds=(numbers[0], Fraction(parts), numbers[2]), never_null=True)
        raise NotLocal(
            f"{call.name} with these arguments is not followed within a unit: row_number, rank, "
            "dense_rank, ntile, lag, lead, first_value, last_value and aggregates are."
        )

    def _partition(self, window: Window) -> frozenset[str] | None:
        """The columns beside the unit within which rows are numbered; None where they are no columns."""
        if not all(isinstance(expression, Column) for expression in window.partition):
            return None
        names = frozenset(column.name for column in window.partition if isinstance(column, Column))
        return names - set(self._rows.fixes.get(UNIT_ITSELF, ())) if self._rows.has_unit else names

    def _of_value(self, window: Window, call: WindowFunction) -> tuple[str, Field]:
        """The value that an expression has in another row."""
        value, *more = call.operands
        sql, kind = scalar(value, self._rows.types, self._scope.today)
        arguments, field, number = [sql], self._elsewhere(value, kind), 1
        if call.name in ("lag", "lead"):
            if more:
                arguments.append(str(self._whole(more[0], 0, f"{call.name} takes a constant whole number of rows.")))
            if len(more) > 1:
                default, field = self._default(more[1], kind, field)
                arguments.append(default)
        elif call.name == "nth_value":
            if len(more) != 1:
                raise NotLocal("nth_value takes a value and a number.")
            number = self._whole(more[0], 1, "nth_value takes a constant whole number of at least 1.")
            arguments.append(str(number))
        nulls = " IGNORE NULLS" if window.skips_nulls else ""
        written = f"system.main.{call.name}({', '.join(arguments)}{nulls})"
        if call.name in ("lag", "lead"):
            return f"{written} {self._over(window, extended=True)}", field
        is_last = call.name == "last_value"
        return self._in_frame(window, written, None if is_last else (sql if nulls else "*", number)), field

    def _elsewhere(self, value: Expr, kind: str) -> Field:
        """What is known of the value that an expression has in another row, if there is one."""
        if isinstance(value, Column):
            field = self._fields[value.name]
        else:
            field = computed(self._scope, value, self._fields, kind)
        origin = field.origin and replace(field.origin, source=self._scope.new_source(), optional=True)
        return Field(kind, origin, field.bounds, unit=field.unit, listed=or_null(field.listed))

    def _default(self, expr: Expr, kind: str, field: Field) -> tuple[str, Field]:
        """The value where there is no such row, and what is known then."""
        known = folded(expr, self._scope.today)
        if known is not None and known.value is None:
            return f"CAST(NULL AS {kind})", field
        bounds = self._scope.bounds(field)
        listed = in_order([*field.listed, expr]) if field.listed else ()
        if known is None:
            sql, own = scalar(expr, self._rows.types, self._scope.today)
            if own != kind:
                raise NotTotal("The value of lag and lead where there is no row has the type of the others: cast it.")
            return sql, Field(kind)
        return of_constant(known, kind).sql, Field(kind, bounds=_with(bounds, known), listed=listed)

    def _in_frame(self, window: Window, written: str, needs: tuple[str, int] | None) -> str:
        """first_value, last_value or nth_value over a frame. written: the call.

        needs: what is counted in the frame, and how many there must be; None: it is the last value. Where a frame ends
        with the last of the rows that are equal in ORDER BY, the order is not extended in it. There the n-th value is
        that of all rows if the frame has so many, and the last one is that of the equal rows.
        """
        kind, start, end = _ends(window.frame)
        if kind == "ROWS" or (start, end) == (_ENDS[0], _ENDS[-1]):
            return f"{written} {self._over(window, extended=True, frame=window.frame)}"
        if (start, end) != (_ENDS[0], "CURRENT ROW"):
            raise NotLocal(_FRAME)
        if kind == "GROUPS" and not window.order:
            raise NotLocal(_UNORDERED)
        if needs is not None:
            counted, least = needs
            text = f"{written} {self._over(window, extended=True, frame=f'ROWS {_WHOLE}')}"
            has_it = f"system.main.count({counted}) {self._over(window, extended=False, frame=window.frame)} >= {least}"
            return f"CASE WHEN {has_it} THEN {text} END"
        if window.skips_nulls:
            raise NotLocal("last_value with IGNORE NULLS is followed within a unit where its frame is written by ROWS.")
        tied = replace(window, partition=window.partition | set(window.order), order=(), directions=())
        return f"{written} {self._over(tied, extended=True, frame=f'ROWS {_WHOLE}')}"

    def _of_aggregate(self, window: Window, call: Aggregate) -> tuple[str, Field]:
        of = self._fields[call.operands[0].name] if call.operands and isinstance(call.operands[0], Column) else None
        bounds = None if of is None else self._scope.bounds(of)
        if call.name in EXTREME_BY or call.order:
            raise NotLocal(f"{call.name} is not followed over a window: use first_value with ORDER BY in it.")
        found = aggregated(call, self._rows.types, self._scope.today, self._rows.rows, bounds)
        kind, _, _ = _ends(window.frame)
        if kind == "GROUPS" and not window.order:
            raise NotLocal(_UNORDERED)
        over = self._over(window, extended=kind == "ROWS", frame=window.frame)
        origin = None
        if of is not None and of.origin is not None and call.name in ("min", "max"):
            origin = replace(of.origin, source=self._scope.new_source(), optional=True)
        return found.sql(over), Field(found.kind, origin, found.bounds, never_null=found.counts)

    # --- OVER ---------------------------------------------------------------------------------------------------------

    def _over(self, window: Window, *, extended: bool, frame: str = "") -> str:
        """OVER (...). extended: whether all columns of the row come after ORDER BY."""
        rows, today = self._rows, self._scope.today
        by = sorted({scalar(expression, rows.types, today)[0] for expression in window.partition})
        by = [*([quoted([UNIT])] if rows.shows_unit else []), *by]
        ways = window.directions or (Direction(),) * len(window.order)
        order = [
            f"{scalar(one, rows.types, today)[0]} {'DESC' if way.descending else 'ASC'} "
            f"NULLS {'FIRST' if way.nulls_first else 'LAST'}"
            for one, way in zip(window.order, ways, strict=True)
        ]
        if extended:
            order += [f"{quoted([field])} ASC NULLS LAST" for field in sorted(rows.fields)]
        clauses = [f"PARTITION BY {', '.join(by)}"] if by else []
        clauses += [f"ORDER BY {', '.join(order)}"] if order else []
        return f"OVER ({' '.join([*clauses, *([frame] if frame else [])])})"

    def _whole(self, expr: Expr, least: int, otherwise: str) -> int:
        """A constant whole number. Raises NotLocal."""
        value = folded(expr, self._scope.today)
        number = value.value if value is not None else None
        if not isinstance(number, Fraction) or number.denominator != 1 or not least <= number <= _MOST:
            raise NotLocal(otherwise)
        return int(number)


def _ends(frame: str) -> tuple[str, str, str]:
    """The kind of a frame, and where it starts and ends, without numbers. Raises NotLocal."""
    if not frame:
        return "RANGE", _ENDS[0], "CURRENT ROW"
    match = _FRAMES.fullmatch(frame)
    if match is None:
        raise NotLocal(_FRAME)
    kind, *ends = match.groups()
    start, end = (re.sub(r"^\d+ ", "", end) for end in ends)
    is_numbered = any(end[0].isdigit() for end in ends)
    if (is_numbered and kind == "RANGE") or _ENDS.index(start) > _ENDS.index(end):
        raise NotLocal(_FRAME)
    return kind, start, end


def _with(
    bounds: tuple[Fraction, Fraction, Fraction] | None, value: Value
) -> tuple[Fraction, Fraction, Fraction] | None:
    """Bounds that hold for a constant too."""
    if bounds is None or not isinstance(value.value, Fraction):
        return None
    low, high, step = bounds
    return (min(low, value.value), max(high, value.value), step) if value.value % step == 0 else None
