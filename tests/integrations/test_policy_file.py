"""Policies as TOML: what is exported and applied is what stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.connection import Connection
from duckanon.errors import InvalidInput
from duckanon.functions.udf import Instance
from duckanon.governance.instance import governance_of
from duckanon.integrations.policy_file import FileUser, PolicyFile, of_state, read, write
from duckanon.integrations.policy_setting import PolicySetting

COLUMNS = {
    "person": "BIGINT",
    "house": "BIGINT",
    'the "state"': "VARCHAR",
    "county.": "VARCHAR",
    "day": "DATE",
    "age": "INTEGER",
    "income": "DOUBLE",
    "note": "VARCHAR",
}
_AMOUNTS = st.sampled_from(["0.1", "1/3", "0.0625", "1"])
_TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), min_size=1)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """The arguments of `protect` for the table with these columns, as a file says them."""
    said: dict[str, Any] = {"population": "the people", "privacy_unit": "person"}
    said["rows_per_unit"] = draw(st.integers(1, 9))
    if draw(st.booleans()):
        said["per_query"] = draw(_AMOUNTS)
    if draw(st.booleans()):
        said["per_edition"] = draw(st.sampled_from([2, Decimal("2.5")]))
    domains: dict[str, Any] = {}
    if draw(st.booleans()):
        domains['the "state"'] = draw(_TEXTS)
    if draw(st.booleans()):
        domains["county."] = draw(st.sampled_from(["counties.name", {"values": "counties.name", "nulls": True}]))
    if draw(st.booleans()):
        first = draw(st.dates(date(1, 1, 2), date(9999, 1, 1)))
        domains["day"] = {"from": first, "to": first, "step": draw(st.integers(1, 7))}
    if draw(st.booleans()):
        domains["age"] = draw(st.lists(st.integers(0, 200) | st.none(), min_size=1, max_size=4).filter(any))
    if domains:
        said["domains"] = domains
    if draw(st.booleans()):
        said["bounds"] = {
            "income": draw(st.sampled_from([[0, 9], [Decimal("-0.5"), Decimal("2.25"), Decimal("0.25")]])),
            "note": [0, 100],
        }
    if draw(st.booleans()):
        said |= {"unit": "house", "hierarchy": ['the "state"', "county."], "max_size": draw(st.integers(1, 99))}
    said |= {"public": draw(st.sampled_from([[], ["age", "day"], ["age"]]))}
    said |= {"k": draw(st.integers(2, 9)), "small": draw(st.integers(1, 9))}
    said |= {"quasi_identifiers": ["age"], "sensitive": draw(st.sampled_from([[], ["income"]])), "drop": ["note"]}
    return said


@st.composite
def files(draw: st.DrawFn) -> PolicyFile:
    population: dict[str, Any] = {"epsilon": draw(st.sampled_from([3, Decimal("4.5"), "10/3"]))}
    if draw(st.booleans()):
        population["delta"] = draw(st.sampled_from([Decimal("1e-6"), Decimal("2.5e-9")]))
    has_two = draw(st.booleans())
    named = {"main.persons": draw(tables())}
    if has_two:
        named['other."a.b"'] = draw(tables())
    users = {"ana": FileUser("analyst", {"the people": Fraction(draw(_AMOUNTS))}), "bob": FileUser("analyst")}
    return PolicyFile({"the people": population}, named, ("main.counties",), users)


@contextmanager
def database() -> Iterator[tuple[Connection, Any]]:
    with duckanon.connect(role="steward") as con:
        columns = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" {kind}' for name, kind in COLUMNS.items())
        con.execute(f'CREATE SCHEMA other; CREATE TABLE persons ({columns}); CREATE TABLE other."a.b" ({columns})')
        con.execute("CREATE TABLE counties AS SELECT unnest(['A', 'B']) AS name")
        yield con, governance_of(Instance(con._con).identity, con._con)


def state(con: Connection, made: Any) -> Any:
    return PolicySetting(con._con, made, PolicyFile()).state


def policies(con: Connection, made: Any) -> Mapping[Any, Any]:
    return {identity: one.policy for identity, one in state(con, made).tables.items()}


@pytest.mark.ci("each example is a database of its own")
@settings(deadline=None, max_examples=15)
@given(files())
def test_what_is_exported_and_applied_changes_nothing(file: PolicyFile) -> None:
    with database() as (con, made), database() as (second, also):
        text = write(file)
        assert write(read(text)) == text
        PolicySetting(con._con, made, read(text)).begin(keep=True)
        number = state(con, made).number
        exported = write(of_state(state(con, made), {"bob": "analyst"}))
        for one in (exported, text):
            outcome = PolicySetting(con._con, made, read(one)).apply(keep=True)
            assert (outcome.said, outcome.refused) == ((), ())
        assert state(con, made).number == number
        PolicySetting(second._con, also, read(exported)).begin(keep=True)
        assert policies(con, made).keys() == policies(second, also).keys()
        assert write(of_state(state(second, also), {"bob": "analyst"})) == exported
        with database() as (third, by_sql):
            for call in read(text).calls:
                third.execute(call).fetchall()
            assert policies(third, by_sql) == policies(con, made)


BOTH = """
[populations.residents]
epsilon = 4

[tables.persons]
population = "residents"
privacy_unit = "person"
rows_per_unit = 1
per_query = 0.1
public = ["age"]
domains.age = { from = 0, to = 90, step = 10 }

[tables.'other."a.b"']
population = "residents"
privacy_unit = "person"
rows_per_unit = 2
"""


def test_two_databases_of_one_file_have_equal_policies() -> None:
    with database() as (con, made), database() as (second, also):
        for one, of in ((con, made), (second, also)):
            PolicySetting(one._con, of, read(BOTH)).begin(keep=True)
        assert policies(con, made) == policies(second, also)


def test_all_or_nothing() -> None:
    wrong = BOTH + '[tables.counties]\npopulation = "residents"\nprivacy_unit = "nobody"\n'
    with database() as (con, made):
        with pytest.raises(InvalidInput, match=r'^counties: There is no column "nobody"'):
            PolicySetting(con._con, made, read(wrong)).begin(keep=True)
        assert state(con, made).number == 0
        assert con.execute("FROM policies()").fetchall() == []


def test_a_trial_says_what_each_means_in_noise_and_writes_nothing() -> None:
    with database() as (con, made):
        said = dict(PolicySetting(con._con, made, read(BOTH)).begin(keep=False).said)
        assert "For epsilon 0.1, a count is within 30 of the truth in 95 % of cases." in said["persons"]
        assert state(con, made).number == 0
        assert not con.execute("SELECT * FROM duckdb_schemas() WHERE schema_name = 'duckanon'").fetchall()


def test_what_may_be_changed_is_and_the_rest_is_named() -> None:
    with database() as (con, made):
        PolicySetting(con._con, made, read(BOTH)).begin(keep=True)
        changed = BOTH.replace("to = 90", "to = 100").replace("rows_per_unit = 2", "rows_per_unit = 3")
        setting = PolicySetting(con._con, made, read(changed + '[open]\ntables = ["counties"]\n'))
        tried = setting.apply(keep=False)
        assert state(con, made).number == 2
        outcome = setting.apply(keep=True)
        assert outcome == tried
        assert [subject for subject, _ in outcome.said] == ["persons"]
        assert "the domain of age has 1 more value" in outcome.said[0][1]
        refused = dict(outcome.refused)
        assert refused["counties"] == "it is not open, and only open_table('counties') opens it."
        assert "rows_per_unit cannot be changed so in place" in refused['other."a.b"']
        left = BOTH.partition("[tables.'other")[0].replace("to = 90", "to = 100")
        outcome = PolicySetting(con._con, made, read(left)).apply(keep=True)
        assert outcome.refused == (('other."a.b"', "it is protected, and only unprotect('other.\"a.b\"') ends that."),)


def test_a_schema_is_opened_with_the_tables_that_it_has() -> None:
    """One of them is protected, so later ones are not open with it, which applying the file says."""
    text = BOTH + '[open]\ntables = ["main.*"]\n'
    with database() as (con, made):
        PolicySetting(con._con, made, read(text)).begin(keep=True)
        assert state(con, made).is_open(("main", "counties"), ["name"])
        assert not state(con, made).is_open(("main", "persons"), list(COLUMNS))
        con.execute("CREATE TABLE later AS SELECT 1 AS x")
        con.execute("CREATE TABLE named AS SELECT 1 AS x; SELECT open_table('named')").fetchall()
        assert not state(con, made).is_open(("main", "later"), ["x"])
        setting = PolicySetting(con._con, made, read(text.replace('"main.*"', '"main.*", "main.named"')))
        assert setting.apply(keep=True).refused == (
            ("main.*", "later is not open with it: only open_table('main.*') opens what came later."),
        )
        con.execute("SELECT open_table('main.*')").fetchall()
        assert setting.apply(keep=True).refused == ()
        missing = PolicySetting(con._con, made, read(text.replace("main.*", "gone.*")))
        assert missing.apply(keep=True).refused == (
            ("gone.*", "it is not open, and only open_table('gone.*') opens it."),
        )
    with database() as (con, made), pytest.raises(InvalidInput, match="There is no schema gone in the database"):
        PolicySetting(con._con, made, read(text.replace("main.*", "gone.*"))).begin(keep=True)


@pytest.mark.parametrize("schema", ["main", "marts"])
def test_links_are_set_after_what_they_lead_to(schema: str) -> None:
    text = f"""
[populations.customers]
epsilon = 4
[tables."{schema}.a_items"]
population = "customers"
link.of_order = "b_orders.number"
rows_per_unit = 9
[tables."{schema}.b_orders"]
population = "customers"
privacy_unit = "customer"
rows_per_unit = 3
"""
    with database() as (con, made):
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}; USE {schema}")
        con.execute("CREATE TABLE b_orders (number BIGINT PRIMARY KEY, customer BIGINT)")
        con.execute("CREATE TABLE a_items (of_order BIGINT)")
        said = PolicySetting(con._con, made, read(text)).begin(keep=True).said
        assert [subject for subject, _ in said] == [f"{schema}.b_orders", f"{schema}.a_items"]
        exported = write(of_state(state(con, made), {}))
        assert [call.split("'")[1] for call in read(exported).calls] == [f"{schema}.b_orders", f"{schema}.a_items"]
        assert PolicySetting(con._con, made, read(exported)).apply(keep=True).said == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a =", "The file is no TOML"),
        ("[nothing]", "The file says nothing, which means nothing here"),
        ("[populations.a]", r"\[populations.a\] must say the budget"),
        ("[populations.a]\nepsilon = 1\n[tables.t]", r"\[tables.t\] must name a population"),
        ("[populations.a]\nepsilon = 1\n[tables.t]\npopulation = 'a'\nkk = 3", r"\[tables.t\] says kk"),
        ("[populations.a]\nepsilon = 1\n[tables.t]\npopulation = 'a'\ndomains = 3", "must say domains by column"),
        ("[open]\ntables = 'a'", r"\[open\] lists names"),
        ("[users.ana]", r"\[users.ana\] must say a role"),
        ("[users.ana]\nrole = 'analyst'\nallotments.a = 1", "the file names no such population"),
        ("tables = 3", r"\[tables\] must be a table of TOML"),
    ],
)
def test_mistakes_in_a_file(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        read(text)


def test_numbers_are_read_exactly() -> None:
    with database() as (con, made):
        PolicySetting(con._con, made, read(BOTH.replace("0.1", "0.100000000001"))).begin(keep=True)
        (policy,) = (one for one in policies(con, made).values() if one.per_query)
        assert json.loads(str(policy))["per_query"] == "0.100000000001"
        with pytest.raises(duckdb.Error):
            con.execute("FROM nothing")


def test_the_example_of_the_page() -> None:
    """The file that the page of policy files shows sets up a database that has its tables."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "policy-files.md").read_text(encoding="utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0]
    with duckanon.connect(role="steward") as con:
        con.execute("CREATE TABLE counties AS SELECT unnest(['A', 'B']) AS name")
        con.execute("CREATE TABLE persons (person BIGINT, sex TEXT, county TEXT, day DATE, income DOUBLE, name TEXT)")
        con.execute("CREATE TABLE orders (number BIGINT PRIMARY KEY, customer BIGINT, status TEXT)")
        con.execute("CREATE TABLE items (in_order BIGINT)")
        made = governance_of(Instance(con._con).identity, con._con)
        said = dict(PolicySetting(con._con, made, read(text)).begin(keep=True).said)
        assert list(said) == ["counties", "persons", "orders", "items", "ana of residents"]
        assert PolicySetting(con._con, made, read(text)).apply(keep=True).said == ()
        assert read(write(of_state(state(con, made), {"stu": "steward"}))).users == read(text).users
