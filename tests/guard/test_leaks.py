"""What the guard before "paid or published" gave away, each by name: it must not come back."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from shutil import copyfile
from threading import Thread
from typing import Any

import numpy as np
import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.engines.noise import Laplace
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, PaidQuestion
from tests.amounts import sampled
from tests.guard.residents import (
    AROUND,
    PERSONS,
    POLICY,
    VISITS,
    analyst,
    decide,
    make,
    refused,
    run,
    seen,
    spent,
)
from tests.guard.test_composition_published import shares

# The second database has other records: nobody of state A has hiv, and all are of other ages.
OTHER = "UPDATE persons SET dx = 'flu' WHERE state = 'A'; UPDATE persons SET age = age + 100"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("leaks") / "x.duckdb")


@pytest.fixture(scope="module")
def pair(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Analyst, Analyst]]:
    """Analysts of two databases with the same public facts and other records. They are only refused."""
    other = make(tmp_path_factory.mktemp("other") / "x.duckdb", *OTHER.split("; "))
    with analyst(made) as one, analyst(other) as two:
        yield one, two


def same(pair: tuple[Analyst, Analyst], sql: str) -> str:
    """The refusal, which is the same for both."""
    one, two = pair
    assert seen(one, sql) == seen(two, sql)
    assert str(one.explain(sql)) == str(two.explain(sql))
    assert refused(one, sql) == refused(two, sql)
    return refused(one, sql)


# --- 1: errors of casts told what records hold ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    sampled(
        [
            "person = 5 AND dx = 'hiv' AND age = 'x'",
            "person = 5 AND dx = 'hiv' AND sex::INTEGER = 1",
            "dx = 'hiv' AND sqrt(25 - age) > 0",
            "CASE WHEN dx = 'hiv' THEN error('yes') ELSE true END",
            "NOT TRY(age = 25 AND name::INTEGER = 7)",
            "TRY(name::INTEGER) = 7 AND dx = 'hiv'",
            "name LIKE 'n5$' ESCAPE '$' AND dx = 'hiv'",
        ]
    ),
)
def test_leak_1_no_condition_can_fail_on_a_record(pair: tuple[Analyst, Analyst], condition: str) -> None:
    said = same(pair, f"SELECT count(*) FROM persons WHERE {condition}")
    assert "What may be asked: " in said or "TRY is not run here" in said


@pytest.mark.parametrize(
    "condition",
    [
        "age = '17.5'",
        "age > '1.5e0'",
        "dx = 7",
        "insured = 'perhaps'",
    ],
)
def test_leak_1_no_constant_casts_the_column(pair: tuple[Analyst, Analyst], condition: str) -> None:
    said = same(pair, f"SELECT count(*) FROM persons WHERE {condition}")
    assert "cannot be answered. A constant must be a value of its column's type (" in said


def test_leak_1_the_count_is_made_after_the_charge(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[Fraction] = []

    def spy(con: Any, asked: PaidQuestion) -> Any:
        (row,) = con.execute("SELECT epsilon FROM duckanon.ledger WHERE action = 'charge'").fetchall()
        charged.append(Fraction(row[0]))
        return drawn(con, asked)

    drawn = mechanisms.draw
    monkeypatch.setattr(mechanisms, "draw", spy)
    with analyst(path) as con:
        con.execute("SELECT count(*) FROM persons WHERE person = 5 AND dx = 'hiv'").fetchall()
    assert charged == [1]


# --- 2: what explain said depended on cells ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT avg((age = 25 AND state = 'A' AND dx = 'hiv')::INTEGER) FROM persons",
        "SELECT state, avg((dx = 'hiv')::INTEGER) FROM persons GROUP BY state",
        "SELECT state, dx, count(*) / sum(count(*)) OVER (PARTITION BY state) FROM persons GROUP BY state, dx",
        "SELECT count(*) FROM persons WHERE age = 25 AND dx = 'hiv'",
    ],
)
def test_leak_2_explain_reads_no_record(
    pair: tuple[Analyst, Analyst], sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty cell, a small one and a large one are one decision, before and after the records change."""
    monkeypatch.setattr(mechanisms, "draw", None)
    one, two = pair
    text = sql.replace("'", "''")
    before = [con.execute("FROM privacy_ledger() SELECT count(*)").fetchall() for con in pair]
    assert str(one.explain(sql)) == str(two.explain(sql))
    asked = f"FROM explain_privacy('{text}')"
    assert one.execute(asked).fetchall() == two.execute(asked).fetchall()
    assert [con.execute("FROM privacy_ledger() SELECT count(*)").fetchall() for con in pair] == before


# --- 3: a thread stole the catalog's rows -----------------------------------------------------------------------------


def test_leak_3_two_threads_on_one_analyst(made: Path) -> None:
    outcomes: set[str] = set()
    stolen: list[Any] = []
    with analyst(made) as con:

        def steal() -> None:
            for _ in range(150):
                try:
                    con.execute("FROM range(3)")
                    stolen.extend(con.fetchmany(2))
                except duckanon.errors.DuckanonError as error:
                    outcomes.add(str(error))

        thief = Thread(target=steal)
        thief.start()
        for _ in range(25):
            for sql in (
                "CREATE TEMP TABLE mine AS FROM k_anonymize('persons', ['age'], k := 2, drop := ['person'])",
                "FROM persons",
            ):
                assert seen(con, sql)[:2] == ("error", "PolicyRefusal")
        thief.join()
        assert outcomes == set()
        assert {len(row) for row in stolen} == {1}
        assert {value for row in stolen for value in row} <= {0, 1, 2}
        assert con.execute("SHOW TABLES").fetchall() == [("counties",), ("persons",), ("visits",)]


# --- 4 and 5: copies of an analyst's choice, and k that counted records -----------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        "['age', 'income'], k := 5",
        "['age', 'sex', 'income'], k := 5, weights := {'income': 1000, 'age': 1, 'sex': 1}",
        "['age', 'sex'], k := 5, categorical := ['sex'], drop := ['person', 'name', 'income']",
    ],
)
def test_leak_4_no_copy_of_an_analysts_choice(pair: tuple[Analyst, Analyst], arguments: str) -> None:
    assert "k_anonymize of persons, which is protected, is released by the steward, once" in same(
        pair, f"FROM k_anonymize('persons', {arguments})"
    )


def test_leak_4_no_protected_table_as_a_hierarchy(pair: tuple[Analyst, Analyst]) -> None:
    for given in ("{'county': 'persons'}", "{'county': ['(SELECT max(name) FROM persons)']}"):
        for function, k in (("k_anonymize", "5"), ("k_compare", "[5]")):
            said = same(pair, f"FROM {function}('counties', ['county'], k := {k}, hierarchies := {given})")
            assert "cannot give hierarchies, which name tables" in said


DROP = "['person', 'household', 'county', 'state', 'insured', 'income', 'name']"
COPY = (
    f"CREATE TABLE copy AS FROM k_anonymize('persons', ['age', 'sex'], categorical := ['sex'], k := 5, drop := {DROP})"
)


def test_leak_4_the_published_copy_is_what_analysts_read(path: Path) -> None:
    wide = COPY.replace("copy AS", "wide AS").replace("['age', 'sex']", "['age', 'sex', 'income']")
    with duckanon.connect(path, role="steward") as con:
        run(con, COPY, wide.replace("'income', 'name'", "'name'"))
        with pytest.raises(Exception, match='column "income_lo", which the policy does not let out'):
            run(con, "SELECT publish('wide', of := 'persons')")
        run(con, "SELECT publish('copy', of := 'persons')")
    with analyst(path) as con:
        assert [name for name, *_ in con.execute("FROM copy").description] == [
            "class_id", "age_lo", "age_hi", "sex_set", "dx",
        ]  # fmt: skip
        assert seen(con, "FROM wide") == seen(con, "FROM nothing")
        said = refused(con, "FROM k_anonymize('persons', ['age', 'income'], k := 5)")
        assert "copy" in said.split("once", 1)[1]


def test_leak_5_k_counts_persons(path: Path) -> None:
    with duckanon.connect(path, role="steward") as con:
        run(con, "UPDATE persons SET person = 0 WHERE age % 2 = 0", COPY)
        with pytest.raises(Exception, match=r"not proven to hold 5 values of person"):
            run(con, "SELECT publish('copy', of := 'persons')")


# --- 6: exact totals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("totals := 'public', epsilon := 1", "told with noise only"),
        ("totals := 'public', epsilon := 0.0001", "told with noise only|ten-thousandth"),
        ("epsilon := 0.0001", "less than a ten-thousandth of the budget"),
        ("mechanism := 'chain', epsilon := 1", "totals"),
        ("regions := 'counties', epsilon := 1", "the steward's to choose"),
    ],
)
def test_leak_6_totals_are_never_exact(pair: tuple[Analyst, Analyst], arguments: str, why: str) -> None:
    call = f"FROM dp_group_sizes('persons', 'household', ['state', 'county'], max_size := 5, {arguments})"
    same(pair, call)
    refused(pair[0], call, why)


def test_leak_6_the_analysts_default_is_private(path: Path, draws: list[PaidQuestion]) -> None:
    with analyst(path) as con:
        call = "FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 1, max_size := 5)"
        con.execute(call).fetchall()
        con.execute(
            "SELECT size, count(*) FROM (SELECT household, count(*) AS size FROM persons GROUP BY 1) GROUP BY size"
        ).fetchall()
    # With the regions and without them, with noise on totals too.
    assert len(draws) == 2
    for one in draws:
        assert isinstance(one, GroupSizesQuestion)
        assert one.engine.totals == "private"


# --- 7: shares that disclose together ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["state", "district"])
def test_leak_7_columns_that_determine_each_other(tmp_path: Path, given: str) -> None:
    """dx within county, then insured within state: state A is county a1, so both tables are of the same 60 persons.

    The first tells how many they are, and the second then that 3 are not insured. Under another name too, which no
    table of regions tells.
    """
    changes = [
        "UPDATE persons SET dx = 'flu' WHERE person IN (2, 62, 162)",
        "UPDATE persons SET insured = true WHERE person IN (5, 6)",
    ]
    # No counts are sold, so shares alone do not tell numbers.
    policy = POLICY.format(epsilon=100, more="").replace("per_query := 1, ", "")
    # By itself the second would be let out.
    with duckanon.connect() as other:
        run(
            other,
            PERSONS,
            AROUND,
            *changes,
            "SELECT open_table('counties')",
            policy,
            *shares("two", "insured", "state"),
        )
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        run(con, PERSONS, *changes)
        run(con, "CREATE TABLE counties AS SELECT 'A' AS state, 'a1' AS county", "SELECT open_table('counties')")
        if given == "district":
            run(con, "ALTER TABLE persons RENAME state TO district")
            policy = policy.replace("'state'", "'district'").replace("hierarchy := ['district', 'county'],", "")
            policy = policy.replace("'county': 'counties', ", "")
        run(con, policy, *shares("one", "dx", "county"))
        made, call = shares("two", "insured", given)
        run(con, made)
        with pytest.raises(Exception, match=r"two is not published: together with one it is not proven safe"):
            run(con, call)
    with analyst(tmp_path / "x.duckdb") as analysts:
        assert seen(analysts, "FROM two") == seen(analysts, "FROM three")
        assert [row[0] for row in analysts.execute("SELECT name FROM publications()").fetchall()] == ["one"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT state, count(*) FILTER (WHERE age = 25 AND dx = 'hiv') / count(*) FILTER (WHERE age = 25) AS s "
        "FROM persons GROUP BY state",
        "SELECT state, avg((dx = 'hiv')::INTEGER) AS s FROM persons WHERE age = 25 GROUP BY state",
        "SELECT state, insured, count(*) / sum(count(*)) OVER (PARTITION BY state) AS s FROM persons GROUP BY ALL",
    ],
)
def test_leak_7_shares_on_demand_are_paid_quotients_of_noise(path: Path, sql: str, draws: list[PaidQuestion]) -> None:
    with analyst(path) as con:
        con.execute(sql).fetchall()
        assert spent(con) == len({one.key for one in draws}) > 0
        assert con.decision is not None
        assert con.decision.sql is not None
        assert "persons" not in con.decision.sql.lower()


# --- 8: copies, averages, moves and budgets ---------------------------------------------------------------------------


def test_leak_8_no_second_copy_after_a_b_a(path: Path) -> None:
    second = COPY.replace("copy AS", "other AS").replace("k := 5", "k := 7")
    with duckanon.connect(path, role="steward") as con:
        run(con, COPY, "SELECT publish('copy', of := 'persons')")
        run(con, "CREATE TABLE kept AS FROM persons", "UPDATE persons SET age = age + 1")
        run(con, "DELETE FROM persons", "INSERT INTO persons FROM kept", second)
        with pytest.raises(Exception, match=r"a k-anonymous table of main\.persons is published already"):
            run(con, "SELECT publish('other', of := 'persons')")
        run(con, "SELECT unpublish('copy')")
        with pytest.raises(Exception, match=r"a k-anonymous table of main\.persons is published already"):
            run(con, "SELECT publish('other', of := 'persons')")


def test_leak_8_a_renamed_or_copied_file_gives_the_same_noise(path: Path) -> None:
    questions = (
        "SELECT state, dx, count(*) FROM persons GROUP BY ALL ORDER BY ALL",
        "FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 1, max_size := 5) ORDER BY ALL",
    )
    with analyst(path) as con:
        first = [con.execute(sql).fetchall() for sql in questions]
    for name in ("y", "another name", "x.y"):
        moved = path.parent / name / f"{name}.duckdb"
        moved.parent.mkdir(exist_ok=True)
        copyfile(path, moved)
        with analyst(moved) as con:
            assert [con.execute(sql).fetchall() for sql in questions] == first
            assert spent(con) == 2


def test_leak_8_one_record_more_moves_counts_by_what_the_noise_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit's first record is picked among its own: a unit more, or other records of one, moves nothing else.

    With max_size := 1 every group is of that size, so one unit moves two regions if its pick is swapped.
    """
    found: list[tuple[Any, Fraction]] = []
    drawn = mechanisms.draw

    def spy(con: Any, one: PaidQuestion) -> Any:
        if isinstance(one, AggregatesQuestion):
            noise = one.counts_noise
            assert isinstance(noise, Laplace)
            most = noise.scale
        else:
            assert isinstance(one, GroupSizesQuestion)
            most = one.scale
        found.append((mechanisms.exact(con, one)[0], most))
        return drawn(con, one)

    monkeypatch.setattr(mechanisms, "draw", spy)
    changes = ("SELECT 1", "INSERT INTO persons SELECT * REPLACE ('b2' AS county, 'B' AS state, 0 AS household) "
               "FROM persons WHERE person = 8", "DELETE FROM persons WHERE person = 8")  # fmt: skip
    asks = (
        "SELECT state, county, count(*) FROM persons GROUP BY ALL",
        "SELECT count(*) FROM persons WHERE age < 50",
        "FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 1, max_size := 1)",
        "FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 1, max_size := 5)",
    )
    for at, change in enumerate(changes):
        path = make(tmp_path / f"{at}.duckdb", change)
        with analyst(path) as con:
            run(con, *asks)
    # Without the person, then with them, then with two records of them: neighbours of the first.
    for at in range(len(asks)):
        as_is, twice, without = (found[at + len(asks) * which] for which in range(3))
        for other in (as_is, twice):
            assert np.abs(other[0] - without[0]).sum() <= other[1], asks[at]
        assert as_is[1] == twice[1] == without[1]


def test_leak_8_keys_come_from_no_record(path: Path) -> None:
    sql = "SELECT county, count(*) FROM persons GROUP BY county ORDER BY county"
    with analyst(path) as con:
        keys = [row[0] for row in con.execute(sql).fetchall()]
    decide(path, "INSERT INTO persons SELECT * REPLACE ('c9' AS county, 9999 AS person) FROM persons LIMIT 1",
           "SELECT new_edition('persons')")  # fmt: skip
    with analyst(path) as con:
        assert [row[0] for row in con.execute(sql).fetchall()] == keys == ["a1", "b1", "b2", "c1"]
        call = "SELECT DISTINCT county FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 1, "
        assert ("c9",) not in con.execute(call + "max_size := 5)").fetchall()


def test_leak_8_one_budget_adds_charges_of_one_unit(path: Path) -> None:
    with duckanon.connect(path, role="steward") as con:
        run(con, "CREATE TABLE stays AS SELECT i AS stay, i // 3 AS person FROM range(30) r(i)")
        # Single records are no persons, so they cannot share the budget of persons.
        with pytest.raises(Exception, match="records of two tables are not one privacy unit"):
            run(con, "SELECT protect('stays', population := 'residents')")
        # And what was charged for persons is never counted for something else.
        run(con, "SELECT unprotect('visits')")
        with pytest.raises(Exception, match="privacy unit"):
            run(
                con, "SELECT protect('visits', population := 'residents', privacy_unit := 'clinic', rows_per_unit := 1)"
            )
        with pytest.raises(Exception, match="population"):
            run(con, "SELECT protect('visits', population := 'others', privacy_unit := 'person', epsilon := 9)")
        run(con, VISITS)
    with analyst(path) as con:
        run(con, "SELECT count(*) FROM persons", "SELECT clinic, count(*) FROM visits GROUP BY clinic")
        rows = con.execute("SELECT unit FROM privacy_ledger() WHERE action = 'charge' ORDER BY number").fetchall()
        assert [unit.partition(" (")[0] for (unit,) in rows] == ["all records of one person"] * 2
        assert spent(con) == 2


@pytest.mark.parametrize("domain", ["['a', 'b']", "'ENUM'"])
def test_leak_9_the_values_of_an_enum_that_is_made_anew(tmp_path: Path, domain: str) -> None:
    """The question's key, its price and the answer that stands do not depend on values that only the ENUM has."""
    path, ask = tmp_path / "x.duckdb", "SELECT m, count(*) AS n FROM p GROUP BY m"
    seen: list[tuple[Any, ...]] = []
    for values in ("'a', 'b'", "'hiv', 'b', 'a'"):
        with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
            con.execute("DROP TABLE IF EXISTS p; DROP TYPE IF EXISTS mood")
            con.execute(f"CREATE TYPE mood AS ENUM ({values}); CREATE TABLE p (pid BIGINT, m mood)")
            if not seen:
                con.execute(
                    f"SELECT protect('p', epsilon := 9, per_query := 1, public := ['m'], domains := {{'m': {domain}}})"
                ).fetchall()
        with duckanon.connect(path, role="analyst", config={"threads": 1}) as con:
            rows = con.execute(ask).fetchall()
            budget = con.execute("SELECT spent_exact, charges FROM privacy_budget()").fetchall()
            seen.append((rows, con.description, con.explain(ask).sql, budget))
    assert seen[0] == seen[1]
