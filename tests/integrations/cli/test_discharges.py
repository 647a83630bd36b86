"""From a hospital's untidy CSV file to the page that an officer signs, by the command line alone."""

import json
from pathlib import Path

import duckdb
import pyarrow.csv as pc
import pytest

from tests.bench.discharges import discharges
from tests.integrations.cli.commandline import run

K = 5


@pytest.fixture
def stays(here: Path) -> Path:
    """Five thousand stays of three and a half thousand patients, as a file."""
    pc.write_csv(discharges(5_000, 3_500), "stays.csv")
    return here / "stays.csv"


def test_from_the_file_to_the_signed_page(stays: Path) -> None:
    seen = run("report", "stays.csv", "--qi", "age,sex,zip", "--unit", "patient", "--format", "json")
    assert seen.exit_code == 0, seen.output
    (before,) = json.loads(seen.stdout)
    assert (before["records"], before["k"]) == (5_000, 1)
    assert before["singletons"] > 500

    made = run(
        *("k-anonymize", "stays.csv", "released.parquet", "--qi", "age,sex,zip", "--categorical", "sex"),
        *("--k", str(K), "--unit", "patient", "--drop", "patient,charge", "--max-suppression", "0.01"),
    )
    assert made.exit_code == 0, made.output
    said = " ".join(made.stderr.split())
    assert "Wrote released.parquet: 4,950 records in" in said
    assert f"each of {K} or more values of patient. 50 records were dropped." in said
    assert "20 % after" in said
    assert "values of patient stood alone before, none after." in said
    assert "Copied as they are: admitted, hospital, diagnosis, days." in said

    # The same with the patients, to count them.
    kept = ("k-anonymize", "stays.csv", "kept.parquet", "--qi", "age,sex,zip", "--categorical", "sex", "--k", str(K))
    assert run(*kept, "--unit", "patient", "--method", "order").exit_code == 0
    sizes = "SELECT count(DISTINCT patient) AS patients FROM 'kept.parquet' GROUP BY age_lo, age_hi, sex_set, zip_lo"
    assert duckdb.execute(f"SELECT min(patients) >= {K} FROM ({sizes})").fetchone() == (True,)

    with duckdb.connect("hospital.duckdb") as con:
        con.execute("CREATE TABLE released AS FROM 'released.parquet'").fetchall()
    page = run("report", "hospital.duckdb", "--out", "page.html")
    assert page.exit_code == 0, page.output
    text = Path("page.html").read_text(encoding="utf-8")
    assert "released" in text
    assert "Signature" in text
