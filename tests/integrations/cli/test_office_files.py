"""Files of Excel, SPSS, SAS and Stata in and out: types, labels, and what is wrong with them."""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import pyreadstat
import pytest

from duckanon.integrations import office_files
from duckanon.integrations.office_files import KINDS
from tests.integrations.cli.commandline import run

MANY = 40
VARIABLES: dict[str, str | None] = {"age": "Age in years", "sex": "Sex of the patient", "illness": "Main diagnosis"}
SEX = {1: "male", 2: "female", 9: "not told"}
ILLNESS = {1: "flu", 2: "cold"}
READERS: dict[str, Any] = {
    ".sav": pyreadstat.read_sav,
    ".zsav": pyreadstat.read_sav,
    ".dta": pyreadstat.read_dta,
    ".xpt": pyreadstat.read_xport,
}


def stays() -> pd.DataFrame:
    """Patients with codes, a text, a day, a number and missing values."""
    rows = range(MANY)
    return pd.DataFrame(
        {
            "age": pd.array([None if i == 7 else 20 + i % 9 for i in rows], dtype="Int64"),
            "sex": [1 + i % 2 for i in rows],
            "illness": [1 + i % 3 % 2 for i in rows],
            "ward": [None if i == 3 else f"=ward {i % 4}" for i in rows],
            "born": [datetime.date(1990, 1 + i % 12, 1) for i in rows],
            "weight": [50.5 + i for i in rows],
        }
    )


@pytest.fixture
def files(here: Path) -> Path:
    """The same records in every format that can be written."""
    frame = stays()
    values = {"sex": SEX, "illness": ILLNESS}
    named: dict[str, Any] = {"column_labels": VARIABLES, "variable_value_labels": values}
    measures = {"sex": "nominal", "age": "scale"}
    pyreadstat.write_sav(frame, "stays.sav", variable_measure=measures, **named)
    pyreadstat.write_sav(frame, "stays.zsav", variable_measure=measures, compress=True, **named)
    pyreadstat.write_dta(frame, "stays.dta", **named)
    pyreadstat.write_xport(frame, "stays.xpt", column_labels={**VARIABLES}, file_format_version=8)
    frame.astype(object).where(frame.notna(), None).to_csv("stays.csv", index=False)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([*frame.columns, None])
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False):
        sheet.append([*row])
        for cell in sheet[sheet.max_row]:
            if isinstance(cell.value, str):
                cell.data_type = "s"
    book.save("stays.xlsx")
    return here


def anonymised(source: str, out: str, *more: str) -> None:
    result = run("k-anonymize", source, out, "--qi", "age,sex", "--categorical", "sex", "--drop", "born", *more)
    assert result.exit_code == 0, result.output
    assert "Wrote " + out in result.stderr


def rows_of(path: str) -> list[tuple[Any, ...]]:
    return duckdb.execute(f"SELECT * EXCLUDE (class_id) FROM '{path}' ORDER BY ALL").fetchall()


def read(path: str) -> list[tuple[Any, ...]]:
    """The records of a file without class_id, in order; sets as lists."""
    frame = office_files.read(Path(path), KINDS[Path(path).suffix])
    names = [name for name in frame.column_names if name != "class_id"]
    columns = [
        [one and json.loads(one) for one in frame[name].to_pylist()]
        if name.endswith("_set")
        else frame[name].to_pylist()
        for name in names
    ]
    return sorted(zip(*columns, strict=True), key=str)


SUFFIXES = [".sav", ".zsav", ".dta", ".xpt", ".xlsx"]


def test_a_file_is_read_like_the_same_records_in_csv(files: Path) -> None:
    anonymised("stays.csv", "expected.parquet")
    expected = sorted(rows_of("expected.parquet"), key=str)
    for suffix in SUFFIXES:
        anonymised(f"stays{suffix}", "found.parquet", "--force")
        assert sorted(rows_of("found.parquet"), key=str) == expected, suffix
        kinds = dict(duckdb.execute("SELECT column_name, column_type FROM (DESCRIBE 'found.parquet')").fetchall())
        assert (kinds["age_lo"], kinds["weight"], kinds["ward"]) == ("BIGINT", "DOUBLE", "VARCHAR")
        report = run("report", f"stays{suffix}", "--qi", "born", "--format", "json")
        assert json.loads(report.stdout)[0]["classes"] == 12


def test_a_file_is_written_like_parquet(files: Path) -> None:
    anonymised("stays.csv", "expected.parquet")
    expected = sorted((tuple(one) for one in rows_of("expected.parquet")), key=str)
    for suffix in SUFFIXES:
        anonymised("stays.csv", f"found{suffix}")
        assert read(f"found{suffix}") == expected, suffix
    assert not list(files.glob(".*"))


@pytest.mark.parametrize(
    ("source", "out"), [(".sav", ".sav"), (".sav", ".zsav"), (".sav", ".dta"), (".dta", ".dta"), (".dta", ".sav")]
)
def test_labels_survive(files: Path, source: str, out: str) -> None:
    anonymised(f"stays{source}", f"found{out}")
    _, meta = READERS[out](f"found{out}")
    told = {name: text for name, text in meta.column_names_to_labels.items() if text}
    assert told == {
        "age_lo": "Age in years (lowest in the class)",
        "age_hi": "Age in years (highest in the class)",
        "sex_set": "Sex of the patient (values in the class)",
        "illness": "Main diagnosis",
    }
    assert meta.variable_value_labels["illness"] == ILLNESS
    if out != ".dta":
        # A set of codes has their labels; Stata has none for texts.
        sets = meta.variable_value_labels["sex_set"]
        assert set(sets.values()) <= {"male", "female", "male, female"}
        assert {json.dumps(json.loads(one)) for one in sets} <= {"[1]", "[2]", "[1, 2]"}
    if source == out == ".sav":
        assert meta.variable_measure["age_lo"] == "scale"
    # Codes of a quasi-identifier that becomes an interval keep their names.
    result = run("k-anonymize", f"stays{source}", f"codes{out}", "--qi", "sex", "--drop", "born,ward,weight")
    assert result.exit_code == 0, result.output
    _, meta = READERS[out](f"codes{out}")
    assert meta.variable_value_labels["sex_lo"] == meta.variable_value_labels["sex_hi"] == SEX


def test_a_workbook_has_the_labels_on_a_sheet_and_no_formulas(files: Path) -> None:
    anonymised("stays.sav", "found.xlsx")
    book = openpyxl.load_workbook("found.xlsx")
    assert book.sheetnames == ["records", "labels"]
    listed = list(book["labels"].iter_rows(values_only=True))
    assert listed[0] == ("column", "label", "value", "value's label")
    assert ("age_lo", "Age in years (lowest in the class)", None, None) in listed
    assert ("illness", None, 2, "cold") in listed
    # What would be a formula is text, as it was.
    records = book["records"]
    at = [cell.value for cell in records[1]].index("ward")
    assert {row[at].data_type for row in records.iter_rows(min_row=2) if row[at].value is not None} == {"s"}
    anonymised("stays.csv", "plain.xlsx")
    assert openpyxl.load_workbook("plain.xlsx").sheetnames == ["records"]


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".xlsx"])
def test_a_release_is_joined_within_an_earlier_one(files: Path, suffix: str) -> None:
    """The sets, which are texts there, are read again."""
    call = ["--qi", "age,sex", "--categorical", "sex"]
    fine = run("k-anonymize", f"stays{suffix}", f"fine{suffix}", *call, "--k", "2")
    assert fine.exit_code == 0, fine.output
    coarse = run("k-anonymize", f"stays{suffix}", "coarse.parquet", *call, "--k", "6", "--within", f"fine{suffix}")
    assert coarse.exit_code == 0, coarse.output


def test_other_commands_take_them_too(files: Path) -> None:
    compared = run("compare", "stays.dta", "--qi", "age", "--k", "3", "--format", "json")
    assert json.loads(compared.stdout)[0]["k"] == 3
    suppressed = run("suppress", "stays.sav", "cells.sav", "--rows", "sex", "--cols", "illness")
    assert suppressed.exit_code == 0, suppressed.output
    _, meta = pyreadstat.read_sav("cells.sav")
    assert meta.variable_value_labels["sex"] == SEX
    drawn = run("plot", "bounds", "stays.xlsx", "--rows", "sex", "--cols", "illness", "--out", "p.svg")
    assert drawn.exit_code == 0, drawn.output


def test_whole_numbers_dates_and_mixed_cells_of_excel(here: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    day, time = datetime.datetime(2020, 2, 3), datetime.datetime(2020, 2, 3, 4, 5)
    rows = [["whole", "number", "day", "time", "yes", "mixed", "none"], [1.0, 1.5, day, time, True, "a", None]]
    rows += [[None] * 7, [3, 2, day, day, False, 7.0, None]]
    for row in rows:
        sheet.append(row)
    book.save("x.xlsx")
    table = office_files.read(Path("x.xlsx"), "excel")
    assert [str(one) for one in table.schema.types] == [
        "int64", "double", "date32[day]", "timestamp[us]", "bool", "string", "string",
    ]  # fmt: skip
    assert table["whole"].to_pylist() == [1, 3]
    assert table["mixed"].to_pylist() == ["a", "7"]


def workbook(path: str, *rows: list[Any]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def test_what_is_wrong_with_a_file(files: Path) -> None:
    secret = "Geheimwert"
    workbook("empty.xlsx")
    workbook("twice.xlsx", ["age", "age"], [1, 2])
    workbook("nameless.xlsx", ["age", None], [1, 2])
    workbook("mixed.xlsx", ["age"], *([20 + i % 3] for i in range(30)), [secret])
    for suffix in KINDS:
        Path(f"text{suffix}").write_text(f"age\n{secret}\n")
    said = {
        "empty.xlsx": "empty.xlsx: the first sheet is empty. Its first row has the names of the columns.",
        "twice.xlsx": "twice.xlsx: column B has the same name as one before in the first row. Name each column once.",
        "nameless.xlsx": "nameless.xlsx: column B has no name in the first row. Name each column once.",
        "mixed.xlsx": 'Column "age" is text: 1 of its 31 values cannot be numbers, in record 31. Correct them',
        **{f"text{one}": f"text{one} is damaged, or of another kind than its suffix says." for one in KINDS},
    }
    for file, sentence in said.items():
        result = run("k-anonymize", file, "out.csv", "--qi", "age")
        assert (result.exit_code, result.stderr.startswith(sentence)) == (1, True), result.output
        assert secret not in result.output


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("out.sas7bdat", "out.sas7bdat: only SAS writes .sas7bdat. Name the file .xpt, which SAS reads too."),
        (
            "out.sav",
            'The format has no column named "zip code": a name is a letter, then up to 31 letters, digits and _.',
        ),
        ("out.dta", 'The format has no column named "zip code": '),
        ("out.xpt", 'The format has no column named "zip code": '),
        ("out.xlsx", "The format cannot hold these records, perhaps because of a control character"),
    ],
)
def test_what_a_format_cannot_hold(here: Path, out: str, said: str) -> None:
    Path("in.csv").write_text("age,zip code\n" + "".join(f"{20 + i},geheim\x01\n" for i in range(9)))
    result = run("k-anonymize", "in.csv", out, "--qi", "age")
    assert (result.exit_code, said in result.stderr) == (1, True), result.output
    assert "geheim" not in result.output
    assert [one.name for one in here.iterdir()] == ["in.csv"]


def test_without_the_extra_it_says_what_to_install(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("openpyxl", "pyreadstat"):
        monkeypatch.setitem(sys.modules, library, None)
    for arguments in (["stays.xlsx", "o.csv"], ["stays.sav", "o.csv"], ["stays.csv", "o.dta"], ["stays.csv", "o.xlsx"]):
        result = run("k-anonymize", *arguments, "--qi", "age")
        assert result.stderr == "Files of Excel, SPSS, SAS and Stata need an extra: pip install 'duckanon[office]'.\n"
    assert not list(files.glob("*o.*"))
