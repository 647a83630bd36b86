"""In Python and in the console, below results: how wide noise is beside the numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import duckanon
from duckanon.integrations.cli.commands import app
from duckanon.releases import margins

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
        largest = max(abs(n) for _, n in rows)
        near = f"95 % within {margins.rounded(300 / largest)} % of the largest cell"
        # Half of the cells are of noise alone, so the median is near to it, on either side.
        relative = rf"Noise: {re.escape(near)}, (wider than|[0-9.]+ % of) the median cell\."
        assert re.search(relative, shown)
        assert "noise" not in repr(con.sql("SELECT 1 AS one")).lower()
    found = CliRunner().invoke(app, ["sql", str(path), "-c", COUNTS])
    assert found.exit_code == 0, found.output
    assert re.search(rf"-- {relative} {small} of 8 noisy numbers", found.output)


def test_a_result_whose_numbers_are_large_says_how_wide_noise_is_too(path: Path) -> None:
    """Nothing was said where no number was small."""
    with duckanon.connect(path, role="analyst") as con:
        shown = repr(con.sql("SELECT count(*) AS n FROM t"))
        ((n,),) = con.execute("SELECT count(*) AS n FROM t").fetchall()
        assert shown.splitlines()[-1] == f"Noise: 95 % within {margins.rounded(300 / n)} % of the number."


def test_of_several_columns_the_widest_is_named(path: Path) -> None:
    """Beside sums of 3,900 or more noise of 18 or more is less than 1 %, and beside counts of v = 3 more."""
    sql = "SELECT place, sum(v) AS s, count(*) FILTER (WHERE v = 3) AS threes FROM t WHERE place < 4 GROUP BY place"
    with duckanon.connect(path, role="analyst") as con:
        assert "\nNoise of threes, the widest: 95 % within " in repr(con.sql(sql))


def test_where_a_condition_on_keys_does_not_hold_there_is_no_noise(path: Path) -> None:
    """These zeros are exact. They were counted among numbers that may be noise alone."""
    sql = "SELECT place, count(*) FILTER (WHERE place = 1) AS n FROM t GROUP BY place"
    with duckanon.connect(path, role="analyst") as con:
        said = repr(con.sql(sql)).splitlines()[-1]
        assert re.fullmatch(r"Noise: 95 % within 0\.\d+ % of the number\.", said)


def test_the_console_looks_at_more_rows_than_it_shows(tmp_path: Path) -> None:
    """The largest of 60 numbers is the last, and 40 are shown."""
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(
            "CREATE TABLE t AS SELECT 59 AS place FROM range(1000); "
            "SELECT protect('t', epsilon := 9, per_query := 1, public := ['place'], "
            "domains := {'place': {'from': 0, 'to': 59, 'step': 1}})"
        ).fetchall()
    counts = "SELECT place, count(*) AS n FROM t GROUP BY place ORDER BY place"
    found = CliRunner().invoke(app, ["sql", str(tmp_path / "x.duckdb"), "-c", counts])
    assert re.search(r"95 % within 0\.\d+ % of the largest cell, wider than the median cell", found.output)
    assert "of 60 noisy numbers" in found.output


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
        assert con.noise_beside(["place", "x"], rows) == shown.splitlines()[-1]


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
        # (An interval that lies below 0 is cut at both ends, and has no width.)
        said = repr(con.sql("SELECT avg((v = 99)::INT) AS a FROM t WHERE place = 1"))
        assert "noisy number" in said or "wider than the number" in said


def test_a_note_is_read_by_the_last_gate_and_shows_nothing_of_views(path: Path) -> None:
    with duckanon.connect(path, role="analyst") as con:
        sql = "SELECT avg(never(v)::INT) AS a FROM t WHERE place = 2"
        assert all(step.note is None for step in con.explain(sql).steps)
        said = repr(con.sql(sql))
        assert "noisy number" in said or "wider than the number" in said


@pytest.mark.parametrize("of", ["", " AS b WHERE b.ward = a.ward"])
def test_that_records_are_compared_with_noise_is_said(tmp_path: Path, of: str) -> None:
    """The interval of such a count is for its own noise: an average that is a little higher takes many records out."""
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute("CREATE TABLE staff AS SELECT i AS person, i % 3 AS ward, 480 + i % 7 AS pay FROM range(90) r(i)")
        con.execute(
            "SELECT protect('staff', privacy_unit := 'person', rows_per_unit := 1, epsilon := 90, per_query := 1, "
            "public := ['ward'], domains := {'ward': {'from': 0, 'to': 2}}, bounds := {'pay': [0, 1000]})"
        ).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        sql = f"SELECT count(*) FROM staff AS a WHERE pay > (SELECT avg(pay) FROM staff{of})"
        reasons = [step.reason for step in con.explain(sql).steps]
        assert ["the noise of the answer with which" in one for one in reasons] == [False, True]
        assert margins.OF_OTHERS in repr(con.sql(sql))
        assert margins.OF_OTHERS not in repr(con.sql("SELECT avg(pay), count(*) FROM staff"))
