"""Queries over answers whose totals and noise are chosen, not drawn: what the guard writes, on DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import duckanon
from duckanon.catalog.names import quoted
from duckanon.engines.noise import Noise
from duckanon.functions import noise_widths
from duckanon.functions.udf import Instance
from duckanon.releases.measures import Sums
from duckanon.releases.mechanisms import aggregates, forms
from duckanon.releases.paid_questions import AggregatesQuestion

# The keys of one answer: each has its own cells, so an answer is that many draws.
PLACES = 2_500
_MADE = """
CREATE TABLE {name} (u INTEGER, place INTEGER, kind INTEGER, ill BOOLEAN, v {type}, w INTEGER);
SELECT protect('{name}', epsilon := 400{more}, per_query := {epsilon}, public := ['place', 'kind'],
  bounds := {{'v': {bounds}}},
  domains := {{'place': {{'from': 1, 'to': {places}, 'step': 1}}, 'kind': {{'from': 1, 'to': {kinds}, 'step': 1}}}})
"""


@dataclass(frozen=True)
class Table:
    """A protected table. epsilon: of a question. bounds: of the column v, of that type. kinds: how many there are.

    delta: of its population; empty for none. of_unit: so many records of a unit u count; 0 where each record is one.
    """

    epsilon: str
    bounds: str = "[0, 1]"
    type: str = "INTEGER"
    kinds: int = 2
    places: int = PLACES
    delta: str = ""
    of_unit: int = 0

    @property
    def more(self) -> str:
        """Further terms of the policy."""
        unit = f", privacy_unit := 'u', rows_per_unit := {self.of_unit}" if self.of_unit else ""
        return unit + (f", delta := {self.delta}" if self.delta else "")


@dataclass(frozen=True)
class Number:
    """A number that is asked for. beside: a further column, so that conditions are none of all.

    rolled: whether it is the total of all kinds of a place, by ROLLUP. apart: whether it is that of the first kind of a
    place, among rows of all.
    """

    sql: str
    beside: str = ""
    rolled: bool = False
    apart: bool = False

    def query(self, name: str) -> str:
        """The query for it, by places, from a table."""
        keys = "place, kind" if self.rolled or self.apart else "place"
        group = "place, ROLLUP (kind)" if self.rolled else keys
        shown = f"{keys}, {self.sql} AS x, low({self.sql}) AS low, high({self.sql}) AS high"
        return f"SELECT {shown}{', ' * bool(self.beside)}{self.beside} FROM {name} GROUP BY {group}"


class Chosen:
    """A number by places, and its interval, as the guard writes them.

    cells: of one place in the answer. question, step: what is decided.
    """

    def __init__(self, analyst: duckanon.Analyst, con: duckdb.DuckDBPyConnection, number: Number, name: str) -> None:
        decision = analyst.explain(number.query(name))
        assert decision.query is not None, decision.steps[0].reason
        (asked,) = decision.answers
        assert isinstance(asked, AggregatesQuestion)
        self.question, self.step, self._number = asked, decision.steps[0], number
        self._text = decision.query.replace(quoted(asked.path), "chosen")
        self._form = forms.form(con, asked)
        self._place = f"k{[one.column for one in asked.keys].index('place')}"
        self.places = len(set(self._form.column(self._place).to_pylist()))
        self.cells = len(self._form) // self.places

    @property
    def totals(self) -> int:
        """How many noisy totals a cell has."""
        ((measure, _),) = self.question.measures
        return measure.degree + 1 + measure.missing if isinstance(measure, Sums) else 1

    @property
    def whole(self) -> int:
        """What a record adds to the totals."""
        ((measure, _),) = self.question.measures
        return measure.whole if isinstance(measure, Sums) else 1

    @property
    def noise(self) -> Noise:
        """Of the totals, which are whole numbers."""
        return self.question.counts_noise.times(self.whole)

    def rows(self, totals: np.ndarray) -> np.ndarray:
        """x, low and high of each place, NaN for NULL: floats of shape (places, 3).

        totals: with their noise, whole numbers of shape (places, cells, totals).
        """
        order = np.argsort(np.asarray(self._form.column(self._place)), kind="stable")
        by_cell = np.empty((len(order), totals.shape[2]), dtype=np.int64)
        by_cell[order] = totals.reshape(-1, totals.shape[2])
        total = "AND kind IS NULL" if self._number.rolled else "AND kind = 1" if self._number.apart else ""
        with duckdb.connect() as con:
            noise_widths.register(Instance(con))
            con.register("chosen", aggregates.answer(self.question, self._form, [by_cell]))
            found = con.execute(
                f"SELECT x::DOUBLE AS x, low::DOUBLE AS low, high::DOUBLE AS high FROM ({self._text}) "
                f"WHERE place IS NOT NULL {total} ORDER BY place"
            ).fetchnumpy()
        return np.stack([np.ma.filled(np.ma.asarray(found[one]), np.nan) for one in ("x", "low", "high")], axis=1)


@contextmanager
def tables(path: Path, made: Sequence[Table]) -> Iterator[Callable[[Table, Number], Chosen]]:
    """A function that decides about a number of one of the tables. Its arguments: the table, the number."""
    names = {one: f"t{at}" for at, one in enumerate(dict.fromkeys(made))}
    with duckanon.connect(path, role="steward") as con:
        for one, name in names.items():
            con.execute(_MADE.format(name=name, more=one.more, **vars(one))).fetchall()
    with duckanon.connect(path, role="analyst") as analyst:
        own: Any = analyst._con.cursor()

        def ask(table: Table, number: Number) -> Chosen:
            return Chosen(analyst, own, number, names[table])

        yield ask
