"""UNION, INTERSECT and EXCEPT of what units have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.catalog.names import fold, quoted
from duckanon.catalog.types import own_step, step_between
from duckanon.rewrite.algebra.bounds import DATE, MOST_STEPS, TIMESTAMP, grid
from duckanon.rewrite.algebra.possible_values import in_order
from duckanon.rewrite.algebra.relations import Block, Relation, Union
from duckanon.rewrite.algebra.scalars import Scalar, together, widened
from duckanon.units.fields import Bounds, Field, Fixes, Made
from duckanon.units.relation import Joined, Part, Shown, United
from duckanon.units.scope import NotLocal

if TYPE_CHECKING:
    from duckanon.units.building import Builder
    from duckanon.units.scope import Scope


def united(builder: Builder, union: Union) -> tuple[Made, list[str]]:
    """The rows of several queries, and their columns in order: each is what its place holds in all of them."""
    scope = builder.scope
    if union.kind not in ("all", "distinct", "except", "intersect"):
        raise NotLocal(
            f"{union.kind.upper()} is not followed within a unit: leave ALL out, if each row is wanted once."
        )
    members = [_member(builder, member) for member in union.members]
    if len({len(columns) for _, columns in members}) > 1:
        raise NotLocal("The queries of a UNION have different numbers of columns.")
    has_unit = members[0][0].has_unit
    if any(made.has_unit is not has_unit for made, _ in members):
        raise NotLocal(
            "A UNION of protected records with rows of open tables has rows without a unit: ask for each by itself."
        )
    fields: dict[str, Field] = {}
    sources: dict[tuple[int, ...], int] = {}
    for at, name in enumerate(output_names(union)):
        each = [made.fields[columns[at]] for made, columns in members]
        # Two columns are of one row of a table only where they are so in every query.
        read = tuple(field.origin.source for field in each if field.origin is not None)
        if read not in sources:
            sources[read] = scope.new_source()
        common = _common(each, sources[read])
        bounds = [_bounds(scope, field, common.kind) for field in each]
        fields[scope.new_name(name)] = replace(common, bounds=_widest(common.kind, bounds))
    fixes = _fixes(members, list(fields))
    if union.kind != "all" and has_unit and not fixes:
        raise NotLocal("UNION, INTERSECT and EXCEPT are computed within a unit where the unit is one of their columns.")
    relation = United(union.kind, tuple(_renamed(made, columns, fields) for made, columns in members))
    unique = frozenset() if union.kind == "all" else frozenset([frozenset(fields)])
    rows = sum(made.rows for made, _ in members)
    return Made(relation, fields, has_unit, rows, unique, fixes), list(fields)


def output_names(read: Relation) -> list[str]:
    """The names of a query's columns."""
    if isinstance(read, Union):
        return output_names(read.members[0])
    return [output.name for output in read.outputs] if isinstance(read, Block) else []


def _member(builder: Builder, read: Relation) -> tuple[Made, list[str]]:
    """A query of a UNION, and its columns in order."""
    if isinstance(read, Union):
        return united(builder, read)
    if not isinstance(read, Block):
        raise NotLocal("A query of a UNION is not followed: write it as SELECT with its columns.")
    made, names = builder.block(read)
    return made, [names[fold(output.name)] for output in read.outputs]


def _renamed(made: Made, columns: Sequence[str], fields: dict[str, Field]) -> Joined:
    """A query with the union's names and types."""
    shown = []
    for (name, field), column in zip(fields.items(), columns, strict=True):
        value = quoted([column])
        kind = made.fields[column].kind
        cast = widened(Scalar(value, kind), field.kind).sql if kind else f"CAST({value} AS {field.kind})"
        shown.append(Shown(name, cast))
    return Joined((Part(made.relation, unit=made.shows_unit),), (), tuple(shown))


def _fixes(members: Sequence[tuple[Made, list[str]]], names: Sequence[str]) -> dict[Fixes, tuple[str, ...]]:
    """What columns fix in all queries, by the same places."""
    fixes = {}
    for fixed in members[0][0].fixes:
        places = {
            tuple(columns.index(text) if text in columns else -1 for text in made.fixes.get(fixed, ("",)))
            for made, columns in members
        }
        (first, *others) = places
        if not others and -1 not in first:
            fixes[fixed] = tuple(names[at] for at in first)
    return fixes


def _common(fields: Sequence[Field], source: int) -> Field:
    """What holds of a column in all queries. source: the number of the rows that it is of, if all are of one table."""
    origins = {(field.origin.table, field.origin.column) if field.origin is not None else None for field in fields}
    listed = [field.listed for field in fields]
    first = fields[0].origin if len(origins) == 1 else None
    optional = any(field.origin is not None and field.origin.optional for field in fields)
    kinds = {field.kind for field in fields}
    among = [field.among or (field.origin,) for field in fields] if len(kinds) == 1 and first is None else []
    known = [origin for each in among for origin in each if origin is not None]
    return Field(
        _kind_together(sorted(kinds - {""})),
        first and replace(first, source=source, optional=optional),
        is_unit=all(field.is_unit for field in fields),
        never_null=all(field.never_null for field in fields),
        listed=in_order(each for expressions in listed for each in expressions) if all(listed) else (),
        among=tuple(known) if len(known) == sum(map(len, among)) else (),
        unit=fields[0].unit if len({field.unit for field in fields}) == 1 else "",
    )


def _kind_together(kinds: Sequence[str]) -> str:
    """The type that holds all values of several. Raises NotTotal."""
    if not kinds:
        return "INTEGER"
    return together(kinds, [])


def _bounds(scope: Scope, field: Field, kind: str) -> Bounds | None:
    """The bounds of a column in one query. kind: the type of the union's column, in whose units those of times are."""
    if kind not in (DATE, TIMESTAMP):
        return scope.bounds(field)
    bounds = scope.moments(field)
    if bounds is None or field.kind == kind:
        return bounds
    # Of a day beside timestamps.
    micros = 86_400_000_000
    low, high, step = bounds
    return low * micros, high * micros, step * micros


def _widest(kind: str, bounds: Sequence[Bounds | None]) -> Bounds | None:
    """Bounds that hold for all, with steps on which the values of each lie; None where some have none."""
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    low, high = min(least for least, _, _ in known), max(most for _, most, _ in known)
    step = grid([size for least, _, size in known for size in (size, least - low) if size])
    if own_step(kind) is None and high - low > MOST_STEPS * step:
        # Floats need not lie on steps.
        step = min(step_between(kind, low, high), *(size for _, _, size in known))
    return low, high, step
