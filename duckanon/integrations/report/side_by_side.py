"""Several k-anonymous tables of the same records: which follow from which, since all others can be intersected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from duckanon.catalog.names import literal
from duckanon.errors import InvalidInput
from duckanon.functions.publication_records import is_coarser
from duckanon.integrations.published_copies import same_rows
from duckanon.integrations.translations import gettext as _
from duckanon.integrations.translations import number
from duckanon.integrations.usefulness import Tables, columns_before

# Pairs of classes of two releases, each of which is compared: some seconds.
_MOST_PAIRS = 20_000_000


@dataclass(frozen=True)
class Stored:
    """A release that is a table of the database. name, label: in SQL, and as the page shows it.

    qi: the columns that make its classes, of which there are so many. source: the table that it was made from, if that
    is known.
    """

    name: str
    label: str
    qi: Sequence[str]
    classes: int
    source: str | None


@dataclass(frozen=True)
class SideBySide:
    """Releases of one table, by their labels. source: its label, None if it is not known.

    finest: the release from which most others follow. within: these others. apart: all that are left.
    """

    source: str | None
    finest: str
    within: Sequence[str]
    apart: Sequence[str]

    @property
    def sentences(self) -> str:
        """How many there are, which follow from one of them, and what can be done with the rest."""
        labels = sorted([self.finest, *self.within, *self.apart])
        whole = (
            _("{number} releases of {table}: {releases}.")
            if self.source
            else _("{number} releases that may be of the same records, by their columns: {releases}.")
        )
        told = [whole.format(number=number(len(labels)), table=self.source, releases=", ".join(labels))]
        if self.within:
            text = _("Within {finest}, so that they tell nothing more: {releases}.")
            told.append(text.format(finest=self.finest, releases=", ".join(self.within)))
        if self.apart:
            text = _(
                "Not proven to be within {finest}: {releases}. Whoever has {finest} and one of these can intersect "
                "their classes, and fewer than k records may be left: hand out one, and make others from it with "
                "within."
            )
            told.append(text.format(finest=self.finest, releases=", ".join(self.apart)))
        return " ".join(told)


def side_by_side(con: Any, tables: Tables, labels: Mapping[str, str], found: Sequence[Stored]) -> list[SideBySide]:
    """The releases that stand beside others of the same table. con: a DuckDB connection.

    tables, labels: of the database, by names in SQL.
    """
    together: dict[object, list[Stored]] = {}
    for one in found:
        together.setdefault(one.source or frozenset(_quasi_identifiers(tables[one.name], one.qi)), []).append(one)
    return [_compared(con, tables, labels, group) for group in together.values() if len(group) > 1]


def _quasi_identifiers(columns: Mapping[str, str], qi: Sequence[str]) -> dict[str, str]:
    """The quasi-identifiers before they were generalised, with their types. columns: the release's, by type."""
    return columns_before({name.lower(): columns[name.lower()] for name in qi})


def _compared(con: Any, tables: Tables, labels: Mapping[str, str], group: Sequence[Stored]) -> SideBySide:
    follows = {
        one.name: [other for other in group if other is not one and _follows(con, tables, other, one)] for one in group
    }
    finest = max(group, key=lambda one: (len(follows[one.name]), one.classes))
    apart = [one.label for one in group if one is not finest and one not in follows[finest.name]]
    source = labels[finest.source] if finest.source else None
    return SideBySide(source, finest.label, [one.label for one in follows[finest.name]], apart)


def _follows(con: Any, tables: Tables, coarser: Stored, finer: Stored) -> bool:
    """Whether a release is proven to be within another; what would take too long is not."""
    if coarser.classes > finer.classes or coarser.classes * finer.classes > _MOST_PAIRS:
        return False
    # Such as a release and the file that it was exported to.
    rows = [f"system.main.query_table({literal(one.name)})" for one in (coarser, finer)]
    if same_rows(con, rows[0], rows[1]):
        return True
    columns, first = tables[coarser.name], (finer.name, list(tables[finer.name]))
    before = _quasi_identifiers(columns, coarser.qi)
    source = tables[coarser.source] if coarser.source else before
    try:
        with con.cursor() as own:
            return is_coarser(own, (coarser.name, columns), first, source, list(before))
    except (duckdb.Error, InvalidInput):
        # For example labels of a hierarchy, which nothing here can compare.
        return False
