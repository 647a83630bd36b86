"""Customers, their orders, lines and calls with random records, and the same without one unit.

Statements are decided on a database without any record: what a decision says follows from what is public. What it would
read is then run on copies in memory that have records, in orders and with numbers of threads of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import duckanon
from duckanon.analyst import Analyst
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion

Row = tuple[Any, ...]
Rows = Mapping[str, list[Row]]

# The columns of each table. A customer has a person, who is the unit, or is one.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "customer": {
        "c": "INTEGER",
        "person": "VARCHAR",
        "nation": "VARCHAR",
        "bal": "INTEGER",
        "since": "DATE",
        "score": "DOUBLE",
    },
    "orders": {
        "o": "INTEGER",
        "c": "INTEGER",
        "prio": "VARCHAR",
        "total": "DECIMAL(8,2)",
        "day": "DATE",
        "place": "VARCHAR",
    },
    "lineitem": {
        "o": "INTEGER",
        "line": "INTEGER",
        "item": "INTEGER",
        "qty": "BIGINT",
        "price": "DECIMAL(8,2)",
        "flag": "VARCHAR",
        "ok": "BOOLEAN",
    },
    "calls": {"c": "INTEGER", "person": "VARCHAR", "day": "DATE", "topic": "VARCHAR", "length": "SMALLINT"},
}
KEYS = {"customer": "PRIMARY KEY (c)", "orders": "PRIMARY KEY (o)", "lineitem": "UNIQUE (o, line)", "calls": ""}
# Keys that may be NULL, in any number of records.
NULLABLE_KEYS = {**KEYS, "customer": "UNIQUE (c)", "orders": "UNIQUE (o)"}
# Its own column and its parent's, by which a record belongs to another.
LINKS = {"orders": ("c", "customer", "c"), "lineitem": ("o", "orders", "o")}
_DAYS = [None, *(date(2024, 1, at) for at in (1, 2, 3, 28))]
_NATIONS = ["a", "A", "b", "B", "é", "", "zz", None]
_VALUES: Mapping[str, list[Any]] = {
    "nation": _NATIONS,
    "bal": [None, 0, 1, 2, 5, 50, -5, 100],
    "since": _DAYS,
    "score": [None, 0.0, 1.5, 2.5],
    "prio": [None, "hi", "HI", "lo", "hi "],
    "total": [None, 0, 1, 2.5, 2.51, 99.99],
    "day": _DAYS,
    "place": _NATIONS,
    "item": [None, 1, 2, 3, 4, 9],
    "qty": [None, 0, 1, 2, 3, 50],
    "price": [None, 0, 0.01, 1, 7.77],
    "flag": [None, "x", "X", "y"],
    "ok": [None, True, False],
    "topic": [None, "bill", "Bill", "help"],
    "length": [None, 0, 1, 7, 60],
}
# Those that are in no domain or beyond the bounds.
_OUTSIDE: Mapping[str, tuple[Any, ...]] = {
    "nation": ("zz",),
    "place": ("zz",),
    "bal": (-5,),
    "prio": ("hi ",),
    "item": (None, 9),
    "flag": (None,),
    "topic": (None,),
}
_EXTREME: Mapping[str, list[Any]] = {
    "nation": ["a" * 3000, "\u0000", "e\u0301", "Ⅷ"],
    "bal": [2**31 - 1, -(2**31)],
    "since": [date(1, 1, 1), date(9999, 12, 31)],
    "score": [float("nan"), float("inf"), -0.0, 1e308, -1e308, 5e-324, *[0.1, 0.7, 1.3] * 3],
    "prio": ["\t", "h" * 2000],
    "total": [999999.99, -999999.99],
    "day": [date(1, 1, 1), date(9999, 12, 31)],
    "place": ["a" * 3000],
    "item": [2**31 - 1, -(2**31)],
    "qty": [2**63 - 1, -(2**63)],
    "price": [999999.99, -999999.99],
    "flag": ["\u0000"],
    "topic": ["b" * 2000],
    "length": [32767, -32768],
}
_OPEN = {
    "nations": "nation VARCHAR{collated}, region VARCHAR{collated}, pop INTEGER",
    "items": "item INTEGER PRIMARY KEY, kind VARCHAR{collated}, weight INTEGER",
    "tags": "item INTEGER, tag VARCHAR{collated}",
}
_OPEN_ROWS: Rows = {
    "nations": [
        ("a", "north", 5),
        ("A", "North", 7),
        ("b", "south", None),
        ("B", None, 1),
        ("é", "north", 2),
        ("", "", 0),
    ],
    "items": [(1, "k", 3), (2, "K", None), (3, None, 5), (4, "m", 3), (5, "m", 0)],
    "tags": [(1, "t"), (1, "T"), (2, "t"), (3, None), (None, "t"), (4, "s")],
}


@dataclass(frozen=True)
class Facts:
    """What is public. by_person: whether the unit is a customer's person, else it is the customer. most: rows of a unit
    that count, of each table. nullable: whether the keys to which links lead may be NULL.
    """

    by_person: bool
    most: Mapping[str, int]
    nullable: bool = False

    @property
    def keys(self) -> Mapping[str, str]:
        return NULLABLE_KEYS if self.nullable else KEYS

    @property
    def unit(self) -> str:
        return "person" if self.by_person else "c"

    def policies(self) -> list[str]:
        common = "epsilon := 10000, per_query := 1, population := 'folk'"
        nation = "'nation': ['a', 'A', 'b', 'B', 'é', '', NULL]"
        return [
            *(f"open_table('{one}')" for one in _OPEN),
            f"protect('customer', {common}, privacy_unit := '{self.unit}', rows_per_unit := {self.most['customer']}, "
            f"public := ['nation'], domains := {{{nation}}}, bounds := {{'bal': [0, 100, 1], 'score': [0, 3, 0.5]}})",
            f"protect('orders', {common}, link := {{'c': 'customer.c'}}, rows_per_unit := {self.most['orders']}, "
            "public := ['prio', 'place'], domains := {'prio': ['hi', 'HI', 'lo', NULL], "
            f"{nation.replace('nation', 'place')}}}, bounds := {{'total': [0, 100, 0.01]}})",
            f"protect('lineitem', {common}, link := {{'o': 'orders.o'}}, rows_per_unit := {self.most['lineitem']}, "
            "public := ['flag', 'ok', 'item'], domains := {'flag': ['x', 'X', 'y'], 'ok': [true, false, NULL], "
            "'item': 'items'}, bounds := {'qty': [0, 50, 1], 'price': [0, 10, 0.01]})",
            f"protect('calls', {common}, privacy_unit := '{self.unit}', rows_per_unit := {self.most['calls']}, "
            "public := ['topic'], domains := {'topic': ['bill', 'Bill', 'help']}, bounds := {'length': [0, 60, 1]})",
        ]


NARROW = {"customer": 2, "orders": 2, "lineitem": 3, "calls": 2}
WIDE = {"customer": 40, "orders": 60, "lineitem": 90, "calls": 50}


def facts(*, by_person: bool, wide: bool, nullable: bool = False) -> Facts:
    """wide: whether all records count."""
    most = WIDE if wide else NARROW
    return Facts(by_person, most if by_person else {**most, "customer": 1}, nullable)


# --- records ----------------------------------------------------------------------------------------------------------


def records(
    rng: random.Random, *, customers: int = 6, extreme: bool = False, tame: bool = False, nullable: bool = False
) -> Rows:
    """Random records: with orphans, units of NULL, equal rows, and keys of several cases.

    extreme: with values at the ends of their types, in some columns. tame: all are in their domains and bounds.
    nullable: with records that have NULL for the key to which links lead.
    """
    wild = {one for one in _EXTREME if extreme and rng.random() < 0.4}

    def value(column: str) -> Any:
        if tame:
            return rng.choice([one for one in _VALUES[column] if one not in _OUTSIDE.get(column, ())])
        return rng.choice(_EXTREME[column] if column in wild and rng.random() < 0.4 else _VALUES[column])

    def row(table: str, **known: Any) -> Row:
        return tuple(known[one] if one in known else value(one) for one in COLUMNS[table])

    def key(number: int) -> int | None:
        return None if nullable and rng.random() < 0.3 else number

    persons = ["p", "P", "q", "Q", "r", None]
    numbers = rng.sample(range(12), customers)
    found: dict[str, list[Row]] = {one: [] for one in COLUMNS}
    found["customer"] = [row("customer", c=key(one), person=rng.choice(persons)) for one in numbers]
    owners = [*numbers, *numbers, None, 77]
    orders = rng.randrange(4 * customers + 1) if rng.random() < 0.9 else 0
    found["orders"] = [row("orders", o=key(at), c=rng.choice(owners)) for at in range(orders)]
    of_orders = [*range(max(1, orders)), None, 99]
    lines = [(rng.choice(of_orders), rng.randrange(4)) for _ in range(rng.randrange(8 * customers) if orders else 0)]
    found["lineitem"] = [row("lineitem", o=o, line=line) for o, line in dict.fromkeys(lines)]
    count = rng.randrange(3 * customers) if rng.random() < 0.9 else 0
    found["calls"] = [row("calls", c=rng.choice(owners), person=rng.choice(persons)) for _ in range(count)]
    # Equal records, where no key forbids them.
    found["calls"] += [one for one in found["calls"] if rng.random() < 0.2]
    return found


def owners(rows: Rows, about: Facts) -> dict[str, list[Any]]:
    """The unit of each record, in order; None for those without one."""

    def own(table: str) -> list[Any]:
        at = list(COLUMNS[table]).index(about.unit)
        return [one[at] for one in rows[table]]

    # NULL leads to no record.
    of_customer = dict(zip((one[0] for one in rows["customer"]), own("customer"), strict=True)) | {None: None}
    of_order = {one[0]: of_customer.get(one[1]) for one in rows["orders"]} | {None: None}
    return {
        "customer": own("customer"),
        "orders": [of_customer.get(one[1]) for one in rows["orders"]],
        "lineitem": [of_order.get(one[0]) for one in rows["lineitem"]],
        "calls": own("calls"),
    }


def units(rows: Rows, about: Facts) -> list[Any]:
    found = {each for one in owners(rows, about).values() for each in one if each is not None}
    return sorted(found, key=str)


def without(rows: Rows, about: Facts, unit: Any) -> Rows:
    """All records but those of a unit."""
    of = owners(rows, about)
    return {
        name: [one for one, owner in zip(rows[name], of[name], strict=True) if owner != unit or owner is None]
        for name in rows
    }


def with_fewer_orphans(rows: Rows, about: Facts, rng: random.Random) -> Rows:
    """The same records, without some of those that have no owner: no unit's rows may follow from them."""
    of = owners(rows, about)
    share = rng.choice([0.5, 1.0])
    return {
        name: [
            one for one, owner in zip(rows[name], of[name], strict=True) if owner is not None or rng.random() > share
        ]
        for name in rows
    }


def owned(rows: Rows, about: Facts) -> Rows:
    """The records that have an owner."""
    of = owners(rows, about)
    return {name: [one for one, owner in zip(rows[name], of[name], strict=True) if owner is not None] for name in rows}


# --- databases --------------------------------------------------------------------------------------------------------


def _create(path: str, name: str, key: str) -> str:
    """key: the table's, or an empty text for none."""
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS[name].items())
    key = f", {key}" if key else ""
    return f"CREATE TABLE {path}{name} ({columns}{key})"


def _open_tables(con: Any, path: str, *, collated: bool) -> None:
    for name, columns in _OPEN.items():
        con.execute(
            f"CREATE TABLE {path}{name} ({columns.format(collated=' COLLATE nocase' if collated else '')})"
        ).fetchall()
        for row in _OPEN_ROWS[name]:
            con.execute(f"INSERT INTO {path}{name} VALUES ({', '.join('?' * len(row))})", list(row)).fetchall()


@contextmanager
def decider(folder: Path, about: Facts) -> Iterator[Analyst]:
    """An analyst on a database with these policies and without records.

    Open tables with collations are not looked up. So there are none here, but in the copies on which relations run:
    what a relation shows must not follow them.
    """
    path = folder / "x.duckdb"
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        for name in COLUMNS:
            con.execute(_create("", name, about.keys[name])).fetchall()
        _open_tables(con, "", collated=False)
        for one in about.policies():
            con.execute(f"SELECT {one}").fetchall()
    with duckanon.connect(path, role="analyst", config={"threads": 1}) as found:
        assert isinstance(found, Analyst)
        yield found


@dataclass
class Copy:
    """A database in memory under the same name, with the same open tables and domains, and with records."""

    con: duckdb.DuckDBPyConnection
    keys: Mapping[str, str]

    @staticmethod
    def of(
        decided: Analyst, *, collated: bool = True, threads: int = 1, memory: str | None = None, nullable: bool = False
    ) -> Copy:
        con = duckdb.connect(config={"threads": threads, **({"memory_limit": memory} if memory else {})})
        con.execute("ATTACH ':memory:' AS x; CREATE SCHEMA x.duckanon; USE x").fetchall()
        _open_tables(con, "x.main.", collated=collated)
        with decided._con.cursor() as raw:
            listed = raw.execute(
                "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'duckanon' AND table_name LIKE 'domain%'"
            ).fetchall()
            for (name,) in listed:
                con.register("_dk_domain", raw.sql(f'FROM x.duckanon."{name}"').to_arrow_table())
                con.execute(f'CREATE TABLE x.duckanon."{name}" AS FROM _dk_domain').fetchall()
                con.unregister("_dk_domain")
        return Copy(con, NULLABLE_KEYS if nullable else KEYS)

    def fill(self, rows: Rows, rng: random.Random, *, keys: bool | None = None) -> None:
        """Replace all records, in a random order. keys: whether the tables have theirs; None: at random."""
        has_keys = rng.random() < 0.5 if keys is None else keys
        for name in COLUMNS:
            self.con.execute(f"DROP TABLE IF EXISTS x.main.{name}").fetchall()
            self.con.execute(_create("x.main.", name, self.keys[name] if has_keys else "")).fetchall()
            shuffled = rng.sample(rows[name], len(rows[name]))
            if shuffled:
                self._insert(name, shuffled)

    def _insert(self, name: str, rows: list[Row]) -> None:
        # As text: a record is read as it is written.
        texts = [[None if each is None else str(each) for each in column] for column in zip(*rows, strict=True)]
        kinds = COLUMNS[name]
        self.con.register("_dk_rows", pa.table([pa.array(one, pa.string()) for one in texts], names=list(kinds)))
        shown = ", ".join(f"CAST({column} AS {kind})" for column, kind in kinds.items())
        self.con.execute(f"INSERT INTO x.main.{name} SELECT {shown} FROM _dk_rows").fetchall()
        self.con.unregister("_dk_rows")

    def store(self, question: PaidQuestion, answer: pa.Table) -> None:
        """Put an answer where statements read it."""
        path = '"' + '"."'.join(question.path) + '"'
        self.con.register("_dk_answer", answer)
        self.con.execute(f"CREATE OR REPLACE TABLE {path} AS FROM _dk_answer").fetchall()
        self.con.unregister("_dk_answer")

    def exact(self, question: AggregatesQuestion) -> list[Any]:
        return mechanisms.exact(self.con, question)
