"""A table beside its release: every measure as rows.

Sources: total variation distance (half the sum of differences); Cramer 1946 (V, from expected counts where a cell has
several values); `queries` for the error of counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.fidelity.cells import Cells, Numbers
from duckanon.engines.kanon.fidelity.parts import Parts, chances, parts_of
from duckanon.engines.kanon.fidelity.queries import errors, queries

Floats = npt.NDArray[np.float64]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
# Of the errors of counts.
_ERRORS = {"median": 0.5, "75 %": 0.75, "95 %": 0.95}
# Rows that are tabulated together: what they hold beside the table itself.
_ROWS = 1 << 16

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Measure:
    """A row of k_utility. columns: names; value: the part of a column, or the statistic, None where there is one."""

    measure: str
    columns: tuple[str, ...]
    value: str | None
    before: float | None
    after: float | None
    difference: float | None

    @staticmethod
    def of(
        measure: str, columns: Sequence[str], value: str | None, before: float | None, after: float | None
    ) -> Measure:
        """The row of a statistic that both tables have, or have not."""
        change = None if before is None or after is None else round(after - before, 12)
        return Measure(measure, tuple(columns), value, before, after, change)


@dataclass(frozen=True, eq=False)
class Compared:
    """A table and its release, with the same columns. names, writers: of the columns; a writer makes a number text."""

    before: Cells
    after: Cells
    names: Sequence[str]
    writers: Sequence[Callable[[float], str]]

    @property
    def numbers(self) -> list[int]:
        """The columns of numbers."""
        return [i for i, column in enumerate(self.before.columns) if isinstance(column, Numbers)]


def measures(tables: Compared, query_count: int, progress: Progress = lambda _: None) -> Iterator[Measure]:
    """All measures but predictions, in the order in which they are shown. query_count: of `queries`."""
    before, after = tables.before, tables.after
    yield Measure.of("records", (), None, before.records, after.records)
    divided = [parts_of(before, i, tables.writers[i]) for i in range(len(tables.names))]
    yield from _marginals(tables, divided)
    progress(0.2)
    for i in tables.numbers:
        yield from _moments(tables, i)
    for i, j in combinations(tables.numbers, 2):
        correlations = [_correlation(table, i, j) for table in (before, after)]
        yield Measure.of("correlation", (tables.names[i], tables.names[j]), None, *correlations)
    progress(0.4)
    numbers = set(tables.numbers)
    pairs = [pair for pair in combinations(range(len(tables.names)), 2) if not numbers.issuperset(pair)]
    counts = [_counts(table, divided, pairs) for table in (before, after)]
    for place, (i, j) in enumerate(pairs):
        yield Measure.of(
            "cramers_v", (tables.names[i], tables.names[j]), None, *(_cramers_v(count[place]) for count in counts)
        )
    progress(0.6)
    if asked_queries := queries(before, query_count):
        wrong = errors(before, after, asked_queries)
        for label, share in _ERRORS.items():
            yield Measure(
                "query_error", tuple(tables.names), label, None, None, round(float(np.quantile(wrong, share)), 12)
            )


def _marginals(tables: Compared, divided: Sequence[Parts]) -> Iterator[Measure]:
    """Of each column: the share of the records that are missing and in each part, and how far they are moved."""
    shares = []
    for table in (tables.before, tables.after):
        column_shares = []
        for i, parts in enumerate(divided):
            weights = table.weighed(i)
            missing = weights @ table.columns[i].missing
            column_shares.append(
                np.append(missing, weights @ chances(parts, table.columns[i])) / max(table.records, 1.0)
            )
        shares.append(column_shares)
    for name, before, after in zip(tables.names, *shares, strict=True):
        yield Measure("total_variation", (name,), None, None, None, round(float(np.abs(before - after).sum() / 2), 12))
    for name, parts, before, after in zip(tables.names, divided, *shares, strict=True):
        if before[0] or after[0]:
            yield Measure.of("missing", (name,), None, float(before[0]), float(after[0]))
        for label, first, second in zip(parts.labels, before[1:].tolist(), after[1:].tolist(), strict=True):
            yield Measure.of("share", (name,), label, first, second)


def _moments(tables: Compared, column: int) -> Iterator[Measure]:
    """Mean, standard deviation and quantiles of a column of numbers, of the records that are not missing."""
    name = (tables.names[column],)
    statistics = [_statistics(table, column) for table in (tables.before, tables.after)]
    labels = [("mean", None), ("standard_deviation", None), *(("quantile", f"{share:.0%}") for share in QUANTILES)]
    for (measure, value), before, after in zip(labels, *statistics, strict=True):
        yield Measure.of(measure, name, value and value.replace("%", " %"), before, after)


def _statistics(table: Cells, column: int) -> list[float | None]:
    cells, weights = table.columns[column], table.weighed(column)
    assert isinstance(cells, Numbers)
    weights = np.where(cells.missing, 0.0, weights)
    if not weights.any():
        return [None] * (2 + len(QUANTILES))
    mean, variance = _mean_and_variance(cells, weights)
    return [mean, sqrt(variance), *(cells.quantile(weights, share) for share in QUANTILES)]


def _mean_and_variance(cells: Numbers, weights: Floats) -> tuple[float, float]:
    """Of a column's values. weights: of each cell, 0 where it is missing."""
    middle, within = np.nan_to_num(cells.middle), np.nan_to_num(cells.variance)
    total = weights.sum()
    mean = float(weights @ middle / total)
    return mean, float(weights @ ((middle - mean) ** 2 + within) / total)


def _correlation(table: Cells, i: int, j: int) -> float | None:
    """Pearson's, over the rows in which neither is missing. Within a cell the columns are independent."""
    first, second = table.columns[i], table.columns[j]
    assert isinstance(first, Numbers)
    assert isinstance(second, Numbers)
    there = np.where(first.missing[first.index] | second.missing[second.index], 0.0, table.weights)
    if not there.any():
        return None
    moments = [
        _mean_and_variance(cells, np.asarray(np.bincount(cells.index, there, len(cells.low)), np.float64))
        for cells in (first, second)
    ]
    if moments[0][1] <= 0 or moments[1][1] <= 0:
        return None
    apart = [
        np.nan_to_num(cells.middle)[cells.index] - mean
        for cells, (mean, _) in zip((first, second), moments, strict=True)
    ]
    covariance = float((there * apart[0] * apart[1]).sum() / there.sum())
    return round(covariance / sqrt(moments[0][1] * moments[1][1]), 12)


def _counts(table: Cells, divided: Sequence[Parts], pairs: Sequence[tuple[int, int]]) -> list[Floats]:
    """The expected counts of each pair of columns, by their parts."""
    chance = [chances(parts, column) for parts, column in zip(divided, table.columns, strict=True)]
    counts = [np.zeros((chance[i].shape[1], chance[j].shape[1])) for i, j in pairs]
    for start in range(0, len(table.weights), _ROWS):
        rows = slice(start, start + _ROWS)
        here = [
            column_chances[column.index[rows]] for column_chances, column in zip(chance, table.columns, strict=True)
        ]
        for place, (i, j) in enumerate(pairs):
            counts[place] += (here[i] * table.weights[rows, None]).T @ here[j]
    return counts


def _cramers_v(counts: Floats) -> float | None:
    """Cramer's V of a table of counts; None where a column has one value only."""
    total, rows, columns = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    counts, rows, columns = counts[rows > 0][:, columns > 0], rows[rows > 0], columns[columns > 0]
    least = min(counts.shape) - 1
    if least < 1:
        return None
    expected = np.outer(rows, columns) / total
    return round(sqrt(float(((counts - expected) ** 2 / expected).sum()) / (total * least)), 12)
