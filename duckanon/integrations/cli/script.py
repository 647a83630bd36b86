"""Runs SQL text with any number of statements, and shows each answer before the next statement runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from duckanon.analyst import MOST_SHOWN, Analyst
from duckanon.errors import InvalidInput
from duckanon.integrations.cli.result_tables import ROWS_SHOWN, rendered
from duckanon.integrations.results import Format, Result, as_csv, as_json, fetch
from duckanon.integrations.terminal.output import answer, answers, inform, say, write, write_table
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection
    from duckanon.rewrite.decision import Decision


def run_script(session: Session, text: str, form: Format = Format.TABLE, *, chatty: bool = False) -> None:
    """Run every statement of `text`. DuckDB splits them, so strings and comments may hold semicolons.

    chatty: print a line for statements without rows and for all of the guard's decisions, as a console does. Without
    it, only decisions about releases are printed, to stderr. Raises duckdb.Error at the first statement that fails; a
    syntax error anywhere fails before anything runs.
    Raises InvalidInput if the text came in another encoding.
    """
    if not _is_unicode(text):
        raise InvalidInput("The SQL is not UTF-8 text: save it as UTF-8.")
    for statement in session.con.extract_statements(text):
        result = session.run("Running", partial(_execute, statement=statement, form=form))
        if _is_acknowledgement(statement, result):
            if chatty:
                inform(f"{result.rows[0][0]:,} rows." if result.rows else "Done.")
        elif _is_plan(statement):
            write("".join(f"{row[-1]}\n" for row in result.rows))
        else:
            show(result, form)
        if isinstance(session.con, Analyst):
            _tell(session.con.decision, session.con.noise_beside(result.columns, result.rows), chatty=chatty)


def _tell(decision: Decision | None, noise: str | None, *, chatty: bool) -> None:
    """Print the guard's decision about an analyst's statement, and how wide noise is beside its numbers.

    Without `chatty` only releases are told, and to stderr.
    """
    if decision is None:
        return
    for step in decision.steps:
        if chatty:
            inform(f"-- {step.line}")
        elif step.verdict != "runs":
            say(f"-- {step.line}")
    if noise is not None:
        (inform if chatty else say)(f"-- {noise}")


def _is_unicode(text: str) -> bool:
    """Whether all bytes were decoded: Python keeps those that are not UTF-8 as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def show(result: Result, form: Format) -> None:
    """Write a result to stdout."""
    if form is Format.TABLE:
        write_table(rendered(replace(result, rows=result.rows[:ROWS_SHOWN]), answers().width))
        return
    with answer() as out:
        (as_json if form is Format.JSON else as_csv)(result, out)


def _execute(con: Connection, statement: Any, form: Format) -> Result:
    return fetch(con.execute(statement), MOST_SHOWN if form is Format.TABLE else None)


def _is_acknowledgement(statement: Any, result: Result) -> bool:
    """Whether the result is DuckDB's for a statement that returns no rows, such as CREATE TABLE."""
    import duckdb

    has_rows = statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
    return (
        not result.columns
        or (result.columns == ["Count"] and not has_rows)
        or (result.columns == ["Success"] and not result.total)
    )


def _is_plan(statement: Any) -> bool:
    import duckdb

    return bool(statement.type == duckdb.StatementType.EXPLAIN)
