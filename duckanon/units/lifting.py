"""What a subquery in FROM computes of its rows, groups and windows, computed around it instead.

`avg(d)` over `max(x) - min(x) AS d` is `avg(a - b)` over `max(x) AS a, min(x) AS b`. So numbers are computed where they
leave the units, and bounds and domains are those of the parts. `strftime(x, '%Y-%m')` as a key is that of the first day
of the month, which is the key instead: as a date it has bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.bounds import truncation
from duckanon.rewrite.algebra.constants import folded
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Column,
    Constant,
    Expr,
    Function,
    Nested,
    Star,
    Unclear,
    Window,
    has,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.moments import Duration
from duckanon.rewrite.algebra.relations import Block, Output, Source, is_protected, repeats
from duckanon.rewrite.algebra.rows import is_closed
from duckanon.rewrite.algebra.scalars import called
from duckanon.rewrite.algebra.written_dates import unit_written

_BARE = (Column, Aggregate, Window)


def lifted(block: Block, is_across: Callable[[Block], bool]) -> Block:
    """The block around sources that compute nothing of their rows, groups and windows.

    is_across: whether a block groups records of several units, which is answered as it is written.
    """
    for source in block.sources:
        if source.join == "inner" and isinstance(source.relation, Block):
            inner = _by_starts(source.relation)
            if _computes(inner) and not is_across(source.relation):
                block = _lifted(block, source, inner)
    return block


def _computes(inner: Block) -> bool:
    """Whether some column is computed of rows, groups or windows, in a block that is understood."""
    whole = inner.distinct is None and inner.sets is None and not inner.spread and is_protected(inner)
    exprs = [output.expr for output in inner.outputs]
    known = not any(has(expr, (Star, Unclear, Nested)) for expr in exprs) and is_closed(inner)
    # Where rows are numbered, each stays one.
    is_by_row = inner.keys is None and not any(map(repeats, exprs))
    parts = _BARE if is_by_row else (Aggregate, Window)
    starts = [key for key in inner.keys or () if truncation(key)]
    return (
        whole
        and known
        and any(
            expr not in starts and not isinstance(expr, _BARE) and (has(expr, parts) or _is_of(expr, starts))
            for expr in exprs
        )
    )


def _is_of(expr: Expr, parts: Sequence[Expr]) -> bool:
    return any(node in parts for node in walk(expr))


def _by_starts(inner: Block) -> Block:
    """The block grouped by starts of units of time, where it groups by what has one value for each of these."""
    expressions = {key: start for key in inner.keys or () if (start := _start_of(key)) is not None}
    if not expressions:
        return inner

    def over(expr: Expr) -> Expr:
        return rebuilt(expr, lambda expression: expressions[expression][1] if expression in expressions else None)

    keys = dict.fromkeys(expressions[key][0] if key in expressions else over(key) for key in inner.keys or ())
    return replace(inner.rebuilt(over), keys=tuple(keys))


def _start_of(key: Expr) -> tuple[Expr, Expr] | None:
    """The start of a unit of time that a key is computed from, and the key over that; None for other keys."""
    name, arguments = called(key)
    if name not in ("strftime", "time_bucket") or len(arguments) != 2:
        return None
    unit: str | None = None
    if name == "strftime":
        date, form = arguments
        unit = unit_written(form.value) if isinstance(form, Constant) else None
    else:
        width, date = arguments
        by = folded(width)
        unit = _WIDTHS.get(by.value) if by is not None and isinstance(by.value, Duration) else None
    if unit is None or truncation(date) is not None:
        return None
    start = Function("date_trunc", (Constant(unit, is_text=True), date))
    return start, rebuilt(key, lambda expression: start if expression == date else None)


# The widths of buckets that are units of time.
_WIDTHS = {
    Duration(months=12): "year",
    Duration(months=3): "quarter",
    Duration(months=1): "month",
    Duration(days=7): "week",
    Duration(days=1): "day",
}


def _lifted(block: Block, source: Source, inner: Block) -> Block:
    below: dict[Expr, Column] = {}

    def part(expression: Expr) -> Expr | None:
        if isinstance(expression, _BARE) or expression in (inner.keys or ()):
            return below.setdefault(expression, Column(source.number, f"_dk_{len(below)}"))
        return None

    shown: dict[Expr, Expr] = {
        Column(source.number, fold(output.name)): rebuilt(output.expr, part) for output in inner.outputs
    }
    outputs = tuple(Output(column.name, expression) for expression, column in below.items())
    others = tuple(one for one in block.sources if one.number != source.number)
    changed = replace(block, sources=others).rebuilt(
        lambda expr: rebuilt(expr, lambda expression: shown.get(expression))
    )
    sources = iter(changed.sources)
    new = replace(source, relation=replace(inner, outputs=outputs, order=()))
    kept = tuple(new if one.number == source.number else next(sources) for one in block.sources)
    return replace(changed, sources=kept)
