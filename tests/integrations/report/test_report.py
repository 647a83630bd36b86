"""The page for the officer who signs: what it tells, that it leaves the database alone, and how a browser shows it."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

import duckanon
from duckanon import __version__
from duckanon.integrations.cli.commands import app
from tests.amounts import sampled
from tests.extras import needs
from tests.integrations.report.databases import made

AGREED = "in their classes all that have a value agree on it."


def run(*arguments: str) -> Result:
    return CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(app, ["report", *arguments])


@pytest.fixture(scope="module")
def written(shop: Path) -> Path:
    before = hashlib.sha256(shop.read_bytes()).hexdigest(), sorted(shop.parent.iterdir())
    page = shop.parent.parent / f"{shop.parent.name}.html"
    result = run(str(shop), "--out", str(page), "--sensitive", "vote")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(
        f"Wrote {page}: 1 protected table, 2 charges, 1 publication, 2 released tables judged, "
    )
    # Nothing was charged, nothing was written.
    assert (hashlib.sha256(shop.read_bytes()).hexdigest(), sorted(shop.parent.iterdir())) == before
    return page


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return written.read_text(encoding="utf-8")


class _Page(HTMLParser):
    """The page's tags, in order, and all its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def plain(text: str) -> str:
    """The words that a reader sees, outside of pictures."""
    from html import unescape

    body = re.sub(r"<svg.*?</svg>|<style.*?</style>", "", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_it_tells_policies_budgets_and_charges_exactly(text: str) -> None:
    said = plain(text)
    assert "all: 0 of epsilon 1 is spent, 1 is left: about 3 more counts at 1/3 each, within " in said
    assert "main.people has no budget: 1 charge of epsilon 1/3 in all." in said
    assert "visits has no budget: 1 charge of epsilon 0.1 in all." in said
    assert "charge: dp_group_sizes('people', 'zip', epsilon := '1/3'" in said
    assert "main.persons all all records of one household (a sample of 3 counts) 1/3 no limit" in said
    assert "all main.persons 1 0 1 0 2 0" in said


def test_it_tells_editions_publications_and_what_is_open(text: str) -> None:
    said = plain(text)
    assert re.search(r"all 1 \S+ \S+ 0 all 2 \S+ \S+ 0", said)
    assert re.search(r"by_state main\.persons counts by state [\d-]{10} 1 [0-9a-f]{16} ", said)
    assert "Open, which analysts read as they are: main.places." in said


def test_it_judges_released_tables_and_shares(text: str, shop: Path) -> None:
    said = plain(text)
    with duckdb.connect(str(shop), read_only=True) as con:
        duckanon.register(con)
        qi = "['age_lo', 'age_hi', 'zip_lo', 'zip_hi']"
        ((classes, k),) = con.execute(f"SELECT classes, k FROM k_report('released', {qi})").fetchall()
        ((rows, small),) = con.execute(
            "SELECT disclosed_rows, disclosed_small_cells FROM disclosure_report('visits', ['ward'], ['better'])"
        ).fetchall()
    assert f"main.released 200 {classes} {k} 0 " in said
    assert f"main.released: each record looks like {k - 1} others or more" in said
    assert re.search(rf"view shares 31 4 2 {rows} {small} 0", said)
    assert "by age_lo, age_hi, zip_lo, zip_hi; sensitive: vote; known by its columns; copied as they are: vote." in said
    assert text.count("<figure>") == 4


def test_it_compares_a_release_with_the_one_table_that_it_can_be_made_from(text: str, shop: Path) -> None:
    told = plain(text)
    with duckdb.connect(str(shop), read_only=True) as con:
        found = duckanon.register(con).execute(
            "SELECT columns[1], difference FROM k_utility('people', 'released', ['age', 'zip', 'vote']) "
            "WHERE measure = 'total_variation' ORDER BY difference DESC LIMIT 1"
        )
        ((column, moved),) = found.fetchall()
    assert f"main.released main.people {column} {100 * moved:.3g} %" in told
    # No other table has the columns of the other release.
    section = told.partition("relative to the true ones.")[2].partition("Bounds of published shares")[0]
    assert section.count("main.") == 2


def test_a_release_of_one_of_two_tables_is_compared_with_neither(tmp_path: Path) -> None:
    path = made(
        tmp_path / "two.duckdb",
        "CREATE TABLE one AS SELECT i % 9 AS age FROM range(90) r(i)",
        "CREATE TABLE other AS FROM one",
        "CREATE TABLE small AS FROM one LIMIT 30",
        "CREATE TABLE released AS FROM k_anonymize('one', ['age'], k := 5)",
    )
    page = tmp_path / "page.html"
    assert run(str(path), "--out", str(page)).exit_code == 0
    assert "What releases still tell" not in page.read_text(encoding="utf-8")
    made(path, "DROP TABLE other")
    assert run(str(path), "--out", str(page), "--force").exit_code == 0
    assert "main.released main.one age" in plain(page.read_text(encoding="utf-8"))


def test_a_release_in_bands_is_compared_as_one(tmp_path: Path) -> None:
    path = made(
        tmp_path / "bands.duckdb",
        "CREATE TABLE one AS SELECT i % 60 AS age, i % 60 AS born, i % 2 AS sex FROM range(600) r(i)",
        "CREATE TABLE released AS FROM k_anonymize('one', ['age', 'born'], k := 2, "
        "bands := {'age': 10, 'born': {'width': 10, 'top': 50}})",
    )
    page = tmp_path / "page.html"
    assert run(str(path), "--out", str(page)).exit_code == 0
    # Values that are spread evenly stay so, if the upper ends of their bands are left out.
    found = re.search(r"main.released main.one \w+ (\S+) %", plain(page.read_text(encoding="utf-8")))
    assert found is not None
    assert float(found[1]) < 0.1


def test_it_identifies_the_database_and_versions(text: str, shop: Path) -> None:
    assert hashlib.sha256(shop.read_bytes()).hexdigest() in text
    assert f"duckanon {__version__}" in plain(text)
    assert f"duckdb {duckdb.__version__}" in plain(text)


def test_it_shows_no_value_that_was_not_released(text: str) -> None:
    assert "secret value" not in text
    assert "ward 1" in text  # a category of published shares


def test_everything_is_escaped(text: str) -> None:
    tags = {tag for tag, _ in _Page(text).tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "b"}
    assert "&lt;script&gt;alert(1)" in text
    assert "\u202e" not in text


def test_nothing_is_fetched_and_it_is_accessible(text: str) -> None:
    tags = _Page(text).tags
    assert ("html", {"lang": "en"}) in tags
    for tag, found in tags:
        assert tag == "a" or "href" not in found or str(found["href"]).startswith("#")
        assert "src" not in found
        assert not str(found.get("href", "")).startswith(("http", "//"))
        if tag == "th":
            assert found["scope"] in ("col", "row")
        if tag == "svg":
            assert found["role"] == "img"
            assert found["aria-label"]
    ids = [found["id"] for _, found in tags if "id" in found]
    assert len(ids) == len(set(ids))
    headings = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h\d", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    assert {f"#{one}" for one in ids} >= {str(found["href"]) for tag, found in tags if tag == "a"}


@pytest.mark.parametrize("statements", [(), ("CREATE TABLE t AS SELECT 1 AS a",)])
def test_an_empty_database_gives_a_page_that_says_so(tmp_path: Path, statements: tuple[str, ...]) -> None:
    database, page = made(tmp_path / "empty.db", *statements), tmp_path / "page.html"
    result = run(str(database), "--out", str(page))
    assert result.exit_code == 0, result.output
    said = plain(page.read_text(encoding="utf-8"))
    assert "No table of this database has a policy" in said
    assert "Nothing was charged" in said
    assert "There is nothing to draw" in said


def test_a_log_beside_the_file_is_part_of_the_fingerprint_and_stays(tmp_path: Path) -> None:
    database, page = tmp_path / "x.db", tmp_path / "page.html"
    # A process that ends like this leaves what it wrote in the log.
    code = (
        "import duckdb, os, sys; con = duckdb.connect(sys.argv[1]); con.execute('CHECKPOINT')\n"
        "con.execute('CREATE TABLE released AS SELECT i // 4 AS class_id, 0 AS x_lo, 1 AS x_hi FROM range(8) r(i)')\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(database)], check=True)
    log = tmp_path / "x.db.wal"
    before = database.read_bytes(), log.read_bytes()
    result = run(str(database), "--out", str(page))
    assert result.exit_code == 0, result.output
    assert (database.read_bytes(), log.read_bytes()) == before
    text = page.read_text(encoding="utf-8")
    assert all(hashlib.sha256(one).hexdigest() in text for one in before)
    assert "main.released: each record looks like 7 others or more (k = 8)." in plain(text)


def points(page: Path) -> list[str]:
    """The findings of the first page that should be looked at."""
    found = re.findall(r'<li class="look"><strong>Look at this:</strong> (.*?)</li>', page.read_text(encoding="utf-8"))
    return [plain(one) for one in found]


def test_policies_are_told_in_words(text: str) -> None:
    said = plain(text)
    assert "Analysts never read records of these tables. They may ask what the last column says" in said
    assert "Counts and shares with noise by state (state only as a filter: no list of values was given)." in said
    assert (
        "How many households there are of each size (larger than 5 counts as 5). One answer costs 1/3 at most." in said
    )
    assert "protect: Budget 1 for all; a charge protects all records of one household (a sample of 3 counts)." in said
    assert '{"' not in said


def test_releases_without_a_charge_stand_beside_the_ledger(text: str) -> None:
    said = plain(text)
    assert re.search(r"main\.released 200 records, k-anonymous by age_lo, age_hi, zip_lo, zip_hi: k = \d+ ", said)
    assert "view shares shares of 31 records" in said
    assert said.index("k-anonymous copies and shares cost no budget") < said.index("Risk of released records")


def test_the_signature_stands_before_the_versions(text: str) -> None:
    assert text.index('<h2 id="limits">') < text.index('<h2 id="sign">') < text.index('<h2 id="versions">')


def test_what_a_copy_gives_away_is_found_without_naming_it(tmp_path: Path) -> None:
    """Ten records lie in classes that agree on an illness; the page says so although nobody called it sensitive."""
    database = made(
        tmp_path / "x.db",
        "CREATE TABLE released AS SELECT i // 5 AS class_id, i // 5 AS age_lo, i // 5 AS age_hi, 'p' || i AS patient, "
        "CASE WHEN i < 10 THEN 'flu' ELSE 'other ' || (i % 2) END AS illness, i % 2 AS ward, 1 AS land "
        "FROM range(40) r(i)",
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    assert points(page)[:2] == [
        "No table is protected: no budget limits what is released with noise.",
        f"main.released gives away illness of 10 records: {AGREED} Name with --sensitive the columns that must stay "
        "unknown.",
    ]
    assert "main.released: almost every record has a value of its own in patient." in points(page)
    # Whoever names the sensitive columns is told of these only.
    for sensitive, said in (
        ("illness", [f"main.released gives away illness of 10 records: {AGREED}"]),
        ("ward", []),
        ("", []),
    ):
        assert run(str(database), "--out", str(page), "--force", "--sensitive", sensitive).exit_code == 0
        assert [one for one in points(page) if "gives away" in one] == said


def test_a_published_copy_is_judged_as_it_was_published(tmp_path: Path) -> None:
    database = made(
        tmp_path / "x.db",
        "CREATE TABLE people AS SELECT i // 10 AS age, CASE WHEN i < 10 THEN 'flu' ELSE 'ill ' || i END AS illness "
        "FROM range(80) r(i)",
        "SELECT protect('people', epsilon := 1, quasi_identifiers := ['age'], sensitive := ['illness'], k := 4)",
        "CREATE TABLE released AS FROM k_anonymize('people', ['age'], k := 4)",
        "SELECT publish('released', of := 'people')",
        "DROP TABLE released",
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    assert any(one.startswith("publication released gives away illness of ") for one in points(page)), points(page)
    assert "publication released 80 records, k-anonymous by age_lo, age_hi" in plain(page.read_text(encoding="utf-8"))


def test_unprotected_tables_are_named(tmp_path: Path, shop: Path) -> None:
    page = tmp_path / "page.html"
    assert run(str(shop), "--out", str(page)).exit_code == 0
    (said,) = [one for one in points(page) if one.startswith("Neither protected nor a known release")]
    assert said == (
        "Neither protected nor a known release: main.people, main.stops, main.visits. "
        "Whoever gets this file reads them: protect them, or hand the file to nobody."
    )


def test_tables_with_true_values_of_suppressed_cells_are_named(tmp_path: Path) -> None:
    database = made(
        tmp_path / "cells.duckdb",
        "CREATE TABLE visits AS SELECT 'w' || (i % 5) AS ward, 'c' || (i * i % 7) AS code FROM range(40) r(i)",
        "CREATE TABLE inside AS FROM suppress('visits', ['ward'], ['code'], n := 3, audit := true)",
        "CREATE TABLE outside AS FROM suppress('visits', ['ward'], ['code'], n := 3)",
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    (said,) = [one for one in points(page) if one.startswith("True values of suppressed cells")]
    assert said.startswith("True values of suppressed cells: main.inside. ")


def test_columns_of_means_that_say_which_records_dominate_are_named(tmp_path: Path) -> None:
    database = made(
        tmp_path / "means.duckdb",
        "CREATE TABLE firms AS SELECT i AS staff, if(i = 3, 9000, i + 1) AS sales FROM range(30) r(i)",
        "CREATE TABLE means AS FROM k_anonymize('firms', ['sales'], k := 5, drop := ['staff'], release := 'centroid', "
        "steps := {'sales': 10}, dominance := 0.9)",
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    (said,) = [one for one in points(page) if "dominated by" in one]
    assert said == (
        "main.means: The mean of 1 class is dominated by one record. Leave the column dominated out of what others get."
    )


def test_columns_are_told_as_the_table_spells_them(tmp_path: Path) -> None:
    database = made(
        tmp_path / "spelled.duckdb",
        'CREATE TABLE persons AS SELECT i * i AS "Alter" FROM range(30) r(i)',
        "CREATE TABLE released AS FROM k_anonymize('persons', ['Alter'], k := 5)",
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    text = plain(page.read_text(encoding="utf-8"))
    assert "main.released main.persons Alter " in text


SHARES = "SELECT ward, better, {} AS share FROM visits GROUP BY ward, better ORDER BY ALL"
VISITS = "CREATE TABLE visits AS SELECT 'w' || (i % 3) AS ward, i % 7 < 2 AS better FROM range(31) r(i)"
SHARE = "count(*) / sum(count(*)) OVER (PARTITION BY ward)"
NAMED = ["--rows", "ward", "--cols", "better"]


def test_a_table_of_shares_is_not_read_as_records(tmp_path: Path) -> None:
    database = made(
        tmp_path / "x.db",
        VISITS,
        f"CREATE TABLE exact AS {SHARES.format(SHARE)}",
        f"CREATE TABLE rounded AS {SHARES.format(f'round({SHARE}, 1)')}",
    )
    page = tmp_path / "page.html"
    # Found, but of how many records nobody can know.
    assert run(str(database), "--out", str(page)).exit_code == 0
    assert (
        "main.exact holds shares of better within ward. What follows from them depends on the number of records: give "
        "it with --shares main.exact --rows ward --cols better --p share --n RECORDS, and with --digits how far shares "
        "are rounded."
    ) in points(page)
    # Named as if it were a table of records.
    assert run(str(database), "--out", str(page), "--force", "--shares", "exact", *NAMED).exit_code == 0
    (said,) = [one for one in points(page) if one.startswith("exact")]
    assert said.startswith("exact, ward by better was not judged: its rows are no records, but cells with a share in")
    # Named as what it is: the same figures as of the records that it was made from.
    shares = ["--shares", "exact", *NAMED, "--p", "share", "--n", "31"]
    assert run(str(database), "--out", str(page), "--force", *shares).exit_code == 0
    with duckdb.connect(str(database), read_only=True) as con:
        duckanon.register(con)
        ((rows, small, zeros),) = con.execute(
            "SELECT disclosed_rows, disclosed_small_cells, zero_cells "
            "FROM disclosure_report('visits', ['ward'], ['better'])"
        ).fetchall()
    assert rows
    assert f"exact, ward by better 31 3 2 {rows} {small} {zeros}" in plain(page.read_text(encoding="utf-8"))
    # Rounded shares that nobody called rounded contradict themselves.
    shares = ["--shares", "rounded", *NAMED, "--p", "share", "--n", "31"]
    assert run(str(database), "--out", str(page), "--force", *shares).exit_code == 0
    assert any(one.endswith("Name with --digits how far the shares are rounded.") for one in points(page))
    assert run(str(database), "--out", str(page), "--force", *shares, "--digits", "1").exit_code == 0
    assert "rounded, ward by better 31 3 2 " in plain(page.read_text(encoding="utf-8"))


def test_exported_files_are_judged_and_known_by_their_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made(
        tmp_path / "x.db",
        VISITS,
        f"COPY ({SHARES.format(SHARE)}) TO 'shares.csv'",
        "COPY (SELECT i // 5 AS class_id, i // 5 AS age_lo, i // 5 AS age_hi, CASE WHEN i < 5 THEN 1 ELSE i END "
        "AS bill FROM range(40) r(i)) TO 'records.parquet'",
        "COPY visits TO 'visits.csv'",
        "COPY (FROM privacy_ledger()) TO 'ledger.csv'",
    )
    files = ["records.parquet", "shares.csv", "visits.csv", "ledger.csv"]
    given = [word for one in files for word in ("--file", one)]
    result = run("x.db", "--out", "p.html", *given, "--shares", "shares.csv", *NAMED, "--p", "share", "--n", "31")
    assert result.exit_code == 0, result.output
    page = tmp_path / "p.html"
    said = plain(page.read_text(encoding="utf-8"))
    for one in files:
        content = (tmp_path / one).read_bytes()
        assert re.search(rf"{re.escape(one)} {len(content):,} [\w -]+ {hashlib.sha256(content).hexdigest()}", said)
    assert "records.parquet: each record looks like 4 others or more (k = 5)." in said
    assert f"records.parquet gives away bill of 5 records: {AGREED}" in " ".join(points(page))
    assert any(one.startswith("shares.csv, ward by better: the shares give away") for one in points(page))
    assert any(one.startswith("visits.csv is no release that its columns tell") for one in points(page))
    assert not any(one.startswith("ledger.csv") for one in points(page))


UNSEEN = "No publication is equal to it, so no audit has seen it: publish it, or leave it out."


def test_files_of_protected_tables_that_are_no_publication_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made(
        tmp_path / "x.db",
        "CREATE TABLE people AS SELECT i % 4 AS town, i % 3 AS sex, i // 3 AS home "
        "FROM range(90) r(i) WHERE i % 12 <> 5 OR i < 30",
        "SELECT protect('people', epsilon := 1, unit := 'home', public := ['town', 'sex'], small := 5, k := 5)",
        "CREATE TABLE cells AS FROM suppress('people', ['town'], ['sex'], n := 5)",
        "SELECT publish('cells', variables := ['town', 'sex'], value := 'value', suppressed := 'suppressed')",
        "CREATE TABLE counts AS SELECT town, count(*) AS n FROM people GROUP BY town",
        "SELECT publish('counts', variables := ['town'], value := 'n')",
        "COPY (FROM duckanon.cells ORDER BY ALL DESC) TO 'cells.csv'",
        "COPY duckanon.cells TO 'cells.parquet'",
        "COPY duckanon.counts TO 'counts.csv'",
        "COPY (SELECT * REPLACE (n + 1 AS n) FROM duckanon.counts) TO 'changed.csv'",
        "COPY (FROM duckanon.cells LIMIT 7) TO 'fewer.csv'",
        "COPY (SELECT * REPLACE (value + 1 AS value) FROM duckanon.cells) TO 'more.parquet'",
        "COPY (FROM suppress('people', ['town'], [], n := 30)) TO 'other.csv'",
        "COPY (FROM k_anonymize('people', ['town'], k := 5, drop := ['home'])) TO 'records.parquet'",
        "CREATE TABLE sizes AS FROM dp_group_sizes('people', 'home', epsilon := 0.1, max_size := 4)",
        "COPY sizes TO 'sizes.csv'",
        "COPY (FROM privacy_ledger()) TO 'ledger.csv'",
    )
    seen = ["cells.csv", "cells.parquet", "counts.csv", "sizes.csv", "ledger.csv"]
    unseen = ["changed.csv", "fewer.csv", "more.parquet", "other.csv", "records.parquet"]
    given = [word for one in (*seen, *unseen) for word in ("--file", one)]
    assert run("x.db", "--out", "p.html", *given).exit_code == 0
    looked = points(tmp_path / "p.html")
    assert sorted(one for one in looked if UNSEEN in one) == [f"{name}: {UNSEEN}" for name in unseen]
    assert not any("counts.csv" in one for one in looked)
    assert run("x.db", "--out", "de.html", *given, "--language", "de").exit_code == 0
    assert "other.csv: Keine Publikation ist ihr gleich" in plain((tmp_path / "de.html").read_text(encoding="utf-8"))
    made(tmp_path / "x.db", "SELECT unpublish('cells')")
    assert run("x.db", "--out", "p.html", "--force", *given).exit_code == 0
    assert f"cells.csv: {UNSEEN}" in points(tmp_path / "p.html")


def test_of_a_database_without_protected_tables_no_file_need_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "x.db", VISITS, "COPY (FROM suppress('visits', ['ward'], [], n := 10)) TO 'cells.csv'")
    assert run("x.db", "--out", "p.html", "--file", "cells.csv").exit_code == 0
    assert not any(UNSEEN in one for one in points(tmp_path / "p.html"))
    made(tmp_path / "x.db", "CREATE TABLE persons AS SELECT 1 AS age", "SELECT protect('persons', epsilon := 1)")
    assert run("x.db", "--out", "p.html", "--force", "--file", "cells.csv").exit_code == 0
    assert not any(UNSEEN in one for one in points(tmp_path / "p.html"))


def test_tables_can_be_named(tmp_path: Path) -> None:
    database = made(
        tmp_path / "x.db",
        "CREATE TABLE a AS SELECT i % 2 AS x, i AS y FROM range(6) r(i)",
        "CREATE TABLE b AS SELECT i % 2 AS r, i % 3 AS c, i + 1 AS n FROM range(6) r(i)",
    )
    page = tmp_path / "page.html"
    named = ["--released", "a", "--qi", "x", "--released", "a", "--qi", "x,y"]
    named += ["--shares", "b", "--rows", "r", "--cols", "c", "--count", "n", "--released", "gone", "--qi", "x"]
    result = run(str(database), "--out", str(page), *named)
    assert result.exit_code == 0, result.output
    said = plain(page.read_text(encoding="utf-8"))
    assert "a: each record looks like 2 others or more (k = 3)." in said
    assert "a: k is 1. 6 records can be told from all others." in said
    assert "b, r by c 21 2 3" in said
    assert "gone could not be judged: " in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    sampled(
        [
            (["no.db", "--out", "p.html"], "There is no file no.db."),
            (["x.csv", "--out", "p.html"], "x.csv is no DuckDB database"),
            (["x.db", "--out", "p.pdf"], "a report's name ends in .html"),
            (["x.db", "--out", "p.html", "--released", "t"], "Each --released needs its own --qi"),
            (["x.db", "--out", "p.html", "--shares", "t"], "Each --shares needs its own --rows and --cols"),
            (["x.db", "--out", "p.html", "--table", "t"], "name a released table with --released"),
            (["x.csv", "--qi", "a", "--released", "t"], "belong to a page"),
            (["x.csv", "--qi", "a", "--file", "t.csv"], "belong to a page"),
            (["x.db", "--out", "p.html", "--file", "no.csv"], "--file: there is no file no.csv."),
            (["x.db", "--out", "p.html", "--file", "x.db"], "--file x.db is a database"),
            (
                [*"x.db --out p.html --shares t --rows a --cols b --p c".split()],
                "Shares need both --p, their column, and",
            ),
            ([*"x.db --out p.html --shares t --rows a --cols b --p c --n 9 --count d".split()], "name one of them"),
            (
                [*"x.db --out p.html --shares t --rows a --cols b --p c --n 9 --p e".split()],
                "Give --p for each of --shares",
            ),
            (["there.html", "--out", "there.html"], "there.html exists already"),
        ]
    ),
)
def test_complaints_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "x.db")
    (tmp_path / "x.csv").write_text("a\n1\n")
    (tmp_path / "there.html").write_text("")
    result = run(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "p.html").exists()


def test_without_qi_or_a_page_the_usage_is_wrong() -> None:
    assert run("x.csv").exit_code == 2


def test_the_dark_page_changes_the_colours_that_pictures_have(text: str) -> None:
    from duckanon.integrations.plots.style import FAINT, INK, QUIET, STYLE, WHITE

    dark = text[text.index("@media screen and (prefers-color-scheme: dark)") : text.index("</style>")]
    for colour in (INK, QUIET, FAINT, STYLE["grid.color"], "#ffffff"):
        assert f': {colour}"]' in dark
    # White and black inside coloured fields stay.
    assert WHITE not in dark


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    needs("browser")
    if chromium is None:
        said = "There is no Chromium here to open the page with."
        if os.environ.get("CI") or os.environ.get("DUCKANON_ALL_EXTRAS"):
            pytest.fail(said)
        pytest.skip(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


CENSUS = (
    "CREATE TABLE census AS SELECT i // 3 AS household, 20 + (hash(i) % 60)::INTEGER AS age, "
    "(hash(i * 7 + 1) % 2)::INTEGER AS sex, CASE WHEN i % 4 > 0 THEN 'i' || hash(i * 3) % 3 END AS illness "
    "FROM range(600) r(i)"
)
UNIT = "SELECT protect('census', epsilon := 1, privacy_unit := 'household', rows_per_unit := 3)"


def copied(name: str, k: int, more: str) -> str:
    return f"CREATE TABLE {name} AS FROM k_anonymize('census', ['age', 'sex'], k := {k}, {more})"


def test_a_copy_with_the_policys_unit_is_not_called_anonymous(tmp_path: Path) -> None:
    database = made(tmp_path / "x.db", CENSUS, UNIT, copied("zz", 5, "drop := ['illness']"))
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    assert any(
        one.startswith("main.zz: household links the records of each household,")
        and "k holds for each record, and does not hold for household" in one
        and one.endswith("Leave it out with drop := ['household'].")
        for one in points(page)
    )
    said = plain(page.read_text(encoding="utf-8"))
    assert re.search(
        r"main.zz: each class, taken by itself, has records of \d+ or more of \d+ values of household.", said
    )
    assert "main.zz: each record looks like" not in said


def test_a_column_that_seems_to_link_records_is_named(tmp_path: Path) -> None:
    database = made(
        tmp_path / "x.db",
        CENSUS,
        copied("linked", 5, "drop := ['illness']"),
        copied("plain", 5, "drop := ['household']"),
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page), "--sensitive", "").exit_code == 0
    assert any(one.startswith("main.linked: A few records share each value of household:") for one in points(page))
    said = plain(page.read_text(encoding="utf-8"))
    assert "main.plain: each record looks like 4 others or more (k = 5)." in said
    assert "of illness:" not in said


def test_releases_of_one_table_side_by_side(tmp_path: Path) -> None:
    database = made(
        tmp_path / "x.db",
        CENSUS,
        copied("fine", 5, "drop := ['household']"),
        copied("coarse", 20, "drop := ['household'], within := 'fine'"),
        copied("other", 7, "drop := ['household']"),
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page)).exit_code == 0
    (said,) = [one for one in points(page) if "releases of main.census" in one]
    assert said.startswith(
        "3 releases of main.census: main.coarse, main.fine, main.other. Within main.fine, so that they tell nothing "
        "more: main.coarse. Not proven to be within main.fine: main.other. Whoever has main.fine and one of these can "
        "intersect their classes, and fewer than k records may be left: "
    )
    with duckdb.connect(str(database)) as con:
        con.execute("DROP TABLE other").fetchall()
    assert run(str(database), "--out", str(page), "--force").exit_code == 0
    assert not any("releases of" in one for one in points(page))
    assert "2 releases of main.census: main.coarse, main.fine. Within main.fine" in plain(page.read_text("utf-8"))


def test_a_class_of_one_value_and_of_missing_ones_gives_it_away(tmp_path: Path) -> None:
    database = made(
        tmp_path / "x.db",
        "CREATE TABLE r AS SELECT 1 + i // 6 AS class_id, i // 6 AS age_lo, i // 6 AS age_hi, CASE WHEN i % 6 = 0 OR "
        "i >= 12 THEN 'i' || i % 2 ELSE CASE WHEN i >= 6 THEN 'i' || i % 2 END END AS illness FROM range(18) r(i)",
    )
    page = tmp_path / "page.html"
    assert run(str(database), "--out", str(page), "--sensitive", "illness").exit_code == 0
    assert f"main.r gives away illness of 6 records: {AGREED}" in points(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_opens_it_without_a_network(browser: Any, written: Path, scheme: str) -> None:
    context = browser.new_context(offline=True, viewport={"width": 800, "height": 1000}, color_scheme=scheme)
    page = context.new_page()
    asked, told = [], []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: told.append(one.text))
    page.on("pageerror", lambda one: told.append(str(one)))
    page.goto(written.as_uri())
    assert asked == [written.as_uri()]
    assert told == []
    assert page.get_by_role("heading", level=1).inner_text() == "Privacy report: shop.duckdb"
    assert page.get_by_role("heading", level=2).count() == 12
    assert page.get_by_role("table").count() == 9
    assert page.get_by_role("img").count() == 4
    # Nothing is wider than the window, and text stands out from its ground.
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    ink, paper = page.evaluate(
        "(s => [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)))"
        "(getComputedStyle(document.body))"
    )
    assert abs(ink - paper) > 400
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert re.search(rb"/MediaBox\s*\[0 0 59[45]\.?\d* 84[12]", pdf)
    context.close()
