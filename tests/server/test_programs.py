"""What programs send is answered as PostgreSQL answers it: every recorded statement, in its order, over the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from tests.amounts import sampled
from tests.clients.statements import Sent, programs, sent
from tests.clients.world import make
from tests.server.served import Served, serving

# Numbers of types of which one is as good as another for a client: catalogs are held with fewer types.
_TEXT, _NUMBERS = 25, {20, 21, 23, 26, 28, 700, 701, 1700}
_AS_TEXT = {18, 19, 24, 25, 142, 194, 705, 869, 1033, 1042, 1043, 2205, 2206, 2277, 2278, 3220, 17, 12295, 13000}
_LISTS = {22: 1005, 30: 1028, 1002: 1009, 1003: 1009, 1034: 1009, 1015: 1009}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(make(tmp_path_factory.mktemp("programs") / "people.duckdb")) as found:
        yield found


def answer(con: psycopg.Connection[object], one: Sent) -> pq.abc.PGresult:
    """The result of a statement, prepared and with its parameters as text, as most drivers send it."""
    values = [None if value is None else value.encode() for _, value in one.parameters]
    result = con.pgconn.exec_params(one.text.encode(), values, [oid for oid, _ in one.parameters] or None)
    if result.status == pq.ExecStatus.COPY_OUT:
        while con.pgconn.get_copy_data(0)[0] > 0:
            pass
        while (rest := con.pgconn.get_result()) is not None:
            result = rest
    return result


@pytest.mark.parametrize("program", sampled(programs()))
def test_every_statement_is_answered(program: str, served: Served) -> None:
    with served.login("stu" if program == "dbt" else "ana") as con:
        problems = [said for one in sent(program) if (said := problem(answer(con, one), one))]
    assert not problems, "\n".join(problems)


def problem(result: pq.abc.PGresult, one: Sent) -> str:
    """What differs from PostgreSQL's answer; empty for nothing."""
    said = ""
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        # A statement that was refused when it was recorded may be answered by now, and not the other way round.
        said = "" if code == one.fails else f"{code} {result.error_message.decode()}"
    elif one.columns is not None and one.fails != "42501":
        names = [(result.fname(at) or b"").decode() for at in range(result.nfields)]
        kinds = [result.ftype(at) for at in range(result.nfields)]
        if names != [name for name, _ in one.columns]:
            said = f"columns {names} instead of {[name for name, _ in one.columns]}"
        elif differing := [
            (name, wanted, kind)
            for (name, wanted), kind in zip(one.columns, kinds, strict=True)
            if not as_good(wanted, kind, one.kind)
        ]:
            said = f"types {differing}"
        elif one.rows is not None:
            said = rows_differ(result, one.rows, in_order="order by count desc" not in one.text.lower())
    return f"{said}\n    <- {' '.join(one.text.split())[:300]}" if said else ""


def as_good(wanted: int, kind: int, of: str) -> bool:
    """Whether a type is as good for a client as PostgreSQL's."""
    if kind == wanted or (wanted in _AS_TEXT and kind in _AS_TEXT) or (wanted in _NUMBERS and kind in _NUMBERS):
        return True
    if of == "catalog":
        # A catalog that is always empty has columns without a value, which are texts.
        return kind == _LISTS.get(wanted) or kind == _TEXT or {wanted, kind} == {28, 26}
    # DuckDB's date_trunc of a date is a date.
    return {wanted, kind} <= {1082, 1114, 1184}


def rows_differ(result: pq.abc.PGresult, wanted: object, *, in_order: bool) -> str:
    """Which row is not there. in_order: whether each has its place; rows that tie in ORDER BY have none."""
    assert isinstance(wanted, list)
    found = [[result.get_value(at, place) for place in range(result.nfields)] for at in range(result.ntuples)]
    left = [[None if cell is None else cell.decode() for cell in row] for row in found]
    for row in wanted:
        match = next((one for one in (left[:1] if in_order else left) if all(map(_alike, one, row))), None)
        if match is None:
            return f"no row {row!r} among {left[:5]!r}"
        left.remove(match)
    return ""


def _alike(one: str | None, other: str | None) -> bool:
    return one == other or same(one, other)


def same(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same number, or the same moment: PostgreSQL's date_trunc of a date has a time."""
    if one is None or other is None:
        return False
    try:
        return float(one) == pytest.approx(float(other))
    except ValueError:
        moments = [text.removesuffix("+00").removesuffix(" 00:00:00") for text in (one, other)]
        return moments[0] == moments[1]


def test_there_are_enough_of_them() -> None:
    """The ones about the catalog alone."""
    assert sum(one.kind == "catalog" for program in programs() for one in sent(program)) >= 300
    assert {"bi", "pgadmin", "pgcli", "sequelize", "typeorm", "jdbc", "r", "dbt", "superset", "django"} <= set(
        programs()
    )


def test_the_answers_are_compared(served: Served) -> None:
    """Another name, type, row or error is a problem."""
    right = Sent("open", "SELECT county FROM counties ORDER BY county", (), [("county", 25)], [["c1"]])
    with served.login("ana") as con:
        assert not problem(answer(con, right), right)
        for wrong in (
            Sent(right.kind, right.text, (), [("region", 25)], right.rows),
            Sent(right.kind, right.text, (), [("county", 16)], right.rows),
            Sent(right.kind, right.text, (), right.columns, [["c2"]]),
            Sent(right.kind, "SELECT nothing FROM counties", (), right.columns, right.rows),
        ):
            assert problem(answer(con, wrong), wrong)


def catalog_answers(path: Path, recorded: Iterable[str]) -> list[tuple[str, list[object]]]:
    """The recorded statements of some programs about the catalog with what they answer, on one database."""
    found = []
    with serving(path) as served, served.login("ana") as con:
        for program in recorded:
            for one in sent(program):
                if one.kind == "catalog" and "pg_backend_pid" not in one.text:
                    result = answer(con, one)
                    cells: list[object] = [
                        result.get_value(at, place) for at in range(result.ntuples) for place in range(result.nfields)
                    ]
                    found.append((one.text, [result.status, result.error_message, *cells]))
    return found


@pytest.mark.parametrize("first", sampled(range(4), 4))
def test_the_catalog_tells_nothing_of_what_is_closed(tmp_path: Path, first: int) -> None:
    """The same statements on databases that differ in records, in closed tables, views, macros, types and schemas."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = make(tmp_path / "one" / "people.duckdb")
    two = make(
        tmp_path / "two" / "people.duckdb",
        "CREATE TABLE salaries AS SELECT 1 AS amount FROM range(5000)",
        "CREATE SCHEMA secret",
        "CREATE TABLE secret.plans (id INTEGER PRIMARY KEY, said VARCHAR DEFAULT 'hidden' NOT NULL)",
        "CREATE SEQUENCE numbers START 7",
        "CREATE VIEW behind AS SELECT * FROM salaries; CREATE MACRO twice(x) AS 2 * x",
        "CREATE TYPE mood AS ENUM ('sad')",
        "COMMENT ON TABLE persons IS 'a secret'; COMMENT ON COLUMN persons.name IS 'another'",
        "DELETE FROM persons WHERE id % 3 = 0",
        "ALTER TABLE closed ADD COLUMN more INTEGER",
    )
    recorded = [*programs()][first::4]
    assert catalog_answers(one, recorded) == catalog_answers(two, recorded)
