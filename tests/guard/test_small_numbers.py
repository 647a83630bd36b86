"""In Python and in the console, below numbers that are small beside their own intervals."""

from __future__ import annotations

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
