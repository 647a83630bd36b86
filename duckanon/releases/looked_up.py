"""Columns that are looked up for each record: in open tables by a unique key, and in records of the same unit.

A query that joins the records of a protected table with at most one row each of other tables asks nothing but further
columns of these records, and so does a condition by EXISTS or IN: whether there is such a row. What is prepared of the
table can have these columns beside its own.

Each record finds one row at most, whatever stands in the tables: where rows could share a key, they are grouped by it
where they are read; of a protected table DuckDB enforces its key. What is found is of the record's own unit: by a
declared link, or because the units' columns are compared. So a unit that is added or removed changes its own records
alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from duckanon.catalog.links import met
from duckanon.catalog.names import quoted
from duckanon.governance.locations import Location
from duckanon.units.relation import OpenRows

_RECORD = "duckanon.row"


@dataclass(frozen=True)
class Place:
    """A column of a record, or of a row that was looked up before for it. kind: its type."""

    of: LookUp | None
    column: str
    kind: str


@dataclass(frozen=True)
class Whether:
    """That nothing is asked of rows but whether there are any that meet conditions.

    where: the conditions, as SQL that cannot fail. columns: that they read, as stored. words: they as they are told.
    """

    where: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class LookUp:
    """At most one row of a table for each record, or whether there are any.

    location, label: of the table. version: of its policy; None for an open table. pairs: columns of the record with
    those of the row, and their types, which are equal. optional: whether the record counts where there is no such row.
    is_certain: whether there always is one, by a declared link. whether: where no more is asked than that.
    """

    location: Location
    label: str
    version: int | None
    pairs: tuple[tuple[Place, str, str], ...]
    optional: bool
    is_certain: bool = False
    whether: Whether | None = None

    @property
    def name(self) -> str:
        """What a column that is looked up here is called after."""
        above = next((place.of for place, _, _ in self.pairs if place.of is not None), None)
        by = ", ".join(place.column for place, _, _ in self.pairs)
        further = f" by {above.name.partition(' by ')[2]}" if above is not None else ""
        if self.whether is not None:
            return f"{self.label} by {by}{further}{f' where {self.whether.words}' if self.whether.words else ''}"
        return f"{self.label} by {by}{further}{', if any' if self.optional else ''}"

    @property
    def chain(self) -> tuple[LookUp, ...]:
        """The look-ups by which this one is reached, and this one."""
        above = dict.fromkeys(step for place, _, _ in self.pairs if place.of is not None for step in place.of.chain)
        return (*above, self)

    @property
    def keys(self) -> list[str]:
        """The columns of the row by which it is looked up, as stored, each once."""
        return list(dict.fromkeys(theirs for _, theirs, _ in self.pairs))

    def resolved(self) -> dict[str, Any]:
        """All that what it finds depends on, beside contents."""
        pairs = [[place.of and place.of.resolved(), place.column, theirs] for place, theirs, _ in self.pairs]
        facts = {
            "table": self.location.identity,
            "version": self.version,
            "pairs": pairs,
            "optional": self.optional,
        }
        return facts if self.whether is None else facts | {"whether": self.whether.where}


@dataclass(frozen=True)
class LookedUp:
    """A column that is looked up. contents: what the open tables on the way held.

    shown: of the table, as stored; empty for whether there is a row. declared: of a protected table's column the copy
    of its domain and its bounds, which may change in place.
    """

    name: str
    look_up: LookUp
    shown: str
    contents: tuple[OpenRows, ...]
    declared: tuple[str, ...] = ()

    @property
    def resolved(self) -> dict[str, Any]:
        """All that its values depend on, as plain values."""
        contents = [content.content for content in self.contents]
        facts = {"column": self.shown, "look_up": self.look_up.resolved(), "contents": contents}
        return facts | {"declared": self.declared} if self.declared else facts

    @property
    def digest(self) -> str:
        """Equal for the same column with the same values of open tables."""
        return sha256(json.dumps(self.resolved, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def counts(self) -> str:
        """The name of the column that says whether a record counts where its rows are asked for."""
        return f"{self.name}, found"


def with_columns(records: str, columns: Sequence[LookedUp]) -> str:
    """What stands after FROM to read records with columns that are looked up. records: what does to read them alone."""
    if not columns:
        return records
    steps = list(dict.fromkeys(step for column in columns for step in column.look_up.chain))
    names = {step: f"l{at}" for at, step in enumerate(steps)}
    joined = "".join(_joined(step, names, columns) for step in steps)
    shown = []
    for lookup in columns:
        column_sql = (
            quoted([names[lookup.look_up], lookup.shown]) if lookup.shown else f"({_is_found(lookup.look_up, names)})"
        )
        shown.append(f"{column_sql} AS {quoted([lookup.name])}")
        conditions = [_is_found(step, names) for step in lookup.look_up.chain if not step.optional]
        shown.append(f"({' AND '.join(conditions) or 'true'}) AS {quoted([lookup.counts])}")
    return f'(SELECT "{_RECORD}".*, {", ".join(shown)} FROM {records} AS "{_RECORD}"{joined})'


def _is_found(step: LookUp, names: Mapping[LookUp, str]) -> str:
    """That a row was found: its key has no NULL then."""
    return f"{quoted([names[step], step.pairs[0][1]])} IS NOT NULL"


def _joined(step: LookUp, names: Mapping[LookUp, str], columns: Sequence[LookedUp]) -> str:
    conditions = []
    for own, theirs, kind in step.pairs:
        own_column = quoted([_RECORD if own.of is None else names[own.of], own.column])
        conditions.append(met(own_column, own.kind, quoted([names[step], theirs]), kind))
    assert None not in conditions
    on = " AND ".join(condition for condition in conditions if condition is not None)
    if step.version is not None and step.whether is None:
        return f" LEFT JOIN {quoted(step.location.path)} AS {names[step]} ON {on}"
    read = {column.shown for column in columns if column.look_up == step} - {""}
    read |= {own.column for name in names for own, _, _ in name.pairs if own.of == step}
    shown = [f"system.main.min({quoted([key])}) AS {quoted([key])}" for key in sorted(read - set(step.keys))]
    by = [quoted([key]) for key in step.keys]
    tests = [] if step.whether is None else [f"({condition})" for condition in step.whether.where]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    rows = f"SELECT {', '.join([*by, *shown])} FROM {quoted(step.location.path)}{where} GROUP BY {', '.join(by)}"
    return f" LEFT JOIN ({rows}) AS {names[step]} ON {on}"
