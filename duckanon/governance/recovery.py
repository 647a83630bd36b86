"""What the file of a database lacks of its journal: it is an older copy, or its process ended before a commit.

The file takes it in before anything is read or charged by its ledger. A charge that the journal holds counts, and its
answer is not drawn again for it, since it may have been given. The values of a domain that a policy lists are copied
again. Where a line needs what the file does not have, the copy of a publication or the values of another domain, the
publication is withdrawn, and the table closed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

import duckdb

from duckanon.accounting import written
from duckanon.catalog.domain_sources import Range
from duckanon.catalog.domain_values import objection
from duckanon.catalog.names import fold, quoted
from duckanon.errors import InvalidInput
from duckanon.governance.domain_copies import creation, types_of, written_out
from duckanon.governance.journal import Journal, Kept, line_entry
from duckanon.governance.ledger_state import LedgerState, Line, Publication, TablePolicy
from duckanon.governance.ledger_tables import (
    FAILURES,
    add_line,
    identity_of,
    lines_after,
    one_moment,
    schema_of,
    tables_of,
)

# Who closes what cannot stand, and why.
_WHO = "duckanon"
_OLDER = "not in the file, which is an older copy"
_CAUSE = "The draw failed in a newer copy of the file, which had the cause."


@dataclass(frozen=True)
class Lacking:
    """What a file lacks. lines: of the ledger. stored: answers that may have been given. failed: questions.

    closed: the lines that close what cannot stand without what the file lacks.
    """

    lines: Sequence[Line] = ()
    stored: frozenset[tuple[str, int]] = frozenset()
    failed: frozenset[str] = frozenset()
    closed: Sequence[Line] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.stored or self.failed)

    def in_words(self) -> str:
        """What it is, for people."""
        count = f"{len(self.lines):,} line{'' if len(self.lines) == 1 else 's'} of the ledger"
        spent: dict[str, Fraction] = {}
        for line in self.lines:
            name = line.population or line.location.label
            spent[name] = spent.get(name, Fraction(0)) + line.charge
        paid = ", ".join(f"{written(amount)} of {name}" for name, amount in sorted(spent.items()) if amount)
        return f"{count}, by which {paid} is spent" if paid else count

    def closed_in_words(self) -> list[str]:
        """A sentence for each line that closes something, which says why."""
        again = {"unpublish": "Publish", "unprotect": "Protect"}
        return [f"{line.location.label}: {line.what}. {again[line.action]} it again." for line in self.closed]


def settle(con: duckdb.DuckDBPyConnection, database: str, journal: Journal) -> Lacking:
    """Give a file with a ledger what it lacks of its journal, and return that.

    con: a connection without a transaction. Nobody else may write to the ledger meanwhile. Raises InvalidInput where
    the two are of different copies, the journal has a gap, or the file cannot be written.
    """
    ledger = identity_of(con, database)
    kept = journal.read(ledger)
    lines = lines_after(con, database, 0)
    lacks = _lacking(con, database, lines, kept)
    if not lacks:
        return lacks
    state = LedgerState()
    for line in [*lines, *lacks.lines]:
        state = state.after(line)
    # (Looked at before the transaction, which an error would end.)
    copies = _copies(con, database, state) if lacks.lines else {}
    try:
        with one_moment(con):
            closed = _take_in(con, database, state, lacks, copies)
            if closed:
                journal.add(ledger, [line_entry(line) for line in closed])
    except (duckdb.InvalidInputException, duckdb.IOException):
        raise InvalidInput(
            f"The file of database {database} is older than the journal beside it: open it for writing once, which "
            "takes in what was recorded since."
        ) from None
    return replace(lacks, closed=closed)


def give_up_waiting(con: duckdb.DuckDBPyConnection, database: str) -> None:
    """Take every answer that was charged and is not stored for one that was given: nobody knows better."""
    con.execute(f"UPDATE {schema_of(database)}.answers SET stored = true WHERE NOT stored").fetchall()


def _lacking(con: duckdb.DuckDBPyConnection, database: str, lines: Sequence[Line], kept: Kept) -> Lacking:
    for line in lines:
        if kept.lines.get(line.number, line) != line:
            raise InvalidInput(
                f"The ledger of {database} and the journal beside its file differ from line {line.number} on, so they "
                "are of two copies of the database: restore the copy that the journal belongs to, or move the journal "
                "away to go on without it."
            )
    more = [kept.lines.get(number) for number in range(len(lines) + 1, kept.last + 1)]
    found = [line for line in more if line is not None]
    if len(found) < len(more):
        raise InvalidInput(
            f"The journal beside the file of {database} is damaged: it does not hold all lines that the file lacks. "
            "Restore a newer copy of the database, or move the journal away to go on without it."
        )
    waiting = con.execute(f"SELECT key, number FROM {schema_of(database)}.answers WHERE NOT stored").fetchall()
    given = {(str(key), int(number)) for key, number in waiting} & kept.stored
    return Lacking(found, frozenset(given), frozenset(kept.failed - _failed(con, database)))


def _failed(con: duckdb.DuckDBPyConnection, database: str) -> set[str]:
    """The questions whose draws are known to have failed."""
    try:
        return {str(key) for (key,) in con.execute(f"SELECT key FROM {schema_of(database)}.failures").fetchall()}
    except duckdb.CatalogException:
        return set()


def _copies(con: duckdb.DuckDBPyConnection, database: str, state: LedgerState) -> dict[str, str]:
    """The domains that policies list and that the file lacks: the names of their tables, and what these hold, in SQL.

    The types of the columns are those that the file has: what does not fit them is left out.
    """
    tables = tables_of(con, database)
    found: dict[str, str] = {}
    for policy in state.tables.values():
        lacking = {column: domain for column, domain in policy.domains.items() if domain.table}
        lacking = {column: domain for column, domain in lacking.items() if fold(domain.table) not in tables}
        types = types_of(con, (database, policy.location.schema or "main", policy.location.name)) if lacking else None
        kinds = {fold(name): kind for name, kind in (types or {}).items()}
        for name, source in policy.policy.domains.items():
            kind = kinds.get(fold(name))
            if fold(name) not in lacking or kind is None or not isinstance(source, tuple | Range):
                continue
            query = written_out(name, source, kind)
            if objection(name, source, kind) is None and _can_run(con, query):
                found[lacking[fold(name)].table] = query
    return found


def _can_run(con: duckdb.DuckDBPyConnection, query: str) -> bool:
    try:
        con.execute(query).fetchall()
    except duckdb.Error:
        return False
    return True


def _take_in(
    con: duckdb.DuckDBPyConnection, database: str, state: LedgerState, lacks: Lacking, copies: Mapping[str, str]
) -> list[Line]:
    """Write what a file lacks. Returns the lines that were added to those of the journal.

    state: after the journal's lines. copies: of domains, as `_copies` returns them.
    """
    schema = schema_of(database)
    for key, number in sorted(lacks.stored):
        con.execute(f"UPDATE {schema}.answers SET stored = true WHERE key = ? AND number = ?", [key, number]).fetchall()
    if lacks.failed:
        con.execute(FAILURES.format(schema=schema)).fetchall()
    for key in sorted(lacks.failed):
        con.execute(f"INSERT INTO {schema}.failures VALUES (?, now()::TIMESTAMP, ?)", [key, _CAUSE]).fetchall()
    for table, query in copies.items():
        con.execute(creation(f"{schema}.{quoted([table])}", query)).fetchall()
    closed = _closing(state, tables_of(con, database)) if lacks.lines else []
    for line in [*lacks.lines, *closed]:
        add_line(con, database, line)
    return closed


def _closing(state: LedgerState, tables: set[str]) -> list[Line]:
    """The lines that close whatever needs a table of the schema that is not there."""
    copies = [
        publication
        for publication in state.publications.values()
        if not publication.withdrawn and fold(publication.name) not in tables
    ]
    policies = [policy for policy in state.tables.values() if _lost_domains(policy, tables)]
    lost: list[Publication | TablePolicy] = [*copies, *policies]
    return [_closed(state, number, each, tables) for number, each in enumerate(lost, state.number + 1)]


def _lost_domains(policy: TablePolicy, tables: set[str]) -> list[str]:
    """The columns whose domains are not there."""
    return [name for name, domain in policy.domains.items() if domain.table and fold(domain.table) not in tables]


def _closed(state: LedgerState, number: int, lost: Publication | TablePolicy, tables: set[str]) -> Line:
    if isinstance(lost, Publication):
        location, action = lost.of, "unpublish"
        what = f"unpublish: {lost.name}, as its copy is {_OLDER}"
        detail = json.dumps({"name": lost.name})
    else:
        location, action, detail = lost.location, "unprotect", None
        columns = ", ".join(quoted([name]) for name in _lost_domains(lost, tables))
        what = f"unprotect, as the copy of the domain of {columns} is {_OLDER}"
    population = state.members[location.identity]
    values = {
        "number": number,
        "recorded_at": datetime.now(UTC).replace(tzinfo=None),
        "who": _WHO,
        "schema_name": location.schema,
        "table_name": location.name,
        "population": population,
        "edition": state.populations[population].edition,
        "action": action,
        "what": what,
        "detail": detail,
    }
    return Line.of(values)
