"""How far counts of records go wrong: random counting queries, asked of a table and of its release.

A query counts the records that meet a condition on each of one to three columns: a number lies in a range, a category
is one of a set. Source: LeFevre, DeWitt and Ramakrishnan 2006, section 5 (counts over generalised cells, whose values
are taken to be spread evenly); Garofalakis and Kumar 2005 (the sanity bound of relative errors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.fidelity.cells import Cells, Numbers

Floats = npt.NDArray[np.float64]
Condition = tuple[float, float] | npt.NDArray[np.bool_]

MOST_CONDITIONS = 3
# Errors are relative to the true count, or to this share of the records where the count is smaller.
SANITY = 0.01
# The same queries in each run: they are a measure, and no noise.
_SEED = 20


@dataclass(frozen=True, eq=False)
class Query:
    """Conditions by number of the column: the ends of a range, or a flag for each category."""

    conditions: dict[int, Condition]

    def count(self, table: Cells) -> float:
        """The number of records that meet all of them; what is missing meets none."""
        met = table.weights
        for column, condition in self.conditions.items():
            cells = table.columns[column]
            chance = cells.chance(*condition) if isinstance(cells, Numbers) else cells.chance(condition)  # type: ignore[arg-type] # each has its own
            met = met * chance[cells.index]
        return float(met.sum())


def queries(before: Cells, count: int) -> list[Query]:
    """So many queries, the same for the same table. The ends of ranges are quantiles drawn at random."""
    rng = np.random.default_rng(_SEED)
    usable = [i for i, column in enumerate(before.columns) if _askable(before, i)]
    weights = [before.weighed(i) for i in range(len(before.columns))]
    drawn = []
    for _ in range(count if usable else 0):
        number = 1 + int(rng.random() * min(MOST_CONDITIONS, len(usable)))
        chosen = sorted(np.argsort(rng.random(len(usable)))[:number].tolist())
        drawn.append(Query({usable[i]: _condition(before, usable[i], weights[usable[i]], rng) for i in chosen}))
    return drawn


def errors(before: Cells, after: Cells, counting_queries: Sequence[Query]) -> Floats:
    """The relative error of each query's count in the release, shape (queries,)."""
    least = max(1.0, SANITY * before.records)
    true = np.array([query.count(before) for query in counting_queries])
    released = np.array([query.count(after) for query in counting_queries])
    return np.asarray(np.abs(released - true) / np.maximum(true, least))


def _askable(table: Cells, column: int) -> bool:
    """Whether a condition on the column can tell records apart."""
    return len(table.columns[column].missing) > 1 and not table.columns[column].missing.all()


def _condition(table: Cells, column: int, weights: Floats, rng: np.random.Generator) -> Condition:
    cells = table.columns[column]
    if isinstance(cells, Numbers):
        low, high = sorted(rng.random(2).tolist())
        return cells.quantile(weights, low), cells.quantile(weights, high)
    codes = len(cells.names)
    size = 1 + int(rng.random() * max(codes - 1, 1))
    chosen = np.zeros(codes, np.bool_)
    chosen[np.argsort(rng.random(codes))[:size]] = True
    return chosen
