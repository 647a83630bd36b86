"""Counts, sums and quantiles by cells: their exact totals, and with noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.engines.randomness import Source
from duckanon.releases import layout
from duckanon.releases.measures import Ints, Measure, Units
from duckanon.releases.mechanisms import contribution, forms, reading
from duckanon.releases.paid_questions import AggregatesQuestion


def noisy_aggregates(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, source: Source) -> pa.Table:
    """The answer with noise."""
    keys = forms.form(con, question)
    # What a unit can change was decided from this number.
    assert all(units.cells in (None, len(keys)) for units, _ in question.measures if isinstance(units, Units))
    with _at_one_time(con):
        exactly = totals(con, question, len(keys))
    measured = zip(question.measures, exactly, strict=True)
    noisy = [noised(question, measure, exact, source) for (measure, _), exact in measured]
    return answer(question, keys, noisy)


@contextmanager
def _at_one_time(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All queries within read the same records, whatever is written meanwhile."""
    con.begin()
    try:
        yield
    finally:
        con.rollback()


def totals(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, size: int) -> list[Ints]:
    """The exact totals of each measure: int64, or objects for wide ones, of shape (cells, totals of the measure).

    Of quantiles, int64 of shape (cells, steps + 1): how many records have each value.
    """
    question, is_cut = contribution.contributing(con, question)
    places = [
        (layout.value(at), measure, measure.totals(layout.value(at)))
        for at, (measure, _) in enumerate(question.measures)
    ]
    shown = {
        layout.total(at, j): (total, measure.is_wide)
        for at, (_, measure, own) in enumerate(places)
        for j, total in enumerate(own)
    }
    adds_up = all(measure.adds_up for _, measure, own in places if own)
    rows = _added_up(con, question, shown, is_cut=is_cut, adds_up=adds_up) if shown else {}
    per_measure = []
    for at, (column, measure, own) in enumerate(places):
        if measure.steps is not None:
            per_measure.append(_by_value(con, question, column, size, measure.steps, is_cut=is_cut))
            continue
        per_measure.append(np.zeros((size, len(own)), dtype=object if measure.is_wide else np.int64))
        for j in range(len(own)):
            low, *high = (rows[name] for name, _ in _halves(layout.total(at, j), "", is_wide=measure.is_wide))
            per_measure[at][rows["cell"], j] = low.astype(object) + _HALF * high[0].astype(object) if high else low
    return per_measure


def _added_up(
    con: duckdb.DuckDBPyConnection,
    question: AggregatesQuestion,
    totals: Mapping[str, tuple[str, bool]],
    *,
    is_cut: bool,
    adds_up: bool,
) -> dict[str, Ints]:
    """The totals of each cell. totals: by the names of their columns, as SQL, and whether they are wide.

    Where all records count and totals add up, records with the same keys are added up before the cell of these is
    looked up.
    """
    if is_cut or not adds_up:
        shown = ", ".join(f"CAST({part} AS BIGINT) AS {name}" for name, part in _all_halves(totals))
        return _of_cells(con, question, f"SELECT cell, {shown} FROM _dk_bounded GROUP BY cell", is_cut=is_cut)
    grouped = reading.grouped_records(con, question, [f"{sql} AS {name}" for name, (sql, _) in totals.items()])
    outer = {name: (f"system.main.sum({name})", is_wide) for name, (_, is_wide) in totals.items()}
    shown = ", ".join(f"CAST({part} AS BIGINT) AS {name}" for name, part in _all_halves(outer))
    return _numbers(
        con,
        f"WITH _dk_form AS MATERIALIZED ({forms.cells_of(question)}), _dk_groups AS ({grouped}) "
        f"SELECT cell, {shown} FROM _dk_groups JOIN _dk_form ON {reading.in_its_cell(question)} GROUP BY cell",
    )


# Wide totals come as two numbers of 64 bits: the rest and the quotient by this.
_HALF = 2**62


def _halves(name: str, total: str, *, is_wide: bool) -> list[tuple[str, str]]:
    """The columns that a total is read by, with their SQL."""
    return [(name, f"({total}) % {_HALF}"), (f"{name}_high", f"({total}) // {_HALF}")] if is_wide else [(name, total)]


def _all_halves(totals: Mapping[str, tuple[str, bool]]) -> list[tuple[str, str]]:
    return [half for name, (sql, is_wide) in totals.items() for half in _halves(name, sql, is_wide=is_wide)]


def _by_value(
    con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, column: str, size: int, steps: int, *, is_cut: bool
) -> Ints:
    """int64 of shape (cells, steps + 1): how many records have each value of a column."""
    counted = (
        f"SELECT cell, {column}, system.main.count(*) AS n FROM _dk_bounded WHERE {column} IS NOT NULL GROUP BY ALL"
    )
    rows, counts = _of_cells(con, question, counted, is_cut=is_cut), np.zeros((size, steps + 1), dtype=np.int64)
    counts[rows["cell"], rows[column]] = rows["n"]
    return counts


def _of_cells(
    con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, query: str, *, is_cut: bool
) -> dict[str, Ints]:
    """The columns of a query over _dk_bounded, the records that count. is_cut: whether some units have too many."""
    bounded = contribution.bounded(question) if is_cut else contribution.ALL_COUNT
    return _numbers(
        con,
        f"WITH _dk_form AS MATERIALIZED ({forms.cells_of(question)}), _dk_placed AS ({reading.placed(con, question)}), "
        f"{bounded} {query}",
    )


def _numbers(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, Ints]:
    columns = con.execute(query).fetchnumpy()
    return {name: np.asarray(column).astype(np.int64) for name, column in columns.items()}


def noised(question: AggregatesQuestion, measure: Measure, exactly: Ints, source: Source) -> Ints:
    """The totals of a measure with noise; of quantiles, the numbers of the chosen steps."""
    return measure.noised(exactly, question.noise(measure), source)


def answer(question: AggregatesQuestion, keys: pa.Table, noisy: Sequence[Ints]) -> pa.Table:
    """The answer as it is stored: the keys of the form, and the columns of each measure."""
    columns = [keys.column(key) for key in question.form.cell]
    for (measure, _), noisy_totals in zip(question.measures, noisy, strict=True):
        columns += map(pa.array, measure.decoded(noisy_totals))
    return pa.table(columns, names=question.columns)
