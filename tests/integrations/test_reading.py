"""Text files as offices have them: encodings, decimal commas, missing values, dates, names that come twice."""

import re
from datetime import date
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.errors import InvalidInput
from duckanon.integrations import column_texts, text_encodings
from duckanon.integrations.data_files import DataFile, unfit_texts
from duckanon.integrations.explore.source import Source
from duckanon.integrations.reading import Reading

SECRET = "Geheimwert"
GERMAN = "äöüßÄÖÜ€„“–’"


def read(path, *, typed=None, **said):
    """Names, types and rows of a file, and what was told."""
    told: list[str] = []
    con: Any = duckdb.connect()
    table = DataFile.of(path).load(con, typed=typed, reading=Reading(**said), tell=told.append)
    described = con.execute(f"DESCRIBE FROM {table}").fetchall()
    return {one[0]: one[1] for one in described}, con.execute(f"FROM {table}").fetchall(), told


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.csv"


@pytest.mark.parametrize(("encoding", "called"), [("cp1252", "Windows-1252"), ("utf-16", "UTF-16")])
def test_an_encoding_is_found_out_and_told(path, encoding, called):
    path.write_bytes(f"Größe;Ort\n1;{GERMAN}\n2;Köln\n".encode(encoding))
    kinds, rows, told = read(path)
    assert (kinds, rows) == ({"Größe": "BIGINT", "Ort": "VARCHAR"}, [(1, GERMAN), (2, "Köln")])
    assert told == [f"people.csv: read as {called}, since it is not UTF-8; --encoding names another one."]


def test_a_named_encoding_is_taken(path):
    path.write_bytes("Ort\nŁódź\nKöln\n".encode("cp1250"))
    assert read(path, encoding="cp1250")[1:] == ([("Łódź",), ("Köln",)], [])


def test_windows_1252_is_told_from_latin_1(path):
    path.write_bytes("Ort;Beruf\nKöln;Koch – Kantine\n".encode("cp1252"))
    with pytest.raises(InvalidInput, match=r"people.csv is not in Latin-1: .* --encoding cp1252"):
        read(path, encoding="latin-1")
    path.write_bytes("Ort;Beruf\nKöln;Koch\n".encode("latin-1"))
    assert read(path, encoding="latin-1")[1] == [("Köln", "Koch")]


def test_a_line_that_is_not_in_the_named_encoding_is_told_without_its_text(path):
    path.write_bytes(f"Ort\nBonn\nK\xf6ln {SECRET}\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match="line 3 is not in ascii") as error:
        read(path, encoding="ascii")
    assert SECRET not in str(error.value)
    with pytest.raises(InvalidInput, match="There is no encoding 'klingon'"):
        read(path, encoding="klingon")


def test_utf_8_with_a_damaged_line_is_not_taken_for_another_encoding(path):
    path.write_bytes("Ort\nKöln\nDüren\n".encode() + b"M\xfcnster\n")
    with pytest.raises(InvalidInput, match=r"line 4, column \"Ort\", is not UTF-8. Most of the file is"):
        read(path)


@given(st.text(st.characters(codec="cp1252", exclude_characters="\r\n\0;,\t|\"'"), min_size=1))
def test_what_is_in_windows_1252_is_read_as_python_reads_it(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("texts") / "people.csv"
    content = f"a;b\nüüü;{text}.\n".encode("cp1252")
    path.write_bytes(content)
    assert text_encodings.encoding_of(path) in ("cp1252", "utf-8")
    with text_encodings.as_utf_8(path, "cp1252") as copy:
        assert copy.read_bytes().decode() == content.decode("cp1252")
    assert not copy.exists() or copy == path


def test_a_copy_in_utf_8_is_for_its_owner_alone_and_goes(path):
    path.write_bytes("Ort\nKöln\n".encode("cp1252"))
    with text_encodings.as_utf_8(path, "cp1252") as copy:
        assert copy.parent.stat().st_mode & 0o077 == 0
    assert not copy.parent.exists()


def test_decimal_commas_are_read_and_told(path):
    path.write_text("Einkommen;Anteil;Code\n1.234,50;0,5;007\n12,5;0,25;008\n")
    kinds, rows, told = read(path)
    assert kinds == {"Einkommen": "DOUBLE", "Anteil": "DOUBLE", "Code": "VARCHAR"}
    assert rows == [(1234.5, 0.5, "007"), (12.5, 0.25, "008")]
    assert told == ["people.csv: Einkommen, Anteil are read with decimal commas; --decimal . says that they are none."]


def test_in_a_copy_of_text_only_the_columns_that_are_used_become_numbers(path):
    path.write_text("Einkommen;Anteil\n1234,50;0,5\n12,5;0,25\n")
    assert read(path, typed=["Anteil"])[1] == [("1234,50", 0.5), ("12,5", 0.25)]


# --- numbers, beside a twin in plain Python ---------------------------------------------------------------------------

PIECES = st.text("0123456789.,-+ ", min_size=1, max_size=9)


def number(text, sign):
    """The number that a text is with this sign before decimals; None for no number."""
    other = "." if sign == "," else ","
    found = re.fullmatch(rf"([-+]?)([\d{other}]+)(?:{re.escape(sign)}(\d+))?", text.strip(" "))
    if found is None:
        return None
    first, *groups = found[2].split(other)
    if groups and not (1 <= len(first) <= 3 and all(len(one) == 3 for one in groups)):
        return None
    return float(f"{found[1]}{first}{''.join(groups)}.{found[3] or 0}") if first else None


@given(st.lists(st.none() | PIECES, min_size=1, max_size=4), st.sampled_from([",", "."]))
def test_numbers_are_those_of_a_plain_reader(texts, sign):
    con = duckdb.connect()
    con.execute("CREATE TEMP TABLE t (x VARCHAR)")
    con.executemany("INSERT INTO t VALUES (?)", [[one] for one in texts])
    plain = [None if one is None else number(one, sign) for one in texts]
    are = all(one is not None for one, text in zip(plain, texts, strict=True) if text is not None)
    signs = any("," in one or "." in one for one in texts if one is not None)
    assert column_texts.to_numbers(con, "t", ["x"], sign) == (["x"] if are and signs else [])
    if are and signs:
        assert [one for (one,) in con.execute("FROM t").fetchall()] == plain


# --- missing values, dates, names -------------------------------------------------------------------------------------


def test_texts_for_missing_values_are_named_by_their_lines_and_not_shown(path):
    rows = "".join(f"{20 + i}\n" for i in range(20))
    path.write_text(f'age\n{rows}{SECRET}\nn/a\n"n/a"\n')
    con: Any = duckdb.connect()
    file = DataFile.of(path)
    told = unfit_texts(con, file.load(con), file, Reading())
    assert told == {"age": "3 of its 23 values cannot be numbers, in lines 22, 23, 24; they are 2 different texts."}
    kinds, found, _ = read(path, null=(SECRET, "n/a"))
    assert kinds == {"age": "BIGINT"}
    assert [one for (one,) in found[-4:]] == [39, None, None, None]


def test_lines_are_those_of_the_file_where_a_value_has_several(path):
    path.write_text('age,note\n1,"two\nlines"\n\n2,x\nx,y\n3,z\n')
    con: Any = duckdb.connect()
    file = DataFile.of(path)
    told = unfit_texts(con, file.load(con), file, Reading())
    assert "1 of its 4 values cannot be numbers, in line 6." in told["age"]


def test_dates_whose_days_and_months_nothing_tells_apart_are_told(path):
    path.write_text("born\n" + "".join(f"0{i}.0{i + 1}.1970\n" for i in range(1, 8)))
    (told,) = read(path)[2]
    assert re.search(r"no date tells days from months; they are read as %[dm].%[dm].%Y", told)
    for form, month in ("%d.%m.%Y", 2), ("%m.%d.%Y", 1):
        kinds, rows, told = read(path, date_format=form)
        assert (kinds, rows[0][0].month, told) == ({"born": "DATE"}, month, [])
    path.write_text("born\n" + "".join(f"2{i}.0{i + 1}.1970\n" for i in range(1, 8)))
    assert read(path)[2] == []


def test_names_that_come_twice_are_told(path):
    path.write_text("Beruf;Ort;beruf\n1;2;3\n")
    kinds, _, told = read(path)
    assert list(kinds) == ["Beruf", "Ort", "beruf_1"]
    assert told == ["people.csv: several columns are named beruf: column 3 is read as beruf_1."]


def test_a_first_record_in_place_of_names_is_not_shown(path):
    path.write_text(f"{SECRET};{SECRET};12\n1;2;3\n")
    assert SECRET not in read(path)[2][0]


@pytest.mark.parametrize(
    ("said", "why"),
    [({"decimal": ";"}, "--decimal is the sign"), ({"date_format": "d.m.y"}, "--date-format has a day")],
)
def test_what_cannot_be_said_of_a_file(said, why):
    with pytest.raises(InvalidInput, match=why):
        Reading(**said)


def test_other_files_say_themselves_how_they_are_read(tmp_path):
    path = tmp_path / "people.json"
    path.write_text('[{"a": 1}]')
    with pytest.raises(InvalidInput, match="is no text file with delimiters"):
        read(path, null=("x",))


def test_sets_that_copy_wrote_are_read_as_those_in_json(tmp_path):
    from duckanon.integrations.cli.earlier_release import earlier

    con: Any = duckdb.connect()
    con.execute("CREATE TABLE people AS SELECT 'a, b' AS town, 1 AS code")
    # DuckDB 1.4 does not quote values in a list, so those with commas and brackets are for JSON.
    plain, odd = "['a b', 'it', NULL]", "['a, b', 'it''s', '[x]', NULL]"
    json = "to_json({}) AS town_set, to_json([1, 2]) AS code_set"
    for name, query, towns in (
        ("copy.csv", f"{plain} AS town_set, [1, 2] AS code_set", ["a b", "it", None]),
        ("json.csv", json.format(odd), ["a, b", "it's", "[x]", None]),
    ):
        con.execute(f"COPY (SELECT 1 AS class_id, {query}) TO '{tmp_path / name}' (HEADER)")
        read = earlier(con, str(tmp_path / name), "people", ["town", "code"], inside=tmp_path / "people.csv")
        assert con.execute(f"SELECT town_set, code_set FROM {read}").fetchall() == [(towns, [1, 2])]


def test_dates_in_two_forms_are_read_where_one_of_them_is_named(path):
    path.write_text("born;note\n31.12.1999;1.1.2020\n2000-02-01;x\n;y\n")
    said = "people.csv: born is written in two ways, as %d.%m.%Y and as %Y-%m-%d; both are read as dates."
    kinds, rows, told = read(path, date_format="%d.%m.%Y")
    assert (kinds, told) == ({"born": "DATE", "note": "VARCHAR"}, [said])
    assert [row[0] for row in rows] == [date(1999, 12, 31), date(2000, 2, 1), None]
    assert read(path)[0]["born"] == "VARCHAR"
    source = Source(path, lambda _, __: None, Reading(date_format="%d.%m.%Y"))
    with duckdb.connect() as con:
        con.execute(str(source.loading))
        assert con.execute("SELECT born FROM people").fetchall() == [row[:1] for row in rows]
    # Here the other form could mean other days.
    path.write_text("born\n2000-31-12\n2000-02-01\n2000-12-31\n")
    assert read(path, date_format="%Y-%d-%m")[0] == {"born": "VARCHAR"}
