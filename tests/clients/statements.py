"""Statements that programs send, as fixtures/server/programs holds them: a file for each program, in their order."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "server" / "programs"
_ENTRY = re.compile(r"^-- statement: (.*)\n-- parameters: (.*)\n-- columns: (.*)\n-- rows: (.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Sent:
    """A statement, and what PostgreSQL 15 says of it.

    kind: session, catalog, open or protected. parameters: the number of each type, and its text. columns: names and
    types' numbers; None for a statement without rows. rows: the first ones of an open question in their order, as text.
    fails: the SQLSTATE with which duckanon refuses it; empty for one that it answers.
    """

    kind: str
    text: str
    parameters: Sequence[tuple[int, str | None]] = ()
    columns: Sequence[tuple[str, int]] | None = None
    rows: Sequence[Sequence[str | None]] | None = None
    fails: str = ""

    def written(self) -> str:
        """The entry in a file."""
        head = f"{self.kind} {self.fails}".strip()
        said = [json.dumps(one, ensure_ascii=False) for one in (self.parameters, self.columns, self.rows)]
        return (
            f"-- statement: {head}\n-- parameters: {said[0]}\n-- columns: {said[1]}\n-- rows: {said[2]}\n"
            f"{self.text.strip()}\n\n"
        )


def programs() -> list[str]:
    """The names of all programs that were recorded."""
    return sorted(one.stem for one in FOLDER.glob("*.sql"))


def sent(program: str) -> list[Sent]:
    """What a program sent."""
    parts = _ENTRY.split((FOLDER / f"{program}.sql").read_text(encoding="utf-8"))[1:]
    found = []
    for head, parameters, columns, rows, text in zip(*(parts[at::5] for at in range(5)), strict=True):
        kind, _, fails = head.partition(" ")
        given = [(number, value) for number, value in json.loads(parameters)]
        found.append(Sent(kind, text.strip(), given, json.loads(columns), json.loads(rows), fails))
    return found
