"""`duckanon init` and `duckanon policy`: a database's policies from a TOML file, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.errors import InvalidInput
from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform, say, write

if TYPE_CHECKING:
    from duckanon.connection import Connection
    from duckanon.integrations.policy_file import PolicyFile
    from duckanon.integrations.policy_setting import Outcome, PolicySetting

policy = typer.Typer(no_args_is_help=True, help="A database's policies as a TOML file, for version control.")
Database = Annotated[Path, typer.Argument(metavar="PATH", help="The DuckDB database.")]
PolicyToml = Annotated[Path, typer.Argument(metavar="FILE", help="The policies, as TOML.")]
_HEADING = "Policies of {}. What each line means: docs/how-to/policy-files.md."


def init(
    path: Database,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="The policies, as TOML. Without it, a beginning is printed."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write it; without it nothing is written.")] = False,
) -> None:
    """Set up a database for analysts from a TOML file of policies, all of it or nothing.

    First it says what each policy means in noise; with --yes it is written. Without
    --from a file to begin with is printed, with the database's tables as comments.
    """
    with one_sentence():
        if source is None:
            with _steward(path, read_only=True) as con:
                write(_beginning(con, path))
            return
        file = _read(source)
        with _steward(path) as con:
            setting = _setting(con, file)
            _tell(setting.begin(keep=False))
            if not yes:
                inform("Nothing is written yet: the same with --yes writes it.")
                return
            with _new_users(path, file):
                setting.begin(keep=True)
        inform(f"Written to {path}.")


@policy.callback()
def _policy() -> None:
    """A database's policies as a TOML file, for version control."""


@policy.command()
def export(path: Database) -> None:
    """Print the TOML of the policies that stand, with open tables, users and their allotments."""
    with one_sentence():
        from duckanon.integrations.policy_file import of_state
        from duckanon.integrations.policy_file import write as as_toml

        with _steward(path, read_only=True) as con:
            state = _setting(con, None).state
            write(as_toml(of_state(state, _roles(path)), _HEADING.format(path.name)))


@policy.command()
def sql(source: PolicyToml) -> None:
    """Print a TOML file as SQL, for a steward's psql where a server has the database.

    Each call is checked by itself there: what may be changed in place is, and the
    rest is refused.
    """
    with one_sentence():
        file = _read(source)
        write("".join(f"{call}\n" for call in file.calls))
        if file.users:
            say("Users are not among these calls, as the file has no passwords: CREATE USER ana PASSWORD '...'.")


@policy.command()
def apply(
    path: Database,
    source: PolicyToml,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Make the policies those of a TOML file, as far as they may be changed in place.

    Says what changes, and what cannot be changed so, with the call that does it.
    Ends with 1 if there is something of the latter.
    """
    with one_sentence():
        file = _read(source)
        with _steward(path) as con:
            outcome = _setting(con, file).apply(keep=not dry_run)
        _tell(outcome)
        refused = [*outcome.refused, *_other_users(path, file)]
        for subject, why in refused:
            say(f"Not changed: {subject}: {why}")
        if not outcome.said and not refused:
            inform("Nothing differs.")
        if refused:
            raise typer.Exit(1)


def _tell(outcome: Outcome) -> None:
    for _, sentence in outcome.said:
        inform(sentence)


@contextmanager
def _steward(path: Path, *, read_only: bool = False) -> Iterator[Connection]:
    from duckanon.connection import connect

    if not path.is_file():
        raise InvalidInput(f"There is no database {path}: name a DuckDB file that is there.")
    with connect(path, role="steward", read_only=read_only) as con:
        yield con


def _setting(con: Connection, file: PolicyFile | None) -> PolicySetting:
    from duckanon.functions.udf import Instance
    from duckanon.governance.instance import governance_of
    from duckanon.integrations.policy_file import PolicyFile
    from duckanon.integrations.policy_setting import PolicySetting

    own = con._con
    return PolicySetting(own, governance_of(Instance(own).identity, own), file or PolicyFile())


def _read(source: Path) -> PolicyFile:
    from duckanon.integrations.policy_file import read

    try:
        return read(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{source} cannot be read as a text in UTF-8: name the TOML file of the policies."
        ) from error
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from error


def _roles(path: Path) -> dict[str, str]:
    """The roles of the users of a database, by name."""
    from duckanon.server.users import UserFile

    users = UserFile(path)
    return {name: user.role for name, user in users.read().users.items()} if users.path.exists() else {}


@contextmanager
def _new_users(path: Path, file: PolicyFile) -> Iterator[None]:
    """Add the file's users who are none yet, once the body has ended: nobody can log in before the limits hold."""
    from duckanon.integrations.cli.serve_commands import asked_password
    from duckanon.server.users import UserFile

    known = _roles(path)
    new = {name: (user.role, asked_password(name)) for name, user in file.users.items() if name not in known}
    for name, (_, password) in new.items():
        if not password:
            raise InvalidInput(f"The password of {name} is missing: standard input has one line for each new user.")
    yield
    for name, (role, password) in new.items():
        UserFile(path).add(name, role, password)
        inform(f"{name} is added as {role}.")


def _other_users(path: Path, file: PolicyFile) -> list[tuple[str, str]]:
    """The users of a file whose roles the database's users do not have, and the commands that change that."""
    known, said = _roles(path), {name: user.role for name, user in file.users.items()}
    found = [
        (name, f"duckanon user add {path} {name} --role {role} asks for the password.")
        for name, role in said.items()
        if known.get(name) != role
    ]
    gone = [(name, f"duckanon user remove {path} {name} removes the user.") for name in known if name not in said]
    return found + (gone if said else [])


def _beginning(con: Connection, path: Path) -> str:
    """A file to begin with: its lines are comments, with the tables and their columns, and no value of them.

    Of a type its first word is enough: an ENUM's values are data.
    """
    from duckanon.catalog.names import spelled
    from duckanon.integrations.policy_file import key

    lines = [
        _HEADING.format(path.name),
        "Take away the first # of what you need, and fill it in. Tables that are not named stay closed to analysts.",
        "",
        "[populations.people]",
        "epsilon = 4  # the budget in all",
        "# delta = 1e-9  # makes many answers cheaper; it stays for good",
    ]
    for (schema, table), columns in _columns_of(con):
        lines += ["", f"[tables.{key(spelled([schema, table]))}]", 'population = "people"']
        lines += ['privacy_unit = ""  # the column that identifies a person', "rows_per_unit = 1"]
        lines += ["per_query = 0.1", "public = []  # columns by which analysts may count; each needs a domain:"]
        lines += [f"# domains.{key(name)} = []  # {kind.partition('(')[0]}" for name, kind in columns]
    lines += ["", "[open]  # tables that analysts read as they are", "tables = []"]
    lines += ["", "[users.ana]", 'role = "analyst"', "allotments.people = 2"]
    return "".join(f"# {line}".rstrip() + "\n" if line else "\n" for line in lines)


def _columns_of(con: Connection) -> Sequence[tuple[tuple[str, str], list[tuple[str, str]]]]:
    rows = con.execute(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name <> 'duckanon' AND NOT internal "
        "ORDER BY schema_name, table_name, column_index"
    ).fetchall()
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for schema, table, column, kind in rows:
        found.setdefault((schema, table), []).append((column, kind))
    return list(found.items())
