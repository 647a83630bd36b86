"""The recorded queries of fixtures/server/catalog.sql, and a catalog to ask them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from duckanon.server.catalog import UserCatalog

FILE = Path(__file__).parents[3] / "fixtures" / "server" / "catalog.sql"
_ENTRY = re.compile(r"^-- client: (.*)\n-- parameters: (.*)\n-- columns: (.*)\n", re.MULTILINE)

PERSONS = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "age": "INTEGER",
    "county": "VARCHAR",
    "income": "DECIMAL(10,2)",
    "born": "DATE",
    "seen": "TIMESTAMP WITH TIME ZONE",
    "tags": "VARCHAR[]",
    "score": "DOUBLE",
    "ok": "BOOLEAN",
}


@dataclass(frozen=True)
class Recorded:
    """A query of a client. parameters: PostgreSQL's type of each, and its text. columns: names and types."""

    client: str
    text: str
    parameters: Sequence[tuple[str, str | None]]
    columns: Sequence[tuple[str, str]]

    @property
    def values(self) -> list[object]:
        """The parameters as the codecs read them."""
        return [_value(kind, text) for kind, text in self.parameters]


def _value(kind: str, text: str | None) -> object:
    if text is None:
        return None
    if kind.startswith("_"):
        return [_value(kind[1:], one) for one in text.strip("{}").split(",") if one]
    return int(text) if kind in ("int2", "int4", "int8", "oid") else text == "t" if kind == "bool" else text


def recorded() -> list[Recorded]:
    parts = _ENTRY.split(FILE.read_text(encoding="utf-8"))[1:]
    return [
        Recorded(client, text.strip(), [(kind, value) for kind, value in json.loads(given)], json.loads(columns))
        for client, given, columns, text in zip(*(parts[at::4] for at in range(4)), strict=True)
    ]


def filled(*, writes: bool = False) -> UserCatalog:
    """The catalog of a user who sees a table, a view and an open table."""
    one = UserCatalog("ana", "people", writes=writes)
    persons = [("people", "main", "persons", name, kind, "YES") for name, kind in PERSONS.items()]
    adults = [("people", "main", "adults", name, kind, "YES") for name, kind in PERSONS.items()]
    counties = [("people", "main", "counties", name, "VARCHAR", "NO") for name in ("county", "label")]
    tables = [
        ("people", "main", "persons", "PROTECTED"),
        ("people", "main", "adults", "VIEW"),
        ("people", "main", "counties", "BASE TABLE"),
    ]
    one.fill([*persons, *adults, *counties], tables)
    return one
