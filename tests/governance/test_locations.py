"""Which table a name means: the search path, quotes, temporary tables, other databases, files."""

from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.catalog.names import parts, quoted
from duckanon.errors import InvalidInput
from duckanon.functions import sqltext
from duckanon.governance.locations import Location, expected, locate


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("persons", ["persons"]),
        ("a.persons", ["a", "persons"]),
        ('a."b.c"', ["a", "b.c"]),
        ('"say ""so"""', ['say "so"']),
        ("a.b.c", ["a", "b", "c"]),
        ("a.b.c.d", ["a.b.c.d"]),
        ("people..csv", ["people..csv"]),
        ('half"quoted', ['half"quoted']),
        ("", [""]),
    ],
)
def test_parts(name: str, found: list[str]) -> None:
    assert parts(name) == found


def sees(con: duckdb.DuckDBPyConnection, name: str) -> Any:
    ((found,),) = con.execute(f"SELECT {sqltext.seen(name)}").fetchall()
    return found


@pytest.fixture
def databases(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    for statement in (
        "ATTACH ':memory:' AS other",
        "CREATE TABLE other.persons(i INT)",
        "CREATE TABLE Persons(i INT)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.persons(i INT)",
        'CREATE TABLE s."odd.name"(i INT)',
        "CREATE VIEW v AS FROM persons",
        "CREATE TEMP TABLE t(i INT)",
    ):
        con.execute(statement).fetchall()
    return con


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("persons", ("memory", "main", "Persons")),
        ("PERSONS", ("memory", "main", "Persons")),
        ("s.persons", ("memory", "s", "persons")),
        ("memory.s.persons", ("memory", "s", "persons")),
        ("other.persons", ("other", "main", "persons")),
        ("other.main.persons", ("other", "main", "persons")),
        ('s."odd.name"', ("memory", "s", "odd.name")),
        ("v", ("memory", "main", "v")),
        ("t", ("memory", "temp", "t")),
        ("people.csv", ("memory", None, "people.csv")),
        ("nobody", ("memory", None, "nobody")),
    ],
)
def test_locate(databases: duckdb.DuckDBPyConnection, name: str, place: tuple[str, str | None, str]) -> None:
    found = locate(name, sees(databases, name))
    assert (found.database, found.schema, found.name) == place
    assert found.lasting == (place[1] not in (None, "temp"))
    assert ("FROM persons" in found.definition) == (name == "v")


def test_the_search_path_decides(databases: duckdb.DuckDBPyConnection) -> None:
    databases.execute("USE other").fetchall()
    assert locate("persons", sees(databases, "persons")).database == "other"
    databases.execute("USE memory.s").fetchall()
    assert locate("persons", sees(databases, "persons")).schema == "s"
    assert locate("v", sees(databases, "v")).schema == "main"
    databases.execute("USE memory; SET search_path = 'main,s'").fetchall()
    assert locate('"odd.name"', sees(databases, '"odd.name"')).schema == "s"
    databases.execute("CREATE TEMP TABLE persons(i INT)").fetchall()
    assert locate("persons", sees(databases, "persons")).schema == "temp"


def test_a_view_of_another_database_finds_its_neighbours(databases: duckdb.DuckDBPyConnection) -> None:
    """DuckDB looks for a view's tables beside the view, which the caller's search path does not tell."""
    databases.execute("USE other").fetchall()
    for name in ("s.persons", '"odd.name"', 's."odd.name"'):
        assert locate(name, sees(databases, name)).database == "memory"
    databases.execute('CREATE SCHEMA other.s; CREATE SCHEMA other.r; CREATE TABLE other.s."odd.name"(i INT)').fetchall()
    assert locate('s."odd.name"', sees(databases, '"odd.name"')).database == "other"
    with pytest.raises(InvalidInput, match="is the name of several tables: write its database and schema before it"):
        locate('"odd.name"', sees(databases, '"odd.name"'))
    for name in ("tables", "r.persons", "memory.r.persons"):
        assert locate(name, sees(databases, name)).schema is None


def test_a_temporary_table_is_its_connection_s(databases: duckdb.DuckDBPyConnection) -> None:
    with databases.cursor() as other:
        assert locate("t", sees(duckanon.register(other), "t")).schema is None


def test_tables_that_are_gone(databases: duckdb.DuckDBPyConnection) -> None:
    seen = sees(databases, "gone")
    assert expected("gone", seen) == Location("memory", "main", "gone")
    assert expected("s.gone", seen) == Location("memory", "s", "gone")
    assert expected("other.s.gone", seen) == Location("other", "s", "gone")


def test_labels_and_identity() -> None:
    assert Location("d", "main", "Persons").identity == Location("e", "MAIN", "persons").identity
    assert Location("d", None, "A.csv").identity != Location("d", None, "a.csv").identity
    assert [Location("d", "main", "a").label, Location("d", None, "a.csv").label] == ["main.a", "a.csv"]


def test_names_mean_what_they_mean_to_duckdb(con: duckdb.DuckDBPyConnection) -> None:
    """Each name, written in every way, is looked up by DuckDB and by us: the same table, or none."""
    names = ["a", "É", "é", "ß", "ſ", "\u212a", "a.b", 'q"q', "x y", "select", "İ"]
    con.execute('CREATE SCHEMA "S.É"').fetchall()
    for schema in ("main", '"S.É"'):
        for number, name in enumerate(names):
            con.execute(
                f"CREATE TABLE {schema}.{quoted([name])} AS SELECT '{schema}' AS home, {number} AS n"
            ).fetchall()
    found = 0
    for name in names:
        for written in {name, name.upper(), name.lower(), name.swapcase(), name.casefold()}:
            for before in ("", "main.", 'MEMORY."Main".', '"s.É".', '"S.é".', 'memory."s.É".'):
                whole = f"{before}{quoted([written])}"
                try:
                    ((home, number),) = con.execute(f"FROM {whole}").fetchall()
                except duckdb.CatalogException:
                    assert not locate(whole, sees(con, whole)).lasting, whole
                    continue
                place = locate(whole, sees(con, whole))
                assert (place.schema, place.name) == (home.strip('"'), names[number]), whole
                found += 1
    assert found > 80
