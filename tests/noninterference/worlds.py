"""Pairs of databases with equal public facts and other protected records, from a seed."""

from __future__ import annotations

import datetime
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import duckanon
from duckanon.analyst import Analyst
from duckanon.catalog.names import literal

UNITS = ("record", "person", "household")
_SIZES = (0, 1, 2, 7, 60, 300)
_PERSONS: dict[str, tuple[str, list[Any]]] = {
    "pid": ("BIGINT", [None, *range(40)]),
    "household_id": ("BIGINT", [None, *range(25)]),
    "hid": ("INTEGER", [None, *range(25)]),
    "state": ("VARCHAR", [None, "S0", "S1", "S2", "TX", "zz", "s0", ""]),
    "county": ("VARCHAR", [None, "C0", "C1", "C2", "C3", "c1", "nowhere"]),
    "name": ("VARCHAR", []),
    "income": ("BIGINT", [None, 0, 1, 2, -1, 10**12, 2**63 - 1, -(2**63), 7310000001]),
    "sex": ("VARCHAR", [None, "1", "x", "X", "", "f", "m", "1e400", "é", "e\u0301"]),
    "sick": ("BOOLEAN", [None, True, False]),
    "vote": ("BOOLEAN", [None, True, False]),
    "age": ("INTEGER", [None, 0, 17, 18, 93, -5, 2**31 - 1, -(2**31)]),
    "born": ("DATE", [None, datetime.date(1, 1, 1), datetime.date(1999, 2, 3), datetime.date(9999, 12, 31)]),
    "seen": ("TIMESTAMP", [None, datetime.datetime(1999, 2, 3, 4, 5, 6, 7), datetime.datetime(2024, 1, 1)]),
    "m": ("mood", [None, "a", "b", "c"]),
    "d": ("DECIMAL(8,2)", [None, 0, 3.33, 999999.99, -999999.99]),
    "f": ("DOUBLE", [None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, 1e308, 5e-324]),
    "education": ("VARCHAR", [None, "none", "school", "college", "other"]),
    "diagnosis": ("VARCHAR", [None, "hiv", "flu", "a'b", "x" * 300]),
    "quantity": ("BIGINT", [None, 0, 1, 3, 10**18]),
    "items": ("INTEGER[]", [None, [], [1, 2], [None]]),
}
_VISITS = ("pid", "household_id", "state", "sick", "age", "born", "quantity")
_PUBLIC = """
CREATE TABLE states AS SELECT 'S' || i AS state, i AS rank FROM range(3) r(i);
CREATE TABLE counties AS SELECT 'S' || i // 2 AS state, 'C' || i AS county FROM range(4) r(i);
CREATE TABLE units AS SELECT i AS household_id FROM range(30) r(i);
CREATE TABLE shops AS SELECT i AS shop, ['north', 'south'][1 + i % 2] AS side, i * 10 AS sales FROM range(12) r(i);
CREATE TABLE stays (stay BIGINT PRIMARY KEY, pid BIGINT, household_id BIGINT);
CREATE TABLE bills (stay INTEGER, state VARCHAR, sick BOOLEAN, age INTEGER, quantity BIGINT);
CREATE TABLE closed (a INTEGER);
CREATE TABLE secrets (secret VARCHAR, code BIGINT);
CREATE VIEW people AS SELECT name, income FROM persons;
CREATE VIEW adults AS SELECT * FROM persons WHERE age >= 18;
CREATE VIEW ranked AS SELECT state, rank + 1 AS place FROM states;
CREATE MACRO peek() AS (SELECT max(name) FROM persons);
CREATE MACRO peeks() AS TABLE FROM persons;
CREATE MACRO plus(x) AS x + 1;
CREATE MACRO counted(s) AS TABLE SELECT count(*) AS n FROM persons WHERE state = s;
CREATE SCHEMA other;
CREATE TABLE other.persons (pid INTEGER);
CREATE SEQUENCE numbers;
"""
_DOMAINS = (
    "{'state': 'states', 'county': 'counties', 'sick': [true, false, NULL], 'vote': [true, false], "
    "'sex': ['1', 'x', 'X', NULL], 'm': 'ENUM', 'education': ['none', 'school', 'college']}"
)
_LINK = "link := {'stay': 'stays.stay'}"
# What is closed is nobody's to know, not even by its name: each database has other ones.
_CLOSED = {
    "first": "CREATE TABLE salaries (salary BIGINT); CREATE VIEW payments AS FROM salaries; CREATE SCHEMA hr; "
    "CREATE TABLE hr.salaries AS SELECT 7 AS salary; CREATE SEQUENCE serial; CREATE TABLE person (name VARCHAR)",
    "second": "CREATE TABLE wages (wage BIGINT, more INTEGER); CREATE VIEW payment AS FROM wages; "
    "CREATE TABLE stat AS SELECT 'S9' AS state; CREATE INDEX by_wage ON wages (wage)",
}
# What a steward prepares, in worlds with a delta: columns of the records, and such as are looked up in open tables.
_LOOKED_UP = (
    "SELECT s.rank, p.sick, count(*) FROM persons p JOIN states s ON p.state = s.state GROUP BY ALL",
    "SELECT sex, sum(s.rank) FROM persons p JOIN states s ON p.state = s.state GROUP BY sex",
    "SELECT m, count(*) FROM persons WHERE county IN (SELECT county FROM counties WHERE state = 'S1') GROUP BY m",
)
PREPARED = f"""
FROM prepare('persons', epsilon := 3, buy := true, queries := [{", ".join(map(literal, _LOOKED_UP))}],
  by := [['state', 'sick', 'vote'], ['sex', 'm'], ['state', 'age'], []])
"""
# The same of a linked table, with what is looked up in records of the same unit, whose column has a name.
_LINKED = (
    "SELECT b.state, sum(quantity) FROM bills b JOIN stays s ON b.stay = s.stay WHERE b.sick GROUP BY b.state",
    "SELECT b.sick, count(*) FROM bills b JOIN stays s ON b.stay = s.stay "
    "WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.{unit} = s.{unit} AND v.sick) GROUP BY b.sick",
    "SELECT sick, count(*) FROM bills b WHERE EXISTS (SELECT 1 FROM bills o WHERE o.stay = b.stay AND o.age > 40) "
    "GROUP BY sick",
)
# Asked before the records change, so that the answers stand.
_EARLIER = (
    "SELECT count(*) FROM persons",
    "SELECT state, count(*) FROM persons GROUP BY state",
    "SELECT size, count(*) FROM (SELECT household_id, count(*) size FROM persons GROUP BY 1) GROUP BY 1",
)


@dataclass(frozen=True)
class Facts:
    """What is public of a pair of databases. unit: of UNITS. contributions: records of a unit that count.

    published: whether counts and a k-anonymous copy are published, which were made from other records. delta: of the
    population, NULL for none. prepared: whether tables are.
    """

    seed: int
    unit: str
    contributions: int
    published: bool
    later_edition: bool
    collated: bool
    epsilon: str
    per_edition: str
    delta: str = "NULL"
    prepared: bool = False

    @staticmethod
    def of(seed: int) -> Facts:
        rng = random.Random(f"facts {seed}")
        unit = rng.choice(UNITS)
        # A small budget runs out under way: how, is public too.
        epsilon = rng.choice(["3000", "3000", "60"])
        return Facts(
            seed,
            unit,
            1 if unit == "record" else rng.randint(1, 4),
            rng.random() < 0.6,
            rng.random() < 0.4,
            rng.random() < 0.1,
            epsilon,
            rng.choice(["NULL", "NULL", "NULL", "50"]),
            delta := rng.choice(["NULL", "1e-9"]),
            delta != "NULL" and rng.random() < 0.5,
        )

    def following(self) -> list[str]:
        """Queries that follow from what is prepared by way of look-ups."""
        if self.unit == "record":
            return [*_LOOKED_UP]
        unit = {"person": "pid", "household": "household_id"}[self.unit]
        return [*_LOOKED_UP, *(one.format(unit=unit) for one in _LINKED)]

    def preparations(self) -> list[str]:
        """What a steward prepares."""
        linked = ", ".join(map(literal, self.following()[len(_LOOKED_UP) :]))
        of_bills = f"FROM prepare('bills', epsilon := 3, buy := true, queries := [{linked}])"
        return [PREPARED, of_bills] if linked else [PREPARED]

    def policies(self) -> list[str]:
        """The steward's calls, in order."""
        unit = {
            "record": "",
            "person": f"privacy_unit := 'pid', rows_per_unit := {self.contributions},",
            "household": f"privacy_unit := 'household_id', rows_per_unit := {self.contributions},",
        }[self.unit]
        cap = "" if self.per_edition == "NULL" else f"per_edition := {self.per_edition},"
        # Two tables are of one population where a column tells the unit in both.
        population = "" if self.unit == "record" else "population := 'folk',"
        budget = f"epsilon := {self.epsilon}, delta := {self.delta}, {population} {cap} {unit}"
        return [
            "open_table('states')",
            "open_table('counties')",
            "open_table('ranked')",
            "open_table('units')",
            f"protect('persons', {budget} unit := 'household_id', hierarchy := ['state', 'county'], max_size := 6, "
            "per_query := 3, public := ['state', 'county', 'sick', 'vote', 'sex', 'm', 'education'], "
            f"domains := {_DOMAINS}, quasi_identifiers := ['age', 'sex'], k := 3, small := 3, drop := ['diagnosis'], "
            "bounds := {'quantity': [0, 3], 'age': [0, 100, 5]})",
            f"protect('visits', {budget} unit := 'household_id', max_size := 4, per_query := '1/3', "
            "public := ['state', 'sick'], domains := {'state': ['S0', 'S1'], 'sick': [true, false]})",
            "protect('secrets', epsilon := 1)",
            *([] if self.unit == "record" else self._linked(budget)),
        ]

    def _linked(self, budget: str) -> list[str]:
        """A table that has the unit, and one that is linked to it."""
        linked = budget.replace("privacy_unit := 'pid'", _LINK).replace("privacy_unit := 'household_id'", _LINK)
        return [
            f"protect('stays', {budget} per_query := 1)",
            f"protect('bills', {linked} unit := 'stay', max_size := 4, per_query := 1, public := ['state', 'sick'], "
            "domains := {'state': ['S0', 'S1'], 'sick': [true, false]}, bounds := {'quantity': [0, 3]})",
        ]


def value(rng: random.Random, column: str) -> Any:
    given = _PERSONS[column][1]
    if column == "name":
        return f"canary {rng.randrange(10**9)}"
    if column in ("income", "age") and rng.random() < 0.4:
        return rng.randrange(100)
    return rng.choice(given)


def records(rng: random.Random, count: int, columns: tuple[str, ...] = tuple(_PERSONS)) -> list[list[Any]]:
    """Records, in an order of their own."""
    return [[value(rng, one) for one in columns] for _ in range(count)]


def insert(con: Any, table: str, rows: list[list[Any]], columns: tuple[str, ...] = tuple(_PERSONS)) -> None:
    """con: a DuckDB connection or a steward's."""
    if not rows:
        return
    kinds = [_PERSONS[one][0] for one in columns]
    # As text: a record is read as it is written, whatever Python would make of it.
    texts = [[None if one is None else _text(one) for one in row] for row in rows]
    schema = pa.schema([(one, pa.string()) for one in columns])
    con.register("_dk_rows", pa.table([list(column) for column in zip(*texts, strict=True)], schema=schema))
    shown = ", ".join(f'CAST("{name}" AS {kind})' for name, kind in zip(columns, kinds, strict=True))
    names = ", ".join(f'"{name}"' for name in columns)
    con.execute(f"INSERT INTO {table} ({names}) SELECT {shown} FROM _dk_rows").fetchall()
    con.unregister("_dk_rows")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join("NULL" if one is None else str(one) for one in value) + "]"
    return str(value)


def made(path: Path, facts: Facts, which: str) -> None:
    """Make one database. which: 'first' or 'second', of which the records and what is closed follow."""
    rng = random.Random(f"records {facts.seed} {which}")
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        con.execute("CREATE TYPE mood AS ENUM ('a', 'b', 'c')")
        con.execute(_table(""))
        con.execute(f"CREATE TABLE visits ({', '.join(f'{one} {_PERSONS[one][0]}' for one in _VISITS)})")
        con.execute(_PUBLIC)
        con.execute(_CLOSED[which])
        for one in facts.policies():
            con.execute(f"SELECT {one}").fetchall()
        for one in facts.preparations() if facts.prepared else ():
            con.execute(one).fetchall()
        if facts.collated:
            # A table that was built again under its policy may have a collation. Then it answers nothing until a
            # steward settles it, so only a few pairs have one, and no earlier answers.
            con.execute("DROP VIEW people; DROP VIEW adults; DROP TABLE persons")
            con.execute(_table(" COLLATE NOCASE"))
        if facts.published:
            _publish(con, facts, rng)
        elif rng.random() < 0.5:
            _replace(con, rng)
    with analyst(path) as con:
        for sql in _EARLIER if facts.seed % 2 and not facts.collated else ():
            con.execute(sql)
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        if facts.later_edition:
            con.execute("SELECT new_edition('persons')").fetchall()
        if not facts.published or rng.random() < 0.7:
            _replace(con, rng)


def _table(collation: str) -> str:
    kinds = {name: kind + (collation if name == "sex" else "") for name, (kind, _) in _PERSONS.items()}
    return f"CREATE TABLE persons ({', '.join(f'{name} {kind}' for name, kind in kinds.items())})"


def _publish(con: Any, facts: Facts, rng: random.Random) -> None:
    """Publish from records that agree in both databases in what is published, and in nothing else."""
    same = random.Random(f"published {facts.seed}")
    agreed = [
        {"state": f"S{i % 3}", "sick": i % 2 == 0, "age": 20 + i % 40, "sex": same.choice("1x")} for i in range(120)
    ]
    rows = [[one.get(name, value(rng, name)) for name in _PERSONS] for one in agreed]
    at = list(_PERSONS).index("pid")
    home = list(_PERSONS).index("household_id")
    for number, row in enumerate(rows):
        row[at], row[home] = number, number
    rng.shuffle(rows)
    insert(con, "persons", rows)
    con.execute("CREATE TABLE census AS SELECT state, sick, count(*) AS n FROM persons GROUP BY ALL ORDER BY ALL")
    con.execute("SELECT publish('census', of := 'persons', variables := ['state', 'sick'], value := 'n')").fetchall()
    if facts.seed % 3 == 0:
        con.execute("SELECT unpublish('census')").fetchall()


def _replace(con: Any, rng: random.Random) -> None:
    con.execute("DELETE FROM persons").fetchall()
    con.execute("DELETE FROM visits").fetchall()
    con.execute("DELETE FROM secrets").fetchall()
    insert(con, "persons", records(rng, rng.choice(_SIZES)))
    insert(con, "visits", records(rng, rng.choice(_SIZES), _VISITS), _VISITS)
    con.execute(f"INSERT INTO secrets SELECT 'canary ' || i, i FROM range({rng.randrange(20)}) r(i)").fetchall()
    _replace_linked(con, rng)


def _replace_linked(con: Any, rng: random.Random) -> None:
    """Stays with owners or without, and bills with stays or without."""
    con.execute("DELETE FROM bills").fetchall()
    con.execute("DELETE FROM stays").fetchall()
    for stay in rng.sample(range(60), rng.randrange(50)):
        owner = [value(rng, one) for one in ("pid", "household_id")]
        con.execute("INSERT INTO stays VALUES (?, ?, ?)", [stay, *owner]).fetchall()
    for row in records(rng, rng.randrange(80), ("state", "sick", "age", "quantity")):
        con.execute("INSERT INTO bills VALUES (?, ?, ?, ?, ?)", [rng.choice([None, *range(60)]), *row]).fetchall()


def change(con: Analyst, rng: random.Random, which: int) -> None:
    """Change the records of an open database, past the guard. which: 0 or 1; the two are changed differently."""
    raw = con._con.cursor()
    try:
        turn = rng.randrange(5)
        if turn == 0:
            raw.execute(f"DELETE FROM persons WHERE pid % 3 = {which}").fetchall()
        elif turn == 1:
            insert(raw, "persons", records(random.Random(f"{rng.random()} {which}"), 1 + 4 * which))
        elif turn == 2:
            raw.execute(f"UPDATE persons SET sex = '{which}', income = {which} WHERE pid % 2 = {which}").fetchall()
        elif turn == 3:
            insert(raw, "visits", records(random.Random(f"{rng.random()} {which}"), 3 - which, _VISITS), _VISITS)
        elif which:
            raw.execute("DELETE FROM persons").fetchall()
        else:
            raw.execute("INSERT INTO persons SELECT * FROM persons LIMIT 50").fetchall()
    finally:
        raw.close()


@contextmanager
def analyst(path: Path) -> Iterator[Analyst]:
    con = duckanon.connect(path, role="analyst", config={"threads": 1})
    assert isinstance(con, Analyst)
    with con:
        yield con


@dataclass(frozen=True)
class Pair:
    """Two databases of equal public facts, open for an analyst each."""

    facts: Facts
    first: Analyst
    second: Analyst


@contextmanager
def pair(folder: Path, seed: int) -> Iterator[Pair]:
    """A pair of databases. The folder is made, and removed at the end."""
    facts = Facts.of(seed)
    make(folder, facts)
    try:
        with opened(folder, facts) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make(folder: Path, facts: Facts) -> None:
    """Make a pair of databases in a folder of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    for which in ("first", "second"):
        (folder / which).mkdir(parents=True)
        made(folder / which / "x.duckdb", facts, which)


@contextmanager
def opened(folder: Path, facts: Facts) -> Iterator[Pair]:
    """A pair that was made."""
    with analyst(folder / "first" / "x.duckdb") as first, analyst(folder / "second" / "x.duckdb") as second:
        yield Pair(facts, first, second)
