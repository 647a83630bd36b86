"""Publications below SQL's words: copies that stay, orders that say nothing, names, other writers, withdrawal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.udf import Instance
from duckanon.governance.content_hash import described, fingerprint, kept
from duckanon.governance.instance import Governance, governance_of
from tests.governance.without_sql import seen

COUNTS = Terms(("state",), (), "n")


def nothing(_: duckdb.DuckDBPyConnection, __: Candidate) -> bool:
    """An audit that lets everything out."""
    return True


@pytest.fixture
def made(con: duckdb.DuckDBPyConnection) -> Governance:
    con.execute("CREATE TABLE persons AS SELECT i % 3 AS state, i AS person FROM range(60) r(i)").fetchall()
    con.execute("SELECT protect('persons', epsilon := 1, public := ['state'])").fetchall()
    con.execute(
        "CREATE TABLE n AS SELECT state, count(*) AS n FROM persons GROUP BY state ORDER BY hash(state)"
    ).fetchall()
    return governance_of(Instance(con).identity, con)


def publish(made: Governance, name: str = "n", audit: Any = nothing, terms: Terms = COUNTS, **more: Any) -> str:
    return made.publications.publish(name, seen(name, **more), "persons", seen("persons"), terms, audit)


def test_the_copy_is_sorted_and_stays_what_it_was(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    assert publish(made) == "n, counts of main.persons by state, is published: analysts read it as n."
    con.execute("DELETE FROM n; DROP TABLE n").fetchall()
    assert con.execute("FROM duckanon.n").fetchall() == [(0, 20), (1, 20), (2, 20)]
    (one,) = made.ledger.state("memory").publications.values()
    assert (one.name, one.kind, one.columns, one.types) == ("n", "counts", ("state", "n"), ("BIGINT", "BIGINT"))
    assert (one.variables, one.given, one.value, one.edition, one.withdrawn) == (("state",), (), "n", 1, False)
    assert one.content == fingerprint(con, "duckanon.n", described(con, "duckanon.n"))
    assert one.records == fingerprint(con, "persons", described(con, "persons"))
    (line,) = [line for line in made.lines() if line["action"] == "publish"]
    assert line["what"] == "publish: n, counts of main.persons by state"
    assert line["population"] == "main.persons"


def test_what_the_audit_raises_leaves_nothing(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    def never(_: duckdb.DuckDBPyConnection, __: Candidate) -> bool:
        raise InvalidInput("no")

    before = con.execute("FROM duckdb_tables() SELECT schema_name, table_name ORDER BY ALL").fetchall()
    with pytest.raises(InvalidInput, match=r"^no$"):
        publish(made, audit=never)
    assert before == con.execute("FROM duckdb_tables() SELECT schema_name, table_name ORDER BY ALL").fetchall()
    assert [line["action"] for line in made.lines()] == ["protect"]


@pytest.mark.parametrize("change", ["UPDATE n SET n = n + 1", "INSERT INTO persons VALUES (5, 5)"])
def test_what_is_changed_while_it_is_audited_is_audited_again(
    con: duckdb.DuckDBPyConnection, made: Governance, change: str
) -> None:
    seen_: list[str] = []

    def late(_: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
        seen_.append(candidate.content)
        if len(seen_) == 1:
            con.execute(change).fetchall()
        return True

    publish(made, audit=late)
    assert len(seen_) == 2
    (one,) = made.ledger.state("memory").publications.values()
    assert one.content == seen_[1] == fingerprint(con, "duckanon.n", described(con, "duckanon.n"))
    assert one.records == fingerprint(con, "persons", described(con, "persons"))


def test_what_is_published_while_another_is_audited_is_audited_with_it(
    con: duckdb.DuckDBPyConnection, made: Governance
) -> None:
    con.execute("CREATE TABLE m AS FROM n").fetchall()
    known: list[list[str]] = []

    def late(_: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
        known.append([one.name for one in candidate.earlier])
        if len(known) == 1:
            publish(made, "m")
        return True

    publish(made, audit=late)
    assert known == [[], ["m"]]


def test_a_view_that_gives_other_rows_each_time_is_no_release(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    con.execute("CREATE VIEW v AS SELECT state, n, random() AS r FROM n").fetchall()
    with pytest.raises(InvalidInput, match="change while they are audited: make the release a table"):
        publish(made, "v")
    assert "v" not in made.ledger.state("memory").publications
    con.execute("CREATE VIEW w AS SELECT state, n FROM n").fetchall()
    assert publish(made, "w").endswith("analysts read it as w.")


@pytest.mark.parametrize("name", ["meta", "LEDGER", "answers", "releases", "answer_1", "Domain_2_0", "persons"])
def test_names_that_mean_something_else(con: duckdb.DuckDBPyConnection, made: Governance, name: str) -> None:
    con.execute(f"CREATE TABLE IF NOT EXISTS {name} AS FROM n").fetchall()
    with pytest.raises(InvalidInput, match="give the release another name"):
        publish(made, name)


def test_what_is_withdrawn_stays_in_the_ledger_and_keeps_its_name(
    con: duckdb.DuckDBPyConnection, made: Governance
) -> None:
    publish(made)
    assert made.publications.unpublish("N", seen()).startswith("N is withdrawn. ")
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM duckanon.n")
    assert made.publications.unpublish("n", seen()) == "n was withdrawn before: nothing has changed."
    with pytest.raises(InvalidInput, match="A release named n was published before"):
        publish(made)
    (one,) = made.ledger.state("memory").publications.values()
    assert one.withdrawn
    con.execute("CREATE TABLE m AS FROM n").fetchall()
    known: list[str] = []

    def look(_: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
        known.extend(one.name for one in candidate.earlier)
        return True

    publish(made, "m", look)
    assert known == ["n"]
    assert [(one["name"], one["withdrawn"]) for one in made.publications.listed()] == [("n", True), ("m", False)]


def test_a_name_is_the_same_with_other_letters(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    publish(made)
    con.execute('CREATE SCHEMA other; CREATE TABLE other."N" AS FROM n').fetchall()
    with pytest.raises(InvalidInput, match="A release named N was published before"):
        made.publications.publish(
            "other.N",
            {**seen(), "found": [{"database": "memory", "schema": "other", "name": "N", "definition": ""}]},
            "persons",
            seen("persons"),
            COUNTS,
            nothing,
        )


def test_only_what_is_committed_is_published(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    con.execute("CREATE TEMP TABLE t AS FROM n").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match=r"t is no table or view that lasts"):
        con.execute("SELECT publish('t', variables := ['state'], value := 'n')").fetchall()
    con.execute("BEGIN; CREATE TABLE late AS FROM n").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match=r"late or main\.persons cannot be read"):
        con.execute("SELECT publish('late', variables := ['state'], value := 'n')").fetchall()
    con.execute("ROLLBACK").fetchall()
    with pytest.raises(InvalidInput, match="is no table or view that lasts"):
        made.publications.publish(
            "duckanon.ledger",
            {**seen(), "found": [{"database": "memory", "schema": "duckanon", "name": "ledger", "definition": ""}]},
            None,
            None,
            COUNTS,
            nothing,
        )


def test_it_follows_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a.duckdb")
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i % 3 AS state FROM range(60) r(i)").fetchall()
        con.execute("SELECT protect('persons', epsilon := 1, public := ['state'])").fetchall()
        con.execute("CREATE TABLE n AS SELECT state, count(*) AS n FROM persons GROUP BY state").fetchall()
        con.execute("BEGIN").fetchall()
        con.execute("SELECT publish('n', variables := ['state'], value := 'n')").fetchall()
        con.execute("ROLLBACK").fetchall()
    (tmp_path / "a.duckdb").rename(tmp_path / "b.duckdb")
    with duckanon.connect(str(tmp_path / "b.duckdb"), role="steward") as con:
        found = con.execute("FROM publications() SELECT name, kind, withdrawn").fetchall()
        assert found == [("n", "counts", False)]
        assert len(con.execute("FROM duckanon.n").fetchall()) == 3


def test_fingerprints(con: duckdb.DuckDBPyConnection) -> None:
    def of(query: str) -> str:
        con.execute(f"CREATE OR REPLACE TABLE f AS {query}").fetchall()
        return fingerprint(con, "f", described(con, "f"))

    one = of("SELECT * FROM (VALUES (1, 'a'), (2, NULL), (2, NULL)) v(x, y)")
    assert one == of("SELECT * FROM (VALUES (2, NULL), (1, 'a'), (2, NULL)) v(x, y)")
    for other in (
        "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v(x, y)",
        "SELECT * FROM (VALUES (1, 'a'), (2, 'NULL'), (2, NULL)) v(x, y)",
        "SELECT * FROM (VALUES (1, 'a'), (2, NULL), (2, NULL)) v(x, z)",
        "SELECT x::BIGINT AS x, y FROM (VALUES (1, 'a'), (2, NULL), (2, NULL)) v(x, y)",
        "SELECT x, NULL::VARCHAR AS y FROM (VALUES (1), (2), (2)) v(x)",
    ):
        assert of(other) != one
    assert of("SELECT 'a:b' AS x, 'c' AS y") != of("SELECT 'a' AS x, 'b:c' AS y")
    assert of("SELECT ['a, b', 'c'] AS x") == of("SELECT ['a, b', 'c']::ENUM('a, b', 'c')[] AS x")
    assert of("SELECT 1 AS x WHERE false") != of("SELECT 1 AS y WHERE false")
    assert kept("ENUM('a', 'b')[]") == "VARCHAR[]"
    with pytest.raises(InvalidInput, match="cast it"):
        kept("STRUCT(x ENUM('a'))")
