"""The report in German: no sentence of it is left in English, and it has the figures of the English page."""

import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duckanon.integrations.cli.commands import app
from duckanon.integrations.translations import catalogue, exact, speaking
from tests.integrations.report.databases import made

# Words that any English sentence has, and no name in the databases here.
ENGLISH = re.compile(r"\b(the|of|and|is|are|by|with|that|which|from|for|each|records?|counts?|table)\b", re.IGNORECASE)
FIELD = re.compile(r"\\{\w+\\}")
# A number of the page: also a day, an exact fraction or a share.
NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")


@pytest.fixture(scope="module")
def flats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with what the shop lacks: a delta, a cap, copies that link households, and several of one table."""
    return made(
        tmp_path_factory.mktemp("flats") / "flats.duckdb",
        "CREATE TABLE persons AS SELECT i // 3 AS household, 20 + (hash(i) % 400)::INT AS age, i % 5 AS rooms, "
        "'i' || (i % 3) AS illness, 's' || (i % 2) AS state FROM range(2400) r(i)",
        "SELECT protect('persons', population := 'homes', privacy_unit := 'household', rows_per_unit := 3, "
        "epsilon := 1, delta := 1e-6, per_query := 0.001, per_edition := 0.01, domains := {'state': ['s0', 's1']}, "
        "quasi_identifiers := ['age'], sensitive := ['illness'], \"drop\" := ['rooms'], bounds := {'age': [0, 500]})",
        "CREATE TABLE first AS FROM k_anonymize('persons', ['age'], k := 5, drop := ['household'], unit := '')",
        "CREATE TABLE second AS FROM k_anonymize('persons', ['age'], k := 4, method := 'mondrian', unit := '')",
        "CREATE TABLE third AS FROM k_anonymize('persons', ['age'], k := 50, within := 'first', drop := ['household'], "
        "unit := '')",
        "CREATE TABLE none AS FROM first LIMIT 0",
        "CREATE TABLE unlinked AS SELECT age, illness FROM persons",
        "CREATE TABLE agreed AS SELECT i // 5 AS class_id, i // 5 AS age_lo, i // 5 AS age_hi, 'p' || i AS patient, "
        "CASE WHEN i < 10 THEN 'i0' ELSE 'i' || (i % 2) END AS illness FROM range(40) r(i)",
        "CREATE TABLE shares AS SELECT i // 3 AS ward, i % 3 AS better, 1 / 3 AS share FROM range(30) r(i)",
    )


def page(database: Path, folder: Path, language: str) -> str:
    out = folder / f"{database.stem}-{language}.html"
    arguments = ["report", str(database), "--out", str(out), "--language", language]
    result = CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=["shop", "flats"])
def pages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The page of a database in both languages."""
    database, folder = request.getfixturevalue(request.param), tmp_path_factory.mktemp("pages")
    english, german = (page(database, folder, language) for language in ("en", "de"))
    return english, german


def plain(text: str) -> str:
    """All words of a page and of its pictures, but for what is quoted as code, and the names of versions."""
    shown, _, _versions = text.partition('<h2 id="versions">')
    body = re.sub(r"<(style|code|title).*?</\1>", "", shown, flags=re.DOTALL)
    labels = " ".join(re.findall(r'aria-label="([^"]*)"', body))
    return " ".join(unescape(f"{re.sub(r'<[^>]+>', ' ', body)} {labels}").split())


def test_no_sentence_is_left_in_english(pages: tuple[str, str]) -> None:
    english, german = pages
    told = plain(german)
    assert ENGLISH.findall(told) == []
    assert ENGLISH.search(plain(english))
    for message, translations in catalogue("de").items():
        words = re.sub(r"<[^>]+>", "", message).strip()
        if message not in translations and len(words.split()) > 2:
            pattern = FIELD.sub(".{1,60}?", re.escape(words))
            assert not re.search(pattern, told), message


def test_figures_are_those_of_the_english_page(pages: tuple[str, str]) -> None:
    english, german = ([*cells(one)] for one in pages)
    with speaking("de"):
        assert [exact(one) if NUMBER.fullmatch(one) else one for one in english] == german
    assert len(english) > 50


def cells(text: str) -> list[str]:
    """The cells of tables that are numbers, without those that say in words that there is none."""
    found = [unescape(one) for one in re.findall(r'<td class="number">(.*?)</td>', text, flags=re.DOTALL)]
    return [one.removesuffix(" %") for one in found if re.fullmatch(r"[-\d.,/]+( %)?", one)]


def test_the_first_part_has_the_same_numbers_in_both(pages: tuple[str, str]) -> None:
    def numbers(text: str, language: str) -> Counter[str]:
        part = plain(text[text.index('<h2 id="points">') : text.index('<h2 id="policies">')])
        found = NUMBER.findall(part)
        return Counter(found if language == "de" else map(exact, found))

    english, german = pages
    with speaking("de"):
        assert numbers(english, "en") == numbers(german, "de")


def test_days_and_numbers_are_written_as_german_does(pages: tuple[str, str]) -> None:
    _english, german = pages
    assert '<html lang="de">' in german
    assert re.search(r"Erstellt \d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d UTC", plain(german))
    assert re.search(r"\d{1,3}(\.\d{3})+ Bytes", plain(german))
    assert not re.search(r"\d{4}-\d\d-\d\d", plain(german))
    assert not re.search(r"\d\.\d+ %", plain(german))


def test_a_language_belongs_to_a_page(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    result = CliRunner().invoke(app, ["report", str(tmp_path / "x.csv"), "--qi", "a", "--language", "de"])
    assert result.exit_code == 1
    assert "--language and --force belong to a page" in result.output
