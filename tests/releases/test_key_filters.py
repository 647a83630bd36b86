"""WHERE on keys: the rows of an answer are the cells of the domain for which DuckDB says that the condition is true."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from duckanon.catalog.names import TableName
from duckanon.catalog.policy import Domain, Policy
from duckanon.catalog.snapshot import Catalog, Protected, Stored
from duckanon.engines import randomness
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.governance.locations import Location
from duckanon.releases import key_domains, key_filters, measures, mechanisms, plan_keys
from duckanon.releases.available import AvailableReleases
from duckanon.releases.mechanisms import forms
from duckanon.releases.noise import conditions as conditions_of
from duckanon.releases.noise import sorted_keys
from duckanon.releases.paid_questions import AggregatesQuestion, DomainFilter, Key
from duckanon.rewrite.admit import admit
from duckanon.rewrite.decide import decide
from duckanon.rewrite.decision import Decision
from duckanon.specification import table_functions

ENUM = "ENUM('z', 'b', 'a')"
KINDS = {
    "a": "VARCHAR", "b": "VARCHAR", "e": ENUM, "n": "INTEGER", "m": "INTEGER", "day": "DATE", "seen": "TIMESTAMP",
    "x": "DOUBLE", "price": "DECIMAL(5,2)", "flag": "BOOLEAN", "state": "VARCHAR", "county": "VARCHAR",
    "other": "INTEGER", "note": "VARCHAR",
}  # fmt: skip
# Values as SQL texts. Records have all of them; each example's domains have some.
VALUES: dict[str, list[str | None]] = {
    **{name: ["b", "B", "bb", "", "x%", None] for name in ("a", "b")},
    "e": ["z", "b", "a", None],
    **{name: ["0", "1", "2", "-7", "30000", None] for name in ("n", "m")},
    "day": ["2024-02-28", "2024-02-29", "2024-03-01", "infinity", None],
    "seen": ["2024-02-29 00:00:00", "2024-02-29 23:59:59.999999", None],
    "x": ["-0.0", "0.0", "0.1", "nan", "inf", None],
    "price": ["0.10", "7.00", "-0.01", None],
    "flag": ["true", "false", None],
    "state": ["GA", "NY", None],
    "county": ["p", "q", "r", None],
    "other": ["1", "2", None],
    "note": ["b", "x", None],
}
PAIRS = [("GA", "p"), ("GA", "q"), ("NY", "p"), (None, "r"), (None, None)]
KEYS = [one for one in KINDS if one not in ("other", "note")]
ATOMS = {
    **{
        name: [
            "{} = 'b'", "{} <> 'b'", "{} < 'c'", "upper({}) = 'B'", "{} LIKE 'b%'", "{} NOT LIKE '%\\%'",
            "length({}) = 1", "{} IN ('b', 'x%')", "{} NOT IN ('b', NULL)", "{} BETWEEN 'A' AND 'b'",
            "{} IS DISTINCT FROM 'b'", "starts_with({}, 'b')", "coalesce({}, 'b') = 'b'", "{} = '\"k0\"'",
            "CASE WHEN {} = 'b' THEN 'y' ELSE 'n' END = 'y'",
        ]
        for name in ("a", "b", "e", "note")
    },
    **{
        name: [
            "{} = 1", "{} > 0.5", "{} % 2 = 1", "abs({}) <= 1", "{} + 1 > 30000", "{} * {} >= 1",
            "{} IN (1, NULL)",
        ]
        for name in ("n", "m", "other")
    },
    "day": ["{} = DATE '2024-02-29'", "month({}) = 2", "date_trunc('month', {}) = DATE '2024-02-01'",
            "{} BETWEEN '2024-02-29' AND '2024-12-31'", "{} < current_date"],
    "seen": ["CAST({} AS DATE) = DATE '2024-02-29'", "hour({}) = 23", "{} > TIMESTAMP '2024-02-29 12:00:00'"],
    "x": ["{} = 0", "{} > 0", "{} / 2 < 1", "{} IN (0, 0.1)", "floor({}) = 0"],
    "price": ["{} = 7", "{} > 0.099", "round({}) = 7", "{} BETWEEN -1 AND 0.1"],
    "flag": ["{}", "NOT {}", "{} IS TRUE", "{} = false"],
    "state": ["{} = 'GA'", "{} <> 'GA'", "lower({}) IN ('ny', 'ga')"],
    "county": ["{} = 'p'", "{} > 'p'"],
}  # fmt: skip
# Conditions on two columns.
COUPLES = [
    ("a", "b", "a = b"), ("a", "b", "a IS NOT DISTINCT FROM b"), ("a", "b", "upper(a) <> b"), ("n", "m", "n = m"),
    ("n", "m", "n + m > 1"), ("n", "other", "n <= other"), ("a", "note", "a = note"),
    ("state", "county", "state < county"),
    ("a", "b", "CASE WHEN a = 'b' THEN b ELSE a END LIKE 'b%'"), ("a", "b", "coalesce(a, b) = 'b'"),
]  # fmt: skip
NAME = TableName("memory", "main", "t")


@dataclass(frozen=True)
class Condition:
    """parts: of a conjunction."""

    sql: str
    columns: frozenset[str]
    parts: tuple[Condition, ...] = ()

    @property
    def conjuncts(self) -> list[Condition]:
        return [each for one in self.parts for each in one.conjuncts] or [self]


@dataclass(frozen=True)
class Case:
    keys: tuple[str, ...]
    domains: dict[str, tuple[str | None, ...]]
    where: tuple[Condition, ...]
    records: tuple[dict[str, str | None], ...]

    @property
    def sql(self) -> str:
        names = ", ".join(self.keys)
        where = " AND ".join(f"({one.sql})" for one in self.where)
        return f"SELECT {names}, count(*) AS number FROM t WHERE {where} GROUP BY {names}"

    @property
    def on_keys(self) -> list[Condition]:
        known = {*self.keys, *(["state"] if "county" in self.keys else [])}
        return [each for one in self.where for each in one.conjuncts if each.columns <= known]

    @property
    def bases(self) -> list[str]:
        """The keys, and the states of counties where a condition is about them."""
        return sorted({*self.keys}.union(*(one.columns for one in self.on_keys)))


@st.composite
def conditions(draw: st.DrawFn, columns: list[str], depth: int = 2) -> Condition:
    how = draw(st.sampled_from(["atom", "atom", "null", "couple", *(["and", "or", "not", "is"] if depth else [])]))
    if how in ("and", "or"):
        one, other = (draw(conditions(columns, depth - 1)) for _ in range(2))
        parts = (one, other) if how == "and" else ()
        return Condition(f"(({one.sql}) {how} ({other.sql}))", one.columns | other.columns, parts)
    if how in ("not", "is"):
        one = draw(conditions(columns, depth - 1))
        return Condition(f"(NOT ({one.sql}))" if how == "not" else f"(({one.sql}) IS FALSE)", one.columns)
    fitting = [one for one in COUPLES if {one[0], one[1]} <= {*columns}]
    if how == "couple" and fitting:
        first, second, sql = draw(st.sampled_from(fitting))
        return Condition(sql, frozenset({first, second}))
    column = draw(st.sampled_from(columns))
    atom = "{} IS NULL" if how == "null" else draw(st.sampled_from(ATOMS[column]))
    return Condition(atom.replace("{}", column), frozenset({column}))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    keys = tuple(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)))
    near = {"a": "b", "n": "m", "county": "state"}
    columns = [*keys, *(one for key, one in near.items() if key in keys and one not in keys), "other", "note"]
    columns += list(keys) * 3
    domains = {
        key: tuple(draw(st.lists(st.sampled_from(VALUES[key]), min_size=1, max_size=4, unique=True))) for key in KEYS
    }
    where = tuple(draw(st.lists(conditions(columns), min_size=1, max_size=3)))
    record = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
    return Case(keys, domains, where, tuple(draw(st.lists(record, max_size=12))))


# --- what answers, and what is right ----------------------------------------------------------------------------------


def decided(case: Case) -> Decision | None:
    """The decision about the question; None where it is refused. No connection: nothing but public facts decides."""
    domains = {key: Domain(f"domain_{key}", ("state", "county") if key == "county" else (key,)) for key in KEYS}
    policy = Policy(
        Fraction(4), population="t", per_query=Fraction(1), public=tuple(KEYS), hierarchy=("state", "county")
    )
    held = Protected(policy, Stored(("memory", "main", "t"), KINDS), remaining=Fraction(4), domains=domains)
    catalog = Catalog(search=[("memory", "main")], protected={NAME: held})
    try:
        return decide(admit(case.sql), catalog, table_functions(), AvailableReleases(), date(2024, 6, 1))
    except (PolicyRefusal, UnsupportedQuery):
        return None


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("CREATE SCHEMA duckanon").fetchall()
    return made


def value(text: str | None, kind: str) -> str:
    return f"CAST(NULL AS {kind})" if text is None else f"CAST('{text}' AS {kind})"


def fill(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    con.execute(f"CREATE OR REPLACE TABLE t ({', '.join(f'{name} {kind}' for name, kind in KINDS.items())})").fetchall()
    for one in case.records:
        con.execute(f"INSERT INTO t VALUES ({', '.join(value(one[name], kind) for name, kind in KINDS.items())})")
    for key, values in case.domains.items():
        kind = "VARCHAR" if KINDS[key] == ENUM else KINDS[key]
        rows = ", ".join(f"({value(one, kind)})" for one in values)
        con.execute(f"CREATE OR REPLACE TABLE duckanon.domain_{key} AS SELECT DISTINCT * FROM (VALUES {rows}) v({key})")
    pairs = ", ".join(f"({value(one, 'VARCHAR')}, {value(other, 'VARCHAR')})" for one, other in PAIRS)
    con.execute(f"CREATE OR REPLACE TABLE duckanon.domain_county AS FROM (VALUES {pairs}) v(state, county)")
    con.execute("CREATE OR REPLACE TABLE duckanon.domain_state AS SELECT DISTINCT state FROM duckanon.domain_county")


def right(con: duckdb.DuckDBPyConnection, case: Case) -> list[str]:
    """The cells whose values meet the conditions on keys, each with DuckDB's own count of its records."""
    bases = case.bases
    parts = ["county"] if {"state", "county"} <= {*bases} else [one for one in ("state", "county") if one in bases]
    parts += [one for one in bases if one not in ("state", "county")]
    names = {one: ["state", "county"] if parts[0] == one == "county" and "state" in bases else [one] for one in parts}
    sources = ", ".join(f"(SELECT DISTINCT {', '.join(names[one])} FROM duckanon.domain_{one})" for one in parts)
    # As the column is: comparisons of an ENUM and of its texts are not the same.
    typed = ", ".join(f"CAST({one} AS {KINDS[one]}) AS {one}" for one in bases)
    met = " AND ".join(f"({one.sql})" for one in case.on_keys) or "true"
    con.execute(f"CREATE OR REPLACE TEMP TABLE cells AS SELECT * FROM (SELECT {typed} FROM {sources}) WHERE {met}")
    where = " AND ".join(f"({one.sql})" for one in case.where)
    same = " AND ".join(f"cells.{one} IS NOT DISTINCT FROM chosen.{one}" for one in bases)
    keys = ", ".join(f"cells.{one}" for one in case.keys)
    query = (
        f"SELECT {keys}, count(chosen.is_record) FROM cells LEFT JOIN (SELECT *, true AS is_record FROM t "
        f"WHERE {where}) AS chosen ON {same} GROUP BY {keys}"
    )
    return shown(con.execute(query).fetchall())


def shown(rows: list[Any]) -> list[str]:
    return sorted(str(row).replace("-0.0", "0.0") for row in rows)


def answered(con: duckdb.DuckDBPyConnection, decision: Decision) -> list[str]:
    """The rows of the query that runs, over the answer as it is stored; the noise is fixed at zero."""
    (question,) = decision.answers
    table = mechanisms.draw(con, question)
    assert forms.cells(con, question) == len(table)
    con.register("drawn", table)
    con.execute(f'CREATE OR REPLACE TABLE memory.duckanon."{question.path[2]}" AS FROM drawn')
    rows = shown(con.execute(decision.query or "").fetchall())
    con.execute(f'DROP TABLE memory.duckanon."{question.path[2]}"')
    return rows


def check(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    decision = decided(case)
    if decision is None:
        return
    fill(con, case)
    assert answered(con, decision) == right(con, case)
    # Which rows come out does not depend on the records.
    (question,) = decision.answers
    form = forms.form(con, question)
    fill(con, replace(case, records=()))
    assert forms.form(con, question).equals(form)


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "double_geometric", lambda scale, shape, source: np.zeros(shape, dtype=np.int64))


@pytest.mark.usefixtures("without_noise")
@given(cases())
def test_the_rows_are_the_cells_that_where_leaves(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(con, case)


def _on_records(context: Any, name: Any, keys: Any, where: Any) -> key_filters.Filtered:
    """As it was: all conditions are conditions on records."""
    return key_filters.Filtered(sorted_keys(keys), (), conditions_of(context, name, where))


@pytest.mark.usefixtures("without_noise")
def test_conditions_on_records_alone_would_fail(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_keys, "filtered", _on_records)

    @settings(database=None, phases=[Phase.generate], max_examples=100)
    @given(cases())
    def twin(case: Case) -> None:
        check(con, case)

    with pytest.raises(AssertionError):
        twin()


@given(cases())
def test_most_conditions_are_answered(case: Case) -> None:
    """So that the property above is about something: conditions of the list alone are never refused."""
    plain = replace(case, where=(Condition("a = 'b' OR n IS NULL", frozenset({"a", "n"})),))
    assert decided(plain) is not None


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT k, count(*) FROM t WHERE k = 'b' GROUP BY k", [("b", 2)]),
        ("SELECT count(*) FROM t WHERE k = 'b'", [(2,)]),
        ("SELECT k, count(*) FROM t WHERE k = 'none' GROUP BY k", []),
        ("SELECT k, count(*) FROM t WHERE 1 = 0 GROUP BY k", []),
        ("SELECT k, count(*) FROM t WHERE k <> 'b' GROUP BY ROLLUP (k)", [("a", 1), ("c", 0), (None, 1)]),
        ("SELECT upper(k), count(*) FROM t WHERE k IN ('b', 'c') GROUP BY 1", [("B", 2), ("C", 0)]),
        ("SELECT k, count(*) FILTER (WHERE k = 'b') FROM t GROUP BY k", [("a", 0), ("b", 2), ("c", 0)]),
        ("SELECT k, count(*) FROM t GROUP BY k HAVING k = 'b'", [("b", 2)]),
        ("SELECT k, count(*) / sum(count(*)) OVER () FROM t WHERE k <> 'c' GROUP BY k", [("a", 1 / 3), ("b", 2 / 3)]),
    ],
)  # fmt: skip
def test_forms_of_a_condition(con: duckdb.DuckDBPyConnection, sql: str, wanted: list[Any]) -> None:
    con.execute("CREATE OR REPLACE TABLE t AS FROM (VALUES ('a'), ('b'), ('b'), ('z'), (NULL)) v(k)").fetchall()
    con.execute("CREATE OR REPLACE TABLE duckanon.domain_k AS FROM (VALUES ('a'), ('b'), ('c')) v(k)").fetchall()
    policy = Policy(Fraction(4), population="t", per_query=Fraction(1), public=("k",))
    stored = Stored(("memory", "main", "t"), {"k": "VARCHAR"})
    held = Protected(policy, stored, remaining=Fraction(4), domains={"k": Domain("domain_k", ("k",))})
    catalog = Catalog(search=[("memory", "main")], protected={NAME: held})
    decision = decide(admit(sql), catalog, table_functions(), AvailableReleases(), date(2024, 6, 1))
    assert answered(con, decision) == shown(wanted)


def test_large_products_are_counted_without_being_made(con: duckdb.DuckDBPyConnection) -> None:
    """Twelve keys of a thousand values have 10^36 combinations; conditions leave few of them."""
    for at in range(12):
        con.execute(f"CREATE OR REPLACE TABLE duckanon.domain_v{at} AS SELECT i AS v{at} FROM range(1000) r(i)")
    keys = tuple(Key(f"v{at}", f"domain_v{at}", "BIGINT", (f"v{at}",)) for at in range(12))
    fields: dict[str, Any] = {
        "location": Location("memory", "main", "t"), "version": 1, "edition": 1, "privacy_unit": None,
        "contributions": 1, "epsilon": Fraction(1), "protects": "them", "keys": keys,
    }  # fmt: skip
    assert forms.cells(con, AggregatesQuestion(**fields)) > measures.MOST_CELLS
    narrow = tuple(DomainFilter(f'("k{at}" < 2)', (at,)) for at in range(12))
    asked = AggregatesQuestion(**fields, domain_filters=narrow)
    assert forms.cells(con, asked) == 2**12 == len(forms.form(con, asked))
    chained = tuple(DomainFilter(f'("k{at}" = "k{at + 1}")', (at, at + 1)) for at in range(0, 12, 2))
    assert forms.cells(con, AggregatesQuestion(**fields, domain_filters=chained)) > measures.MOST_CELLS
    first = tuple(DomainFilter(f'("k{at}" = 0)', (at,)) for at in range(2, 12))
    pair = (DomainFilter('("k0" = "k1")', (0, 1)), *first)
    assert forms.cells(con, AggregatesQuestion(**fields, domain_filters=pair)) == 1000
    wide = (DomainFilter('(("k0" + "k1" + "k2" + "k3") = 0)', (0, 1, 2, 3)),)
    with pytest.raises(UnsupportedQuery, match=f"more than {key_domains.MOST_TRIED:,} combinations"):
        forms.cells(con, AggregatesQuestion(**fields, domain_filters=wide))
