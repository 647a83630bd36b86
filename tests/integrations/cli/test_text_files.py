"""Text files that cannot be read: the sentence names the line, the column and the type, and never a value."""

import gzip
from collections import Counter

import pytest

from tests.integrations.cli.commandline import rows_of, run

# More records than DuckDB looks at before it chooses types.
MANY = 25_000
SECRET = "Geheimwert"


def lines(many: int, *last: str) -> bytes:
    rows = [f"{20 + i % 40},{i % 7},flu" for i in range(many)]
    return "\n".join(["age,zip,illness", *rows, *last, ""]).encode()


LATIN = f"33,4,M\xfcller {SECRET}\n".encode("latin-1")
# Lines in UTF-8, so that bytes which are none are a flaw, and no other encoding.
UMLAUTS = "33,4,Müller\n".encode() * 2
ENCODE = (
    "is not UTF-8. Most of the file is: correct the line, or name the encoding of all lines, as in --encoding cp1252."
)
FIELDS = "Correct the line; a value that holds the delimiter stands in double quotes."
BINARY = "it is binary data and no text. Save it as text, or give it its own suffix, such as .xlsx or .parquet."
QUOTE = "a double quote is not closed, or text follows it. Write a double quote inside a value twice."
CAST = "the value cannot be cast to BIGINT, the type of the values before it. Correct it, or leave it empty."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            lines(50, f"33,4,flu,{SECRET}", "34,5,flu"),
            f"line 52 has 4 fields, and the line of column names has 3. {FIELDS}",
        ),
        (lines(50, SECRET), f"line 52 has 1 field, and the line of column names has 3. {FIELDS}"),
        (
            lines(MANY, f"33,4,flu,{SECRET}"),
            f"line {MANY + 2} has 4 fields, and the line of column names has 3. {FIELDS}",
        ),
        (lines(1) + UMLAUTS + LATIN, f'line 5, column "illness", {ENCODE}'),
        (lines(MANY) + UMLAUTS + LATIN, f'line {MANY + 4}, column "illness", {ENCODE}'),
        (lines(3).replace(b"zip", b"stra\xdfe") + UMLAUTS, f"line 1, the names of the columns, {ENCODE}"),
        (
            lines(3) + b"33,4,\xe9\x81\n",
            "line 5 is not in Windows-1252. Name the file's encoding, as in --encoding cp1250.",
        ),
        (b"PK\x03\x04\x14\0\x06\0" + bytes(range(256)) * 20, BINARY),
        (bytes(3000), BINARY),
        (b" \n", "it is empty. The first line has the names of the columns."),
        (lines(MANY, f"{SECRET},4,flu"), f'line {MANY + 2}, column "age": {CAST}'),
        (
            lines(MANY).replace(b"flu", b'"flu"') + f'33,4,"{SECRET}\n'.encode(),
            f"line {MANY + 2}: {QUOTE}",
        ),
        (
            b"age,zip,illness\n" + b'30,"1","flu"\n30,1,flu\n' * 20 + f'33,4,"{SECRET}\n34,5,flu\n'.encode(),
            f"line 42: {QUOTE}",
        ),
        (lines(20, f'33,4,"{SECRET}" twice', "34,5,flu"), f"line 22: {QUOTE}"),
        (lines(20, f'33,4,"\\"{SECRET}\\""', "34,5,flu"), f"line 22: {QUOTE}"),
    ],
    ids=(
        "a field too many, early; too few; a field too many, late; latin early; latin late; latin names; neither; "
        "a workbook; zeros; empty; no number; an open quote; an open quote, early; text after a quote; a backslash"
    ).split("; "),
)
def test_what_is_wrong_with_a_file(here, content, said):
    (here / "stays.csv").write_bytes(content)
    result = run("k-anonymize", "stays.csv", "out.csv", "--qi", "age")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"stays.csv cannot be read: {said}\n"
    assert SECRET not in result.output
    assert sorted(one.name for one in here.iterdir()) == ["stays.csv"]


def test_compressed_files_are_looked_into(here):
    (here / "stays.csv.gz").write_bytes(gzip.compress(lines(1) + UMLAUTS + LATIN))
    assert f'line 5, column "illness", {ENCODE}' in run("report", "stays.csv.gz", "--qi", "age").stderr
    (here / "stays.csv.gz").write_bytes(lines(3))
    assert "it is not compressed by gzip, as its suffix .gz says" in run("report", "stays.csv.gz", "--qi", "age").stderr


@pytest.mark.parametrize("command", [["k-anonymize", "stays.csv", "out.csv"], ["compare", "stays.csv", "--k", "2"]])
def test_a_column_that_is_text_because_of_a_few_values(here, command):
    (here / "stays.csv").write_bytes(lines(50, f"{SECRET},4,flu"))
    result = run(*command, "--qi", "age")
    assert result.stderr == (
        'Column "age" is text: 1 of its 51 values cannot be numbers, in line 52. Correct them or leave them empty, '
        "say with --null which texts stand for missing values, or name the column in --categorical age to release sets "
        "of its values.\n"
    )
    assert run(*command, "--qi", "age", "--categorical", "age").exit_code == 0


def test_a_column_of_dates_with_another_form(here):
    rows = "\n".join(f"2020-01-{1 + i % 28:02}" for i in range(30))
    (here / "stays.csv").write_text(f"born\n31.12.1999 {SECRET}\n{rows}\n")
    result = run("k-anonymize", "stays.csv", "out.csv", "--qi", "born")
    assert "1 of its 31 values cannot be dates, in line 2." in result.stderr
    assert SECRET not in result.output


def test_json_of_mixed_types_shows_no_value(here):
    rows = [f'{{"age": {i % 40}, "place": {{"zip": {i}}}}}' for i in range(50)]
    (here / "stays.json").write_text("[" + ",\n".join([*rows, f'{{"age": {SECRET}}}']) + "]")
    result = run("report", "stays.json", "--qi", "age")
    assert result.exit_code == 1
    assert SECRET not in result.output


def test_a_column_whose_name_holds_the_delimiter_is_read(here):
    (here / "ages.csv").write_text('"age, in years"\n' + "".join(f"{20 + i % 3}\n" for i in range(30)))
    result = run("k-anonymize", "ages.csv", "out.csv", "--qi", '"age, in years"')
    assert result.exit_code == 0, result.output


def test_a_value_does_not_decide_how_other_values_are_read(here):
    """Quotes within a value and lines that begin alike say nothing about the file: DuckDB would guess by them."""
    rows = ['"44143",flu,5 foot 9"', "44143,flu,'tall'", "#44143,flu,tall"] * 20
    (here / "stays.csv").write_text("\n".join(["zip,illness,height", *rows, '44143,flu,"5 foot ""9"""', ""]))
    result = run("k-anonymize", "stays.csv", "out.csv", "--qi", "zip", "--categorical", "zip", "--k", "5")
    assert result.exit_code == 0, result.output
    released = Counter((one["zip_set"], one["height"]) for one in rows_of(here / "out.csv"))
    assert released == {
        ('["44143"]', '5 foot 9"'): 20,
        ('["44143"]', "'tall'"): 20,
        ('["#44143"]', "tall"): 20,
        ('["44143"]', '5 foot "9"'): 1,
    }


def test_a_file_without_names_of_columns_shows_no_record(here):
    rows = [f"{20 + i % 3},0010{i % 2},member {i} {SECRET},2024-01-0{1 + i % 9}" for i in range(30)]
    (here / "stays.csv").write_text("\n".join([*rows, ""]))
    for command in (["k-anonymize", "stays.csv", "out.csv"], ["report", "stays.csv"], ["compare", "stays.csv"]):
        result = run(*command, "--qi", "age")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            'There is no column "age" in "stays.csv"; the names of its 4 columns look like values, so they are not '
            "listed: if it comes from a file, put the names of the columns into its first line.\n"
        )


def test_a_preview_tells_of_records_without_any_value(here):
    (here / "stays.csv").write_text("age;zip\n34;5\n;\n35;6\n")
    assert "1 record has no value in any column" in " ".join(run("preview", "stays.csv").output.split())
    (here / "stays.csv").write_text("age;zip\n34;5\n;6\n35;6\n")
    assert "no value in any column" not in " ".join(run("preview", "stays.csv").output.split())
