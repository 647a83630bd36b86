"""Harlequin on a guarded connection: `harlequin -a duckanon file.db`, and `hsql -a duckanon` without a screen.

The adapter is Harlequin's for DuckDB, with connections from `duckanon.connect`. For an analyst everything passes the
guard: statements, and the queries behind the catalog and the completions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
from duckanon.analyst import Analyst, Answer
from duckanon.catalog.names import identifier, literal
from duckanon.errors import DuckanonError
from duckanon.integrations.error_sentences import sentence, unprefixed
from duckanon.integrations.roles import ROLES
from duckanon.specification import table_functions

_ROLE = SelectOption(
    name="role",
    description=(
        "Who works here: a steward, whose statements run as they are written, or an analyst, to whom protected tables "
        "answer through releases only. Without it, an analyst if the database has a protected table."
    ),
    choices=["steward", "analyst"],
)
# Options of MotherDuck are left out: it runs statements on its own servers, which lack duckanon.
_OPTIONS = [_ROLE, *(option for option in DUCKDB_OPTIONS if not option.name.startswith("md_"))]
_TEMPORARY_MACROS = """
SELECT DISTINCT function_name, parameters FROM system.main.duckdb_functions()
WHERE database_name = 'temp' AND function_type IN ('macro', 'table_macro') AND NOT starts_with(function_name, '_dk_')
ORDER BY ALL
"""
# Harlequin puts reserved words at 100, what the catalog has at 500 and functions at 1000.
_OURS_FIRST = 450
_SECONDS_SHOWN = 15
_RAISED = "DuckDB raised an error when running your query:"
_DEFAULT_SCRIPT = Path.home() / ".duckdbrc"


class DuckanonAdapter(DuckDbAdapter):
    """Opens databases with duckanon's functions, for one of the two roles."""

    ADAPTER_OPTIONS = _OPTIONS
    ADAPTER_DETAILS = "DuckDB with duckanon: privacy functions in SQL, and policies for protected tables."

    def __init__(
        self, conn_str: Sequence[str], role: str | None = None, init_path: Path | str | None = None, **options: Any
    ) -> None:
        super().__init__(conn_str, init_path=init_path, **options)
        if role not in (None, *ROLES):
            raise HarlequinConfigError("role must be steward or analyst.", title="duckanon cannot start.")
        self.role = role
        self._has_own_script = init_path is not None

    @property
    def connection_id(self) -> str | None:
        """The name under which Harlequin stores catalogs and buffers. It differs by role, so that roles share none."""
        name = super().connection_id
        return name and f"duckanon {self.role or 'by policy'}: {name}"

    def connect(self) -> StewardConnection | AnalystConnection:
        """Open the database. Raises HarlequinConnectionError."""
        config = {"allow_unsigned_extensions": self.allow_unsigned_extensions}
        role: dict[str, Any] = {"role": self.role} if self.role else {}
        try:
            con: duckanon.Connection | Analyst = duckanon.connect(
                self.conn_str[0], read_only=self.read_only, config=config, **role
            )
        except (duckdb.Error, DuckanonError) as error:
            raise HarlequinConnectionError(sentence(error), title="duckanon could not open the database.") from error
        if isinstance(con, Analyst):
            return AnalystConnection(con, " ".join([ROLES["analyst"], *self._left_out(con)]))
        return StewardConnection(con, " ".join([ROLES["steward"], *self._prepared(con)]))

    def _left_out(self, con: Analyst) -> Sequence[str]:
        """A sentence if ~/.duckdbrc was not run. Raises HarlequinConnectionError for options that analysts lack."""
        asked = {
            "more than one database": len(self.conn_str) > 1,
            "--extension": self.extensions,
            "--custom-extension-repo": self.custom_extension_repo,
            "--allow-unsigned-extensions": self.allow_unsigned_extensions,
            "--init-path": self._has_own_script and not self.no_init,
        }
        if refused := [name for name, value in asked.items() if value]:
            con.close()
            raise HarlequinConnectionError(
                f"An analyst opens one database as it is: leave out {', '.join(refused)}, or say --role steward.",
                title="duckanon cannot start.",
            )
        return ["~/.duckdbrc was not run."] if _DEFAULT_SCRIPT.exists() and not self.no_init else []

    def _prepared(self, con: duckanon.Connection) -> Sequence[str]:
        """Do for a steward what Harlequin's DuckDB adapter does when it connects. Returns a sentence on scripts."""
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


class _Ours(DuckDbConnection):
    """Completions that both roles' connections add to those of Harlequin's DuckDB adapter."""

    _functions: Mapping[str, Sequence[str]]

    def get_completions(self) -> list[HarlequinCompletion]:
        """Our functions with their arguments, these arguments, and after them DuckDB's words."""
        arguments: dict[str, list[str]] = {}
        for name, parameters in self._functions.items():
            for parameter in parameters:
                arguments.setdefault(parameter, []).append(name)
        functions = [
            HarlequinCompletion(name, f"({', '.join(parameters)})", f"{name}(", _OURS_FIRST)
            for name, parameters in self._functions.items()
        ]
        named = [
            HarlequinCompletion(argument, f"of {', '.join(names)}", f"{argument} := ", _OURS_FIRST + 1)
            for argument, names in arguments.items()
        ]
        return [*functions, *named, *(word for word in self._words() if not word.label.startswith("_dk_"))]

    def _words(self) -> list[HarlequinCompletion]:
        return super().get_completions()

    def close(self) -> None:
        self.conn.close()


class StewardConnection(_Ours):
    """A steward's connection: that of Harlequin's DuckDB adapter, with our functions and error sentences."""

    def __init__(self, con: duckanon.Connection, init_message: str = "") -> None:
        super().__init__(conn=con._con, init_message=init_message)
        self._functions = dict(con.execute(_TEMPORARY_MACROS).fetchall())

    def execute(self, query: str) -> StewardCursor | None:
        """Run a statement; of a query, return a cursor. Raises HarlequinQueryError."""
        try:
            cursor = super().execute(query)
        except HarlequinQueryError as error:
            raise _clean(error) from error
        return StewardCursor(self, cursor.relation) if cursor is not None else None


class StewardCursor(DuckDbCursor):
    """A query's result."""

    def fetchall(self) -> Any:
        """The rows as an Arrow table. Raises HarlequinQueryError."""
        try:
            return super().fetchall()
        except HarlequinQueryError as error:
            raise _clean(error) from error


class AnalystConnection(_Ours):
    """An analyst's connection. The catalog and the completions come from guarded queries on a second connection."""

    def __init__(self, con: Analyst, init_message: str = "") -> None:
        super().__init__(conn=con, init_message=init_message)  # type: ignore[arg-type, unused-ignore] # it has what Harlequin calls
        self._analyst, self._aside = con, con.cursor()
        ((self._database,),) = con._con.execute("SELECT system.main.current_database()").fetchall()
        self._functions = table_functions()

    def execute(self, query: str) -> AnalystCursor | None:  # type: ignore[override, unused-ignore] # no relation is handed out
        """Run a statement; of a query, return a cursor. Raises HarlequinQueryError."""
        try:
            answer = self._analyst.sql(query)
        except DuckanonError as error:
            raise HarlequinQueryError(msg=str(error), title="duckanon refused the statement.") from error
        except duckdb.InterruptException:
            return None
        except duckdb.Error as error:
            raise HarlequinQueryError(msg=unprefixed(str(error)), title=_RAISED) from error
        lines = [step.line for step in self._analyst.decision.steps] if self._analyst.decision else []
        # DuckDB 2 returns a relation for statements without rows, too.
        relation = answer._relation
        if relation is None or getattr(relation, "_return_type", "query_result") != "query_result":
            _tell(lines)
            return None
        return AnalystCursor(answer, lines)

    def close(self) -> None:
        self._aside.close()
        self._analyst.close()

    def validate_sql(self, text: str) -> str:
        """The text, or nothing if it cannot be parsed."""
        try:
            self._analyst.extract_statements(text)
        except duckdb.Error:
            return ""
        return text

    def search_catalog(self, term: str, kind: Any = "all") -> Any:
        """The tables and columns whose names contain `term`."""
        from harlequin.catalog import CatalogSearchResult

        results = []
        catalog: Any = self.get_catalog()
        for database in catalog.items:
            for schema in database.fetch_children():
                for table in schema.fetch_children():
                    parents: tuple[str, ...] = (database.label, schema.label)
                    if term.lower() in table.label.lower() and kind != "columns":
                        results.append(CatalogSearchResult(item=table, parents=parents))
                    if kind != "relations":
                        results += [
                            CatalogSearchResult(item=column, parents=(*parents, table.label))
                            for column in table.fetch_children()
                            if term.lower() in column.label.lower()
                        ]
        return results

    def _words(self) -> list[HarlequinCompletion]:
        """DuckDB's words, from an empty database."""
        with duckdb.connect() as empty:
            return DuckDbConnection(empty).get_completions()

    def _get_databases(self) -> list[tuple[str]]:
        return [(self._database,)]

    def _get_schemas(self, database: str) -> list[tuple[str]]:
        schemas: list[tuple[str]] = self._looked_up(
            "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY 1", database
        )
        return schemas

    def _get_tables(self, database: str, schema: str) -> list[tuple[str, str]]:
        text = f"FROM information_schema.tables WHERE table_schema = {literal(schema)}"
        tables: list[tuple[str, str]] = self._looked_up(f"SELECT table_name, table_type {text} ORDER BY 1", database)
        return tables

    def _get_columns(self, database: str, schema: str, table: str) -> list[tuple[str, str]]:
        text = f"table_schema = {literal(schema)} AND table_name = {literal(table)} ORDER BY ordinal_position::INT"
        columns: list[tuple[str, str]] = self._looked_up(
            f"SELECT column_name, data_type FROM information_schema.columns WHERE {text}",  # noqa: S608 - quoted
            database,
        )
        return columns

    def _looked_up(self, query: str, database: str) -> Any:
        """Rows about the one database that an analyst has open."""
        return self._aside.sql(query).fetchall() if database == self._database else []


class AnalystCursor(HarlequinCursor):
    """A query's result. When its rows are fetched, the user is shown how the guard decided about the query."""

    def __init__(self, answer: Answer, lines: Sequence[str]) -> None:
        self._answer, self._lines = answer, lines

    def columns(self) -> list[tuple[str, str]]:
        kinds = map(DuckDbConnection._short_column_type, self._answer.dtypes)
        return list(zip(self._answer.columns, kinds, strict=True))

    def set_limit(self, limit: int) -> HarlequinCursor:
        relation = self._answer._relation
        if relation is not None:
            self._answer = Answer(relation.limit(limit), self._answer._lock, self._answer._holds)
        return self

    def fetchall(self) -> Any:
        """The rows as an Arrow table. Raises HarlequinQueryError."""
        try:
            rows = self._answer.to_arrow_table()
        except duckdb.InterruptException:
            return None
        except duckdb.Error as error:
            raise HarlequinQueryError(msg=unprefixed(str(error)), title=_RAISED) from error
        _tell(self._lines)
        return rows

    def fetchone(self) -> Any:
        """The first row, or None."""
        rows = self._answer.fetchall()
        return rows[0] if rows else None


def _clean(error: HarlequinQueryError) -> HarlequinQueryError:
    """The error without DuckDB's prefix."""
    return HarlequinQueryError(msg=unprefixed(error.msg), title=error.title)


def _tell(lines: Sequence[str]) -> None:
    """Show lines to the user: as notifications if an app runs, else on stderr."""
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
