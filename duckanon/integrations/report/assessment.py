"""Which tables of a database were released, how exposed they are, and what published shares give away.

The ledger does not record the name of the table that a release is stored in. So such tables are recognised by the
columns that our functions return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.functions.sqltext import identifier, literal
from duckanon.integrations.calls import arguments, call
from duckanon.integrations.error_sentences import sentence
from duckanon.integrations.plots import Picture, plot
from duckanon.integrations.report.table_requests import TableRequest
from duckanon.integrations.report.views import Views
from duckanon.integrations.results import fetch

if TYPE_CHECKING:
    from duckanon.connection import Connection

_SIZES = {"level", "size", "groups", "low", "high"}
_MECHANISM = ["secret", "output", "probability"]
_TABLES = """
SELECT schema_name, table_name, system.main.list(column_name ORDER BY column_index) AS columns
FROM system.main.duckdb_columns() AS columns
SEMI JOIN system.main.duckdb_tables() AS tables USING (database_oid, table_oid)
WHERE database_name = system.main.current_database() AND NOT internal
GROUP BY ALL ORDER BY ALL
"""
# A page with more pictures is too long to read.
_MOST_PICTURES = 12
# A larger mechanism takes long to draw, and its picture shows little.
_MOST_PROBABILITIES = 1_000_000


@dataclass(frozen=True)
class Released:
    """A table whose records were released. found: how it was recognised, in words. figures: the row of k_report."""

    table: str
    qi: list[str]
    sensitive: list[str]
    found: str
    figures: dict[str, Any]


@dataclass(frozen=True)
class Conditional:
    """A table of shares. figures: the row of disclosure_report."""

    label: str
    figures: dict[str, Any]


@dataclass(frozen=True)
class Noisy:
    """A stored release with noise, or a mechanism. what: in words."""

    table: str
    what: str


@dataclass
class Assessment:
    """Everything that was assessed. problems: a sentence for each table that could not be. left_out: pictures."""

    released: list[Released] = field(default_factory=list)
    shares: list[Conditional] = field(default_factory=list)
    noisy: list[Noisy] = field(default_factory=list)
    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    left_out: int = 0
    problems: list[str] = field(default_factory=list)


def assess(con: Connection, requests: Sequence[TableRequest], sensitive: Sequence[str], views: Views) -> Assessment:
    """Assess the tables that are requested, then those that are found.

    A table that cannot be read is listed as a problem, and the others are assessed all the same.
    """
    on = _Assessor(con, sensitive)
    for one in requests:
        label = f"{one.table}, {' · '.join(one.rows)} by {' · '.join(one.cols)}"
        if one.qi:
            on.trying(one.table, partial(on.release, one.table, one.table, one.qi, "named by --released"))
        else:
            text = arguments(one.table, one.rows, one.cols, count=one.count)
            on.trying(one.table, partial(on.shares, label, text))
    for view, text in views.shares:
        on.trying(view, partial(on.shares, f"view {view}", text))
    named = {one.table for one in requests}
    for schema, table, columns in con.execute(_TABLES).fetchall():
        label, name = f"{schema}.{table}", f"{identifier(schema)}.{identifier(table)}"
        qi = list(_released_columns(columns))
        if qi and label not in named and table not in named:
            on.trying(label, partial(on.release, label, name, qi, "known by its columns"))
        elif set(columns) >= _SIZES:
            on.trying(label, partial(on.sizes, label, name))
        elif columns == _MECHANISM:
            on.trying(label, partial(on.mechanism, label, name))
    return on.found


def _released_columns(columns: Sequence[str]) -> Iterator[str]:
    """The columns that k_anonymize made from quasi-identifiers; none if the table is not a result of k_anonymize."""
    if "class_id" not in columns:
        return
    for name in columns:
        base, _, end = name.rpartition("_")
        if (
            end in ("set", "label")
            or (end == "lo" and f"{base}_hi" in columns)
            or (end == "hi" and f"{base}_lo" in columns)
        ):
            yield name


class _Assessor:
    def __init__(self, con: Connection, sensitive: Sequence[str]) -> None:
        self.con = con
        self.sensitive = sensitive
        self.found = Assessment()

    def trying(self, label: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (duckdb.Error, ValueError) as error:
            self.found.problems.append(f"{label} could not be judged: {sentence(error)}")

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return fetch(self.con.execute(query)).records()

    def release(self, label: str, name: str, qi: list[str], found: str) -> None:
        columns = {
            one["column_name"].lower() for one in self._rows(f"DESCRIBE FROM system.main.query_table({literal(name)})")
        }
        hidden = [one for one in self.sensitive if one.lower() in columns]
        (figures,) = self._rows(call("k_report", name, qi, sensitive=hidden))
        self.found.released.append(Released(label, qi, hidden, found, figures))

    def shares(self, label: str, arguments: str) -> None:
        (figures,) = self._rows(f"FROM disclosure_report({arguments})")
        self.found.shares.append(Conditional(label, figures))
        # The bounds follow from what is published; the counts do not.
        self._draw(f"Bounds of {label}", f"FROM cell_bounds({arguments})", "bounds", counts=False)

    def sizes(self, label: str, name: str) -> None:
        query = f"FROM system.main.query_table({literal(name)})"
        ((rows, levels),) = self.con.execute(
            f"SELECT system.main.count(*), system.main.count(DISTINCT level) {query}"
        ).fetchall()
        self.found.noisy.append(Noisy(label, f"group sizes with noise: {rows:,} rows, {levels:,} levels"))
        if rows:
            self._draw(f"Group sizes in {label}", query, "sizes")

    def mechanism(self, label: str, name: str) -> None:
        query = f"FROM system.main.query_table({literal(name)})"
        ((rows, secrets),) = self.con.execute(
            f"SELECT system.main.count(*), system.main.count(DISTINCT secret) {query}"
        ).fetchall()
        self.found.noisy.append(Noisy(label, f"a perturbation matrix: {secrets:,} secrets, {rows:,} probabilities"))
        if 0 < rows <= _MOST_PROBABILITIES:
            self._draw(f"Perturbation matrix in {label}", query, "mechanism")

    def _draw(self, caption: str, query: str, kind: str, **options: Any) -> None:
        if len(self.found.pictures) < _MOST_PICTURES:
            self.found.pictures.append((caption, plot(query, kind, con=self.con, **options)))
        else:
            self.found.left_out += 1
