"""A dashboard of 45 tables, bought at once in SQL: python -m tests.bench.prepared.

Nine columns of Adult (age by 5 years, hours by 10, and seven more), protected with epsilon 1 and delta 1e-9, a record
a unit. `prepare` buys all tables of one and two columns for the whole budget; an analyst then asks for each. Beside
it the same tables are asked for one after the other, each for a 45th of the budget. Errors are the roots of the mean
squared error of all cells, of what analysts are told. Seconds: planning; planning, counting, drawing and storing;
each question the first time; and again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import duckanon
from duckanon.catalog.names import literal
from duckanon.renyi import renyi
from tests.bench.kanon_adult import DATA
from tests.bench.marginals import NINE

COLUMNS = [f"c{at}" for at in range(len(NINE))]
TABLES = [[*one] for ways in (1, 2) for one in combinations(COLUMNS, ways)]


def made(path: Path, per_query: Fraction) -> None:
    """A database with the records, protected, and a copy that is not."""
    shown = ", ".join(f"{each} AS c{at}" for at, each in enumerate(NINE))
    with duckanon.connect(path, role="steward") as con:
        con.execute(f"CREATE TABLE adult AS SELECT {shown} FROM read_parquet({literal(str(DATA))})").fetchall()
        con.execute("CREATE TABLE plain AS FROM adult").fetchall()
        listed = []
        for one in COLUMNS:
            values = [row[0] for row in con.execute(f"SELECT DISTINCT {one} FROM adult ORDER BY ALL").fetchall()]
            listed.append(f"'{one}': [{', '.join(literal(v) if isinstance(v, str) else str(v) for v in values)}]")
        con.execute(
            f"SELECT protect('adult', epsilon := 1, delta := 1e-9, per_query := '{per_query}', public := {COLUMNS}, "
            f"domains := {{{', '.join(listed)}}})"
        ).fetchall()


def seconds(con: Any, sql: str) -> tuple[list[Any], float]:
    start = time.perf_counter()
    return con.execute(sql).fetchall(), time.perf_counter() - start


def question(table: Sequence[str], of: str = "adult") -> str:
    by = ", ".join(table)
    return f"SELECT {by}, count(*) AS n FROM {of} GROUP BY ALL ORDER BY {by}"


def asked(path: Path) -> tuple[float, float, float]:
    """The error of all cells, and the seconds of a question the first time and again, on average."""
    with duckanon.connect(path, role="steward") as con:
        exactly = [{row[:-1]: row[-1] for row in con.execute(question(one, "plain")).fetchall()} for one in TABLES]
    squares = cells = 0
    first = again = 0.0
    with duckanon.connect(path, role="analyst") as con:
        for table, truth in zip(TABLES, exactly, strict=True):
            told, took = seconds(con, question(table))
            first += took
            again += seconds(con, question(table))[1]
            squares += sum((row[-1] - truth.get(row[:-1], 0)) ** 2 for row in told)
            cells += len(told)
    return sqrt(squares / cells), first / len(TABLES), again / len(TABLES)


def main() -> Iterator[str]:
    capacity = renyi(Fraction(1), Fraction(1, 10**9)).capacity
    each = Fraction(int(capacity / len(TABLES) * 10**12), 10**12)
    yield "| 45 tables | error of a cell | s to plan | s to buy | s a question | s again |"
    yield "|---|---:|---:|---:|---:|---:|"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prepared.duckdb"
        made(path, each)
        call = f"FROM prepare('adult', by := {TABLES}, epsilon := '{capacity}'"
        with duckanon.connect(path, role="steward") as con:
            con.execute("FROM prepare('adult', by := [[]], epsilon := 0.0001, buy := true)").fetchall()
            call = call.replace(f"'{capacity}'", f"'{capacity - Fraction(1, 10000)}'")
            _, planning = seconds(con, f"{call})")
            _, buying = seconds(con, f"{call}, buy := true)")
        error, first, again = asked(path)
        yield f"| prepared | {error:.1f} | {planning:.2f} | {buying:.2f} | {first:.3f} | {again:.3f} |"
        path = Path(folder) / "alone.duckdb"
        made(path, each)
        error, first, again = asked(path)
        yield f"| each alone | {error:.1f} | | | {first:.3f} | {again:.3f} |"


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)
