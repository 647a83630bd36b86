"""What the catalog lists, and what it does not do."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.errors import UnsupportedQuery
from duckanon.server.catalog import UserCatalog
from duckanon.server.errors import PgError
from tests.amounts import many
from tests.server.catalog.corpus import PERSONS, filled, recorded

QUERIES = recorded()


@pytest.fixture(scope="module")
def catalog() -> UserCatalog:
    return filled()


def rows(catalog: UserCatalog, text: str, *parameters: object) -> list[tuple[object, ...]]:
    assert catalog.answers(text), text
    return [tuple(row) for row in catalog.run(text, parameters).rows]


def test_tables_and_views(catalog):
    text = "SELECT relname, relkind, nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace ORDER BY 1"
    assert rows(catalog, text) == [("adults", "v", "main"), ("counties", "r", "main"), ("persons", "r", "main")]
    text = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables ORDER BY 3"
    assert [row[2:] for row in rows(catalog, text)] == [
        ("adults", "VIEW"),
        ("counties", "BASE TABLE"),
        ("persons", "BASE TABLE"),
    ]


def test_columns_with_postgresqls_types(catalog):
    text = """SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
        WHERE attrelid = 'persons'::regclass ORDER BY attnum"""
    assert rows(catalog, text) == [
        ("id", "bigint", False),
        ("name", "text", False),
        ("age", "integer", False),
        ("county", "text", False),
        ("income", "numeric(10,2)", False),
        ("born", "date", False),
        ("seen", "timestamp with time zone", False),
        ("tags", "text[]", False),
        ("score", "double precision", False),
        ("ok", "boolean", False),
    ]
    text = """SELECT column_name, data_type, numeric_precision, is_nullable FROM information_schema.columns
        WHERE table_name = $1 ORDER BY ordinal_position"""
    told = {row[0]: row[1:] for row in rows(catalog, text, "persons")}
    assert told["income"] == ("numeric", 10, "YES")
    assert rows(catalog, "SELECT count(*) FROM people.pg_catalog.pg_class, people.information_schema.schemata") == [
        (9,)
    ]
    assert told["tags"] == ("ARRAY", None, "YES")
    assert rows(catalog, text, "counties")[0] == ("county", "text", None, "NO")


def test_numbers_are_shown_as_names(catalog):
    assert rows(catalog, "SELECT oid::regclass FROM pg_class WHERE relname = 'adults'") == [("adults",)]
    assert rows(catalog, "SELECT 'persons'::regclass::oid = oid FROM pg_class WHERE relname = 'persons'") == [(True,)]
    assert rows(catalog, "SELECT 1043::regtype::text, 'int4'::regtype::oid") == [("character varying", 23)]
    assert rows(catalog, "SELECT to_regclass('nothing'), to_regtype('int8')") == [(None, 20)]
    assert rows(catalog, "SELECT $1::regclass", "main.persons") == [("persons",)]
    with pytest.raises(UnsupportedQuery, match="no table of this name"):
        catalog.run("SELECT 'nothing'::regclass")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELECT ('main.\"' || table_name || '\"')::regclass::oid IS NOT NULL FROM information_schema.tables", True),
        ("SELECT relname::regclass::oid = oid FROM pg_class", True),
        ("SELECT quote_ident(nspname)::regnamespace::oid = oid FROM pg_namespace", True),
        ("SELECT 'persons'::regclass::oid = ANY(ARRAY['persons'::regclass]::oid[])", True),
        (
            "SELECT pg_table_is_visible(oid) AND c.xmin > 0 FROM pg_class c",
            True,
        ),
        ("SELECT tableoid = 'pg_class'::regclass FROM pg_class c", True),
        ("SELECT typinput = 'boolin'::regproc AND typreceive <> 0 FROM pg_type WHERE typname = 'bool'", True),
        (
            "SELECT typname FROM pg_type WHERE oid = (SELECT min(atttypid) FROM pg_attribute WHERE attname = 'ok')",
            "bool",
        ),
        ("SELECT array_to_json(array(SELECT datname FROM pg_database))", '["people"]'),
        ("SELECT format('%s.%s', nspname, 'x') FROM pg_namespace WHERE nspname !~ '^(pg_|information)'", "main.x"),
        ("SELECT count(*)::int FROM pg_class c, aclexplode(c.relacl) AS x WHERE x.grantee = 0", 0),
        ("SELECT bool_or(word = 'select') FROM pg_get_keywords()", True),
        ("SELECT sum(s) FROM generate_series(1, 3) s, pg_database", 6),
        ("SELECT is_identity::boolean FROM information_schema.columns", False),
        ("SELECT obj_description('persons'::regclass, 'pg_class')", None),
        (
            "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^persons$' COLLATE pg_catalog.default",
            "persons",
        ),
        ("SELECT 'a' = ANY('{a,\"b c\"}'::text[]) FROM pg_database", True),
        ("SELECT has_schema_privilege('main', 'CREATE')", False),
    ],
)
def test_what_tools_ask(text, answer, catalog):
    assert {row[0] for row in rows(catalog, text)} == {answer}


def test_unquoted_names_are_folded_and_columns_named_as_in_postgresql(catalog):
    answer = catalog.run("""SELECT c.OID::TEXT, c.relname AS Name, c.relname AS "Name", count(*), 1, version(),
        current_schema FROM PG_CLASS C GROUP BY 1, 2""")
    assert list(answer.names) == ["oid", "name", "Name", "count", "?column?", "version", "current_schema"]


@pytest.mark.parametrize("clock", ["now()", "current_timestamp", "current_date", "localtimestamp"])
def test_the_time_stands_beside_what_the_catalog_knows(catalog, clock):
    """sqlglot writes it in words that an instance without time zones took for a column."""
    ((time, user),) = rows(catalog, f"SELECT {clock}, current_user")
    assert (str(time)[:2], user) == ("20", "ana")


def test_who_and_where(catalog):
    text = "SELECT current_user, session_user, current_database(), current_schema(), current_schemas(true)"
    assert rows(catalog, text) == [("ana", "ana", "people", "main", ["pg_catalog", "main"])]
    assert rows(catalog, "SELECT rolname FROM pg_roles ORDER BY oid") == [("steward",), ("ana",)]
    assert rows(catalog, "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class") == [("steward",)]
    steward = filled(writes=True)
    assert rows(steward, "SELECT rolname FROM pg_roles") == [("ana",)]
    assert rows(steward, "SELECT DISTINCT tableowner FROM pg_tables") == [("ana",)]
    assert rows(catalog, "SELECT datname FROM pg_database") == [("people",)]
    assert str(rows(catalog, "SELECT version()")[0][0]).startswith("PostgreSQL 15.0 ")


def test_privileges(catalog):
    text = "SELECT has_table_privilege('persons', 'SELECT'), has_table_privilege('ana', 'persons', 'INSERT')"
    assert rows(catalog, text) == [(True, False)]
    assert rows(filled(writes=True), text) == [(True, True)]


def test_filled_anew(catalog):
    own = filled()
    number = rows(own, "SELECT 'persons'::regclass::oid")
    own.fill(
        [("people", "main", "persons", "id", "BIGINT", "NO"), ("people", "s", 'Odd "x', "a'b", "VARCHAR", "YES")], []
    )
    assert rows(own, "SELECT relname FROM pg_class ORDER BY 1") == [('Odd "x',), ("persons",)]
    assert rows(own, "SELECT 'persons'::regclass::oid") == number
    assert rows(own, "SELECT attname FROM pg_attribute ORDER BY 1") == [("a'b",), ("id",)]
    assert rows(own, """SELECT oid::regclass FROM pg_class WHERE oid = 's."Odd ""x"'::regclass""") == [('s."Odd ""x"',)]
    assert rows(own, "SELECT pg_table_is_visible(oid) FROM pg_class ORDER BY relname") == [(False,), (True,)]
    own.fill([], [])
    assert rows(own, "SELECT count(*) FROM pg_class") == [(0,)]
    assert rows(own, "SELECT nspname FROM pg_namespace ORDER BY 1") == [
        ("information_schema",),
        ("main",),
        ("pg_catalog",),
    ]


def test_every_type_is_listed(catalog):
    kinds = set(PERSONS.values())
    own = UserCatalog("ana", "people")
    own.fill([("people", "main", "t", str(at), kind, "YES") for at, kind in enumerate(sorted(kinds))], [])
    text = "SELECT count(*) FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid"
    assert rows(own, text) == [(len(kinds),)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT * FROM persons",
        "SELECT * FROM persons, pg_class",
        "SELECT (SELECT count(*) FROM persons) FROM pg_class",
        "WITH pg_x AS (SELECT * FROM persons) SELECT * FROM pg_x, pg_class",
        "SELECT * FROM main.pg_class",
        "SELECT * FROM duckdb_tables()",
        "INSERT INTO pg_class VALUES (1)",
        "DELETE FROM pg_class",
        "DROP TABLE pg_class",
        "SELECT 1 FROM pg_class; SELECT 2",
        "SELECT * FROM 'pg_class.csv'",
        "COPY pg_class TO 'pg_class.csv'",
        "EXPLAIN SELECT * FROM pg_class",
        "",
        "pg_",
        "SELECT 'pg_class'",
        "((((" * 500 + "pg_class",
    ],
)
def test_what_is_not_answered_here(text, catalog):
    assert not catalog.answers(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT read_text('/etc/passwd') FROM pg_class",
        "SELECT * FROM pg_class, read_csv('/etc/passwd')",
        "SELECT * FROM pg_class, query('SELECT 1')",
        "SELECT getenv('HOME'), version()",
        "SELECT * FROM pg_class, duckdb_settings()",
        "SELECT *, getvariable('x') FROM pg_class",
        "SELECT relname INTO t FROM pg_class",
        "SELECT nextval('x') FROM pg_class",
        "SELECT dk_type_name(1) FROM pg_class, glob('*')",
    ],
)
def test_unknown_functions_are_refused(text, catalog):
    with pytest.raises(UnsupportedQuery):
        catalog.run(text)


def test_the_instance_is_locked(catalog):
    for text in ("SET memory_limit = '1TB'", "ATTACH 'x.db'", "FROM read_text('/etc/hostname')", "LOAD httpfs"):
        with pytest.raises(Exception, match=r"locked|disabled|Permission|not found|Extension"):
            catalog._instance._con.cursor().execute(text)


def test_endless_work_is_stopped(catalog):
    begun = time.monotonic()
    text = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b, pg_class"
    with pytest.raises(PgError) as told:
        catalog.run(text, (), 0.5)
    assert told.value.code == "57014"
    assert time.monotonic() - begun < 10
    with pytest.raises(PgError, match="more than"):
        catalog.run("SELECT a FROM generate_series(1, 10000000) t(a), pg_class")
    with pytest.raises((UnsupportedQuery, PgError)):
        catalog.run("SELECT string_agg(repeat('x', 100000), '') FROM generate_series(1, 10000000) a, pg_class", (), 5)
    assert catalog.run("SELECT count(*) FROM pg_class").rows == [(3,)]


@given(st.data())
@settings(max_examples=many(150), deadline=None)
def test_any_text_is_answered_or_refused(data):
    """Texts made of pieces of recorded queries, in any order."""
    own = filled()
    one, other = (data.draw(st.sampled_from(QUERIES)).text.split() for _ in range(2))
    cut, length = data.draw(st.integers(0, len(one))), data.draw(st.integers(0, 6))
    words = one[:cut] + other[: data.draw(st.integers(0, 6))] + one[cut + length :]
    text = " ".join(words)
    if own.answers(text):
        with suppress(UnsupportedQuery, PgError):
            own.parameters(text)
            own.describe(text)
            own.run(text, [None] * 20, 2)


def test_an_instance_that_duckdb_gives_up_is_made_again():
    own = filled()
    broken = own._instance
    assert broken is not None
    broken.is_broken = True
    assert own.run("SELECT count(*) FROM pg_class").rows == [(3,)]
    assert own._instance is not broken


def test_several_threads_ask_at_once():
    own = filled()
    columns = [("people", "main", f"t{number}", "a", "INTEGER", "YES") for number in range(20)]

    def asked(number: int) -> int:
        if number % 5 == 0:
            own.fill(columns[: 1 + number % 20], [])
        return int(own.run("SELECT count(*) FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid").rows[0][0])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(asked, range(60)))
    assert all(1 <= one <= 22 for one in found)


def test_text_in_parameters_stays_text(catalog):
    hostile = "x' OR '1'='1"
    assert rows(catalog, "SELECT relname FROM pg_class WHERE relname = $1", hostile) == []
    assert rows(catalog, "SELECT $1, current_user", "1") == [("1", "ana")]
    assert rows(catalog, "SELECT $1, current_user", 1) == [(1, "ana")]
    assert rows(catalog, "SELECT $1, current_user", True) == [(True, "ana")]
    assert rows(
        catalog, "SELECT relname FROM pg_class WHERE relname = $1 OR relname = ANY($2)", hostile, ["adults"]
    ) == [("adults",)]
