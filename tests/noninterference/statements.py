"""Statements from a seed: grown from a grammar that aims at what could depend on a record, or from the corpora."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from tests.attacks import attacks, split
from tests.guard import test_fuzz
from tests.noninterference.harness import Sent
from tests.rewrite.fixtures import FIXTURES, entries

GRAMMAR = Path(__file__).with_name("grammar.txt")


def _read() -> dict[str, list[str]]:
    """The sections of the grammar."""
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in GRAMMAR.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isalpha():
            section = found.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            often = re.match(r"(\d+)\* ", line)
            section += [line[often.end() :]] * int(often[1]) if often else [line]
    return found


_ALL = _read()
TABLES, COLUMNS, KEYS, TEXTS = _ALL["tables"], _ALL["columns"], _ALL["keys"], _ALL["texts"]
NUMBERS, TRUTHS, COMPARED = _ALL["numbers"], _ALL["truths"], _ALL["comparisons"]
_CANARIES = re.compile(r"7001\d{3}|'canary[^']*'")
_RANDOM = re.compile(
    r"\b(random|uuid|uuidv4|uuidv7|gen_random_uuid|now|get_current_time\w*|current_time\w*|transaction_timestamp|"
    r"reservoir_quantile|current_local\w*)\b",
    re.IGNORECASE,
)


def constant(rng: random.Random) -> str:
    return rng.choice(_ALL["constants"]) if rng.random() < 0.9 else str(rng.randrange(-10, 10**6))


_TOTAL = (
    "lower(sex) = 'x'", "left(state, 1) = 'S'", "length(diagnosis) > {i}", "age % 2 = 1", "age // 10 = {i}",
    "floor(age / 10) * 10 < {i}0", "age + {i} > 18", "abs(income) > {i}", "coalesce(age, {i}) < 18",
    "CASE WHEN age < 18 THEN 'young' ELSE 'grown' END = 'young'", "month(born) = {i}", "year(seen) > 199{i}",
    "date_trunc('year', born) = DATE '1999-01-01'", "born > current_date - INTERVAL {i} YEAR", "age > {i}.5",
    "seen >= '2024-01-01T00:00:00Z'", "seen < timestamp with time zone '2024-01-01 02:00:00+02'",
    "born = TO_DATE('03/02/1999', 'DD/MM/YYYY')",
    "seen <= TO_TIMESTAMP('1999-02-03 04:05:06.000007', 'YYYY-MM-DD HH24:MI:SS.US')",
    "seen > now() - INTERVAL '{i} years'", "seen BETWEEN localtimestamp - INTERVAL '{i}' month AND current_timestamp",
    "date_trunc('month', CAST(born AS TIMESTAMP)) < date_trunc('month', now())", "born >= (SELECT current_date - {i}0)",
    "born::timestamp AT TIME ZONE 'UTC' < timestamptz '2024-01-01 00:00:00+00'", "extract(epoch FROM seen) > {i}e8",
    "strftime(born, '%Y-%m') = '1999-02'", "date(seen) = DATE '2024-01-01'", "trunc(age) > {i}", "epoch(born) < {i}",
    "age = ANY (ARRAY[{i}, 18])", "age <> ALL ('{1,18}'::int[])", "sex = ANY ('{x,y}')", "age IN (VALUES (1), ({i}))",
    "age >= ALL ([{i}, 7])", "seen::date = to_timestamp({i}e8)::date", "hour(seen) = extract(hour FROM now())",
    "hour(seen AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Kolkata') = {i}",
    "seen AT TIME ZONE 'Europe/Berlin' < '2024-03-31 0{i}:30:00+00'",
    "week(born) = {i}", "upper(m) = 'A'", "pid = hid", "d > 3.335", "starts_with(name, 'a')",
)  # fmt: skip


def _fitting(rng: random.Random) -> str:
    """A comparison that is likely to be admitted."""
    kind = rng.randrange(9)
    if kind == 8:
        return rng.choice(_TOTAL).replace("{i}", str(rng.randrange(12)))
    if kind == 0:
        return rng.choice(TRUTHS)
    if kind == 1:
        return f"{rng.choice(['age', 'income', 'pid'])} {rng.choice(COMPARED)} {rng.randrange(100)}"
    if kind == 2:
        text = f"{rng.choice('abxS1')}{rng.choice(['', '%', '0'])}"
        return f"{rng.choice(TEXTS)} {rng.choice(['=', '<>', '>', 'LIKE'])} '{text}'"
    if kind == 3:
        return f"born {rng.choice(COMPARED)} {rng.choice(['current_date', chr(39) + '1999-02-03' + chr(39)])}"
    if kind == 4:
        return f"{rng.choice(COLUMNS[:19])} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == 5:
        return f"state IN ('S0', '{rng.choice(['S1', 'zz'])}')"
    if kind == 6:
        return f"f {rng.choice(COMPARED)} {rng.choice(['1.5', '0', '1e300'])}"
    return f"age BETWEEN {rng.randrange(50)} AND {rng.randrange(100)}"


def condition(rng: random.Random, depth: int = 2) -> str:
    """A condition on records."""
    if rng.random() < 0.45:
        return _fitting(rng)
    text = rng.choice(_ALL["tests"])
    if depth == 0 and "{f}" in text:
        return _fitting(rng)
    for name, choose in (
        ("{f}", lambda: condition(rng, depth - 1)),
        ("{c}", lambda: rng.choice(COLUMNS)),
        ("{c2}", lambda: rng.choice(COLUMNS)),
        ("{x}", lambda: rng.choice(TEXTS)),
        ("{z}", lambda: rng.choice(NUMBERS)),
        ("{t}", lambda: rng.choice(TRUTHS)),
        ("{k}", lambda: constant(rng)),
        ("{k2}", lambda: constant(rng)),
        ("{o}", lambda: rng.choice(COMPARED)),
        ("{y}", lambda: rng.choice(_ALL["casts"])),
        ("{i}", lambda: str(rng.randrange(40))),
    ):
        while name in text:
            text = text.replace(name, choose(), 1)
    return text


# Conditions on a person p and a visit v, aggregates over both, and aggregates within a unit.
_TWO = (
    "p.sick", "p.vote AND v.sick", "p.age > v.age", "p.age <> v.age", "p.born < v.born", "p.state = v.state",
    "p.state <> v.state", "v.quantity > p.quantity", "p.income < v.quantity", "p.sex = 'x'", "v.state LIKE 'S%'",
    "v.age BETWEEN {i} AND 60", "p.pid = v.pid", "p.household_id = v.household_id", "v.quantity IS NULL", "true",
    "coalesce(v.age, {i}) > 5", "p.state = lower(v.state)", "p.m > 'a'", "p.f > v.age", "p.name = v.state",
    "p.d * 2 > v.quantity", "v.age::VARCHAR = p.sex", "p.age / v.age > 1", "p.age + v.age > {i}",
)  # fmt: skip
_ACROSS = (
    "count(*)", "count(v.age)", "sum(p.quantity)", "avg(p.age)", "sum(v.quantity)", "count(DISTINCT p.pid)", "avg(n)",
    "sum(p.age * p.quantity)", "median(p.age)", "max(p.age)", "sum(n)", "count(*) FILTER (WHERE p.age > 17)",
)  # fmt: skip
_WITHIN = (
    "count(*)", "count(*) + 1", "sum(quantity)", "sum(age)", "avg(age)", "min(age)", "max(quantity)", "max(state)",
    "count(DISTINCT state)", "bool_or(sick)", "any_value(age)", "coalesce(sum(age), 0)", "min(born)", "sum(age * age)",
    "string_agg(state)", "first(age)", "max(age) - min(age)", "sum(quantity) / count(*)",
)  # fmt: skip


def _of_two(rng: random.Random) -> str:
    return rng.choice(_TWO).replace("{i}", str(rng.randrange(40)))


def aggregate(rng: random.Random) -> str:
    return rng.choice(_ALL["aggregates"]).replace("{c}", rng.choice(COLUMNS)).replace("{f}", condition(rng, 1))


def call(rng: random.Random) -> str:
    text = rng.choice(_ALL["calls"])
    return (
        text.replace("{t}", rng.choice(["persons", "visits", "main.persons", "secrets", "people", "states", "nowhere"]))
        .replace("{e}", rng.choice(["1", "3", "0.5", "'1/3'", "0", "0.000001", "1000", "NULL"]))
        .replace("{n}", rng.choice(["1", "3", "6", "0", "7", "-1"]))
        .replace("{m}", rng.choice(["auto", "histogram", "cumulative", "nonsense"]))
    )


def steward(rng: random.Random) -> str:
    return rng.choice(_ALL["steward"]).replace("{t}", rng.choice(["persons", "states", "secrets", "census"]))


def query(rng: random.Random) -> str:
    text = rng.choice(_ALL["queries"])
    # One column is the unit in a pair of databases; a join by the other one is refused there.
    text = text.replace("{u}", rng.choice(["pid", "household_id"]))
    for name, choose in (
        ("{w}", lambda: rng.choice(["", f"WHERE {condition(rng)}"])),
        (
            "{q}",
            lambda: rng.choice(["size > 1", "state = 'S0'", "size::VARCHAR = 'x'", "1 / size > 0", condition(rng, 1)]),
        ),
        ("{j}", lambda: _of_two(rng)),
        ("{h}", lambda: rng.choice(_ACROSS)),
        ("{e}", lambda: rng.choice(_WITHIN)),
        ("{m}", lambda: rng.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"])),
        ("{n}", lambda: rng.choice(["", "NOT "])),
        ("{a}", lambda: aggregate(rng)),
        ("{f}", lambda: condition(rng)),
        ("{t}", lambda: rng.choice(TABLES)),
        ("{t2}", lambda: rng.choice(TABLES)),
        ("{k}", lambda: rng.choice(KEYS) if rng.random() < 0.9 else rng.choice(COLUMNS)),
        ("{k2}", lambda: rng.choice(KEYS)),
        ("{c}", lambda: rng.choice(COLUMNS)),
        ("{c2}", lambda: rng.choice(COLUMNS)),
        ("{b}", lambda: rng.choice([*TRUTHS, "sex", f"({condition(rng, 1)})"])),
        ("{s}", lambda: rng.choice(["n", "n DESC", "1", "ALL", "n NULLS FIRST", "count(*)", "2 DESC LIMIT 2"])),
        ("{i}", lambda: str(rng.randrange(4))),
        ("{g}", lambda: rng.choice(["ROLLUP", "CUBE", "GROUPING SETS", ""])),
        (
            "{v}",
            lambda: rng.choice([condition(rng), aggregate(rng), f"count(*) FILTER ({condition(rng)})", constant(rng)]),
        ),
        ("{x}", lambda: rng.choice(["sum(c)", "c", "*", "max(c) - min(c)", "c / (c - c)", "count(*)"])),
        ("{o}", lambda: rng.choice(["true", "table_name = 'persons'", "data_type LIKE 'ENUM%'", "1 = 1 / 0"])),
        ("{l}", lambda: call(rng)),
        ("{p}", lambda: steward(rng)),
    ):
        if name in ("{k}", "{k2}"):
            text = text.replace(name, choose())
        while name in text:
            text = text.replace(name, choose(), 1)
    return text


def grown(rng: random.Random) -> str:
    text = rng.choice(_ALL["statements"]).replace("{n}", str(rng.randrange(2)))
    while "{}" in text:
        text = text.replace("{}", query(rng), 1)
    if rng.random() < 0.08:
        text = _spelled(rng, text)
    return text


def _spelled(rng: random.Random, text: str) -> str:
    """The statement in another spelling: names in quotes, in other cases, with comments, or damaged."""
    kind = rng.randrange(5)
    if kind == 0:
        return re.sub(r"\b(persons|state|sick|age)\b", r'"\1"', text)
    if kind == 1:
        return text.upper()
    if kind == 2:
        return text.replace("persons", rng.choice(["PERSONS", "main.persons", 'x.main."persons"', "Persons p"]))
    if kind == 3:
        return text.replace(" ", rng.choice(["\n", "  ", "/**/", "\t", " -- x\n"]))
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(test_fuzz.NOISE) + text[at + rng.randrange(3) :]


@cache
def corpora() -> tuple[str, ...]:
    """Every statement of `fixtures/attacks` and `fixtures/rewrite`, one by one and as they stand together."""
    found: list[str] = []
    for one in attacks():
        text = one.sql.replace("{file}", "/tmp/people.duckdb").replace("{folder}", "/tmp/out")
        found += [*_parts(_CANARIES.sub(lambda met: "7" if met[0][0] == "7" else "'S1'", text)), text]
    for path in sorted((FIXTURES / "rewrite").glob("*.sql")):
        if path.stem != "database":
            found += [part for one in entries(f"rewrite/{path.stem}") for part in _parts(one.sql)]
    return tuple(found)


def _parts(sql: str) -> list[str]:
    # The corpora's tables of persons have another name for households.
    return [re.sub(r"\bhid\b", "household_id", one) for one in split(sql)]


_WAYS = (
    ["execute"] * 8
    + ["sql", "sql", "shown", "arrow", "pieces", "parsed", "explain", "explain", "explain_privacy", "explain_privacy"]
    + ["cursor", "transaction", "prepared", "prepared", "prepared sql", "executemany"]
)


def sent(rng: random.Random) -> Sent:
    """A statement, and a way to send it."""
    roll = rng.random()
    text = grown(rng) if roll < 0.8 else rng.choice(corpora()) if roll < 0.9 else test_fuzz.statement(rng)
    # What differs from run to run tells nothing.
    text = _RANDOM.sub("pi", text)
    way = rng.choice(_WAYS)
    if way in ("prepared", "prepared sql", "executemany"):
        return _prepared(rng, text, way)
    return Sent(text, way)


_LITERAL = re.compile(r"(?<![\w.'])(\d+(?:\.\d+)?|'[^']*')(?![\w.'(])")
_GIVEN = (0, 1, 2, -1, 1.5, "x", "S0", "1", None, True, 10**12, 2**63, float("nan"), "1999-02-03", b"\0", [1], {"a": 1})


def _prepared(rng: random.Random, text: str, way: str) -> Sent:
    """Some of the statement's constants are parameters."""
    count = 0

    def place(met: re.Match[str]) -> str:
        nonlocal count
        if rng.random() < 0.5:
            return met[0]
        count += 1
        return "?"

    text = _LITERAL.sub(place, text)
    return Sent(text, way, tuple(rng.choice(_GIVEN) for _ in range(text.count("?"))))
