"""`duckanon serve` and `duckanon user`: a database for many users, over PostgreSQL's protocol."""

from __future__ import annotations

import getpass
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from duckanon.errors import InvalidInput
from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform, write

user = typer.Typer(no_args_is_help=True, help="The users of a served database.")
Database = Annotated[Path, typer.Argument(metavar="PATH", help="The DuckDB database.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]


class Role(StrEnum):
    """What a user may do."""

    ANALYST = "analyst"
    STEWARD = "steward"


def serve(
    path: Database,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen at. Others than this machine's need TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 5433,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, in PEM.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, in PEM.")] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Change nothing: only stored answers are given.")
    ] = False,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Where to log. Default: stderr.")] = None,
    seconds: Annotated[
        float, typer.Option("--statement-seconds", min=0, help="The most for a statement; 0: any.")
    ] = 300,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="The most rows of a result.")] = 10_000_000,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads of DuckDB. Default: as cores.")
    ] = None,
    connections: Annotated[int, typer.Option("--connections", min=1, help="The most connections.")] = 500,
    per_user: Annotated[int, typer.Option("--connections-per-user", min=1, help="The most of one user.")] = 100,
) -> None:
    """Serve a database to psql, DBeaver and every PostgreSQL driver. Analysts are guarded, each by a login.

    The database is opened by this process alone. Ctrl-C or SIGTERM stops it: what
    runs may end first. Users are added with duckanon user add.
    """
    with one_sentence():
        import asyncio

        from duckanon.server.service import Options, Service

        service = Service(
            path,
            Options(
                host=host,
                port=port,
                tls_cert=tls_cert,
                tls_key=tls_key,
                read_only=read_only,
                log=log,
                seconds=seconds or None,
                max_rows=max_rows,
                threads=threads,
                connections=connections,
                connections_per_user=per_user,
            ),
        )

        def started(host: str, port: int) -> None:
            how = "over TLS" if tls_cert else "without TLS, to this machine only"
            inform(f"Serving {path} at {host}:{port}, {how}. Ctrl-C stops it.")

        try:
            asyncio.run(service.serve(started))
        except OSError as error:
            raise InvalidInput(f"{host}:{port} cannot be listened at: {error.strerror or 'it is in use'}.") from error
        finally:
            service.close()


@user.callback()
def _user() -> None:
    """The users of a served database."""


@user.command()
def add(
    path: Database,
    name: Name,
    role: Annotated[Role, typer.Option("--role", help="What the user may do.")],
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", metavar="E", help="The most that the user may spend, in all, of a budget:"),
    ] = None,
    of: Annotated[str | None, typer.Option("--of", metavar="POPULATION", help="that of this population.")] = None,
) -> None:
    """Add a user, or give one a new role and password.

    The password is asked for, or read from standard input. Only a verifier of it is
    kept, in the file PATH.users. An allotment (--epsilon, --of) is kept in the
    database, which no server may have open then.
    """
    with one_sentence():
        from duckanon.server.users import UserFile

        if (epsilon is None) != (of is None):
            raise InvalidInput("An allotment needs both --epsilon and --of.")
        if not path.is_file():
            raise InvalidInput(f"There is no database {path}: name a DuckDB file that is there.")
        password = _password(name)
        if epsilon is not None and of is not None:
            # First of all: nobody can log in before the limit holds.
            _allot(path, name, epsilon, of)
        is_new = UserFile(path).add(name, role.value, password)
        limit = f", who may spend epsilon {epsilon} on {of}" if epsilon is not None else ""
        inform(f"{name} {'is added as' if is_new else 'is now'} {role.value}{limit}.")


@user.command()
def remove(path: Database, name: Name) -> None:
    """Remove a user. What the user has spent stays spent, also if the name is added again."""
    with one_sentence():
        from duckanon.server.users import UserFile

        UserFile(path).remove(name)
        inform(f"{name} is removed. Connections that are open stay until they end.")


@user.command("list")
def listed(path: Database) -> None:
    """List the users and their roles."""
    with one_sentence():
        from duckanon.server.users import UserFile

        users = sorted(UserFile(path).read().users.values(), key=lambda one: one.name)
        write("".join(f"{one.name}\t{one.role}\n" for one in users))


def _password(name: str) -> str:
    """The password, from the terminal or from standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password for {name}: ")
    if getpass.getpass("The same again: ") != password:
        raise InvalidInput("The two passwords differ: nothing has changed.")
    return password


def _allot(path: Path, name: str, epsilon: str, population: str) -> None:
    from duckanon.accounting import epsilon as exactly
    from duckanon.connection import connect
    from duckanon.functions.udf import Instance
    from duckanon.governance.instance import governance_of

    with connect(path, role="steward") as con:
        ((database,),) = con.execute("SELECT current_database()").fetchall()
        governance = governance_of(Instance(con._con).identity, con._con)
        governance.decisions.allot(database, name, population, exactly(epsilon, "--epsilon"))
