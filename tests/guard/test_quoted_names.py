"""What sentences propose as SQL is SQL whatever the names are: reserved words, and names with quotes in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

import duckanon
from duckanon.catalog.names import fold, literal, quoted, spelled
from duckanon.errors import DuckanonError
from duckanon.integrations.calls import as_options, split
from duckanon.rewrite.admit import admit

# Person, household, region, number, and a column that nothing is known of.
COLUMNS = {
    "reserved": ("all", "order", "group", "limit", "from"),
    "quotes": ('p"1', 'h"', "r's", "l\"i'm", "it's"),
    "blanks": ("der Hut", "1st", "größe", "a.b", "-- c"),
}
TABLES = ("select", "o'clock", "two words", "Größen")
REFUSED = (
    "SELECT * FROM {t}",
    "SUMMARIZE {t}",
    "SELECT {region}, max({number}) FROM {t} GROUP BY 1",
    "SELECT {other}, count(*) FROM {t} GROUP BY 1",
    "SELECT {region}, sum({other}) FROM {t} GROUP BY ALL",
    "FROM k_anonymize({call}, [{number_text}])",
    "FROM dp_group_sizes({call}, {unit_text}, epsilon := 1000, max_size := 4)",
)


@pytest.fixture(scope="module", params=[(table, kind) for table in TABLES for kind in COLUMNS], ids=str)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    table, kind = request.param
    path = tmp_path_factory.mktemp("names") / "people.duckdb"
    person, unit, region, number, other = COLUMNS[kind]
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            f"CREATE TABLE {quoted([table])} AS SELECT i AS {quoted([person])}, i // 3 AS {quoted([unit])}, "
            f"['x', 'y'][1 + i // 3 % 2] AS {quoted([region])}, i % 90 AS {quoted([number])}, i % 7 AS "
            f"{quoted([other])} FROM range(60) r(i)"
        )
        con.execute(
            f"SELECT protect({literal(quoted([table]))}, population := 'p', epsilon := 100, per_query := '0.1', "
            f"privacy_unit := {literal(person)}, rows_per_unit := 1, unit := {literal(unit)}, max_size := 4, public := "
            f"[{literal(region)}], domains := {{{literal(region)}: ['x', 'y']}}, quasi_identifiers := "
            f"[{literal(number)}], bounds := {{{literal(number)}: [0, 90]}})"
        ).fetchall()
    return path, table, kind


def test_what_refusals_offer_is_answered(made: tuple[Path, str, str]) -> None:
    path, table, kind = made
    _, unit, region, number, other = COLUMNS[kind]
    names = {"region": region, "number": number, "other": other, "t": table}
    parts = {one: quoted([name]) for one, name in names.items()}
    parts |= {"call": literal(quoted([table])), "number_text": literal(number), "unit_text": literal(unit)}
    offered: set[str] = set()
    with duckanon.connect(path, role="analyst") as con:
        for statement in REFUSED:
            with pytest.raises(DuckanonError) as refused:
                con.execute(statement.format(**parts)).fetchall()
            said = str(refused.value).partition("What may be asked: ")[2].removesuffix(".")
            offered |= {one for one in re.split(r" or (?=FROM |SELECT )", said) if one}
            pasted = re.search(r": (FROM dp_group_sizes\(.*\))\.$", str(refused.value))
            offered |= {pasted[1]} if pasted is not None else set()
        assert any(one.startswith("SELECT ") for one in offered)
        assert any(one.startswith("FROM dp_group_sizes(") for one in offered)
        for one in offered:
            con.execute(one).fetchall()


def test_what_a_steward_is_told_to_write_is_sql(made: tuple[Path, str, str]) -> None:
    path, table, kind = made
    person, unit, region, number, _ = COLUMNS[kind]
    call = literal(quoted([table]))
    with duckanon.connect(path, role="steward") as con:
        with pytest.raises(duckdb.Error) as refused:
            con.execute(f"SELECT protect({call}, epsilon := 3, population := 'q')").fetchall()
        undo = re.search(r"(unprotect\(.*\)) first, since", str(refused.value))
        assert undo is not None
        con.execute(f"BEGIN; SELECT {undo[1]}; ROLLBACK").fetchall()
        with pytest.raises(duckdb.Error) as refused:
            con.execute(f"FROM k_anonymize({call}, [{literal(region)}])").fetchall()
        named = re.search(r"categorical := \[.*?\] to release", str(refused.value))
        assert named is not None
        argument = named[0].removesuffix(" to release")
        con.execute(f"FROM k_anonymize({call}, [{literal(region)}], {argument})").fetchall()
        with pytest.raises(duckdb.Error) as refused:
            con.execute(
                f"FROM dp_group_sizes({call}, {literal(unit)}, epsilon := 0.1, max_size := 3, hierarchy := "
                f"[{literal(number)}], person := {literal(person)})"
            ).fetchall()
        # DuckDB writes its own text around the sentence.
        view = re.search(r"with (\".*) as the unit; .* with (QUALIFY .*)\.", str(refused.value))
        assert view is not None, str(refused.value)
        con.execute(f"SELECT {view[1]} FROM {quoted([table])} {view[2]}").fetchall()


def test_a_word_is_quoted_where_a_parser_takes_it_for_another_thing() -> None:
    """Both of them: sqlglot's, by which the guard decides, and DuckDB's."""
    con = duckdb.connect()
    words = [word for (word,) in con.execute("SELECT DISTINCT keyword_name FROM duckdb_keywords()").fetchall()]
    assert len(words) > 400
    for word in [*words, *(one.upper() for one in words), "a b", 'a"b', "1a", "größe", "_a1", "persons"]:
        sql = f"SELECT {spelled([word])}, count(*) FROM {spelled([word])} GROUP BY {spelled([word])}"
        tree = admit(sql).tree
        assert {one.name for one in tree.find_all(exp.Column, exp.Table)} == {word}
        con.execute(f"CREATE OR REPLACE TABLE {quoted([word])} AS SELECT 1 AS {quoted([word])}")
        con.execute(sql).fetchall()
        con.execute(f"DROP TABLE {quoted([word])}")
    assert spelled(["persons"]) == "persons"
    assert spelled(["main", "persons"]) == "main.persons"
    assert fold(spelled(["SELECT"])) == '"select"'


def test_options_name_what_the_sentence_names() -> None:
    """A shell takes the option's text apart as the command line does."""
    for name in ("zip", "it's", "a, b", 'x"y', "x] y"):
        said = as_options(f"Leave it out with drop := [{literal(name)}, 'town'].")
        option, value = shlex.split(said.removeprefix("Leave it out with ").removesuffix("."))
        assert (option, split([value])) == ("--drop", [name, "town"])
