"""Jupyter and IPython: `%load_ext duckanon` gives `%duckanon`, `%%duckanon` and `%%privacy`.

The names leave `%sql` and `%%sql` to jupysql, which works on the same connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

import duckanon
from duckanon.analyst import Analyst
from duckanon.catalog.names import literal
from duckanon.connection import Session
from duckanon.errors import was_interrupted
from duckanon.integrations.error_sentences import is_told, sentence
from duckanon.integrations.jupyter_banner import Banner, Charged, banner, preview
from duckanon.integrations.roles import ROLES

if TYPE_CHECKING:
    import pandas as pd

_CHARGES = """
SELECT database, number, coalesce(population, tbl), epsilon_exact, remaining_exact, noise FROM privacy_ledger()
WHERE action = 'charge' ORDER BY database, number
"""
_DECISION = "FROM explain_privacy({})"
_BUDGETS = """
SELECT population, remaining_exact, epsilon_exact, edition, promise, left_in_words FROM privacy_budget() ORDER BY ALL
"""


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What `%load_ext duckanon` calls."""
    shell.register_magics(DuckanonMagics(shell))


@magics_class
class DuckanonMagics(Magics):
    """The magics of one notebook, and the connection that they share."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._names = shell.user_ns
        self._connection: _CellConnection | None = None
        self._was_opened = False

    @magic_arguments()
    @argument("database", nargs="?", help="the file to open, or :memory:; without it cells run where the last did")
    @argument("-r", "--role", choices=["steward", "analyst"], help="who works here; see docs/how-to/analyst.md")
    @argument("-c", "--connection", help="a variable that holds a connection of duckanon.connect, to use that one")
    @argument("--read-only", action="store_true", help="open the file to read only")
    @argument("-o", "--output", help="the variable to keep the last result in; then it is not shown")
    @line_cell_magic
    def duckanon(self, line: str, cell: str | None = None) -> pd.DataFrame | None:
        """Run the SQL of a cell on a guarded connection. As a line, open one, or show where the cells run."""
        given = parse_argstring(self.duckanon, line)
        if given.output and not given.output.isidentifier():
            raise UsageError(f"-o takes a variable's name, not {given.output}.")
        with _one_sentence():
            connection = self._at(given)
            if cell is None:
                display(connection.status())
                return None
            frame = connection.run(cell)
        if given.output:
            self._names[given.output] = frame
            return None
        return frame

    @cell_magic
    def privacy(self, line: str, cell: str) -> None:
        """Show how the guard would decide about the statement in a cell. Nothing runs, nothing is spent."""
        if line.strip():
            raise UsageError("%%privacy takes no arguments: it answers for the connection of the last %duckanon.")
        with _one_sentence():
            display(self._current().preview(cell))

    def _current(self) -> _CellConnection:
        """The connection of the cells; a database in memory, if none was ever opened."""
        if self._connection is None:
            if self._was_opened:
                raise UsageError("No database is open, since the last %duckanon failed: open one with %duckanon.")
            self._connection = _CellConnection.opened(":memory:")
        return self._connection

    def _at(self, value: Any) -> _CellConnection:
        """The connection that the arguments name."""
        last, opens = self._connection, value.role or value.read_only
        if value.connection:
            if value.database or opens:
                raise UsageError("-c takes a connection as it is: leave out the database, --role and --read-only.")
            name = self._names.get(value.connection)
            if not isinstance(name, duckanon.Connection | Analyst):
                raise UsageError(f"{value.connection} is no variable with a connection of duckanon.connect.")
            self._leave()
            self._connection = _CellConnection(name, f"The connection {value.connection}")
        elif value.database or opens:
            if last and not value.database and last.file is None:
                raise UsageError("The database of these cells is no file that can be opened again: name one.")
            database = value.database or (last and last.file) or ":memory:"
            # DuckDB opens a file once in a process, for one role.
            self._leave()
            if database != ":memory:" and not value.role and not Path(database).exists():
                raise UsageError(
                    f"There is no file {database}: check the name, or make a new database with %duckanon {database} "
                    "--role steward."
                )
            self._connection = _CellConnection.opened(database, value.role, read_only=value.read_only)
        return self._current()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.leave()
        self._connection, self._was_opened = None, True


class _CellConnection:
    """The connection of the cells. file: its database, if that can be opened again. ours: opened here."""

    def __init__(self, con: Session, name: str, file: str | None = None, *, ours: bool = False) -> None:
        self.con, self.file, self._name, self._ours = con, file, name, ours
        self._role = "analyst" if isinstance(con, Analyst) else "steward"
        # A second connection for the ledger, so that the first keeps its last decision and result.
        self._aside = con.cursor()

    @classmethod
    def opened(cls, database: str, role: str | None = None, *, read_only: bool = False) -> _CellConnection:
        """Open a database. Raises what `duckanon.connect` raises."""
        named: dict[str, Any] = {"role": role} if role else {}
        con: Session = duckanon.connect(database, read_only=read_only, **named)
        in_memory = database == ":memory:"
        return cls(con, "A database in memory" if in_memory else database, None if in_memory else database, ours=True)

    def leave(self) -> None:
        """Close the connection if it was opened here."""
        self._aside.close()
        if self._ours:
            self.con.close()

    def status(self) -> Banner:
        """The banner of the database, the role and the budgets."""
        left = [
            f"{whose}: {left} of epsilon {whole} left, edition {edition}."
            if promise is None
            else f"{whose} ({promise}): {left} of {whole} left, {counts or 'no counts'}; edition {edition}."
            for whose, left, whole, edition, promise, counts in self._aside.execute(_BUDGETS).fetchall()
        ]
        return Banner([f"{self._name}. {ROLES[self._role]}", *(left or ["No table is protected."])])

    def run(self, text: str) -> pd.DataFrame | None:
        """Run every statement; each result but the last is shown, the last is returned. Raises what they raise."""
        frame: pd.DataFrame | None = None
        for statement in self.con.extract_statements(text):
            if frame is not None:
                display(frame)
            before = self._charges()
            frame = _frame(self.con, statement)
            spent = [charge for key, charge in self._charges().items() if key not in before]
            decision = self.con.decision if isinstance(self.con, Analyst) else None
            released = frame if "k_anonymize" in statement.query else None
            noise = None
            if isinstance(self.con, Analyst) and frame is not None:
                noise = self.con.noise_beside(list(frame.columns), frame.itertuples(index=False, name=None))
            display(banner(self._role, decision, spent, released, noise))
        return frame

    def preview(self, text: str) -> Banner:
        """How the guard would decide about a statement of an analyst's."""
        session = self._aside.execute(_DECISION.format(literal(text)))
        names = [column[0] for column in session.description or ()]
        return preview([dict(zip(names, row, strict=True)) for row in session.fetchall()])

    def _charges(self) -> dict[tuple[str, int], Charged]:
        rows = self._aside.execute(_CHARGES).fetchall()
        return {(database, number): Charged(*charge) for database, number, *charge in rows}


def _frame(con: Session, statement: Any) -> pd.DataFrame | None:
    """The result as a frame; None for a statement that has none of its own."""
    con.execute(statement)
    if statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]:
        data_frame: pd.DataFrame = con.df()
        return data_frame
    con.fetchall()
    return None


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Show errors that a user can cause as one sentence, without a traceback."""
    try:
        yield
    except Exception as error:
        if was_interrupted(error):
            raise _shown(KeyboardInterrupt(), "Cancelled.") from None
        if is_told(error):
            _shown(error, f"{type(error).__name__}: {sentence(error)}")
        raise


def _shown(error: BaseException, text: str) -> BaseException:
    """The error, which IPython will show as `text`: IPython calls an error's method _render_traceback_."""
    error._render_traceback_ = lambda: [text]  # type: ignore[attr-defined]
    return error
