"""A protected table with columns that are looked up: their types, and the domains and bounds that they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.policy import Domain
from duckanon.catalog.reader import text_for_enum
from duckanon.catalog.snapshot import Stored
from duckanon.catalog.types import own_step
from duckanon.releases.looked_up import LookedUp, LookUp
from duckanon.releases.noise import NotOffered
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.rule_context import RuleContext

# The values of whether there is a row.
_TRUTHS = ("true", "false")


def table_of(step: LookUp) -> TableName:
    """The table in which a look-up finds its row."""
    return TableName(*map(fold, step.location.path))


def found_in(context: RuleContext, step: LookUp) -> Stored:
    """What is known of that table."""
    stored = context.catalog.stored(table_of(step))
    assert stored is not None
    return stored


def spelled_in(stored: Stored, column: str) -> tuple[str, str]:
    """A column as stored, and its type."""
    spelled = {fold(name): (name, kind) for name, kind in stored.columns.items()}
    if column not in spelled:
        raise NotOffered(f"There is no column {column}.")
    return spelled[column]


def declared_bounds(context: RuleContext, step: LookUp, column: str) -> tuple[str, ...] | None:
    """The bounds of a folded column of a protected table, as its policy has them."""
    declared = context.catalog.protected[table_of(step)].policy.bounds
    return {fold(name): own_bounds for name, own_bounds in declared.items()}.get(column)


def with_looked_up(context: RuleContext, table: TableName, columns: Mapping[str, LookedUp]) -> tuple[TableName, Table]:
    """A protected table with columns that are looked up, by a name of its own in the context."""
    protected = context.catalog.protected[table]
    stored = protected.stored
    assert stored is not None
    kinds = {column.name: _kind(context, column) for column in columns.values()}
    bounds = {
        column.name: own_bounds for column in columns.values() if (own_bounds := _bounds(context, column)) is not None
    }
    domains = {
        name: domain
        for name, column in columns.items()
        if (domain := _domain(context, column, columns, bounds)) is not None
    }
    own = protected.policy
    policy = replace(
        own,
        public=(*own.public, *(columns[name].name for name in domains)),
        bounds={**own.bounds, **bounds},
    )
    extended = replace(
        protected,
        policy=policy,
        stored=replace(stored, columns={**stored.columns, **kinds}),
        domains={**protected.domains, **domains},
    )
    name = TableName("", "", f"duckanon looked up {len(context.derived)}")
    context.derived[name] = extended
    assert extended.stored is not None
    return name, Table.of(name, extended.stored, protected=True)


def _kind(context: RuleContext, lookup: LookedUp) -> str:
    return text_for_enum(spelled_in(found_in(context, lookup.look_up), lookup.shown)[1]) if lookup.shown else "BOOLEAN"


def _bounds(context: RuleContext, lookup: LookedUp) -> tuple[str, ...] | None:
    """The bounds of a number: those of the other policy, or those of the open table's values."""
    step, kind = lookup.look_up, _kind(context, lookup)
    if step.version is not None:
        return declared_bounds(context, step, fold(lookup.shown))
    own = own_step(kind)
    if own is None or not lookup.shown:
        return None
    column = quoted([lookup.shown])
    low, high = context.releases.value(
        f"SELECT system.main.min({column}), system.main.max({column}) FROM {quoted(step.location.path)} AS _dk_open"
    )
    if low is None:
        return None
    # One value alone has no steps.
    least, most = Fraction(low), Fraction(high)
    return tuple(map(str, (least, most, own) if least < most else (min(least, 0), max(most, 0) or own, own)))


def _domain(
    context: RuleContext, lookup: LookedUp, columns: Mapping[str, LookedUp], bounds: Mapping[str, object]
) -> Domain | None:
    """The values of a column: those of the open table, or those of the other policy's domain.

    None for a number that is no key. Raises NotOffered for a column that is neither.
    """
    if not lookup.shown:
        return Domain("", (lookup.name,), True, constants=_TRUTHS)
    step = lookup.look_up
    if step.version is not None:
        return _declared(context, lookup, columns, is_number=lookup.name in bounds)
    if _kind(context, lookup) in ("DOUBLE", "FLOAT"):
        raise NotOffered(f"{lookup.shown} of {step.label} is a float, by which nothing is grouped here: round it.")
    same = {column.shown: name for name, column in columns.items() if column.look_up == step}
    listed = tuple(sorted(same))
    optional = any(link.optional for link in step.chain)
    named = tuple(same[column] for column in listed)
    return Domain(lookup.digest, named, True, step.location.path, listed, optional)


def _declared(
    context: RuleContext, lookup: LookedUp, columns: Mapping[str, LookedUp], *, is_number: bool
) -> Domain | None:
    """As `_domain`, of a protected table's column."""
    step = lookup.look_up
    protected = context.catalog.protected[table_of(step)]
    policy, column = protected.policy, fold(lookup.shown)
    domain = protected.domains.get(column)
    public = {fold(public_column) for public_column in (*policy.public, *policy.hierarchy)} - {
        fold(public_column) for public_column in policy.drop
    }
    if domain is None or column not in public or domain.found:
        if is_number:
            return None
        raise NotOffered(f"The policy of {step.label} offers no keys of {lookup.shown}, and no bounds.")
    folded = {fold(looked.shown): name for name, looked in columns.items() if looked.look_up == step}
    named = tuple(
        folded.get(fold(listed_column), f"{step.name}.{fold(listed_column)}") for listed_column in domain.columns
    )
    optional = domain.nullable or any(link.optional for link in step.chain)
    return replace(domain, columns=named, listed=domain.listed or domain.columns, nullable=optional)
