"""Suppressed tables by codes, and of rows that stand for several records, as publications."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest

from duckanon.catalog.publication import Candidate, Codes, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.code_levels import levels_of_codes
from duckanon.functions.publication_audit import audit
from tests.amounts import many
from tests.functions import publication_worlds as worlds
from tests.functions.test_publication_masked import refused, said
from tests.shared_connection import Begun

# 'B' has parts, 'C2' lies higher than 'A11' and 'A12', and 'D' is the only part of nothing.
CODES = [("A11", "A1"), ("A12", "A1"), ("A2", "A"), ("A1", "A"), ("A", None), ("B1", "B"), ("B2", "B"), ("B", None)]
RECORDS = """CREATE TABLE firms AS SELECT (['A11', 'A12', 'A2', 'B1', 'B2'])[1 + u % 5] AS industry,
  (['north', 'south', 'west'])[1 + u // 5 % 3] AS region, (20 + u // 540 % 40)::INTEGER AS turnover
FROM (SELECT (md5_number_lower(i::VARCHAR) % 1000000007)::BIGINT AS u, i FROM range(75) r(i))
WHERE NOT (u % 5 = 3 AND u // 5 % 3 = 1 AND i > 40)"""
PROTECT = "SELECT protect('firms', epsilon := 1, public := ['industry', 'region'{more}], small := 4, k := 4)"
BY = (
    "variables := ['industry', 'region'], value := 'value', suppressed := 'suppressed', "
    "hierarchies := {'industry': 'codes'}"
)
SUMS = ", sum := 'turnover'"
CALL = "'firms', ['industry'], ['region'], hierarchies := {'industry': 'codes'}, n := 4"


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(RECORDS).fetchall()
    con.execute("CREATE TABLE codes (code VARCHAR, parent VARCHAR)").fetchall()
    for line in CODES:
        con.execute("INSERT INTO codes VALUES (?, ?)", list(line)).fetchall()
    con.execute(PROTECT.format(more="")).fetchall()
    con.execute("SELECT open_table('codes')").fetchall()
    con.execute(f"CREATE TABLE made AS FROM suppress({CALL})").fetchall()


@pytest.fixture
def firms(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def bare(con: duckdb.DuckDBPyConnection, call: str) -> None:
    """The answer of suppress with all secondary suppressions taken back."""
    con.execute(
        "CREATE OR REPLACE TABLE made AS SELECT * EXCLUDE (suppressed, value, status, true_value, lower, upper), "
        "status = 'primary' AS suppressed, CASE WHEN status <> 'primary' THEN true_value END AS value "
        f"FROM suppress({call}, audit := true)"
    ).fetchall()


def test_they_are_published_listed_and_audited_with_others(firms: duckdb.DuckDBPyConnection) -> None:
    assert firms.execute("SELECT count(*) > 0 FROM made WHERE suppressed").fetchall() == [(True,)]
    assert "is published" in said(firms, f"publish('made', {BY})")
    ((codes,),) = firms.execute("SELECT codes FROM publications()").fetchall()
    assert '["A11", "A1"]' in codes
    found = firms.execute("SELECT variables, safe FROM release_audit('firms') WHERE union_of IS NULL").fetchall()
    assert (["industry (level 1)", "industry (level 2)", "industry", "region"], True) in found
    firms.execute("CREATE TABLE n AS SELECT industry, region, count(*) AS n FROM firms GROUP BY ALL").fetchall()
    assert "follow from all of them" in refused(
        firms, "publish('n', variables := ['industry', 'region'], value := 'n')"
    )
    firms.execute("CREATE TABLE s AS SELECT region, count(*) AS n FROM firms GROUP BY ALL").fetchall()
    assert "is published" in said(firms, "publish('s', variables := ['region'], value := 'n')")
    # What is published of codes stays so, whatever becomes of their table.
    firms.execute("DELETE FROM codes").fetchall()
    assert firms.execute("SELECT bool_and(safe) FROM release_audit('firms')").fetchall() == [(True,)]
    assert firms.execute("SELECT count(*) FROM next_tables('firms')").fetchall() > [(0,)]
    said(firms, "unpublish('made')")
    assert firms.execute("SELECT count(*) > 0 FROM release_audit('firms')").fetchall() == [(True,)]


def test_what_follows_from_the_hierarchy_is_refused(firms: duckdb.DuckDBPyConnection) -> None:
    bare(firms, CALL)
    candidate = (
        "{tbl: 'made', vars: ['industry', 'region'], value: 'value', suppressed: 'suppressed', "
        "hierarchies: {'industry': 'codes'}}"
    )
    found = firms.execute(f"SELECT bool_and(safe) FROM release_audit('firms', candidate := {candidate})").fetchall()
    assert found == [(False,)]
    assert "follow from all of them" in refused(firms, f"publish('made', {BY})")


def test_sums_by_codes(firms: duckdb.DuckDBPyConnection) -> None:
    call = CALL.replace("n := 4", "n := 7, value := 'turnover', rule := ['p%', 'threshold']")
    bare(firms, call)
    assert "sensitive sums are known too narrowly" in refused(firms, f"publish('made', {BY}, sum := 'turnover')")
    firms.execute(f"CREATE OR REPLACE TABLE made AS FROM suppress({call})").fetchall()
    assert "is published" in said(firms, f"publish('made', {BY}, sum := 'turnover')")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE made SET industry = 'A2' WHERE industry = 'B'", "that the hierarchy does not have on their level"),
        ("UPDATE made SET row_level = 3 WHERE industry = 'A2'", "that the hierarchy does not have on their level"),
        ("UPDATE codes SET parent = 'B' WHERE code = 'A2'", "cells neither are suppressed nor hold"),
        ("DELETE FROM codes WHERE code = 'A2'", "holds a value that its hierarchy lacks"),
        ("UPDATE made SET value = value + 1 WHERE industry = 'A' AND region = 'west'", "neither are suppressed nor"),
        ("ALTER TABLE codes DROP COLUMN parent", "lost columns"),
    ],
)
def test_other_tables_and_other_codes_are_refused(firms: duckdb.DuckDBPyConnection, change: str, says: str) -> None:
    firms.execute(change).fetchall()
    found = refused(firms, f"publish('made', {BY})")
    assert says in found or "is no open table" in found


def test_codes_have_to_be_named_and_open(firms: duckdb.DuckDBPyConnection) -> None:
    plain = BY.replace(", hierarchies := {'industry': 'codes'}", "")
    assert "table of codes, name it in hierarchies" in refused(firms, f"publish('made', {plain})")
    other = BY.replace("{'industry': 'codes'}", "{'turnover': 'codes'}")
    assert 'hierarchies names "turnover"' in refused(firms, f"publish('made', {other})")
    firms.execute("CREATE TABLE closed AS FROM codes").fetchall()
    assert "is no open table" in refused(firms, f"publish('made', {BY.replace('codes', 'closed')})")


def test_a_sensitive_code_is_not_taken_to_identify_itself(con: duckdb.DuckDBPyConnection) -> None:
    """A chapter follows from the diagnosis, which nobody knows beforehand; so large groups may share both."""
    con.execute(
        "CREATE TABLE stays AS SELECT ['A1', 'A2', 'B1', 'B2'][1 + i % 4] AS diagnosis, i // 40 AS ward "
        "FROM range(120) r(i)"
    ).fetchall()
    con.execute(
        "CREATE TABLE codes AS FROM (VALUES ('A1', 'A'), ('A2', 'A'), ('B1', 'B'), ('B2', 'B')) v(code, parent)"
    )
    con.execute(
        "SELECT protect('stays', epsilon := 1, public := ['ward'], sensitive := ['diagnosis'], small := 3, k := 3)"
    )
    con.execute("SELECT open_table('codes')").fetchall()
    con.execute("DELETE FROM stays WHERE diagnosis = 'A1' AND ward = 1 AND rowid < 78").fetchall()
    con.execute(
        "CREATE TABLE made AS FROM suppress('stays', ['diagnosis'], ['ward'], hierarchies := {'diagnosis': 'codes'})"
    )
    call = (
        "publish('made', variables := ['diagnosis', 'ward'], value := 'value', suppressed := 'suppressed', "
        "hierarchies := {'diagnosis': 'codes'})"
    )
    assert "is published" in said(con, call)


# --- against a list of all records ------------------------------------------------------------------------------------


def hierarchy(random: np.random.Generator) -> Codes:
    """Of the codes 0 to 3: a tree of two or three levels, in which some codes may lie higher."""
    first = [str(one) for one in random.permutation(4)]
    shapes: list[list[tuple[str | None, str | None]]] = [
        [(first[0], "x"), (first[1], "x"), (first[2], "y"), (first[3], "y")],
        [(first[0], "x"), (first[1], "x"), ("x", "y"), (first[2], "y"), (first[3], None)],
        [(first[0], "x"), (first[1], "x"), (first[2], None), (first[3], None)],
    ]
    return tuple(shapes[int(random.integers(3))])


def members(codes: Codes, code: str) -> set[str]:
    """The codes below one, and itself."""
    return {code}.union(*(members(codes, one) for one, parent in codes if parent == code and one is not None))


@pytest.mark.parametrize("seed", range(many(20)))
def test_nothing_of_what_is_let_out_is_broken(own_con: duckdb.DuckDBPyConnection, seed: int) -> None:
    random = np.random.default_rng(7000 + seed)
    counts, codes = worlds.population(random), hierarchy(random)
    worlds.filled(own_con, counts, random)
    lines = ", ".join(f"('{code}', {'NULL' if parent is None else repr(parent)})" for code, parent in codes)
    own_con.execute(f"CREATE OR REPLACE TABLE codes AS FROM (VALUES {lines}) v(code, parent)").fetchall()
    made(own_con, codes, counts, random)
    columns, source = (
        {name: kind for name, kind, *_ in own_con.execute(f"DESCRIBE {table}").fetchall()} for table in ("made", "t")
    )
    width = int(random.choice([1, 1, 2]))
    terms = Terms(("a", "b"), (), "value", suppressed="suppressed", width=width, hierarchies=(("a", "codes"),))
    asked = Candidate("made", "t", "made", "main.t", terms, columns, source, worlds.POLICY, codes={"a": codes})
    rows = own_con.execute("SELECT a, row_level, b, col_level, value FROM made").fetchall()
    try:
        audit(own_con, replace(asked, content="made"))
    except InvalidInput:
        return
    tables = worlds.worlds(int(counts.sum()))
    cells = np.array(worlds.CELLS)
    for code, row_level, b, col_level, number in rows:
        sums = tables[:, place(codes, cells, code if row_level else None, b if col_level else None)].sum(axis=1)
        tables = tables[(sums == number) if number is not None else (sums >= 1)]
    assert len(tables)
    wider = {code for code, _ in codes if code is not None} | {one for _, one in codes if one is not None}
    for code, b in [(code, b) for code in [None, *sorted(wider)] for b in (None, 0, 1)]:
        at = place(codes, cells, code, b)
        if 0 < counts[at].sum() < worlds.SMALL:
            possible = tables[:, at].sum(axis=1)
            assert possible.min() == 0 or possible.max() >= worlds.SMALL
            assert possible.max() - possible.min() >= width


def place(codes: Codes, cells: np.ndarray, code: str | None, b: int | None) -> np.ndarray:
    """The elementary cells of a cell of the release."""
    found = np.ones(len(cells), dtype=bool)
    if code is not None:
        found &= np.isin(cells[:, 0].astype(str), list(members(codes, code)))
    return found if b is None else found & (cells[:, 1] == b)


def made(con: duckdb.DuckDBPyConnection, codes: Codes, counts: np.ndarray, random: np.random.Generator) -> None:
    """A table of suppress; or, as often, with any cells suppressed that are not empty."""
    try:
        con.execute(
            "CREATE OR REPLACE TABLE made AS FROM suppress('t', ['a'], ['b'], hierarchies := {'a': 'codes'}, n := 3)"
        ).fetchall()
        if random.integers(2):
            return
    except duckdb.Error:  # too few records to protect them
        pass
    con.execute(
        "CREATE OR REPLACE TABLE made (a VARCHAR, b INTEGER, row_level BIGINT, col_level BIGINT, value BIGINT, "
        "suppressed BOOLEAN)"
    ).fetchall()
    cells = np.array(worlds.CELLS)
    used = {str(code) for code in cells[counts > 0, 0]}
    found = levels_of_codes("a", codes, sorted(used))
    for label, level in {(label, level) for label, level, here, _ in found.nodes if level == here}:
        for b in [None, *sorted(set(cells[counts > 0, 1].tolist()))]:
            value = int(counts[place(codes, cells, label if level else None, b)].sum())
            hidden = value > 0 and random.random() < 0.5
            row = [label, b, level, int(b is not None), None if hidden else value, hidden]
            con.execute("INSERT INTO made VALUES (?, ?, ?, ?, ?, ?)", row).fetchall()


@pytest.mark.parametrize(
    ("codes", "levels"),
    [
        ((("a", "x"), ("b", "x"), ("c", None)), {"a": ("x", "a"), "b": ("x", "b"), "c": ("c", "c")}),
        ((("a", "x"), ("b", "x"), ("x", None)), {"a": ("a",), "b": ("b",)}),
    ],
)
def test_the_levels_of_codes(codes: Codes, levels: dict[str, Any]) -> None:
    assert levels_of_codes("k", codes, sorted(levels)).leaves == levels


@pytest.mark.parametrize("of", ["counts", "sums"])
@pytest.mark.parametrize("sold", [True, False])
@pytest.mark.parametrize(("hidden", "shown"), [("B1", "B"), ("B", "B2")])
def test_codes_with_parts_are_known_totals_where_counts_are_sold(
    firms: duckdb.DuckDBPyConnection, of: str, sold: bool, hidden: str, shown: str
) -> None:
    """B1 lies above the deepest codes, but has no parts, and is no total. A total B that is known tells B1."""
    selling = PROTECT.format(more="")[:-1] + ", per_query := 0.1)"

    def sell() -> None:
        firms.execute("SELECT unprotect('firms')").fetchall()
        firms.execute(selling).fetchall()

    firms.execute("UPDATE firms SET industry = 'A2' WHERE industry = 'A12' OR industry = 'A11' AND region <> 'west'")
    if sold:
        sell()
    firms.execute(
        f"CREATE TABLE decided AS SELECT industry, region, row_level, col_level, false AS suppressed "
        f"FROM suppress({CALL}) WHERE industry = '{shown}'"
    ).fetchall()
    measure, how = {"counts": ("", ""), "sums": (", value := 'turnover', rule := ['p%', 'threshold']", SUMS)}[of]
    firms.execute(f"CREATE OR REPLACE TABLE made AS FROM suppress({CALL}{measure}, apriori := 'decided')").fetchall()
    is_hidden = firms.execute("SELECT bool_or(industry = 'B') FROM made WHERE suppressed").fetchall()
    assert is_hidden == [(hidden == "B",)]
    if sold and hidden == "B":
        assert "is not published" in refused(firms, f"publish('made', {BY}{how})")
        return
    assert "is published" in said(firms, f"publish('made', {BY}{how})")
    if hidden == "B":
        with pytest.raises(duckdb.InvalidInputException, match="readers who do not know"):
            sell()
    else:
        sell()


# --- rows that stand for several records ------------------------------------------------------------------------------


@pytest.fixture
def counted(firms: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    firms.execute(
        "CREATE TABLE cells AS SELECT industry, region, turnover % 2 AS half, count(*) AS n FROM firms GROUP BY ALL"
    )
    firms.execute("INSERT INTO cells VALUES ('B2', 'west', 7, 0)").fetchall()
    firms.execute(PROTECT.format(more="").replace("'firms'", "'cells'")).fetchall()
    return firms


COUNTED = "of := 'cells', count := 'n'"


def test_rows_that_stand_for_records_are_audited_as_these(counted: duckdb.DuckDBPyConnection) -> None:
    """The same answers as of the records themselves."""
    counted.execute(f"CREATE OR REPLACE TABLE made AS FROM suppress({CALL.replace('firms', 'cells')}, count := 'n')")
    own = counted.execute("SELECT * EXCLUDE (n) FROM (SELECT *, 0 AS n FROM made) ORDER BY ALL").fetchall()
    assert own == counted.execute(f"FROM suppress({CALL}) ORDER BY ALL").fetchall()
    assert "neither are suppressed nor hold" in refused(counted, f"publish('made', {BY}, of := 'cells')")
    assert "is published" in said(counted, f"publish('made', {BY}, {COUNTED})")
    found = "SELECT variables, union_of, cells, at_risk, determined, safe FROM release_audit('{}') ORDER BY ALL"
    audited = counted.execute(found.format("cells")).fetchall()
    assert all(row[-1] for row in audited)
    assert any(row[3] for row in audited)


def test_counts_of_records_beside_them(counted: duckdb.DuckDBPyConnection) -> None:
    counted.execute("CREATE TABLE s AS SELECT region, sum(n) AS n FROM cells GROUP BY ALL").fetchall()
    assert "is published" in said(counted, f"publish('s', variables := ['region'], value := 'n', {COUNTED})")
    counted.execute("CREATE TABLE t AS SELECT industry, count(*) AS n FROM cells GROUP BY ALL").fetchall()
    assert "in s a row of main.cells stands for as many records" in refused(
        counted, "publish('t', variables := ['industry'], value := 'n', of := 'cells')"
    )
    counted.execute(
        "CREATE TABLE u AS SELECT industry, region, sum(n) AS n FROM cells WHERE n > 0 GROUP BY ALL"
    ).fetchall()
    few = refused(counted, f"publish('u', variables := ['industry', 'region'], value := 'n', {COUNTED})")
    assert "hold 1 to 3 records" in few
    assert counted.execute(
        "SELECT bool_and(publishable) FROM next_tables('cells', candidates := [{vars: ['region']}])"
    ).fetchall() == [(True,)]


def test_sums_of_rows_that_stand_for_records(con: duckdb.DuckDBPyConnection) -> None:
    """The threshold counts the records of rows, and for p% a row is one contribution."""
    con.execute(
        "CREATE TABLE parts AS SELECT a, b, i, 2 AS n, 100 AS v FROM range(3) r(a), range(3) s(b), range(12) t(i)"
    )
    con.execute(
        "UPDATE parts SET n = 1, v = 3000 WHERE a = 0 AND b = 0; DELETE FROM parts WHERE a = 0 AND b = 0 AND i > 2"
    )
    con.execute("UPDATE parts SET v = 20000 WHERE a = 1 AND b = 1 AND i = 0").fetchall()
    con.execute("SELECT protect('parts', epsilon := 1, public := ['a', 'b'], small := 4, k := 4)").fetchall()
    terms = "variables := ['a', 'b'], value := 'value', suppressed := 'suppressed', sum := 'v', count := 'n'"
    call = "suppress('parts', ['a'], ['b'], value := 'v', count := 'n', rule := {})"
    for rule, shown in (("'p%'", 1), ("'threshold', n := 4", 1), ("'threshold', n := 3", 2)):
        con.execute(f"CREATE OR REPLACE TABLE made AS FROM {call.format(rule)}").fetchall()
        says = f"{shown} of its sums are shown that tell too much of one contributor"
        assert says in refused(con, f"publish('made', {terms})")
    both = "['p%', 'threshold'], n := 4"
    con.execute(f"CREATE OR REPLACE TABLE made AS FROM {call.format(both)}").fetchall()
    assert "is published" in said(con, f"publish('made', {terms})")
    assert con.execute("SELECT sum, count FROM publications()").fetchall() == [("v", "n")]
    candidate = "{tbl: 'made', vars: ['a', 'b'], value: 'value', suppressed: 'suppressed', sum: 'v', count: 'n'}"
    audited = "SELECT bool_and(safe), max(at_risk) FROM release_audit('parts'{})"
    assert con.execute(audited.format("")).fetchall() == [(True, 1)]
    with pytest.raises(duckdb.InvalidInputException, match='sums of "v" are published already'):
        con.execute(audited.format(f", candidate := {candidate}")).fetchall()


@pytest.mark.parametrize(
    ("before", "call", "says"),
    [
        ("", "count := 'industry'", 'has no column "industry" of whole numbers'),
        ("UPDATE cells SET n = NULL WHERE half = 7", "count := 'n'", 'Column "n" holds NULL, negative numbers'),
        ("UPDATE cells SET n = -1 WHERE half = 7", "count := 'n'", 'Column "n" holds NULL, negative numbers'),
        ("", "count := 'n', weight := 'half'", "Rows that stand for several records are published as counts"),
        (
            "SELECT protect('cells', epsilon := 1, privacy_unit := 'half', public := ['region'], population := 'c')",
            "count := 'n'",
            "has a privacy unit",
        ),
    ],
)
def test_what_does_not_count_is_refused(firms: duckdb.DuckDBPyConnection, before: str, call: str, says: str) -> None:
    firms.execute("CREATE TABLE cells AS SELECT region, turnover % 2 AS half, count(*) AS n FROM firms GROUP BY ALL")
    firms.execute("INSERT INTO cells VALUES ('west', 7, 0)").fetchall()
    firms.execute("CREATE OR REPLACE TABLE made AS FROM suppress('cells', ['region'], [], count := 'n')")
    if "protect" not in before:
        firms.execute("SELECT protect('cells', epsilon := 1, public := ['region'], population := 'c')").fetchall()
    if before:
        firms.execute(before).fetchall()
    by = "variables := ['region'], value := 'value', suppressed := 'suppressed'"
    assert says in refused(firms, f"publish('made', {by}, of := 'cells', {call})")
