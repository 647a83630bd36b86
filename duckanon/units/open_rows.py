"""Rows of open tables that a join looks up together: whether a record meets one of them at most.

What open tables hold is public, so it is asked: of the rows that are left by all conditions on open tables alone, no
two may share what the join compares with records. So `ancestor = 4 AND descendant = code` finds one row of a table in
which descendants stand several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from duckanon.catalog.names import quoted
from duckanon.rewrite.algebra.expressions import Column, Comparison, Expr, Nested, has, walk
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.relations import Source
from duckanon.units.conditions import tells_apart
from duckanon.units.fields import Field, Made
from duckanon.units.relation import Joined, Part, Shown
from duckanon.units.scope import NotLocal, Scope


def connected(sources: Sequence[Source], conditions: Iterable[Expr]) -> list[frozenset[int]]:
    """The numbers of sources, those together that conditions compare with each other, directly or not."""
    groups = [frozenset([source.number]) for source in sources]
    own = frozenset(source.number for source in sources)
    for condition in conditions:
        read = {node.source for node in walk(condition) if isinstance(node, Column)}
        if read <= own:
            met = [group for group in groups if group & read]
            groups = [group for group in groups if not group & read]
            groups += [reduce(frozenset.union, met)] if met else []
    return groups


def together(scope: Scope, several: Sequence[Made], conditions: Iterable[Expr]) -> Made:
    """The rows of open relations that meet those of some conditions that are on them alone and cannot fail."""
    fields = {name: field for made in several for name, field in made.fields.items()}
    tests = sorted(filter(None, (_on(scope, condition, fields) for condition in conditions)))
    shown = tuple(Shown(name, quoted([name])) for name in fields)
    relation = Joined(tuple(Part(made.relation, unit=False) for made in several), tuple(tests), shown)
    return Made(relation, fields, has_unit=False)


def _on(scope: Scope, condition: Expr, fields: Mapping[str, Field]) -> str:
    """A condition as SQL; empty where it reads something else than these columns, or is not proven not to fail."""
    columns = [node for node in walk(condition) if isinstance(node, Column)]
    if has(condition, Nested) or not all(scope.name(column) in fields for column in columns):
        return ""
    try:
        return scope.written(scope.over(condition), fields)
    except (NotTotal, NotLocal):
        return ""


def computed_of(
    scope: Scope, conditions: Iterable[Expr], own: Mapping[str, Field], known: Mapping[str, Field]
) -> set[str]:
    """The own columns that conditions say are equal to what is computed of known ones, one value for each of these."""
    columns = set()
    for condition in conditions:
        match condition:
            case Comparison("=", Column() as column, other) | Comparison("=", other, Column() as column):
                name = scope.name(column)
                if name in own and not isinstance(other, Column) and _is_one_value(scope, other, known, own[name].kind):
                    columns.add(name)
    return columns


def _is_one_value(scope: Scope, expr: Expr, known: Mapping[str, Field], kind: str) -> bool:
    """Whether an expression is computed of known columns, and its values are told apart from others of a type."""
    read = [node for node in walk(expr) if isinstance(node, Column)]
    if not read or has(expr, Nested) or not all(scope.name(column) in known for column in read):
        return False
    try:
        _, own = scalar(scope.over(expr), {name: field.kind for name, field in known.items()}, scope.today)
    except (NotTotal, NotLocal):
        return False
    return tells_apart(kind, own)
