"""A process to be killed: makes charges or decisions one after the other, and says in a file what it is about to do.

python -m tests.governance.charger DATABASE JOURNAL CHARGES (calls | sql | decisions | few | many)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

import duckanon
from duckanon.accounting import Charge, written
from duckanon.errors import BudgetExhausted
from duckanon.governance.concurrency import Asker, asking
from duckanon.renyi import renyi
from tests.governance.without_sql import CHARGE, answer, governance, seen

KNOWN = renyi(Fraction(3), Fraction(1, 10**6))
SHARED: dict[str, Any] = {"epsilon": KNOWN.epsilon, "delta": KNOWN.delta}
# Pure noise and Gaussian noise of which some two hundred, and two thousand, charges exhaust the budget.
NOISE = {"few": (Fraction(42, 1000), Fraction(9, 10**4)), "many": (Fraction(14, 1000), Fraction(1, 10**4))}


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
    ways = {"calls": by_calls, "sql": by_sql, "decisions": by_decisions}
    call = by_two_users(con, say, way) if way in NOISE else ways[way](con, say)
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
    from duckanon.engines.noise import Laplace

    duckanon.register(con)
    con.execute("CREATE TABLE IF NOT EXISTS persons AS SELECT i // 3 AS unit FROM range(12) r(i)").fetchall()
    real, now = Laplace.draw, [0]

    def draw(*given: Any, **named: Any) -> Any:
        say("noise", now[0])
        return real(*given, **named)

    Laplace.draw = draw  # type: ignore[method-assign] # it says when

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


def by_two_users(con: duckdb.DuckDBPyConnection, say: Callable[[str, int], None], way: str) -> Callable[[int], None]:
    """32 threads of two users, who share what a population with a delta has left, by pure and by Gaussian noise."""
    made, sees = governance(con), seen("persons", database=con.execute("SELECT current_database()").fetchall()[0][0])
    made.decisions.protect("persons", sees, SHARED)
    pool = ThreadPoolExecutor(32)

    def one(number: int) -> None:
        def draw() -> Any:
            say("noise", number)
            return answer(number)

        epsilon, rho = NOISE[way]
        pure = Charge(epsilon, f"call {number}", "neighbours")
        noise = f"gaussian, rho {written(rho)}"
        gaussian = Charge(KNOWN.of_rho(rho), f"call {number}", "neighbours", "one record", noise)
        with asking(Asker(("ann", "bob")[number % 2])):
            try:
                made.stored_or_drawn("persons", sees, {"number": number}, (pure, gaussian)[number // 2 % 2], draw)
            except BudgetExhausted:
                say("refused", number)
            else:
                say("given", number)

    def call(batch: int) -> None:
        list(pool.map(one, range(32 * batch, 32 * batch + 32)))

    return call


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
