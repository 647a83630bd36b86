"""dp_group_sizes through SQL: what a release holds, what it charges, when it is given again, and whose ledger pays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.accounting import Charge, written
from duckanon.errors import STOPPED, was_interrupted
from duckanon.governance.budgets import in_unit_of
from duckanon.randomised_response import price
from duckanon.renyi import renyi

CALL = "FROM dp_group_sizes('persons', 'unit', ['state', 'county'], epsilon := 0.1, max_size := 4)"
# With so little noise a draw is zero but once in e^33 times, so that sums and clamping can be told.
CLOSE = "epsilon := 100"


@pytest.fixture
def persons(own_con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """33 persons in units of 1 to 5, two counties in each of two states."""
    fill(own_con)
    return own_con


def fill(con: Any, table: str = "persons") -> None:
    con.execute(
        f"CREATE TABLE {table} AS SELECT row_number() OVER () AS id, unit, 's' || (unit % 4 // 2) AS state, "
        "'c' || (unit % 4) AS county, place % 2 = 0 AS old, place AS cars "
        "FROM (SELECT unit, unnest(range(unit % 5 + 1)) AS place FROM range(12) r(unit))"
    ).fetchall()


def rows(con: Any, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def charges(con: Any) -> int:
    return int(rows(con, "SELECT count(*) FROM privacy_ledger() WHERE action = 'charge'")[0][0])


# --- what a release holds ---------------------------------------------------------------------------------------------


def test_columns_rows_and_order(persons: duckdb.DuckDBPyConnection) -> None:
    described = rows(persons, f"DESCRIBE {CALL.replace('county', 'County')}")
    assert [one[:2] for one in described] == [
        *(("level", "INTEGER"), ("state", "VARCHAR"), ("County", "VARCHAR"), ("size", "BIGINT")),
        *((name, "BIGINT") for name in ("groups", "low", "high")),
    ]
    assert charges(persons) == 0
    found = rows(persons, CALL)
    regions = [(0, None, None), (1, "s0", None), (1, "s1", None), *((2, f"s{i // 2}", f"c{i}") for i in range(4))]
    assert [one[:4] for one in found] == [(*region, size) for region in regions for size in range(1, 5)]
    assert all(0 <= low <= groups <= high for *_, groups, low, high in found)


@pytest.mark.parametrize("mechanism", ["auto", "topdown", "chain", "c_dp", "h_dp", "c_relaxed", "h_relaxed"])
def test_levels_add_up_and_public_totals_are_kept(persons: duckdb.DuckDBPyConnection, mechanism: str) -> None:
    found = rows(persons, CALL.replace("max_size", f"mechanism := '{mechanism}', max_size"))
    totals: dict[Any, int] = {}
    sums: dict[Any, int] = {}
    for level, state, county, size, groups, *_ in found:
        totals[state, county] = totals.get((state, county), 0) + groups
        sums[level, size] = sums.get((level, size), 0) + groups
    exact: dict[Any, int] = {
        (None, None): 12,
        **{(f"s{i}", None): 6 for i in range(2)},
        **{(f"s{i // 2}", f"c{i}"): 3 for i in range(4)},
    }
    # The paper's mechanisms keep the total of all regions, auto that of each.
    assert totals == exact if mechanism == "auto" else totals[None, None] == 12
    assert all(sums[0, size] == sums[1, size] == sums[2, size] for size in range(1, 5))
    assert charges(persons) == 1


def test_sizes_above_max_size_are_counted_with_it(persons: duckdb.DuckDBPyConnection) -> None:
    found = rows(persons, f"SELECT size, groups FROM dp_group_sizes('persons', 'unit', {CLOSE}, max_size := 3)")
    assert found == [(1, 3), (2, 3), (3, 6)]


def test_what_is_close_to_the_truth(persons: duckdb.DuckDBPyConnection) -> None:
    hierarchy = "'persons', 'unit', ['state', 'county']"
    exact = rows(persons, f"FROM group_sizes({hierarchy})")
    for totals in ("public", "private"):
        call = f"FROM dp_group_sizes({hierarchy}, {CLOSE}, max_size := 7, totals := '{totals}')"
        found = rows(persons, f"SELECT * EXCLUDE (low, high) {call} WHERE groups > 0")
        assert found == exact


def test_quantities(persons: duckdb.DuckDBPyConnection) -> None:
    """Units whose quantity adds up to 0 are counted where the units are public, and not where they are not."""
    exact = rows(persons, "SELECT size, groups FROM group_sizes('persons', 'unit', quantity := 'cars')")
    assert exact == [(0, 3), (1, 3), (3, 2), (6, 2), (10, 2)]
    shown = f"SELECT size, groups FROM dp_group_sizes('persons', 'unit', {CLOSE}"
    call = f"{shown}, max_size := 7, quantity := 'cars', bound := 4"
    assert rows(persons, f"{call})") == [(0, 3), (1, 3), (2, 0), (3, 2), (4, 0), (5, 0), (6, 2), (7, 2)]
    assert rows(persons, f"{call}, totals := 'private')") == [(1, 3), (2, 0), (3, 2), (4, 0), (5, 0), (6, 2), (7, 2)]
    assert rows(persons, "SELECT neighbours FROM privacy_ledger()")[0][0].endswith(
        "a person adds 0 to 4 to the quantity"
    )
    old = f"{shown}, max_size := 3, quantity := 'old', bound := 1)"
    assert rows(persons, old) == [(0, 0), (1, 6), (2, 4), (3, 2)]


def test_regions_of_a_public_table(persons: duckdb.DuckDBPyConnection) -> None:
    persons.execute(
        "CREATE TABLE places AS SELECT 's9' AS state, 'c9' AS county "
        "UNION ALL FROM (SELECT DISTINCT state, county FROM persons)"
    ).fetchall()
    call = CALL.replace("epsilon := 0.1", f"{CLOSE}, regions := 'places'")
    found = rows(persons, f"SELECT state, county, sum(groups)::INT {call} GROUP BY ALL ORDER BY ALL")
    assert found[-3:] == [("s9", "c9", 0), ("s9", None, 0), (None, None, 12)]
    persons.execute("CREATE TABLE nobody AS FROM persons WHERE false").fetchall()
    assert {one[4] for one in rows(persons, call.replace("'persons'", "'nobody'"))} == {0}


def test_one_region_in_one_level_without_a_hierarchy(persons: duckdb.DuckDBPyConnection) -> None:
    assert rows(
        persons, f"SELECT level, size, groups FROM dp_group_sizes('persons', 'unit', {CLOSE}, max_size := 1)"
    ) == [(0, 1, 12)]


def test_parameters_of_a_statement(persons: duckdb.DuckDBPyConnection) -> None:
    query = "FROM dp_group_sizes('persons', 'unit', epsilon := ?, max_size := ?)"
    first = persons.execute(query, [Decimal("0.1"), 3]).fetchall()
    assert persons.execute(query, ["1/10", 3]).fetchall() == first
    assert persons.execute(query, [0.1, 3]).fetchall() == first
    assert rows(persons, "SELECT epsilon, epsilon_exact FROM privacy_ledger()") == [(0.1, "0.1")]


# --- what it charges, and when ----------------------------------------------------------------------------------------


def test_the_same_call_is_charged_once(persons: duckdb.DuckDBPyConnection) -> None:
    first = rows(persons, CALL)
    relation = persons.sql(CALL)
    assert str(relation) == str(relation)
    assert relation.fetchall() == relation.fetchall() == first
    for same in (
        CALL.replace("0.1", "'1/10'"),
        CALL.replace("'unit'", "'UNIT'").replace("county", "COUNTY"),
        CALL.replace("persons", "memory.main.Persons"),
        CALL.replace("max_size", "mechanism := 'auto', totals := 'public', intervals := 'guaranteed', max_size"),
    ):
        assert rows(persons, same) == first
    persons.execute(f"CREATE VIEW published AS {CALL}").fetchall()
    assert rows(persons, "FROM published") == rows(persons, "FROM published") == first
    assert charges(persons) == 1


def test_another_call_is_another_charge(persons: duckdb.DuckDBPyConnection) -> None:
    others = [
        CALL.replace("0.1", "0.2"),
        CALL.replace("max_size := 4", "max_size := 5"),
        CALL.replace("max_size", "mechanism := 'topdown', max_size"),
        CALL.replace("max_size", "totals := 'private', max_size"),
        CALL.replace("max_size", "split := [2, 1, 1], max_size"),
        CALL.replace("max_size", "intervals := 'model', max_size"),
        CALL.replace("['state', 'county']", "['state']"),
        CALL.replace("max_size", "quantity := 'old', bound := 1, max_size"),
        CALL.replace("max_size", "quantity := 'old', bound := 2, max_size"),
    ]
    for number, other in enumerate(others, 1):
        rows(persons, other)
        assert charges(persons) == number


CHANGES = {
    "INSERT INTO persons SELECT * REPLACE (99 AS unit) FROM persons LIMIT 1": 2,
    "DELETE FROM persons WHERE id = 1": 2,
    "UPDATE persons SET unit = unit + 100": 2,
    "INSERT INTO persons FROM persons": 2,
    "INSERT INTO persons SELECT p.* REPLACE (99 AS unit) FROM (FROM persons LIMIT 1) p, range(2)": 2,
    "UPDATE persons SET cars = 7": 1,
    "CREATE OR REPLACE TABLE persons AS FROM persons ORDER BY hash(id)": 1,
    "ALTER TABLE persons ADD COLUMN more INT": 1,
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_data_is_charged_again(persons: duckdb.DuckDBPyConnection, change: str) -> None:
    """What the release does not depend on may change: other columns, the order of rows."""
    rows(persons, CALL)
    persons.execute(change).fetchall()
    rows(persons, CALL)
    assert charges(persons) == CHANGES[change]
    rows(persons, CALL)
    assert charges(persons) == CHANGES[change]


def test_explain_and_describe_charge_nothing(persons: duckdb.DuckDBPyConnection) -> None:
    for query in (f"EXPLAIN {CALL}", f"DESCRIBE {CALL}", f"PREPARE p AS {CALL}", f"CREATE VIEW v AS {CALL}"):
        rows(persons, query)
    rows(persons, "EXPLAIN SELECT protect('persons', epsilon := 1)")
    assert rows(persons, "FROM privacy_ledger()") == []
    rows(persons, "EXECUTE p")
    rows(persons, f"EXPLAIN ANALYZE {CALL}")
    assert charges(persons) == 1


def test_twice_in_one_statement_is_one_charge(persons: duckdb.DuckDBPyConnection) -> None:
    assert rows(persons, f"SELECT count(*) FROM ({CALL}) a JOIN ({CALL}) b USING (level, state, county, size, groups)")
    assert len(rows(persons, f"({CALL}) UNION ALL ({CALL}) UNION ALL ({CALL})")) == 3 * 28
    assert charges(persons) == 1


def test_a_parallel_plan_calls_once(persons: duckdb.DuckDBPyConnection) -> None:
    persons.execute(
        "SET threads = 4; CREATE TABLE many AS SELECT i // 3 AS unit, i % 997 AS n FROM range(600000) r(i)"
    ).fetchall()
    query = "FROM dp_group_sizes('many', 'unit', epsilon := 1, max_size := 4) d JOIN many ON many.unit % 4 + 1 = d.size"
    assert rows(persons, f"SELECT count(*) {query}") == [(600000,)]
    assert charges(persons) == 1


def test_rollback_does_not_refund(persons: duckdb.DuckDBPyConnection) -> None:
    persons.begin()
    persons.execute("CREATE TABLE released AS " + CALL).fetchall()
    first = rows(persons, "FROM released")
    persons.rollback()
    assert charges(persons) == 1
    assert rows(persons, CALL) == first
    assert charges(persons) == 1


def test_the_ledger_shows_through_an_open_transaction(persons: duckdb.DuckDBPyConnection) -> None:
    persons.begin()
    rows(persons, "FROM persons")
    with duckanon.register(persons.cursor()) as other:
        rows(other, CALL)
    assert charges(persons) == 1
    persons.rollback()


def test_an_error_after_the_charge_does_not_refund_it_and_the_next_draw_is_paid(
    persons: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duckanon.engines.groups import release

    other = duckanon.register(persons.cursor())

    def broken(*_: object) -> None:
        assert charges(other) == 1
        raise duckanon.errors.DuckanonError("no noise today")

    monkeypatch.setattr(release, "_drawn", broken)
    with pytest.raises(duckdb.InvalidInputException, match="no noise today"):
        rows(persons, CALL)
    monkeypatch.undo()
    rows(persons, CALL)
    assert charges(persons) == 1


def test_ctrl_c_after_the_charge_is_one_sentence(
    persons: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the main thread it comes while DuckDB runs our Python, and was DuckDB's words about that."""
    from duckanon.engines.groups import release

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(release, "_drawn", stopped)
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(persons, CALL)
    assert str(raised.value) == f"Invalid Input Error: {STOPPED}"
    assert was_interrupted(raised.value)
    monkeypatch.undo()
    rows(persons, CALL)
    assert charges(persons) == 1


def test_the_line_says_what_for(persons: duckdb.DuckDBPyConnection) -> None:
    rows(persons, CALL)
    rows(persons, CALL.replace("max_size", "totals := 'private', split := [2, 1, 1], max_size"))
    (first, second) = rows(persons, "SELECT what, neighbours FROM privacy_ledger() ORDER BY number")
    assert first[0] == (
        "dp_group_sizes('persons', 'unit', hierarchy := ['state', 'county'], epsilon := '0.1', max_size := 4, "
        "mechanism := 'auto', totals := 'public', intervals := 'guaranteed')"
    )
    assert "split := ['1/2', '1/4', '1/4']" in second[0]
    assert "the number of groups of each region is public" in first[1]
    assert "may appear or vanish" in second[1]


def test_thirty_two_threads_and_a_budget_for_ten(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "a.duckdb") as con:
        fill(con)
        assert con.execute("SELECT protect('persons', unit := 'unit', epsilon := 1)").fetchall() == [
            ("main.persons is protected: of epsilon 1 in all, 0 is spent and 1 left. A charge protects one record.",)
        ]
        ready = threading.Barrier(32)

        def ask(number: int) -> str:
            with con.cursor() as own:
                ready.wait()
                try:
                    own.execute(CALL.replace("max_size := 4", f"max_size := {number + 1}")).fetchall()
                except duckdb.InvalidInputException as error:
                    return str(error)
            return "released"

        with ThreadPoolExecutor(32) as pool:
            said = list(pool.map(ask, range(32)))
        assert said.count("released") == 10
        assert len(set(said)) == 2
        assert "The privacy budget of main.persons does not suffice: epsilon 0.1 is more than the 0 left of 1." in str(
            said
        )
        assert con.execute("SELECT spent_exact, remaining_exact, charges FROM privacy_budget()").fetchall() == [
            ("1", "0", 10)
        ]


def test_a_table_with_a_privacy_unit_is_released_by_whole_units(persons: duckdb.DuckDBPyConnection) -> None:
    """The line in the ledger says what the charge protects, and the call must have checked it."""
    rows(persons, "SELECT protect('persons', population := 'people', privacy_unit := 'id', epsilon := 1)")
    by_person = CALL.replace("epsilon", "person := 'ID', epsilon")
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(persons, CALL)
    assert str(raised.value) == (
        "Invalid Input Error: A charge on main.persons protects all records of one id, and this call only one row: say "
        "person := 'id', which checks that nobody has two, or ask as an analyst, for whom records are bounded."
    )
    assert charges(persons) == 0
    rows(persons, by_person)
    assert rows(persons, "SELECT population, unit, remaining_exact FROM privacy_ledger() WHERE action = 'charge'") == [
        ("people", "one ID", "0.9")
    ]
    persons.execute("INSERT INTO persons FROM persons LIMIT 1").fetchall()
    with pytest.raises(duckdb.InvalidInputException):
        rows(persons, by_person)
    assert charges(persons) == 1


def budget_holds_for(con: duckdb.DuckDBPyConnection) -> str:
    ((said,),) = con.execute("SELECT neighbours FROM privacy_budget()").fetchall()
    return str(said)


def test_totals_are_private_by_default_where_the_policy_names_a_unit(persons: duckdb.DuckDBPyConnection) -> None:
    persons.execute("SELECT protect('persons', epsilon := 2, population := 'people', privacy_unit := 'id')").fetchall()
    persons.execute(CALL.replace("epsilon", "person := 'id', epsilon")).fetchall()
    whose = "SELECT neighbours FROM privacy_ledger() WHERE action = 'charge'"
    assert persons.execute(whose).fetchall() == [
        ("one person added or removed, with whom a group may appear or vanish",)
    ]
    assert budget_holds_for(persons) == "all records of one id, added or removed"


def test_charges_of_another_relation_are_not_added_in_silence(persons: duckdb.DuckDBPyConnection) -> None:
    # Spent before there is a policy, and with a policy.
    persons.execute(CALL).fetchall()
    persons.execute("SELECT protect('persons', epsilon := 2, population := 'people', privacy_unit := 'id')").fetchall()
    assert "releases with public totals cost 0.1 of the " in budget_holds_for(persons)
    persons.execute(CALL.replace("epsilon", "person := 'id', totals := 'public', epsilon")).fetchall()
    assert "releases with public totals cost 0.2 of the " in budget_holds_for(persons)
    persons.execute(CALL.replace("epsilon", "person := 'id', epsilon")).fetchall()
    assert "releases with public totals cost 0.2 of the " in budget_holds_for(persons)


def test_the_same_call_from_eight_threads_is_charged_once(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "a.duckdb") as con:
        fill(con)
        ready = threading.Barrier(8)

        def ask(_: int) -> list[tuple[Any, ...]]:
            with con.cursor() as own:
                ready.wait()
                return own.execute(CALL).fetchall()

        with ThreadPoolExecutor(8) as pool:
            first, *others = pool.map(ask, range(8))
        assert all(other == first for other in others)
        assert charges(con) == 1


# --- whose ledger pays ------------------------------------------------------------------------------------------------


@pytest.fixture
def frame(persons: duckdb.DuckDBPyConnection) -> Any:
    return persons.execute("FROM persons").df()


def test_a_view_a_cte_a_file_a_frame_and_a_temporary_table(
    persons: duckdb.DuckDBPyConnection, frame: Any, tmp_path: Path
) -> None:
    persons.execute("CREATE VIEW v AS FROM persons; CREATE TEMP TABLE t AS FROM persons").fetchall()
    persons.execute(f"COPY persons TO '{tmp_path}/p.parquet'").fetchall()
    for number, table in enumerate(["v", "t", "frame", f"{tmp_path}/p.parquet"], 1):
        call = CALL.replace("'persons'", f"'{table}'")
        first = persons.execute(call).fetchall()
        assert persons.execute(call).fetchall() == first
        assert charges(persons) == number
    with_cte = f"WITH c AS (FROM persons) {CALL.replace('persons', 'c')}"
    assert rows(persons, with_cte) == rows(persons, with_cte)
    found = rows(persons, "SELECT DISTINCT database, tbl FROM privacy_ledger() ORDER BY ALL")
    assert found == [("memory", one) for one in (f"{tmp_path}/p.parquet", "c", "frame", "main.v", "temp.t")]
    assert len(frame) == 33


def test_a_view_with_another_filter_is_another_release(persons: duckdb.DuckDBPyConnection) -> None:
    """Or whoever makes views could learn, by an equal release, that a filter removed nobody."""
    for number, filtered in enumerate(["id > 0", "id > -1"], 1):
        persons.execute(f"CREATE OR REPLACE VIEW v AS FROM persons WHERE {filtered}").fetchall()
        rows(persons, CALL.replace("'persons'", "'v'"))
        assert charges(persons) == number


def test_the_ledger_lies_with_the_table(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    file = tmp_path / "people.duckdb"
    con.execute(f"ATTACH '{file}' AS people").fetchall()
    fill(con, "people.persons")
    first = rows(con, CALL.replace("'persons'", "'people.persons'"))
    con.execute("USE people").fetchall()
    assert rows(con, CALL) == first
    con.execute("SELECT protect('persons', epsilon := 1)").fetchall()
    assert rows(con, "SELECT database, population, tables, spent FROM privacy_budget()") == [
        ("people", "main.persons", ["main.persons"], 0.1)
    ]
    con.execute("USE memory; DETACH people").fetchall()
    assert rows(con, "FROM privacy_ledger()") == []
    con.close()
    with duckanon.connect(file, read_only=True, role="steward") as again:
        assert again.execute(CALL).fetchall() == first
        with pytest.raises(duckdb.InvalidInputException) as raised:
            again.execute(CALL.replace("0.1", "0.2"))
        assert str(raised.value) == (
            "Invalid Input Error: Nothing can be recorded: the database people is read-only. "
            "Open a DuckDB database for writing."
        )
        assert again.execute("SELECT remaining_exact FROM privacy_budget()").fetchall() == [("0.9",)]


def test_a_view_in_another_database_charges_its_own_table(persons: duckdb.DuckDBPyConnection) -> None:
    persons.execute("ATTACH ':memory:' AS other; USE other").fetchall()
    fill(persons, "people")
    persons.execute(f"CREATE VIEW v AS {CALL.replace('persons', 'people')}; USE memory").fetchall()
    rows(persons, "FROM other.v")
    assert rows(persons, "SELECT database, tbl FROM privacy_ledger()") == [("other", "main.people")]


def test_two_connections_to_one_file_share_one_ledger(tmp_path: Path) -> None:
    file = str(tmp_path / "a.duckdb")
    with duckdb.connect(file) as one, duckdb.connect(file) as two:
        fill(duckanon.register(one))
        first = rows(one, CALL)
        assert rows(duckanon.register(two), CALL) == first
        one.close()
        rows(two, CALL.replace("0.1", "0.2"))
        assert charges(two) == 2


def test_nothing_keeps_the_file_open(tmp_path: Path) -> None:
    file = str(tmp_path / "a.duckdb")
    for epsilon in ("0.1", "0.2"):
        with duckdb.connect(file) as con:
            duckanon.register(con)
            if epsilon == "0.1":
                fill(con)
            rows(con, CALL.replace("0.1", epsilon))
        # DuckDB refuses another mode while the file is open.
        duckdb.connect(file, read_only=True).close()


def test_a_person_is_in_one_group(persons: duckdb.DuckDBPyConnection) -> None:
    call = CALL.replace("max_size", "person := 'id', max_size")
    assert len(rows(persons, call)) == 28
    persons.execute(
        "INSERT INTO persons SELECT * REPLACE (0 AS unit, 's0' AS state, 'c0' AS county) FROM persons WHERE id = 7"
    )
    with pytest.raises(duckdb.InvalidInputException, match='Column "id" holds NULL, or a person in more than one row'):
        rows(persons, call)
    assert charges(persons) == 1


# --- populations with a delta -----------------------------------------------------------------------------------------

PROTECT = (
    "SELECT protect('persons', population := 'people', unit := 'unit', epsilon := 1, delta := 1e-9, per_query := 0.5, "
    "max_size := 4, hierarchy := ['state', 'county'], "
    "domains := {'state': ['s0', 's1'], 'county': ['c0', 'c1', 'c2', 'c3']})"
)


def test_with_a_delta_the_narrower_noise_is_taken_and_costs_what_pure_noise_does(tmp_path: Path) -> None:
    """By a steward's call epsilon is that of pure noise; by an analyst's it is the price, as for every question.

    The order is 35.41, and the prices are those of randomised response.
    """
    asked = "FROM dp_group_sizes('persons', 'unit', hierarchy := ['state', 'county'], epsilon := {}, max_size := 4)"
    with duckanon.connect(tmp_path / "a.duckdb") as con:
        fill(con)
        rows(con, PROTECT)
        for epsilon in ("0.1", "0.4"):
            first = rows(con, asked.format(epsilon))
            assert rows(con, asked.format(epsilon)) == first
        charged = "SELECT epsilon_exact, noise FROM privacy_ledger() WHERE action = 'charge' ORDER BY number"
        prices = [price(Fraction(one), Fraction("35.41")) for one in ("0.1", "0.4")]
        noise = [f"gaussian, rho {prices[0] / Fraction('35.41')}", "pure, epsilon 0.4"]
        expected = list(zip(map(written, prices), noise, strict=True))
        assert rows(con, charged) == expected
    with duckanon.connect(tmp_path / "a.duckdb", role="analyst") as analyst:
        found = analyst.execute(asked.format("0.01")).fetchall()
        assert all(0 <= low <= groups <= high for *_, groups, low, high in found)
        assert analyst.execute(asked.format("0.01")).fetchall() == found
        with pytest.raises(duckanon.errors.PolicyRefusal, match="choose one of 'auto'"):
            analyst.execute(asked.format("0.01").replace("max_size", "mechanism := 'none', max_size"))
    with duckanon.connect(tmp_path / "a.duckdb", role="steward") as con:
        assert rows(con, charged) == [*expected, ("0.01", "gaussian, rho 1/3541")]


def test_gaussian_noise_is_not_charged_to_a_budget_without_a_delta() -> None:
    charge = Charge(Fraction(1, 10), "a call", "neighbours", rho=Fraction(1, 100))
    with pytest.raises(duckanon.errors.InvalidInput, match="repeat the call"):
        in_unit_of(charge, None)
    known = renyi(Fraction(1), Fraction(1, 10**9))
    assert in_unit_of(charge, known).epsilon == known.of_rho(Fraction(1, 100))


# --- groups that are the privacy units --------------------------------------------------------------------------------


def test_groups_that_are_the_privacy_unit_are_protected_as_a_whole(persons: duckdb.DuckDBPyConnection) -> None:
    """The same call as for persons: a charge to the population protects a household, so the release does, too."""
    persons.execute(
        "SELECT protect('persons', population := 'homes', privacy_unit := 'Unit', epsilon := 200)"
    ).fetchall()
    found = rows(persons, f"SELECT * FROM dp_group_sizes('persons', 'unit', ['state'], {CLOSE}, max_size := 3)")
    exact = rows(
        persons,
        "SELECT level, state, least(size, 3), sum(groups) FROM group_sizes('persons', 'unit', ['state']) GROUP BY ALL",
    )
    assert {one[:3]: one[3] for one in found if one[3]} == {one[:3]: one[3] for one in exact}
    line = rows(persons, "SELECT unit, neighbours, what FROM privacy_ledger() WHERE action = 'charge'")
    assert line[0][:2] == ("one Unit", "one group added or removed, with all of its records")
    assert "totals := 'private'" in line[0][2]
    # Said in words, it is the same release.
    same = f"FROM dp_group_sizes('persons', 'unit', ['state'], {CLOSE}, max_size := 3, person := 'unit')"
    assert rows(persons, same) == found
    assert charges(persons) == 1


def test_a_whole_group_is_one_count_of_each_level(persons: duckdb.DuckDBPyConnection) -> None:
    """What the noise is scaled to: without any one group, one count of each level is smaller by one."""
    sizes = (
        "SELECT level, state, least(size, 3) AS size, sum(groups)::INT FROM group_sizes('{}', 'unit', ['state']) "
        "GROUP BY ALL"
    )
    whole = {one[:3]: one[3] for one in rows(persons, sizes.format("persons"))}
    for (unit,) in rows(persons, "SELECT DISTINCT unit FROM persons"):
        persons.execute(f"CREATE OR REPLACE VIEW others AS FROM persons WHERE unit <> {unit}")
        others = {one[:3]: one[3] for one in rows(persons, sizes.format("others"))}
        changed = [(key[0], many - others.get(key, 0)) for key, many in whole.items() if many != others.get(key, 0)]
        assert sorted(changed) == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("person := 'unit', totals := 'public'", "Where a whole group is to be protected its existence is private"),
        ("person := 'unit', mechanism := 'unattributed'", "mechanism"),
    ],
)
def test_whole_groups_need_private_totals(persons: duckdb.DuckDBPyConnection, more: str, why: str) -> None:
    with pytest.raises(duckdb.Error, match=why):
        rows(persons, f"FROM dp_group_sizes('persons', 'unit', {CLOSE}, max_size := 3, {more})")
    assert charges(persons) == 0


def test_a_whole_group_in_two_regions_is_refused(persons: duckdb.DuckDBPyConnection) -> None:
    persons.execute("INSERT INTO persons SELECT 99, 1, 's1', 'c2', false, 0")
    with pytest.raises(duckdb.Error, match="more than one region"):
        rows(persons, f"FROM dp_group_sizes('persons', 'unit', ['state'], {CLOSE}, max_size := 3, person := 'unit')")
    assert charges(persons) == 0
