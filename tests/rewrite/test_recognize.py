"""Every query of the fixtures is valid SQL, is found to be what its file says, and gives what the finding says."""

import re
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.normalize import simplify
from duckanon.rewrite.recognize import (
    Conditional,
    Counts,
    Finding,
    GroupSizes,
    Schema,
    canonical,
    classify,
    findings_in,
    summary,
)
from tests.rewrite.fixtures import Entry, database, entries, schema

KINDS = {"group_size": GroupSizes, "conditional": Conditional, "plain_count": Counts}
FOUND = ["group_size", "conditional", "plain_count", "row_level"]
FILES = [*FOUND, *(f"{name}_look_alikes" for name in FOUND)]
ALL = [pytest.param(name, entry, id=f"{name}: {entry.title}") for name in FILES for entry in entries(f"rewrite/{name}")]


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return database()


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


def plain(value: object) -> object:
    """A value so that numbers that are equal compare equal."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return round(float(value), 9)


def multiset(found: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(map(plain, row)) for row in found)


@pytest.mark.parametrize(("name", "entry"), ALL)
def test_the_finding(con: duckdb.DuckDBPyConnection, name: str, entry: Entry) -> None:
    rows(con, entry.sql)  # valid SQL
    found = findings_in(entry.sql, schema())
    assert [summary(one) for one in found] == list(entry.found)
    if name in KINDS:
        chosen = [one for one in found if isinstance(one, KINDS[name])]
        assert chosen
        for one in chosen:
            assert COMPARISONS[KINDS[name]](con, entry.sql, one)  # type: ignore[operator]
    elif name == "row_level":
        assert any(one.kind == "row-level" for one in found)


def test_a_look_ahead_overlooks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Group sizes and shares are looked for only where a query has the shape of one: others have none."""
    texts = [entry.sql for name in FILES for entry in entries(f"rewrite/{name}")]
    as_it_is = [[summary(one) for one in findings_in(sql, schema())] for sql in texts]
    for name in ("_may_have_shares", "_may_count_groups"):
        monkeypatch.setattr(classify, name, lambda _: True)
    for sql, found in zip(texts, as_it_is, strict=True):
        assert [summary(one) for one in findings_in(sql, schema())] == found, sql


@pytest.mark.parametrize("name", FOUND)
def test_there_are_forty_of_each(name: str) -> None:
    kind = name.replace("plain_", "").replace("_", "-")
    for file, is_found in ((name, True), (f"{name}_look_alikes", False)):
        told = entries(f"rewrite/{file}")
        assert len({re.sub(r"\s+", " ", entry.sql) for entry in told}) >= 40
        for entry in told:
            assert any(one.startswith(f"{kind} ") for one in entry.found) == is_found, entry.title


def same_group_sizes(con: duckdb.DuckDBPyConnection, sql: str, found: GroupSizes) -> bool:
    """The query's columns that show regions, sizes and numbers of groups, beside those of the finding's own query."""
    asked = rows(con, canonical(found))
    # In a UNION ALL of levels each member shows its regions as it likes.
    shown_kinds: tuple[str, ...] = ("size", "groups", "statistic")
    shown_kinds += () if isinstance(found.node, exp.Union) else ("region",)
    places = [at for at, role in enumerate(found.columns) if role.what in shown_kinds]
    if not places:
        return True  # all that is shown is computed from figures
    width = len(found.regions)
    names = [role.what for role in found.columns]
    given = [tuple(row[at] for at in places) for row in rows(con, sql)]
    regions = {repr(one): at for at, one in enumerate(found.regions)}
    order: list[int] = []
    shown = width
    for at in places:
        if names[at] == "region":
            order.append(regions[repr(found.columns[at].expr)])
        else:
            order.append(shown)
            shown += 1
    wanted = [tuple(row[at] for at in order) for row in asked]
    # Conditions on released figures, LIMIT and HAVING on them leave rows out after the groups are counted.
    kept, all_of_them = multiset(given), multiset(wanted)
    if re.search(r"HAVING count\(\*\) > 1$|QUALIFY rank|GROUP BY size HAVING", sql, re.MULTILINE | re.IGNORECASE):
        return bool(kept) and kept <= all_of_them
    assert kept == all_of_them, (kept, all_of_them)
    return bool(kept)


def same_shares(con: duckdb.DuckDBPyConnection, sql: str, found: Conditional) -> bool:
    """The finding's column as often as its own query gives the same shares."""
    cursor = con.execute(sql)
    names = [one[0].lower() for one in cursor.description or []]
    given: list[object]
    if found.name.lower() in names:
        at = names.index(found.name.lower())
        given = [row[at] for row in cursor.fetchall()]
    else:  # spread over columns by a PIVOT
        given = [value for row in cursor.fetchall() for value in row if isinstance(value, float)]
    digits = found.digits
    wanted = [None if row[-1] is None else float(found.scale) * row[-1] for row in rows(con, canonical(found))]
    return close(given, wanted, digits)


def close(given: list[object], wanted: list[float | None], digits: int | None) -> bool:
    def number(value: object) -> float:
        return -1.0 if value is None else float(re.sub(r"[^0-9.eE-]", "", str(value)))

    left, right = sorted(map(number, given)), sorted(-1.0 if one is None else one for one in wanted)
    room = 1e-9 if digits is None else 0.5 * 10.0**-digits + 1e-9
    assert len(left) == len(right), (left, right)
    assert all(abs(one - other) <= room for one, other in zip(left, right, strict=True)), (left, right)
    return len(set(left)) > 1 or len(left) == 1


def same_counts(con: duckdb.DuckDBPyConnection, sql: str, found: Counts) -> bool:
    places = [at for at, role in enumerate(found.columns) if role.what in ("key", "count")]
    given = multiset([tuple(row[at] for at in places) for row in rows(con, sql)])
    wanted = multiset(rows(con, canonical(found)))
    if re.search(r"\bLIMIT\b", sql):
        return bool(given) and given <= wanted
    assert given == wanted, (given, wanted)
    return bool(given)


COMPARISONS: dict[type[Finding], object] = {
    GroupSizes: same_group_sizes,
    Conditional: same_shares,
    Counts: same_counts,
}


@pytest.mark.parametrize(
    "changed",
    ["QUALIFY row_number() OVER (ORDER BY pid) > 5", "LIMIT 10", "GROUP BY hid, state"],
)
def test_groups_of_some_records_are_no_groups(changed: str) -> None:
    """Groups are counted through a window over all records, and not over those that a clause leaves."""
    columns = {"persons": {"pid": "BIGINT", "hid": "BIGINT", "state": "VARCHAR"}}
    known = Schema.of(columns, protected=["persons"])
    query = (
        "SELECT size, count(DISTINCT hid) AS groups FROM "
        "(SELECT hid, count(*) OVER (PARTITION BY hid) AS size FROM persons {}) GROUP BY size"
    )
    assert [type(one) for one in findings_in(query.format(""), known)] == [GroupSizes]
    assert not any(isinstance(one, GroupSizes) for one in findings_in(query.format(changed), known))


def test_a_condition_on_a_grouping_set_stays_behind_it() -> None:
    """Moved before the grouping it would keep the total, which NULL = 'GA' leaves out."""
    known = Schema.of({"persons": {"state": "VARCHAR"}}, protected=["persons"])
    (found,) = findings_in(
        "SELECT state, count(*) AS n FROM persons GROUP BY ROLLUP (state) HAVING state = 'GA'", known
    )
    assert isinstance(found, Counts)
    assert found.kept
    assert not found.filter
    (plain_one,) = findings_in("SELECT state, count(*) AS n FROM persons GROUP BY state HAVING state = 'GA'", known)
    assert plain_one.filter


def test_what_is_in_its_form_already_is_changed_by_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that read one table by conditions on its records, which `simplified` gives back as they are."""
    known, queries = schema(), [entry.sql for name in FILES for entry in entries(f"rewrite/{name}")]
    found = [findings_in(sql, known) for sql in queries]
    passed = []

    def is_of_one_table(block: Block) -> bool:
        passed.append(shortcut(block))
        return False

    shortcut = simplify._is_of_one_table
    monkeypatch.setattr(simplify, "_is_of_one_table", is_of_one_table)
    assert [findings_in(sql, known) for sql in queries] == found
    assert passed.count(True) > 100
