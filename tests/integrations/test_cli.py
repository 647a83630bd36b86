"""The command line: what it prints, what it writes, what it leaves behind, and with which exit code it ends."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner, Result

import duckanon
from duckanon import __version__
from duckanon.functions.templates import sql_root
from duckanon.integrations.commands import app
from tests.engines.kanon.diversities import diverse

VOTERS = str(sql_root() / "examples" / "voters.csv")
ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, stdin: str | bytes | None = None, columns: int | None = None) -> Result:
    env = {"COLUMNS": None if columns is None else str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    return CliRunner(env=env).invoke(app, list(arguments), input=stdin)


def process(*arguments: str, **more: object) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "duckanon.integrations.cli", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    return subprocess.Popen(command, **(pipes | more))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def smallest(classes):
    return min(Counter(classes).values())


# --- the command itself -----------------------------------------------------------------------------------------------


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"duckanon {__version__}\n")


def test_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("demo", "k-anonymize", "report", "compare", "sql"))


def test_help_loads_neither_duckdb_nor_numba():
    code = (
        "import sys; from duckanon.integrations.cli import main\n"
        "sys.argv = ['duckanon', '--help']\n"
        "try: main()\n"
        "except SystemExit: sys.exit(str({'duckdb', 'numba', 'pyarrow', 'prompt_toolkit'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stderr == "set()\n"


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(library):
    code = (
        f"import sys; sys.modules['{library}'] = None; from duckanon.integrations.cli import main\n"
        "sys.argv = ['duckanon', 'demo']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 1
    assert done.stderr == "The command line needs its extra: pip install 'duckanon[cli]'.\n"
    assert done.stdout == ""


# --- demo -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 120])
def test_demo_fits(columns):
    result = run("demo", columns=columns)
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines():
        # SQL is never folded, so that it can be pasted; the path to the records may be long.
        assert len(line) <= columns or line.startswith("CREATE OR REPLACE TABLE voters"), line
    # On DuckDB 1.4 a variable `csv` of the caller's, the module here, would stand in for the end of the path.
    with duckdb.connect(config={"python_enable_replacements": False}) as con:
        call = "k_compare(?, ['age', 'education', 'income'], categorical := ['education'])"
        ((lost,),) = duckanon.register(con).execute(f"SELECT information_loss FROM {call}", [VOTERS]).fetchall()
    told = re.search(r"information lost: (\d\.\d+) %", " ".join(result.stdout.lower().split()))
    assert told is not None
    assert float(told[1]) == pytest.approx(100 * lost, abs=0.0051)
    assert result.stderr == ""


def test_demo_shows_true_figures():
    lines = [line.split("│")[1:-1] for line in run("demo").stdout.splitlines() if line.startswith("│")]
    cells = {one[0].strip(): [cell.strip() for cell in one[1:]] for one in lines}
    records = rows_of(VOTERS)
    classes = Counter((row["age"], row["education"], row["income"]) for row in records)
    assert cells["records"] == ["944", "944"]
    assert cells["classes"][0] == str(len(classes))
    assert cells["records alone"] == [str(sum(1 for size in classes.values() if size == 1)), "0"]
    assert cells["k (smallest class)"] == ["1", "5"]
    assert cells["highest risk"] == ["100 %", "20 %"]


def test_demo_shows_the_same_records_before_and_after():
    text = run("demo").stdout
    before, after = (
        [
            [cell.strip() for cell in line.split("│")[1:-1]]
            for line in part.split("╰")[0].splitlines()[4:]
            if line.startswith("│")
        ]
        for part in (text.split("Before:")[1], text.split("After:")[1])
    )
    assert len(before) == len(after) == 5
    for (age, education, income, _town, *kept), (ages, sets, incomes, *same) in zip(before, after, strict=True):
        low, _, high = ages.partition("-")
        assert int(low) <= int(age) <= int(high or low)
        low, _, high = incomes.partition("-")
        assert int(low) <= int(income) <= int(high or low)
        assert education in sets.split(", ")
        assert kept == same


def test_demo_prints_sql_that_runs(here):
    text = run("demo", "--k", "7").stdout
    script = text.split("This is the SQL that was run:")[1].split("Next:")[0]
    assert "k := 7" in script
    again = run("sql", "again.duckdb", "-c", script)
    assert again.exit_code == 0, again.output
    with duckdb.connect("again.duckdb") as con:
        released = con.execute("SELECT class_id FROM released").fetchall()
    assert len(released) == 944
    assert smallest(released) >= 7


def test_demo_refuses_a_k_of_one():
    result = run("demo", "--k", "1")
    assert result.exit_code == 1
    assert result.stderr == "k must be 2 or more: with k = 1 every record may stand alone.\n"


CALL = [VOTERS, "o.csv", "--qi", "age"]
PARTY = ["--sensitive", "party"]


# --- k-anonymize ------------------------------------------------------------------------------------------------------


def test_csv_to_csv(here):
    result = run(
        "k-anonymize", VOTERS, "out.csv", "--qi", "age,education,income", "--categorical", "education", "--drop", "town"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    released, original = rows_of("out.csv"), rows_of(VOTERS)
    assert "town" not in released[0]
    cells = ("age_lo", "age_hi", "education_set", "income_lo", "income_hi")
    classes = len({tuple(row[cell] for cell in cells) for row in released})
    assert result.stderr == (
        f"Wrote out.csv: 944 records in {classes} classes, the smallest of 5.\n"
        "Highest risk of re-identification: 100 % before, 20 % after. 738 records stood alone before, none after.\n"
    )
    assert smallest(tuple(row[cell] for cell in cells) for row in released) >= 5
    # Every original record must lie in some released cell with the same remaining values.
    kept = ("tv_news", "party", "vote")
    assert Counter(tuple(row[name] for name in kept) for row in released) == Counter(
        tuple(row[name] for name in kept) for row in original
    )
    assert {value for row in released for value in json.loads(row["education_set"])} == {
        row["education"] for row in original
    }
    assert os.listdir(here) == ["out.csv"]


def test_csv_to_parquet_to_parquet(here):
    first = run("k-anonymize", VOTERS, "one.parquet", "--qi", "age", "--k", "10")
    assert first.exit_code == 0, first.output
    duckdb.execute("COPY (SELECT * EXCLUDE (class_id) FROM 'one.parquet') TO 'two.parquet'").fetchall()
    second = run("k-anonymize", "two.parquet", "three.parquet", "--qi", "income,party", "--categorical", "party")
    assert second.exit_code == 0, second.output
    described = dict(duckdb.execute("SELECT column_name, column_type FROM (DESCRIBE 'three.parquet')").fetchall())
    assert described["income_lo"] == "BIGINT"
    assert described["party_set"] == "VARCHAR[]"
    released = duckdb.execute("SELECT income_lo, income_hi, party_set::VARCHAR FROM 'three.parquet'").fetchall()
    assert len(released) == 944
    assert smallest(released) >= 5


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.tsv", "out.json", "out.json.gz", "out.ndjson"])
def test_every_format_can_be_written_and_read_again(here, name):
    assert run("k-anonymize", VOTERS, name, "--qi", "age", "--k", "20").exit_code == 0
    found = run("report", name, "--qi", "age_lo,age_hi", "--format", "json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)[0]["k"] >= 20


def test_json_is_one_array_and_ndjson_is_lines(here):
    for name in ("out.json", "out.ndjson"):
        assert run("k-anonymize", VOTERS, name, "--qi", "age").exit_code == 0
    assert len(json.loads(Path("out.json").read_text())) == 944
    assert len([json.loads(line) for line in Path("out.ndjson").read_text().splitlines()]) == 944


def test_names_with_quotes(here):
    name = 'it\'s "odd"; [red] --.csv'
    Path(name).write_text('"a,ge",who\'s\n' + "".join(f"{i},n{i}\n" for i in range(6)))
    result = run("k-anonymize", name, f"new {name}", "--qi", '"a,ge"', "--k", "3", "--drop", "who's")
    assert result.exit_code == 0, result.output
    assert list(rows_of(f"new {name}")[0]) == ["class_id", "a,ge_lo", "a,ge_hi"]
    missing = run("report", name, "--qi", "nope")
    assert missing.exit_code == 1
    assert 'There is no column "nope" in' in missing.stderr


def test_csv_text_stays_as_it_was(here):
    Path("in.csv").write_text(
        "age,member,amount,day\n20,007,1.50,01/02/2020\n21,008,2.0,02/02/2020\n22,009,3.10,03/02/2020\n"
    )
    assert run("k-anonymize", "in.csv", "out.csv", "--qi", "age", "--k", "3").exit_code == 0
    assert {(row["member"], row["amount"], row["day"]) for row in rows_of("out.csv")} == {
        ("007", "1.50", "01/02/2020"),
        ("008", "2.0", "02/02/2020"),
        ("009", "3.10", "03/02/2020"),
    }


def test_sets_in_csv_are_json(here):
    Path("in.csv").write_text("city,n\n" + "".join(f'"{city}",1\n' for city in ["a; b", 'say ""hi""', "[c]", ""]))
    assert run("k-anonymize", "in.csv", "out.csv", "--qi", "city", "--categorical", "city", "--k", "4").exit_code == 0
    # NULL and values in one class release NULL.
    assert {row["city_set"] for row in rows_of("out.csv")} == {""}
    Path("in.csv").write_text("city,n\n" + "".join(f'"{city}",1\n' for city in ["a; b", 'say ""hi""', "[c]"]))
    again = run("k-anonymize", "in.csv", "out.csv", "--qi", "city", "--categorical", "city", "--k", "3", "--force")
    assert again.exit_code == 0
    assert json.loads(rows_of("out.csv")[0]["city_set"]) == ["[c]", "a; b", 'say "hi"']


def test_weights_method_and_repeated_options(here):
    given = ["--qi", "age", "--qi", "income", "--weights", "age=10,income=0.5", "--method", "order", "--k", "4"]
    assert run("k-anonymize", VOTERS, "weighted.csv", *given).exit_code == 0
    assert run("k-anonymize", VOTERS, "equal.csv", *given[:4], *given[6:]).exit_code == 0

    def widths(name):
        return sum(int(row["age_hi"]) - int(row["age_lo"]) for row in rows_of(name))

    assert widths("weighted.csv") < widths("equal.csv")


def test_a_table_of_a_database(here):
    with duckdb.connect("shop.duckdb") as con:
        con.execute(f"CREATE SCHEMA s; CREATE TABLE s.\"my t\" AS FROM '{VOTERS}'").fetchall()
    result = run("k-anonymize", "shop.duckdb", "out.parquet", "--table", 's."my t"', "--qi", "age", "--k", "9")
    assert result.exit_code == 0, result.output
    assert smallest(duckdb.execute("SELECT age_lo, age_hi FROM 'out.parquet'").fetchall()) >= 9


def test_conditions_on_sensitive_columns(here):
    result = run(
        "k-anonymize", VOTERS, "out.csv", "--qi", "age,income", "--sensitive", "party", "--l", "2.5",
        "--diversity", "entropy", "--t", "0.8", "--max-suppression", "0.02",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    released = rows_of("out.csv")
    assert 925 < len(released) < 944
    assert f" {944 - len(released)} records were dropped.\n" in result.stderr
    parties = defaultdict(list)
    for row in released:
        parties[row["class_id"]].append(row["party"])
    assert all(diverse(list(Counter(held).values()), "entropy", Fraction(5, 2), None) for held in parties.values())
    again = run(
        "k-anonymize", VOTERS, "even.csv", "--qi", "age,income", "--sensitive", "party", "--l", "3",
        "--diversity", "recursive", "--c", "2.5",
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    assert len(rows_of("even.csv")) == 944


def test_a_sensitive_column_of_a_csv_file_keeps_its_order(here):
    # As text all amounts would be equally far apart: then 0.5 is no condition on classes of two, and now it is one.
    Path("in.csv").write_text("age,amount\n" + "".join(f"{i},{i * i}\n" for i in range(40)))
    given = ["--qi", "age", "--k", "2", "--sensitive", "amount", "--t", "0.45"]
    assert run("k-anonymize", "in.csv", "out.csv", *given).exit_code == 0
    assert run("k-anonymize", "in.csv", "out.parquet", *given).exit_code == 0
    found = {row["class_id"]: int(row["age_hi"]) - int(row["age_lo"]) for row in rows_of("out.csv")}
    assert len(found) == duckdb.execute("SELECT max(class_id) FROM 'out.parquet'").fetchall()[0][0]
    assert max(found.values()) > 1


@pytest.mark.parametrize("name", ["fine.csv", "fine.json"])
def test_a_coarser_release_of_a_file(here, name):
    given = ["--qi", "age,education", "--categorical", "education"]
    Path("old").mkdir()
    # A file of the same name as IN is no trouble, nor are dates in text.
    source = str(Path(name).with_suffix(".csv"))
    duckdb.execute(
        "COPY (SELECT * REPLACE (DATE '2000-01-01' + (400 * age)::INT AS age), row_number() OVER () AS id "
        f"FROM '{VOTERS}') TO '{source}'"
    ).fetchall()
    finer = ["--sensitive", "party", "--l", "4", "--max-suppression", "0.01", "--drop", "town"]
    first = run("k-anonymize", source, f"old/{name}", *given, *finer)
    assert first.exit_code == 0, first.output
    refused = run("k-anonymize", source, "coarse.csv", *given, "--k", "20", "--within", f"old/{name}")
    assert refused.exit_code == 1
    assert refused.stderr.endswith("allow for them, as in --max-suppression 0.02: they stay dropped.\n")
    asked = [*given, "--k", "20", "--within", f"old/{name}", "--max-suppression", "0.01"]
    second = run("k-anonymize", source, "coarse.csv", *asked)
    assert second.exit_code == 0, second.output
    coarse = {row["id"]: row["class_id"] for row in rows_of("coarse.csv")}
    fine = dict(duckdb.execute(f"SELECT id::VARCHAR, class_id FROM 'old/{name}'").fetchall())
    assert coarse.keys() <= fine.keys()
    assert smallest(coarse.values()) >= 20
    assert len({(fine[one], coarse.get(one)) for one in fine}) == len(set(fine.values()))
    assert "town" not in rows_of("coarse.csv")[0]


def test_a_coarser_release_of_a_table(here):
    with duckanon.register(duckdb.connect("shop.duckdb")) as con:
        con.execute(f"CREATE TABLE people AS FROM '{VOTERS}'").fetchall()
        con.execute("CREATE TABLE fine AS FROM k_anonymize('people', ['age'], drop := ['town'])").fetchall()
    given = ["shop.duckdb", "out.parquet", "--table", "people", "--qi", "age", "--k", "30", "--within", "fine"]
    result = run("k-anonymize", *given)
    assert result.exit_code == 0, result.output
    assert smallest(duckdb.execute("SELECT age_lo, age_hi FROM 'out.parquet'").fetchall()) >= 30


def test_out_is_kept_unless_forced(here):
    Path("out.csv").write_text("mine")
    refused = run("k-anonymize", VOTERS, "out.csv", "--qi", "age")
    assert refused.exit_code == 1
    assert refused.stderr == "out.csv exists already: choose another name, or replace it with --force.\n"
    assert Path("out.csv").read_text() == "mine"
    assert run("k-anonymize", VOTERS, "out.csv", "--qi", "age", "--force").exit_code == 0
    assert len(rows_of("out.csv")) == 944


def test_in_may_be_replaced_by_out(here):
    Path("a.csv").write_bytes(Path(VOTERS).read_bytes())
    assert run("k-anonymize", "a.csv", "a.csv", "--qi", "age", "--force").exit_code == 0
    assert "age_lo" in rows_of("a.csv")[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nope.csv", "o.csv", "--qi", "age"], "There is no file nope.csv."),
        ([".csv", "o.csv", "--qi", "age"], ".csv: the suffix must tell the format"),
        (["a.xls", "o.csv", "--qi", "age"], "a.xls: the suffix must tell the format"),
        ([VOTERS, "o.parquet.gz", "--qi", "age"], "o.parquet.gz: the suffix must tell the format"),
        ([VOTERS, "o.duckdb", "--qi", "age"], "o.duckdb: a release is written to a data file"),
        ([VOTERS, "no/o.csv", "--qi", "age"], "There is no folder no: make it first."),
        ([VOTERS, "o.csv", "--qi", "vote"], 'Column "vote" is text: name it in --categorical vote to release sets'),
        ([VOTERS, "o.csv", "--qi", "nope"], 'There is no column "nope" in "voters.csv"; its columns are age,'),
        ([VOTERS, "o.csv", "--qi", ","], "qi is empty: name at least one column, as in --qi age,zip."),
        ([VOTERS, "o.csv", "--qi", "age", "--k", "1"], "k must be 2 or more"),
        ([VOTERS, "o.csv", "--qi", "age", "--k", "945"], "The table has fewer than k = 945 rows"),
        ([VOTERS, "o.csv", "--qi", "age", "--method", "magic"], "There is no method 'magic': choose one of 'auto'"),
        ([VOTERS, "o.csv", "--qi", "age", "--weights", "age"], "--weights has 'age' where a name and a number belong"),
        ([VOTERS, "o.csv", "--qi", "age", "--weights", "age=nan"], 'The weight of "age" must be a number'),
        ([VOTERS, "o.csv", "--qi", "age", "--drop", "age"], 'Column "age" is in both qi and drop'),
        ([VOTERS, "o.csv", "--qi", "age", "--table", "t"], "--table names a table in a DuckDB database"),
        ([*CALL, "--l", "3"], "--l and --t are conditions on sensitive columns: name them, as in --sensitive illness."),
        ([*CALL, *PARTY], "--sensitive names columns without a condition: give --l or --t, as in --l 3."),
        ([*CALL, *PARTY, "--l", "2.5"], "--l must be a whole number of 2 or more, as in --l 3; only"),
        ([*CALL, *PARTY, "--l", "1"], "--l must be a whole number of 2 or more"),
        ([*CALL, *PARTY, "--l", "1", "--diversity", "entropy"], "--l must be a number above 1, as in --l 2.5."),
        ([*CALL, *PARTY, "--t", "2"], "--t must be a number from 0 to 1, as in --t 0.2."),
        ([*CALL, *PARTY, "--t", "0.2", "--diversity", "entropy"], "--diversity entropy says how --l counts: give --l"),
        ([*CALL, *PARTY, "--l", "3", "--c", "2"], "--c is a part of recursive diversity: add --diversity recursive"),
        ([*CALL, *PARTY, "--l", "3", "--diversity", "recursive"], "--diversity recursive needs --c, as in --c 2."),
        ([*CALL, *PARTY, "--l", "3", "--diversity", "recursive", "--c", "0"], "--c must be a number above 0"),
        ([*CALL, *PARTY, "--l", "3", "--max-suppression", "1"], "--max-suppression must be 0 or more and below 1"),
        ([*CALL, "--max-suppression", "0.1"], "--max-suppression lets classes be dropped that fail --l or --t"),
        ([*CALL, *PARTY, "--l", "30"], "l is 30, but a sensitive column has fewer distinct values"),
        ([*CALL, "--within", "nope.csv"], "--within: there is no file nope.csv."),
        ([*CALL, "--within", "nope"], "nope: the suffix must tell the format"),
        (
            [*CALL, "--within", "t.duckdb"],
            "--within t.duckdb is a DuckDB database: export the release to a file first.",
        ),
        ([*CALL, "--within", VOTERS], 'There is no column "age_lo" in "--within voters.csv"'),
        ([*CALL, "--within", VOTERS, "--seconds", "2"], "--within joins the classes of an earlier release: leave"),
        (
            [*CALL, "--within", "odd.csv"],
            '--within odd.csv is no release of this table: column "age_lo" has values',
        ),
        (["bad.parquet", "o.csv", "--qi", "age"], "bad.parquet cannot be read: "),
        (["t.duckdb", "o.csv", "--qi", "age"], "t.duckdb is a DuckDB database: name a table in it with --table."),
        (["t.duckdb", "o.csv", "--qi", "age", "--table", "nope"], "Catalog Error: Table with name nope does not exist"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(here, arguments, sentence):
    Path("bad.parquet").write_bytes(b"PAR1 not really")
    Path("odd.csv").write_text("class_id,age_lo,age_hi\n1,young,30\n")
    duckdb.connect("t.duckdb").close()
    before = sorted(os.listdir(here))
    result = run("k-anonymize", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert sorted(os.listdir(here)) == before


def test_a_failed_write_leaves_nothing(here, monkeypatch):
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = run("k-anonymize", VOTERS, "out.csv", "--qi", "age")
    assert result.exit_code == 1
    assert result.stderr == "[Errno 28] No space left on device\n"
    assert os.listdir(here) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to whole consoles only")
def test_ctrl_c_stops_and_leaves_nothing(here):
    duckdb.execute(
        "COPY (SELECT hash(i) % 1000 AS a, hash(i + 7) % 1000 AS b, hash(3 * i) % 1000 AS c FROM range(150_000) r(i)) "
        "TO 'many.parquet'"
    ).fetchall()
    with process("k-anonymize", "many.parquet", "out.csv", "--qi", "a,b,c", "--method", "greedy") as child:
        time.sleep(2.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "Cancelled.\n")
    assert os.listdir(here) == ["many.parquet"]


# --- report and compare -----------------------------------------------------------------------------------------------


def test_report_explains_each_figure():
    result = run("report", VOTERS, "--qi", "age,education,income", "--sensitive", "vote", columns=80)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    for piece in ("records alone", "738", "88.3 %", "0.584", "Groups of records that agree on"):
        assert piece in result.stdout


def test_report_leaves_out_figures_of_no_sensitive_column():
    assert "closeness" not in run("report", VOTERS, "--qi", "age").stdout


def test_report_as_json_and_csv():
    found = json.loads(run("report", VOTERS, "--qi", "age", "--format", "json").stdout)
    assert found == [found[0] | {"records": 944, "classes": 71, "k": 1, "l": None}]
    header, row = csv.reader(run("report", VOTERS, "--qi", "age", "--format", "csv").stdout.splitlines())
    assert dict(zip(header, row, strict=True))["classes"] == "71"


def test_compare():
    result = run("compare", VOTERS, "--qi", "age,income", "--k", "2,5", "--methods", "order,auto", columns=80)
    assert result.exit_code == 0
    assert [line.split("│")[1].strip() for line in result.stdout.splitlines() if "%" in line and "│" in line] == [
        "order",
        "auto",
    ] * 2
    assert max(map(len, result.stdout.splitlines())) <= 80
    found = json.loads(run("compare", VOTERS, "--qi", "age", "--k", "3", "--format", "json").stdout)
    assert found[0]["min_class"] >= 3


def test_compare_wants_whole_numbers():
    result = run("compare", VOTERS, "--qi", "age", "--k", "2,x")
    assert (result.exit_code, result.stderr) == (1, "--k needs whole numbers, as in --k 2,5,10.\n")


# --- sql --------------------------------------------------------------------------------------------------------------


def test_several_statements_with_semicolons_in_strings_and_comments():
    result = run(
        "sql", "-c", "SELECT 'a;b' AS x -- not; the end\n; /* nor ; here */ SELECT 'c' AS y;", "--format", "csv"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "x\na;b\ny\nc\n", "")


def test_the_first_error_ends_the_script():
    result = run("sql", "-c", "SELECT 1 AS one; SELECT nope; SELECT 3 AS three")
    assert result.exit_code == 1
    assert "one" in result.stdout
    assert "three" not in result.stdout
    assert result.stderr.startswith('Binder Error: Referenced column "nope"')
    assert result.stderr.count("\n") == 1


def test_our_own_errors_stand_alone():
    result = run("sql", "-c", "CREATE TABLE t (a INT); FROM k_report('t', ['b'])")
    assert (result.exit_code, result.stderr) == (1, 'There is no column "b" in t; its columns are a.\n')


def test_a_pipe():
    good = run("sql", "--format", "csv", stdin="CREATE TABLE t AS SELECT 1 AS a;\nFROM t;\n")
    assert (good.exit_code, good.stdout) == (0, "a\n1\n")
    bad = run("sql", stdin="SELECT 1; SELCT")
    assert (bad.exit_code, bad.stderr) == (1, 'Parser Error: syntax error at or near "SELCT"\n')
    foreign = run("sql", stdin=b"SELECT '\xff'")
    assert (foreign.exit_code, foreign.stderr) == (1, "The SQL is not UTF-8 text: save it as UTF-8.\n")


def test_a_real_pipe():
    with process("sql", stdin=subprocess.PIPE) as child:
        out, err = child.communicate("SELECT 'é' AS x;", timeout=30)
    assert (child.returncode, err) == (0, "")
    assert "é" in out


def test_nothing_to_run():
    for nothing in ("", " ;; ", "-- only a comment"):
        assert run("sql", "-c", nothing).exit_code == 0


def test_markup_and_control_characters_are_data():
    query = "SELECT '[red]alarm[/red] :boom:' AS \"[bold]name\", 'a\x1b[31mb\nc' AS \"x\ny\", NULL AS nothing"
    text = run("sql", "-c", query).stdout
    assert "[red]alarm[/red] :boom:" in text
    assert "[bold]name" in text
    assert "a\\x1b[31mb\\nc" in text
    assert "x\\ny" in text
    assert "NULL" in text


def test_many_rows_are_counted_and_not_all_shown():
    text = run("sql", "-c", "FROM range(12345)").stdout
    assert text.splitlines()[-1] == "12,345 rows, 40 shown"
    assert len(run("sql", "-c", "FROM range(12345)", "--format", "csv").stdout.splitlines()) == 12346


def test_columns_that_do_not_fit():
    names = ", ".join(f"'{'x' * 20}' AS c{i}" for i in range(9))
    wide = run("sql", "-c", f"SELECT {names} FROM range(2)", columns=80)
    assert max(map(len, wide.stdout.splitlines())) <= 80
    assert wide.stdout.splitlines()[-1] == "2 rows; 9 columns, 3 shown"
    upright = run("sql", "-c", f"SELECT {names}", columns=80)
    assert all(f"c{i}" in upright.stdout for i in range(9))
    assert "…" not in upright.stdout
    piped = run("sql", "-c", f"SELECT {names} FROM range(2)")
    assert "…" not in piped.stdout


def test_json_of_awkward_values():
    query = "SELECT 1 AS a, 2 AS a, 'nan'::DOUBLE AS n, [1, NULL] AS l, {'k': DATE '2020-01-02'} AS s, true AS b"
    assert json.loads(run("sql", "-c", query, "--format", "json").stdout) == [
        {"a": 1, "a_1": 2, "n": "nan", "l": [1, None], "s": {"k": "2020-01-02"}, "b": True}
    ]


def test_statements_without_a_result_say_nothing():
    script = "CREATE TABLE t (i INT); INSERT INTO t VALUES (1); UPDATE t SET i = 2; SET threads = 1; CHECKPOINT"
    result = run("sql", "-c", script)
    assert (result.exit_code, result.output) == (0, "")
    assert "7" in run("sql", "-c", 'SELECT 7 AS "Count"').stdout


def test_explain_is_printed_as_it_is():
    assert "│ physical_plan" not in run("sql", "-c", "EXPLAIN SELECT 1").stdout


def test_a_database_is_kept_and_can_be_read_only(here):
    assert run("sql", "db.duckdb", "-c", "CREATE TABLE t AS SELECT 7 AS a").exit_code == 0
    assert run("sql", "db.duckdb", "-c", "FROM t", "--format", "csv").stdout == "a\n7\n"
    refused = run("sql", "db.duckdb", "--read-only", "-c", "DROP TABLE t")
    assert refused.exit_code == 1
    assert "read-only" in refused.stderr
    assert run("sql", "--read-only", "-c", "SELECT 1").stderr == "--read-only needs a database: name its file.\n"
    Path("other.db").write_text("this is no database, it only looks like one " * 500)
    assert run("sql", "other.db", "-c", "SELECT 1").exit_code == 1
