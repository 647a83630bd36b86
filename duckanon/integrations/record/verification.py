"""The check of a record by whoever gets it: signature, files and certificates, without the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.integrations.data_files import DataFile
from duckanon.integrations.record.certificates import check
from duckanon.integrations.record.contents import as_text, digest
from duckanon.integrations.record.forms import internal_part, public_part
from duckanon.integrations.record.signatures import fingerprint, public_key, signer
from duckanon.integrations.record.suppressed_files import suppressed_table
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection


@dataclass(frozen=True)
class Verified:
    """What a record is found to be.

    told: its public part. signed_by: the fingerprint of the key that signed it; empty if the signature is not valid.
    problems: what is wrong with it or with the files, each in a sentence. internal: whether its internal part was
    given and is the one that was signed.
    """

    told: dict[str, Any]
    signed_by: str
    problems: Sequence[str]
    internal: bool = False

    def lines(self) -> list[str]:
        """What the record says, for people."""
        told = self.told
        return [
            f"Made at {told['made_at']}, by the office's clock.",
            *(
                f"{name}: {told[field]}"
                for name, field in (("Purpose", "purpose"), ("Recipient", "recipient"), ("Decided by", "decided_by"))
            ),
            *(
                f"{value['name']}: publication {value['publication']['name']} ({value['publication']['kind']}) of "
                f"{value['publication']['of']}"
                for value in told["files"]
                if value["publication"] is not None
            ),
            *(
                f"Audit of {value['table']}, with {', '.join(value['publications'])}: {value['verdict']}"
                + (", and its records had changed between publications" if value["changed_records_accepted"] else "")
                for value in told["audits"]
                if value["publications"]
            ),
        ]


def verify(record: Path, files: Sequence[Path], key: Path | None = None) -> Verified:
    """Check a record. files: all that it is about, and its internal part, if that is to be checked too.

    key: of the office that must have signed. Raises InvalidInput for what is no record.
    """
    told = public_part(record)
    found = signer(told)
    if found is None:
        return Verified(told, "", [f"{record}: its signature is not valid: it was changed after it was signed."])
    problems = []
    if key is not None and public_key(key) != found:
        problems.append(f"{record} is signed with another key than {key}.")
    listed = {value["name"]: value for value in told["files"]}
    paths: dict[str, Path] = {}
    internal = False
    for file in files:
        other = paths.setdefault(file.name, file)
        if other is not file:
            problems.append(_named_again(file, other))
        elif not file.is_file():
            problems.append(f"There is no file {file}.")
        elif file.name in listed:
            problems += _problems(file, listed[file.name])
        elif (part := internal_part(file)) is not None:
            internal = digest(file) == told["internal_part_sha256"] and signer(part) == found
            problems += [] if internal else [f"{file} is not the internal part that was signed with {record}."]
        else:
            problems.append(f"{file} is not in the record.")
    problems += [f"{name} is in the record and was not given: name all files." for name in listed if name not in paths]
    return Verified(told, fingerprint(found), problems, internal)


def _read(con: Connection, path: Path) -> str:
    return DataFile.of(path).load(con, str(path))


def _named_again(path: Path, other: Path) -> str:
    if path.resolve() == other.resolve():
        return f"{path} is given twice: name each file once."
    return f"{path} and {other} have the same name, by which a record tells files: give the one that it is about."


def _problems(path: Path, listed: dict[str, Any]) -> list[str]:
    """What is wrong with a file that is in a record."""
    if digest(path) != listed["sha256"]:
        return [f"{path} is not the file that was recorded: its SHA-256 is another."]
    uncovered = [] if listed["publication"] else [f"{path} is no publication: no audit covers it."]
    codes = listed["codes"]
    with Session() as session:
        table = session.run(
            "Reading", lambda con: suppressed_table(con, as_text(con, path) if codes else _read(con, path), codes)
        )
    if (table is None) != (listed["certificate"] is None):
        said = "has no suppressed cells, and the record has a" if table is None else "has suppressed cells, and no"
        return [*uncovered, f"{path} {said} certificate of them."]
    if table is None:
        return uncovered
    return [*uncovered, *(f"{path}: {problem}." for problem in check(table, listed["certificate"]))]
