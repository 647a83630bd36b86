"""SQL text with any number of statements: run one after the other, each answer shown before the next one runs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from duckanon.integrations.results import Format, Result, as_csv, as_json, fetch
from duckanon.integrations.session import Session
from duckanon.integrations.tables import ROWS_SHOWN, rendered
from duckanon.integrations.terminal import answers

if TYPE_CHECKING:
    from duckanon.connection import Connection

# What DuckDB answers with when a statement has no result of its own.
_ACKNOWLEDGEMENTS = (["Count"], ["Success"])


def run_script(session: Session, text: str, form: Format = Format.TABLE, *, chatty: bool = False) -> None:
    """Run every statement of `text`. DuckDB splits them, so strings and comments may hold semicolons.

    chatty: say something about statements without a result too. Raises duckdb.Error at the first statement that fails;
    a syntax error anywhere fails before anything runs.
    """
    for statement in session.con.extract_statements(text):
        result = session.run("Running", partial(_execute, statement=statement, form=form))
        if _is_acknowledgement(statement, result):
            if chatty:
                print(f"{result.rows[0][0]:,} rows." if result.rows else "Done.")
        elif _is_plan(statement):
            print(*(row[-1] for row in result.rows), sep="\n")
        else:
            show(result, form)


def show(result: Result, form: Format) -> None:
    """Write a result to stdout."""
    if form is Format.JSON:
        as_json(result, sys.stdout)
    elif form is Format.CSV:
        as_csv(result, sys.stdout)
    else:
        console = answers()
        console.print(rendered(result, console.width))


def _execute(con: Connection, statement: Any, form: Format) -> Result:
    return fetch(con.execute(statement), ROWS_SHOWN if form is Format.TABLE else None)


def _is_acknowledgement(statement: Any, result: Result) -> bool:
    import duckdb

    only_rows = statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
    return not result.columns or (not only_rows and result.columns in _ACKNOWLEDGEMENTS)


def _is_plan(statement: Any) -> bool:
    import duckdb

    return bool(statement.type == duckdb.StatementType.EXPLAIN)
