"""Which tables and files were released, how exposed they are, and what published shares give away.

The ledger does not record the name of the table that a release is stored in. So such tables are recognised by the
columns that our functions return.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.catalog.names import fold, identifier, literal
from duckanon.integrations.calls import arguments, call, policy_units
from duckanon.integrations.copied_columns import Copied, generalised
from duckanon.integrations.data_files import DataFile
from duckanon.integrations.error_sentences import sentence
from duckanon.integrations.plots import Picture, plot
from duckanon.integrations.published_copies import published, readings, same_rows
from duckanon.integrations.report.audited_tables import AuditedTables
from duckanon.integrations.report.exposure import agreed, dominated_classes
from duckanon.integrations.report.fingerprint import hashed
from duckanon.integrations.report.origin import Origin
from duckanon.integrations.report.share_tables import ShareTable, figures, recognised
from duckanon.integrations.report.side_by_side import SideBySide, Stored, side_by_side
from duckanon.integrations.report.table_requests import TableRequest
from duckanon.integrations.report.views import Views
from duckanon.integrations.results import fetch
from duckanon.integrations.translations import gettext as _
from duckanon.integrations.translations import number
from duckanon.integrations.usefulness import Tables, Usefulness, possible_sources, usefulness

if TYPE_CHECKING:
    from duckanon.connection import Connection

_SIZES = {"level", "size", "groups", "low", "high"}
_SUPPRESSED = {"value", "suppressed"}
# A table of suppress with audit := true: it tells the suppressed cells, too.
_AUDITED = {*_SUPPRESSED, "true_value"}
_LEDGER = {"number", "recorded_at", "action", "epsilon_exact", "what"}
_MECHANISM = ["secret", "output", "probability"]
_TABLES = """
SELECT schema_name, table_name, system.main.list((column_name, data_type) ORDER BY column_index) AS columns
FROM system.main.duckdb_columns() AS columns
SEMI JOIN system.main.duckdb_tables() AS tables USING (database_oid, table_oid)
WHERE database_name = system.main.current_database() AND NOT internal AND schema_name <> 'duckanon'
GROUP BY ALL ORDER BY ALL
"""
# A page with more pictures is too long to read.
_MOST_PICTURES = 12
# A larger mechanism takes long to draw, and its picture shows little.
_MOST_PROBABILITIES = 1_000_000
# Counts of published shares below it are small, as in disclosure_report by default.
_SMALL = 5
_BOUNDS = '"duckanon.bounds"'

Types = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Released:
    """A table whose records were released. found: how it was recognised, in words. figures: the row of k_report.

    sensitive: columns that were named as such. agreed: by column, in how many records' classes no two values of it
    differ: of `sensitive`, or of all columns that are copied as they are, if none was named. origin: what else is known
    of it. dominated: how many classes have a mean that one record dominates; None: the table does not say.
    """

    table: str
    qi: list[str]
    sensitive: list[str]
    found: str
    figures: dict[str, Any]
    copied: Copied
    agreed: dict[str, int]
    origin: Origin = field(default_factory=Origin)
    dominated: int | None = None


@dataclass(frozen=True)
class Conditional:
    """A table of shares. figures: what can be told of a row of disclosure_report. asked: its name in the options."""

    label: str
    figures: dict[str, Any]
    asked: str | None = None


@dataclass(frozen=True)
class Noisy:
    """A stored release with noise, or a mechanism. what: in words."""

    table: str
    what: str


@dataclass(frozen=True)
class Compared:
    """A release beside the table that it was made from."""

    table: str
    source: str
    figures: Usefulness


@dataclass(frozen=True)
class Exported:
    """A file that left the database. print: its SHA-256. size: in bytes. what: in words.

    publication: the name of the one that is equal to it. is_unseen: whether it should be a publication, and is none.
    """

    name: str
    print: str
    size: int
    what: str
    publication: str | None = None
    is_unseen: bool = False


@dataclass
class Assessment:
    """Everything that was assessed. problems: a sentence for each table that could not be. left_out: pictures.

    useful: releases beside the tables that they were made from, where these are known. together: those
    of one table. files: exported files.
    unprotected: tables that are neither protected nor open nor a known release. audited: those that have the true
    values of suppressed cells.
    """

    released: list[Released] = field(default_factory=list)
    useful: list[Compared] = field(default_factory=list)
    together: list[SideBySide] = field(default_factory=list)
    shares: list[Conditional] = field(default_factory=list)
    noisy: list[Noisy] = field(default_factory=list)
    files: list[Exported] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    audited: list[str] = field(default_factory=list)
    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    left_out: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Governed:
    """What the ledger says. protected, opened: names of tables. publications: of publications(), none withdrawn."""

    protected: Collection[str]
    opened: Collection[str]
    publications: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """What a report is asked for. requests: tables to assess besides those that are found. files: exported ones.

    sensitive: columns whose values should stay unknown; None: nobody said, so every copied column is looked at.
    """

    requests: Sequence[TableRequest] = ()
    files: Sequence[Path] = ()
    sensitive: Sequence[str] | None = None


def assess(con: Connection, wanted: Wanted, views: Views, governed: Governed) -> Assessment:
    """Assess the tables that are requested, then those that are found or published, then the exported files.

    A table that cannot be read is listed as a problem, and the others are assessed all the same.
    """
    tables = [
        _Table(f"{schema}.{table}", f"{identifier(schema)}.{identifier(table)}", table, columns)
        for schema, table, columns in con.execute(_TABLES).fetchall()
    ]
    on = _Assessor(con, wanted.sensitive, tables, governed)
    settled = {*governed.protected, *governed.opened}
    loaded = {str(path): DataFile.of(path).load(con, str(path)) for path in wanted.files}
    for one in wanted.requests:
        on.trying(one.table, partial(on.requested, replace(one, table=loaded.get(one.table, one.table)), one.table))
    for view, text in views.shares:
        on.trying(view, partial(on.shares, _("view {name}").format(name=view), text))
    named = {request.table for request in wanted.requests}
    for each in tables:
        is_named = bool({each.label, each.table} & named)
        if not is_named and on.judged(each.label, each.name, each.columns) is None and each.label not in settled:
            on.trying(each.label, partial(on.unprotected, each))
        if {column for column, _type in each.columns} >= _AUDITED:
            on.found.audited.append(each.label)
    for copy in (each["name"] for each in governed.publications if each["kind"] == "records"):
        name = f"duckanon.{identifier(copy)}"
        on.judged(_("publication {name}").format(name=copy), name, on.types(name))
    for path in wanted.files:
        on.exported(path, loaded[str(path)], is_named=str(path) in named)
    on.found.together = side_by_side(con, on.tables, on.labels, on.stored)
    return on.found


def _not_audited() -> list[str]:
    """What needs no audit, in words."""
    return [_("group sizes with noise"), _("a perturbation matrix"), _("a copy of the ledger")]


def with_suppressed_cells() -> str:
    """What a table of suppress or cell_key is, in words."""
    return _("a table with suppressed cells")


def _released_columns(columns: Sequence[str]) -> list[str]:
    """The columns that k_anonymize made from quasi-identifiers; none if the table is not a result of k_anonymize."""
    return generalised(columns) if "class_id" in columns else []


@dataclass(frozen=True)
class _Table:
    """A table of the database. label: its schema and name, as the page shows them; name: the same, quoted."""

    label: str
    name: str
    table: str
    columns: Types


class _Assessor:
    def __init__(
        self, con: Connection, sensitive: Sequence[str] | None, tables: Sequence[_Table], governed: Governed
    ) -> None:
        self.con = con
        self.publications = governed.publications
        # The publication that a table or file is equal to, by its name.
        self.equal: dict[str, dict[str, Any] | None] = {}
        self.audited = AuditedTables.of(
            {table.label: [column for column, _type in table.columns] for table in tables}, governed.protected
        )
        self.sensitive = sensitive
        self.units = policy_units(con)
        self.labels = {table.name: table.label for table in tables}
        self.tables: Tables = {table.name: {name.lower(): kind for name, kind in table.columns} for table in tables}
        self.found = Assessment()
        self.stored: list[Stored] = []

    def trying(self, label: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except (duckdb.Error, ValueError) as error:
            self._problem(_("{table} could not be judged: {error}"), table=label, error=sentence(error))

    def _problem(self, message: str, **values: object) -> None:
        self.found.problems.append(message.format(**values))

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return fetch(self.con.execute(query)).records()

    def types(self, name: str) -> list[tuple[str, str]]:
        described = self._rows(f"DESCRIBE FROM system.main.query_table({literal(name)})")
        return [(one["column_name"], one["column_type"]) for one in described]

    def requested(self, table_request: TableRequest, label: str) -> None:
        """Assess a table that was named by options."""
        if table_request.qi:
            self.release(label, table_request.table, table_request.qi, _("named by --released"))
            return
        asked, label = (
            label,
            _("{table}, {rows} by {columns}").format(
                table=label, rows=" · ".join(table_request.rows), columns=" · ".join(table_request.cols)
            ),
        )
        if table_request.p is not None:
            self.published(label, table_request, asked)
            return
        shares = (
            None if table_request.count else recognised(self.con, table_request.table, self.types(table_request.table))
        )
        if shares is not None:
            self._problem(
                _(
                    "{table} was not judged: its rows are no records, but cells with a share in column {column}. Name "
                    "that column with --p {column}, the number of records with --n, and with --digits how far shares "
                    "are rounded."
                ),
                table=label,
                column=shares.p,
            )
            return
        given = arguments(table_request.table, table_request.rows, table_request.cols, count=table_request.count)
        self.shares(label, given, asked)

    def judged(self, label: str, name: str, types: Types) -> str | None:
        """Assess a table that is known by its columns, and say what it is; None if it is no known release."""
        columns = [column for column, _type in types]
        qi = _released_columns(columns)
        if qi:
            self.trying(label, partial(self.release, label, name, qi, _("known by its columns")))
            return _("k-anonymous records")
        if set(columns) >= _SIZES:
            self.trying(label, partial(self.sizes, label, name))
            return _("group sizes with noise")
        if columns == _MECHANISM:
            self.trying(label, partial(self.mechanism, label, name))
            return _("a perturbation matrix")
        if set(columns) >= _SUPPRESSED:
            return with_suppressed_cells()
        if set(columns) >= _LEDGER:
            return _("a copy of the ledger")
        shares = self._shares_in(name, types)
        if shares is None:
            return None
        of, within = ", ".join(shares.cols), ", ".join(shares.rows)
        self._problem(
            _(
                "{table} holds shares of {of} within {within}. What follows from them depends on the number of "
                "records: give it with --shares {table} --rows {within} --cols {of} --p {column} --n RECORDS, and with "
                "--digits how far shares are rounded."
            ),
            table=label,
            of=of,
            within=within,
            column=shares.p,
        )
        return _("shares of {of} within {within}").format(of=of, within=within)

    def _shares_in(self, name: str, types: Types) -> ShareTable | None:
        try:
            return recognised(self.con, name, types)
        except duckdb.Error:  # values that cannot be compared or added up are no shares
            return None

    def unprotected(self, table: _Table) -> None:
        """Note a table that is no known release, unless a publication has its rows."""
        if published(self.con, [(table.name, False)], self.publications) is None:
            self.found.unprotected.append(table.label)

    def exported(self, path: Path, name: str, *, is_named: bool) -> None:
        """Identify a file by its hash, and judge what it holds."""
        types = self.types(name)
        # Files stand beside the tables: two copies of one table are told, wherever they are.
        self.labels = {**self.labels, name: str(path)}
        self.tables = {**self.tables, name: {column.lower(): kind for column, kind in types}}
        same = self.equal[name] = published(
            self.con, readings(self.con, path, name) if self.publications else [], self.publications
        )
        what = _("named by an option") if is_named else self.judged(str(path), name, types)
        if what is None and same is not None:
            what = _("publication {name}").format(name=same["name"])
        if what is None:
            self._problem(
                _(
                    "{file} is no release that its columns tell: say what it is with --released {file} --qi COLUMNS, "
                    "or with --shares {file}."
                ),
                file=path,
            )
        unseen = same is None and self._should_be_published(what, [column for column, _type in types])
        self.found.files.append(
            Exported(
                str(path),
                hashed(path),
                path.stat().st_size,
                what or _("unknown"),
                None if same is None else same["name"],
                unseen,
            )
        )

    def _should_be_published(self, what: str | None, columns: Sequence[str]) -> bool:
        """Whether a file that equals no publication is of a protected table, as far as its columns tell.

        Noise was charged when it was drawn, and needs no audit.
        """
        if what is None:
            names = {fold(column) for column in columns}
            copies = [f"duckanon.{identifier(publication['name'])}" for publication in self.publications]
            return any(names == {fold(column) for column, _type in self.types(copy)} for copy in copies)
        return what not in _not_audited() and self.audited.has_made(columns)

    def release(self, label: str, name: str, qi: list[str], found: str) -> None:
        rows = f"system.main.query_table({literal(name)})"
        if not self.con.execute(f"FROM {rows} LIMIT 1").fetchall():
            self._problem(_("{table} has no records."), table=label)
            return
        columns = {column.lower() for column, _type in self.types(name)}
        hidden = [one for one in self.sensitive or () if one.lower() in columns]
        unit = next((unit for unit in self.units if unit.lower() in columns), None)
        (figures,) = self._rows(call("k_report", name, qi, sensitive=hidden, unit=unit))
        copied = Copied.of(self.con, rows, qi, self.units)
        # Where nobody named a sensitive column, each that is copied may be one.
        guessed = [name for name in copied.names if name not in copied.near_unique] if self.sensitive is None else []
        same = agreed(self.con, name, qi, hidden or guessed)
        sources = possible_sources(self.con, self.tables, name) if name in self.tables else []
        source = sources[0] if len(sources) == 1 else None
        label_of = None if source is None else self.labels[source]
        origin = Origin.of(self.con, name, unit, sources, label_of, self._publication(name))
        classes = dominated_classes(self.con, name) if {"class_id", "dominated"} <= columns else None
        self.found.released.append(Released(label, qi, hidden, found, figures, copied, same, origin, classes))
        if name not in self.tables:
            return
        self.stored.append(Stored(name, label, qi, figures["classes"], source))
        if source is not None:
            made = usefulness(self.con, source, name, copied.identifying, self.tables)
            if made is not None:
                self.found.useful.append(Compared(label, self.labels[source], made))

    def _publication(self, name: str) -> dict[str, Any] | None:
        """The publication that is equal to a table of records."""
        if name not in self.equal:
            rows = f"system.main.query_table({literal(name)})"
            equal = (
                publication
                for publication in self.publications
                if publication["kind"] == "records"
                and same_rows(self.con, rows, f"duckanon.{identifier(publication['name'])}")
            )
            self.equal[name] = next(equal, None)
        return self.equal[name]

    def shares(self, label: str, arguments: str, asked: str | None = None) -> None:
        (figures,) = self._rows(f"FROM disclosure_report({arguments})")
        self.found.shares.append(Conditional(label, figures, asked))
        # The bounds follow from what is published; the counts do not.
        self._draw(_("Bounds of {table}"), label, f"FROM cell_bounds({arguments})", "bounds", counts=False)

    def published(self, label: str, table_request: TableRequest, asked: str) -> None:
        """Assess a table that holds shares, not records."""
        bounds = call(
            "conditional_bounds",
            table_request.table,
            table_request.rows,
            table_request.cols,
            table_request.p,
            table_request.n,
            digits=table_request.digits,
        )
        try:
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE {_BOUNDS} AS {bounds}").fetchall()
        except duckdb.Error as error:
            self._problem(_("{table} could not be judged: {error}"), table=label, error=sentence(error))
            if table_request.digits is None:
                self.found.problems[-1] += " " + _("Name with --digits how far the shares are rounded.")
            return
        found = figures(self.con, _BOUNDS, table_request.rows, table_request.cols, table_request.n or 0, _SMALL)
        self.found.shares.append(Conditional(label, found, asked))
        self._draw(_("Bounds of {table}"), label, f"FROM {_BOUNDS}", "bounds", cols=table_request.cols)

    def sizes(self, label: str, name: str) -> None:
        query = f"FROM system.main.query_table({literal(name)})"
        ((rows, levels),) = self.con.execute(
            f"SELECT system.main.count(*), system.main.count(DISTINCT level) {query}"
        ).fetchall()
        what = _("group sizes with noise; rows: {rows}, levels: {levels}")
        self.found.noisy.append(Noisy(label, what.format(rows=number(rows), levels=number(levels))))
        if rows:
            self._draw(_("Group sizes in {table}"), label, query, "sizes")

    def mechanism(self, label: str, name: str) -> None:
        query = f"FROM system.main.query_table({literal(name)})"
        ((rows, secrets),) = self.con.execute(
            f"SELECT system.main.count(*), system.main.count(DISTINCT secret) {query}"
        ).fetchall()
        what = _("a perturbation matrix; secrets: {secrets}, probabilities: {rows}")
        self.found.noisy.append(Noisy(label, what.format(secrets=number(secrets), rows=number(rows))))
        if 0 < rows <= _MOST_PROBABILITIES:
            self._draw(_("Perturbation matrix in {table}"), label, query, "mechanism")

    def _draw(self, caption: str, label: str, query: str, kind: str, **options: Any) -> None:
        if len(self.found.pictures) < _MOST_PICTURES:
            self.found.pictures.append((caption.format(table=label), plot(query, kind, con=self.con, **options)))
        else:
            self.found.left_out += 1
