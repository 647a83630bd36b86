"""Sessions with psycopg: what a client asks for, and what it is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.rows import tuple_row

from duckanon.analyst import Analyst
from tests.amounts import sampled
from tests.server.client import FLUSH, SYNC, Client, bind, cancel, describe, execute, parse, query
from tests.server.served import Served, password

COUNTIES = [("A", "a1"), ("B", "b1"), ("B", "b2"), ("C", "c1")]
# Runs for hours if it is not stopped.
LONG = "SELECT count(*) FROM " + ", ".join(f"range(100000) r{n}" for n in range(4))


@pytest.fixture
def ana(served: Served) -> Iterator[psycopg.Connection[Any]]:
    with served.login("ana") as con:
        yield con


@pytest.fixture
def stu(served: Served) -> Iterator[psycopg.Connection[Any]]:
    with served.login("stu") as con:
        yield con


def charges(con: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    found = con.execute("SELECT who, epsilon_exact FROM privacy_ledger() WHERE action = 'charge' ORDER BY number")
    return found.fetchall()


def test_a_count_is_charged_once_and_names_its_asker(ana: Any, stu: Any) -> None:
    first = ana.execute("SELECT count(*) FROM persons").fetchall()
    assert ana.execute("SELECT count(*) FROM persons").fetchall() == first
    assert charges(stu) == [("ana", "1")]


def test_refusals_have_their_own_state(ana: Any) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match="Records of persons are protected"):
        ana.execute("SELECT * FROM persons")
    with pytest.raises(errors.FeatureNotSupported, match="does not run"):
        ana.execute("ALTER TABLE persons ADD COLUMN x INT")
    assert ana.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("user", ["ana", "stu"])
@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SELECT 1", "?column?", 1),
        ("select 7 as \n One", "One", 7),
        ("SELECT 'a b'", "?column?", "a b"),
        # These run each time.
        ("SELECT 1 + 1", "?column?", 2),
        ("SELECT 12345678901", "?column?", 12345678901),
        ("SELECT '\u00e9'", "?column?", "\u00e9"),
    ],
)
def test_a_ping_is_answered_alike_each_time(
    served: Served, user: str, text: str, name: str, value: Any, binary: bool, prepare: bool
) -> None:
    with served.login(user) as con:
        for _ in range(4):
            cursor = con.cursor(binary=binary).execute(text, prepare=prepare)
            assert cursor.description is not None
            assert (cursor.description[0].name, cursor.statusmessage) == (name, "SELECT 1")
            assert cursor.fetchall() == [(value,)]


def test_a_ping_runs_once(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    ran, execute_ = [], Analyst.execute

    def counted(self: Analyst, query: Any, *rest: Any) -> Any:
        ran.append(query)
        return execute_(self, query, *rest)

    with served.login("ana") as con:
        monkeypatch.setattr(Analyst, "execute", counted)
        for _ in range(9):
            assert con.execute("SELECT 1").fetchall() == [(1,)]
            assert con.execute("SELECT true").fetchall() == [(True,)]
    assert ran.count("SELECT 1") == 1
    assert ran.count("SELECT true") == 8


def test_a_ping_leaves_the_rows_of_an_open_cursor(ana: Any) -> None:
    with ana.transaction(), ana.cursor(name="c") as cursor:
        cursor.itersize = 1
        cursor.execute("SELECT i FROM range(5000) t(i)")
        for at in range(3):
            assert cursor.fetchone() == (at,)
            assert ana.execute("SELECT 1").fetchall() == [(1,)]
        assert [one for (one,) in cursor] == list(range(3, 5000))


def test_a_ping_fails_in_a_failed_transaction(ana: Any) -> None:
    ana.execute("SELECT 1")
    ana.execute("BEGIN")
    with pytest.raises(errors.InsufficientPrivilege):
        ana.execute("SELECT * FROM persons")
    with pytest.raises(errors.InFailedSqlTransaction):
        ana.execute("SELECT 1")
    ana.execute("ROLLBACK")
    assert ana.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_parameters(ana: Any, binary: bool, prepare: bool) -> None:
    cursor = ana.cursor(binary=binary)
    for state in ("A", "B"):
        cursor.execute("SELECT county FROM counties WHERE state = %s ORDER BY 1", (state,), prepare=prepare)
        assert cursor.fetchall() == [(county,) for one, county in COUNTIES if one == state]


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_of_a_paid_question_are_part_of_it(ana: Any, stu: Any, binary: bool) -> None:
    cursor = ana.cursor(binary=binary)
    found = [cursor.execute("SELECT count(*) FROM persons WHERE age < %s", (age,)).fetchone() for age in (30, 40, 30)]
    assert found[0] == found[2]
    assert len(charges(stu)) == 2


def test_a_question_is_described_without_a_charge(served: Served, stu: Any) -> None:
    """A driver that prepares asks for the columns first."""
    with Client(served.host, served.port).log_in("ana") as client:
        question = "SELECT state, count(*) AS n FROM persons WHERE age < $1 GROUP BY state"
        found = client.ask(parse(question, "q"), describe("S", "q"), SYNC)
        assert (found.kinds, found.columns, found.parameters) == ("1tTZ", [("state", 25), ("n", 20)], [20])
        found = client.ask(bind("40", name="q"), describe("P"), SYNC)
        assert (found.kinds, found.columns) == ("2TZ", [("state", 25), ("n", 20)])
        found = client.ask(bind("40", name="q"), describe("P"), FLUSH, parse("SELECT 1"), SYNC)
        assert found.kinds == "2T1Z"
        assert charges(stu) == []
        found = client.ask(bind("40", name="q"), describe("P"), execute(), SYNC)
        assert found.kinds == "2NTDDDCZ"
        assert len(charges(stu)) == 1
        assert client.ask(bind("40", name="q"), execute(2), execute(2), SYNC).kinds == "2NDDsDCZ"


@pytest.mark.parametrize(
    ("text", "oids"),
    sampled(
        [
            ("SELECT * FROM counties WHERE state = $1", [25]),
            ("SELECT count(*) FROM persons WHERE age BETWEEN $1 AND $2", [20, 20]),
            ("SELECT count(*) FROM persons WHERE $1 > income", [20]),
            ("SELECT $1::date, $2", [1082, 25]),
            ("SELECT * FROM counties LIMIT $1", [20]),
            ("SELECT count(*) FROM persons WHERE age IN ($1,$2,$3)", [20, 20, 20]),
            ("SELECT count(*) FROM persons WHERE age = coalesce($1, $2) OR income = coalesce($3, 0)", [20, 20, 20]),
            ("SELECT '$1,$2', CAST($1 AS TIMESTAMP),$2::int4", [1114, 23]),
            (
                "SELECT * FROM counties c JOIN counties d USING (state) "
                "WHERE c.county IN ($1, 'x') AND d.county = ANY($2)",
                [25, 1009],
            ),
            ('SELECT \'$1\', "$2", $1 /* $3 */ FROM (SELECT 1 AS "$2")', [25]),
        ]
    ),
)
def test_parameters_are_typed_by_what_they_are_compared_with(served: Served, text: str, oids: list[int]) -> None:
    with Client(served.host, served.port).log_in("ana") as client:
        found = client.ask(parse(text), describe("S"), SYNC)
        assert (found.errors, found.parameters) == ([], oids)


def test_parameters_without_spaces(served: Served) -> None:
    with Client(served.host, served.port).log_in("ana") as client:
        found = client.ask(
            parse("SELECT county,'$1,$2' FROM counties WHERE county IN($1,$2)"), bind("a1", "c1"), execute(), SYNC
        )
        assert found.rows == [("a1", "$1,$2"), ("c1", "$1,$2")]


def test_temporary_tables_are_the_session_s_own(served: Served, ana: Any) -> None:
    assert ana.execute("CREATE TEMP TABLE mine AS SELECT * FROM counties").statusmessage == "SELECT 4"
    assert ana.execute("INSERT INTO mine SELECT * FROM counties").statusmessage == "INSERT 0 4"
    assert ana.execute("SELECT count(*) FROM mine").fetchall() == [(8,)]
    with served.login("ana") as other, pytest.raises(errors.Error):
        other.execute("SELECT * FROM mine")


def test_transactions_of_an_analyst_are_the_session_s_alone(served: Served) -> None:
    told: list[str] = []
    with served.login("ana", autocommit=False) as con:
        con.add_notice_handler(lambda one: told.append(one.message_primary or ""))
        con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x")
        con.execute("SELECT count(*) FROM persons")
        con.rollback()
        assert con.execute("SELECT x FROM mine").fetchall() == [(1,)]
        with pytest.raises(errors.InsufficientPrivilege):
            con.execute("SELECT name FROM persons")
        with pytest.raises(errors.InFailedSqlTransaction):
            con.execute("SELECT 1")
        con.rollback()
        assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert told[0] == "Each statement is committed by itself: ROLLBACK undoes nothing here."
    assert ["The noise protects" in one for one in told[1:]] == [True]


def test_transactions_of_a_steward_are_real(served: Served) -> None:
    with served.login("stu", autocommit=False) as con:
        con.execute("CREATE TABLE made (x INT)")
        con.execute("INSERT INTO made VALUES (%s)", (5,))
        con.rollback()
        with pytest.raises(errors.UndefinedTable):
            con.execute("SELECT * FROM made")
        con.rollback()
        con.execute("CREATE TABLE made (x INT)")
        con.commit()
    with served.login("stu") as con:
        assert con.execute("SELECT * FROM made").fetchall() == []


def test_a_steward_has_no_files_and_no_settings(stu: Any) -> None:
    for text in (
        "FROM read_csv('/etc/passwd')",
        "COPY counties TO '/tmp/counties.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "INSTALL httpfs",
    ):
        with pytest.raises(errors.Error, match=r"locked|disabled|not allowed|[Pp]ermission"):
            stu.execute(text)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("INSERT INTO counties (state, county) VALUES ($1, $2) RETURNING *", [("state", 25), ("county", 25)]),
        ("INSERT INTO main.counties SELECT 'D', 'd1' RETURNING length(county) AS n", [("n", 20)]),
        ("UPDATE counties AS c SET state = 'Z' WHERE county IN (SELECT $1) RETURNING c.county", [("county", 25)]),
        (
            "WITH n(a) AS (SELECT 'x') INSERT INTO counties SELECT a, $1 FROM n RETURNING state AS s, (1 + 1) AS b",
            [("s", 25), ("b", 23)],
        ),
        ("WITH n(a) AS (SELECT 'x') INSERT INTO counties SELECT a, a FROM n", []),
        ("DELETE FROM counties WHERE county = 'c1' RETURNING 1 AS one, state", [("one", 23), ("state", 25)]),
    ],
)
def test_what_a_steward_s_change_returns_is_described(served: Served, text: str, columns: list[Any]) -> None:
    with Client(served.host, served.port).log_in("stu") as client:
        values = ["x" for one in ("$1", "$2") if one in text]
        described = client.ask(parse(text, "s"), describe("S", "s"), SYNC)
        assert (described.columns, described.errors) == (columns, [])
        assert client.ask(query("SELECT count(*) FROM counties")).rows == [("4",)]
        found = client.ask(bind(*values, name="s"), describe("P"), execute(), SYNC)
        assert (found.columns, found.errors) == (columns, [])


def test_server_side_cursors(served: Served) -> None:
    with served.login("ana", autocommit=False) as con:
        with con.cursor("c") as cursor:
            cursor.execute("SELECT state, county FROM counties ORDER BY county")
            assert cursor.fetchmany(1) == COUNTIES[:1]
            assert con.execute("SELECT 7").fetchall() == [(7,)]
            assert cursor.fetchmany(2) == COUNTIES[1:3]
            assert cursor.fetchall() == COUNTIES[3:]
        con.commit()
        with pytest.raises(errors.InvalidCursorName):
            con.execute("FETCH 1 FROM c")


def test_portals_give_so_many_rows_at_a_time(ana: Any) -> None:
    """As JDBC does with a fetch size: it runs a portal again until it is told that it has ended."""
    seen = [row[0] for row in ana.cursor(row_factory=tuple_row).stream("SELECT r FROM range(5000) t(r)")]
    assert seen == list(range(5000))


def test_a_pipeline(ana: Any) -> None:
    with ana.pipeline():
        found = [ana.execute("SELECT %s::int", (at,)) for at in range(50)]
    assert [one.fetchone() for one in found] == [(at,) for at in range(50)]


def test_after_an_error_a_pipeline_skips_to_its_sync(ana: Any) -> None:
    skipped: Any = None
    with pytest.raises(errors.InsufficientPrivilege), ana.pipeline():  # noqa: PT012 # both are sent before the error comes
        ana.execute("SELECT * FROM persons")
        skipped = ana.execute("SELECT 1")
    with pytest.raises(errors.Error):
        skipped.fetchone()
    assert ana.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", b"a\\tb\t1.5\n\\N\t2\n"),
        ("WITH (FORMAT csv, HEADER)", b"name,number\na\tb,1.5\n,2\n"),
        ("WITH (FORMAT csv, DELIMITER ';', NULL '-')", b"a\tb;1.5\n-;2\n"),
        ("CSV HEADER", b"name,number\na\tb,1.5\n,2\n"),
    ],
)
def test_copy_out(ana: Any, options: str, said: bytes) -> None:
    query = "SELECT * FROM (VALUES ('a' || chr(9) || 'b', 1.5::DOUBLE), (NULL, 2)) v(name, number)"
    with ana.cursor().copy(f"COPY ({query}) TO STDOUT {options}") as copy:
        assert b"".join(map(bytes, copy)) == said


def test_copy_out_in_binary(ana: Any) -> None:
    with ana.cursor().copy("COPY (SELECT state, county FROM counties) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["text", "text"])
        assert list(copy.rows()) == COUNTIES


def test_copy_out_passes_the_guard(ana: Any) -> None:
    for text in ("COPY persons TO STDOUT", "COPY (SELECT * FROM persons) TO STDOUT"):
        with pytest.raises(errors.InsufficientPrivilege), ana.cursor().copy(text) as copy:
            list(copy)
    with ana.cursor().copy("COPY counties (county) TO STDOUT") as copy:
        assert [row for (row,) in copy.rows()] == [county for _, county in COUNTIES]


def test_several_statements_end_with_the_first_error(ana: Any) -> None:
    cursor = ana.execute("SELECT 1; SELECT ';'; ; SELECT 3 -- no; end")
    found = [cursor.fetchall()]
    while cursor.nextset():
        found.append(cursor.fetchall())
    assert found == [[(1,)], [(";",)], [(3,)]]
    with pytest.raises(errors.InsufficientPrivilege):
        ana.execute("CREATE TEMP TABLE a AS SELECT 1; SELECT * FROM persons; CREATE TEMP TABLE b AS SELECT 1")
    with pytest.raises(errors.Error):
        ana.execute("SELECT * FROM b")


@pytest.mark.parametrize("name", ["ana", "stu"])
def test_cancel(served: Served, name: str) -> None:
    with Client(served.host, served.port).log_in(name) as client, Client(served.host, served.port) as other:
        client.send(query(LONG))
        time.sleep(0.5)
        other.send(cancel(client.process, client.key))
        assert other.is_ended()
        assert client.reply().error == "57014"
        assert client.ask(query("SELECT 1")).rows == [("1",)]


def test_a_session_limits_its_statements(ana: Any) -> None:
    ana.execute("SET statement_timeout = '300ms'")
    assert ana.execute("SHOW statement_timeout").fetchall() == [("300",)]
    with pytest.raises(errors.QueryCanceled, match="longer than it may"):
        ana.execute(LONG)
    ana.execute("RESET statement_timeout")
    assert ana.execute("SELECT 1").fetchall() == [(1,)]


def test_settings_are_an_allow_list(ana: Any) -> None:
    for text in ("SET foo = 1", "SHOW foo", "SET role = stu", "SET session_authorization = stu", "RESET foo"):
        with pytest.raises(errors.Error):
            ana.execute(text)
    with pytest.raises(errors.InvalidParameterValue):
        ana.execute("SET client_encoding = LATIN1")
    for zone in ("'Europe/Berlin'", "INTERVAL '+02:00' HOUR TO MINUTE"):
        with pytest.raises(errors.InvalidParameterValue, match="write x AT TIME ZONE 'Europe/Berlin'"):
            ana.execute(f"SET TIME ZONE {zone}")
    ana.execute("SET application_name = 'x'")
    assert ana.execute("SHOW application_name").fetchall() == [("x",)]
    assert ana.info.parameter_status("application_name") == "x"
    assert ("TimeZone", "UTC") in ana.execute("SHOW ALL").fetchall()
    # Tableau's first question.
    assert ana.execute('show "lc_collate"').fetchall() == ana.execute("SELECT current_setting('lc_collate')").fetchall()


def test_tables_of_other_schemas_are_named_with_them(served: Served) -> None:
    with served.login("stu") as stu, served.login("ana") as ana:
        stu.execute("CREATE SCHEMA marts")
        stu.execute("CREATE TABLE marts.months AS SELECT 1 AS month")
        stu.execute("SELECT open_table('marts.months')")
        assert ana.execute("SELECT month FROM marts.months").fetchall() == [(1,)]
        with pytest.raises(errors.InvalidParameterValue, match="write the schema before a table's name"):
            ana.execute("SET search_path = marts")


def test_a_session_can_be_made_as_new(ana: Any) -> None:
    ana.execute("CREATE TEMP TABLE mine AS SELECT 1")
    ana.execute("SET application_name = 'x'")
    ana.execute("DISCARD ALL")
    assert ana.execute("SHOW application_name").fetchall() == [("",)]
    with pytest.raises(errors.Error):
        ana.execute("SELECT * FROM mine")


def test_names_are_quoted_as_in_duckdb(ana: Any) -> None:
    found = ana.execute(sql.SQL("SELECT {} FROM counties LIMIT 0").format(sql.Identifier("county")))
    assert [one.name for one in found.description] == ["county"]


def test_values_go_both_ways(ana: Any) -> None:
    row = ana.execute(
        "SELECT 1::TINYINT, 2::UBIGINT, 1.50::DECIMAL(9, 2), 'x', NULL, TRUE, DATE '2020-02-29', TIME '12:00:01', "
        "INTERVAL '3 hours', ['a', NULL], {'a': 1}, '\\xAA'::BLOB, 170141183460469231731687303715884105727::HUGEINT"
    ).fetchone()
    again = ana.execute(
        "SELECT %s::DECIMAL(9, 2), %s::DATE, %s::BLOB, %s::VARCHAR[]", (row[2], row[6], row[11], row[9])
    )
    assert again.fetchone() == (row[2], row[6], row[11], row[9])


def test_who_may_log_in(served: Served) -> None:
    for user, secret in (("ana", "wrong password"), ("eve", "wrong password"), ("eve", password("eve"))):
        with pytest.raises(psycopg.OperationalError, match="The name or the password is wrong"):
            psycopg.connect(f"host={served.host} port={served.port} user={user} password='{secret}' dbname=people")
    with pytest.raises(psycopg.OperationalError, match="There is one database here"):
        served.login("ana", dbname="other")


def test_the_log_has_no_values(served: Served, ana: Any) -> None:
    ana.execute("SELECT county FROM counties WHERE state = %s", ("C",))
    ana.execute("SELECT count(*) FROM persons")
    log = served.log()
    assert (
        '"user": "ana", "text": "SELECT count(*) FROM persons", "decision": "count: rewritten", "epsilon": "1"' in log
    )
    assert "c1" not in log
    assert password("ana") not in log
