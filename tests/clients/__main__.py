"""`python -m tests.clients NAME --postgres URL -- COMMAND ...`: drive a program, and record what it sends.

COMMAND runs the program; the address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE. It is driven on a served
database (tests/clients/world.py) through a proxy that records its statements. PostgreSQL 15, which is not needed to
replay them, then says of each which columns it has. Its address must be of an empty database: the same tables are made
in it, in a schema `main`.

The programs of tests/clients/programs, with what they need:

    pgadmin   python pgadmin.py             PyPI pgadmin4
    pgcli     python pgcli.py               PyPI pgcli, pexpect
    sequelize node node.js sequelize        npm; also pg, postgres, knex, drizzle, kysely, typeorm, slonik
    r         Rscript r.R                   Debian r-cran-rpostgresql
    jdbc      java -cp JAR Jdbc.java        Debian libpostgresql-jdbc-java, and a JDK
    dbt       python dbt.py                 PyPI dbt-postgres; with --user stu
    superset  python superset_charts.py     PyPI apache-superset, flask-caching<2.4
    django    python python.py django       PyPI; also sqlalchemy, and arrow (polars, connectorx, ADBC)
    bi        python bi.py                  PyPI psycopg
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import pq

from duckanon.server import commands
from duckanon.server.catalog import UserCatalog
from duckanon.server.codecs import decoder
from duckanon.server.errors import PgError
from tests.clients.proxy import Exchange, Proxy
from tests.clients.statements import FOLDER, Sent
from tests.clients.world import POSTGRESQL, make
from tests.server.served import password, serving

# Statements that end because the program cancelled them, or that end another session's.
_CANCELLED = "57014"
_MOST_ROWS = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--postgres", required=True, help="address of an empty database of PostgreSQL 15")
    parser.add_argument("--user", default="ana", help="ana, an analyst, or stu, a steward")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    exchanges = driven(asked.command, asked.user)
    with psycopg.connect(asked.postgres, autocommit=True) as con:
        con.execute("DROP SCHEMA IF EXISTS main CASCADE; CREATE SCHEMA main")
        con.execute(f"SET search_path = main; {POSTGRESQL}")
        found = [one for one in (recorded(con, exchange) for exchange in exchanges) if one is not None]
    unique = list({(one.text, one.kind): one for one in found}.values())
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = "".join(one.written() for one in unique)
    (FOLDER / f"{asked.program}.sql").write_text(text.rstrip() + "\n", encoding="utf-8")
    fails = [one for one in unique if one.fails]
    print(
        f"{asked.program}: {len(unique)} statements, {sum(one.kind == 'catalog' for one in unique)} about the catalog"
    )
    for one in fails:
        print(f"  {one.fails}: {' '.join(one.text.split())[:160]}")
    return 0


def driven(command: list[str], user: str) -> list[Exchange]:
    """What a program sends to a served database while its command runs."""
    with TemporaryDirectory() as folder, serving(make(Path(folder) / "people.duckdb")) as served:
        with Proxy(served.host, served.port) as proxy:
            own = {"PGHOST": served.host, "PGPORT": str(proxy.port), "PGDATABASE": "people"}
            own |= {"PGUSER": user, "PGPASSWORD": password(user)}
            subprocess.run(command, env={**os.environ, **own}, timeout=600, check=False)
            time.sleep(0.5)
        return list(proxy.exchanges)


def recorded(con: psycopg.Connection[Any], exchange: Exchange) -> Sent | None:
    """The statement with PostgreSQL's columns; None for one that it does not know, or that was cancelled."""
    code = exchange.error[0] if exchange.error is not None else ""
    kind = kind_of(exchange.text)
    if code == _CANCELLED or not kind:
        return None
    types = list(exchange.types) + [0] * (len(exchange.values) - len(exchange.types))
    values = [_text(value, oid, binary=binary) for (binary, value), oid in zip(exchange.values, types, strict=False)]
    parameters = list(zip(types, values, strict=False))
    if kind == "session":
        return Sent(kind, exchange.text, parameters, exchange.columns, None, code)
    text = exchange.text.encode()
    made = con.pgconn.prepare(b"", text, types)
    if made.status != pq.ExecStatus.COMMAND_OK:
        return None
    about = con.pgconn.describe_prepared(b"")
    columns = [((about.fname(at) or b"").decode(), about.ftype(at)) for at in range(about.nfields)] or None
    given = [(about.param_type(at), value) for at, value in zip(range(about.nparams), values, strict=False)]
    rows = None
    if kind == "open" and "ORDER BY" in exchange.text.upper():
        # (psycopg's types do not say that a value may be None.)
        sent: Any = [None if one is None else one.encode() for one in values]
        answer = con.pgconn.exec_prepared(b"", sent)
        rows = [
            [
                None if cell is None else cell.decode()
                for cell in (answer.get_value(at, place) for place in range(answer.nfields))
            ]
            for at in range(min(answer.ntuples, _MOST_ROWS))
        ]
    return Sent(kind, exchange.text, given, columns, rows, code)


def kind_of(text: str) -> str:
    """session, catalog, protected or open; empty for a statement that ends another session's."""
    try:
        command = commands.command(text)
    except PgError:
        return "session"
    if isinstance(command, commands.EndStatement):
        return ""
    if command is not None and not isinstance(command, commands.Explain):
        return "session"
    if command is None and UserCatalog("ana", "people").answers(text):
        return "catalog"
    return "session" if command is not None else "protected" if "persons" in text else "open"


def _text(value: bytes | None, oid: int, *, binary: bool) -> str | None:
    """A parameter's value as text."""
    if value is None:
        return None
    if not binary:
        return value.decode()
    found = decoder(oid, binary=True)(value)
    return f"{{{','.join(map(str, found))}}}" if isinstance(found, list) else str(found)


if __name__ == "__main__":
    sys.exit(main())
