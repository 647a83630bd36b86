"""k_anonymize(..., release := 'centroid') and objective := 'sse': what is released, computed again in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from tests.amounts import many

Row = tuple[int | None, str | None, str]
LEVELS = ("low", "middle", "high")


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    duckanon.register(found)
    return found


def made(con: duckdb.DuckDBPyConnection, rows: list[Row], more: str) -> list[tuple[object, ...]]:
    con.execute(
        f"CREATE OR REPLACE TABLE t (id INTEGER, x INTEGER, c VARCHAR, e ENUM {LEVELS}); DELETE FROM t"
    ).fetchall()
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [[i, *row] for i, row in enumerate(rows)])
    call = f"k_anonymize('t', ['x', 'c', 'e'], k := 2, categorical := ['c'], release := 'centroid', {more})"
    return con.execute(f"SELECT x_mean, c_mode, e_median, id FROM {call}").fetchall()


rows_of = st.lists(
    st.tuples(st.none() | st.integers(-50, 50), st.none() | st.sampled_from(["a", "A", "b"]), st.sampled_from(LEVELS)),
    min_size=2,
    max_size=12,
)


@settings(max_examples=many(50))
@given(rows_of, st.sampled_from(["sse", "loss"]), st.sampled_from(["1", "10", "0.25"]))
def test_a_class_shows_its_mean_mode_and_median(
    con: duckdb.DuckDBPyConnection, rows: list[Row], objective: str, step: str
) -> None:
    released = made(con, rows, f"objective := '{objective}', steps := {{'x': {step}}}")
    assert sorted(str(row[-1]) for row in released) == sorted(map(str, range(len(rows))))
    classes = defaultdict(list)
    for *shown, i in released:
        classes[tuple(shown)].append(rows[int(str(i))])
    for (mean, mode, median), inside in classes.items():
        assert len(inside) >= 2
        # (Classes with the same centroid are one, whose own may be another; two classes have four records.)
        if len(inside) < 4:
            numbers = [x for x, _, _ in inside if x is not None]
            assert mean == (rounded(numbers, step) if len(numbers) == len(inside) else None)
            counted = Counter(c for _, c, _ in inside if c is not None)
            most = max(counted.values(), default=0)
            commonest = min((c for c in counted if counted[c] == most), default=None)
            assert mode == (commonest if counted.total() == len(inside) else None)
            levels = sorted(LEVELS.index(e) for _, _, e in inside)
            assert median == LEVELS[levels[(len(levels) - 1) // 2]]


def rounded(numbers: list[int], step: str) -> Decimal:
    steps = Fraction(sum(numbers), len(numbers)) / Fraction(step)
    whole = (Decimal(steps.numerator) / Decimal(steps.denominator)).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    return whole * Decimal(step)


def test_a_class_that_one_record_dominates_is_flagged(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE firms AS FROM (VALUES (1000, 1), (10, 2), (20, 1), (30, 7), (31, 7), (32, 8)) v(x, y)"
    ).fetchall()
    call = "k_anonymize('firms', ['x', 'y'], k := 3, release := 'centroid', steps := {'x': 1, 'y': 1}"
    shown = f"SELECT x_mean, y_mean, dominated FROM {call}, dominance := 0.6) GROUP BY ALL ORDER BY ALL"
    assert con.execute(shown).fetchall() == [(31, 7, []), (343, 1, ["x"])]
    assert "dominated" not in [column[0] for column in con.execute(f"FROM {call})").description or ()]


def test_a_mean_does_not_depend_on_the_order_of_rows(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE OR REPLACE TABLE f AS SELECT random() * 1e9 AS x, hash(i) AS r FROM range(150) t(i)").fetchall()
    call = "SELECT x_mean, count(*) FROM k_anonymize('{}', ['x'], k := 25, objective := 'sse', release := 'centroid', "
    call += "steps := {{'x': 0.001}}, drop := ['r']) GROUP BY ALL ORDER BY ALL"
    con.execute("CREATE OR REPLACE TABLE g AS FROM f ORDER BY r").fetchall()
    assert con.execute(call.format("f")).fetchall() == con.execute(call.format("g")).fetchall()


def test_a_value_too_far_from_zero_for_its_step_is_told(con: duckdb.DuckDBPyConnection) -> None:
    """It made the mean NULL, as if a value were missing."""
    con.execute("CREATE OR REPLACE TABLE far AS SELECT 10 ** 12 + i AS x FROM range(6) t(i)").fetchall()
    call = "SELECT DISTINCT x_mean FROM k_anonymize('far', ['x'], k := 6, release := 'centroid', steps := {{'x': {}}})"
    assert con.execute(call.format("100")).fetchall() == [(10**12,)]
    with pytest.raises(duckdb.Error, match=r'Column "x" holds a value of more than a million million steps: give it'):
        con.execute(call.format("1")).fetchall()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("release := 'centroid', steps := {'y': 1}", "which is not in qi"),
        ("release := 'centroid', steps := {'x': 0}", "must be a number above zero"),
        ("release := 'centroid', steps := {'x': 1}, categorical := ['x']", "both categorical and steps"),
        ("release := 'centroid', steps := [1]", "steps must give a step by name"),
        ("release := 'centroid', categorical := ['x'], dominance := 0.5", "no quasi-identifier has one"),
        ("release := 'centroid', steps := {'x': 1}, bands := {'x': 5}", "leave bands, hierarchies, suppress_cells"),
        ("release := 'centroid', steps := {'x': 1}, within := 't'", "means would tell single values"),
        ("objective := 'sse', max_suppression := 0.1", "no conditions beside k"),
        ("objective := 'sse', options := {'sets': 2}", "has no options"),
    ],
)
def test_what_does_not_go_together_is_refused(con: duckdb.DuckDBPyConnection, more: str, says: str) -> None:
    con.execute("CREATE OR REPLACE TABLE t AS SELECT i AS x FROM range(20) t(i)").fetchall()
    with pytest.raises(duckdb.Error, match=says):
        con.execute(f"FROM k_anonymize('t', ['x'], k := 2, {more})").fetchall()


def test_squares_are_smaller_than_with_the_default_objective(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE OR REPLACE TABLE w AS SELECT hash(i) % 97 AS x, hash(i + 9) % 89 AS y FROM range(300) t(i)")
    call = "k_anonymize('w', ['x', 'y'], k := 3, release := 'centroid', steps := {{'x': 1, 'y': 1}}, objective := '{}')"
    # (`w` has no key: classes are compared by what their means keep of the variance, the more the better.)
    kept = "SELECT var_pop(x_mean) / 28 ** 2 + var_pop(y_mean) / 26 ** 2 FROM "
    (loss,), (sse,) = (con.execute(kept + call.format(one)).fetchone() or (0,) for one in ("loss", "sse"))
    assert sse > loss
