"""Domains of every type for columns of every type: refused, or each cell counts what its value means."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.accounting import rational
from duckanon.catalog import reader
from duckanon.errors import PolicyRefusal
from duckanon.functions import policies
from duckanon.governance import domains
from duckanon.governance.locations import Location
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion, Key
from tests.amounts import sampled

ENUM = "ENUM('a', '1', '2024-02-29', 'true')"
NUMBERS = ["-1", "0", "1", "7"]
TIMES = ["2024-02-29 00:00:00", "2024-02-29 09:30:00", "2024-03-01 00:00:00"]
# Values of each type, as texts that DuckDB casts.
VALUES: dict[str, list[str]] = {
    "TINYINT": [*NUMBERS, "127"],
    "INTEGER": [*NUMBERS, "16777217", "2147483647"],
    "BIGINT": [*NUMBERS, "16777217", "9007199254740993"],
    "UBIGINT": ["0", "1", "18446744073709551615"],
    "HUGEINT": [*NUMBERS, "9007199254740993", "18446744073709551615"],
    "DECIMAL(5,2)": [*NUMBERS, "0.10", "1.50", "-0.01"],
    "DECIMAL(38,10)": [*NUMBERS, "0.1", "1.5", "0.0000000001"],
    "FLOAT": [*NUMBERS, "0.1", "1.5", "nan", "inf", "-0.0", "16777216"],
    "DOUBLE": [*NUMBERS, "0.1", "1.5", "nan", "inf", "-0.0", "9007199254740992", "1e300"],
    "VARCHAR": ["", "a", "A", "1", "01", "1.0", "true", "2024-02-29", *TIMES, "0.1"],
    ENUM: ["a", "1", "2024-02-29", "true"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["2024-02-29", "2024-03-01", "infinity", "-infinity", "9999-12-31", "0044-03-15 (BC)"],
    "TIMESTAMP": [*TIMES, "2024-02-29 09:30:00.000001", "infinity"],
    "TIMESTAMP_S": TIMES,
    "TIMESTAMP_MS": [*TIMES, "2024-02-29 09:30:00.001"],
    "TIMESTAMP_NS": [*TIMES, "2024-02-29 09:30:00.000000001"],
    "TIMESTAMP WITH TIME ZONE": [f"{one}+00" for one in TIMES] + ["2024-02-29 09:30:00+02"],
    "TIME": ["00:00:00", "09:30:00", "09:30:00.5"],
    "TIME WITH TIME ZONE": ["00:00:00+00", "09:30:00+02", "09:30:00+00"],
    "INTERVAL": ["1 month", "30 days", "1 day", "2 hours"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
    "BLOB": ["a", "b"],
}
TEXTS = sorted({one for values in VALUES.values() for one in values} | {"2024-02-29 09:30", "1.5", "09:30:00+02"})
TIMED = [one for one in VALUES if one.startswith("TIMESTAMP")]
# The copy of the domain that was made last.
COPY = "SELECT max_by(table_name, table_oid) FROM duckdb_tables() WHERE table_name LIKE 'domain_%'"
EXACT = list(VALUES)[:7]
# How a domain is given: a list in SQL, a list of texts, or an open table.
WAYS = ("list", "texts", "table")


def typed(text: str | None, kind: str) -> str:
    return f"CAST({'NULL' if text is None else repr(text)} AS {kind})"


def accepted(con: duckdb.DuckDBPyConnection, kind: str, other: str, way: str, values: Sequence[str]) -> str | None:
    """The name of the copy of a domain for the column k of t; None if it is refused."""
    con.execute("SELECT unprotect('t')").fetchall()
    given = ", ".join(repr(one) if way == "texts" else typed(one, other) for one in values)
    domain = "'source'" if way == "table" else f"[{given}]"
    try:
        con.execute(f"SELECT protect('t', epsilon := 1, domains := {{'k': {domain}}})").fetchall()
    except duckdb.InvalidInputException as refusal:
        # DuckDB cannot hand every date of a list to Python.
        if 'The domain of "k"' not in str(refusal) and "is given as text" not in str(refusal):
            raise
        return None
    ((name,),) = con.execute(COPY).fetchall()
    return str(name)


def counted(con: duckdb.DuckDBPyConnection, kind: str, copy: str) -> int:
    """The sum over all cells, without noise."""
    question = AggregatesQuestion(
        location=Location("memory", "main", "t"), version=1, edition=1, privacy_unit=None, contributions=1,
        epsilon=Fraction(1), protects="them", keys=(Key("k", copy, reader.text_for_enum(kind), ("k",)),),
    )  # fmt: skip
    (totals,) = mechanisms.exact(con, question)
    return int(totals.sum())


def meant(con: duckdb.DuckDBPyConnection, kind: str, other: str, way: str) -> int:
    """How many records have a key that a value of the domain means, compared by DuckDB.

    A day means all of its times. A text means what it says in the widest type of the column's kind.
    """
    match = "t.k IS NOT DISTINCT FROM source.k"
    if other == "DATE" and kind in TIMED:
        match = "CAST(t.k AS DATE) IS NOT DISTINCT FROM source.k"
    if way == "list" and other == "UUID":
        # Python gets it as a text.
        match = "CAST(t.k AS VARCHAR) = CAST(source.k AS VARCHAR)"
    if way == "texts":
        match = f"t.k IS NOT DISTINCT FROM CAST(source.k AS {kind})"
        if kind in TIMED:
            day = "CAST(CAST(t.k AS TIMESTAMP) AS DATE) = TRY_CAST(source.k AS DATE)"
            match = f"CASE WHEN contains(source.k, ':') OR contains(source.k, 'inf') THEN {match} ELSE {day} END"
        elif kind == "DATE":
            match = "CAST(t.k AS TIMESTAMP) = CAST(source.k AS TIMESTAMP)"
        elif kind in EXACT:
            match = "CAST(t.k AS DECIMAL(38,10)) = CAST(source.k AS DECIMAL(38,10))"
    ((number,),) = con.execute(f"SELECT count(*) FROM t WHERE EXISTS (FROM source WHERE {match})").fetchall()
    return int(number)


def differs(con: duckdb.DuckDBPyConnection, kind: str, other: str, way: str, rng: random.Random) -> bool | None:
    """Whether cells count other records than their values mean; None if the domain is refused."""
    records = rng.choices(VALUES[kind], k=6) + VALUES[kind]
    pool = TEXTS if way == "texts" and rng.random() < 0.3 else VALUES[other]
    values = rng.sample(pool, k=rng.randint(1, min(3, len(pool))))
    con.execute(
        f"CREATE OR REPLACE TABLE t AS FROM (VALUES {', '.join(f'({typed(one, kind)})' for one in records)}) v(k)"
    )
    rows = ", ".join(f"({typed(one, 'VARCHAR' if way == 'texts' else other)})" for one in values)
    con.execute(f"CREATE OR REPLACE TABLE source AS FROM (VALUES {rows}) v(k)")
    copy = accepted(con, kind, other, way, values)
    if copy is None:
        return None
    return counted(con, kind, copy) != meant(con, kind, other, way)


@pytest.fixture
def tables(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute("CREATE TABLE t AS SELECT 1 AS k; CREATE TABLE source AS SELECT 1 AS k").fetchall()
    con.execute("SELECT open_table('source'), protect('t', epsilon := 1)").fetchall()
    return con


@pytest.mark.parametrize("kind", sampled(VALUES, every=3))
def test_a_domain_is_refused_or_means_what_it_says(tables: duckdb.DuckDBPyConnection, kind: str) -> None:
    rng = random.Random(kind)
    asked = [(other, rng.choice(WAYS)) for other in VALUES]
    assert [one for one in asked if differs(tables, kind, *one, rng)] == []
    # What is of the column's own type is never refused.
    assert differs(tables, kind, kind, "table", rng) is False


@pytest.mark.parametrize("kind", [*TIMED, "DATE", "TIME", "TIME WITH TIME ZONE", "DOUBLE", "VARCHAR"])
def test_what_is_proposed_counts_all_records(tables: duckdb.DuckDBPyConnection, kind: str) -> None:
    rows = ", ".join(f"({typed(one, kind)})" for one in [*VALUES[kind], None])
    tables.execute(f"CREATE OR REPLACE TABLE t AS SELECT k FROM (VALUES {rows}) v(k), range(3)").fetchall()
    ((domain,),) = tables.execute("SELECT domain FROM propose_domains('t')").fetchall()
    tables.execute("SELECT unprotect('t')").fetchall()
    tables.execute(f"SELECT protect('t', epsilon := 1, domains := {{'k': {domain}}})").fetchall()
    ((copy,),) = tables.execute(COPY).fetchall()
    assert counted(tables, kind, copy) == 3 * (len(VALUES[kind]) + 1)


def test_times_that_do_not_repeat_have_a_way_out(tables: duckdb.DuckDBPyConnection) -> None:
    tables.execute(
        "CREATE OR REPLACE TABLE t AS SELECT TIMESTAMP '2024-02-29' + to_minutes(7 * i) AS k FROM range(500) r(i)"
    ).fetchall()
    ((domain, hint),) = tables.execute("SELECT domain, hint FROM propose_domains('t')").fetchall()
    assert (domain, hint) == (None, "times rarely repeat: add a column of type DATE with their days, and propose again")
    tables.execute("ALTER TABLE t ADD COLUMN day DATE; UPDATE t SET day = k").fetchall()
    ((domain,),) = tables.execute("SELECT domain FROM propose_domains('t') WHERE column_name = 'day'").fetchall()
    tables.execute("SELECT unprotect('t')").fetchall()
    tables.execute(f"SELECT protect('t', epsilon := 1, domains := {{'day': {domain}}})").fetchall()


def _earlier(column: str, source: Any, kind: str) -> str | None:
    """What was checked before: that numbers are not rounded."""
    whole = all(one is None or (rational(one) or Fraction(1, 3)).denominator in (1, 10, 100) for one in source)
    return None if whole or kind not in EXACT else "The domain does not fit."


def test_what_was_checked_before_would_fail(tables: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "objection", _earlier)
    monkeypatch.setattr(domains, "of_other_column", lambda column, theirs, kind: None)
    monkeypatch.setattr(policies, "of_other_type", lambda column, listed, kind: None)
    monkeypatch.setitem(VALUES, "DATE", ["2024-02-29"])
    for kind in ("TIMESTAMP", "TIMESTAMP_S"):
        assert [differs(tables, kind, "DATE", way, random.Random(2)) for way in WAYS] == [True] * 3


@pytest.mark.parametrize(
    ("kind", "domain", "why"),
    [
        ("TIMESTAMP", "['2024-02-29']", "lists days"),
        ("TIMESTAMP", "[DATE '2024-02-29']", "lists days"),
        ("TIMESTAMP", "{'from': DATE '2024-02-01', 'to': DATE '2024-02-29'}", "lists days"),
        ("TIMESTAMP WITH TIME ZONE", "['2024-02-29']", "lists days"),
        ("TIMESTAMP", "'source'", "lists days"),
        ("TIMESTAMP WITH TIME ZONE", "['2024-02-29 00:00:00']", "without a time zone"),
        ("TIMESTAMP", "[TIMESTAMP 'infinity']", "which look alike|out of range|is given as text"),
        ("DATE", "['2024-02-29 09:30:00']", "does not fit"),
        ("VARCHAR", "[1, 2]", "does not fit"),
        ("VARCHAR", "[1.5]", "does not fit"),
        ("TIMESTAMP", "{'from': TIMESTAMP '2024-02-01', 'to': TIMESTAMP '2024-02-29'}", "two whole numbers or dates"),
    ],
)
def test_the_sentence_says_the_way_out(con: duckdb.DuckDBPyConnection, kind: str, domain: str, why: str) -> None:
    con.execute(f"CREATE TABLE t (k {kind}); CREATE TABLE source AS SELECT DATE '2024-02-29' AS k").fetchall()
    con.execute("SELECT open_table('source')").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match=why):
        con.execute(f"SELECT protect('t', epsilon := 1, domains := {{'k': {domain}}})").fetchall()


@pytest.mark.parametrize("domain", ["['2024-02-29', '2024-03-01']", "'days'"])
def test_policies_of_earlier_versions_are_refused_before_a_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, domain: str
) -> None:
    """The ledger keeps them as they are; no count of midnight is sold any more."""
    path = tmp_path / "x.duckdb"
    planned = domains.Domains.planned
    with monkeypatch.context() as patch, duckanon.connect(path, role="steward") as con:
        patch.setattr(domains, "objection", _earlier)
        patch.setattr(domains, "of_other_column", lambda column, theirs, kind: None)
        patch.setattr(
            domains.Domains,
            "planned",
            lambda self, policy, number: {one: said[:2] for one, said in planned(self, policy, number).items()},
        )
        con.execute(
            "CREATE TABLE t AS SELECT TIMESTAMP '2024-02-29 09:30:00' AS seen, 'a' AS k FROM range(10); "
            "CREATE TABLE days AS SELECT DATE '2024-02-29' AS seen; SELECT open_table('days')"
        ).fetchall()
        con.execute(
            "SELECT protect('t', epsilon := 1, per_query := 0.5, public := ['seen', 'k'], "
            f"domains := {{'seen': {domain}, 'k': ['a', 'b']}})"
        ).fetchall()
    with duckanon.connect(path) as con:
        with pytest.raises(PolicyRefusal, match="only midnight would count: ask the steward"):
            con.execute("SELECT seen, count(*) FROM t GROUP BY seen")
        ((spent,),) = con.execute("SELECT spent FROM privacy_budget()").fetchall()
        assert spent == 0
        assert len(con.execute("SELECT k, count(*) FROM t GROUP BY k").fetchall()) == 2
