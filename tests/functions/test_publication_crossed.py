"""Suppressed tables of several crossed dimensions, hierarchies and linked tables as publications."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest

from duckanon.catalog.publication import Terms
from duckanon.functions import publication_readers
from duckanon.functions.suppressed_tables import Form, form
from tests.functions import publication_worlds as worlds
from tests.functions.test_publication_masked import refused, said

RECORDS = """CREATE TABLE records AS SELECT
  (['north', 'south'])[1 + u % 2] AS region, u % 2 * 10 + u // 2 % 2 AS county, (u % 2 + u // 2) % 2 AS market,
  (['x', 'y', 'z'])[1 + u // 6 % 3] AS kind, u // 18 % 2 AS sex, (20 + u // 540 % 40)::INTEGER AS turnover
FROM (SELECT (md5_number_lower(i::VARCHAR) % 1000000007)::BIGINT AS u FROM range(70) r(i))"""
PROTECT = (
    "SELECT protect('records', epsilon := 1, public := ['region', 'county', 'market', 'kind', 'sex', 'turnover'], "
    "small := {small}, k := {small}{more})"
)
ALL = ["region", "county", "kind", "sex"]
# Calls of suppress, and the columns that identify their cells.
THREE = "['region'], ['kind'], by := [['sex']], n := 5", ["region", "kind", "sex"]
LINKED = "['region', 'county'], ['kind'], by := [['sex']], tables := [['county', 'kind'], ['region', 'sex']]", ALL
PAIRS = (
    "['region', 'county'], ['kind'], by := [['sex']], "
    "tables := [['county', 'kind'], ['county', 'sex'], ['kind', 'sex']]",
    ALL,
)
TWICE = "['region', 'county'], ['kind'], by := [['market', 'county']]", ["region", "county", "kind", "market"]
SUMS = ", value := 'turnover', rule := ['p%', 'threshold']"


@pytest.fixture
def records(con: duckdb.DuckDBPyConnection, request: pytest.FixtureRequest) -> duckdb.DuckDBPyConnection:
    con.execute(RECORDS).fetchall()
    call = request.node.callspec.params.get("call", "") if hasattr(request.node, "callspec") else ""
    con.execute(PROTECT.format(small=5 if "n := 5" in call else 3, more="")).fetchall()
    return con


def made(con: duckdb.DuckDBPyConnection, call: str, *, bare: bool = False) -> None:
    """The answer of suppress; bare: with all secondary suppressions taken back."""
    audited = (
        "SELECT * EXCLUDE (suppressed, value, status, true_value, lower, upper), status = 'primary' AS suppressed, "
        f"CASE WHEN status <> 'primary' THEN true_value END AS value FROM suppress('records', {call}, audit := true)"
    )
    con.execute("CREATE TABLE made AS " + (audited if bare else f"FROM suppress('records', {call})")).fetchall()


def publish(by: list[str], more: str = "") -> str:
    return f"publish('made', variables := {by}, value := 'value', suppressed := 'suppressed'{more})"


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(("call", "by"), [THREE, LINKED, PAIRS, TWICE])
def test_counts_are_published_unless_a_suppressed_cell_follows(
    records: duckdb.DuckDBPyConnection, call: str, by: list[str], bare: bool
) -> None:
    made(records, call, bare=bare)
    ((hidden,),) = records.execute("SELECT count(*) FROM made WHERE suppressed").fetchall()
    assert hidden
    if bare:
        assert "follow from all of them" in refused(records, publish(by))
    else:
        assert "is published" in said(records, publish(by))
        assert records.execute("SELECT count(*) FROM duckanon.made").fetchall() > [(20,)]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(("call", "by"), [THREE, LINKED])
def test_sums_are_published_unless_a_suppressed_one_is_too_narrow(
    records: duckdb.DuckDBPyConnection, call: str, by: list[str], bare: bool
) -> None:
    made(records, call + SUMS, bare=bare)
    if bare:
        assert "sensitive sums are known too narrowly" in refused(records, publish(by, ", sum := 'turnover'"))
    else:
        assert "is published" in said(records, publish(by, ", sum := 'turnover'"))


def test_what_tables_of_pairs_say_together_is_refused_of_sums(records: duckdb.DuckDBPyConnection) -> None:
    """Of three pairs of variables other records have no values that are proven to give the same sums."""
    call, by = PAIRS
    made(records, call + SUMS)
    assert "2 are known to hold fewer than 3" in refused(records, publish(by, ", sum := 'turnover'"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE made SET value = value + 1 WHERE row_level = 0 AND col_level = 0 AND by_level = [0]", "1 of the 34"),
        ("UPDATE made SET by_level = [0, 0]", "each list in by. If their hierarchy is a table of codes"),
        ("UPDATE made SET by_level = [-1] WHERE by_level = [1]", "say how many columns identify a cell"),
        ("UPDATE made SET by_level = NULL WHERE by_level = [1]", "say how many columns identify a cell"),
        ("UPDATE made SET by_level = [1] WHERE by_level = [0]", "of the 82 cells neither"),
        (
            "ALTER TABLE made ALTER by_level TYPE BIGINT USING by_level[1]",
            'Column "by_level" must hold lists of levels',
        ),
        ("ALTER TABLE made DROP by_level", "identified by 3 columns"),
    ],
)
def test_a_table_that_is_not_what_suppress_gives(records: duckdb.DuckDBPyConnection, change: str, says: str) -> None:
    made(records, LINKED[0])
    records.execute(change).fetchall()
    assert says in refused(records, publish(ALL))


@pytest.mark.parametrize(
    "gone", ["row_level = 1 AND col_level = 0 AND by_level = [0]", "by_level = [0] AND col_level = 0"]
)
def test_sums_without_a_total_of_theirs_are_refused(records: duckdb.DuckDBPyConnection, gone: str) -> None:
    made(records, LINKED[0] + SUMS)
    records.execute(f"DELETE FROM made WHERE {gone}").fetchall()
    assert "lacks cells or totals" in refused(records, publish(ALL, ", sum := 'turnover'"))


def test_an_audit_that_forgets_all_tables_but_the_first_is_found(
    own_con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random records number 50, against a list of all records that agree (`publication_worlds`)."""

    def let_out() -> tuple[np.ndarray, list[worlds.Published]]:
        random = np.random.default_rng(50)
        counts = worlds.population(random)
        worlds.filled(own_con, counts, random)
        order = tuple(str(one) for one in random.permutation(worlds.NAMES))
        return counts, worlds.let_out(own_con, [Terms(order, (), "value", suppressed="suppressed")], random)

    def first(*asked: Any) -> Form:
        found = form(*asked)
        return replace(found, margins=tuple(one for one in found.margins if one.within(found.tables[0])))

    assert not let_out()[1]
    monkeypatch.setattr(publication_readers, "form", first)
    counts, out = let_out()
    assert len(list(worlds.broken(counts, out))) == 20


def test_codes_have_to_be_named(records: duckdb.DuckDBPyConnection) -> None:
    records.execute(
        "CREATE TABLE codes AS FROM (VALUES ('x', 'w'), ('y', 'w'), ('z', NULL)) v(code, parent)"
    ).fetchall()
    made(records, "['kind'], ['sex'], hierarchies := {'kind': 'codes'}")
    says = "If their hierarchy is a table of codes, name it in hierarchies."
    assert says in refused(records, publish(["kind", "sex"]))


def test_an_analyst_reads_one_and_its_insides_are_no_totals(con: duckdb.DuckDBPyConnection) -> None:
    """Both tables have cells that the other lacks; where counts are sold, all but these are known."""
    con.execute(RECORDS).fetchall()
    con.execute(PROTECT.format(small=3, more=", per_query := 0.1")).fetchall()
    made(con, LINKED[0])
    hidden = "SELECT DISTINCT row_level, col_level, by_level FROM made WHERE suppressed ORDER BY ALL"
    assert con.execute(hidden).fetchall() == [(2, 1, [0])]
    assert "is published" in said(con, publish(ALL))
