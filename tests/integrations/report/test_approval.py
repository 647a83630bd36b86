"""The approval page: a sheet for each release, in English and in German."""

import hashlib
import re
from html import unescape
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner, Result

import duckanon
from duckanon.integrations.cli.commands import app

NASTY = "<script>alert(1)</script>"


def run(*arguments: str) -> Result:
    return CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(app, ["approval", *arguments])


@pytest.fixture(scope="module")
def flats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two copies of one table of persons in households, one of them without six records; and a file of the first."""
    folder = tmp_path_factory.mktemp("flats")
    with duckdb.connect(str(folder / "flats.duckdb")) as con:
        duckanon.register(con)
        for one in (
            "CREATE TABLE persons AS SELECT i // 3 AS household, 20 + (hash(i) % 400)::INT AS age, i % 5 AS rooms, "
            "'secret ' || (i % 3) AS illness FROM range(240) r(i)",
            "SELECT protect('persons', population := 'homes', privacy_unit := 'household', epsilon := 1)",
            "CREATE TABLE first AS FROM k_anonymize('persons', ['age'], k := 5, drop := ['household'], unit := '')",
            "COMMENT ON TABLE first IS 'FROM k_anonymize(''persons'', [''age''], k := 5)'",
            "CREATE TABLE second AS FROM k_anonymize('persons', ['age'], k := 4, method := 'mondrian', unit := '')",
            "DELETE FROM second WHERE class_id = (SELECT max(class_id) FROM second)",
            f"COPY first TO '{folder / 'first.parquet'}'",
            f'CREATE TABLE "{NASTY}" AS SELECT class_id, age_lo AS other_lo, age_hi AS other_hi FROM first',
        ):
            con.execute(one).fetchall()
    return folder


def said(page: Path) -> str:
    text = re.sub(r"<style.*?</style>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.fixture(scope="module")
def english(flats: Path) -> dict[str, str]:
    """The sheets by name."""
    page, database = flats / "page.html", flats / "flats.duckdb"
    before = database.read_bytes()
    result = run(str(database), "--out", str(page), "--sensitive", "illness", "--file", str(flats / "first.parquet"))
    assert (result.exit_code, result.stderr) == (0, f"Wrote {page}: 4 sheets to fill in and sign.\n")
    assert database.read_bytes() == before
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    assert "secret" not in text
    parts = re.split(r'<h2 id="sheet\d+">', text)[1:]
    return {
        unescape(one.partition("</h2>")[0]).split("/")[-1]: " ".join(unescape(re.sub(r"<[^>]+>", " ", one)).split())
        for one in parts
    }


def test_a_sheet_tells_what_is_known_of_a_release(english: dict[str, str], flats: Path) -> None:
    first = english["main.first"]
    for part in (
        "Call FROM k_anonymize('persons', ['age'], k := 5)",
        "Made from main.persons Records 240 Records dropped 0 Generalised columns age_lo, age_hi",
        "Columns as they are rooms, illness k counts record k, the smallest class 5",
        "Sensitive columns illness l, the fewest different values ",
        "Recipient Purpose Conditions, such as a contract or until when Decision approved approved with conditions",
        "The policy's unit is household, which the copy does not hold: k is not checked for it.",
        "Another copy of the same table: main.second",
    ):
        assert part in first
    assert hashlib.sha256((flats / "first.parquet").read_bytes()).hexdigest() in english["first.parquet"]


def test_a_table_and_the_file_that_it_was_exported_to_are_one_copy(english: dict[str, str]) -> None:
    for name in ("main.first", "first.parquet"):
        (others,) = re.findall(r"Another copy of the same table: (.*?)\. Whoever", english[name])
        assert others == "main.second"


def test_a_policys_unit_is_told_where_several_tables_may_be_the_source(flats: Path, tmp_path: Path) -> None:
    database, page = tmp_path / "flats.duckdb", tmp_path / "page.html"
    database.write_bytes((flats / "flats.duckdb").read_bytes())
    with duckdb.connect(str(database)) as con:
        con.execute("CREATE TABLE as_delivered AS FROM persons")
    assert run(str(database), "--out", str(page)).exit_code == 0
    assert "The policy's unit is household, which the copy does not hold: k is not checked for it." in said(page)


def test_where_the_copy_shows_the_unit_it_is_counted(english: dict[str, str]) -> None:
    second = english["main.second"]
    assert "k counts value of household" in second
    assert re.search(r"Alone in their class \d+ of \d+ units", second)
    assert "These columns link records, so that k does not hold for whom they link: household." in second
    with duckdb.connect() as con:
        ((dropped,),) = con.execute("SELECT ?::INT", [re.findall(r"Records dropped (\d+)", second)[0]]).fetchall()
    assert dropped >= 4


def test_the_page_is_told_in_german(flats: Path) -> None:
    page = flats / "freigabe.html"
    assert run(str(flats / "flats.duckdb"), "--out", str(page), "--language", "de").exit_code == 0
    told = said(page)
    assert '<html lang="de">' in page.read_text(encoding="utf-8")
    assert "Zur Freigabe: flats.duckdb" in told
    assert "Weitere Kopie derselben Tabelle: main.second." in told
    assert "Empfänger Zweck" in told
    assert not re.search(r"\b(records|column|approved|Recipient|the)\b", told)


def test_another_language_is_refused(flats: Path) -> None:
    refused = run(str(flats / "flats.duckdb"), "--out", str(flats / "x.html"), "--language", "fr")
    assert refused.exit_code == 1
    assert refused.stderr == "There is no page in the language 'fr': choose one of en, de.\n"


def test_what_k_counts_is_told_as_it_was_made_and_published(tmp_path: Path) -> None:
    database, page = tmp_path / "homes.duckdb", tmp_path / "page.html"
    made = "k_anonymize('persons', ['age'], k := 4, drop := ['household'], unit := 'household')"
    with duckdb.connect(str(database)) as con:
        duckanon.register(con)
        for one in (
            "CREATE TABLE persons AS SELECT i // 3 AS household, 20 + (hash(i) % 400)::INT AS age FROM range(240) r(i)",
            "SELECT protect('persons', population := 'homes', privacy_unit := 'household', epsilon := 1, k := 4, "
            "quasi_identifiers := ['age'])",
            f"CREATE TABLE called AS FROM {made}",
            f"COMMENT ON TABLE called IS '{('FROM ' + made).replace(chr(39), chr(39) * 2)}'",
            f"COPY called TO '{tmp_path}/called.csv'",
        ):
            con.execute(one).fetchall()
    run(str(database), "--out", str(page), "--file", str(tmp_path / "called.csv"))
    text = said(page)
    assert "k counts record here; value of household by the call" in text
    assert "By the call it counts values of household, which the copy does not hold, so this page cannot" in text
    assert text.count("No publication is equal to it, so no audit has seen it") == 1
    assert "Another copy of the same table" not in text
    with duckdb.connect(str(database)) as con:
        duckanon.register(con)
        con.execute("SELECT publish('called')").fetchall()
    run(str(database), "--out", str(page), "--force", "--file", str(tmp_path / "called.csv"))
    text = said(page)
    assert text.count("k counts record here; the unit of the policy where it was published") == 3
    assert "cannot check it" not in text
    assert "is not checked" not in text
    assert "No publication is equal" not in text


def test_a_file_of_shares_has_one_sheet_with_its_hash(tmp_path: Path) -> None:
    database, page, file = tmp_path / "wards.duckdb", tmp_path / "page.html", tmp_path / "shares.csv"
    with duckdb.connect(str(database)) as con:
        duckanon.register(con)
        for one in (
            "CREATE TABLE visits AS SELECT 'w' || (i % 3) AS ward, i % 7 < 2 AS better FROM range(31) r(i)",
            "SELECT protect('visits', epsilon := 1)",
            "COPY (SELECT ward, better, round(count(*) / sum(count(*)) OVER (PARTITION BY ward), 2) AS share FROM "
            f"visits GROUP BY ward, better) TO '{file}'",
        ):
            con.execute(one).fetchall()
    shares = ["--shares", str(file), "--rows", "ward", "--cols", "better", "--p", "share", "--n", "31", "--digits", "2"]
    result = run(str(database), "--out", str(page), "--file", str(file), *shares)
    assert (result.exit_code, result.stderr) == (0, f"Wrote {page}: 1 sheet to fill in and sign.\n")
    text = said(page)
    assert hashlib.sha256(file.read_bytes()).hexdigest() in text
    assert "shares of 31 records" in text
    assert "No publication is equal to it" in text
    assert "It is not known" not in text


def test_means_of_classes_and_tables_with_suppressed_cells_are_known_by_their_columns(tmp_path: Path) -> None:
    database, cells, page = tmp_path / "firms.duckdb", tmp_path / "cells.csv", tmp_path / "page.html"
    with duckdb.connect(str(database)) as con:
        duckanon.register(con)
        con.execute("CREATE TABLE firms AS SELECT i % 7 AS staff, i % 3 AS branch, i % 2 AS town FROM range(60) r(i)")
        centroid = "objective := 'sse', release := 'centroid', steps := {'staff': 1}, drop := ['branch', 'town']"
        con.execute(f"CREATE TABLE means AS FROM k_anonymize('firms', ['staff'], k := 5, {centroid})").fetchall()
        con.execute(f"COPY (FROM suppress('firms', ['branch'], ['town'])) TO '{cells}'").fetchall()
    result = run(str(database), "--out", str(page), "--file", str(cells))
    assert (result.exit_code, result.stderr) == (0, f"Wrote {page}: 2 sheets to fill in and sign.\n")
    text = said(page)
    assert "main.means" in text
    assert "What it holds counts or sums, some of which are suppressed" in text
    assert "It is not known" not in text
