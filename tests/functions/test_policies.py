"""What a steward decides, through SQL: policies, populations, open tables, editions; and what is shown of it."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError

CALL = "FROM dp_group_sizes('persons', 'unit', epsilon := 0.1, max_size := 2)"


@pytest.fixture
def persons(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute("CREATE TABLE persons AS SELECT i // 2 AS unit, i AS id, i % 3 AS age FROM range(8) r(i)").fetchall()
    con.execute("CREATE TABLE visits AS SELECT i AS patient, i // 4 AS clinic FROM range(8) r(i)").fetchall()
    return con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def said(con: Any, call: str) -> str:
    ((sentence,),) = rows(con, f"SELECT {call}")
    return str(sentence)


def refused(con: Any, call: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(con, f"SELECT {call}")
    return str(raised.value).removeprefix("Invalid Input Error: ")


def protect(arguments: str, table: str = "persons") -> str:
    return f"protect('{table}', {arguments})"


def test_a_column_of_the_name_that_owners_get_is_a_column(con: duckdb.DuckDBPyConnection) -> None:
    con.execute('CREATE TABLE t AS SELECT i AS "duckanon.unit", 1 AS a FROM range(3) r(i)').fetchall()
    said(con, "protect('t', privacy_unit := 'duckanon.unit', epsilon := 1)")
    assert rows(con, "SELECT privacy_unit FROM policies()") == [("duckanon.unit",)]
    said(con, "unprotect('t')")
    assert "never changes: it is duckanon.unit" in refused(con, "protect('t', epsilon := 1)")


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_empty_tables_have_no_rows(con: duckdb.DuckDBPyConnection) -> None:
    for name in ("privacy_ledger", "privacy_budget", "policies", "editions"):
        assert rows(con, f"FROM {name}()") == []


def test_a_statement_that_is_shown_twice_decides_once(persons: duckdb.DuckDBPyConnection) -> None:
    relation = persons.sql("SELECT protect('persons', unit := 'Unit', epsilon := 1) AS said")
    assert "1 left" in str(relation)
    assert relation.fetchall() == [
        ("main.persons is protected: of epsilon 1 in all, 0 is spent and 1 left. A charge protects one record.",)
    ]
    for call in ("unprotect('persons')", "open_table('visits')", "close_table('visits')"):
        relation = persons.sql(f"SELECT {call} AS said")
        assert len(relation.fetchall()) == len(relation.fetchall()) == 1
    found = rows(persons, "SELECT number, action, what, epsilon, remaining, edition FROM privacy_ledger()")
    assert [one[:2] for one in found] == [(1, "protect"), (2, "unprotect"), (3, "open"), (4, "close")]
    policy = '{"epsilon": "1", "population": "main.persons", "unit": "Unit"}'
    assert found[0][2:] == (f"protect: {policy}", None, 1.0, 1)


@pytest.mark.parametrize(
    ("terms", "protects", "width"),
    [
        ("per_query := 0.5", "one record", "6"),
        ("per_query := 0.002", "one record", "1,498"),
        (
            "privacy_unit := 'id', rows_per_unit := 50, per_query := 1",
            "all records of one id (a sample of 50 counts)",
            "150",
        ),
    ],
)
def test_protect_says_how_near_to_the_truth_a_count_is(tmp_path: Path, terms: str, protects: str, width: str) -> None:
    """As near as explain_privacy says of a count. Nothing was said of it; without per_query there are no counts."""
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i AS id FROM range(8) r(i)").fetchall()
        assert said(con, protect(f"epsilon := 4, {terms}")) == (
            f"main.persons is protected: of epsilon 4 in all, 0 is spent and 4 left. A charge protects {protects}. "
            f"For epsilon {terms.split()[-1]}, a count is within {width} of the truth in 95 % of cases."
        )
        within = con.execute("SELECT within FROM explain_privacy('SELECT count(*) FROM persons')").fetchall()
        assert within == [(int(width.replace(",", "")),)]


def test_a_policy_is_shown_as_it_was_said(persons: duckdb.DuckDBPyConnection) -> None:
    rows(
        persons,
        "SELECT protect('persons', population := 'Größe', privacy_unit := 'id', rows_per_unit := 3, epsilon := 2, "
        "per_query := 0.5, per_edition := 1, domains := {'age': [0, 1, 2]}, bounds := {'age': [0, 2.5, 0.5]}, k := 7)",
    )
    found = rows(
        persons,
        "SELECT population, privacy_unit, rows_per_unit, epsilon, per_query, per_edition, domains, bounds, k "
        "FROM policies()",
    )
    assert found == [("Größe", "id", 3, 2.0, 0.5, 1.0, ["age"], ["age"], 7)]
    ((what, unit),) = rows(persons, "SELECT what, unit FROM privacy_ledger()")
    assert '"bounds": {"age": ["0", "2.5", "0.5"]}' in what
    assert "Größe" in what
    assert unit == "all records of one id (a sample of 3 counts)"


# --- populations and units --------------------------------------------------------------------------------------------


def test_bounds_of_moments_are_kept_in_utc(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever the zone of the session in which they are given: its offset is part of the value."""
    con.execute("SET TimeZone = 'Asia/Kolkata'")
    con.execute("CREATE TABLE t AS SELECT i AS id, now() AS seen, now()::TIMESTAMP AS ts FROM range(3) r(i)").fetchall()
    bounds = "bounds := {'seen': [TIMESTAMPTZ '2020-01-01 00:00:00+00', TIMESTAMPTZ '2029-12-31 01:00:00+01']}"
    said(con, protect(f"epsilon := 1, {bounds}", "t"))
    kept = '"bounds": {"seen": ["2020-01-01 00:00:00+00:00", "2029-12-31 00:00:00+00:00"]}'
    assert kept in rows(con, "SELECT what FROM privacy_ledger()")[-1][0]
    said(con, "unprotect('t')")
    said(con, protect("epsilon := 1, bounds := {'seen': ['2020-01-01T00:00:00Z', '2029-12-31 00:00:00+00:00']}", "t"))
    assert kept in rows(con, "SELECT what FROM privacy_ledger()")[-1][0]
    said(con, "unprotect('t')")
    for ends in ("['2020-01-01', '2029-12-31']", "[TIMESTAMP '2020-01-01', TIMESTAMP '2029-12-31']"):
        call = protect(f"epsilon := 1, bounds := {{'seen': {ends}}}", "t")
        assert refused(con, call).startswith(
            'The bounds of "seen", which has a time zone, must be times with an offset'
        )
    call = protect("epsilon := 1, bounds := {'seen': ['2020-01-01 00:00:00+00', '2029-12-31 00:00:00']}", "t")
    assert refused(con, call).startswith('The bounds of "seen" must be its earliest and its latest value')


def test_tables_of_one_population_spend_together(persons: duckdb.DuckDBPyConnection) -> None:
    said(persons, protect("population := 'people', privacy_unit := 'id', epsilon := 0.25"))
    second = protect("population := 'PEOPLE', privacy_unit := 'patient'", "visits")
    assert "(population people): of epsilon 0.25 in all, 0 is spent" in said(persons, second)
    call = "FROM dp_group_sizes('{}', '{}', epsilon := 0.1, max_size := 2, person := '{}')"
    rows(persons, call.format("persons", "unit", "id"))
    rows(persons, call.format("visits", "clinic", "patient"))
    assert rows(persons, "SELECT population, tables, spent_exact, charges FROM privacy_budget()") == [
        ("people", ["main.persons", "main.visits"], "0.2", 2)
    ]
    with pytest.raises(duckdb.InvalidInputException, match=r"budget of people does not suffice: epsilon 0\.1 is more"):
        rows(persons, call.format("persons", "age", "id"))


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (
            "population := 'people', epsilon := 1",
            "population := 'people', privacy_unit := 'patient'",
            "The population people has another table, and records of two tables are not one privacy unit: name the "
            "column that identifies the unit in each, as in privacy_unit := 'person'.",
        ),
        (
            "population := 'people', privacy_unit := 'id', epsilon := 1",
            "population := 'people'",
            "The population people has another table, and records of two tables are not one privacy unit: name the "
            "column that identifies the unit in each, as in privacy_unit := 'person'.",
        ),
        (
            "population := 'people', privacy_unit := 'id', epsilon := 1",
            "population := 'people', privacy_unit := 'patient', epsilon := 2",
            "The population people has a budget of epsilon 1: leave epsilon out, or unprotect its other tables first.",
        ),
        (
            "population := 'people', privacy_unit := 'id', epsilon := 1",
            "population := 'nobody', privacy_unit := 'patient'",
            "The population nobody has no budget yet: say how much may be spent on it in all, as in epsilon := 1.",
        ),
    ],
)
def test_a_population_has_one_budget_and_one_kind_of_unit(
    persons: duckdb.DuckDBPyConnection, first: str, second: str, sentence: str
) -> None:
    said(persons, protect(first))
    assert refused(persons, protect(second, "visits")) == sentence
    assert len(rows(persons, "FROM privacy_ledger()")) == 1


def test_population_and_unit_never_change_and_nothing_is_given_back(persons: duckdb.DuckDBPyConnection) -> None:
    said(persons, protect("population := 'people', privacy_unit := 'id', epsilon := 0.25"))
    rows(persons, CALL.replace("epsilon", "person := 'id', epsilon"))
    rows(persons, "SELECT unprotect('persons')")
    assert refused(persons, protect("population := 'others', epsilon := 1")) == (
        "main.persons spends from the population people, and a table never changes its population: leave population "
        "out, or write population := 'people'."
    )
    for unit in ("", ", privacy_unit := 'unit'"):
        assert (
            refused(persons, protect(f"epsilon := 1{unit}"))
            == "The privacy unit of main.persons never changes: it is id."
        )
    # Dropped and made again, the table is the one of that name.
    rows(persons, "CREATE OR REPLACE TABLE PERSONS AS SELECT 1 AS Id")
    assert "(population people): of epsilon 0.3 in all, 0.1 is spent and 0.2 left." in said(
        persons, protect("privacy_unit := 'ID', epsilon := 0.3")
    )
    rows(persons, "SELECT unprotect('persons')")
    assert "of epsilon 0.3 in all, 0.1 is spent" in said(persons, protect("privacy_unit := 'id'"))


def test_the_unit_of_a_table_by_records_never_changes(persons: duckdb.DuckDBPyConnection) -> None:
    said(persons, protect("epsilon := 1"))
    rows(persons, "SELECT unprotect('persons')")
    assert refused(persons, protect("privacy_unit := 'id'")) == (
        "The privacy unit of main.persons never changes: it is a record."
    )


def test_charges_before_protect_count(persons: duckdb.DuckDBPyConnection) -> None:
    rows(persons, CALL)
    rows(persons, CALL.replace("persons', 'unit", "visits', 'patient"))
    said(persons, protect("population := 'people', privacy_unit := 'id', epsilon := 1"))
    assert rows(persons, "SELECT spent_exact, spent_in_edition_exact FROM privacy_budget()") == [("0.1", "0")]
    said(persons, protect("population := 'people', privacy_unit := 'patient'", "visits"))
    assert rows(persons, "SELECT spent_exact, charges FROM privacy_budget()") == [("0.2", 2)]
    # Once is enough.
    rows(persons, "SELECT unprotect('visits')")
    said(persons, protect("privacy_unit := 'patient'", "visits"))
    assert rows(persons, "SELECT spent_exact, charges FROM privacy_budget()") == [("0.2", 2)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("epsilon := 1, per_query := 2", "per_query must not be more than epsilon or per_edition: "),
        (
            "epsilon := 1, per_edition := 0.1, per_query := 0.2",
            "per_query must not be more than epsilon or per_edition: ",
        ),
        ("epsilon := 1, rows_per_unit := 2", "rows_per_unit is for a privacy unit with a column: name it"),
        ("epsilon := 1, privacy_unit := 'id', per_query := 1", "How many records of one id count? Noise grows with it"),
        ("epsilon := 1, privacy_unit := ''", "privacy_unit must be the name of the column that identifies"),
        ("epsilon := 1, privacy_unit := 'nope'", 'There is no column "nope" in persons'),
        ("epsilon := 1, population := 3", "population must be the name of those whose budget it is"),
        ("epsilon := 1, public := ['ID'], privacy_unit := 'id'", 'Column "ID" is both in public and in privacy_unit'),
        ("epsilon := 1, bounds := {'age': [2, 1]}", 'The bounds of "age" must be its least and its largest value'),
        ("epsilon := 1, bounds := {'age': [0, 1, 0]}", 'The bounds of "age" must be its least and its largest value'),
        ("epsilon := 1, bounds := {'age': ['a', 'b']}", 'The bounds of "age" must be its least and its largest value'),
        ("epsilon := 1, bounds := {'nope': [0, 1]}", 'There is no column "nope" in persons'),
        ("epsilon := 1, bounds := [0, 1]", "bounds must say something for each column, as in bounds := "),
        ("epsilon := 1, bounds := {'word': [-1, 1]}", 'The bounds of "word", which is text, are those of its length'),
        ("epsilon := 1, bounds := {'word': [0, 1.5]}", 'The bounds of "word", which is text, are those of its length'),
        ("epsilon := 1, bounds := {'word': [1, 9, 2]}", 'The least length of "word" must be a multiple of the step'),
        (
            "epsilon := 1, domains := {'age': 3}",
            'The domain of "age" must be a list of values, a range, the name of an open table',
        ),
        ("epsilon := 1, domains := ['ab']", "domains must say something for each column, as in domains := "),
    ],
)
def test_terms_that_contradict_themselves(persons: duckdb.DuckDBPyConnection, arguments: str, sentence: str) -> None:
    persons.execute("ALTER TABLE persons ADD COLUMN word VARCHAR").fetchall()
    assert refused(persons, protect(arguments)).startswith(sentence)
    assert rows(persons, "FROM privacy_ledger()") == []


def test_what_cannot_be_protected(persons: duckdb.DuckDBPyConnection) -> None:
    for statement in (
        "CREATE VIEW v AS FROM persons",
        "CREATE TABLE made(a INT, b INT GENERATED ALWAYS AS (1 / a) VIRTUAL)",
        "CREATE TABLE short(a INT, b INT AS (a + 1))",
        "CREATE TABLE folded(a VARCHAR COLLATE NOCASE)",
        'CREATE TABLE "GENERATED ALWAYS AS"("COLLATE" VARCHAR DEFAULT \'GENERATED ALWAYS AS\')',
        "CREATE TEMP TABLE passing(a INT)",
    ):
        persons.execute(statement).fetchall()
    assert refused(persons, protect("epsilon := 1", "v")) == (
        "main.v is a view, and what a view computes may fail on a record, which would tell about it: protect the table "
        "that it reads, or make it a table."
    )
    for table in ("made", "short"):
        assert "has a generated column, which may fail on a record" in refused(persons, protect("epsilon := 1", table))
    assert "has a column with COLLATE, under which" in refused(persons, protect("epsilon := 1", "folded"))
    for table in ("passing", "voters.csv", "duckanon.ledger"):
        if table == "duckanon.ledger":
            assert "is protected" in said(persons, protect("epsilon := 1", '"GENERATED ALWAYS AS"'))
        with pytest.raises(duckdb.Error, match=r"is no table that lasts|No files found|does not exist"):
            said(persons, protect("epsilon := 1", table))


def test_names_are_compared_as_duckdb_does(con: duckdb.DuckDBPyConnection) -> None:
    """A to Z without case, all other letters with it; dots within quotes."""
    con.execute('CREATE TABLE "É"(i INT); CREATE TABLE "é"(i INT, "Ü" INT, "ü" INT); CREATE SCHEMA "S.x"').fetchall()
    con.execute('CREATE TABLE "S.x"."say.A"(i INT)').fetchall()
    assert said(con, protect("epsilon := 1", '"É"')).startswith("main.É is protected")
    assert said(con, protect("epsilon := 2, bounds := {'Ü': [0, 1]}", '"é"')).startswith("main.é is protected")
    assert refused(con, protect("epsilon := 1, unit := 'Ö'", '"é"')).startswith('There is no column "Ö"')
    assert said(con, protect("epsilon := 3", '"s.X"."SAY.a"')).startswith("S.x.say.A is protected")
    assert "is protected already" in refused(con, protect("epsilon := 4", '"S.X"."say.A"'))
    found = rows(con, "SELECT tbl, epsilon FROM policies() ORDER BY epsilon")
    assert found == [("main.É", 1.0), ("main.é", 2.0), ("S.x.say.A", 3.0)]
    assert said(con, """unprotect('"s.x"."Say.a"')""").startswith("S.x.say.A is no longer protected")


def test_a_budget_survives_rollback_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.duckdb"
    with duckanon.connect(file) as con:
        con.execute("CREATE TABLE persons AS SELECT 1 AS unit").fetchall()
        con.begin()
        con.execute("SELECT protect('persons', unit := 'unit', epsilon := '1/3')").fetchall()
        con.rollback()
        con.execute(CALL).fetchall()
    with duckanon.connect(file, role="steward") as con:
        found = con.execute(
            "SELECT population, tables, epsilon_exact, spent_exact, remaining_exact FROM privacy_budget()"
        )
        assert found.fetchall() == [("main.persons", ["main.persons"], "1/3", "0.1", "7/30")]
        con.execute("DROP TABLE persons").fetchall()
        assert len(con.execute("FROM policies()").fetchall()) == 1
        assert (
            con.execute("SELECT unprotect('persons')")
            .fetchall()[0][0]
            .startswith("main.persons is no longer protected")
        )
        assert con.execute("FROM privacy_budget()").fetchall() == con.execute("FROM policies()").fetchall() == []


def test_what_is_read_only_shows_and_decides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.duckdb"
    with duckanon.connect(file) as con:
        con.execute("CREATE TABLE persons AS SELECT 1 AS unit; CREATE TABLE codes AS SELECT 1 AS code").fetchall()
        con.execute("SELECT protect('persons', epsilon := 1)").fetchall()
    with duckanon.connect(file, read_only=True, role="steward") as con:
        for call in (
            "protect('codes', epsilon := 1)",
            "unprotect('persons')",
            "open_table('codes')",
            "new_edition('persons')",
        ):
            assert refused(con, call) == (
                "Nothing can be recorded: the database a is read-only. Open a DuckDB database for writing."
            )
        assert "1 left" in said(con, "protect('persons', epsilon := 1)")
        assert len(con.execute("FROM policies()").fetchall()) == 1


def test_decisions_lie_with_the_table(persons: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    rows(persons, f"ATTACH '{tmp_path / 'o.duckdb'}' AS other")
    rows(persons, "CREATE TABLE other.people AS SELECT 1 AS id; CREATE TABLE other.codes AS SELECT 1 AS id")
    rows(persons, "SELECT open_table('other.codes')")
    rows(persons, "SELECT protect('other.people', epsilon := 1, domains := {'id': 'codes'})")
    assert rows(persons, "SELECT DISTINCT database FROM privacy_ledger()") == [("other",)]
    assert rows(persons, "FROM other.duckanon.domain_2_0") == [(1,)]
    # A domain lies in the same database, as its copy does.
    rows(persons, "SELECT open_table('visits'); SELECT unprotect('other.people')")
    assert "which is not open" in refused(persons, "protect('other.people', domains := {'id': 'memory.main.visits'})")


def test_a_refused_release_charges_nothing_and_says_what_is_left(persons: duckdb.DuckDBPyConnection) -> None:
    rows(persons, "SELECT protect('persons', epsilon := 0.25)")
    first = rows(persons, CALL)
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(persons, CALL.replace("0.1", "0.2"))
    assert str(raised.value) == (
        "Invalid Input Error: The privacy budget of main.persons does not suffice: epsilon 0.2 is more than the 0.15 "
        "left of 0.25. Ask for less, or repeat an earlier question as it was: its stored answer is free."
    )
    assert rows(persons, CALL) == first
    assert rows(persons, "SELECT spent, charges FROM privacy_budget()") == [(0.1, 1)]


# --- editions ---------------------------------------------------------------------------------------------------------


def test_an_edition_has_a_cap_of_its_own(persons: duckdb.DuckDBPyConnection) -> None:
    terms = "population := 'people', epsilon := 1, per_edition := 0.15, privacy_unit := 'id'"
    said(persons, protect(terms))
    calls = [CALL.replace("epsilon", f"person := 'id', mechanism := '{one}', epsilon") for one in ("auto", "topdown")]
    rows(persons, calls[0])
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(persons, calls[1])
    assert str(raised.value) == (
        "Invalid Input Error: Of people no more than epsilon 0.15 may be spent in one edition, and 0.1 is spent in "
        "this one: epsilon 0.1 is more than the rest. Ask for less, or repeat an earlier question as it was: its "
        "stored answer is free."
    )
    assert said(persons, "new_edition('persons')").startswith("Edition 2 of people has begun: ")
    rows(persons, calls[1])
    assert rows(persons, "SELECT edition, spent_exact FROM editions() ORDER BY edition") == [(1, "0.1"), (2, "0.1")]
    assert rows(persons, "SELECT edition, spent_exact, spent_in_edition_exact FROM privacy_budget()") == [
        (2, "0.2", "0.1")
    ]
    assert rows(persons, "SELECT edition, action FROM privacy_ledger() ORDER BY number") == [
        (1, "protect"),
        (1, "charge"),
        (2, "edition"),
        (2, "charge"),
    ]


def test_tables_of_a_population_begin_an_edition_together(persons: duckdb.DuckDBPyConnection) -> None:
    said(persons, protect("population := 'people', privacy_unit := 'id', epsilon := 1"))
    said(persons, protect("population := 'people', privacy_unit := 'patient'", "visits"))
    rows(persons, "SELECT new_edition('visits')")
    rows(persons, "SELECT unprotect('persons')")
    said(persons, protect("privacy_unit := 'id'"))
    assert rows(persons, "SELECT edition FROM privacy_budget()") == [(2,)]
    for table in ("nobody", "other"):
        assert refused(persons, f"new_edition('{table}')") == (
            f"main.{table} is not protected, so it has no editions: protect it first."
        )


# --- open tables ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_opened(persons: duckdb.DuckDBPyConnection) -> None:
    said(persons, protect("epsilon := 1"))
    for statement in (
        "CREATE VIEW v AS SELECT age FROM persons",
        "CREATE VIEW w AS WITH c AS (FROM v) SELECT count(*) AS n FROM c",
        "CREATE MACRO m() AS TABLE FROM w",
        "CREATE VIEW x AS FROM m()",
        "CREATE VIEW y AS SELECT * FROM visits WHERE EXISTS (FROM persons) AND 1 = 0",
        "CREATE VIEW z AS FROM query_table('persons')",
        "CREATE VIEW fine AS FROM visits",
        "CREATE VIEW broken AS FROM visits",
        "CREATE TEMP TABLE passing(a INT)",
        'CREATE TABLE "*"(a INT)',
        "CREATE VIEW ledger AS FROM duckanon.ledger",
    ):
        persons.execute(statement).fetchall()
    assert refused(persons, "open_table('persons')") == (
        "main.persons is protected, so it cannot be opened: publish releases of it."
    )
    for view in "vwxyz":
        assert refused(persons, f"open_table('{view}')") == (
            f"main.{view} is a view that reads main.persons, which is protected, so it cannot be opened: publish "
            "releases of it."
        )
    assert "has the name of all tables" in refused(persons, """open_table('"*"')""")
    assert "is no table that lasts, so it cannot be opened" in refused(persons, "open_table('passing')")
    for table in ("duckanon.ledger", "duckanon.*", "memory.duckanon.releases"):
        assert "belongs to duckanon, so it cannot be opened" in refused(persons, f"open_table('{table}')")
    assert "main.ledger reads tables of duckanon" in refused(persons, "open_table('ledger')")
    for schema in ("nope", "information_schema", "temp", "system.main"):
        assert refused(persons, f"open_table('{schema}.*')") == (
            f"There is no schema {schema}: open_table('main.*') opens main."
        )
    assert said(persons, "open_table('FINE')") == "main.fine is open: analysts read it as it is."
    assert len(rows(persons, "FROM privacy_ledger() WHERE action = 'open'")) == 1


def test_an_open_table_is_protected_and_open_no_more(persons: duckdb.DuckDBPyConnection) -> None:
    rows(persons, "SELECT open_table('persons')")
    said(persons, protect("epsilon := 1"))
    rows(persons, "SELECT unprotect('persons')")
    assert said(persons, "close_table('persons')") == "main.persons is not open: nothing has changed."


def test_a_table_of_an_open_schema_is_not_closed_alone(persons: duckdb.DuckDBPyConnection) -> None:
    assert said(persons, "open_table('memory.main.*')") == (
        "Every table of main that is not protected is open: analysts read it as it is."
    )
    assert refused(persons, "close_table('visits')") == (
        "main.visits is open because its schema is: close_table('main.*') first, and open the schema's other tables by "
        "their names."
    )
    assert said(persons, "close_table('MAIN.*')").startswith("What is in MAIN is closed: ")
    assert said(persons, "close_table('visits')") == "main.visits is not open: nothing has changed."


def test_analysts_read_what_is_open_now(tmp_path: Path) -> None:
    """A table or a view with other columns than those that were opened is closed, until a steward opens it again."""
    file, denied = tmp_path / "a.duckdb", "The statement reads something that analysts cannot see"

    def steward(*statements: str) -> None:
        with duckanon.connect(file, role="steward") as con:
            for statement in statements:
                con.execute(statement).fetchall()

    def analyst(query: str) -> list[tuple[Any, ...]] | str:
        with duckanon.connect(file, role="analyst") as con:
            try:
                return con.sql(query).fetchall()
            except DuckanonError as error:
                return str(error)

    steward(
        "CREATE SCHEMA pub; CREATE TABLE codes AS SELECT 1 AS a; CREATE TABLE shut AS SELECT 42 AS secret, 1 AS a",
        "CREATE VIEW v AS FROM codes; CREATE TABLE pub.days AS SELECT 7 AS day; CREATE TABLE pub.who AS SELECT 1 AS id",
        *(f"SELECT open_table('{name}')" for name in ("codes", "v", "pub.*")),
        "SELECT protect('pub.who', epsilon := 1)",
    )
    assert analyst("FROM v") == analyst("FROM codes") == [(1,)]
    assert analyst("FROM pub.days") == [(7,)]
    assert denied in str(analyst("FROM shut"))
    steward(
        "CREATE OR REPLACE VIEW v AS FROM shut", "ALTER TABLE codes ADD COLUMN b INT", "SELECT unprotect('pub.who')"
    )
    for name in ("v", "codes", "pub.who"):
        assert denied in str(analyst(f"FROM {name}")), name
    steward("CREATE OR REPLACE TABLE Codes AS SELECT 2 AS A", "CREATE OR REPLACE VIEW v AS FROM codes")
    assert analyst("FROM v") == analyst("FROM codes") == [(2,)]


@pytest.mark.parametrize("column", ["secret INT GENERATED ALWAYS AS (1 // id)", "secret VARCHAR COLLATE NOCASE"])
def test_a_table_that_no_longer_fits_its_policy_answers_nobody(tmp_path: Path, column: str) -> None:
    question = "SELECT id, count(*) FROM persons GROUP BY id"
    terms = "epsilon := 1, per_query := 0.5, public := ['id'], domains := {'id': [1, 2]}"
    with duckanon.connect(tmp_path / "a.duckdb", role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT 1 AS id").fetchall()
        con.execute(f"SELECT {protect(terms)}").fetchall()
        assert con.execute("SELECT decision FROM explain_privacy(?)", [question]).fetchall() == [("rewritten",)]
        con.execute(f"CREATE OR REPLACE TABLE persons(id INT, {column})").fetchall()
        assert con.execute("SELECT decision FROM explain_privacy(?)", [question]).fetchall() == [("refused",)]


# --- propose_domains --------------------------------------------------------------------------------------------------


def proposed(con: duckdb.DuckDBPyConnection, table: str) -> dict[str, tuple[Any, ...]]:
    found = rows(con, f"SELECT column_name, distinct_values, nulls, domain, hint FROM propose_domains('{table}')")
    return {name: tuple(rest) for name, *rest in found}


def test_proposed_domains_can_be_given_to_protect(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET default_null_order = 'nulls_first'").fetchall()
    con.execute(
        "CREATE TABLE t AS SELECT i AS id, ((i * 7) % 13 - 1) AS n, ['it''s', 'b', NULL][1 + i % 3] AS \"B \"\"b\", "
        "i % 2 = 0 AS flag, DATE '2020-01-01' + (i % 3)::INT AS d, (i % 2 + 0.5)::DECIMAL(4, 1) AS price, [i] AS list, "
        "['y', 'x'][1 + i % 2]::ENUM('y', 'x') AS e, CASE i % 3 WHEN 0 THEN 'nan' ELSE '1.5' END::DOUBLE AS f, "
        "NULL::INT AS never FROM range(600) r(i)"
    ).fetchall()
    found = proposed(con, "t")
    assert list(found) == ["id", "n", 'B "b', "flag", "d", "price", "list", "e", "f", "never"]
    assert {name: one[2] for name, one in found.items()} == {
        "id": None,
        "n": "[-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
        'B "b': "['b', 'it''s', NULL]",
        "flag": "[false, true]",
        "d": "['2020-01-01', '2020-01-02', '2020-01-03']",
        "price": "[0.5, 1.5]",
        "list": None,
        "e": "['x', 'y']",
        "f": "['1.5', 'nan']",
        "never": None,
    }
    assert found['B "b'][:2] == (2, 200)
    assert found["id"][3].startswith("more than 200 values")
    assert "or 'ENUM'" in found["e"][3]
    pasted = ", ".join(f"""'{name}': {one[2]}""" for name, one in found.items() if one[2])
    rows(con, f"SELECT protect('t', epsilon := 1, domains := {{{pasted}}})")
    for number, name in enumerate([name for name, one in found.items() if one[2]]):
        copied = con.execute(f"SELECT system.main.list(COLUMNS(*)) FROM duckanon.domain_1_{number}").fetchall()[0][0]
        quoted = name.replace('"', '""')
        ((held,),) = rows(con, f'SELECT list(DISTINCT "{quoted}") FROM t')
        assert sorted(map(repr, copied)) == sorted(map(repr, held)), name


def test_proposals_for_odd_tables(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE nobody(value INT, column_name VARCHAR)").fetchall()
    nothing = (0, 0, None, "there is no value: list those that there may be")
    assert proposed(con, "nobody") == {"value": nothing, "column_name": nothing}
    con.execute("CREATE TABLE few AS SELECT i AS id, i // 3 AS group FROM range(30) r(i)").fetchall()
    assert proposed(con, "few")["id"] == (
        30,
        0,
        None,
        "hardly a value is in two records: it may tell one from all others",
    )
    assert proposed(con, "few")["group"][2] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    wide = ", ".join(f"(i * {k}) % {k + 2} AS c{k}" for k in range(600))
    con.execute(f"CREATE TABLE wide AS SELECT {wide} FROM range(900) r(i)").fetchall()
    found = proposed(con, "wide")
    assert list(found) == [f"c{k}" for k in range(600)]
    assert found["c9"] == (11, 0, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", None)
    assert con.execute("FROM privacy_ledger()").fetchall() == []


TIMES_BEYOND_PYTHON = [
    "DATE 'infinity'", "DATE '-infinity'", "DATE '0044-03-15 (BC)'", "DATE '99999-01-01'", "TIMESTAMP 'infinity'",
    "TIMESTAMP '0044-03-15 (BC) 01:00:00'", "TIMESTAMPTZ '-infinity'", "TIMESTAMP_NS '2024-02-29 00:00:00.000000001'",
]  # fmt: skip


@pytest.mark.parametrize("value", TIMES_BEYOND_PYTHON)
@pytest.mark.parametrize(
    "call",
    [
        "SELECT protect('persons', epsilon := 1, public := ['age'], domains := {{'age': [{}]}})",
        "SELECT protect({}, epsilon := 1)",
        "FROM k_anonymize('persons', ['age'], k := {})",
        "FROM k_report('persons', [{}])",
    ],
)
def test_times_that_python_does_not_have_are_one_sentence(
    persons: duckdb.DuckDBPyConnection, call: str, value: str
) -> None:
    with pytest.raises(duckdb.Error) as raised:
        persons.execute(call.format(value)).fetchall()
    assert "UDF" not in str(raised.value)
    assert "Python" not in str(raised.value)


def test_explain_privacy_speaks_of_the_database_in_use(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "a.duckdb", role="steward") as con:
        con.execute(f"ATTACH '{tmp_path / 'b.duckdb'}' AS b").fetchall()
        for database, epsilon in (("a", 10), ("b", 3)):
            con.execute(f"USE {database}; CREATE TABLE t AS SELECT 1 AS x").fetchall()
            con.execute(f"SELECT protect('t', epsilon := {epsilon}, per_query := 1)").fetchall()
        for place, epsilon in (("a", 10), ("b", 3), ("a.main", 10)):
            con.execute(f"USE {place}").fetchall()
            explained = con.execute("SELECT remaining FROM explain_privacy('SELECT count(*) FROM t')").fetchall()
            assert explained == [(epsilon,)]
