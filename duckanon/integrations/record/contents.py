"""What a record says of files that leave an office: a part that goes with them, and one that stays."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon import __version__
from duckanon.catalog.names import fold, literal
from duckanon.errors import InvalidInput
from duckanon.integrations.data_files import DataFile
from duckanon.integrations.published_copies import has_rows, published, readings
from duckanon.integrations.record.certificates import certificate
from duckanon.integrations.record.forms import INTERNAL, PUBLIC, PUBLICATION
from duckanon.integrations.record.suppressed_files import suppressed_table
from duckanon.integrations.results import fetch

if TYPE_CHECKING:
    from duckanon.connection import Connection

# A call whose answer is the same each time, as people write it: after CREATE TABLE ... AS, or with some of its columns.
_CALL = re.compile(
    r"\s*(?:CREATE\s[^();]*?\sAS\s+)?(?:(?P<select>SELECT\s[^();]*?(?:EXCLUDE\s*\([^();]*\)[^();]*?)?)\s+)?(?:FROM\s+)?"
    r"(?P<call>(?P<function>suppress|k_anonymize|cell_key)\s*\(.*\))\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_AUDIT = re.compile(r"\baudit\s*(?::=|=>)", re.IGNORECASE)
_RULES = ("tbl", "population", "k", "small", "privacy_unit", "public", "quasi_identifiers", "sensitive", "hierarchy")


@dataclass(frozen=True)
class Decision:
    """Why files leave, to whom, and who decided that. calls: by which files were made."""

    purpose: str
    recipient: str
    decided_by: str
    calls: Sequence[str] = ()


def contents(con: Connection, files: Sequence[Path], decision: Decision) -> tuple[dict[str, Any], dict[str, Any]]:
    """The public part and the internal part of a record, without signatures. Raises InvalidInput.

    con: to the database, for reading only.
    """
    policies, publications, ledger = (
        fetch(con.execute(f"FROM {name}()")).records() for name in ("policies", "publications", "privacy_ledger")
    )
    read = {path: readings(con, path, _loaded(con, path)) for path in files}
    told = [_file(con, path, read[path], publications) for path in files]
    calls = [_called(con, call, read) for call in decision.calls]
    internal = {
        "record": INTERNAL,
        # Without it nobody can find the internal part by trying.
        "salt": secrets.token_hex(32),
        "calls": calls,
        "ledger": [
            {name: str(line[name]) for name in ("number", "recorded_at", "who", "action", "tbl", "what")}
            for line in ledger
        ],
    }
    public = {
        "record": PUBLIC,
        "duckanon": __version__,
        "made_at": datetime.now(UTC).replace(microsecond=0).isoformat(),
        "purpose": decision.purpose,
        "recipient": decision.recipient,
        "decided_by": decision.decided_by,
        "files": told,
        "rules": [{name: policy[name] for name in _RULES if name in policy} for policy in policies],
        "audits": [_verdict(con, policy["tbl"], publications) for policy in policies],
    }
    return public, internal


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _loaded(con: Connection, path: Path) -> str:
    """The table into which a file is read. Raises InvalidInput for one that may hold more than a table."""
    file = DataFile.of(path)
    if file.is_office or file.kind == "database":
        raise InvalidInput(
            f"{path}: files of this kind can hold more than the one table that is compared with the publication: write "
            "it as .csv, .tsv, .json, .ndjson or .parquet."
        )
    return file.load(con, str(path))


def _file(
    con: Connection, path: Path, read: Sequence[tuple[str, bool]], publications: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A file: its hash, which publication it is, and its certificate if it is a suppressed table. read: see `readings`.

    Raises InvalidInput for a file that is no publication: no audit covers it, so a record must not say what one found.
    """
    same = published(con, read, [publication for publication in publications if not publication["withdrawn"]])
    if same is None:
        raise InvalidInput(
            f"{path} is no publication of the database, or a withdrawn one, and no audit covers it: publish the table "
            "with SELECT publish(...), and write the file from its copy in the schema duckanon."
        )
    codes = json.loads(same["codes"] or "{}")
    hidden = suppressed_table(con, as_text(con, path) if codes else read[0][0], codes)
    return {
        "name": path.name,
        "sha256": digest(path),
        "size": path.stat().st_size,
        "publication": {name: same[name] for name in PUBLICATION},
        # Who checks the certificate knows the hierarchies of codes from the record.
        "codes": codes,
        "certificate": None if hidden is None else certificate(hidden),
    }


def as_text(con: Connection, path: Path) -> str:
    """The table into which a file is read so that the code 01 does not become 1."""
    return DataFile.of(path).load(con, f"{path} with codes", typed=[])


def _verdict(con: Connection, table: str, publications: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the audit of all publications of a table says together; how many cells are at risk, it does not say."""
    of = [publication for publication in publications if publication["of"] == table]
    try:
        rows = con.execute(f"SELECT system.main.bool_and(safe) FROM release_audit({literal(table)})").fetchall()
        verdict = "safe" if rows[0][0] in (None, True) else "not proven safe"
    except duckdb.Error:
        verdict = "not audited"
    if all(one["kind"] == "records" for one in of):
        # What k-anonymous copies disclose depends on their classes, and release_audit does not look at them.
        verdict = "no numbers to audit"
    changed = any(one["changes_accepted"] for one in of)
    names = [one["name"] for one in of]
    return {"table": table, "publications": names, "verdict": verdict, "changed_records_accepted": changed}


def _called(con: Connection, call: str, read: Mapping[Path, Sequence[tuple[str, bool]]]) -> dict[str, Any]:
    """A call, made again: which file it made; and of suppress, its sensitive cells and what was suppressed besides."""
    match = _CALL.fullmatch(call)
    if match is None or _AUDIT.search(call):
        raise InvalidInput(
            "--call is the call of suppress, k_anonymize or cell_key that made a file, without audit, as in "
            "--call \"suppress('t', ['town'], ['sex'])\"."
        )
    is_suppressed = fold(match["function"]) == "suppress"
    made = f"{match['call'][:-1]}, audit := true)" if is_suppressed else match["call"]
    con.execute(f'CREATE OR REPLACE TEMP TABLE "duckanon.call" AS FROM {made}').fetchall()
    columns = match["select"] or "SELECT *"
    without = "* EXCLUDE (status, true_value, lower, upper)" if is_suppressed else "*"
    answer = f'({columns} FROM (SELECT {without} FROM "duckanon.call"))'
    file = next((path.name for path, tables in read.items() if has_rows(con, tables, answer)), None)
    if file is None:
        raise InvalidInput(
            f"--call {match['function']}(...): it was made again, and no --file has the table that it gives now. Give "
            "the call that made the file; if the records or the policy have changed since, publish its new table and "
            "write that file."
        )
    return {"call": call, "file": file} | (_suppressed(con) if is_suppressed else {})


def _suppressed(con: Connection) -> dict[str, Any]:
    """What a call of suppress found sensitive, and what it suppressed besides."""
    keys = "* EXCLUDE (value, suppressed, status, true_value, lower, upper)"
    primary = fetch(con.execute(f"SELECT {keys} FROM \"duckanon.call\" WHERE status = 'primary'")).records()
    ((secondary, value),) = con.execute(
        'SELECT system.main.count(*), CAST(coalesce(system.main.sum(true_value), 0) AS VARCHAR) FROM "duckanon.call" '
        "WHERE status = 'secondary'"
    ).fetchall()
    return {
        "primary": [{name: None if value is None else str(value) for name, value in cell.items()} for cell in primary],
        "secondary_cells": secondary,
        "secondary_value": value,
    }
