"""An earlier release of a table, read back from its file: what `--within` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.errors import InvalidInput
from duckanon.functions.templates import identifier, literal
from duckanon.integrations.files import DataFile, is_database

if TYPE_CHECKING:
    from duckanon.connection import Connection


def earlier(
    con: Connection,
    given: str,
    table: str,
    qi: Sequence[str],
    *,
    inside: Path,
    typed: Sequence[str] | None,
) -> str:
    """The name under which the functions find the release: a data file, or a table, if `inside` is a database.

    table: what was released, as the functions find it; the released cells of its columns `qi` get their types, which a
    text file does not keep. typed: as for `DataFile.load`. Raises InvalidInput if there is no such file, or it has
    values of other types.
    """
    if is_database(inside) and not Path(given).exists():
        return given
    file = DataFile.of(Path(given))
    if not file.path.is_file():
        raise InvalidInput(f"--within: there is no file {given}.")
    if file.kind == "database":
        raise InvalidInput(f"--within {given} is a DuckDB database: export the release to a file first.")
    # (The name is told in errors, and differs from that of a file IN.)
    read = file.load(con, f"--within {file.path.name}", typed=typed)
    kinds, held = _types(con, table), _types(con, read)
    casts = []
    for name in qi:
        kind = kinds.get(name.lower())
        for end, wanted in ((f"{name}_lo", kind), (f"{name}_hi", kind), (f"{name}_set", f"{kind}[]")):
            found = held.get(end.lower())
            if kind is None or found is None or found == wanted:
                continue
            quoted = identifier(end)
            # A set in a text file is JSON.
            text = f"TRY_CAST({quoted} AS JSON)" if wanted == f"{kind}[]" and found == "VARCHAR" else quoted
            casts.append((end, f"TRY_CAST({text} AS {wanted})", wanted))
    for end, cast, wanted in casts:
        query = f"SELECT count(*) FROM {read} WHERE {identifier(end)} IS NOT NULL AND {cast} IS NULL"  # noqa: S608
        ((lost,),) = con.execute(query).fetchall()
        if lost:
            raise InvalidInput(f'--within {given} is no release of this table: column "{end}" is not of type {wanted}.')
    if casts:
        parts = ", ".join(f"{cast} AS {identifier(end)}" for end, cast, _ in casts)
        con.execute(f"CREATE OR REPLACE TEMP TABLE {read} AS SELECT * REPLACE ({parts}) FROM {read}").fetchall()  # noqa: S608
    return read


def _types(con: Connection, table: str) -> dict[str, str]:
    found = con.execute(
        f"SELECT lower(column_name), column_type FROM (DESCRIBE FROM system.main.query_table({literal(table)}))"  # noqa: S608
    )
    return dict(found.fetchall())
