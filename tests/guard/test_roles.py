"""Roles: what an analyst's connection is, and what a steward's policy says; both survive the closing of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.analyst import Admitted
from duckanon.errors import BudgetExhausted, InvalidInput, PolicyRefusal, UnsupportedQuery

POLICY = """
SELECT protect('persons', privacy_unit := 'id', rows_per_unit := 1, unit := 'household_id', hierarchy := ['state'],
  epsilon := 8, per_query := 0.5, max_size := 6, public := ['sex'], quasi_identifiers := ['age'], k := 5,
  sensitive := ['sick'], domains := {'state': 'cities', 'sex': ['m', 'f']}, drop := ['name'])
"""
SIZES = "(SELECT household_id, state, count(*) AS size FROM persons GROUP BY ALL)"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("roles") / "x.duckdb"
    with duckanon.connect(found) as con:
        con.execute(
            """
            CREATE TABLE persons AS
              SELECT i AS id, i // 3 AS household_id, 'S' || i // 30 AS state, i % 7 AS age, 'name ' || i AS name,
                i % 2 AS sick, CASE WHEN i < 90 THEN 'm' ELSE 'f' END AS sex
              FROM range(90) r(i);
            CREATE TABLE cities AS SELECT 'S' || i AS state, i AS size FROM range(3) r(i);
            CREATE VIEW large AS SELECT * FROM cities WHERE size > 0;
            CREATE TABLE closed AS SELECT 'canary' AS secret;
            CREATE MACRO twice(x) AS 2 * x;
            CREATE MACRO larger(n) AS TABLE SELECT * FROM cities WHERE size > n;
            CREATE MACRO households() AS TABLE SELECT household_id, count(*) AS size FROM persons GROUP BY household_id;
            CREATE MACRO older(n) AS TABLE SELECT name FROM persons WHERE age > n;
            CREATE MACRO richest() AS (SELECT max(name) FROM persons);
            CREATE MACRO whisper() AS (SELECT max(secret) FROM closed);
            CREATE MACRO sha1(x) AS (SELECT max(name) FROM persons);
            CREATE MACRO either(a) AS a, (a, b) AS a + b
            """
        ).fetchall()
        con.execute("SELECT open_table('cities'), open_table('large')").fetchall()
        con.execute(POLICY).fetchall()
    return found


@pytest.fixture(scope="module")
def analyst(path: Path) -> Iterator[duckanon.Analyst]:
    with duckanon.connect(path, role="analyst") as con:
        yield con


def test_the_policy_survives(analyst: duckanon.Analyst) -> None:
    (row,) = analyst.sql(
        "SELECT tbl, population, privacy_unit, rows_per_unit, unit, hierarchy, epsilon, per_query, max_size, public, "
        'quasi_identifiers, k, sensitive, "drop" FROM policies()'
    ).fetchall()
    assert row == (
        "main.persons", "main.persons", "id", 1, "household_id", ["state"], 8.0, 0.5, 6, ["sex"], ["age"], 5, ["sick"],
        ["name"],
    )  # fmt: skip
    actions = analyst.sql("SELECT action FROM privacy_ledger()").fetchall()
    assert actions[:3] == [("open",), ("open",), ("protect",)]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("epsilon := 1, per_query := 2", "per_query must not be more than epsilon"),
        ("epsilon := 1, k := 1", "k must be 2 or more"),
        ("epsilon := 1, small := 0", "small must be 1 or more"),
        ("epsilon := 1, public := ['nope']", 'no column "nope"'),
        ("epsilon := 1, unit := 'id', hierarchy := ['ID']", "both in hierarchy and in unit"),
        ("epsilon := 1, quasi_identifiers := ['age'], drop := ['age']", "both in quasi_identifiers and in drop"),
        ("epsilon := 1, max_size := 0", "max_size must be 1 or more"),
    ],
)
def test_a_wrong_policy_is_refused(given: str, sentence: str) -> None:
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS id, 2 AS age").fetchall()
        with pytest.raises(duckdb.Error, match=sentence):
            con.execute(f"SELECT protect('t', {given})").fetchall()
        assert con.sql("FROM policies()").fetchall() == []


def test_only_two_roles() -> None:
    with pytest.raises(InvalidInput, match="'steward' or 'analyst'"):
        duckanon.connect(role="root")


def test_the_role_that_fits(tmp_path: Path) -> None:
    """A database with a protected table is an analyst's; every other one, and one in memory, a steward's."""
    found = tmp_path / "y.duckdb"
    with duckanon.connect(found) as con:
        assert con.role == "steward"
        con.execute("CREATE TABLE t AS SELECT 1 AS x").fetchall()
        con.execute("SELECT protect('t', epsilon := 1)").fetchall()
        # One process has one role in a database.
        with pytest.raises(InvalidInput, match="open with other settings"):
            duckanon.connect(found)
        with duckanon.connect(found, role="steward") as other:
            assert other.execute("FROM t").fetchall() == [(1,)]
    with duckanon.connect(found) as con:
        assert con.role == "analyst"
        with duckanon.connect(found) as other:
            assert other.role == "analyst"
        with pytest.raises(InvalidInput, match="open with other settings"):
            duckanon.connect(found, role="steward")
        with pytest.raises(PolicyRefusal):
            con.execute("FROM t")
    with duckanon.connect(found, read_only=True) as con:
        assert con.role == "analyst"
    with duckanon.connect(found, role="steward") as con:
        con.execute("SELECT unprotect('t')").fetchall()
    with duckanon.connect(found) as con:
        assert con.role == "steward"
        assert con.execute("FROM t").fetchall() == [(1,)]
    for name in (":memory:", ":memory:roles"):
        with duckanon.connect(name) as con:
            con.execute("CREATE TABLE t AS SELECT 1 AS x; SELECT protect('t', epsilon := 1)").fetchall()
            assert con.cursor().role == "steward"
            with duckanon.connect(name) as other:
                assert other.role == "steward"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT protect('cities', epsilon := 1)",
        "SELECT unprotect('persons')",
        "SET threads = 1",
        "PRAGMA disable_optimizer",
        "ATTACH ':memory:' AS y",
        "SELECT current_setting('threads')",
        "FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "FROM data",
        "FROM duckanon.ledger",
        "FROM duckanon.answers",
        "FROM duckdb_settings()",
        "CREATE TABLE y AS SELECT 1",
        "INSERT INTO cities VALUES ('S9', 9)",
        "DROP TABLE cities",
        "SELECT 1; SELECT 2",
        "",
        "SELECT $$",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT '" + "x" * 200_000 + "'",
        "SELECT 1 \0",
        "SELECT '\ud800'",
    ],
)
def test_what_an_analyst_may_not(analyst: duckanon.Analyst, sql: str) -> None:
    data = [1, 2, 3]  # a variable that DuckDB might take for a table
    with pytest.raises((UnsupportedQuery, PolicyRefusal)):
        analyst.execute(sql)
    assert data


def test_macros_are_written_out(analyst: duckanon.Analyst) -> None:
    assert analyst.execute("SELECT twice(twice(size + 1)) AS x FROM cities ORDER BY x").fetchall() == [
        (4,),
        (8,),
        (12,),
    ]
    assert analyst.execute("SELECT twice(3)").fetchall() == [(6,)]
    assert analyst.execute("SELECT * FROM larger(0) ORDER BY size").fetchall() == [("S1", 1), ("S2", 2)]
    assert "twice" not in str(analyst.explain("SELECT twice(1)").sql)
    sizes = analyst.explain("SELECT size, count(*) FROM households() GROUP BY size")
    assert [step.kind for step in sizes.steps] == ["group sizes"]
    for sql in ("SELECT richest()", "SELECT twice(max(income)) FROM (SELECT age AS income FROM persons)",
                "SELECT twice((SELECT max(name) FROM persons))", "FROM older(3)", "SELECT either(1)",
                "SELECT main.twice(1)", "SELECT twice()", "SELECT twice(x := 1)", "SELECT sha1('a')",
                "SELECT whisper()"):  # fmt: skip
        with pytest.raises((PolicyRefusal, UnsupportedQuery)):
            analyst.execute(sql)


def test_duckdb_itself_is_locked(analyst: duckanon.Analyst) -> None:
    """Below the guard: if a statement came through, files and settings would still be closed to it."""
    raw = analyst._con.cursor()
    for sql in (
        "SET threads = 1",
        "RESET lock_configuration",
        "SET enable_external_access = true",
        "FROM read_text('/etc/hostname')",
        "COPY cities TO '/tmp/duckanon.csv'",
        "INSTALL httpfs",
        "SET python_enable_replacements = true",
    ):
        with pytest.raises(duckdb.Error):
            raw.execute(sql).fetchall()


@pytest.mark.parametrize(
    "name", ["table", "view", "from_query", "register", "create_function", "read_csv", "append", "values"]
)
def test_no_other_door(analyst: duckanon.Analyst, name: str) -> None:
    with pytest.raises(UnsupportedQuery, match=name):
        getattr(analyst, name)


def test_an_answer_only_gives_rows(analyst: duckanon.Analyst) -> None:
    answer = analyst.sql("SELECT state, size FROM cities ORDER BY size")
    assert answer.columns == ["state", "size"]
    assert answer.fetchall()[0] == ("S0", 0)
    answer.fetchall()
    assert len(analyst.cursor().sql("SELECT 1 AS x").df()) == 1
    for name in ("query", "create_view", "to_table", "filter", "project", "join", "write_csv", "execute", "aggregate"):
        with pytest.raises(UnsupportedQuery, match=name):
            getattr(answer, name)


def test_statements_that_duckdb_split(analyst: duckanon.Analyst) -> None:
    first, second = analyst.extract_statements("SELECT 1; FROM persons")
    assert analyst.execute(first).fetchall() == [(1,)]
    with pytest.raises(PolicyRefusal):
        analyst.execute(second)
    with pytest.raises(UnsupportedQuery):
        analyst.execute(7)


def test_parameters(analyst: duckanon.Analyst) -> None:
    assert analyst.execute("SELECT size FROM cities WHERE state = ?", ["S1"]).fetchall() == [(1,)]
    assert analyst.execute("SELECT $x + 1", {"x": 1}).fetchall() == [(2,)]
    with pytest.raises(UnsupportedQuery, match="give their values"):
        analyst.execute("SELECT count(*) FROM persons WHERE sex = ?")


def test_temporary_tables(analyst: duckanon.Analyst) -> None:
    analyst.execute('CREATE TEMP TABLE "my ""own""" AS SELECT state FROM cities').fetchall()
    analyst.execute('INSERT INTO "MY ""own""" BY NAME SELECT \'S7\' AS state').fetchall()
    assert analyst.execute('SELECT count(*) FROM "my ""own"""').fetchall() == [(4,)]
    with pytest.raises(UnsupportedQuery):
        analyst.cursor().execute('FROM "my ""own"""')
    analyst.execute('DROP TABLE "my ""own"""').fetchall()


QUERIES = [
    "SELECT size, count(*) AS n FROM (SELECT household_id, count(*) AS size FROM persons GROUP BY 1) GROUP BY size",
    "SELECT size, count(*) AS n FROM {} GROUP BY size ORDER BY size DESC",
    "SELECT state, size, count(*) AS n FROM {} GROUP BY ALL ORDER BY ALL LIMIT 4",
    "SELECT size, count(*) AS n FROM {} WHERE state = 'S1' AND size < 4 GROUP BY size",
    "SELECT state, size, count(*) FROM {} GROUP BY ROLLUP (state), size",
    "SELECT state, size, count(*) AS n FROM {} GROUP BY ALL HAVING count(*) > 2 ORDER BY n DESC, size",
    "SELECT size, count(*) AS n, count(*) / sum(count(*)) OVER () AS share, "
    "sum(count(*)) OVER (ORDER BY size) AS upto FROM {} GROUP BY size ORDER BY size",
    "SELECT size, count(*) AS n FROM {} GROUP BY size QUALIFY row_number() OVER (ORDER BY count(*) DESC, size) <= 2",
    "SELECT NULL AS state, size, count(*) AS n FROM {} GROUP BY size UNION ALL "
    "SELECT state, size, count(*) FROM {} GROUP BY state, size",
    "WITH g AS (SELECT size, count(*) AS n FROM {} GROUP BY size) SELECT size, 2 * n AS m FROM g WHERE n > 0",
    "SELECT sex, count(*) AS n FROM persons WHERE age > 2 GROUP BY sex ORDER BY sex",
    "SELECT count(DISTINCT id) AS n FROM persons",
    "SELECT state, count(*) / sum(count(*)) OVER () AS p FROM persons GROUP BY state",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_are_answered_with_noise(analyst: duckanon.Analyst, sql: str) -> None:
    """With the columns and types of the query itself; asked again, the answer is the same."""
    sql = sql.format(SIZES, SIZES)
    answer = analyst.sql(sql)
    assert analyst.decision is not None
    assert {str(step.verdict) for step in analyst.decision.steps} == {"rewritten"}
    assert '"persons"' not in (analyst.decision.query or "")
    assert len(answer.fetchall()) >= 1
    plain = analyst._con.cursor().sql(sql)
    assert list(answer.columns) == plain.columns
    assert list(map(str, answer.types)) == list(map(str, plain.types))
    assert sorted(answer.fetchall(), key=str) == sorted(answer.fetchall(), key=str)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM persons",
        "SELECT * FROM persons WHERE id = 5",
        "SELECT age, count(*) FROM persons GROUP BY age",
        "SELECT count(*) AS n FROM persons WHERE name = 'name 3'",
        "SELECT count(DISTINCT name) FROM persons",
        "SELECT sum(age) FROM persons",
        "SELECT count(*) FROM persons RIGHT JOIN range(10) ON true",
        "SELECT median(age) FROM persons p JOIN cities USING (state)",
        "SELECT n, count(*) FROM (SELECT household_id, sum(age) n FROM persons GROUP BY 1) GROUP BY 1",
        "SELECT size, count(*) FROM (SELECT age, count(*) AS size FROM persons GROUP BY 1) GROUP BY size",
        "SELECT state, avg(sick) FROM persons GROUP BY state",
        "SELECT max(name) FROM persons",
        "SELECT EXISTS (FROM persons WHERE sick = 1)",
        "SELECT * FROM cities WHERE size IN (SELECT id FROM persons)",
        f"SELECT (SELECT max(name) FROM persons), size, count(*) FROM {SIZES} GROUP BY ALL",
        "FROM dp_group_sizes('persons', 'household_id', epsilon := 0.6, max_size := 6)",
        "FROM dp_group_sizes('persons', 'name', epsilon := 0.5, max_size := 6)",
        "FROM dp_group_sizes('persons', 'household_id', ['sex'], epsilon := 0.5, max_size := 6)",
        "FROM dp_group_sizes('persons', 'household_id', epsilon := 0.5, max_size := 7)",
        "FROM dp_group_sizes('persons', 'household_id', epsilon := 0.5, max_size := 6, totals := 'public')",
        "FROM dp_group_sizes('persons', 'household_id', epsilon := 0.5, max_size := 6, quantity := 'age', bound := 7)",
        "FROM k_anonymize('persons', ['age'], k := 5)",
        "FROM group_sizes('persons', 'household_id')",
        "FROM k_report('persons', ['age'])",
        "FROM record_risk('persons', ['age'])",
        "FROM record_risk('cities', ['state'])",
        "FROM record_risk('cities', ['state'], population := 'persons')",
        "FROM k_subsets('persons', ['age'])",
        "FROM k_subsets('cities', ['state'])",
        "FROM k_certificate('persons', ['age'])",
        "FROM k_certificate('cities', ['state'], categorical := ['state'])",
        "FROM k_certificate_check('cities', 'persons', ['state'], categorical := ['state'])",
        "FROM k_utility('persons', 'cities', ['state'])",
        "FROM k_utility('cities', 'persons', ['state'])",
        "FROM cell_bounds('cities', ['state'], ['size'], known := 'persons')",
        "FROM metric_perturb('persons', 'age', epsilon := 1)",
    ],
)  # fmt: skip
def test_what_no_release_answers_is_refused(analyst: duckanon.Analyst, sql: str) -> None:
    before = analyst.sql("FROM privacy_ledger()").fetchall()
    with pytest.raises((PolicyRefusal, UnsupportedQuery)):
        analyst.execute(sql)
    assert analyst.explain(sql).refusal is not None
    assert analyst.sql("FROM privacy_ledger()").fetchall() == before


def test_explain_runs_nothing(analyst: duckanon.Analyst) -> None:
    before = analyst.sql("FROM privacy_ledger()").fetchall()
    rows = analyst.sql(
        "SELECT kind, object, decision, epsilon, drawn, rewritten_sql "
        "FROM explain_privacy('SELECT count(*) FROM persons WHERE age = 99')"
    ).fetchall()
    assert [row[:5] for row in rows] == [("count", "persons", "rewritten", 0.5, None)]
    assert "duckanon" in rows[0][5]
    ((decision, text),) = analyst.sql("SELECT decision, rewritten_sql FROM explain_privacy('FROM persons')").fetchall()
    assert (decision, text) == ("refused", None)
    assert analyst.explain("SELECT 1").sql == "SELECT 1"
    assert analyst.sql("FROM privacy_ledger()").fetchall() == before


def test_a_text_between_dollars_is_a_constant(analyst: duckanon.Analyst) -> None:
    asked = "SELECT count(*) FROM persons WHERE city = 'it''s'"
    texts = [f"'{asked.replace(chr(39), chr(39) * 2)}'", f"$${asked}$$", f"$q${asked}$q$"]
    decided = [analyst.sql(f"SELECT decision FROM explain_privacy({text})").fetchall() for text in texts]
    assert decided == [decided[0]] * 3
    assert analyst.sql("SELECT $$a'b\\n$$, $x$1$$2$x$ || '3'").fetchall() == [("a'b\\n", "1$$23")]


def test_a_transaction_that_failed_can_be_ended(analyst: duckanon.Analyst) -> None:
    analyst.execute("BEGIN")
    with pytest.raises(duckdb.ConversionException):
        analyst.execute("SELECT 'x'::INT FROM cities").fetchall()
    analyst.execute("ROLLBACK")
    assert analyst.execute("SELECT 1 FROM cities LIMIT 1").fetchall() == [(1,)]


def test_nothing_is_charged_where_its_answer_would_not_be_seen(analyst: duckanon.Analyst) -> None:
    """A transaction sees the database as it was: neither the answer that is made for it, nor the charge."""
    sql = "SELECT sex, count(*) FROM persons WHERE age = 6 GROUP BY sex"
    before = analyst.sql("FROM privacy_ledger()").fetchall()
    for begin, end in (("BEGIN", "ROLLBACK"), ("begin transaction", "COMMIT"), ("START TRANSACTION", "ABORT")):
        try:
            analyst.execute(begin)
        except UnsupportedQuery:
            continue
        with pytest.raises(UnsupportedQuery, match="outside of transactions only: COMMIT or ROLLBACK, and ask again"):
            analyst.execute(sql)
        assert analyst.execute("SELECT sum(size) FROM cities").fetchall() == [(3,)]
        analyst.execute(end)
    analyst.begin()
    with pytest.raises(UnsupportedQuery, match="outside of transactions"):
        analyst.sql(sql)
    analyst.rollback()
    assert analyst.sql("FROM privacy_ledger()").fetchall() == before
    assert len(analyst.execute(sql).fetchall()) == 2


def test_a_budget_runs_out(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "x.duckdb"
    with duckanon.connect(copy, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a; SELECT protect('t', epsilon := 1, per_query := 0.5)").fetchall()
    with duckanon.connect(copy, role="analyst") as con:
        for a in (1, 2):
            con.execute(f"SELECT count(*) FROM t WHERE a = {a}").fetchall()
        with pytest.raises(BudgetExhausted, match=r"The privacy budget of main.t does not suffice"):
            con.execute("SELECT count(*) FROM t WHERE a = 3")
        # What was paid for stays.
        assert len(con.execute("SELECT count(*) FROM t WHERE a = 2").fetchall()) == 1


def test_two_connections_and_cursors_share_what_is_paid_for(path: Path, analyst: duckanon.Analyst) -> None:
    sql = "SELECT sex, count(*) AS n FROM persons WHERE age = 1 GROUP BY sex"
    first = analyst.execute(sql).fetchall()
    with duckanon.connect(path, role="analyst") as other, other.cursor() as cursor:
        assert other.execute(sql).fetchall() == first
        assert cursor.execute(sql).fetchall() == first
        cursor.execute("CREATE TEMP TABLE own AS SELECT 1 AS x").fetchall()
        for one in (other, analyst):
            with pytest.raises(UnsupportedQuery):
                one.execute("FROM own")
        assert cursor.execute("FROM own").fetchall() == [(1,)]
    assert analyst.execute("SELECT 1").fetchall() == [(1,)]


def test_closed_twice_or_forgotten(tmp_path: Path) -> None:
    """Closing a cursor twice takes nothing from the others; one that nobody holds keeps no file open."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a; SELECT open_table('t')").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        with con.cursor() as cursor:
            assert cursor.execute("FROM t").fetchall() == [(1,)]
            cursor.close()
            cursor.close()
        assert con.execute("FROM t").fetchall() == [(1,)]
        assert con.cursor().execute("FROM t").fetchall() == [(1,)]
        con.cursor()
    # Nothing is left open: the file can be had with other settings.
    duckanon.connect(path, role="steward").close()


def test_what_is_fetched_is_not_disturbed(analyst: duckanon.Analyst) -> None:
    """A decision is made on another connection: an open result stays as it is."""
    analyst.execute("SELECT i FROM range(5000) r(i)")
    assert analyst.fetchmany(2) == [(0,), (1,)]
    analyst.explain("SELECT count(*) FROM persons WHERE age = 5")
    with pytest.raises(UnsupportedQuery):
        analyst.execute("FROM closed")
    assert analyst.fetchone() == (2,)
    assert len(analyst.fetchall()) == 4997


TRIED = "SELECT max(secret) FROM closed"


@pytest.mark.parametrize(
    "given",
    [TRIED, (TRIED, None), (TRIED,), [TRIED], Admitted(TRIED), lambda: TRIED],
    ids=lambda one: type(one).__name__,
)
def test_no_method_of_the_connection_runs_what_was_not_admitted(path: Path, given: Any) -> None:
    """Whatever is public on the connection is tried with a query of a closed table, in each form that one may take."""
    names = [one for one in dir(duckanon.Analyst) if not one.startswith("_")]
    assert {"execute", "sql", "query", "run", "columns_of", "explain"} <= set(names)
    for name in [*names, "fetchall"]:
        with duckanon.connect(path, role="analyst") as con:
            con.execute("SELECT 1 AS one").fetchall()
            with suppress(Exception):
                told = getattr(con, name)(given)
                assert "canary" not in f"{told!r}"
                assert "canary" not in f"{con.fetchall()!r}"


def test_what_was_admitted_runs_once_and_the_last_alone(analyst: duckanon.Analyst) -> None:
    first, last = analyst.admitted("SELECT 1 AS x"), analyst.admitted("SELECT 2 AS x")
    with pytest.raises(PolicyRefusal, match="admitted last"):
        analyst.run(first)
    assert analyst.run(last).fetchall() == [(2,)]
    with pytest.raises(PolicyRefusal, match="admitted last"):
        analyst.run(last)
