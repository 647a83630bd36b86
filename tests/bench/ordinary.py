"""Error of ordinary answers beside their intervals, on Adult and persons: python -m tests.bench.ordinary.

For each question: the mean absolute error of its numbers at epsilon 1, half the width of their 95 % intervals, and how
many intervals hold the exact number. The form and the exact values are read once, and noise is added to them again and
again, until there are NUMBERS noisy numbers, so no ledger stands between. Exact numbers are DuckDB's own; cells that it
does not show have a count and a sum of zero. Persons are those of fixtures/ordinary with ten times the households.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

import duckanon
from duckanon.catalog.names import quoted
from duckanon.engines.randomness import Entropy
from duckanon.functions import noise_widths
from duckanon.functions.udf import Instance
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import aggregates, forms
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion

FIXTURES = Path(__file__).parents[2] / "fixtures" / "ordinary"
DATA = Path(__file__).parents[3] / "shared" / "data" / "adult.parquet"
NUMBERS, LEAST, MOST = 1500, 20, 300


@dataclass(frozen=True)
class Question:
    """what: in words. number: the aggregate. rest: the query after it. by: the columns before it, without a comma.

    ends: whether its interval is asked for.
    """

    what: str
    number: str
    rest: str
    by: str = ""
    ends: bool = True

    @property
    def sql(self) -> str:
        ends = f", low({self.number}), high({self.number})" if self.ends else ""
        return f"SELECT {self.by}{', ' * bool(self.by)}{self.number} AS x{ends} {self.rest}"

    @property
    def exact(self) -> str:
        return f"SELECT {self.by}{', ' * bool(self.by)}{self.number} AS x {self.rest}"


SIZES = "(SELECT hid, state, county, count(*) AS size FROM persons GROUP BY ALL)"
ADULT = (
    Question("all records", "count(*)", "FROM adult"),
    Question("records by education", "count(*)", "FROM adult GROUP BY ALL", "education"),
    Question("by education, sex and income", "count(*)", "FROM adult GROUP BY ALL", "education, sex, income"),
    Question(
        "by age band (CASE)",
        "count(*)",
        "FROM adult GROUP BY ALL",
        "CASE WHEN age < 25 THEN 'young' WHEN age < 65 THEN 'middle' ELSE 'old' END AS band",
    ),
    Question(
        "with FILTER, by education", "count(*) FILTER (WHERE income = '>50K')", "FROM adult GROUP BY ALL", "education"
    ),
    Question("by ROLLUP of sex and race", "count(*)", "FROM adult GROUP BY ROLLUP (sex, race)", "sex, race"),
    Question("sum of hours by education", "sum(hours_per_week)", "FROM adult GROUP BY ALL", "education"),
    Question("sum of capital gain by education", "sum(capital_gain)", "FROM adult GROUP BY ALL", "education"),
    Question("mean of hours, all records", "avg(hours_per_week)", "FROM adult"),
    Question("mean of hours by education", "avg(hours_per_week)", "FROM adult GROUP BY ALL", "education"),
    Question("mean of age by marital status", "avg(age)", "FROM adult GROUP BY ALL", "marital_status"),
    Question("share of >50K by education", "avg((income = '>50K')::INT)", "FROM adult GROUP BY ALL", "education"),
    Question("standard deviation of age by sex", "stddev(age)", "FROM adult GROUP BY ALL", "sex", ends=False),
    Question("median of age by education", "median(age)", "FROM adult GROUP BY ALL", "education", ends=False),
    Question("90 % quantile of age", "quantile_cont(age, 0.9)", "FROM adult", ends=False),
)
PERSONS = (
    Question("persons by state and county", "count(*)", "FROM persons GROUP BY ALL", "state, county"),
    Question("different persons by state", "count(DISTINCT pid)", "FROM persons GROUP BY ALL", "state"),
    Question(
        "by month of arrival",
        "count(*)",
        "FROM persons GROUP BY ALL",
        "CAST(date_trunc('month', arrived) AS DATE) AS month",
    ),
    Question("sum of income by county", "sum(income)", "FROM persons GROUP BY ALL", "state, county"),
    Question("mean of income by sex", "avg(income)", "FROM persons GROUP BY ALL", "sex"),
    Question("mean of income by county", "avg(income)", "FROM persons GROUP BY ALL", "state, county"),
    Question("share of employed by state", "avg(employed::INT)", "FROM persons GROUP BY ALL", "state"),
    Question("median of income by state", "median(income)", "FROM persons GROUP BY ALL", "state", ends=False),
    Question("households by size and state", "count(*)", f"FROM {SIZES} GROUP BY ALL", "state, size", ends=False),
)


def make(path: Path, *, adult: Path | None = None, households: int = 2000) -> None:
    """The database of the ordinary queries. adult: a file with the real table, else a made one."""
    script = (FIXTURES / "database.sql").read_text(encoding="utf-8")
    with duckanon.connect(path, role="steward") as con:
        con.execute(script.replace("FROM range(2000)", f"FROM range({households})")).fetchall()
        if adult is not None:
            con.execute(f"CREATE OR REPLACE TABLE adult AS FROM '{adult}'").fetchall()
        con.execute((FIXTURES / "policies.sql").read_text(encoding="utf-8")).fetchall()


@contextmanager
def decided(path: Path, questions: Mapping[str, str]) -> Iterator[tuple[Any, dict[str, tuple[str, PaidQuestion]]]]:
    """A steward's connection, and for each query the text over its answer and the question. Nothing is charged."""
    found = {}
    with duckanon.connect(path, role="analyst") as con:
        for name, sql in questions.items():
            decision = con.explain(sql)
            if decision.query is None:
                sys.exit(f"{name}: {decision.steps[0].reason}")
            (question,) = decision.answers
            found[name] = decision.query, question
    with duckanon.connect(path, role="steward") as con:
        yield con, found


class Draws:
    """Answers to one question, each with noise of its own. The records are read once."""

    def __init__(self, con: duckdb.DuckDBPyConnection, text: str, question: PaidQuestion) -> None:
        self._con, self._question = con, question
        self._text = text.replace(quoted(question.path), "drawn")
        assert self._text != text
        if isinstance(question, AggregatesQuestion):
            self._form, self._exact = forms.form(con, question), mechanisms.exact(con, question)

    def answer(self) -> Any:
        question = self._question
        if not isinstance(question, AggregatesQuestion):
            return mechanisms.draw(self._con, question)
        measured = zip(question.measures, self._exact, strict=True)
        noisy = [aggregates.noised(question, one, exact, Entropy()) for (one, _), exact in measured]
        return aggregates.answer(question, self._form, noisy)

    def rows(self) -> list[tuple[Any, ...]]:
        with duckdb.connect() as apart:
            noise_widths.register(Instance(apart))
            apart.register("drawn", self.answer())
            return apart.execute(self._text).fetchall()


def measure(con: duckdb.DuckDBPyConnection, one: Question, text: str, asked: PaidQuestion) -> str:
    """A row of the table."""
    last = 3 if one.ends else 1
    exact = {row[:-1]: float(row[-1]) for row in con.execute(one.exact).fetchall() if row[-1] is not None}
    counted = one.number.startswith(("count", "sum"))
    draws, errors, widths, held = Draws(con, text, asked), [], [], []
    for _ in range(min(max(NUMBERS // len(exact), LEAST), MOST) if isinstance(asked, AggregatesQuestion) else 3):
        for row in draws.rows():
            key, numbers = row[:-last], row[-last:]
            if numbers[0] is None or (key not in exact and not counted):
                continue
            true = exact.get(key, 0.0)
            errors.append(abs(float(numbers[0]) - true))
            if one.ends:
                low, high = map(float, numbers[1:])
                widths.append((high - low) / 2)
                held.append(low <= true <= high)
    middle = np.median(np.abs(list(exact.values())))
    told = f"{short(np.mean(widths))} | {np.mean(held):.1%}" if one.ends else " | "
    return f"| {one.what} | {len(exact)} | {short(middle)} | {short(np.mean(errors))} | {told} |"


def short(number: Any) -> str:
    """A number as the tables show it."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def main() -> None:
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ordinary.duckdb"
        make(path, adult=DATA, households=20_000)
        print("| question | numbers | median of them | mean error | half the interval | held by it |")
        print("|---|---:|---:|---:|---:|---:|")
        questions = {one.what: one for one in (*ADULT, *PERSONS)}
        with decided(path, {name: one.sql for name, one in questions.items()}) as (con, found):
            for name, (text, asked) in found.items():
                print(measure(con, questions[name], text, asked), flush=True)


if __name__ == "__main__":
    main()
