"""Default is deny: what is closed cannot be told from what does not exist, and metadata is an allow-list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError, PolicyRefusal, UnsupportedQuery
from tests.amounts import sampled

SCRIPT = """
CREATE TYPE mood AS ENUM ('sad', 'canary');
CREATE TABLE people AS SELECT i AS id, 'a' AS name, 'sad'::mood AS mood, i % 2 AS sex FROM range(20) r(i);
COMMENT ON TABLE people IS 'canary comment';
CREATE TABLE closed (secret VARCHAR DEFAULT 'canary default', n INTEGER CHECK (n < 7310000));
CREATE TABLE lookup AS SELECT 1 AS a, 'sad'::mood AS m;
CREATE VIEW seen AS SELECT a, m FROM lookup;
CREATE VIEW through AS SELECT count(*) AS n FROM closed;
CREATE VIEW above AS SELECT * FROM people;
CREATE SCHEMA pub;
CREATE TABLE pub.one AS SELECT 1 AS x;
CREATE TABLE pub.two AS SELECT 2 AS x;
CREATE TABLE pub.was AS SELECT 3 AS x;
CREATE TABLE rebuilt AS SELECT 1 AS a;
CREATE TABLE same AS SELECT 1 AS a;
CREATE TABLE gone AS SELECT 1 AS a;
CREATE SEQUENCE numbers;
SELECT open_table('lookup'), open_table('seen'), open_table('through'), open_table('pub.*'), open_table('rebuilt'),
  open_table('same');
SELECT protect('people', epsilon := 1, per_query := 0.5, privacy_unit := 'id', rows_per_unit := 1, public := ['sex'],
  domains := {'sex': ['0', '1']});
SELECT protect('gone', epsilon := 1, per_query := 0.5);
SELECT protect('pub.was', epsilon := 1);
SELECT unprotect('pub.was');
DROP TABLE rebuilt;
CREATE TABLE rebuilt AS SELECT 1 AS a, 'canary' AS secret;
CREATE OR REPLACE TABLE same AS SELECT 2 AS a;
DROP TABLE gone
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("closed") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in SCRIPT.strip().split(";\n"):
            steward.execute(one).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


def refusal(con: duckanon.Analyst, sql: str) -> tuple[str, str]:
    with pytest.raises(DuckanonError) as raised:
        con.execute(sql)
    (step,) = con.explain(sql).steps
    assert step.reason == str(raised.value)
    return type(raised.value).__name__, str(raised.value)


SPELLINGS = [
    "FROM {}", "FROM main.{}", "FROM x.{}", "FROM x.main.{}", 'FROM "{}"', 'FROM "x"."main"."{}"', "FROM {} AS t",
    "SELECT secret FROM {}", "SELECT count(*) FROM {}", "SELECT 1 FROM lookup, {}", "SELECT (SELECT max(n) FROM {})",
    "SELECT 1 WHERE EXISTS (FROM {})", "WITH c AS (FROM {}) FROM c", "FROM lookup JOIN {} USING (a)",
    "SELECT 1 UNION ALL SELECT n FROM {}", "CREATE TEMP TABLE t AS FROM {}", "INSERT INTO {} SELECT 1",
    "DROP TABLE {}", "DROP TABLE IF EXISTS main.{}", "DESCRIBE {}", "SUMMARIZE {}", "FROM k_report('{}', ['n'])",
    "FROM record_risk('{}', ['n'])", "FROM k_subsets('{}', ['n'])", "FROM k_utility('{}', '{}', ['n'])",
    "FROM k_certificate('{}', ['n'])", "FROM k_certificate_check('lookup', '{}', ['n'])",
    "FROM dp_group_sizes('main.{}', 'n', epsilon := 1)", "FROM {}()", "SELECT {}()", "SELECT {}.n FROM {}",
    "FROM pragma_table_info('{}')", "FROM '{}'", "FROM query_table('{}')", "FROM explain_privacy('FROM {}')",
    "UPDATE {} SET n = 1", "DELETE FROM {}", "COPY {} TO 'x'", "SHOW {}", "ALTER TABLE {} RENAME TO y",
    "SELECT * FROM {} TABLESAMPLE 1", "FROM metric_perturb('{}', 'n', epsilon := 1)", "PIVOT {} ON n",
    "FROM CLOSED_{}", "FROM {}.main", "FROM {}.{}.{}",
]  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["closed", "above", "rebuilt", "numbers", "CLOSED"])
def test_closed_and_missing_have_one_sentence(con: duckanon.Analyst, spelling: str, name: str) -> None:
    """Byte for byte, the names aside that the sender wrote."""

    def outcome(of: str) -> object:
        sql = spelling.replace("{}", of)
        try:
            rows = con.execute(sql).fetchall()
        except (DuckanonError, duckdb.Error) as error:
            return type(error).__name__, str(error).lower().replace(of.lower(), "..")
        return str(rows).lower().replace(of.lower(), "..")

    assert outcome(name) == outcome("missing")


@pytest.mark.parametrize("name", ["was", "one"])
def test_an_open_schema_opens_what_was_never_protected(con: duckanon.Analyst, name: str) -> None:
    if name == "was":
        assert refusal(con, "FROM pub.was") == refusal(con, "FROM pub.missing")
    else:
        assert con.execute(f"FROM pub.{name}").fetchall() == [(1,)]


def test_what_is_open(con: duckanon.Analyst) -> None:
    assert con.execute("FROM lookup").fetchall() == [(1, "sad")]
    assert con.execute("FROM seen").fetchall() == [(1, "sad")]
    # An open view opens what it shows, and nothing behind it.
    assert con.execute("FROM through").fetchall() == [(0,)]
    assert con.execute("FROM same").fetchall() == [(2,)]
    assert con.execute("FROM pub.two").fetchall() == [(2,)]
    assert refusal(con, "FROM rebuilt") == refusal(con, "FROM missing")


def test_a_policy_whose_table_is_gone_keeps_its_name(con: duckanon.Analyst) -> None:
    """Nobody reads a table that comes back under the name, and no answer is charged."""
    kind, said = refusal(con, "SELECT count(*) FROM gone")
    assert kind == "PolicyRefusal"
    assert "ask the steward" in said
    refusal(con, "FROM gone")
    refusal(con, "FROM dp_group_sizes('gone', 'a', epsilon := 0.5, max_size := 3)")
    assert con.execute("SELECT sum(charges) FROM privacy_budget()").fetchall() == [(0,)]


def test_a_table_that_is_gone_is_described_as_one_that_is_not_there(con: duckanon.Analyst) -> None:
    for sql in ("DESCRIBE {}", "DESCRIBE SELECT a FROM {}", "SELECT * FROM {} LIMIT 0"):
        assert refusal(con, sql.format("gone")) == refusal(con, sql.format("missing"))


def test_a_table_built_again_without_its_columns_answers_nothing(tmp_path: Path) -> None:
    """The privacy unit is gone, or a column is computed at each read and may fail on a record."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE a AS SELECT 1 AS id, 2 AS v; CREATE TABLE b AS SELECT 1 AS id, 2 AS v; "
            "SELECT protect('a', privacy_unit := 'id', rows_per_unit := 1, epsilon := 1, per_query := 0.5), "
            "protect('b', epsilon := 1, per_query := 0.5); DROP TABLE a; CREATE TABLE a AS SELECT 2 AS v; "
            "DROP TABLE b; CREATE TABLE b (id INTEGER, v INTEGER GENERATED ALWAYS AS (1 / (id - 7)) VIRTUAL)"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        for sql in ("SELECT count(*) FROM a", "SELECT count(*) FROM b", "SELECT count(*) FROM b WHERE v = 1"):
            with pytest.raises(PolicyRefusal):
                con.execute(sql)
        assert con.execute("SELECT sum(charges) FROM privacy_budget()").fetchall() == [(0,)]


def test_metadata_is_an_allow_list(con: duckanon.Analyst) -> None:
    own = con.cursor()
    own.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x").fetchall()
    names = ["gone", "lookup", "mine", "one", "people", "same", "seen", "through", "two"]
    told = [name.rpartition(".")[2] for (name,) in own.execute("SHOW TABLES").fetchall()]
    assert sorted(told) == names
    tables = own.execute("SELECT table_name, table_type FROM information_schema.tables").fetchall()
    assert {one for one, _ in tables} == set(names)
    assert dict(tables)["people"] == dict(tables)["gone"] == "PROTECTED"
    columns = own.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_name IN ('people', 'lookup')"
    ).fetchall()
    # The values of a protected table's ENUM are its records' affair.
    assert set(columns) == {
        ("people", "id", "BIGINT"), ("people", "name", "VARCHAR"), ("people", "mood", "VARCHAR"),
        ("people", "sex", "BIGINT"), ("lookup", "a", "INTEGER"), ("lookup", "m", "ENUM('sad', 'canary')"),
    }  # fmt: skip
    for sql in (
        "FROM duckdb_tables(), duckdb_columns(1)", "FROM duckdb_constraints()", "FROM duckdb_indexes()",
        "FROM duckdb_sequences()", "FROM duckdb_types()", "FROM duckdb_settings()", "FROM sqlite_master",
        "FROM pg_catalog.pg_class", "FROM information_schema.table_constraints", "FROM pg_catalog.duckdb_tables",
        "FROM pragma_database_size()", "FROM pragma_storage_info('people')", "SELECT nextval('numbers')",
        "SELECT currval('numbers')", "SELECT 'sad'::mood", "SELECT enum_range(NULL::mood)",
        "SHOW VARIABLES", "DESCRIBE closed", "FROM duckdb_functions()", "FROM duckdb_dependencies()",
        "SELECT current_setting('search_path')", "SELECT pg_size_pretty(1), obj_description(1)",
        "SELECT has_table_privilege('closed', 'select')", "SELECT 'closed'::regclass",
    ):  # fmt: skip
        with pytest.raises((UnsupportedQuery, PolicyRefusal)):
            own.execute(sql)
    for sql in (
        "FROM duckdb_tables()", "FROM duckdb_columns()", "FROM duckdb_views()", "FROM duckdb_schemas()",
        "FROM duckdb_databases()", "FROM information_schema.schemata", "SHOW ALL TABLES", "SHOW DATABASES",
        "DESCRIBE people", "PRAGMA table_info('people')", "FROM duckdb_columns WHERE table_name <> 'lookup'",
    ):  # fmt: skip
        shown = str([one for one in own.execute(sql).fetchall() if "lookup" not in str(one)])
        assert not any(word in shown for word in ("closed", "secret", "canary", "duckanon", "ENUM", "CREATE")), sql
    own.close()


def test_columns_that_do_not_exist_are_not_guessed(con: duckanon.Analyst) -> None:
    """DuckDB's suggestions name what may be seen, and no constant or name of anything else."""
    for sql in ("SELECT secret FROM lookup", "SELECT closed.secret FROM lookup", "SELECT b FROM lookup"):
        with pytest.raises((duckdb.Error, DuckanonError)) as raised:
            con.execute(sql)
        assert "people" not in str(raised.value)
        assert "default" not in str(raised.value)
    with pytest.raises((duckdb.Error, DuckanonError)) as raised:
        con.execute("SELECT nam FROM people")
    assert "canary" not in str(raised.value)


def test_publications_are_read_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE people AS SELECT i AS id, i % 2 AS sex, i % 3 AS team FROM range(300) r(i); "
            "SELECT protect('people', epsilon := 1, public := ['sex', 'team']); "
            "CREATE TABLE by_sex AS SELECT sex, count(*) AS n FROM people GROUP BY sex"
        ).fetchall()
        con.execute("SELECT publish('by_sex', of := 'people', variables := ['sex'], value := 'n')").fetchall()
        con.execute("DELETE FROM by_sex; DELETE FROM people").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        for sql in ("FROM by_sex", "FROM duckanon.by_sex", "FROM x.duckanon.by_sex", 'FROM "BY_SEX"'):
            assert sorted(con.execute(sql).fetchall()) == [(0, 150), (1, 150)], sql
        # A count that was published is no secret any more: it is told as it is, for nothing.
        assert sorted(con.execute("SELECT sex, count(*) FROM people GROUP BY sex").fetchall()) == [(0, 150), (1, 150)]
        assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(0,)]
        assert ("by_sex",) in con.execute("SHOW TABLES").fetchall()
        for sql in ("FROM main.by_sex", "FROM duckanon.ledger", "FROM duckanon.answers", "FROM duckanon.meta"):
            with pytest.raises(UnsupportedQuery):
                con.execute(sql)


WAYS = {
    "execute": lambda con, sql: con.execute(sql).fetchall(),
    "sql": lambda con, sql: con.sql(sql).fetchall(),
    "shown": lambda con, sql: str(con.sql(sql)),
    "frame": lambda con, sql: con.execute(sql).df(),
    "arrow": lambda con, sql: con.sql(sql).to_arrow_table(),
    "reader": lambda con, sql: con.execute(sql).fetch_record_batch().read_all(),
}


@pytest.mark.parametrize("way", sampled(WAYS))
def test_an_error_behind_an_open_view_quotes_no_row(tmp_path: Path, way: str) -> None:
    """DuckDB may cast what a join or a condition of the view leaves out, and its error quotes it."""
    path = tmp_path / "views.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE hidden AS SELECT i || ' canary' AS s, i % 2 = 0 AS shown FROM range(5000) r(i)")
        con.execute("CREATE VIEW part AS SELECT s FROM hidden WHERE shown")
        con.execute("SELECT open_table('part')").fetchall()
        con.execute("CREATE TABLE people AS SELECT 1 AS id; SELECT protect('people', epsilon := 1)").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        with pytest.raises(UnsupportedQuery, match="failed while it ran") as raised:
            WAYS[way](con, "SELECT s::INTEGER AS n FROM part")
        assert "canary" not in f"{raised.value} {raised.value.__context__} {raised.value.__cause__}"
        assert con.execute("SELECT count(*) FROM part WHERE TRY_CAST(s AS INTEGER) IS NULL").fetchall() == [(2500,)]
        # What the analyst reads themselves may be quoted.
        with pytest.raises(duckdb.ConversionException, match="own"):
            con.execute("SELECT 'own'::INTEGER").fetchall()
