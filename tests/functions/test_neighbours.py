"""Differential privacy, seen from SQL: neighbouring tables give an output about as often, up to a factor of e^epsilon.

A finite number of releases can refute privacy and not prove it; that the test can refute is shown on the paper's chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log

import duckdb
import numpy as np
import pytest
from scipy.stats import beta

import duckanon
from duckanon.engines.groups.methods import METHODS
from tests.amounts import LONG

RELEASES = 300 if LONG else 80
# The chain's sensitivity grows with the regions. Integer programs are for few.
REGIONS = 500
FEW = 4
pytestmark = pytest.mark.long("a statistical search over releases; tests/engines/groups/test_neighbours.py is exact")
# The chance that one of the many events of one test looks worse than it is.
DOUBT = 1e-6


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """One person alone in each region; `more` has one person more, who joins, `new` one who lives alone."""
    with duckdb.connect() as con:
        duckanon.register(con)
        for n in (REGIONS, FEW):
            con.execute(f"CREATE TABLE less_{n} AS SELECT i AS unit, i AS region FROM range({n}) r(i)").fetchall()
            con.execute(f"CREATE TABLE more_{n} AS FROM less_{n} UNION ALL SELECT 0, 0").fetchall()
            con.execute(f"CREATE TABLE new_{n} AS FROM less_{n} UNION ALL SELECT {n}, 0").fetchall()
            con.execute(f"CREATE TABLE regions_{n} AS SELECT i AS region FROM range({n}) r(i)").fetchall()
        yield con


def releases(con: duckdb.DuckDBPyConnection, table: str, mechanism: str, totals: str) -> np.ndarray:
    """What several releases say: groups of size 2 in all, in the region concerned, and the chain's cumulative sums."""
    found = []
    n = FEW if mechanism.endswith("exact") else REGIONS
    for _ in range(RELEASES):
        # The store would give the same release again; only whoever holds the raw connection can empty it.
        con.execute("DELETE FROM duckanon.releases").fetchall()
        found += con.execute(
            "SELECT sum(groups) FILTER (level = 0 AND size = 2), sum(groups) FILTER (region = 0 AND size = 2), "
            "sum(groups) FILTER (level = 0), "
            f"sum(groups * (2 * {n} - (size - 1) * {n} - region)) FILTER (level = 1) "
            f"FROM dp_group_sizes('{table}_{n}', 'unit', ['region'], epsilon := 1, max_size := 2, "
            f"regions := 'regions_{n}', mechanism := '{mechanism}', totals := '{totals}')"
        ).fetchall()
    return np.array(found, dtype=float)


def loss(one: np.ndarray, other: np.ndarray) -> float:
    """A lower confidence bound on the privacy loss: the largest log-ratio of an event's chances, for all tails."""
    tests = 2 * one.shape[1] * 2 * len(one)
    found = -np.inf
    for a, b in ((one, other), (other, one)):
        for column in range(a.shape[1]):
            for sign in (1, -1):
                x, y = sign * a[:, column], sign * b[:, column]
                for least in np.unique(x):
                    hits, misses = int((x >= least).sum()), int((y >= least).sum())
                    low = beta.ppf(DOUBT / tests, hits, len(x) - hits + 1)
                    high = beta.ppf(1 - DOUBT / tests, misses + 1, len(y) - misses) if misses < len(y) else 1.0
                    found = max(found, log(low / high))
    return found


@pytest.fixture
def measured(con: duckdb.DuckDBPyConnection) -> Callable[[str, str, str, str], float]:
    con.execute(f"FROM dp_group_sizes('less_{FEW}', 'unit', epsilon := 1, max_size := 2)").fetchall()

    def measure(one: str, other: str, mechanism: str, totals: str) -> float:
        return loss(releases(con, one, mechanism, totals), releases(con, other, mechanism, totals))

    return measure


@pytest.mark.parametrize(
    ("mechanism", "totals"),
    [
        *((name, "public") for name in (METHODS if LONG else ["auto"])),
        *((name, "private") for name in (METHODS if LONG else []) if METHODS[name].private),
    ],
)
def test_neighbours(measured: Callable[[str, str, str, str], float], mechanism: str, totals: str) -> None:
    assert measured("less", "more" if totals == "public" else "new", mechanism, totals) <= 1


def test_the_paper_s_calibration_of_the_chain_is_rejected(
    measured: Callable[[str, str, str, str], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = METHODS["chain"]
    printed = replace(chain, name="printed", public=replace(chain.public, sensitivity=lambda _, step: step))
    monkeypatch.setitem(METHODS, "printed", printed)
    assert measured("less", "more", "printed", "public") > 1
