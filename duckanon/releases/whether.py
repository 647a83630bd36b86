"""Subqueries of EXISTS and IN as columns that are looked up: whether a record's own unit, or an open table, has a row.

A subquery that reads one table, and compares its columns with those of the row around it by =, has a value for each
record. So a condition on it is one on a column, and what is prepared can have that beside others.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from duckanon.catalog.names import fold
from duckanon.catalog.snapshot import Stored
from duckanon.governance.locations import Location
from duckanon.releases.looked_up import LookedUp, LookUp, Place, Whether
from duckanon.releases.noise import NotOffered, columns_of, not_dropped
from duckanon.rewrite.algebra.expressions import (
    Column,
    Exists,
    Expr,
    InQuery,
    Nested,
    Not,
    ScalarQuery,
    has,
    is_aggregated,
)
from duckanon.rewrite.algebra.filters import written
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Source, Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.normalize.windows import distinct_on
from duckanon.units.conditions import Pair, apart, tells_null_from_false
from duckanon.units.scope import NotLocal

if TYPE_CHECKING:
    from duckanon.releases.looking_up import Reading

_ONE_TABLE = (
    "What is prepared follows subqueries of EXISTS and IN that read one table: compare its columns with those of the "
    "row around it by =, and write other conditions on that table alone."
)
_NO_VALUE = "A subquery for a value is no column of what is prepared: join what it reads, or write EXISTS."
_UNKNOWN = "IN is NULL where a column of it is, which makes a difference here: write EXISTS or NOT EXISTS."
_OTHER_UNITS = (
    "A subquery asks records of other units than the one of its row: compare the units' columns too, as in "
    "`a.unit = b.unit`, or the columns of a link."
)


def as_conditions(block: Block) -> Block:
    """A block with its SEMI and ANTI joins as conditions by EXISTS."""
    kept = tuple(source for source in block.sources if source.join not in ("semi", "anti"))
    where = set(block.where)
    for one in block.sources:
        if one.join in ("semi", "anti"):
            probe = Exists(Block((replace(one, join="inner", on=frozenset()),), (), frozenset(one.on)))
            where.add(probe if one.join == "semi" else Not(probe))
    return replace(block, sources=kept, where=frozenset(where))


def whether(reading: Reading, block: Block, nested: Nested) -> LookedUp:
    """A subquery in the expressions of a block as a column of its records. Raises NotOffered and NotTotal."""
    if isinstance(nested, ScalarQuery):
        raise NotOffered(_NO_VALUE)
    source, table, inside, pairs = _taken_apart(nested)
    stored = reading.stored(source)
    places = []
    for pair in pairs:
        if pair.operator != "=" or not isinstance(pair.inner, Column) or not isinstance(pair.outer, Column):
            raise NotOffered(_ONE_TABLE)
        places.append(reading.placed(source, stored, pair.outer, pair.inner))
    is_unknown = isinstance(nested, InQuery) and not _is_known(reading, stored, places[0])
    if is_unknown and tells_null_from_false(block, nested):
        raise NotOffered(_UNKNOWN)
    protected = reading.context.catalog.protected.get(table.name)
    if protected is not None and not reading.is_of_unit(table.name, places):
        raise NotOffered(_OTHER_UNITS)
    asked = _asked(reading, source, table, stored, inside)
    version = None if protected is None else protected.version
    label = f"found in {reading.context.label(table.name)}"
    step = LookUp(Location(*stored.path), label, version, tuple(places), optional=True, whether=asked)
    return LookedUp(step.name, step, "", reading.contents(step, *asked.columns))


def _taken_apart(nested: Nested) -> tuple[Source, Table, list[Expr], list[Pair]]:
    """The table of a subquery, the conditions on it alone, and what of it is compared with the row around it."""
    query = nested.query
    if not isinstance(query, Block) or not _with_repetitions(query).is_plain or len(query.sources) != 1:
        raise NotOffered(_ONE_TABLE)
    (source,) = query.sources
    if not isinstance(source.relation, Table) or source.join != "inner":
        raise NotOffered(_ONE_TABLE)
    try:
        inside, pairs = apart(query, {source.number})
    except NotLocal as no:
        raise NotOffered(str(no)) from None
    if isinstance(nested, InQuery):
        if len(query.outputs) != 1:
            raise NotOffered("IN takes a subquery with one column.")
        pairs.insert(0, Pair(query.outputs[0].expr, "=", nested.operand))
    if not pairs or any(has(expression, Nested) for expression in inside):
        raise NotOffered(_ONE_TABLE)
    return source, source.relation, inside, pairs


def _with_repetitions(query: Block) -> Block:
    """A query without DISTINCT, and without GROUP BY where it aggregates nothing: it has a row when that has one."""
    is_grouped = query.sets or query.having or any(is_aggregated(output.expr) for output in query.outputs)
    if query.keys and not is_grouped:
        query = replace(query, keys=None)
    return query if distinct_on(query) else replace(query, distinct=None)


def _is_known(reading: Reading, stored: Stored, pair: tuple[Place, str, str]) -> bool:
    """Whether no column of IN is NULL."""
    own, theirs, _ = pair
    return fold(theirs) in stored.required and own.of is None and reading.is_required(own.column)


def _asked(reading: Reading, source: Source, table: Table, stored: Stored, inside: list[Expr]) -> Whether:
    """The conditions on the rows of a subquery's table."""
    context, conditions = reading.context, in_order(inside)
    used = {name for condition in conditions for name in columns_of(condition)}
    if table.name in context.catalog.protected:
        not_dropped(context, table.name, used)
    types = {fold(name): kind for name, kind in stored.columns.items()}
    where = tuple(sorted(written(condition, types, context.today) for condition in conditions))
    words = " and ".join(Renderer((source,)).text(condition) for condition in conditions)
    if words and context.bound.opened:
        # What a view or macro asks for is not told.
        words = f"conditions {sha256(repr(where).encode()).hexdigest()[:8]} hold"
    return Whether(where, tuple(column for column in stored.columns if fold(column) in used), words)
