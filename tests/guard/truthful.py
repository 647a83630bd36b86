"""Answers without noise, to test what is computed from answers. Not part of the package: it can draw none."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from duckanon.engines.quantiles import losses
from duckanon.releases import mechanisms
from duckanon.releases.measures import Ints, Measure, Quantiles
from duckanon.releases.mechanisms import aggregates, forms, group_sizes
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, PaidQuestion


@pytest.fixture
def truthful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer tells the exact numbers."""
    monkeypatch.setattr(mechanisms, "draw", truth)


def truth(con: duckdb.DuckDBPyConnection, asked: PaidQuestion, _: Any = None) -> pa.Table:
    """The answer to a question as it would be without noise."""
    keys, exact = forms.form(con, asked), mechanisms.exact(con, asked)
    if isinstance(asked, AggregatesQuestion):
        found = [_best(one, totals) for (one, _), totals in zip(asked.measures, exact, strict=True)]
        return aggregates.answer(asked, keys, found)
    assert isinstance(asked, GroupSizesQuestion)
    ranks = group_sizes.ranks_of(keys, len(asked.hierarchy))
    sizes, tables = exact[0].reshape(len(keys), asked.sizes), []
    for level in reversed(range(len(ranks))):
        tables.append(group_sizes.level_rows(asked, keys, ranks, level, sizes, sizes, sizes))
        if level:
            parents = [group_sizes.parents_of(upper, lower) for upper, lower in pairwise(ranks)][level - 1]
            summed = np.zeros((int(parents.max()) + 1, asked.sizes), dtype=np.int64)
            np.add.at(summed, parents, sizes)
            sizes = summed
    return pa.concat_tables(reversed(tables))


def _best(measure: Measure, totals: Ints) -> Ints:
    """The totals themselves; of quantiles, the values with the least loss."""
    if not isinstance(measure, Quantiles):
        return totals
    return np.array([[losses(one, Fraction(at))[0].argmin() for at in measure.at] for one in totals], dtype=np.int64)
