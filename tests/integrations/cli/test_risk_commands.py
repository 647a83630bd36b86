"""`duckanon k-utility`, `k-subsets` and `record-risk`."""

import json

import duckdb
import pytest

import duckanon
from tests.extras import needs
from tests.integrations.cli.commandline import VOTERS, rows_of, run

COLUMNS = "age,education,income,party"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "release.csv"
    made = run(
        "k-anonymize", VOTERS, str(path), "--qi", "age,education,income", "--categorical", "education", "--k", "8"
    )
    assert made.exit_code == 0, made.stderr
    return str(path)


def test_utility_of_a_csv_file(release):
    """Intervals and sets of a text file get the types of the table."""
    told = run("k-utility", VOTERS, release, "--columns", COLUMNS, "--queries", "50", "--format", "json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    with duckdb.connect() as con:
        wanted = duckanon.register(con).execute(
            "SELECT sum(age_lo + age_hi) / 2 / count(*), avg(income_lo + income_hi) / 2 FROM read_csv(?)", [release]
        )
        ((age, income),) = wanted.fetchall()
    means = {one["columns"][0]: one["after"] for one in found if one["measure"] == "mean"}
    assert means == pytest.approx({"age": age, "income": income})
    assert {one["columns"][0] for one in found if one["measure"] == "share"} == set(COLUMNS.split(","))


def test_utility_as_a_table(release):
    told = run("k-utility", VOTERS, release, "--columns", COLUMNS, "--queries", "50", columns=100)
    assert told.exit_code == 0, told.stderr
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in told.stdout.splitlines() if "│" in line]
    measures = {row[0] for row in cells}
    assert {"moved", "mean", "correlation", "Cramér's V", "error of counts"} <= measures
    assert ["moved", "party", "", "", "0 %"] in cells
    assert not {"share", "quantile"} & measures


def test_utility_of_tables_in_a_database(tmp_path):
    needs("utility")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT i % 9 AS a, i % 9 > 4 AS b FROM range(90) r(i)").fetchall()
        con.execute("CREATE TABLE r AS SELECT a // 3 * 3 AS a_lo, a // 3 * 3 + 2 AS a_hi, b FROM t").fetchall()
    told = run("k-utility", str(path), "r", "--table", "t", "--columns", "a", "--target", "b", "--format", "json")
    assert told.exit_code == 0, told.stderr
    found = {(one["measure"], one["value"]): one for one in json.loads(told.stdout)}
    assert found["accuracy", "logistic regression"]["before"] > found["accuracy", "commonest value"]["before"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([VOTERS, "none.csv", "--columns", "age"], "AFTER: there is no file none.csv."),
        ([VOTERS, VOTERS, "--columns", "age,wage"], 'There is no column "wage" in'),
        ([VOTERS, VOTERS, "--columns", "age", "--queries", "0"], "queries must be from 1 to 100,000"),
    ],
)
def test_utility_complains_in_one_sentence(arguments, said):
    told = run("k-utility", *arguments)
    assert (told.exit_code, said in told.stderr, told.stdout) == (1, True, "")


def test_subsets():
    told = run("k-subsets", VOTERS, "--qi", "age,education,income", "--size", "2", columns=100)
    assert told.exit_code == 0, told.stderr
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in told.stdout.splitlines() if "│" in line]
    assert cells[1] == ["age, income", "601", "1", "397", "63.7 %"]
    assert len(cells) == 7
    with duckdb.connect() as con:
        wanted = duckanon.register(con).execute(
            "SELECT columns, singletons FROM k_subsets(?, ['age', 'education', 'income'])", [VOTERS]
        )
        same = {tuple(names): alone for names, alone in wanted.fetchall()}
    told = run("k-subsets", VOTERS, "--qi", "age,education,income", "--format", "json")
    assert {tuple(one["columns"]): one["singletons"] for one in json.loads(told.stdout)} == same


def test_subsets_say_that_units_were_counted():
    told = run("k-subsets", VOTERS, "--qi", "age,education", "--unit", "party", columns=100)
    assert told.exit_code == 0, told.stderr
    assert "units alone" in told.stdout
    assert "finds one of k values of party or more" in told.stdout


def test_the_risk_by_units_says_so(tmp_path):
    told = run("record-risk", VOTERS, str(tmp_path / "risks.csv"), "--qi", "age,education", "--unit", "party")
    assert "of them have values that no other party has, by few columns" in told.stderr


def test_record_risk(tmp_path):
    out = tmp_path / "risks.csv"
    told = run("record-risk", VOTERS, str(out), "--qi", "age,education,income", "--fraction", "0.01")
    assert told.exit_code == 0, told.stderr
    assert f"Wrote {out}: 944 records; the highest risk is 4.65 %" in told.stderr
    assert "738 of them are alone by few columns, some by one column" in told.stderr
    written = rows_of(out)
    assert sorted((row["age"], row["vote"]) for row in written) == sorted(
        (row["age"], row["vote"]) for row in rows_of(VOTERS)
    )
    assert sum(row["smallest_unique"] != "" for row in written) == 738
    again = run("record-risk", VOTERS, str(out), "--qi", "age")
    assert (again.exit_code, "exists already" in again.stderr) == (1, True)
    own = run("record-risk", VOTERS, VOTERS, "--qi", "age", "--force")
    assert (own.exit_code, "write the risks to another one" in own.stderr) == (1, True)


def test_record_risk_keeps_text_as_text(tmp_path):
    table, out = tmp_path / "people.csv", tmp_path / "risks.csv"
    table.write_text("zip,age,w\n007,30,2.5\n007,31,4\n7,30,3\n")
    told = run("record-risk", str(table), str(out), "--qi", "zip,age", "--weight", "w")
    assert told.exit_code == 0, told.stderr
    assert sorted(row["zip"] for row in rows_of(out)) == ["007", "007", "7"]
    assert [row["minimal_uniques"] for row in sorted(rows_of(out), key=lambda row: (row["zip"], row["age"]))] == [
        "1", "1", "1",
    ]  # fmt: skip


def test_decimal_commas_are_read_and_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "census.csv").write_text("id;age;weight\n007;30;1,5\n008;31;2,25\n009;32;3\n")
    asked = ["--qi", "age", "--weight", "weight"]
    told = run("record-risk", "census.csv", "risks.csv", *asked)
    assert told.exit_code == 0, told.stderr
    said = "census.csv: weight is read with decimal commas; --decimal . says that they are none."
    assert said in told.stderr
    assert [(row["id"], row["weight"]) for row in rows_of("risks.csv")] == [
        ("007", "1.5"), ("008", "2.25"), ("009", "3.0"),
    ]  # fmt: skip
    assert said in run("report", "census.csv", *asked).stderr


def test_commas_that_may_stand_between_thousands_are_not_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "census.csv").write_text("age;weight\n30;1,500\n31;2,250\n")
    asked = ["record-risk", "census.csv", "risks.csv", "--qi", "age", "--weight", "weight"]
    refused = run(*asked)
    assert refused.stderr == (
        'Column "weight" is text, since its commas may be decimal, or stand between thousands: say which with '
        "--decimal , or --decimal .\n"
    )
    for sign, weights in (",", ["1.5", "2.25"]), (".", ["1500", "2250"]):
        assert run(*asked, "--decimal", sign, "--force").exit_code == 0
        assert sorted(row["weight"] for row in rows_of("risks.csv")) == weights


def test_text_that_is_no_number_is_refused_as_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "census.csv").write_text("age;weight\n30;1,5\n31;two\n")
    refused = run("record-risk", "census.csv", "risks.csv", "--qi", "age", "--weight", "weight")
    assert 'Column "weight" is not a number' in refused.stderr
