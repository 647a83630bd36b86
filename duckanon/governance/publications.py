"""Publications: releases that everybody may read, each an immutable copy in the schema `duckanon`.

The caller passes the audit that decides whether a release is safe. This module sees to it that the copy is exactly what
was audited, and that every publication stays in the ledger for later audits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import duckdb

from duckanon.catalog.names import fold, literal, parts, quoted
from duckanon.catalog.publication import Candidate, Codes, Earlier, Terms
from duckanon.errors import InvalidInput
from duckanon.governance.content_hash import described, fingerprint, kept
from duckanon.governance.ledger import Ledger, where
from duckanon.governance.ledger_state import LedgerState, Publication, TablePolicy
from duckanon.governance.ledger_tables import SCHEMA, schema_of
from duckanon.governance.locations import Identity, Location, locate
from duckanon.governance.owners import records_of

# A temporary table of the auditing connection, which holds the release during its audit.
STAGED = "temp.main._dk_release"
_INTERNAL = ("meta", "ledger", "releases", "answers", "publications")
_INTERNAL_PREFIXES = ("answer_", "domain_", "_dk_")
# How often an audit is repeated because a policy or the publications changed meanwhile.
_TRIES = 5

Found = TypeVar("Found")
# Whether a release is safe for readers who know all totals too. Raises InvalidInput for one that is not proven safe.
# (The type is text, as for `ledger.WriteToo`.)
Audit: TypeAlias = "Callable[[duckdb.DuckDBPyConnection, Candidate], bool]"


class Publications:
    """The publications of all databases of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def publish(
        self,
        release: str,
        lookup: Mapping[str, Any],
        of: str | None,
        lookup_of: Mapping[str, Any] | None,
        terms: Terms,
        audit: Audit,
        lookup_trees: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Audit a release together with all earlier ones, and publish it. Returns a sentence for people.

        release, of: names as the caller wrote them. lookup, lookup_of: for each, as for `locations.locate`;
        lookup_trees: for the tables of hierarchies in `terms`. Raises
        InvalidInput for what cannot be published, and what `audit` raises; then nothing has changed.
        """
        source = _committed(release, lookup)
        location = None if of is None or lookup_of is None else locate(of, lookup_of)
        trees = _located(terms.hierarchies, lookup_trees)
        for _ in range(_TRIES):
            location, state = self._protected(source, location)
            candidate, records, totals = self._audited(source, location, state, terms, audit, trees)
            try:
                self._append(source, location, state, candidate, records, totals)
            except _Changed:
                continue
            return _said(candidate)
        raise InvalidInput(
            "The release or the records change while they are audited: make the release a table, and publish when "
            "nobody writes."
        )

    def unpublish(self, release: str, lookup: Mapping[str, Any]) -> str:
        """Withdraw a publication: its copy is dropped, and later audits still count it. Returns a sentence."""
        written = parts(release)
        database = written[0] if len(written) == 3 else lookup["database"]
        name = fold(written[-1])

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            publication = state.publications.get(name)
            if publication is None:
                raise InvalidInput(f"{release} is not published: FROM publications() lists what is.")
            if publication.withdrawn:
                return None
            return {
                **where(publication.of),
                "population": state.members[publication.of.identity],
                "edition": state.populations[state.members[publication.of.identity]].edition,
                "action": "unpublish",
                "what": f"unpublish: {publication.name}",
                "detail": {"name": publication.name},
            }

        def write_too(cursor: duckdb.DuckDBPyConnection, _: int) -> None:
            publication = self._ledger.state(database).publications[name]
            cursor.execute(f"DROP TABLE {_copy(database, publication.name)}").fetchall()

        if self._ledger.append(database, line, write_too) is None:
            return f"{release} was withdrawn before: nothing has changed."
        return f"{release} is withdrawn. Later audits count it still, and its name stays taken."

    def examined(
        self,
        of: str,
        seen: Mapping[str, Any],
        look: Callable[[duckdb.DuckDBPyConnection, Candidate], Found],
        release: tuple[str, Mapping[str, Any]] | None = None,
        hierarchies: Sequence[tuple[str, str]] = (),
        seen_trees: Sequence[Mapping[str, Any]] = (),
    ) -> Found:
        """What `look` finds of a protected table with all its publications, in one snapshot; nothing changes.

        release: a table that `look` reads beside it, with what is seen of its name; without one the Candidate has none.
        hierarchies, seen_trees: of that table's codes, as in Terms, with what is seen of each.
        Raises InvalidInput for a table that is not protected.
        """
        location = locate(of, seen)
        if location.database not in self._ledger.databases():
            raise InvalidInput(f"{location.label} is not protected. {_NONE}")
        state = self._ledger.state(location.database)
        if location.identity not in state.tables:
            raise InvalidInput(f"{location.label} is not protected. {_NONE}")
        with self._ledger.snapshot() as cursor:
            table = records_of(cursor, location, state)
            held = described(cursor, table)
            records = fingerprint(cursor, table, held)
            candidate = _standing(location, state, table, held, records)
            if release is not None:
                source = _committed(*release)
                read = quoted(source.path)
                trees = _opened(cursor, location, state, _located(hierarchies, seen_trees))
                candidate = replace(
                    candidate,
                    release=read,
                    name=source.name,
                    columns=described(cursor, read),
                    codes=_codes_of(cursor, trees),
                )
            return look(cursor, candidate)

    def listed(self) -> list[dict[str, Any]]:
        """Every publication, as publications() shows it."""
        found: list[dict[str, Any]] = []
        for database in self._ledger.databases():
            state = self._ledger.state(database)
            ordered = sorted(state.publications.values(), key=lambda publication: publication.number)
            found += [_listed(database, publication, state) for publication in ordered]
        return found

    def _protected(self, source: Location, location: Location | None) -> tuple[Location, LedgerState]:
        """The protected table from which a release was made, and the state of its database's ledger."""
        database = source.database if location is None else location.database
        state = self._ledger.state(database)
        if location is None:
            if len(state.tables) != 1:
                raise InvalidInput(
                    "Of which protected table is it? " + ("Say so, as in of := 'persons'." if state.tables else _NONE)
                )
            (only,) = state.tables.values()
            location = Location(database, only.location.schema, only.location.name)
        if location.identity not in state.tables:
            raise InvalidInput(f"{location.label} is not protected. {_NONE}")
        _check_name(source, state)
        return location, state

    def _audited(
        self,
        source: Location,
        location: Location,
        state: LedgerState,
        terms: Terms,
        audit: Audit,
        trees: Sequence[tuple[str, Location]],
    ) -> tuple[Candidate, str, bool]:
        """The release after its audit, a hash of the protected table at that moment, and what the audit gave."""
        # One transaction, so that all that is compared is of one moment.
        with self._ledger.transaction(location.database) as cursor:
            of = records_of(cursor, location, state)
            try:
                cursor.execute(f"CREATE TEMP TABLE _dk_release AS FROM {quoted(source.path)}").fetchall()
                columns = described(cursor, STAGED)
                source_columns = described(cursor, of)
            except duckdb.Error:
                raise InvalidInput(
                    f"{source.label} or {location.label} cannot be read: a release must be a table, or a view without "
                    "functions of duckanon."
                ) from None
            records = fingerprint(cursor, of, source_columns)
            opened = _opened(cursor, location, state, trees)
            candidate = replace(
                _standing(location, state, of, source_columns, records),
                release=STAGED,
                name=source.name,
                terms=terms,
                columns=columns,
                content=fingerprint(cursor, STAGED, columns),
                trees=opened,
                codes=_codes_of(cursor, opened) if terms.kind == "suppressed" else {},
            )
            candidate.check_changes()
            totals = audit(cursor, candidate)
            cursor.execute(f"DROP TABLE {STAGED}").fetchall()
        return candidate, records, totals

    def _append(
        self,
        source: Location,
        location: Location,
        audited: LedgerState,
        candidate: Candidate,
        records: str,
        totals: bool,
    ) -> None:
        """Add the ledger's line and make the copy. Raises _Changed if the release or the records changed since the
        audit.

        totals: whether it is safe for readers who know all totals too.
        """
        basis, terms = _basis(location, audited), candidate.terms
        changes = candidate.changed

        def line(state: LedgerState) -> Mapping[str, Any]:
            if _basis(location, state) != basis:
                raise _Changed
            population = state.populations[state.members[location.identity]]
            return {
                **where(location),
                "population": population.name,
                "edition": population.edition,
                "action": "publish",
                "what": _what(candidate, changes),
                "detail": {
                    "name": source.name,
                    "kind": terms.kind,
                    "columns": list(candidate.columns),
                    "types": [kept(kind) for kind in candidate.columns.values()],
                    "variables": list(terms.variables),
                    "given": list(terms.given),
                    "value": terms.value,
                    "digits": terms.digits,
                    "base": terms.base,
                    "edition": population.edition,
                    "day": datetime.now(UTC).date().isoformat(),
                    "content": candidate.content,
                    "records": records,
                    "totals": totals,
                    "changes": changes,
                    **_masked(candidate),
                },
            }

        def write_too(cursor: duckdb.DuckDBPyConnection, _: int) -> None:
            copy = _copy(location.database, source.name)
            cursor.execute(f"CREATE TABLE {copy} AS {_sorted(source, candidate)}").fetchall()
            same = fingerprint(cursor, copy, described(cursor, copy)) == candidate.content
            records_now = fingerprint(cursor, candidate.of, described(cursor, candidate.of))
            if not same or records_now != records:
                raise _Changed

        self._ledger.append(location.database, line, write_too)


def _standing(location: Location, state: LedgerState, of: str, held: Mapping[str, str], records: str) -> Candidate:
    """All that an audit needs in addition to the release.

    of: what stands after FROM to read the table. held: its columns; records: a hash of it.
    """
    return Candidate(
        release="",
        of=of,
        name="The table",
        label=location.label,
        terms=Terms(),
        columns={},
        source=held,
        policy=state.tables[location.identity].policy,
        totals=_sold(location, state),
        earlier=[_earlier(location.database, publication, records) for publication in _of(location, state)],
        elsewhere=_elsewhere(location, state),
        looked_up=state.tables[location.identity].looked_up,
    )


def _located(
    hierarchies: Sequence[tuple[str, str]], lookup_trees: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Location]]:
    """The tables of hierarchies, by column."""
    return [(column, locate(table, lookup)) for (column, table), lookup in zip(hierarchies, lookup_trees, strict=True)]


def _opened(
    cursor: duckdb.DuckDBPyConnection, location: Location, state: LedgerState, trees: Sequence[tuple[str, Location]]
) -> dict[str, str]:
    """The names in SQL of the tables of hierarchies, by folded column. Raises InvalidInput for one that is not open."""
    return {fold(column): _open_tree(cursor, location, state, column, table) for column, table in trees}


def _codes_of(cursor: duckdb.DuckDBPyConnection, trees: Mapping[str, str]) -> dict[str, Codes]:
    """What tables of codes say, which stays what was published when they change. Raises InvalidInput for others."""
    codes = {}
    for column, path in trees.items():
        if not {"code", "parent"} <= {fold(name) for name in described(cursor, path)}:
            raise InvalidInput(f'The hierarchy of "{column}" is a table with the columns code and parent.')
        lines = cursor.execute(
            f"SELECT DISTINCT CAST(code AS VARCHAR), CAST(parent AS VARCHAR) FROM {path} ORDER BY ALL"
        ).fetchall()
        codes[column] = tuple((code, parent) for code, parent in lines)
    return codes


def _open_tree(
    cursor: duckdb.DuckDBPyConnection, location: Location, state: LedgerState, column: str, table: Location
) -> str:
    """The name in SQL of the table with the hierarchy of a column. Raises InvalidInput if analysts cannot read it.

    A label of a closed table could tell anything of the records, since nothing but that table says what it may be.
    """
    path = quoted(table.path)
    if (
        table.schema is None
        or table.database != location.database
        or not state.is_open(table.identity, list(described(cursor, path)))
    ):
        raise InvalidInput(
            f'{table.label} is no open table of this database, and says what the labels of "{column}" stand for: '
            f"open_table({literal(table.label)}), if it may be known to everybody."
        )
    return path


def _masked(candidate: Candidate) -> dict[str, Any]:
    """What the ledger says of suppression, perturbation, width, columns of numbers, labels and codes, if any."""
    terms = candidate.terms
    perturbed = None if terms.perturbation is None else asdict(terms.perturbation)
    found: dict[str, Any] = {
        "suppressed": terms.suppressed,
        "perturbation": perturbed,
        "width": terms.width,
        "sum": terms.sum,
    }
    found["hierarchies"] = dict(terms.hierarchies) or None
    found["codes"] = {column: [list(line) for line in lines] for column, lines in candidate.codes.items()} or None
    found |= {"weight": terms.weight, "count": terms.count, "magnitude": terms.magnitude}
    return {name: value for name, value in found.items() if value not in (None, 1)}


class _Changed(Exception):
    """The release, the records or the policy changed since the audit: audit again."""


_SHOWN = ("kind", "value", "sum", "weight", "count", "digits", "base", "width", "edition", "day", "withdrawn")
_NONE = "A release is audited by the policy of the table that it is made from: protect that table first."


def _listed(database: str, publication: Publication, state: LedgerState) -> dict[str, Any]:
    return {
        "database": database,
        "name": publication.name,
        "of": publication.of.label,
        "population": state.members[publication.of.identity],
        "variables": list(publication.variables),
        "given": list(publication.given),
        "content_hash": publication.content,
        "changes_accepted": publication.changes,
        "perturbation": None
        if publication.perturbation is None
        else publication.perturbation.in_words + _of_sums(publication),
        "codes": json.dumps({name: [list(line) for line in lines] for name, lines in publication.codes.items()})
        if publication.codes
        else None,
        **{name: getattr(publication, name) for name in _SHOWN},
    }


def _of_sums(publication: Publication) -> str:
    return "" if publication.magnitude is None else f", magnitude {publication.magnitude:g}"


def _committed(release: str, lookup: Mapping[str, Any]) -> Location:
    source = locate(release, lookup)
    if not source.lasting or fold(source.schema or "") == SCHEMA:
        raise InvalidInput(
            f"{release} is no table or view that lasts, so it cannot be published: CREATE TABLE it in a database, and "
            "COMMIT."
        )
    return source


def _check_name(source: Location, state: LedgerState) -> None:
    """Refuse a name for the copy that is taken or that duckanon uses itself."""
    name = fold(source.name)
    if name in state.publications:
        raise InvalidInput(
            f"A release named {source.name} was published before, and what was published stays: give this one another "
            "name."
        )
    if name in _INTERNAL or name.startswith(_INTERNAL_PREFIXES):
        raise InvalidInput(f"{source.name} is a name that duckanon needs for itself: give the release another name.")
    if name in {table for _, table in state.members}:
        raise InvalidInput(f"{source.name} is the name of a protected table: give the release another name.")


def _of(location: Location, state: LedgerState) -> list[Publication]:
    publications = [
        publication for publication in state.publications.values() if publication.of.identity == location.identity
    ]
    return sorted(publications, key=lambda item: item.number)


def _elsewhere(location: Location, state: LedgerState) -> list[str]:
    population = state.members[location.identity]
    return [
        publication.name
        for publication in state.publications.values()
        if state.members[publication.of.identity] == population and publication.of.identity != location.identity
    ]


def _sold(location: Location, state: LedgerState) -> bool:
    """Whether the population has, or had, releases with noise: then readers are assumed to know every row's total."""
    name = state.members[location.identity]
    tables = [table for table in state.tables.values() if table.policy.population == name]
    return state.populations[name].charges > 0 or any(table.policy.per_query is not None for table in tables)


def _basis(
    location: Location, state: LedgerState
) -> tuple[TablePolicy | None, int | None, bool, Mapping[str, Publication]]:
    """What an audit depends on, apart from the records."""
    identity: Identity = location.identity
    sold = identity in state.members and _sold(location, state)
    return state.tables.get(identity), state.version(identity), sold, state.publications


def _earlier(database: str, publication: Publication, records: str) -> Earlier:
    return Earlier(
        publication.name,
        publication.kind,
        publication.columns,
        publication.variables,
        publication.given,
        publication.digits,
        publication.base,
        publication.content,
        publication.records == records,
        None if publication.withdrawn else _copy(database, publication.name),
        publication.suppressed,
        publication.perturbation,
        publication.width,
        publication.sum,
        publication.weight,
        publication.count,
        publication.codes,
    )


def _copy(database: str, name: str) -> str:
    return f"{schema_of(database)}.{quoted([name])}"


def _sorted(source: Location, candidate: Candidate) -> str:
    """The query that makes the copy, with its rows in an order that depends on their values alone."""
    names = {quoted([name]): kept(kind) for name, kind in candidate.columns.items()}
    shown = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in names.items())
    # A collation may take different texts for equal, so their bytes decide.
    order = [*names, *(f"system.main.encode(CAST({name} AS VARCHAR))" for name in names)]
    return f"SELECT {shown} FROM {quoted(source.path)} ORDER BY {', '.join(f'{one} ASC NULLS LAST' for one in order)}"


def _what(candidate: Candidate, changes: bool) -> str:
    more = "; changed records were accepted, and the audit does not cover differences" if changes else ""
    return f"publish: {_told(candidate)}{more}"


def _told(candidate: Candidate) -> str:
    terms = candidate.terms
    if terms.kind == "records":
        return f"{candidate.name}, a k-anonymous table of {candidate.label}"
    text = f" within {', '.join(terms.given)}" if terms.given else ""
    by = ", ".join(terms.variables) or "nothing"
    numbers = "counts" if terms.sum is None else f"sums of {terms.sum}"
    numbers = numbers if terms.weight is None else f"{numbers} weighted by {terms.weight}"
    changed = "perturbed counts" + ("" if terms.sum is None else f" and sums of {terms.sum}")
    what = {"suppressed": f"{numbers} with suppressed cells", "perturbed": changed}.get(terms.kind, terms.kind)
    return f"{candidate.name}, {what} of {candidate.label} by {by}{text}"


def _said(candidate: Candidate) -> str:
    more = (
        " The records had changed since something was published of them, and the audit does not cover differences."
        if candidate.changed
        else ""
    )
    return f"{_told(candidate)}, is published: analysts read it as {candidate.name}.{more}"
