"""In Python and in the console, below numbers that are small beside their own intervals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import duckanon
from duckanon.integrations.cli.commands import app

COUNTS = "SELECT place, count(*) AS n FROM t GROUP BY place"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four places with 1,000 records, and four that have none."""
    found = tmp_path_factory.mktemp("small") / "x.duckdb"
    with duckanon.connect(found, role="steward") as con:
        con.execute(
            "CREATE TABLE t AS SELECT i % 4 AS place, i % 10 AS v FROM range(4000) r(i); "
            "CREATE MACRO never(x) AS (x = 99); "
            "SELECT protect('t', epsilon := 90, per_query := 1, public := ['place'], bounds := {'v': [0, 9]}, "
            "domains := {'place': {'from': 0, 'to': 7, 'step': 1}})"
        ).fetchall()
    return found


@pytest.mark.parametrize(
    ("sql", "noisy"),
    [
        (COUNTS, 1),
        ("SELECT count(*) AS n, sum(v) AS s, place, avg(v) FROM t GROUP BY place", 2),
        ("SELECT place, count(*) + 1 FROM t GROUP BY place", 0),
        ("SELECT place, count(*) FROM t GROUP BY ROLLUP (place)", 0),
        ("SELECT n FROM (SELECT place, count(*) AS n FROM t GROUP BY place)", 0),
        ("SELECT 1 AS one", 0),
    ],
)
def test_which_columns_have_noise_follows_from_the_text(path: Path, sql: str, noisy: int) -> None:
    """Widths are those of low and high, where nothing is cut off at zero."""
    with duckanon.connect(path, role="analyst") as con:
        found = con.explain(sql).noisy
        assert len(found) == noisy
        if sql == COUNTS:
            ends = con.execute("SELECT high(count(*)) - low(count(*)) FROM t GROUP BY place").fetchall()
            assert found == ((1, ends[0][0]),)


def test_python_and_the_console_say_it(path: Path) -> None:
    with duckanon.connect(path, role="analyst") as con:
        con.execute(COUNTS).fetchall()
        rows = con.sql(COUNTS).fetchall()
        small = sum(abs(n) < 6 for _, n in rows)
        shown = repr(con.sql(COUNTS))
        assert f"{small} of 8 noisy numbers" in shown
        assert shown.count("noise alone") == str(con.sql(COUNTS)).count("noise alone") == 1
        assert "noise alone" not in repr(con.sql("SELECT 1 AS one"))
    found = CliRunner().invoke(app, ["sql", str(path), "-c", COUNTS])
    assert found.exit_code == 0, found.output
    assert f"{small} of 8 noisy numbers" in found.output


# Numbers whose intervals are not as wide in every row, with the same numbers and the ends of their intervals.
VARYING = [
    ("SELECT place, avg(v) AS a FROM t GROUP BY place", "avg(v)"),
    ("SELECT place, avg(CASE WHEN v = 3 THEN 1 ELSE 0 END) AS a FROM t GROUP BY place",
     "avg(CASE WHEN v = 3 THEN 1 ELSE 0 END)"),
    ("SELECT place, count(*) FILTER (WHERE v = 3) / count(*) AS s FROM t GROUP BY place",
     "count(*) FILTER (WHERE v = 3) / count(*)"),
    ("SELECT place, count(*) / sum(count(*)) OVER () AS s FROM t GROUP BY place", "count(*) / sum(count(*)) OVER ()"),
    ("SELECT place, sum(v) / count(*) AS m FROM t GROUP BY place HAVING count(*) > 0", "sum(v) / count(*)"),
    ("SELECT place, sum(v) AS s FROM t GROUP BY ROLLUP (place)", "sum(v)"),
    ("SELECT place, avg(v) AS a FROM t GROUP BY CUBE (place) ORDER BY 2 DESC LIMIT 3", "avg(v)"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "number"), VARYING)
def test_means_shares_and_totals_are_compared_with_their_own_intervals(path: Path, sql: str, number: str) -> None:
    with duckanon.connect(path, role="analyst") as con:
        ends = sql.replace("SELECT place, ", f"SELECT place, high({number}) - low({number}) AS w, ").replace(
            "BY 2", "BY 3"
        )
        told = [(x, w) for _, w, x in con.execute(ends).fetchall() if x is not None]
        small = sum(abs(x) < w for x, w in told)
        assert told
        shown = repr(con.sql(sql))
        assert (f"{small} of {len(told)} noisy number" in shown) == (small > 0)
        # It reads what was drawn, and the connection's last result stays.
        rows = con.execute(sql).fetchall()
        assert con.decision is not None
        assert con.decision.steps[0].drawn is not None
        assert (con.small_numbers(rows) is not None) == (small > 0)


def test_totals_by_rollup_are_compared_without_the_cut_at_zero(path: Path) -> None:
    """A count of -3 has an interval up to 3 alone, and may be noise all the same. Without it, as wide as the noise."""
    with duckanon.connect(path, role="analyst") as con:
        sql = "SELECT place, count(*) FROM t WHERE v = 11 GROUP BY ROLLUP (place)"
        said = re.search(r"(\d) of 9 noisy numbers", repr(con.sql(sql)))
        # (A draw is outside of its own width in less than one of a hundred cases.)
        assert said is not None
        assert int(said[1]) >= 6


def test_a_share_of_known_values_is_told_too(path: Path) -> None:
    """Its question is one of conditions that lie within each other."""
    with duckanon.connect(path, role="analyst") as con:
        assert con.explain("SELECT place, avg((v = 3)::INT) FROM t GROUP BY place").note is not None
        assert "noisy number" in repr(con.sql("SELECT avg((v = 99)::INT) AS a FROM t WHERE place = 1"))


def test_a_note_is_read_by_the_last_gate_and_shows_nothing_of_views(path: Path) -> None:
    with duckanon.connect(path, role="analyst") as con:
        sql = "SELECT avg(never(v)::INT) AS a FROM t WHERE place = 2"
        assert all(step.note is None for step in con.explain(sql).steps)
        assert "noisy number" in repr(con.sql(sql))
