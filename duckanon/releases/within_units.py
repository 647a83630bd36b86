"""What a SELECT reads, computed within each privacy unit, in the place of one protected table.

A join of protected tables of one population, with subqueries and open tables, becomes one relation whose rows belong to
units (`duckanon.units`). It gets a policy that follows from its tables' policies, and from then on it is a protected
table like any other: its records are counted, summed and cut to `rows_per_unit` by the same code, with the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.policy import OWNER, Domain, Policy
from duckanon.catalog.snapshot import Protected, Stored
from duckanon.releases.noise import NotOffered
from duckanon.rewrite.algebra.expressions import SOMEWHERE, Column, Expr, In, Nested, has, rebuilt
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.rewrite.algebra.relations import Block, Output, Source, Table
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.building import Builder
from duckanon.units.fields import Field, Made
from duckanon.units.relation import UNIT, Answered, Joined, OpenRows, Part, Relation, Shown
from duckanon.units.scope import NotLocal, Scope


def local(context: RuleContext, block: Block, ask: Callable[[Block], Answered]) -> tuple[Block, Relation | None]:
    """A block over one protected table, and what stands for that table's records; None for the table as it stands.

    ask: makes a question of its own of a query for one value of all units.

    Raises NotOffered for what is not computed within each unit.
    """
    if not _is_put_together(block):
        return block, None
    scope = Scope(context.catalog, _Public(context), context.today, ask)
    try:
        made, where, over = Builder(scope).joined(replace(block, node=None))
        return _over(context, scope, block, made, where, over)
    except NotLocal as no:
        raise NotOffered(str(no), no.part) from None
    except NotTotal as no:
        raise NotOffered(str(no)) from None


def _is_put_together(block: Block) -> bool:
    """Whether it reads something else than one protected table with a unit of its own."""
    single = block.sources[0].relation if len(block.sources) == 1 else None
    return not isinstance(single, Table) or any(has(one, Nested) for one in block.expressions())


@dataclass(frozen=True)
class _Public:
    """What may be known of open tables, each thing read once in a decision."""

    context: RuleContext

    def content(self, values: OpenRows) -> str:
        """A hash of the values that are read of an open table."""
        known = self.context.public
        if values.values not in known:
            known[values.values] = self.context.releases.content(values)
        found: str = known[values.values]
        return found

    def value(self, query: str) -> Any:
        """The first row that a query over open tables alone gives, as a tuple."""
        known = self.context.public
        if query not in known:
            known[query] = self.context.releases.value(query)
        return known[query]


def _over(
    context: RuleContext, scope: Scope, block: Block, made: Made, where: Sequence[Expr], over: Callable[[Expr], Expr]
) -> tuple[Block, Relation]:
    """A block over a relation, as if that were a table. where: the conditions on its rows that are left."""
    if not made.has_unit:
        raise NotOffered("The query reads no protected table by itself.")
    name = TableName("", "", f"duckanon within units {len(context.derived)}")
    protected, relation = _protected(context, scope, made)
    context.derived[name] = protected
    number = block.sources[0].number
    assert protected.stored is not None
    table = Table.of(name, protected.stored, protected=True)

    def at(expr: Expr) -> Expr:
        return rebuilt(over(expr), lambda one: _moved(one, number))

    outputs = tuple(Output(one.name, at(one.expr)) for one in block.outputs)
    keys = None if block.keys is None else tuple(map(at, block.keys))
    kept = frozenset(rebuilt(one, lambda each: _moved(each, number)) for one in where)
    # A column of constants has no other values, so these are a key's.
    kept |= {In(Column(number, one), field.listed) for one, field in made.fields.items() if field.listed}
    return replace(block, sources=(Source(number, table),), outputs=outputs, keys=keys, where=kept), relation


def _moved(expr: Expr, number: int) -> Expr | None:
    return Column(number, expr.name) if isinstance(expr, Column) and expr.source == SOMEWHERE else None


def _protected(context: RuleContext, scope: Scope, made: Made) -> tuple[Protected, Relation]:
    """The relation as a protected table: its policy follows from those of the tables that it reads."""
    base = _base(scope, made)
    assert base.stored is not None
    spelled = {fold(one): one for name in scope.read for one in context.columns(name)}
    unit = next((name for name, one in sorted(made.fields.items()) if one.is_unit), OWNER)
    columns = {spelled.get(name, name): one.kind for name, one in made.fields.items()}
    shown = [Shown(name, quoted([name])) for name in made.fields]
    if unit == OWNER:
        columns[unit] = "BLOB"
        shown.append(Shown(unit, quoted([UNIT])))
    keys = {name: domain for name, one in made.fields.items() if (domain := _domain(context, made, one))}
    policy = _Derived(
        epsilon=base.policy.epsilon,
        population=base.policy.population,
        privacy_unit=unit,
        owner=base.policy.unit_in_words,
        rows_per_unit=made.rows,
        per_query=min(one.policy.per_query for one in scope.read.values() if one.policy.per_query is not None),
        per_edition=base.policy.per_edition,
        public=tuple(keys),
        bounds={name: each for name, one in made.fields.items() if (each := _bounds(scope, one)) is not None},
    )
    stored = Stored(base.stored.path, columns)
    relation = Joined((Part(made.relation),), (), tuple(shown))
    return replace(base, policy=policy, stored=stored, domains=keys, owned=""), relation


class _Derived(Policy):
    """The policy of what is computed within each unit. Its unit has a column, and is told of as in the tables."""

    @property
    def unit_in_words(self) -> str | None:
        return self.owner


def _base(scope: Scope, made: Made) -> Protected:
    """The protected table whose budget is spent: that whose records are counted, if there is one.

    Raises NotOffered where the tables spend from different budgets.
    """
    base = scope.read[made.counted] if made.counted is not None else next(iter(scope.read.values()))
    assert base.stored is not None
    for one in scope.read.values():
        assert one.stored is not None
        if one.policy.population != base.policy.population or fold(one.stored.path[0]) != fold(base.stored.path[0]):
            raise NotOffered(
                "Protected tables are joined within one population: these spend from different budgets, so no one "
                "charge covers them."
            )
    if len(scope.unit_kinds) > 1:
        raise NotOffered("The units of these tables are identified by values of different types: ask the steward.")
    return base


def _bounds(scope: Scope, one: Field) -> tuple[str, ...] | None:
    """The bounds of a column, as the policy of its table has them or as they follow within a unit."""
    if one.bounds is None and one.origin is not None and one.origin.table in scope.protected:
        policy = scope.protected[one.origin.table].policy
        return {fold(name): each for name, each in policy.bounds.items()}.get(one.origin.column)
    found = scope.bounds(one)
    return None if found is None else tuple(map(str, found))


def _domain(context: RuleContext, made: Made, one: Field) -> Domain | None:
    """The values by which a column may be grouped: its table's domain for it, or those of an open table."""
    origin = one.origin
    if origin is None:
        return None
    same = {
        each.origin.column: other
        for other, each in made.fields.items()
        if each.origin is not None and each.origin.source == origin.source
    }
    if origin.rows is not None:
        stored = context.catalog.stored(origin.table)
        assert stored is not None
        spelled = {fold(each): each for each in stored.columns}
        columns = tuple(sorted(same))
        return Domain(
            origin.rows.content,
            tuple(same[each] for each in columns),
            True,
            stored.path,
            tuple(spelled[each] for each in columns),
            origin.optional,
        )
    protected = context.catalog.protected[origin.table]
    public = {fold(each) for each in (*protected.policy.public, *protected.policy.hierarchy)}
    domain = protected.domains.get(origin.column)
    if domain is None or origin.column not in public:
        return None
    named = tuple(same.get(fold(each), f"{origin.source}.{fold(each)}") for each in domain.columns)
    return replace(domain, columns=named, listed=domain.columns, nullable=origin.optional)
