"""Which calls write to the file descriptors 1 and 2, as a program: `python -m tests.loud_calls FILE [TWIN]`.

It writes the names of those calls to FILE. What a library prints by itself never passes sys.stdout, so Python's own
redirection does not see it.

TWIN is a defect to put in: `constructor` makes solvers as `highspy.Highs()`, `option` leaves HiGHS's output on.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import duckanon
from duckanon.engines import highs, registry
from duckanon.specification import functions
from tests.documents import examples
from tests.reference import FUNCTION_PAGES

ROOT = Path(__file__).parents[1]
Call = tuple[str, Callable[[], object]]
TABLE = (
    "CREATE TABLE t AS SELECT i AS id, i % 5 AS a, i * i % 7 AS b, i // 6 AS g, 'r' || (i // 12) AS region "
    "FROM range(24) r(i)"
)
# A call of dp_group_sizes whose integer programs are small.
SIZES = "'t', 'g', ['region'], epsilon := 1, max_size := 6"
SUPPRESS: Call = ("suppress", lambda: run(TABLE, "FROM suppress('t', ['a'], ['b'], audit := true)"))


def loud(calls: Iterable[Call]) -> list[str]:
    """The names of the calls that wrote anything."""
    with tempfile.TemporaryFile() as written:
        sys.stdout.flush()
        for descriptor in (1, 2):
            os.dup2(written.fileno(), descriptor)
        found, size = [], 0
        for name, call in calls:
            call()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            ctypes.CDLL(None).fflush(None)
            if os.fstat(written.fileno()).st_size > size:
                found.append(name)
            size = os.fstat(written.fileno()).st_size
        return found


def sql_calls() -> Iterator[Call]:
    """The examples on the page of every SQL function, and every method that an argument names."""
    for function in functions().values():
        page = FUNCTION_PAGES / f"{function.name}.md"
        yield function.name, partial(run, *(one.sql for one in examples(page)))
    families = registry.families()
    for name in families["kanon"]:
        asked = f"FROM k_anonymize('t', ['a', 'b'], k := 3, method := '{name}')"
        yield f"kanon {name}", partial(run, TABLE, asked)
    cells = "CREATE TABLE c AS SELECT 'c' || i AS cell, i % 3 AS x, i // 3 AS y FROM range(9) r(i)"
    for name in families["metric"]:
        asked = f"FROM metric_mechanism('c', 'cell', ['x', 'y'], epsilon := 1, method := '{name}')"
        yield f"metric {name}", partial(run, cells, asked)
    for name in families["groups"]:
        asked = f"FROM dp_group_sizes({SIZES}, mechanism := '{name}')"
        yield f"groups {name}", partial(run, TABLE, "SELECT protect('t', epsilon := 9)", asked)
    yield SUPPRESS


def engine_calls() -> Iterator[Call]:
    """The methods that no argument names."""
    from duckanon.engines.cells.knapsack import FREE, Knapsack
    from duckanon.engines.tables.part import part_around
    from duckanon.engines.tables.released import Releases, counts, shares

    problem = Knapsack(np.array([2, 3, 5]), np.full(3, FREE), np.array([1, 2, 1]), 11)
    for name, method in registry.families()["cells"].items():
        yield f"cells {name}", partial(method.run, problem)
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    pairs = [counts(str(at), by, codes, [2, 1, 1, 2]) for at, by in enumerate([(0, 1), (1, 2), (0, 2)])]
    share = shares("s", (1,), (0,), codes, ["2/3", "1/3", "1/3", "2/3"])
    sets = {"frechet": (pairs[:2], (0, 1, 2)), "conditional": ([share], (0, 1)), "programs": (pairs, (0, 1, 2))}
    for name, method in registry.families()["tables"].items():
        tables, target = sets[name]
        releases = Releases((2, 2, 2), tuple(tables), 6)
        part = part_around(releases, frozenset(target))
        yield f"tables {name}", partial(method.run, releases, part, target, None)


def run(*sql: str) -> None:
    with duckdb.connect() as con:
        duckanon.register(con)
        for text in sql:
            for statement in con.extract_statements(text):
                con.execute(statement.query).fetchall()


def put_in(twin: str) -> None:
    """Put a defect into every module that makes solvers."""
    import highspy

    make = highs.new_highs

    def constructor(**options: object) -> Any:
        made: Any = highspy.Highs()
        for option, value in {"output_flag": False, "threads": highs.THREADS, **options}.items():
            made.setOptionValue(option, value)
        return made

    highs.new_highs = constructor if twin == "constructor" else lambda **options: make(**options, output_flag=True)


if __name__ == "__main__":
    out = Path(sys.argv[1]).resolve()
    # Our own log may be written.
    logging.getLogger("duckanon").addHandler(logging.NullHandler())
    os.chdir(ROOT / "sql" / "examples")
    if len(sys.argv) > 2:
        put_in(sys.argv[2])
        names = loud([SUPPRESS])
    else:
        names = loud([*engine_calls(), *sql_calls()])
    out.write_text("\n".join(names), encoding="utf-8")
