"""Error of every answered query of fixtures/ordinary, at epsilon 1: python -m tests.bench.ordinary_corpus.

Each query is answered DRAWS times, with noise drawn anew over exact totals that are read once, on Adult and on persons
with ten times the households of the fixture. Rows are matched with DuckDB's own by the columns that noise leaves alone.
Told are, for the numbers of a query together, how many there are, the median of their exact values, the mean and the
95 % quantile of the absolute error, and half the width that is promised for one cell of a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

import duckanon
from duckanon.catalog.names import quoted
from duckanon.errors import DuckanonError
from tests.bench.ordinary import DATA, Draws, make, short
from tests.guard.test_ordinary import METADATA, QUERIES, REFUSED, day, is_number, parameters

DRAWS = 10
Rows = list[tuple[Any, ...]]


class Drawn:
    """The answers to a query with several questions, drawn again and again."""

    def __init__(self, con: duckdb.DuckDBPyConnection, text: str, questions: Sequence[Any]) -> None:
        self._con, self._text = con, text
        self._draws = []
        for at, one in enumerate(questions):
            self._draws.append(Draws(con, self._text, one))
            self._text = self._text.replace(quoted(one.path), f"drawn{at}")

    def rows(self) -> Rows:
        cursor = self._con.cursor()
        for at, one in enumerate(self._draws):
            cursor.register(f"drawn{at}", one.answer())
        return cursor.execute(self._text).fetchall()


def keys(exact: Rows, drawn: Sequence[Rows]) -> list[int]:
    """The columns that noise leaves alone: what is no number, and numbers of which the exact ones are always there."""
    found = []
    for at in range(len(exact[0])):
        if any(isinstance(row[at], list) for row in exact):
            continue
        values = {day(row[at]) for row in exact}
        if not any(is_number(one) for one in values) or all(values <= {day(row[at]) for row in rows} for rows in drawn):
            found.append(at)
    return found


def errors(exact: Rows, drawn: Sequence[Rows], by: Sequence[int]) -> list[float]:
    """The absolute error of each number in rows that both have once."""
    numbers = [at for at in range(len(exact[0])) if at not in by]
    wanted = {tuple(day(row[at]) for at in by): row for row in exact}
    found = []
    for rows in drawn:
        for row in rows:
            true = wanted.get(tuple(day(row[at]) for at in by))
            if true is not None:
                pairs = [(row[at], true[at]) for at in numbers]
                found += [abs(float(one) - float(two)) for one, two in pairs if is_number(one) and is_number(two)]
    return found


def measured(con: duckanon.Analyst, raw: duckdb.DuckDBPyConnection, title: str) -> str | None:
    """A row of the table; None for what has no numbers with noise."""
    one = QUERIES[title]
    given: Any = parameters(one)
    try:
        decision = con._guard.decide(one.sql, given)
    except DuckanonError:
        return None
    if not decision.answers or decision.query is None:
        return None
    exact = raw.execute(one.sql, given).fetchall()
    found = Drawn(raw, decision.query, list({each.key: each for each in decision.answers}.values()))
    drawn = [found.rows() for _ in range(DRAWS)]
    if not exact:
        return None
    by = keys(exact, drawn)
    wrong = errors(exact, drawn, by)
    if not wrong:
        return None
    values = [abs(float(row[at])) for row in exact for at in range(len(row)) if at not in by and is_number(row[at])]
    widths = [step.within for step in decision.steps if step.within is not None]
    shown: list[Any] = [
        len(values),
        np.median(values),
        np.mean(wrong),
        np.quantile(wrong, 0.95),
        max(widths, default=0),
    ]
    return f"| {title} | {' | '.join(short(each) for each in shown)} |"


def main() -> None:
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ordinary.duckdb"
        make(path, adult=DATA, households=20_000)
        print("| query | numbers | median of them | mean error | 95 % of errors | promised for a count's cell |")
        print("|---|---:|---:|---:|---:|---:|")
        with duckanon.connect(path, role="analyst") as con:
            raw = con._con.cursor()
            for title in QUERIES:
                if title not in REFUSED and not METADATA.search(QUERIES[title].sql):
                    line = measured(con, raw, title)
                    if line is not None:
                        print(line, flush=True)


if __name__ == "__main__":
    main()
