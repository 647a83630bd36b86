"""Reads an earlier release of a table from its file, with the types that the table has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.integrations.data_files import DataFile, is_database

if TYPE_CHECKING:
    from duckanon.connection import Connection


def earlier(
    con: Connection,
    text: str,
    table: str,
    qi: Sequence[str],
    *,
    inside: Path,
    typed: Sequence[str] | None = None,
    called: str = "--within",
) -> str:
    """The name by which SQL reads the release: a data file, or a table, if `inside` is a database.

    table: the name by which SQL reads the table that was released. The released columns get the types of its columns
    `qi` again, which a text file does not keep. typed: as for `DataFile.load`. called: what the command line calls the
    release. Raises InvalidInput if there is no such file, or it has values of other types.
    """
    if is_database(inside) and not Path(text).exists():
        return text
    file = DataFile.of(Path(text))
    if not file.path.is_file():
        raise InvalidInput(f"{called}: there is no file {text}.")
    if file.kind == "database":
        raise InvalidInput(f"{called} {text} is a DuckDB database: export the release to a file first.")
    # The name appears in errors, and must differ from that of the file IN.
    read = file.load(con, f"{called} {file.path.name}", typed=typed)
    cells = _typed_cells(_types(con, table), _types(con, read), qi)
    for (name, end), cast in cells.items():
        query = f"SELECT count(*) FROM {read} WHERE {identifier(end)} IS NOT NULL AND {cast} IS NULL"  # noqa: S608
        ((lost,),) = con.execute(query).fetchall()
        if lost:
            raise InvalidInput(
                f'{called} {text} is no release of this table: column "{end}" has values that are not of the type of '
                f'column "{name}".'
            )
    if cells:
        parts = ", ".join(f"{cast} AS {identifier(end)}" for (_, end), cast in cells.items())
        con.execute(f"CREATE OR REPLACE TEMP TABLE {read} AS SELECT * REPLACE ({parts}) FROM {read}").fetchall()  # noqa: S608
    return read


def _types(con: Connection, table: str) -> Mapping[str, str]:
    """The columns' types by name in lower case."""
    connection = con.execute(
        f"SELECT lower(column_name), column_type FROM (DESCRIBE FROM system.main.query_table({literal(table)}))"  # noqa: S608
    )
    return dict(connection.fetchall())


def _typed_cells(table: Mapping[str, str], read: Mapping[str, str], qi: Sequence[str]) -> Mapping[tuple[str, str], str]:
    """Casts, by quasi-identifier and released column, of the cells that were read with other types than the table's."""
    casts = {}
    for name in (name for name in qi if name.lower() in table):
        kind = table[name.lower()]
        ends = {"lo": kind, "hi": kind, "set": f"{kind}[]", "label": "VARCHAR"}
        for end, wanted in ((f"{name}_{end}", wanted) for end, wanted in ends.items()):
            text = read.get(end.lower(), wanted)
            if text != wanted:
                one = identifier(end)
                if text == "VARCHAR" and end.endswith("_set"):
                    # A set in a text file is JSON, or as DuckDB's COPY writes lists.
                    casts[name, end] = (
                        f"coalesce(TRY_CAST(TRY_CAST({one} AS JSON) AS {wanted}), TRY_CAST({one} AS {wanted}))"
                    )
                else:
                    casts[name, end] = f"TRY_CAST({one} AS {wanted})"
    return casts
