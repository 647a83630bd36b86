"""Which records of a unit count: each with the same probability, by that unit's records alone, whatever the collation.

The order follows from a hash, so units with random names are as good as a random order. Every bound on a count below is
Hoeffding's: kept records of one kind are draws without replacement, whose tails are below those of as many independent
draws. So a test that is right fails once in a billion comparisons, and there are fewer than a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import exp, log
from random import Random
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.catalog.policy import OWNER
from duckanon.catalog.snapshot import Owned
from duckanon.governance.locations import Location
from duckanon.releases import mechanisms
from duckanon.releases.measures import Different, Number, Quantiles, Records, Sums, Units
from duckanon.releases.mechanisms import contribution, forms, reading
from duckanon.releases.noise import not_covered
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, Key, PaidQuestion
from duckanon.releases.sizes import Size, UnitsTable
from tests.amounts import many, sampled

UNITS = 5000
UNLIKELY = 1e-9
STATE = Key("state", "domain_state", "BIGINT", ("state",))


# --- the property -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of question. asked: with `rows` records of a unit that count. kept: by their state, from the exact values.

    one_home: whether the unit's first record decides about all of them.
    """

    asked: Callable[[int], PaidQuestion]
    kept: Callable[[list[np.ndarray]], Any]
    one_home: bool = False


def question(rows: int, **more: Any) -> dict[str, Any]:
    fields = {
        "location": Location("memory", "main", "t"), "version": 1, "edition": 1, "privacy_unit": "unit",
        "contributions": rows, "epsilon": Fraction(1), "protects": "them",
    }  # fmt: skip
    return fields | more


def sizes(rows: int, **more: Any) -> GroupSizesQuestion:
    fields = question(rows, group="home", hierarchy=(STATE,), max_size=100)
    return GroupSizesQuestion(**fields | more)


def aggregates(rows: int, *measures: Any, **more: Any) -> AggregatesQuestion:
    return AggregatesQuestion(**question(rows), measures=tuple((one, Fraction(1)) for one in measures), **more)


KINDS = {
    "counts": Kind(lambda rows: aggregates(rows, Records(), keys=(STATE,)), lambda found: found[0][:, 0]),
    "sums": Kind(
        # In parts of a quarter: a record of state 0 or 1 adds 4 to one total, of state 2 it adds 1, 2 and 1.
        lambda rows: aggregates(rows, Sums(Number("half", "0", "1/2", 2), squares=True)),
        lambda found: [(found[0][0, at] - found[0][0, 1] // 2) // 4 for at in (0, 2)] + [found[0][0, 1] // 2],
    ),
    "quantiles": Kind(
        lambda rows: aggregates(rows, Quantiles(Number("state", "0", "1", 4), ("1/2",))), lambda found: found[0][0]
    ),
    # A home is in one state and of one unit.
    "sizes": Kind(sizes, lambda found: found[0] @ np.arange(1, 101)),
    "home": Kind(
        lambda rows: sizes(rows, privacy_unit="unit", group="unit", is_unit=True),
        lambda found: found[0].sum(axis=1),
        one_home=True,
    ),
}
NAMES: dict[str, Callable[[Random, int], list[Any]]] = {
    "VARCHAR": lambda rng, n: [f"{rng.choice('pqr')}{one}" for one in rng.sample(range(10**9), n)],
    "INTEGER": lambda rng, n: list(range(start := rng.choice([0, 0, 1, 10**6]), start + n)),
    "BIGINT": lambda rng, n: [rng.getrandbits(63) - 2**62 for _ in range(n)],
    "UUID": lambda rng, n: [str(UUID(int=rng.getrandbits(128))) for _ in range(n)],
    "DOUBLE": lambda rng, n: [float(one) / 8 for one in rng.sample(range(10**9), n)],
    "DATE": lambda rng, n: [f"{1000 + one // 336}-{one // 28 % 12 + 1:02}-{one % 28 + 1:02}" for one in range(n)],
}


def filled(con: duckdb.DuckDBPyConnection, kind: str, names: list[Any], copies: Sequence[int]) -> None:
    """A table in which each unit has copies[j] records in state j, all of which are equal."""
    con.register("names", pa.table({"name": pa.array(names)}))
    con.register("states", pa.table({"state": [at for at, many in enumerate(copies) for _ in range(many)]}))
    con.execute(
        f"CREATE OR REPLACE TABLE main.t AS SELECT CAST(name AS {kind}) AS unit, state, CAST(name AS VARCHAR) || state "
        "AS home, CASE state WHEN 0 THEN 0 WHEN 1 THEN 1 ELSE 0.5 END AS half FROM names, states"
    ).fetchall()
    con.execute("CREATE SCHEMA IF NOT EXISTS duckanon").fetchall()
    con.execute(f"CREATE OR REPLACE TABLE duckanon.domain_state AS SELECT range AS state FROM range({len(copies)})")


def tail(draws: int, share: float, count: int) -> float:
    """A bound on the probability that of so many draws at least, or at most, so many are of a kind with this share."""
    seen = count / draws
    distance = sum(one * log(one / other) for one, other in ((seen, share), (1 - seen, 1 - share)) if one > 0)
    return exp(-draws * distance)


def each_is_as_likely(con: duckdb.DuckDBPyConnection, kind: Kind, copies: Sequence[int], rows: int) -> None:
    """The property. copies: how many equal records of each state a unit has. rows: how many of its records count."""
    kept = [int(one) for one in kind.kept(mechanisms.exact(con, kind.asked(rows)))][: len(copies)]
    total = sum(copies)
    if rows >= total and not kind.one_home:
        assert kept == [UNITS * one for one in copies]
        return
    draws = UNITS * (1 if kind.one_home else rows)
    assert sum(kept) == draws
    for count, own in zip(kept, copies, strict=True):
        assert tail(draws, own / total, count) > UNLIKELY


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(
    st.sampled_from(sorted(NAMES)),
    st.lists(st.sampled_from([1, 1, 2, 7]), min_size=2, max_size=3),
    st.integers(1, 8),
    st.integers(0, 2**32),
)
def test_each_record_is_as_likely_to_count(
    con: duckdb.DuckDBPyConnection, kind: str, name: str, copies: list[int], rows: int, seed: int
) -> None:
    filled(con, name, NAMES[name](Random(seed), UNITS), copies)
    each_is_as_likely(con, KINDS[kind], copies, rows)


def test_ninety_and_ten(con: duckdb.DuckDBPyConnection) -> None:
    """Of 90 and 10 equal records, ten of which count, 9 and 1 do on average."""
    filled(con, "VARCHAR", NAMES["VARCHAR"](Random(1), UNITS), [90, 10])
    for kind in ("counts", "sums", "quantiles", "sizes", "home"):
        each_is_as_likely(con, KINDS[kind], [90, 10], 10)


def by_cell(_: Sequence[str]) -> str:
    return "PARTITION BY u ORDER BY hash(cell), cell"


def by_one_hash(row: Sequence[str]) -> str:
    return f"PARTITION BY u ORDER BY hash(u, {', '.join(row)}), copy"


def without_copies(row: Sequence[str]) -> str:
    return f"PARTITION BY u ORDER BY hash(hash(u, {', '.join(row)})), copy"


@pytest.mark.long("that other orders are seen: a test of the test")
@pytest.mark.parametrize(
    ("order", "copies", "rows", "fails"),
    [
        # All units keep the same state.
        (by_cell, [1, 1, 1], 1, ["counts", "sizes", "home"]),
        # XOR with one number puts three others in some orders more often than in others.
        (by_one_hash, [1, 1, 1], 1, ["counts", "sums", "quantiles"]),
        # Equal records count together.
        (without_copies, [90, 10], 10, ["counts", "sums", "quantiles", "sizes", "home"]),
    ],
)
def test_other_orders_are_no_sample(
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    order: Callable[[Sequence[str]], str],
    copies: list[int],
    rows: int,
    fails: list[str],
) -> None:
    for name in ("VARCHAR", "INTEGER", "UUID"):
        filled(con, name, NAMES[name](Random(2), UNITS), copies)
        for kind in fails:
            each_is_as_likely(con, KINDS[kind], copies, rows)
            with monkeypatch.context() as patch:
                patch.setattr(contribution, "order", order)
                with pytest.raises(AssertionError):
                    each_is_as_likely(con, KINDS[kind], copies, rows)


# --- a unit's own records decide --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sampled(KINDS))
@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 30), st.integers(0, 2**32))
def test_no_other_unit_has_a_say(con: duckdb.DuckDBPyConnection, kind: str, rows: int, many: int, seed: int) -> None:
    """The exact values of some units and of the others add up to those of all, in any order and on any threads."""
    rng, asked = Random(seed), KINDS[kind].asked(rows)
    everyone = [(f"u{rng.randrange(many)}", rng.randrange(3)) for _ in range(4 * many)]
    chosen = {unit for unit, _ in everyone if rng.random() < 0.5}
    parts = [[one for one in everyone if one[0] in chosen], [one for one in everyone if one[0] not in chosen], everyone]
    found = []
    for records in parts:
        exact = []
        for threads in (1, 4):
            con.execute(f"SET threads = {threads}")
            listed(con, rng.sample(records, len(records)))
            exact.append([one.tolist() for one in mechanisms.exact(con, asked)])
        assert exact[0] == exact[1]
        found.append([np.array(one) for one in exact[0]])
    for one, other, both in zip(*found, strict=True):
        assert (one + other).tolist() == both.tolist()


def listed(con: duckdb.DuckDBPyConnection, records: Sequence[tuple[str, int]]) -> None:
    con.register("listed", pa.table({
        "unit": pa.array([one for one, _ in records], pa.string()),
        "state": pa.array([one for _, one in records], pa.int64()),
    }))  # fmt: skip
    con.execute(
        "CREATE OR REPLACE TABLE main.t AS SELECT unit, state, unit || state AS home, state / 2 AS half FROM listed"
    ).fetchall()
    con.execute("CREATE SCHEMA IF NOT EXISTS duckanon").fetchall()
    con.execute("CREATE OR REPLACE TABLE duckanon.domain_state AS SELECT range AS state FROM range(3)").fetchall()


@pytest.mark.ci("many records in many orders")
def test_the_order_of_many_records_does_not_matter(con: duckdb.DuckDBPyConnection) -> None:
    """More than one block of records, read by several threads."""
    found = []
    for threads, order in ((1, "ASC"), (4, "DESC"), (4, "ASC")):
        con.execute(f"SET threads = {threads}")
        con.execute(
            "CREATE OR REPLACE TABLE main.t AS SELECT 'u' || hash(range) % 50000 AS unit, CAST(hash(range * 3) % 3 AS "
            "BIGINT) AS state, unit || state AS home, state / 2 AS half FROM range(300000) AS r ORDER BY hash(range) "
            + order
        ).fetchall()
        con.execute(
            "CREATE SCHEMA IF NOT EXISTS duckanon; "
            "CREATE OR REPLACE TABLE duckanon.domain_state AS SELECT range AS state FROM range(3)"
        ).fetchall()
        found.append([[each.tolist() for each in mechanisms.exact(con, one.asked(2))] for one in KINDS.values()])
    assert found[0] == found[1] == found[2]


# --- settings ---------------------------------------------------------------------------------------------------------

# Settings of a session that change what queries mean.
SETTINGS = (
    *(("default_collation", one) for one in ("nocase", "noaccent", "nocase.noaccent", "de")),
    ("default_order", "DESC"), ("default_null_order", "NULLS_FIRST"), ("integer_division", "true"),
    ("ieee_floating_point_ops", "false"), ("scalar_subquery_error_on_multiple_rows", "false"),
    ("preserve_insertion_order", "false"), ("disabled_optimizers", "filter_pushdown,join_order"),
)  # fmt: skip
# Collations take some of them for equal.
TEXTS = ["a", "A", "ä", "Ä", "b", "ß", "ss", "\u0061\u0308"]
TYPES = ("VARCHAR", "JSON", "word", "letter")
COLLATED: dict[str, Callable[[int], PaidQuestion]] = {
    "counts": lambda rows: aggregates(rows, Records(), keys=(STATE,)),
    "units": lambda rows: aggregates(rows, Units()),
    "different": lambda rows: aggregates(rows, Different("home"), keys=(STATE,)),
    "sizes": sizes,
    "home": lambda rows: sizes(rows, group="unit", is_unit=True),
    "values": lambda rows: sizes(rows, group="state", hierarchy=(), size=Size(what="distinct", column="home")),
    "all units": lambda rows: sizes(
        rows,
        group="unit",
        is_unit=True,
        hierarchy=(),
        units=UnitsTable(location=Location("memory", "main", "known"), version=1, column="unit"),
    ),
}


@dataclass
class Texts:
    """Records of units with names that collations take for equal. known: all units, also those without records."""

    con: duckdb.DuckDBPyConnection
    kind: str
    records: list[tuple[str, int, str]]
    known: Sequence[str] = tuple(TEXTS)

    def exact(self, asked: PaidQuestion, setting: tuple[str, str] | None = None) -> list[Any]:
        """The exact values, and the cells that they are of."""
        for name, _ in SETTINGS:
            self.con.execute(f"RESET {name}")
        self.con.execute("CREATE OR REPLACE TABLE main.t (unit VARCHAR, state BIGINT, home VARCHAR)").fetchall()
        for one in self.records:
            self.con.execute("INSERT INTO t VALUES (?, ?, ?)", list(one)).fetchall()
        # A JSON text stands in quotation marks.
        text = "to_json(unit)" if self.kind == "JSON" else f"CAST(unit AS {self.kind})"
        self.con.execute(f"CREATE OR REPLACE TABLE main.t AS SELECT * REPLACE ({text} AS unit) FROM main.t").fetchall()
        known = f"SELECT {text} AS unit FROM (SELECT unnest(?) AS unit)"
        self.con.execute(f"CREATE OR REPLACE TABLE main.known AS {known}", [list(self.known)]).fetchall()
        self.con.execute("CREATE SCHEMA IF NOT EXISTS duckanon").fetchall()
        self.con.execute("CREATE OR REPLACE TABLE duckanon.domain_state AS SELECT range AS state FROM range(3)")
        if setting is not None:
            self.con.execute(f"SET {setting[0]} = '{setting[1]}'").fetchall()
        cells = forms.form(self.con, asked).to_pylist()
        return [*(one.tolist() for one in mechanisms.exact(self.con, asked)), cells]

    def without(self, unit: str) -> Texts:
        records = [one for one in self.records if one[0] != unit]
        return Texts(self.con, self.kind, records, [one for one in self.known if one != unit])


@pytest.fixture(scope="module")
def typed() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(f"CREATE TYPE word AS VARCHAR; CREATE TYPE letter AS ENUM ({str(TEXTS)[1:-1]})").fetchall()
        yield con


def one_meaning(texts: Texts, asked: PaidQuestion, setting: tuple[str, str]) -> None:
    """The property: a setting changes nothing, and a unit no more than the noise is made for."""
    exact = texts.exact(asked, setting)
    assert exact == texts.exact(asked)
    most = 2 * asked.contributions
    if isinstance(asked, AggregatesQuestion):
        most = max(asked.moved(one).distance for one, _ in asked.measures)
    for unit in sorted({one for one, _, _ in texts.records}):
        other = texts.without(unit).exact(asked, setting)
        assert other[-1] == exact[-1]
        moved = sum(
            np.abs(np.array(one) - np.array(two)).sum() for one, two in zip(exact[:-1], other[:-1], strict=True)
        )
        assert moved <= most


@settings(max_examples=many(30))
@given(
    st.sampled_from(TYPES),
    st.sampled_from(SETTINGS),
    st.sampled_from(sorted(COLLATED)),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 2), st.sampled_from(TEXTS)), max_size=8),
)
def test_no_setting_changes_units_or_what_is_counted(
    typed: duckdb.DuckDBPyConnection,
    kind: str,
    setting: tuple[str, str],
    asked: str,
    rows: int,
    records: list[tuple[str, int, str]],
) -> None:
    one_meaning(Texts(typed, kind, records), COLLATED[asked](rows), setting)


@pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="it does not group by an expression's collation")
def test_a_collation_would_merge_units(typed: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: without their bytes, two units are one."""
    records = [(unit, state, home) for unit, state, home in product(["a", "A", "ä"], range(3), ["x", "X"])]
    texts = Texts(typed, "VARCHAR", records)
    for asked in COLLATED.values():
        one_meaning(texts, asked(3), SETTINGS[0])
        with monkeypatch.context() as patch:
            patch.setattr(reading, "by_bytes", lambda con, query, names: query)
            with pytest.raises(AssertionError):
                one_meaning(texts, asked(3), SETTINGS[0])


def test_a_note_says_what_intervals_leave_out() -> None:
    number = Number("state", "0", "1", 4)
    cut, both = (
        "records left out by rows_per_unit",
        "records left out by rows_per_unit or values clamped to their bounds",
    )
    assert not_covered(aggregates(1, Records())) == f" Intervals do not cover {cut}."
    assert not_covered(sizes(1)) == f" Intervals do not cover {cut}."
    for clamped in (
        aggregates(1, Sums(number)),
        aggregates(1, Quantiles(number, ("1/2",))),
        sizes(1, size=Size(what="sum", column="state", low=0, high=3)),
    ):
        assert not_covered(clamped) == f" Intervals do not cover {both}."
        # Without a column of units each record is one, and counts.
        assert not_covered(replace(clamped, privacy_unit=None)) == (
            " Intervals do not cover values clamped to their bounds."
        )
    assert not_covered(replace(aggregates(1, Records()), privacy_unit=None)) == ""
    regions = replace(sizes(1), is_unit=True)
    assert not_covered(regions) == (
        f" Each unit counts in one region by state only, with its records there. Intervals do not cover {cut} or "
        "records in other regions."
    )
    # Without regions all its records are in one place.
    assert not_covered(replace(regions, hierarchy=())) == f" Intervals do not cover {cut}."


@pytest.mark.parametrize("setting", sampled([(each,) for each in SETTINGS], every=3), ids=" ".join)
def test_an_answer_is_the_same_whatever_the_setting(typed: duckdb.DuckDBPyConnection, setting: tuple[str, str]) -> None:
    records = [(unit, at % 3, home) for at, (unit, home) in enumerate(product(["a", "A", "b", "ä"], ["x", "X", "y"]))]
    for asked in COLLATED.values():
        for rows in (1, 2):
            one_meaning(Texts(typed, "VARCHAR", records), asked(rows), setting)


# --- whether all records count ----------------------------------------------------------------------------------------

NOBODYS = st.none()
LINKED = Owned(
    "memory.main.lines", "memory.main.orders", ("memory.main.orders AS p1 ON r.number = p1.number",), "p1.person",
    ("number",),
)  # fmt: skip


@pytest.mark.parametrize("collation", ["", "nocase"])
@given(
    st.dictionaries(st.integers(1, 5), st.sampled_from(["ann", "Ann", "bo"]) | NOBODYS),
    st.lists(st.tuples(st.integers(1, 6) | NOBODYS, st.integers(0, 3) | NOBODYS), max_size=14),
    st.sampled_from([(), ('"n" > 0',)]),
)
def test_records_are_counted_by_their_link_as_one_by_one(
    collation: str, orders: dict[int, str | None], lines: list[tuple[int | None, int | None]], where: tuple[str, ...]
) -> None:
    left = [number for number, n in lines if not where or (n or 0) > 0]
    owners = [orders.get(number) for number in left if number is not None] + [None] * left.count(None)
    many = [owners.count(one) for one in {*owners} - {None}]
    lines_of = Location("memory", "main", "lines")
    asked = replace(aggregates(9, Records(), owned=LINKED, filter=where), privacy_unit=OWNER, location=lines_of)
    with duckdb.connect() as con:
        con.execute(f"SET default_collation = '{collation}'")
        con.execute("CREATE TABLE orders (number INTEGER UNIQUE, person VARCHAR)")
        con.execute("CREATE TABLE lines (number BIGINT, n INTEGER)")
        for table, rows in ("orders", orders.items()), ("lines", lines):
            if rows:
                con.executemany(f"INSERT INTO {table} VALUES (?, ?)", [list(one) for one in rows])
        expected = max(many, default=0), None not in owners
        assert contribution._counts(con, asked) == contribution._counts_by_link(con, asked) == expected


@pytest.mark.parametrize(
    ("change", "lines", "expected"),
    [({}, 4, True), ({}, 3, False), ({"by": ()}, 4, False), ({"filter": f'"{OWNER}" IS NOT NULL'}, 4, False)],
)
def test_records_are_counted_by_their_link_where_these_are_fewer(
    change: dict[str, Any], lines: int, expected: bool
) -> None:
    owned = replace(LINKED, by=change.get("by", LINKED.by))
    asked = aggregates(9, Records(), owned=owned, filter=tuple(one for one in [change.get("filter")] if one))
    with duckdb.connect() as con:
        con.execute("CREATE TABLE orders AS FROM range(2) AS t(number)")
        con.execute(f"CREATE TABLE lines AS FROM range({lines}) AS t(number)")
        assert contribution._is_counted_by_link(con, asked) is expected


def test_keys_are_grouped_by_their_bytes() -> None:
    """Added up by key before the cell is looked up, or one by one, texts that a collation takes for equal differ."""
    kinds = Key("kind", "kinds", "VARCHAR", ("kind",))
    with duckdb.connect() as con:
        con.execute("CREATE SCHEMA duckanon; CREATE TABLE duckanon.kinds (kind VARCHAR)")
        con.execute("INSERT INTO duckanon.kinds VALUES ('a'), ('A'), ('á')")
        con.execute("CREATE TABLE t (unit INTEGER, kind VARCHAR COLLATE NOCASE.NOACCENT)")
        con.execute("INSERT INTO t VALUES (1, 'a'), (2, 'A'), (3, 'A'), (4, 'á'), (5, 'b'), (6, NULL)")
        (found,) = mechanisms.exact(con, aggregates(1, Records(), keys=(kinds,)))
        keys = forms.form(con, aggregates(1, Records(), keys=(kinds,))).column(0).to_pylist()
        assert dict(zip(keys, found[:, 0].tolist(), strict=True)) == {"a": 1, "A": 2, "á": 1}
