"""Tables as relations: records of protected tables with their owners, and rows of open tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from duckanon.catalog.links import canonical, own_unit
from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Protected, Stored
from duckanon.governance.locations import Location
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.algebra.scalars import builtin
from duckanon.units.fields import UNIT_ITSELF, Field, Fixes, Made, Origin
from duckanon.units.relation import OpenRows, Records, Shown, Step
from duckanon.units.scope import NotLocal, Scope

_ROW = "duckanon.row"


def rows_of(scope: Scope, table: Table, number: int, used: Sequence[str], *, owned: bool) -> Made:
    """A table's rows. used: the folded names of the columns that are read. owned: whether they get their unit.

    Raises NotLocal for temporary tables and those behind views.
    """
    stored = scope.catalog.stored(table.name)
    if stored is None or stored.temporary:
        raise NotLocal("A temporary table is seen by nobody else: join the answer with it.")
    names = {fold(column): column for column in stored.columns}
    missing = [text for text in used if text not in names]
    if missing:
        raise NotLocal(f"There is no column {missing[0]}.")
    spelled = [names[text] for text in used]
    if table.name in scope.protected:
        return _records(scope, table.name, number, spelled, owned=owned)
    if table.name not in scope.catalog.tables:
        # A view may show a part of it only, and uniqueness and values are those of the whole table.
        raise NotLocal("What stands behind a view is not joined with protected records here: join the answer.")
    if stored.collates:
        raise NotLocal(
            f"{table.name.object} has a column with COLLATE, under which different texts are equal: join the answer "
            "with it."
        )
    return _open_rows(scope, table.name, number, spelled)


def _records(scope: Scope, name: TableName, number: int, used: Sequence[str], *, owned: bool) -> Made:
    protected = scope.protected[name]
    stored = protected.stored
    assert stored is not None
    steps, root = _steps(scope, name)
    unit, kind = _unit(scope, name, root)
    scope.unit_kinds.add(kind)
    own = own_unit(scope.protected, name)
    shown, fields, names = [], {}, {}
    for column in used:
        called = names[fold(column)] = scope.call(number, fold(column), scope.new_name(column, name.object))
        value, own_kind = _value(stored, column)
        is_unit = fold(column) == own
        shown.append(Shown(called, value))
        never_null = is_unit or fold(column) in stored.required
        fields[called] = Field(own_kind, Origin(number, name, fold(column)), is_unit=is_unit, never_null=never_null)
    fixes = _fixes(protected, name, names)
    if own in names:
        fixes[UNIT_ITSELF] = (names[own],)
    for link in protected.policy.links:
        # A record without a parent has no owner, so it is not there.
        fields |= {
            names[text]: replace(fields[names[text]], never_null=True)
            for text in map(fold, link.columns)
            if text in names
        }
    relation = Records(
        Location(*stored.path),
        protected.version,
        tuple(shown),
        unit if owned else None,
        kind == "text",
        tuple(steps) if owned else (),
    )
    unique = _unique(stored, names, own)
    return Made(relation, fields, True, protected.policy.contributions, unique, fixes, name, owned)


def _steps(scope: Scope, name: TableName) -> tuple[list[Step], TableName]:
    """The links from a table up to the one that has the unit's column, and that one. Raises NotLocal."""
    steps: list[Step] = []
    while True:
        protected = scope.protected[name]
        if protected.policy.per_query is None or not protected.stands:
            raise NotLocal(f"The policy of {name.object} offers no counts with noise: ask the steward.")
        scope.read[name] = protected
        if not protected.policy.links:
            return steps, name
        (link,) = protected.policy.links
        parent = scope.protected[link.parent]
        assert parent.stored is not None
        assert protected.stored is not None
        own, theirs = protected.stored.types, parent.stored.types
        pairs = tuple(
            (column, own[fold(column)], other, theirs[fold(other)])
            for column, other in zip(link.columns, link.parent_columns, strict=True)
        )
        steps.append(Step(Location(*parent.stored.path), parent.version, pairs))
        name = link.parent


def _unit(scope: Scope, name: TableName, root: TableName) -> tuple[str, str]:
    """The unit's column in the table at the end of the links, and by what it identifies units. Raises NotLocal."""
    unit, stored = scope.protected[root].policy.privacy_unit, scope.protected[root].stored
    assert stored is not None
    if unit is None:
        raise NotLocal(
            f"Each record of {name.object} is a unit of its own, so nothing belongs together with it: a privacy unit "
            "in its policy says whose records they are."
        )
    kind = stored.types[fold(unit)]
    text = canonical(kind)
    if text is None and kind in ("DOUBLE", "FLOAT"):
        raise NotLocal(f"The units of {name.object} are floats, which are not compared: ask the steward for others.")
    return {fold(column): column for column in stored.columns}[fold(unit)], text or kind


def _value(stored: Stored, column: str) -> tuple[str, str]:
    """A column's value as SQL, and its type: an ENUM is text, and of floats there is one zero, not -0.0 beside it."""
    kind, value = stored.types[fold(column)], quoted([_ROW, column])
    if kind in ("DOUBLE", "FLOAT"):
        return builtin("+", value, f"CAST(0 AS {kind})"), kind
    return (f"CAST({value} AS VARCHAR)", "VARCHAR") if kind.startswith("ENUM(") else (value, kind)


def _fixes(protected: Protected, name: TableName, names: dict[str, str]) -> dict[Fixes, tuple[str, ...]]:
    """The records that columns fix: the own one by a key, and that to which it is linked. names: of the columns."""
    assert protected.stored is not None
    fixes: dict[Fixes, tuple[str, ...]] = {}
    for key in _keys(protected.stored):
        if key <= names.keys():
            fixes[name, tuple(sorted(key))] = tuple(names[text] for text in sorted(key))
    for link in protected.policy.links:
        pairs = sorted(zip(map(fold, link.parent_columns), map(fold, link.columns), strict=True))
        if all(mine in names for _, mine in pairs):
            fixes[link.parent, tuple(theirs for theirs, _ in pairs)] = tuple(names[mine] for _, mine in pairs)
    return fixes


def _keys(stored: Stored) -> list[frozenset[str]]:
    return list(dict.fromkeys([*stored.keys, *stored.unique]))


def _unique(stored: Stored, names: dict[str, str], own_unit: str | None) -> frozenset[frozenset[str]]:
    """Sets of columns that no two records of one unit share; the empty one where a unit has one record."""
    found = {frozenset(names[text] for text in key) for key in _keys(stored) if key <= names.keys()}
    if own_unit is not None and frozenset([own_unit]) in _keys(stored):
        found.add(frozenset())
    return frozenset(found)


def _open_rows(scope: Scope, name: TableName, number: int, used: Sequence[str]) -> Made:
    stored = scope.catalog.stored(name)
    assert stored is not None
    bare = OpenRows(Location(*stored.path), (), tuple(sorted(used)), "")
    rows = replace(bare, content=scope.public.content(bare))
    shown, fields, names = [], {}, {}
    for column in used:
        called = names[fold(column)] = scope.call(number, fold(column), scope.new_name(column, name.object))
        value, kind = _value(stored, column)
        if kind == "VARCHAR":
            # Without the collation that the column may have, under which several keys could be one.
            value = f"system.main.decode(system.main.encode(CAST({value} AS VARCHAR)))"
        shown.append(Shown(called, value))
        fields[called] = Field(kind, Origin(number, name, fold(column), rows))
    return Made(replace(rows, columns=tuple(shown)), fields, has_unit=False, unique=_unique(stored, names, None))
