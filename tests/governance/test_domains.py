"""Where keys come from: lists, ENUMs and open tables, which are copied; and which tables are open."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.catalog.domain_sources import Range, WithNull
from duckanon.catalog.policy import Policy, obstacle
from duckanon.errors import InvalidInput
from duckanon.governance.domains import Domains
from duckanon.governance.ledger_state import LedgerState, Line
from duckanon.governance.locations import Location
from tests.governance.without_sql import governance

MISFIT = (
    'The domain of "{}" does not fit the column: its values must be of the column\'s type, and an open table must have '
    "the column under the same name, or the domain names another one of it, as in 'items.item_id'."
)


@pytest.fixture
def tables(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    for statement in (
        "CREATE TYPE sex AS ENUM ('f', 'it''s', 'm')",
        "CREATE TABLE persons(person INT, state VARCHAR, county INT, price DECIMAL(5, 2), sex sex, day DATE, "
        "flag BOOLEAN, weight DOUBLE)",
        "CREATE TABLE counties AS FROM (VALUES ('GA', 1), ('GA', 2), ('NY', 3), ('NY', 3)) v(State, county)",
        "SELECT open_table('counties')",
    ):
        con.execute(statement).fetchall()
    return con


def protect(con: duckdb.DuckDBPyConnection, domains: str, rest: str = "") -> list[list[tuple[Any, ...]]]:
    """Protect the persons anew; the rows of each copied domain."""
    con.execute("SELECT unprotect('persons')").fetchall()
    con.execute(f"SELECT protect('persons', epsilon := 1, domains := {domains}{rest})").fetchall()
    ((number,),) = con.execute("SELECT max(number) FROM privacy_ledger()").fetchall()
    names = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, ?) ORDER BY ALL", [f"domain_{number}_"]
    ).fetchall()
    return [con.execute(f"FROM duckanon.{name} ORDER BY ALL NULLS LAST").fetchall() for (name,) in names]


def refused(con: duckdb.DuckDBPyConnection, domains: str, rest: str = "") -> str:
    lines = "SELECT count(*) FROM privacy_ledger() WHERE action = 'protect'"
    before = con.execute(lines).fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        protect(con, domains, rest)
    assert con.execute(lines).fetchall() == before
    return str(raised.value).removeprefix("Invalid Input Error: ")


def test_lists_are_cast_without_loss(tables: duckdb.DuckDBPyConnection) -> None:
    assert protect(tables, "{'state': ['NY', 'it''s', NULL, 'NY']}") == [[("NY",), ("it's",), (None,)]]
    assert protect(tables, "{'COUNTY': [2, 1]}") == [[(1,), (2,)]]
    assert protect(tables, "{'county': ['2', '1']}") == [[(1,), (2,)]]
    assert [str(one) for ((one,),) in protect(tables, "{'price': [1.25]}")] == ["1.25"]
    assert protect(tables, "{'flag': [true, false]}") == [[(False,), (True,)]]
    assert protect(tables, "{'weight': [0.1, 1e300]}") == [[(0.1,), (1e300,)]]
    assert len(protect(tables, "{'day': ['2020-01-01'], 'state': ['a']}")) == 2
    assert protect(tables, "MAP {'county': [1, 2]}") == [[(1,), (2,)]]


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        ("county", "[1.5]"),
        ("county", "['x']"),
        ("county", "[99999999999]"),
        ("price", "[1.255]"),
        ("price", "[99999]"),
        ("sex", "['x']"),
        ("day", "['soon']"),
        ("flag", "['maybe']"),
        ("price", "'counties'"),
    ],
)
def test_what_does_not_fit_is_refused_without_a_value(
    tables: duckdb.DuckDBPyConnection, column: str, domain: str
) -> None:
    assert refused(tables, f"{{'{column}': {domain}}}") == MISFIT.format(column)


def test_an_enum_shows_its_values_only_where_it_is_the_domain(tables: duckdb.DuckDBPyConnection) -> None:
    assert protect(tables, "{'sex': 'ENUM'}") == [[("f",), ("it's",), ("m",)]]
    assert protect(tables, "{'sex': ['f']}") == [[("f",)]]
    ((number,),) = tables.execute("SELECT max(number) FROM privacy_ledger()").fetchall()
    assert tables.execute(f"SELECT typeof(sex) FROM duckanon.domain_{number}_0").fetchall() == [("VARCHAR",)]
    assert refused(tables, "{'county': 'ENUM'}") == (
        'The domain of "county" is ENUM, and the column is of another type: list the values, or name an open table.'
    )


def test_an_open_table_is_copied(tables: duckdb.DuckDBPyConnection) -> None:
    assert protect(tables, "{'county': 'counties'}") == [[(1,), (2,), (3,)]]
    # With the hierarchy come the combinations; the widest region has no region above it.
    copied = protect(tables, "{'state': 'counties', 'county': 'COUNTIES'}", ", hierarchy := ['state', 'county']")
    assert copied == [[("GA",), ("NY",)], [("GA", 1), ("GA", 2), ("NY", 3)]]
    ((number,),) = tables.execute("SELECT max(number) FROM privacy_ledger()").fetchall()
    tables.execute("DELETE FROM counties; INSERT INTO counties VALUES ('PR', 9); DROP TABLE counties").fetchall()
    found = tables.execute(f"SELECT * FROM duckanon.domain_{number}_1 ORDER BY ALL").fetchall()
    assert found == [("GA", 1), ("GA", 2), ("NY", 3)]


def test_values_of_an_open_table_that_would_be_rounded(tables: duckdb.DuckDBPyConnection) -> None:
    for number, value in enumerate(["1.5", "'01'", "'x'", "300000000000"]):
        tables.execute(f"CREATE TABLE t{number} AS SELECT {value} AS county; SELECT open_table('t{number}')").fetchall()
        assert refused(tables, f"{{'county': 't{number}'}}") == MISFIT.format("county")
    tables.execute('CREATE TABLE "select" AS SELECT 7::TINYINT AS county; SELECT open_table(\'"select"\')').fetchall()
    assert protect(tables, "{'county': '\"select\"'}") == [[(7,)]]


def test_a_column_of_an_open_table_is_copied_whatever_its_name(tables: duckdb.DuckDBPyConnection) -> None:
    tables.execute(
        'CREATE TABLE "my.items"(sk INT, "item""s.name" VARCHAR, price DOUBLE); '
        "INSERT INTO \"my.items\" VALUES (7, 'GA', 0.1), (7, 'NY', 2.5), (3, NULL, 1)"
    ).fetchall()
    assert "which is not open: open_table('\"my.items\"') first" in refused(tables, "{'county': '\"my.items\".sk'}")
    tables.execute("SELECT open_table('\"my.items\"')").fetchall()
    for name in ('"my.items".sk', 'main."MY.items"."SK"', 'memory.main."my.items".sk'):
        assert protect(tables, f"{{'county': '{name}'}}") == [[(3,), (7,)]]
    # What is NULL in the open table is a value of the domain, too.
    assert protect(tables, '{\'state\': \'"my.items"."item""s.name"\'}') == [[("GA",), ("NY",), (None,)]]
    assert refused(tables, "{'county': 'counties.state'}") == MISFIT.format("county")
    assert refused(tables, "{'county': '\"my.items\".price'}") == MISFIT.format("county")
    assert refused(tables, "{'county': 'counties.cuonty'}") == (
        'The domain of "county" is counties.cuonty, and the open table counties has no such column: name one that it '
        "has, or list the values."
    )
    # No record of the table itself is read, and it is not open.
    assert "open_table('persons') first" in refused(tables, "{'county': 'persons.person'}")


def test_a_name_is_a_table_first_and_never_both(tables: duckdb.DuckDBPyConnection) -> None:
    tables.execute("CREATE TABLE pub AS SELECT 1 AS codes, 2 AS shut; SELECT open_table('pub')").fetchall()
    assert protect(tables, "{'county': 'pub.codes'}") == [[(1,)]]
    tables.execute("CREATE SCHEMA pub; CREATE TABLE pub.codes AS SELECT 4 AS county").fetchall()
    both = (
        'The domain of "{}" is pub.codes, which is a table and a column of another one: write the schema too, as in '
        "'main.pub.codes'."
    )
    assert refused(tables, "{'county': 'pub.codes'}") == both.format("county")
    tables.execute("SELECT open_table('pub.codes')").fetchall()
    assert protect(tables, "{'county': 'pub.codes'}") == [[(4,)]]
    assert protect(tables, "{'county': 'main.pub.codes'}") == [[(1,)]]
    assert protect(tables, "{'county': 'pub.codes.county'}") == [[(4,)]]
    assert refused(tables, "{'person': 'pub.codes'}") == both.format("person")


def test_null_stands_beside_what_a_name_or_a_range_lists(tables: duckdb.DuckDBPyConnection) -> None:
    assert protect(tables, "{'person': {'values': 'counties.county', 'nulls': true}}") == [[(1,), (2,), (3,), (None,)]]
    assert protect(tables, "{'county': {'values': 'counties', 'nulls': true}}") == [[(1,), (2,), (3,), (None,)]]
    assert protect(tables, "{'county': {'values': 'counties', 'nulls': false}}") == [[(1,), (2,), (3,)]]
    assert protect(tables, "{'sex': {'values': 'ENUM', 'nulls': true}}") == [[("f",), ("it's",), ("m",), (None,)]]
    assert protect(tables, "{'county': {'from': 1, 'to': 6, 'step': 3, 'nulls': true}}") == [[(1,), (4,), (None,)]]
    assert protect(tables, "{'state': {'values': ['GA'], 'nulls': true}}") == [[("GA",), (None,)]]
    # A list is a list of values, whatever they look like.
    assert protect(tables, "{'state': ['counties.state', NULL]}") == [[("counties.state",), (None,)]]
    for wrong in ("{'values': 'counties', 'nulls': 1}", "{'values': 'counties', 'null': true}", "{'values': 3}"):
        assert refused(tables, f"{{'county': {wrong}}}").startswith('The domain of "county" must be a list of values, ')
    assert refused(tables, "{'county': {'from': 1, 'to': 2, 'nulls': 1}}").startswith('The range of "county" must have')


def test_regions_that_have_other_names_in_the_open_table(tables: duckdb.DuckDBPyConnection) -> None:
    tables.execute("CREATE TABLE places AS SELECT State AS s, county AS c FROM counties").fetchall()
    tables.execute("SELECT open_table('places')").fetchall()
    hierarchy = ", hierarchy := ['state', 'county']"
    pairs = [("GA", 1), ("GA", 2), ("NY", 3)]
    assert protect(tables, "{'state': 'places.s', 'county': 'main.places.c'}", hierarchy)[1] == pairs
    assert protect(tables, "{'STATE': 'counties', 'county': 'counties.county'}", hierarchy)[1] == pairs
    # A state's values are of another table, so nothing says in which state a county lies.
    assert protect(tables, "{'state': 'counties', 'county': 'places.c'}", hierarchy)[1] == [(1,), (2,), (3,)]
    some = [("GA", 1), ("GA", 2), ("GA", None), ("NY", 3), ("NY", None)]
    county = "'county': {'values': 'places.c', 'nulls': true}"
    assert protect(tables, f"{{'state': 'places.s', {county}}}", hierarchy)[1] == some
    state = "'state': {'values': 'places.s', 'nulls': true}"
    assert protect(tables, f"{{{state}, {county}}}", hierarchy)[1] == [*some, (None, None)]


def test_a_range_is_kept_as_a_range(tables: duckdb.DuckDBPyConnection) -> None:
    days = "{'from': DATE '2024-01-31', 'to': DATE '2024-03-01', 'step': 15}"
    assert [str(one) for ((one),) in protect(tables, f"{{'day': {days}}}")[0]] == [
        "2024-01-31", "2024-02-15", "2024-03-01",
    ]  # fmt: skip
    assert protect(tables, "{'weight': {'from': -2, 'to': 2, 'step': 3}}") == [[(-2.0,), (1.0,)]]
    assert len(protect(tables, "{'person': {'from': 1, 'to': 1000000}}")[0]) == 1_000_000
    ((longest,),) = tables.execute("SELECT max(length(what)) FROM privacy_ledger()").fetchall()
    assert longest < 300
    assert "from 1 to 1,000,000 values" in refused(tables, "{'person': {'from': 1, 'to': 1000001}}")
    assert refused(tables, "{'person': {'from': 1, 'to': 9999999999, 'step': 9999999998}}") == MISFIT.format("person")
    assert refused(tables, "{'state': {'from': 1, 'to': 2}}") == MISFIT.format("state")


@pytest.mark.parametrize("nulls", [False, True])
def test_a_range_of_an_earlier_version_is_the_list_of_its_values(nulls: bool) -> None:
    """So that dbt does not set such a policy again, and charge all questions once more."""
    rest = (None,) if nulls else ()
    assert Range(1, 8, 3, nulls) == (1, 4, 7, *rest)
    assert (1, 4, 7, *rest) == Range(1, 7, 3, nulls) == Range(1, 9, 3, nulls)
    assert Range(date(2024, 2, 28), date(2024, 3, 1), 1, nulls) == ("2024-02-28", "2024-02-29", "2024-03-01", *rest)
    for other in ((1, 4, *rest), (1, 4, 8, *rest), "1", Range(1, 8, 2, nulls), Range(1, 8, 3, not nulls)):
        assert Range(1, 8, 3, nulls) != other
    for source in (Range(1, 8, 3, nulls), Range(date(2024, 2, 28), date(2024, 3, 1), 2, nulls), WithNull("a.b")):
        policy = Policy(Fraction(1), domains={"k": source})
        assert Policy.load(json.loads(json.dumps(policy.dump()))) == policy


def test_the_ledger_says_which_open_table_was_copied(tables: duckdb.DuckDBPyConnection) -> None:
    domains = "{'state': 'counties', 'county': 'main.Counties.county', 'person': [1], 'sex': 'ENUM'}"
    protect(tables, domains, ", hierarchy := ['state', 'county']")
    (policy,) = governance(tables).ledger.state("memory").tables.values()
    counties = ("main", "counties")
    assert policy.looked_up == {"state": (counties, "state"), "county": (counties, "county")}
    earlier = {name: replace(one, copied=None) for name, one in policy.domains.items()}
    assert replace(policy, domains=earlier).looked_up == {
        "state": (("", "counties"), "state"),
        "county": (("", "main.counties.county"), "county"),
    }


def test_a_domain_needs_a_table_that_is_open_now(tables: duckdb.DuckDBPyConnection) -> None:
    closed = "The domain of \"county\" is {0}, which is not open: open_table('{0}') first, or list the values."
    tables.execute("CREATE TABLE shut AS SELECT 1 AS county").fetchall()
    for name in ("shut", "nowhere", "a.b.c.d", "duckanon.ledger"):
        assert refused(tables, f"{{'county': '{name}'}}") == closed.format(name)
    # Made again with the same columns it is open, with others it is not.
    tables.execute("CREATE OR REPLACE TABLE Counties AS SELECT 'x' AS STATE, 8 AS county").fetchall()
    assert protect(tables, "{'county': 'counties'}") == [[(8,)]]
    tables.execute("ALTER TABLE counties ADD COLUMN secret INT").fetchall()
    assert refused(tables, "{'county': 'counties'}") == closed.format("counties")
    tables.execute("SELECT close_table('counties'); SELECT open_table('counties')").fetchall()
    assert protect(tables, "{'county': 'counties'}") == [[(8,)]]
    tables.execute("SELECT close_table('counties')").fetchall()
    assert refused(tables, "{'county': 'counties'}") == closed.format("counties")


def test_an_open_table_of_another_schema_is_told(tables: duckdb.DuckDBPyConnection) -> None:
    tables.execute(
        "CREATE SCHEMA ref; CREATE TABLE ref.places AS SELECT 7 AS county, 8 AS code; SELECT open_table('ref.places')"
    ).fetchall()
    for name, told in (("places", "ref.places"), ("Places.code", "ref.places.code")):
        assert refused(tables, f"{{'county': '{name}'}}") == (
            f"The domain of \"county\" is {name}, and the open table is in a schema of its own: write '{told}'."
        )
        assert protect(tables, f"{{'county': '{told}'}}") == [[(7 + name.count("."),)]]
    tables.execute("DROP TABLE ref.places").fetchall()
    assert "which is not open" in refused(tables, "{'county': 'places'}")


def test_dates_of_a_range_may_be_texts(tables: duckdb.DuckDBPyConnection) -> None:
    """As YAML hands them over."""
    tables.execute("CREATE TABLE days (day DATE)").fetchall()
    tables.execute(
        "SELECT protect('days', epsilon := 1, per_query := 1, public := ['day'], "
        "domains := {'day': {'from': '2024-01-01', 'to': '2024-01-31', 'step': 7, 'nulls': true}})"
    ).fetchall()
    policy = governance(tables).ledger.state("memory").tables[("main", "days")].policy
    assert policy.domains["day"] == Range(date(2024, 1, 1), date(2024, 1, 31), 7, True)
    wrong = "{'county': {'from': '2024-01-01T10:00:00', 'to': '2024-01-31'}}"
    assert "must have two whole numbers or dates" in refused(tables, wrong)


def test_a_schema_is_open_with_what_comes_into_it(tables: duckdb.DuckDBPyConnection) -> None:
    tables.execute(
        "CREATE SCHEMA pub; SELECT open_table('pub.*'); CREATE TABLE pub.codes AS SELECT 4 AS county"
    ).fetchall()
    assert protect(tables, "{'county': 'pub.codes'}") == [[(4,)]]
    # What was protected once is not open because its schema is.
    tables.execute("SELECT protect('pub.codes', epsilon := 1); SELECT unprotect('pub.codes')").fetchall()
    assert "which is not open" in refused(tables, "{'county': 'pub.codes'}")
    tables.execute("SELECT open_table('pub.codes')").fetchall()
    assert protect(tables, "{'county': 'pub.codes'}") == [[(4,)]]


def test_a_view_that_came_to_read_a_protected_table_is_no_domain(tables: duckdb.DuckDBPyConnection) -> None:
    """protect reads no record, by no detour either."""
    tables.execute("CREATE VIEW codes AS SELECT county FROM counties; SELECT open_table('codes')").fetchall()
    assert protect(tables, "{'county': 'codes'}") == [[(1,), (2,), (3,)]]
    tables.execute("CREATE TABLE secret AS SELECT 5 AS county; SELECT protect('secret', epsilon := 1)").fetchall()
    tables.execute("CREATE OR REPLACE VIEW codes AS SELECT county FROM secret").fetchall()
    assert "which is not open" in refused(tables, "{'county': 'codes'}")


def test_two_domains_at_the_same_time(tables: duckdb.DuckDBPyConnection) -> None:
    """Who is slower looks again, and is not told that a domain does not fit."""
    for number in range(8):
        tables.execute(f"CREATE TABLE t{number}(county INT)").fetchall()
    makers, ready = [governance(tables) for _ in range(2)], threading.Barrier(8)

    def one(number: int) -> str:
        ready.wait()
        found = [{"database": "memory", "schema": "main", "name": f"t{number}", "definition": ""}]
        seen = {"database": "memory", "schema": "main", "path": "", "found": found}
        terms = {"epsilon": Fraction(1), "domains": {"county": "counties"}}
        return makers[number % 2].decisions.protect(f"t{number}", seen, terms, {"county": "INTEGER"})

    with ThreadPoolExecutor(8) as pool:
        assert all("is protected" in said for said in pool.map(one, range(8)))
    copies = tables.execute("SELECT count(*) FROM duckdb_tables() WHERE starts_with(table_name, 'domain_')").fetchall()
    assert copies == [(8,)]


def test_a_column_that_is_not_there_has_no_domain(tables: duckdb.DuckDBPyConnection) -> None:
    made = Domains(Location("memory", "main", "persons"), {}, governance(tables).ledger)
    with pytest.raises(InvalidInput, match=r'names a column "state", which main\.persons does not have'):
        made.check(Policy(Fraction(1), domains={"state": ("GA",)}), LedgerState())


def test_which_tables_are_open() -> None:
    def line(number: int, action: str, schema: str, table: str, **said: Any) -> Line:
        detail, population = json.dumps(said), "p" if action == "protect" else None
        rest = (None, "", None, None, None, detail)
        return Line(number, datetime(2026, 1, 1), "who", schema, table, population, None, action, *rest)

    state = LedgerState()
    for one in (
        line(1, "open", "Main", "Codes", columns=["a", "Ä"]),
        line(2, "open", "pub", "*", columns=["Any"]),
        line(3, "open", "other", "*", columns=[]),
        line(4, "protect", "pub", "persons", policy={"epsilon": "1", "population": "p"}, domains={}),
    ):
        state = state.after(one)
    assert state.is_open(("main", "codes"), ["A", "Ä"])
    for columns in (["a"], ["a", "ä"], ["Ä", "a"], ["a", "Ä", "b"], []):
        assert not state.is_open(("main", "codes"), columns)
    assert state.is_open(("pub", "any"), ["x"])
    assert not state.is_open(("pub", "later"), ["x"])
    assert state.is_open(("other", "later"), ["x"])
    assert not state.is_open(("pub", "persons"), ["x"])
    assert not state.is_open(("main", "other"), ["x"])
    gone = state.after(line(4, "unprotect", "pub", "persons"))
    assert not gone.is_open(("pub", "persons"), ["x"])
    assert gone.after(line(5, "open", "pub", "persons", columns=["x"])).is_open(("pub", "persons"), ["x"])
    assert (
        state.protected_among([("pub", "persons")])
        is state.protected_among([(None, "persons")])
        is state.tables["pub", "persons"]
    )
    assert state.protected_among([("main", "persons"), (None, "memory.pub.persons")]) is None


@pytest.mark.parametrize(
    ("sql", "fits"),
    [
        ("CREATE TABLE t(a INTEGER, b INTEGER DEFAULT(3));", True),
        ("CREATE TABLE t(a INTEGER, b INTEGER GENERATED ALWAYS AS((a + 1)));", False),
        ("CREATE TABLE \"GENERATED ALWAYS AS(\"(a VARCHAR DEFAULT('it''s COLLATE'));", True),
        ('CREATE TABLE t("say ""GENERATED ALWAYS AS""" INTEGER);', True),
        ("CREATE TABLE t(a VARCHAR COLLATE NOCASE);", False),
        ("", True),
    ],
)
def test_tables_that_lie_there_as_they_are_read(sql: str, fits: bool) -> None:
    assert (obstacle(sql) is None) == fits


def test_the_ends_of_a_range_of_dates_are_bounds(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "a.duckdb", role="steward") as con:
        con.execute("CREATE TABLE stays AS SELECT DATE '2024-01-05' AS day").fetchall()
        con.execute(
            "SELECT protect('stays', epsilon := 1, per_query := 0.5, public := ['day'], domains := "
            "{'day': {'from': DATE '2024-01-01', 'to': DATE '2024-01-31', 'nulls': true}})"
        ).fetchall()
        asked = "SELECT avg(day - DATE '2024-01-01') FROM stays"
        ((reason,),) = con.execute("SELECT reason FROM explain_privacy(?)", [asked]).fetchall()
        assert ": 0 to 30 by 1." in reason
