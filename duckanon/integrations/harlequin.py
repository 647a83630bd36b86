"""Harlequin on a guarded connection: `harlequin -a duckanon file.db`, and `hsql -a duckanon` without a screen.

The adapter is Harlequin's own for DuckDB, on `duckanon.connect`. What a user types passes the guard; the catalog and
the completions come from look-ups that are written here or in Harlequin.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from harlequin.adapter import HarlequinCursor
from harlequin.autocomplete.completion import HarlequinCompletion
from harlequin.exception import HarlequinConfigError, HarlequinConnectionError, HarlequinQueryError
from harlequin.options import SelectOption
from harlequin_duckdb.adapter import DuckDbAdapter, DuckDbConnection, DuckDbCursor
from harlequin_duckdb.cli_options import DUCKDB_OPTIONS

import duckanon
from duckanon.analyst import Analyst
from duckanon.errors import DuckanonError
from duckanon.functions.templates import identifier, literal, table_functions
from duckanon.governance.ledger import SCHEMA
from duckanon.integrations.sentences import sentence, unprefixed

_ROLE = SelectOption(
    name="role",
    description=(
        "Who works here: a steward, whose statements run as they are written, or an analyst, to whom protected tables "
        "answer through releases only. Without it, an analyst if the database has a protected table."
    ),
    choices=["steward", "analyst"],
)
# MotherDuck's are left out: it runs statements elsewhere, where duckanon is not.
_OPTIONS = [_ROLE, *(option for option in DUCKDB_OPTIONS if not option.name.startswith("md_"))]
_WORKS_AS = {
    "steward": "You are a steward: statements run as they are written.",
    "analyst": "You are an analyst: protected tables answer through releases only.",
}
_TEMPORARY_MACROS = """
SELECT DISTINCT function_name, parameters FROM system.main.duckdb_functions()
WHERE database_name = 'temp' AND function_type IN ('macro', 'table_macro') AND NOT starts_with(function_name, '_dk_')
ORDER BY ALL
"""
# Harlequin puts reserved words at 100, what the catalog has at 500 and functions at 1000.
_OURS_FIRST = 450
_SECONDS_SHOWN = 15
_DEFAULT_SCRIPT = Path.home() / ".duckdbrc"

Guarded = duckanon.Connection | Analyst


class DuckanonAdapter(DuckDbAdapter):
    """Opens databases with duckanon's functions, for one of the two roles."""

    ADAPTER_OPTIONS = _OPTIONS
    ADAPTER_DETAILS = "DuckDB with duckanon: privacy functions in SQL, and policies for protected tables."

    def __init__(
        self, conn_str: Sequence[str], role: str | None = None, init_path: Path | str | None = None, **options: Any
    ) -> None:
        super().__init__(conn_str, init_path=init_path, **options)
        if role not in (None, *_WORKS_AS):
            raise HarlequinConfigError("role must be steward or analyst.", title="duckanon cannot start.")
        self.role = role
        self._has_own_script = init_path is not None

    @property
    def connection_id(self) -> str | None:
        """Harlequin keeps catalogs and buffers under this name: those of one role are not shown to the other."""
        name = super().connection_id
        return name and f"duckanon {self.role or 'by policy'}: {name}"

    def connect(self) -> GuardedConnection:
        """Open the database. Raises HarlequinConnectionError."""
        config = {"allow_unsigned_extensions": self.allow_unsigned_extensions}
        role: dict[str, Any] = {"role": self.role} if self.role else {}
        try:
            con: Guarded = duckanon.connect(self.conn_str[0], read_only=self.read_only, config=config, **role)
        except (duckdb.Error, DuckanonError) as error:
            raise HarlequinConnectionError(sentence(error), title="duckanon could not open the database.") from error
        if isinstance(con, Analyst):
            said = [_WORKS_AS["analyst"], *self._left_out(con)]
        else:
            said = [_WORKS_AS["steward"], *self._prepared(con)]
        return GuardedConnection(con, " ".join(said))

    def _left_out(self, con: Analyst) -> Sequence[str]:
        """What an analyst is told of a script that did not run. Raises HarlequinConnectionError for what was asked."""
        asked = {
            "more than one database": len(self.conn_str) > 1,
            "--extension": self.extensions,
            "--custom-extension-repo": self.custom_extension_repo,
            "--allow-unsigned-extensions": self.allow_unsigned_extensions,
            "--init-path": self._has_own_script and not self.no_init,
        }
        if refused := [name for name, given in asked.items() if given]:
            con.close()
            raise HarlequinConnectionError(
                f"An analyst opens one database as it is: leave out {', '.join(refused)}, or say --role steward.",
                title="duckanon cannot start.",
            )
        return ["~/.duckdbrc was not run."] if _DEFAULT_SCRIPT.exists() and not self.no_init else []

    def _prepared(self, con: duckanon.Connection) -> Sequence[str]:
        """Do for a steward what Harlequin's DuckDB adapter does on its way in, and tell of it."""
        mode = " (READ_ONLY)" if self.read_only else ""
        script = "" if self.no_init else self._read_init_script(self.init_path)
        statements = [f"ATTACH {literal(str(other))}{mode}" for other in self.conn_str[1:]]
        if self.custom_extension_repo:
            statements.append(f"SET custom_extension_repository = {literal(self.custom_extension_repo)}")
        for name in self.extensions:
            force = "FORCE " if self.force_install_extensions else ""
            statements += [f"{force}INSTALL {identifier(name)}", f"LOAD {identifier(name)}"]
        commands = [self._rewrite_init_command(command) for command in self._split_script(script)]
        try:
            for statement in statements:
                con.execute(statement).fetchall()
            count = sum(_run(con, command) for command in commands)
        except duckdb.Error as error:
            con.close()
            raise HarlequinConnectionError(
                str(error), title="DuckDB could not load an extension or run your initialization script."
            ) from error
        return [f"{count} statement{'s' * (count > 1)} of {self.init_path.name} ran."] if count else []


def _run(con: duckanon.Connection, script: str) -> int:
    """Run a script, and return how many statements it has."""
    statements = con.extract_statements(script)
    for statement in statements:
        con.execute(statement).fetchall()
    return len(statements)


class _Doors:
    """The connection as Harlequin's DuckDB classes use it: `sql` for what a user typed, cursors for their look-ups."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded

    def sql(self, query: str) -> duckdb.DuckDBPyRelation | None:
        """The admitted query as a relation that Harlequin can limit; nobody can reach it to go on from it."""
        answer: Any = self._guarded.sql(query)
        found: duckdb.DuckDBPyRelation | None = answer._relation if isinstance(self._guarded, Analyst) else answer
        return found

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._guarded._con.cursor()

    def interrupt(self) -> None:
        self._guarded.interrupt()

    def close(self) -> None:
        self._guarded.close()


class GuardedConnection(DuckDbConnection):
    """A connection of one role. An analyst's catalog has no ledgers, and types without their values."""

    def __init__(self, guarded: Guarded, init_message: str = "") -> None:
        super().__init__(conn=_Doors(guarded), init_message=init_message)  # type: ignore[arg-type]
        self._guarded = guarded
        self._is_analyst = isinstance(guarded, Analyst)
        self._ours = _functions(guarded)

    def execute(self, query: str) -> GuardedCursor | None:
        """Run a statement, or make ready to run a query. Raises HarlequinQueryError."""
        try:
            cursor = super().execute(query)
        except DuckanonError as error:
            raise HarlequinQueryError(msg=str(error), title="duckanon refused the statement.") from error
        except HarlequinQueryError as error:
            raise _clean(error) from error
        decision = self._guarded.decision if isinstance(self._guarded, Analyst) else None
        lines = [step.line for step in decision.steps] if decision else []
        if cursor is None:
            _tell(lines)
            return None
        return GuardedCursor(self, cursor.relation, lines)

    def close(self) -> None:
        self._guarded.close()

    def get_completions(self) -> list[HarlequinCompletion]:
        """DuckDB's words, and before them our functions, with their arguments beside them, and those arguments."""
        arguments: dict[str, list[str]] = {}
        for name, parameters in self._ours.items():
            for parameter in parameters:
                arguments.setdefault(parameter, []).append(name)
        functions = [
            HarlequinCompletion(name, f"({', '.join(parameters)})", f"{name}(", _OURS_FIRST)
            for name, parameters in self._ours.items()
        ]
        named = [
            HarlequinCompletion(argument, f"of {', '.join(names)}", f"{argument} := ", _OURS_FIRST + 1)
            for argument, names in arguments.items()
        ]
        duckdbs = (one for one in super().get_completions() if not one.label.startswith("_dk_"))
        return [*functions, *named, *duckdbs]

    def search_catalog(self, term: str, kind: Any = "all") -> Any:
        """What the catalog has by that name. To an analyst, without the ledgers and with types without values."""
        found = super().search_catalog(term, kind)
        if not self._is_analyst:
            return found
        shown = [one for one in found if SCHEMA not in (one.item.label, *one.parents[1:2])]
        for one in shown:
            one.item.type_name = one.item.type_name and _without_values(one.item.type_name)
        return shown

    def _get_schemas(self, database: str) -> list[tuple[str]]:
        found = super()._get_schemas(database)
        return [row for row in found if row[0] != SCHEMA] if self._is_analyst else found

    def _get_columns(self, database: str, schema: str, table: str) -> list[tuple[str, str]]:
        found = super()._get_columns(database, schema, table)
        return [(name, _without_values(kind)) for name, kind in found] if self._is_analyst else found


class GuardedCursor(DuckDbCursor):
    """A query's result. Once its rows are there, the user is told how the guard decided about the query."""

    def __init__(self, conn: GuardedConnection, relation: duckdb.DuckDBPyRelation, lines: Sequence[str]) -> None:
        super().__init__(conn, relation)
        self._lines = lines

    def set_limit(self, limit: int) -> HarlequinCursor:
        super().set_limit(limit)
        return self

    def fetchall(self) -> Any:
        """The rows as an Arrow table. Raises HarlequinQueryError."""
        try:
            rows = super().fetchall()
        except HarlequinQueryError as error:
            raise _clean(error) from error
        _tell(self._lines)
        return rows


def _functions(guarded: Guarded) -> dict[str, Sequence[str]]:
    """Functions that can be called, and their arguments' names."""
    if isinstance(guarded, Analyst):
        return dict(table_functions())
    return dict(guarded.execute(_TEMPORARY_MACROS).fetchall())


def _without_values(kind: str) -> str:
    """A type's name without the values of an ENUM: they are data."""
    if "ENUM(" not in kind:
        return kind
    return kind.split("(")[0] + "[]" * kind.endswith("]")


def _clean(error: HarlequinQueryError) -> HarlequinQueryError:
    """The error without DuckDB's prefix of our own sentences."""
    return HarlequinQueryError(msg=unprefixed(error.msg), title=error.title)


def _tell(lines: Sequence[str]) -> None:
    """Show lines to the user: as notifications of the app that runs, and on stderr where none does."""
    worker = sys.modules.get("textual.worker")
    for line in lines:
        try:
            if worker is None:
                raise LookupError
            app = worker.get_current_worker().node.app
        except Exception:
            print(f"-- {line}", file=sys.stderr)
        else:
            app.notify(line, title="duckanon", timeout=_SECONDS_SHOWN, markup=False)
