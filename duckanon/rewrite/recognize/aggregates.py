"""Aggregates by keys: each column of a query as a key, or as one statistic of the records of one table."""

from __future__ import annotations

from fractions import Fraction

from duckanon.rewrite.algebra.expressions import NULL, Aggregate, Call, Column, Expr, Nested, conjuncts, walk
from duckanon.rewrite.algebra.relations import Block, Table
from duckanon.rewrite.algebra.rows import is_clean, is_closed, present, watched
from duckanon.rewrite.algebra.translate import type_of
from duckanon.rewrite.recognize.findings import Aggregates, Statistic
from duckanon.rewrite.recognize.measures import Measure, measure, number, share

# The aggregates of numbers that can be answered with noise: DuckDB's names, and the name of the statistic.
_OF_NUMBERS = {
    **{one: one for one in ("avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")},
    "variance": "var_samp",
    "variance_samp": "var_samp",
    "variance_pop": "var_pop",
    "stddev": "stddev_samp",
}
# The positions of quantiles are whole thousandths: the ranks of records are multiplied by the denominator.
_FINEST_PLACE = 1000
_QUANTILES = {"quantile_cont", "quantile_disc", "percentile_cont", "percentile_disc", "quantile", "approx_quantile"}


def aggregates(block: Block) -> Aggregates | str:
    """The aggregates of a block, if each of its columns is a key or a statistic; else why not, in a sentence."""
    keys = block.keys
    if keys is None or block.spread or not is_closed(block):
        return "The query is no count, sum or other statistic by keys that is followed."
    if len(block.sources) != 1 or not isinstance(block.sources[0].relation, Table):
        return "Statistics are released of one table: join what is released."
    exprs = (*keys, *block.where, *(one.expr for one in block.outputs))
    if not all(map(is_clean, exprs)) or any(isinstance(one, Nested) for expr in exprs for one in walk(expr)):
        return "Subqueries and macros beside a protected table are not followed: write the values out."
    statistics: list[Statistic] = []
    for output in block.outputs[len(keys) :]:
        found = _statistic(output.expr, block) if isinstance(output.expr, Aggregate) else None
        if found is None:
            return (
                "Told with noise are count, sum, avg, variance, stddev, median and quantiles (in thousandths) of a "
                "column: min, max, lists and the like show values of single records."
            )
        statistics.append(found)
    return Aggregates(
        table=block.sources[0].relation.name,
        tables=watched(block),
        sources=block.sources,
        filter=block.where,
        node=block.node,
        keys=keys,
        statistics=tuple(statistics),
    )


def _statistic(expr: Aggregate, block: Block) -> Statistic | None:
    if expr.distinct:
        one = expr.operands[0] if len(expr.operands) == 1 else None
        if expr.name != "count" or not isinstance(one, Column):
            return None
        return Statistic("units", column=one.name, where=expr.where)
    added = measure(expr, block.sources)
    if added is not None:
        return _added(added)
    parts = share(expr, block.sources)
    if parts is not None:
        event, of = parts
        return Statistic("share", where=event.where | of.where, of=of.where, factor=event.scale)
    if expr.name in _OF_NUMBERS and len(expr.operands) == 1:
        return _of_column(_OF_NUMBERS[expr.name], expr.operands[0], expr.where)
    if expr.name == "median" and len(expr.operands) == 1:
        return _of_column("quantile", expr.operands[0], expr.where, Fraction(1, 2))
    if expr.name in _QUANTILES and len(expr.operands) == 2:
        place = number(expr.operands[1])
        if place is not None and 0 <= place <= 1 and place.denominator <= _FINEST_PLACE:
            return _of_column("quantile", expr.operands[0], expr.where, place)
    return None


def _added(found: Measure) -> Statistic | None:
    if found.weight is None:
        return Statistic("records", where=found.where, factor=found.scale)
    inner = _plain(found.weight)
    if not isinstance(inner, Column):
        return None
    return Statistic("sum", column=inner.name, where=found.where, factor=found.scale)


def _of_column(name: str, operand: Expr, where: frozenset[Expr], place: Fraction | None = None) -> Statistic | None:
    inner = _plain(operand)
    if isinstance(inner, Call) and inner.kind == "Case" and len(inner.operands) == 3 and inner.operands[2] == NULL:
        where, inner = where | conjuncts(inner.operands[0]), _plain(inner.operands[1])
    return Statistic(name, column=inner.name, where=where, place=place) if isinstance(inner, Column) else None


def _plain(expr: Expr) -> Expr:
    """The expression without casts to wider numbers, which change nothing of a clamped number."""
    while isinstance(expr, Call) and expr.kind in ("Cast", "TryCast") and type_of(expr).upper() in _WIDE:
        expr = expr.operands[0]
    return expr


_WIDE = ("DOUBLE", "HUGEINT", "BIGINT")


def present_column(where: frozenset[Expr]) -> str | None:
    """The column, if the only condition is that it is not NULL."""
    for one in where:
        inner = one.operands[0] if isinstance(one, Call) and one.kind == "Not" else None
        column = inner.operands[0] if isinstance(inner, Call) and inner.kind == "Is" else None
        if len(where) == 1 and isinstance(column, Column) and one == present(column):
            return column.name
    return None
