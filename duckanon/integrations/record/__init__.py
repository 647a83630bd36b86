"""Records for output checkers: what files leave an office, by which rules, who decided it, and proofs to be checked.

`contents` collects, `certificates` proves and checks, `signatures` signs, `forms` reads strictly, `verification` checks
what others get. `write_record` is the command of the office.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.data_files import free, put
from duckanon.integrations.record.contents import Decision, contents
from duckanon.integrations.record.signatures import private_key, signed
from duckanon.integrations.terminal.session import Session


def internal_path(out: Path) -> Path:
    """Where the part of a record goes that stays in the office."""
    return out.with_name(f"{out.stem}.internal{out.suffix}")


def write_record(
    path: Path, out: Path, files: Sequence[Path], decision: Decision, key: Path, *, force: bool
) -> dict[str, Any]:
    """Write both parts of the record of some files; returns the public one. Raises InvalidInput.

    path: the database that they come from, which is opened for reading only.
    """
    if out.suffix.lower() != ".json":
        raise InvalidInput(f"{out}: a record's name ends in .json.")
    if len({file.resolve() for file in files}) < len(files):
        raise InvalidInput("A file is named twice: give each --file once.")
    if len({file.name for file in files}) < len(files):
        raise InvalidInput("Two files have the same name: a record tells files by their names.")
    for one in files:
        if not one.is_file():
            raise InvalidInput(f"--file: there is no file {one}.")
    for one in (out, internal_path(out)):
        if one.resolve() in {file.resolve() for file in files}:
            raise InvalidInput(
                f"--file {one} would be written over by a part of the record: name the record otherwise."
            )
        free(one, force=force)
    office = private_key(key)
    with Session(path, read_only=True, role="steward") as session:
        public, internal = session.run("Recording", lambda con: contents(con, files, decision))
    kept = _text(signed(internal, office))
    public = signed({**public, "internal_part_sha256": sha256(kept).hexdigest()}, office)
    put(internal_path(out), kept)
    put(out, _text(public))
    return public


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
