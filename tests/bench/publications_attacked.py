"""Sets of publications of random records, as `publish` lets them out, against a reader who lists all records.

Run: python -m tests.bench.publications_attacked [POPULATIONS]

The reader (`tests/bench/publication_attacker.py`) imports nothing of duckanon and sees the copies that analysts read.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import duckanon
from tests.bench.publication_attacker import ELEMENTARY, VARIABLES, Cell, Publication, broken

# Publications that are tried of each population.
TRIED = 6


def population(random: np.random.Generator) -> np.ndarray:
    """Few records, so that all worlds can be listed."""
    weights = random.dirichlet(np.full(len(ELEMENTARY), 0.35))
    return random.multinomial(int(random.integers(6, 10)), weights).astype(np.int8)


def opened(path: Path, true: np.ndarray, random: np.random.Generator) -> duckdb.DuckDBPyConnection:
    """A steward's database with the records."""
    con = duckdb.connect(str(path))
    duckanon.register(con)
    con.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER, record_key DOUBLE)").fetchall()
    for cell, count in zip(ELEMENTARY, true.tolist(), strict=True):
        for _ in range(count):
            con.execute("INSERT INTO t VALUES (?, ?, ?, ?)", [*cell, float(random.random())]).fetchall()
    con.execute("SELECT protect('t', epsilon := 1, public := ['a', 'b', 'c'], small := 3, k := 2)").fetchall()
    return con


def published(
    con: duckdb.DuckDBPyConnection, name: str, random: np.random.Generator, changes: str
) -> Publication | None:
    """A random publication that is let out; None for one that is refused."""
    by = [str(one) for one in random.permutation(list(VARIABLES))[: random.integers(1, 4)]]
    kind = str(random.choice(["counts", "shares", "suppressed", "perturbed"]))
    if kind == "shares" and len(by) < 2:
        kind = "counts"
    width = int(random.choice([1, 1, 2, 4]))
    query, asked = _release(kind, by, random, changes)
    try:
        con.execute(f"CREATE TABLE {name} AS {query}").fetchall()
        con.execute(f"SELECT publish('{name}', {asked}, width := {width})").fetchall()
    except duckdb.Error:
        return None
    return _read(con, name, kind, by, width, changes)


def _release(kind: str, by: list[str], random: np.random.Generator, changes: str) -> tuple[str, str]:
    """The query of a release, and the arguments of its publication."""
    columns = ", ".join(by)
    if kind == "counts":
        return f"SELECT {columns}, count(*) AS v FROM t GROUP BY ALL", f"variables := {by}, value := 'v'"
    if kind == "shares":
        share = f"count(*) / sum(count(*)) OVER (PARTITION BY {by[0]}) AS v"
        query = f"SELECT {columns}, {share} FROM t GROUP BY {columns}"
        return query, f"variables := {by[1:]}, given := {by[:1]}, value := 'v'"
    if kind == "perturbed":
        asked = f"variables := {by}, value := 'n', key := 'record_key', {changes}"
        return f"FROM cell_key('t', {by}, {changes})", asked
    n = int(random.integers(2, 6))
    lists = [by[:1], by[1:2], [by[2:]] if len(by) > 2 else []]
    if random.integers(2):
        lists = [by[:-1] or by, by[-1:] if len(by) > 1 else [], []]
    more = f", by := {lists[2]}" if lists[2] else ""
    if random.integers(2) and len(by) > 2 and not lists[2]:
        more += f", tables := {[by[:2], by[2:]]}"
    asked = f"variables := {by}, value := 'value', suppressed := 'suppressed'"
    return f"FROM suppress('t', {lists[0]}, {lists[1]}, n := {n}{more})", asked


def _read(con: duckdb.DuckDBPyConnection, name: str, kind: str, by: list[str], width: int, changes: str) -> Publication:
    """What analysts read."""
    cursor = con.execute(f"FROM duckanon.{name}")
    names = [column[0] for column in cursor.description]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    number = {"perturbed": "n", "suppressed": "value"}.get(kind, "v")
    # No value of these records is NULL, so that stands for a sum over the variable.
    numbers: dict[Cell, float | None] = {
        tuple((one, row[one]) for one in by if row[one] is not None): row[number] for row in rows
    }
    margins = {tuple(one for one, _ in cell) for cell in numbers} if kind == "suppressed" else {tuple(by)}
    shown = ((by[0],), tuple(by)) if kind == "shares" else tuple(sorted(margins))
    most = int(changes.split("max_deviation := ")[1].split(",")[0])
    return Publication(kind, shown, numbers, width, most)


def main(populations: int = 60) -> int:
    kinds: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    known = 0
    for seed in range(populations):
        random = np.random.default_rng(seed)
        true = population(random)
        changes = f"max_deviation := {random.integers(2, 6)}, variance := {random.choice([1, 2])}"
        with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "t.duckdb", true, random) as con:
            tried = [published(con, f"p{at}", random, changes) for at in range(TRIED)]
        out = [one for one in tried if one is not None]
        kinds.update(one.kind for one in out)
        sizes[len(out)] += 1
        cells = broken(true, out) if out else []
        known += len(cells)
        if cells:
            print(f"seed {seed}: {cells} of {[one.kind for one in out]}", flush=True)
    print(f"{populations} populations, {TRIED} publications tried of each")
    print("let out: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    print("sets by size: " + ", ".join(f"{count} of {size}" for size, count in sorted(sizes.items())))
    print(f"cells and unions broken: {known}")
    return int(known > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
