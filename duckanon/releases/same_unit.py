"""Whether records of another protected table are of the same privacy unit as the record they are looked up for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from duckanon.catalog.links import canonical, own_unit
from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Protected
from duckanon.releases.looked_up import LookUp, Place


def is_of_unit(
    protected: Mapping[TableName, Protected], own: TableName, name: TableName, places: Sequence[tuple[Place, str, str]]
) -> bool:
    """Whether records of a protected table that meet pairs of columns are all of the record's own unit.

    They are where both tables' columns of the unit are compared; where the one is linked to the other by the columns
    that are compared; or both are linked so to one record of a third. A row that was looked up before is of the
    record's unit, too, if its table is protected. own: the record's table.
    """
    looked_up = protected[name]
    if not looked_up.stands or looked_up.policy.population != protected[own].policy.population:
        return False
    pairs: dict[LookUp | None, dict[tuple[str, str], bool]] = {}
    for place, column, kind in places:
        is_canonical = canonical(place.kind) == canonical(kind) is not None
        pairs.setdefault(place.of, {})[fold(place.column), fold(column)] = is_canonical
    for of, equal in pairs.items():
        if of is not None and of.version is None:
            continue
        table = own if of is None else TableName(*map(fold, of.location.path))
        units = own_unit(protected, table) or "", own_unit(protected, name) or ""
        if equal.get(units) or any(linked <= equal.keys() for linked in _linked(protected, table, name)):
            return True
    return False


def _linked(
    protected: Mapping[TableName, Protected], table_name: TableName, other: TableName
) -> Iterator[set[tuple[str, str]]]:
    """Equal columns of two tables, by which records belong to one record: of either of them, or of a third."""

    def of(table: TableName) -> dict[TableName, dict[str, str]]:
        # By the parent's columns.
        return {
            link.parent: dict(zip(map(fold, link.parent_columns), map(fold, link.columns), strict=True))
            for link in protected[table].policy.links
        }

    up, down = of(table_name), of(other)
    if other in up:
        yield {(own_column, parent_column) for parent_column, own_column in up[other].items()}
    if table_name in down:
        yield set(down[table_name].items())
    for parent in up.keys() & down.keys():
        if up[parent].keys() == down[parent].keys():
            yield {(own_column, down[parent][key]) for key, own_column in up[parent].items()}
