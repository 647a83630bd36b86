"""Random linked tables, as suppress protects them, against a reader's integer program that shares no code with it.

Run: python -m tests.bench.suppression_attacked [SYSTEMS]

Each system has two or three tables of the same records, by counties in states and in markets, by sex, age and branch,
and is of a kind: counts; with a table of codes; rows that stand for several records; weights; after an earlier
publication that stays; or sums of contributors under p%. The rules are worked out here, from the records. The reader
(`tests/bench/table_attacker.py`) sees the cells that the calls return, and no more.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

import duckanon
from tests.bench.table_attacker import Demand, Node, Place, Seen, Split, exposed

KINDS = ("counts", "codes", "count", "weights", "earlier", "sums")
LEAST, PERCENT = 3, 10
COUNTIES = [f"c{i}" for i in range(6)]
SIZES = {"sex": ["m", "f"], "age": ["u", "v", "w"], "branch": [f"i{i}" for i in range(5)]}
# Codes of branches with what they are a part of, where there is a table of them.
CODES = {"i0": "P", "i1": "P", "i2": "Q", "i3": "Q", "i4": None, "P": None, "Q": None}
# Tables by columns. `branch` stands for sex where there are codes.
SHAPES = (
    ("state", "county", "sex"),
    ("market", "county", "age"),
    ("state", "age"),
    ("market", "sex"),
    ("state", "market", "county"),
    ("market", "county", "sex"),
)
Record = dict[str, Any]


@dataclass(frozen=True)
class System:
    """Records, which tables of them are published, and how the call of suppress names them."""

    kind: str
    records: list[Record]
    tables: list[tuple[str, ...]]
    side: str

    @property
    def call(self) -> str:
        more = {
            "codes": ", hierarchies := {'branch': 'codes'}",
            "count": ", count := 'n'",
            "weights": ", weight := 'w'",
            "sums": ", value := 'turnover', rule := 'p%', unit := 'firm'",
        }
        sides = f"['state', 'county'], ['{self.side}'], by := [['market', 'county'], ['age']]"
        return f"'t', {sides}{more.get(self.kind, '')}"


def system(seed: int) -> System:
    """States and markets are two groupings of the same counties."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    side = "branch" if kind == "codes" else "sex"
    groups = {name: _grouping(rng, name) for name in ("state", "market")}
    records = []
    for firm in range(int(rng.integers(20, 70))):
        for _ in range(int(rng.integers(1, 3)) if kind == "sums" else 1):
            county = COUNTIES[int(rng.integers(6) * rng.random())]
            record: Record = {"county": county, "firm": firm} | {name: of[county] for name, of in groups.items()}
            record |= {name: ends[int(rng.integers(len(ends)) * rng.random())] for name, ends in SIZES.items()}
            record |= {"n": int(rng.integers(1, 4)), "w": round(float(rng.integers(10, 45)) / 10 + 0.04, 2)}
            records.append(record | {"turnover": int(np.exp(rng.normal(3, 1.2))) + 1})
    chosen = rng.choice(len(SHAPES), size=int(rng.integers(2, 4)), replace=False)
    tables = [tuple(side if name == "sex" else name for name in SHAPES[at]) for at in chosen.tolist()]
    return System(kind, records, tables, side)


def _grouping(rng: np.random.Generator, name: str) -> dict[str, str]:
    """Each county in one of two or three groups, of two counties at least, so that no group is a county."""
    count = int(rng.integers(2, 4))
    order = rng.permutation(6).tolist()
    return {COUNTIES[at]: f"{name}{i % count}" for i, at in enumerate(order)}


# --- what the tables show ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nodes:
    """The categories that a label of each dimension stands for, and what is the sum of what."""

    of: Mapping[str, Node]
    splits: tuple[Sequence[Split], ...]
    dimensions: tuple[str, ...]

    @staticmethod
    def made(asked: System) -> Nodes:
        """From the names that occur, as everybody sees them."""
        of: dict[str, Node] = {}
        present = {name: sorted({r[name] for r in asked.records}) for name in ("county", asked.side, "age")}
        splits: list[list[Split]] = []
        for name in ("county", asked.side, "age"):
            ends = [frozenset({end}) for end in present[name]]
            of |= {end: frozenset({end}) for end in present[name]}
            total = frozenset(present[name])
            of[f"all {name}"] = total
            splits.append([(total, tuple(ends))])
        for grouping in ("state", "market"):
            below: dict[str, set[str]] = defaultdict(set)
            for record in asked.records:
                below[record[grouping]].add(record["county"])
            splits[0] += _split(of, of["all county"], below)
        if asked.kind == "codes":
            below = defaultdict(set)
            for end in present["branch"]:
                below[CODES[end] or end].add(end)
            splits[1] += _split(of, of["all branch"], below)
        return Nodes(of, tuple(splits), ("county", asked.side, "age"))

    def place(self, row: Mapping[str, Any]) -> Place:
        """The cell of a row of an answer: its levels say which columns count."""
        row_level, col_level, (market_level, age_level) = row["row_level"], row["col_level"], row["by_level"]
        if row_level is not None:
            area = ("all county", row["state"], row["county"])[row_level]
        else:
            area = ("all county", row["market"], row["county"])[market_level]
        side = row[self.dimensions[1]] if col_level else f"all {self.dimensions[1]}"
        return self.of[area], self.of[side], self.of[row["age"] if age_level else "all age"]


def _split(of: dict[str, Node], total: Node, below: Mapping[str, set[str]]) -> Iterator[Split]:
    of |= {name: frozenset(ends) for name, ends in below.items()}
    yield total, tuple(frozenset(ends) for ends in below.values())
    for ends in below.values():
        yield frozenset(ends), tuple(frozenset({end}) for end in sorted(ends))


def answer(con: duckdb.DuckDBPyConnection, asked: System, tables: Sequence[tuple[str, ...]], more: str = "") -> Any:
    """The rows of a call of suppress; None where it refuses."""
    try:
        cursor = con.execute(f"FROM suppress({asked.call}, tables := {[list(table) for table in tables]}{more})")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error:
        return None


def seen(nodes: Nodes, answers: Sequence[Sequence[Mapping[str, Any]]]) -> Seen:
    """What all answers show together: a number wherever one of them has it."""
    shown: dict[Place, int | None] = {}
    for rows in answers:
        for row in rows:
            place, number = nodes.place(row), None if row["suppressed"] else int(row["value"])
            if shown.get(place) is None:
                shown[place] = number
    return Seen(shown, nodes.splits)


# --- what must stay open ----------------------------------------------------------------------------------------------


def within(record: Record, place: Place, nodes: Nodes) -> bool:
    return all(record[name] in node for name, node in zip(nodes.dimensions, place, strict=True))


def amount(kind: str, record: Record) -> int:
    """What a record adds to its cells."""
    return {"count": record["n"], "weights": int(record["w"] + 0.5), "sums": record["turnover"]}.get(kind, 1)


def demands(asked: System, nodes: Nodes, look: Seen) -> Iterator[Demand]:
    """What each rule asks for, cell by cell, and of sums of cells that are one contributor's."""
    alone: dict[Place, tuple[int, int]] = {}
    for place, number in look.shown.items():
        own = [record for record in asked.records if within(record, place, nodes)]
        total = sum(amount(asked.kind, record) for record in own)
        assert number is None or number == total, "a number of the tables is wrong"
        firms = {record["firm"] for record in own}
        if asked.kind == "sums" and len(firms) == 1:
            alone[place] = (firms.pop(), total)
        if own:
            yield from of_cell(asked.kind, place, own, total)
    for _, parts in look.equations:
        of: dict[int, list[Place]] = defaultdict(list)
        for part in parts:
            if part in alone:
                of[alone[part][0]].append(part)
        for cells in of.values():
            if len(cells) > 1:
                total = sum(alone[cell][1] for cell in cells)
                yield around(tuple(cells), total, -(-PERCENT * total // 100))


def of_cell(kind: str, place: Place, own: Sequence[Record], total: int) -> Iterator[Demand]:
    """What the rule asks for of a cell, if it finds it sensitive. own: its records."""
    if kind == "sums":
        firms: Counter[int] = Counter()
        for record in own:
            firms[record["firm"]] += record["turnover"]
        first, second = (*sorted(firms.values(), reverse=True), 0)[:2]
        # The second largest knows the largest to within what all others gave, and that must be 10 % of it.
        short = PERCENT * first - 100 * (total - first - second)
        if short > 0:
            yield around((place,), total, -(-short // 100))
    elif (total if kind == "count" else len(own)) < LEAST:
        wide = around((place,), total, -(-PERCENT * total // 100))
        yield wide if kind == "weights" else Demand((place,), 1, LEAST)


def around(cells: tuple[Place, ...], total: int, wide: int) -> Demand:
    return Demand(cells, total - max(1, wide), total + max(1, wide))


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """refused: suppress protects nothing. together, alone, jointly: whether something is exposed, see `main`.

    changed: whether something that an earlier call published is suppressed afterwards.
    """

    kind: str
    refused: bool
    sensitive: int = 0
    together: bool = False
    alone: bool | None = None
    jointly: bool = False
    changed: bool = False


def tried(con: duckdb.DuckDBPyConnection, seed: int) -> Outcome:
    asked = system(seed)
    columns = list(asked.records[0])
    con.execute(f"CREATE OR REPLACE TABLE t ({', '.join(f'{c} {_type(asked.records[0][c])}' for c in columns)})")
    con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", [[*r.values()] for r in asked.records])
    nodes = Nodes.made(asked)
    earlier = answer(con, asked, asked.tables[:1]) if asked.kind == "earlier" else []
    if earlier is None:
        return Outcome(asked.kind, True)
    more = ""
    if earlier:
        con.execute(
            f"CREATE OR REPLACE TABLE earlier AS FROM suppress({asked.call}, tables := [{list(asked.tables[0])}])"
        )
        more = ", apriori := 'earlier'"
    rows = answer(con, asked, asked.tables, more)
    if rows is None:
        return Outcome(asked.kind, True)
    look = seen(nodes, [rows, earlier])
    wanted = list(demands(asked, nodes, look))
    limit = 20 * sum(amount(asked.kind, record) for record in asked.records) + 100
    after = seen(nodes, [rows]).shown
    changed = any(after[p] != number for p, number in seen(nodes, [earlier]).shown.items() if number is not None)
    apart = [answer(con, asked, [table]) for table in asked.tables]
    alone = None if None in apart else bool(exposed(seen(nodes, apart), wanted, limit))
    return Outcome(
        asked.kind,
        False,
        len(wanted),
        bool(exposed(look, wanted, limit)),
        alone,
        bool(exposed(look, wanted, limit, jointly=True)),
        changed,
    )


def _type(example: Any) -> str:
    return {int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}[type(example)]


def main(systems: int = 200) -> int:
    """Systems until so many with sensitive cells were protected."""
    heads = "kind, systems, refused, sensitive, exposed, exposed where each table is protected alone, exposed jointly"
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("CREATE TABLE codes AS FROM (VALUES " + ", ".join(map(_line, CODES.items())) + ") v(code, parent)")
        counted, seed = 0, -1
        while counted < systems:
            seed += 1
            outcome = tried(con, seed)
            counted += outcome.sensitive > 0
            outcomes[outcome.kind].append(outcome)
            if outcome.together or outcome.changed:
                print(f"seed {seed}: exposed {outcome.together}, changed {outcome.changed}", flush=True)
    print("|", heads.replace(", ", " | "), "|")
    print("|---" * len(heads.split(", ")) + "|")
    outcomes["all"] = [outcome for own in outcomes.values() for outcome in own]
    for kind, own in outcomes.items():
        protected = [one for one in own if one.sensitive]
        apart = [one.alone for one in protected if one.alone is not None]
        print(
            f"| {kind} | {len(protected)} | {sum(one.refused for one in own)} | "
            f"{sum(one.sensitive for one in own):,} | {sum(one.together for one in own)} | "
            f"{sum(apart)} of {len(apart)} | {sum(one.jointly for one in own)} |"
        )
    return int(any(one.together or one.changed for own in outcomes.values() for one in own))


def _line(code: tuple[str, str | None]) -> str:
    return f"('{code[0]}', {'NULL' if code[1] is None else repr(code[1])})"


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
