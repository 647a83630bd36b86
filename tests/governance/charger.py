"""A process to be killed: makes charges or decisions one after the other, and says in a file what it is about to do.

python -m tests.governance.charger DATABASE JOURNAL CHARGES (calls | sql | decisions)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

import duckanon
from tests.governance.without_sql import CHARGE, answer, governance, seen


def main(database: str, journal: str, charges: int, way: str) -> None:
    file = os.open(journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def say(word: str, number: int) -> None:
        # One write of the system: it is in the file, or it is not, and it survives this process.
        os.write(file, f"{word} {number}\n".encode())

    lines = Path(journal).read_text(encoding="utf-8").splitlines()
    # A call that was not done is repeated; a decision is another one each time.
    start = 1 + max(
        (int(line.split()[1]) for line in lines if way == "decisions" or line.startswith("done ")), default=0
    )
    con = duckdb.connect(database)
    call = {"calls": by_calls, "sql": by_sql, "decisions": by_decisions}[way](con, say)
    say("started", start - 1)
    for number in range(start, charges + 1):
        say("try", number)
        call(number)
        say("done", number)
    con.close()


def by_calls(con: duckdb.DuckDBPyConnection, say: Callable[[str, int], None]) -> Callable[[int], None]:
    made, sees = governance(con), seen("persons", database=con.execute("SELECT current_database()").fetchall()[0][0])

    def call(number: int) -> None:
        def draw() -> Any:
            say("noise", number)
            return answer(number)

        charge = type(CHARGE)(CHARGE.epsilon, f"call {number}", CHARGE.neighbours)
        made.stored_or_drawn("persons", sees, {"number": number}, charge, draw)

    return call


def by_sql(con: duckdb.DuckDBPyConnection, say: Callable[[str, int], None]) -> Callable[[int], None]:
    from duckanon.engines.groups import release as module

    release: Any = module

    duckanon.register(con)
    con.execute("CREATE TABLE IF NOT EXISTS persons AS SELECT i // 3 AS unit FROM range(12) r(i)").fetchall()
    real, now = release.double_geometric, [0]

    def double_geometric(*arguments: Any) -> Any:
        say("noise", now[0])
        return real(*arguments)

    release.double_geometric = double_geometric

    def call(number: int) -> None:
        now[0] = number
        con.execute(f"FROM dp_group_sizes('persons', 'unit', epsilon := 0.1, max_size := {number + 1})").fetchall()

    return call


def by_decisions(con: duckdb.DuckDBPyConnection, say: Callable[[str, int], None]) -> Callable[[int], None]:
    """Another policy each time, with a domain whose values are the number of the call."""
    made, sees = governance(con), seen("persons", database=con.execute("SELECT current_database()").fetchall()[0][0])

    def call(number: int) -> None:
        made.decisions.unprotect("persons", sees)
        terms = {"epsilon": Fraction(1), "domains": {"a": (number, -number), "b": (number,)}}
        made.decisions.protect("persons", sees, terms, {"a": "INTEGER", "b": "INTEGER"})

    return call


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
