"""`duckanon serve` and `duckanon user`: a database for many users, over PostgreSQL's protocol."""

from __future__ import annotations

import getpass
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from duckanon.errors import InvalidInput
from duckanon.integrations.cli.option_groups import grouped
from duckanon.integrations.cli.serve_options import Address, Limits, Watch, options
from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform, say, write

user = typer.Typer(no_args_is_help=True, help="The users of a served database.")
Database = Annotated[Path, typer.Argument(metavar="PATH", help="The DuckDB database.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]


class Role(StrEnum):
    """What a user may do."""

    ANALYST = "analyst"
    STEWARD = "steward"


@grouped
def serve(
    path: Database,
    address: Address,
    limits: Limits,
    watch: Watch,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Change nothing: only stored answers are given.")
    ] = False,
) -> None:
    """Serve a database to psql, DBeaver and every PostgreSQL driver. Analysts are guarded, each by a login.

    The database is opened by this process alone. Ctrl-C or SIGTERM stops it: what
    runs may end first. Users are added with duckanon user add.
    """
    with one_sentence():
        import asyncio
        import signal

        if sys.platform != "win32":
            # Whoever asks for renewed certificates while it starts does not end it.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        from duckanon.server.service import Service

        service = Service(path, options(address, limits, watch, read_only=read_only))

        def started(host: str, port: int) -> None:
            how = "over TLS" if address.tls_cert else "without TLS, to this machine only"
            inform(f"Serving {path} at {host}:{port}, {how}. Ctrl-C stops it.")

        try:
            asyncio.run(service.serve(started))
        except OSError as error:
            where = f"{address.host}:{address.port}"
            raise InvalidInput(f"{where} cannot be listened at: {error.strerror or 'it is in use'}.") from error
        finally:
            if not service.close():
                # What has not ended is nothing that was charged: the process need not wait for it.
                sys.stderr.flush()
                os._exit(int(service.is_broken))
            if service.is_broken:
                raise typer.Exit(1)


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
        typer.Option(
            "--epsilon",
            metavar="E",
            help="The most that the user may spend, in all, of a budget, in the unit of its ledger:",
        ),
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
        password = asked_password(name)
        limit = ""
        if epsilon is not None and of is not None:
            # First of all: nobody can log in before the limit holds.
            limit = f", who may spend {_allotted(path, name, epsilon, of)} on {of}"
        is_new = UserFile(path).add(name, role.value, password)
        inform(f"{name} {'is added as' if is_new else 'is now'} {role.value}{limit}.")


@user.command()
def remove(path: Database, name: Name) -> None:
    """Remove a user. What the user has spent stays spent, also if the name is added again."""
    with one_sentence():
        from duckanon.server.users import UserFile

        UserFile(path).remove(name)
        inform(f"{name} is removed. A server that runs ends this user's connections.")


@user.command("list")
def listed(path: Database) -> None:
    """List the users and their roles, with what is left of each allotment.

    Where a server has the database open, only it knows that: FROM allotments() there.
    """
    with one_sentence():
        from duckanon.server.users import UserFile

        users = sorted(UserFile(path).read().users.values(), key=lambda item: item.name)
        left = _allotments(path)
        write("".join(f"{one.name}\t{one.role}{left.get(one.name, '')}\n" for one in users))


def _allotments(path: Path) -> dict[str, str]:
    """What is left of each user's allotments, in words; nothing where the database cannot be opened."""
    from duckanon.connection import connect

    allotments: dict[str, str] = {}
    try:
        with connect(path, role="steward", read_only=True) as con:
            rows = con.execute(
                "SELECT who, population, remaining_exact, epsilon_exact, left_in_words FROM allotments()"
            ).fetchall()
    except InvalidInput:
        say("Allotments are not shown: the database is open elsewhere. A steward's FROM allotments() shows them there.")
        return allotments
    for who, population, remaining, total, words in rows:
        counts = "" if words is None else f" ({words})"
        allotments[who] = allotments.get(who, "") + f"\t{remaining} of {total} left on {population}{counts}"
    return allotments


def asked_password(name: str) -> str:
    """The password, from the terminal or from standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password for {name}: ")
    if getpass.getpass("The same again: ") != password:
        raise InvalidInput("The two passwords differ: nothing has changed.")
    return password


def _allotted(path: Path, name: str, epsilon: str, population: str) -> str:
    """Allot a part of a budget to a user. Returns it in words, in the unit of the population's ledger."""
    from duckanon.accounting import epsilon as exactly
    from duckanon.connection import connect
    from duckanon.functions.udf import Instance
    from duckanon.governance.budgets import in_words
    from duckanon.governance.instance import governance_of

    with connect(path, role="steward") as con:
        ((database,),) = con.execute("SELECT current_database()").fetchall()
        governance = governance_of(Instance(con._con).identity, con._con)
        amount = exactly(epsilon, "--epsilon")
        governance.decisions.allot(database, name, population, amount)
        return in_words(amount, governance.ledger.state(database).populations[population].renyi)
