"""What a SELECT reads, computed within each privacy unit, in the place of one protected table.

A join of protected tables of one population, with subqueries and open tables, becomes one relation whose rows belong to
units (`duckanon.units`). It gets a policy that follows from its tables' policies, and from then on it is a protected
table like any other: its records are counted, summed and cut to `rows_per_unit` by the same code, with the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.policy import OWNER, Domain, Policy
from duckanon.catalog.snapshot import Protected, Stored
from duckanon.catalog.types import WHOLE
from duckanon.governance.ledger_tables import schema_of
from duckanon.releases.noise import NotOffered
from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    In,
    Is,
    Nested,
    Or,
    has,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal, written
from duckanon.rewrite.algebra.relations import Block, Output, Source, Table
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.building import Builder
from duckanon.units.fields import Field, Made, Origin
from duckanon.units.relation import UNIT, Answered, Joined, OpenRows, Part, Relation, Shown
from duckanon.units.scope import NotLocal, NotToldApart, OtherUnits, Scope


class AsksOtherUnits(NotOffered):
    """A subquery asks records of other units than the one of its row. part: the subquery."""


def local(context: RuleContext, block: Block, ask: Callable[[Block], Answered]) -> tuple[Block, Relation | None]:
    """A block over one protected table, and what stands for that table's records; None for the table as it stands.

    ask: makes a question of its own of a query for numbers of all units.

    Raises NotOffered for what is not computed within each unit, and AsksOtherUnits for a subquery about other units.
    """
    if not _is_put_together(block):
        return block, None
    scope = Scope(context.catalog, _Public(context), context.today, ask)
    builder = Builder(scope)
    try:
        block = builder.flat(block)
        made, where, over = builder.joined(replace(block, node=None))
        return _over(context, scope, block, made, where, over)
    except OtherUnits as no:
        raise AsksOtherUnits(str(no), no.part) from None
    except NotLocal as no:
        raise NotOffered(str(no), no.part, is_last=isinstance(no, NotToldApart)) from None
    except NotTotal as no:
        raise NotOffered(str(no)) from None


def _is_put_together(block: Block) -> bool:
    """Whether it reads something else than one protected table with a unit of its own."""
    single = block.sources[0].relation if len(block.sources) == 1 else None
    return not isinstance(single, Table) or any(has(expression, Nested) for expression in block.expressions())


@dataclass(frozen=True)
class _Public:
    """What may be known of open tables, each thing read once in a decision."""

    context: RuleContext

    def content(self, values: OpenRows) -> str:
        """A hash of the values that are read of an open table."""
        known = self.context.public
        if values.values not in known:
            known[values.values] = self.context.releases.content(values)
        text: str = known[values.values]
        return text

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
        return rebuilt(over(expr), lambda expression: _moved(expression, number))

    def shown(expr: Expr) -> Expr:
        return rebuilt(at(expr), lambda expression: _truncated(expression, made))

    outputs = tuple(Output(output.name, shown(output.expr)) for output in block.outputs)
    keys = None if block.keys is None else tuple(map(shown, block.keys))
    kept = frozenset(rebuilt(condition, lambda each: _moved(each, number)) for condition in where)
    # A column of constants has no other values, so these are a key's.
    kept |= {_is_one_of(Column(number, text), field.listed) for text, field in made.fields.items() if field.listed}
    carried = frozenset(_carried_over(scope, made, Source(number, table), keys or (), kept))
    return replace(block, sources=(Source(number, table),), outputs=outputs, keys=keys, where=kept | carried), relation


def _carried_over(
    scope: Scope, made: Made, source: Source, keys: Sequence[Expr], where: frozenset[Expr]
) -> Iterator[Expr]:
    """Conditions that hold for all records anyway, as a join says, on the rows of open tables that have keys.

    With `code = concept.id`, each code is a key beside the name of its concept alone, and a condition on the code
    leaves only such concepts. source: of the relation, over which keys and conditions are.
    """
    named = _names_in(keys)
    shown = {_row_of(made, name) for name in named} - {None}
    for names in made.equal:
        present = sorted(names & made.fields.keys())
        for one, other in product(present, present):
            if one == other or _row_of(made, one) not in shown:
                continue
            if other in named:
                yield Comparison("=", Column(source.number, other), Column(source.number, one))
            for condition in where if _are_alike(made, one, other) else ():
                if _names_in([condition]) == {other} and not has(condition, Nested):
                    moved = rebuilt(condition, partial(_renamed, {other: one}))
                    if _is_total(scope, made, moved):
                        yield moved


def _names_in(exprs: Sequence[Expr]) -> set[str]:
    return {node.name for expr in exprs for node in walk(expr) if isinstance(node, Column)}


def _renamed(names: Mapping[str, str], expr: Expr) -> Expr | None:
    return Column(expr.source, names[expr.name]) if isinstance(expr, Column) else None


def _are_alike(made: Made, one: str, other: str) -> bool:
    """Whether equal values of two columns are written alike: 1 and 1.00 differ as texts."""
    kinds = {made.fields[name].kind for name in (one, other)}
    return len(kinds) == 1 or kinds <= WHOLE.keys()


def _row_of(made: Made, name: str) -> int | None:
    """The source whose rows of an open table have a column; None for other columns."""
    origin = made.fields[name].origin
    return origin.source if origin is not None and origin.rows is not None else None


def _is_total(scope: Scope, made: Made, condition: Expr) -> bool:
    """Whether a condition over a relation is proven not to fail, where a column of another type was put into it."""
    try:
        written(condition, made.types, scope.today)
    except NotTotal:
        return False
    return True


def _name_in_statement(one: Field, spelled: Mapping[str, str]) -> str:
    """What the statement itself calls a column; empty where it does not. spelled: a table's columns by folded names."""
    if one.called and not fold(one.called).startswith("_dk_"):
        return one.called
    return "" if one.origin is None else spelled.get(fold(one.origin.column), one.origin.column)


def _is_one_of(column: Column, values: Sequence[Expr]) -> Expr:
    """That a column has one of these values, of which NULL is the last if it is one."""
    known = tuple(value for value in values if value != NULL)
    if len(known) == len(values):
        return In(column, known)
    return Or(In(column, known), Is(column, NULL)) if known else Is(column, NULL)


def _moved(expr: Expr, number: int) -> Expr | None:
    return Column(number, expr.name) if isinstance(expr, Column) and expr.source == SOMEWHERE else None


def _truncated(expr: Expr, made: Made) -> Expr | None:
    """A column of starts of units of time as what it is: so no other days are among its values."""
    unit = made.fields[expr.name].unit if isinstance(expr, Column) else ""
    return Function("date_trunc", (Constant(unit, is_text=True), expr)) if unit else None


def _protected(context: RuleContext, scope: Scope, made: Made) -> tuple[Protected, Relation]:
    """The relation as a protected table: its policy follows from those of the tables that it reads."""
    base = _base(scope, made)
    assert base.stored is not None
    spelled = {fold(column): column for name in scope.read for column in context.columns(name)}
    units = [name for name, one in sorted(made.fields.items()) if one.is_unit]
    # A column of an open table may have other values of the same meaning, such as 1.0 for 1.
    unit = next((name for name in units if not made.fields[name].is_open), OWNER)
    columns = {spelled.get(name, name): one.kind for name, one in made.fields.items()}
    shown = [Shown(name, quoted([name])) for name in made.fields]
    if unit == OWNER:
        columns[unit] = "BLOB"
        shown.append(Shown(unit, quoted([UNIT])))
    keys = {name: domain for name, one in made.fields.items() if (domain := _domain(context, scope, made, name))}
    policy = Derived(
        epsilon=base.policy.epsilon,
        population=base.policy.population,
        privacy_unit=unit,
        owner=base.policy.unit_in_words,
        rows_per_unit=made.rows,
        per_query=min(
            protected.policy.per_query for protected in scope.read.values() if protected.policy.per_query is not None
        ),
        per_edition=base.policy.per_edition,
        public=tuple(keys),
        bounds={name: each for name, one in made.fields.items() if (each := _bounds(scope, one)) is not None},
        units=frozenset(units),
        names={}
        if context.bound.opened
        else {name: said for name, one in made.fields.items() if (said := _name_in_statement(one, spelled))},
        units_or_null=frozenset(name for name, one in made.fields.items() if one.is_unit_or_null),
        is_whole=made.relation.has_one_row and not made.relation.leaves_rows_out,
        # What a view or macro computes with is not told.
        sources={}
        if context.bound.opened
        else {name: of.column for name, one in made.fields.items() if (of := _declared(scope, one)) is not None},
    )
    present = frozenset(name for name, one in made.fields.items() if one.never_null)
    stored = Stored(base.stored.path, columns, required=present)
    relation = Joined((Part(made.relation),), (), tuple(shown))
    finders = {
        name: (context.catalog.protected[one.origin.table], one.origin.column)
        for name, one in made.fields.items()
        if one.origin is not None and name in keys and keys[name].found
    }
    return replace(base, policy=policy, stored=stored, domains=keys, owned=None, finders=finders), relation


@dataclass(frozen=True)
class Derived(Policy):
    """The policy of what is computed within each unit. Its unit has a column, and is told of as in the tables.

    units: all columns that are the unit. units_or_null: those that are it, or NULL. is_whole: whether all that was
    computed of a unit counts. sources: the columns of protected tables whose values its columns have, or are computed
    from. names: what the statement calls columns.
    """

    units: frozenset[str] = frozenset()
    units_or_null: frozenset[str] = frozenset()
    is_whole: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def declaring(self, column: str) -> str | None:
        return self.sources.get(fold(column))

    @property
    def unit_in_words(self) -> str | None:
        return self.owner

    @property
    def protects(self) -> str:
        return f"all records of one {self.unit_in_words}" if self.is_whole else super().protects


def _base(scope: Scope, made: Made) -> Protected:
    """The protected table whose budget is spent: that whose records are counted, if there is one.

    Raises NotOffered where the tables spend from different budgets.
    """
    base = scope.read[made.counted] if made.counted is not None else next(iter(scope.read.values()))
    assert base.stored is not None
    for protected in scope.read.values():
        assert protected.stored is not None
        if protected.policy.population != base.policy.population or fold(protected.stored.path[0]) != fold(
            base.stored.path[0]
        ):
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
        if one.kind in ("DATE", "TIMESTAMP"):
            return policy.moments(one.origin.column)
        return {fold(name): bound for name, bound in policy.bounds.items()}.get(one.origin.column)
    bounds = scope.bounds(one)
    if bounds is None:
        return None
    low, high, step = bounds
    if one.kind in ("DATE", "TIMESTAMP"):
        return tuple(_moment(at, one.kind) for at in (low, high))
    # One value alone has no steps.
    return tuple(map(str, bounds if low < high else (min(low, 0), max(high, 0) if low else step, step)))


def _moment(at: Fraction, kind: str) -> str:
    """A day or a microsecond since 1970 as text."""
    step = timedelta(days=1) if kind == "DATE" else timedelta(microseconds=1)
    moment = datetime(1970, 1, 1) + int(at) * step
    return str(moment.date() if kind == "DATE" else moment)


def _declared(scope: Scope, one: Field) -> Origin | None:
    """The column of a protected table, which a policy may bound, for want of whose bounds a column has none.

    None for others.
    """
    origin = one.origin or one.lacks if one.bounds is None else None
    return origin if origin is not None and origin.table in scope.protected else None


def _domain(context: RuleContext, scope: Scope, made: Made, name: str) -> Domain | None:
    """The values by which a column may be grouped: its table's domain for it, or those of an open table."""
    one = made.fields[name]
    origin = one.origin
    if origin is None:
        return _common_domain(context, scope, name, one)
    same = {
        each.origin.column: other
        for other, each in made.fields.items()
        if each.origin is not None and each.origin.source == origin.source
    }
    if origin.rows is not None:
        stored = context.catalog.stored(origin.table)
        assert stored is not None
        spelled = {fold(column): column for column in stored.columns}
        columns = tuple(sorted(same))
        return Domain(
            origin.rows.content,
            tuple(same[column] for column in columns),
            True,
            stored.path,
            tuple(spelled[column] for column in columns),
            origin.optional,
        )
    domain = _public_domain(context, origin)
    if domain is None:
        return None
    named = tuple(same.get(fold(each), f"{origin.source}.{fold(each)}") for each in domain.columns)
    return replace(
        domain, columns=named, listed=domain.listed or domain.columns, nullable=domain.nullable or origin.optional
    )


def _public_domain(context: RuleContext, origin: Origin) -> Domain | None:
    """The domain of a protected table's column, if it is public and has one."""
    protected = context.catalog.protected[origin.table]
    public = {fold(each) for each in (*protected.policy.public, *protected.policy.hierarchy)}
    domain = protected.domains.get(origin.column)
    return domain if origin.column in public else None


def _common_domain(context: RuleContext, scope: Scope, name: str, one: Field) -> Domain | None:
    """The domain of a column of a UNION: that of all columns whose values it has, where these list the same values."""
    domains: dict[str, Domain] = {}
    for origin in one.among:
        domain = None if origin.rows is not None else _public_domain(context, origin)
        if domain is None or domain.found or domain.path is not None or len(domain.columns) > 1:
            return None
        value = quoted([*domain.columns])
        if one.kind == "VARCHAR":
            value = f"system.main.encode(CAST({value} AS VARCHAR))"
        domains[f"(SELECT {value} FROM {schema_of(context.path(origin.table)[0])}.{quoted([domain.table])})"] = domain
    if not domains:
        return None
    (first, domain), *others = domains.items()
    for other, _ in others:
        if not scope.holds(f"SELECT NOT EXISTS ({first} EXCEPT {other}) AND NOT EXISTS ({other} EXCEPT {first})"):
            return None
    optional = any(each.optional for each in one.among)
    return replace(domain, columns=(name,), listed=domain.listed or domain.columns, nullable=optional)
