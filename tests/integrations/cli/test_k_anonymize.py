"""`duckanon k-anonymize`: what it prints, what it writes, what it leaves behind, and with which exit code it ends."""

import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import duckdb
import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

import duckanon
from duckanon.integrations.terminal.errors import Cancelled
from duckanon.integrations.terminal.session import Session
from tests.amounts import sampled
from tests.engines.kanon.diversities import diverse
from tests.integrations.cli.commandline import VOTERS, process, rows_of, run, smallest

CALL = [VOTERS, "o.csv", "--qi", "age"]
PARTY = ["--sensitive", "party"]


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
        "Highest risk of re-identification by age, education, income: 100 % before, 20 % after. "
        "738 records stood alone before, none after.\n"
        "Copied as they are: tv_news, party, vote.\n"
        "1 of 944 records equals another one in all columns. If they are the same persons again, k counts these "
        "several times: take each record once, as from a view with DISTINCT.\n"
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


def test_columns_that_could_identify_are_named(here):
    Path("stays.csv").write_text(
        "patient,mrn,age,ward\n" + "".join(f"p{i},{i},{20 + i % 3},w{i % 2}\n" for i in range(5))
    )
    result = run("k-anonymize", "stays.csv", "out.csv", "--qi", "age")
    assert result.exit_code == 0, result.output
    assert "5 records in 1 class, the smallest of 5." in result.stderr
    assert (
        "Copied as they are: patient, mrn, ward. Almost every record has a value of its own in patient, mrn: "
        "whoever knows these values finds the record. Leave them out with --drop patient,mrn.\n"
    ) in result.stderr
    few = run("k-anonymize", "stays.csv", "few.csv", "--qi", "age", "--drop", "patient,mrn,ward")
    assert few.stderr.endswith("No column is copied as it is.\n")


def test_a_column_with_a_hierarchy_is_not_copied_and_may_be_text(here):
    Path("stays.csv").write_text("zip,ward\n" + "".join(f"{10 + i % 4},w{i % 2}\n" for i in range(20)) + "2A,w1\n" * 5)
    Path("levels.csv").write_text("zip;region\n10;N\n11;N\n12;S\n13;S\n2A;S\n")
    call = ["k-anonymize", "stays.csv", "out.csv", "--qi", "zip", "--hierarchies", "zip=levels.csv"]
    result = run(*call)
    assert result.exit_code == 0, result.output
    assert "Copied as they are: ward.\n" in result.stderr
    assert {row["zip_label"] for row in rows_of("out.csv")} >= {"2A"}


@pytest.mark.parametrize("out", ["in.csv", "./in.csv", "link.csv"])
def test_the_input_is_never_overwritten(here, out):
    Path("in.csv").write_text("age\n" + "30\n" * 9)
    Path("link.csv").symlink_to("in.csv")
    result = run("k-anonymize", "in.csv", out, "--qi", "age", "--force")
    assert result.exit_code == 1
    assert "is the file to be anonymised: write the copy to another one." in result.stderr
    assert Path("in.csv").read_text() == "age\n" + "30\n" * 9


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


@pytest.mark.parametrize("name", sampled(["out.csv", "out.csv.gz", "out.tsv", "out.json", "out.ndjson", "out.json.gz"]))
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    sampled(
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
            (
                [VOTERS, "o.csv", "--qi", "age", "--weights", "age"],
                "--weights has 'age' where a name and a number belong",
            ),
            ([VOTERS, "o.csv", "--qi", "age", "--weights", "age=nan"], 'The weight of "age" must be a number'),
            ([VOTERS, "o.csv", "--qi", "age", "--drop", "age"], 'Column "age" is in both qi and drop'),
            ([VOTERS, "o.csv", "--qi", "age", "--table", "t"], "--table names a table in a DuckDB database"),
            ([*CALL, "--l", "3"], "l and t are conditions on sensitive columns: name them, as in --sensitive illness."),
            ([*CALL, *PARTY], "sensitive names columns without a condition: give l or t, as in --l 3."),
            ([*CALL, *PARTY, "--l", "2.5"], "l must be a whole number, as in --l 5."),
            ([*CALL, *PARTY, "--l", "1"], "l must be 2 or more"),
            ([*CALL, *PARTY, "--l", "1", "--diversity", "entropy"], "l must be a number above 1, as in --l 2.5."),
            ([*CALL, *PARTY, "--t", "2"], "t must be a number from 0 to 1, as in --t 0.2."),
            (
                [*CALL, *PARTY, "--t", "0.2", "--diversity", "entropy"],
                "diversity says how l counts: give l, as in --l 3",
            ),
            (
                [*CALL, *PARTY, "--l", "3", "--diversity", "odd"],
                "diversity must be 'distinct', 'entropy' or 'recursive'.",
            ),
            ([*CALL, *PARTY, "--l", "3", "--c", "2"], "c is a part of recursive diversity: add --diversity recursive"),
            ([*CALL, *PARTY, "--l", "3", "--diversity", "recursive"], "--diversity recursive needs c, as in --l 3,"),
            ([*CALL, *PARTY, "--l", "3", "--diversity", "recursive", "--c", "0"], "c must be a number above 0"),
            (
                [*CALL, *PARTY, "--l", "3", "--max-suppression", "1"],
                "max_suppression must be a number from 0 to below 1",
            ),
            ([*CALL, "--options", "sets=x"], "--options has 'sets=x' where a name and a number belong"),
            ([*CALL, "--options", "sets=3"], "There is no option 'sets' of the method"),
            ([*CALL, *PARTY, "--l", "30"], "l is 30, but a sensitive column has fewer distinct values"),
            ([*CALL, "--within", "nope.csv"], "--within: there is no file nope.csv."),
            ([*CALL, "--within", "nope"], "nope: the suffix must tell the format"),
            (
                [*CALL, "--within", "t.duckdb"],
                "--within t.duckdb is a DuckDB database: export the release to a file first.",
            ),
            ([*CALL, "--within", VOTERS], 'There is no column "age_lo" in --within voters.csv'),
            ([*CALL, "--within", VOTERS, "--seconds", "2"], "within joins the classes of an earlier release: leave"),
            (
                [*CALL, "--within", "odd.csv"],
                '--within odd.csv is no release of this table: column "age_lo" has values',
            ),
            (["bad.parquet", "o.csv", "--qi", "age"], "bad.parquet cannot be read: "),
            (["t.duckdb", "o.csv", "--qi", "age"], "t.duckdb is a DuckDB database: name a table in it with --table."),
            (
                ["t.duckdb", "o.csv", "--qi", "age", "--table", "nope"],
                "Catalog Error: Table with name nope does not exist",
            ),
        ]
    ),
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
    assert result.stderr == "out.csv cannot be written, since the disk is full: make room, or choose another one.\n"
    assert os.listdir(here) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to whole consoles only")
def test_ctrl_c_stops_and_leaves_nothing(here):
    duckdb.execute(
        "COPY (SELECT hash(i) % 1000 AS a, hash(i + 7) % 1000 AS b, hash(3 * i) % 1000 AS c FROM range(150_000) r(i)) "
        "TO 'many.parquet'"
    ).fetchall()
    with process("k-anonymize", "many.parquet", "out.csv", "--qi", "a,b,c", "--method", "greedy") as child:
        # By then it searches, however busy the machine is.
        while psutil.Process(child.pid).cpu_times().user < 2.5:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "Cancelled.\n")
    assert os.listdir(here) == ["many.parquet"]


def test_ctrl_c_while_the_database_opens(monkeypatch):
    """Opening runs SQL, and with it Python that DuckDB calls: a KeyboardInterrupt in there would be DuckDB's error."""
    opened = []

    def slow(*arguments, **options):
        time.sleep(0.2)
        signal.raise_signal(signal.SIGINT)
        opened.append(connect(*arguments, **options))
        return opened[0]

    connect = duckanon.connect
    monkeypatch.setattr("duckanon.connection.connect", slow)
    with pytest.raises(Cancelled):
        Session()
    with pytest.raises(duckdb.ConnectionException):
        opened[0].execute("SELECT 1")


def test_the_unit_of_a_policy(here):
    with duckanon.connect("stays.duckdb", role="steward") as con:
        con.execute("CREATE TABLE stays AS SELECT i // 5 AS patient, 30 + i // 5 AS age FROM range(50) r(i)").fetchall()
        con.execute("SELECT protect('stays', epsilon := 1, privacy_unit := 'patient', rows_per_unit := 5)").fetchall()
    wanted = ["k-anonymize", "stays.duckdb", "--table", "stays", "--qi", "age", "--drop", "patient"]
    told = run(*wanted, "out.csv").stderr
    assert "each of 5 or more values of patient" in told
    assert "10 values of patient stood alone before, none after." in told
    assert "the smallest of 5" in run(*wanted, "records.csv", "--unit", "").stderr


def test_a_column_that_links_records_is_warned_of(here):
    duckdb.execute(
        "COPY (SELECT i // 3 AS hh, 20 + i * 7 % 60 AS age, i * i % 5 AS bill FROM range(300) r(i)) TO 'census.csv'"
    ).fetchall()
    wanted = ["k-anonymize", "census.csv", "out.csv", "--force", "--qi", "age", "--unit", "hh"]
    told = run(*wanted)
    assert told.exit_code == 0, told.output
    assert "hh links the records of each hh, also where its values were made for this release" in told.stderr
    assert "does not hold for hh" in told.stderr
    assert "Leave it out with --drop hh." in told.stderr
    assert "Highest risk of re-identification by age for who does not see hh:" in told.stderr
    # Nobody named it a unit, and it links records all the same.
    by_record = run("k-anonymize", "census.csv", "out.csv", "--force", "--qi", "age").stderr
    assert "A few records share each value of hh: if it links the records of a person or household" in by_record
    dropped = run(*wanted, "--drop", "hh").stderr
    assert "links" not in dropped
    assert "who does not see" not in dropped


def test_a_coarser_release_may_be_called_as_the_earlier_one(here):
    given = ["k-anonymize", VOTERS, "--qi", "age,education", "--categorical", "education", "--drop", "town"]
    assert run(*given, "fine.csv").exit_code == 0
    again = run(*given, "coarse.csv", "--k", "20", "--within", "fine.csv")
    assert again.exit_code == 0, again.stderr
    assert "town" not in rows_of("coarse.csv")[0]
    # A name that neither has is a mistake.
    wrong = run(*given, "no.csv", "--k", "20", "--within", "fine.csv", "--drop", "twon")
    assert wrong.stderr.startswith('There is no column "twon" in --within fine.csv; its columns are class_id, ')


@pytest.mark.parametrize(("lines", "records"), [(1, "1 record has"), (3, "3 records have")])
def test_empty_lines_are_counted(here, lines, records):
    filled = "".join(f"{20 + i % 9},t{i}\n" for i in range(30))
    Path("stays.csv").write_text(f"age,town\n{filled}" + ",\n" * lines)
    said = f"{records} no value in any column, and would be released as such: leave out empty lines."
    assert said in " ".join(run("k-anonymize", "stays.csv", "out.csv", "--qi", "age").stderr.split())
    assert said in " ".join(run("preview", "stays.csv").output.split())
    Path("stays.csv").write_text(f"age,town\n{filled}" + ",t\n" * lines + "20,\n")
    assert "no value in any column" not in run("k-anonymize", "stays.csv", "full.csv", "--qi", "age").stderr


def test_equal_records_are_counted(here):
    duckdb.execute(
        "COPY (SELECT i AS id, 20 + i % 40 AS age FROM range(200) r(i) UNION ALL SELECT i, 20 + i % 40 "
        "FROM range(3) r(i)) TO 'dirty.csv'"
    ).fetchall()
    said = "3 of 203 records equal another one in all columns."
    assert said in run("k-anonymize", "dirty.csv", "out.csv", "--qi", "age", "--drop", "id").stderr
    assert said in run("report", "dirty.csv", "--qi", "age").stderr
    # Where most records are equal that means nothing.
    duckdb.execute("COPY (SELECT 20 + i % 40 AS age FROM range(200) r(i)) TO 'ages.csv'").fetchall()
    assert "equal another" not in run("k-anonymize", "ages.csv", "ages_out.csv", "--qi", "age").stderr


def test_a_coarser_release_does_not_claim_the_unit_of_the_policy(here):
    with duckanon.connect("stays.duckdb", role="steward") as con:
        con.execute("CREATE TABLE stays AS SELECT i // 5 AS patient, 30 + i // 5 AS age FROM range(50) r(i)").fetchall()
        con.execute("SELECT protect('stays', epsilon := 1, privacy_unit := 'patient', rows_per_unit := 5)").fetchall()
    wanted = ["k-anonymize", "stays.duckdb", "--table", "stays", "--qi", "age"]
    assert run(*wanted, "fine.parquet", "--k", "2", "--drop", "patient").exit_code == 0
    told = run(*wanted, "coarse.parquet", "--k", "20", "--within", "fine.parquet")
    assert told.exit_code == 0, told.output
    assert "values of patient" not in told.stderr


def test_a_file_with_names_and_no_records(here):
    (here / "stays.csv").write_text("age,zip\n")
    result = run("k-anonymize", "stays.csv", "out.csv", "--qi", "age")
    assert (result.exit_code, result.stderr) == (1, "The table has no rows: there is nothing to anonymise.\n")


def test_bands_on_several_levels_labels_and_coarser_releases(here):
    """A release with top-coded bands and labels, a coarser one of it, and what both still tell."""
    Path("people.csv").write_text(
        "age,town,ill\n" + "".join(f"{20 + i * 37 % 70},0{i // 3 % 6},{'ab'[i % 2]}\n" for i in range(360))
    )
    Path("towns.csv").write_text("".join(f"0{i},{'north' if i < 3 else 'south'}\n" for i in range(6)))
    call = ["k-anonymize", "people.csv", "--qi", "age,town", "--hierarchies", "town=towns.csv"]
    assert run(*call, "whole.csv", "--k", "12", "--bands", "age=5/10/20:20:80", "--method", "global").exit_code == 0
    labels = {row["age_label"] for row in rows_of("whole.csv")}
    assert labels == {"[20, 40)", "[40, 60)", "[60, 80)", "[80, )"}
    for earlier, bands in (("fine.csv", "age=10:20:80"), ("whole.csv", "age=5/10/20:20:80")):
        if earlier == "fine.csv":
            assert run(*call, earlier, "--k", "3", "--bands", bands).exit_code == 0
        told = run(*call, "coarse.csv", "--k", "12", "--bands", bands, "--within", earlier, "--force")
        assert told.exit_code == 0, told.output
        coarse = rows_of("coarse.csv")
        assert smallest(row["class_id"] for row in coarse) >= 12
        assert {row["age_lo"] for row in coarse} <= {"", *map(str, range(20, 90, 10))}
    told = run("k-utility", "people.csv", "whole.csv", "--hierarchies", "town=towns.csv", "--bands", "age", "--columns",
               "age,town,ill", "--format", "json")  # fmt: skip
    assert told.exit_code == 0, told.output
    compared = {one["columns"][0] for one in json.loads(told.stdout) if one["measure"] == "total_variation"}
    assert compared == {"age", "town", "ill"}
    # Without columns those are compared that all programs compare, and what is named.
    told = run("k-utility", "people.csv", "fine.csv", "--hierarchies", "town=towns.csv", "--format", "json")
    assert told.exit_code == 0, told.output
    assert "town" in {one["columns"][0] for one in json.loads(told.stdout) if one["measure"] == "total_variation"}
