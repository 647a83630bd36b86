"""Policies that are changed in place: what is on the closed list, and an attack by each term that is not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon
from duckanon.catalog.policy import Policy
from duckanon.connection import Connection
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.governance.answers import Purchase, Stale
from duckanon.governance.locations import Location
from tests.governance.without_sql import CHARGE, governance, seen

TERMS: dict[str, str] = {
    "population": "'people'",
    "privacy_unit": "'person'",
    "rows_per_unit": "2",
    "epsilon": "40",
    "per_query": "1",
    "per_edition": "20",
    "unit": "'household'",
    "hierarchy": "['state']",
    "max_size": "9",
    "public": "['state', 'day']",
    "domains": "{'state': 'states.state', 'day': {'from': DATE '2024-01-01', 'to': DATE '2024-01-31'}}",
    "bounds": "{'age': [0, 90]}",
    "k": "5",
    "small": "5",
    "quasi_identifiers": "['age']",
    "sensitive": "['ill']",
    "drop": "['name']",
}
LATER = TERMS["domains"].replace("2024-01-31", "2024-02-29")
BY_DAY = "SELECT day, count(*) FROM persons GROUP BY day ORDER BY 1"
BY_STATE = "SELECT state, count(*) FROM persons GROUP BY state ORDER BY 1"
OF_AGE = "SELECT sum(age) FROM persons"


def call(**changed: str) -> str:
    terms = {**TERMS, **changed}
    return f"SELECT protect('persons', {', '.join(f'{name} := {one}' for name, one in terms.items() if one)})"


class Database:
    """A file that a steward and an analyst open in turn."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def steward(self, *statements: str) -> Any:
        with duckanon.connect(self.path, role="steward") as con:
            return [con.execute(one).fetchall() for one in statements][-1]

    def asked(self, *statements: str) -> list[Any]:
        with duckanon.connect(self.path, role="analyst") as con:
            return [con.execute(one).fetchall() for one in statements]

    def change(self, **changed: str) -> str:
        return str(self.steward(call(**changed))[0][0])

    @property
    def spent(self) -> float:
        return float(self.steward("SELECT spent FROM privacy_budget()")[0][0])


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = Database(tmp_path_factory.mktemp("changes") / "people.duckdb")
    found.steward(
        "CREATE TABLE persons AS SELECT i // 2 AS person, i // 4 AS household, ['GA', 'NY'][1 + i % 2] AS state, "
        "DATE '2024-01-01' + (i % 60)::INTEGER AS day, i % 90 AS age, i % 7 = 0 AS ill, 'name' AS name "
        "FROM range(600) r(i)",
        "CREATE TABLE states AS SELECT unnest(['GA', 'NY']) AS state",
        "CREATE TABLE others AS SELECT unnest(['GA', 'NY', 'PR']) AS state",
        "SELECT open_table('states'), open_table('others')",
        call(),
    )
    return found.path


@pytest.fixture
def database(ready: Path, tmp_path: Path) -> Database:
    return Database(Path(shutil.copy(ready, tmp_path)))


@pytest.fixture(scope="module")
def attacked(ready: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A steward's connection to a database that no attack changes."""
    path = Path(shutil.copy(ready, tmp_path_factory.mktemp("attacked")))
    with duckanon.connect(path, role="steward") as con:
        yield con


def test_a_month_of_days_is_added_and_nothing_else_is_charged_again(database: Database) -> None:
    before = database.asked(BY_DAY, BY_STATE, OF_AGE)
    spent = database.spent
    said = database.change(domains=LATER)
    assert "Changed in place: the domain of day has 29 more values." in said
    assert "Questions with day as a key are new ones, which are charged anew" in said
    after = database.asked(BY_STATE, OF_AGE, BY_DAY)
    assert (after[:2], len(before[0]), len(after[2])) == (before[1:], 31, 60)
    assert after[2][:31] != before[0], "noise of its own"
    assert database.spent == spent + 1
    assert "Changed in place" not in database.change(domains=LATER)


@pytest.mark.parametrize("ends", ["[0, 100]", "[0.5, 99.5, 0.5]", "[DATE '2024-01-01', DATE '2024-12-31']"])
def test_the_same_call_changes_nothing(tmp_path: Path, ends: str) -> None:
    """Whatever its bounds are: of what is prepared nothing ends."""
    kind = "DATE" if "DATE" in ends else "DOUBLE"
    same = f"SELECT protect('t', privacy_unit := 'u', rows_per_unit := 1, epsilon := 9, bounds := {{'x': {ends}}})"
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(f"CREATE TABLE t (u INTEGER, x {kind})").fetchall()
        said, lines = con.execute(same).fetchall(), "SELECT count(*) FROM privacy_ledger()"
        before = con.execute(lines).fetchall()
        assert con.execute(same).fetchall() == said
        assert con.execute(lines).fetchall() == before


def test_values_come_from_an_open_table_that_has_gained_some(database: Database) -> None:
    database.asked(BY_DAY)
    database.steward("INSERT INTO states VALUES ('PR')")
    assert "the domain of state has 1 more value." in database.change()
    assert [row[0] for row in database.asked(BY_STATE)[0]] == ["GA", "NY", "PR"]
    spent = database.spent
    database.asked(BY_DAY)
    assert database.spent == spent
    database.steward("DELETE FROM states WHERE state = 'GA'")
    assert "Changed in place" not in database.change(), "a copy loses nothing"
    assert [row[0] for row in database.asked(BY_STATE)[0]] == ["GA", "NY", "PR"]


@pytest.mark.parametrize(
    ("changed", "question", "others"),
    [
        ({"bounds": "{'age': [0, 120]}"}, OF_AGE, [BY_DAY, BY_STATE]),
        ({"bounds": "{'age': [10, 50]}"}, OF_AGE, [BY_DAY, BY_STATE]),
        ({"bounds": "{'age': [0, 90], 'household': [0, 200]}"}, "SELECT sum(household) FROM persons", [BY_DAY, OF_AGE]),
    ],
)
def test_bounds_change_what_is_computed_from_the_column_alone(
    database: Database, changed: dict[str, str], question: str, others: list[str]
) -> None:
    stored = database.asked(*others, OF_AGE)
    assert "Changed in place: the bounds of" in database.change(**changed)
    spent = database.spent
    assert database.asked(*others) == stored[: len(others)]
    assert database.spent == spent
    database.asked(question)
    assert database.spent == spent + 1


@pytest.mark.parametrize("changed", [{"rows_per_unit": "1"}, {"per_query": "0.5"}])
def test_lower_caps_make_all_questions_new_ones(database: Database, changed: dict[str, str]) -> None:
    database.asked(BY_STATE)
    assert "Questions with noise are new ones" in database.change(**changed)
    spent = database.spent
    database.asked(BY_STATE)
    assert database.spent == spent + float(changed.get("per_query", "1"))


def test_an_editions_cap_spans_policies(database: Database) -> None:
    database.asked(BY_STATE, BY_DAY)
    assert "Every stored answer stays free." in database.change(per_edition="2.5")
    with pytest.raises(duckanon.errors.BudgetExhausted, match=r"no more than epsilon 2\.5 may be spent in one edition"):
        database.asked(OF_AGE)
    database.change(per_edition="2.5", bounds="{'age': [0, 120]}")
    with pytest.raises(duckanon.errors.BudgetExhausted, match="2 is spent in this one"):
        database.asked(OF_AGE)


# What an analyst would gain by each: less noise for what a unit adds, more of a budget, other people, small cells.
ATTACKS = [
    {"privacy_unit": "'household'"},
    {"population": "'others'"},
    {"rows_per_unit": "3"},
    {"epsilon": "50"},
    {"epsilon": "30"},
    {"per_query": "2"},
    {"per_query": ""},
    {"per_edition": "30"},
    {"per_edition": ""},
    {"max_size": "10"},
    {"max_size": ""},
    {"unit": "'person'"},
    {"unit": "", "max_size": "", "hierarchy": ""},
    {"hierarchy": ""},
    {"public": "['state', 'day', 'ill']"},
    {"public": "['state']"},
    {"k": "4"},
    {"k": "6"},
    {"small": "4"},
    {"small": "6"},
    {"quasi_identifiers": ""},
    {"sensitive": ""},
    {"sensitive": "['ill', 'household']"},
    {"drop": ""},
    {"drop": "['name', 'household']"},
    {"delta": "1e-9"},
    {"domains": TERMS["domains"].replace("2024-01-31", "2024-01-30")},
    {"domains": TERMS["domains"].replace("2024-01-01", "2024-01-02")},
    {"domains": TERMS["domains"].replace("'states.state'", "['GA', 'NY', 'PR']")},
    {"domains": TERMS["domains"].replace("'states.state'", "'others.state'")},
    {"domains": "{'day': {'from': DATE '2024-01-01', 'to': DATE '2024-01-31'}}", "hierarchy": "[]"},
    {"domains": TERMS["domains"].replace("}}", "}, 'ill': 'found'}")},
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_what_is_not_on_the_list_is_refused_and_changes_nothing(attacked: Connection, attack: dict[str, str]) -> None:
    def stands() -> list[Any]:
        return [attacked.execute(one).fetchall() for one in ("FROM policies()", "SELECT what FROM privacy_ledger()")]

    before = stands()
    with pytest.raises((duckdb.Error, DuckanonError)) as raised:
        attacked.execute(call(**attack)).fetchall()
    assert "INTERNAL" not in str(raised.value)
    assert stands() == before


def test_every_term_is_attacked_or_listed() -> None:
    attacked = {name for one in ATTACKS for name in one}
    assert {*Policy.__dataclass_fields__} - attacked - {"links", "owner", "link", "bounds"} == set()


def test_a_question_that_was_decided_about_before_a_change_is_not_charged() -> None:
    """A statement is decided about again where a policy was changed in place meanwhile."""
    with duckdb.connect() as con:
        made, sees = governance(con), seen("persons")
        terms: dict[str, Any] = {"epsilon": CHARGE.epsilon * 10, "bounds": {"age": ("0", "9")}}
        made.decisions.protect("persons", sees, terms, {"age": "INTEGER"})
        state = made.ledger.state("memory")
        (standing,) = state.tables.values()
        location = Location("memory", "main", "persons")
        purchase = Purchase(location, "key", standing.version, 1, CHARGE, changed=state.changed)
        made.decisions.protect("persons", sees, {**terms, "bounds": {"age": ("0", "8")}}, {"age": "INTEGER"})
        after = made.ledger.state("memory")
        assert (after.tables[standing.location.identity].version, after.changed) == (standing.version, 2)
        with pytest.raises(Stale):
            made.answers.ensure(purchase, lambda _: pytest.fail("nothing is drawn"))
        assert made.budgets()[0]["charges"] == 0


PREPARED = "SELECT protect('stays', population := 'patients', privacy_unit := 'patient', rows_per_unit := 1, "
PREPARED += "epsilon := 3, delta := 1e-6, per_query := 0.01, public := ['state', 'ward', 'cause'], "
PREPARED += "domains := {'state': ['GA', 'NY'], 'ward': [1, 2], 'cause': 'found'})"


def test_what_is_prepared_and_found_stays_where_nothing_of_it_changed(tmp_path: Path) -> None:
    database = Database(tmp_path / "stays.duckdb")
    database.steward(
        "CREATE TABLE stays AS SELECT i AS patient, ['GA', 'NY'][1 + i % 2] AS state, 1 + i % 3 AS ward, "
        "['flu', 'cold'][1 + i % 2] AS cause FROM range(6000) r(i)",
        PREPARED,
        "FROM prepare('stays', by := [['state']], epsilon := 0.1, buy := true)",
    )
    by_state, by_cause = (f"SELECT {one}, count(*) FROM stays GROUP BY {one} ORDER BY 1" for one in ("state", "cause"))
    stored, spent = database.asked(by_state, by_cause), database.spent
    database.steward(PREPARED.replace("[1, 2]", "[1, 2, 3]"))
    assert database.asked(by_state, by_cause) == stored
    assert database.spent == spent
    assert database.steward("SELECT is_current FROM prepared()") == [(True,)]
    database.steward(PREPARED.replace("[1, 2]", "[1, 2, 3]").replace("['GA', 'NY']", "['GA', 'NY', 'PR']"))
    assert database.steward("SELECT is_current FROM prepared()") == [(False,)]
    assert len(database.asked(by_state)[0]) == 3
    assert database.spent > spent
    said = database.steward(
        PREPARED.replace("[1, 2]", "[1, 2, 3]").replace("['GA', 'NY']", "['GA', 'NY', 'PR']").replace("0.01", "0.005")
    )
    assert "Keys found with noise are to be found anew." in said[0][0]


@given(
    st.lists(
        st.tuples(st.sampled_from(["state", "day"]), st.sets(st.integers(0, 5), min_size=1)), min_size=1, max_size=5
    )
)
def test_a_domain_only_grows(steps: list[tuple[str, set[int]]]) -> None:
    """Whatever is tried, in order: a domain has the values of the largest set that holds all before it."""
    with duckdb.connect() as con:
        made, sees, types = governance(con), seen("persons"), {"state": "INTEGER", "day": "INTEGER"}
        stands: dict[str, set[int]] = {"state": {0}, "day": {0}}
        for column, values in [("state", {0}), *steps]:
            wanted = {**stands, column: values}
            terms = {"epsilon": CHARGE.epsilon, "domains": {name: tuple(sorted(one)) for name, one in wanted.items()}}
            try:
                made.decisions.protect("persons", sees, terms, types)
                assert stands[column] <= values
                stands = wanted
            except InvalidInput:
                assert not stands[column] <= values
            (standing,) = made.ledger.state("memory").tables.values()
            for name, domain in standing.domains.items():
                rows = con.execute(f'FROM duckanon."{domain.table}"').fetchall()
                assert {row[0] for row in rows} == stands[name]
