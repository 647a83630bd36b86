"""Bounds from several released tables at once: real tables, growth, and two twins in the same run.

Run: python -m tests.bench.tables FOLDER [--short]

FOLDER holds czech_autoworkers.csv, adult.parquet and nltcs.csv; without it, what is made here is measured alone.
--short leaves the random sets out. The twins are enumeration of all tables, on random small sets, and one integer
program of HiGHS for each bound over the whole cross-classification (`milp` of scipy), on the Czech tables. Both must
agree, or the run stops. Seconds are those of the processor, which one thread uses; each figure is one run, after a
first one that compiles. "proven": share of the target's cells whose both bounds are reached by whole tables.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
from hypothesis import HealthCheck, given, settings
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from duckanon.engines.tables.audit import audit
from duckanon.engines.tables.bounds import TargetBounds, bounds_around, table_bounds
from duckanon.engines.tables.cells import group, keys, product
from duckanon.engines.tables.model import build
from duckanon.engines.tables.part import part_around
from duckanon.engines.tables.released import Released, Releases, counts, shares
from duckanon.engines.tables.search import Search
from duckanon.engines.tables.truth import Records, records
from tests.engines.tables import plain
from tests.engines.tables.strategies import Case, cases

MANY = 2000


class Data:
    """Records with named variables, and tables of them as an agency would print them."""

    def __init__(self, truth: Records, names: Sequence[str]) -> None:
        self.truth, self.names = truth, list(names)

    def positions(self, names: str) -> list[int]:
        return [self.names.index(name) for name in names.split()]

    def counts(self, names: str) -> Released:
        variables = self.positions(names)
        return counts(names, variables, *self.truth.margin(variables))

    def shares(self, names: str, given: str, digits: int | None = None) -> Released:
        of, on = self.positions(names), self.positions(given)
        codes, sizes = self.truth.margin([*on, *of])
        row, _ = group(codes[:, : len(on)])
        totals = np.bincount(row, weights=sizes).astype(int)
        values = [Fraction(int(n), int(totals[r])) for n, r in zip(sizes, row, strict=True)]
        if digits is not None:
            values = [plain.rounded(value, Fraction(1, 10**digits)) for value in values]
        return shares(f"{names} | {given}", of, on, codes, values, digits=digits)

    def releases(self, *tables: Released) -> Releases:
        return Releases(self.truth.levels, tables, self.truth.total)

    def bound(self, label: str, target: str, *tables: Released, listed: bool = False, limit: float = 60.0) -> None:
        """Bound a target and print a line; the true counts must lie inside."""
        variables = self.positions(target)
        codes, sizes = self.truth.margin(variables)
        releases = self.releases(*tables)
        start = time.process_time()
        found = table_bounds(releases, variables, codes if listed else None, time_limit=limit)
        seconds = time.process_time() - start
        levels = [self.truth.levels[v] for v in variables]
        true = dict(zip(keys(codes, levels).tolist(), sizes.tolist(), strict=True))
        of = np.array([true.get(key, 0) for key in keys(found.codes, levels).tolist()])
        assert ((found.lower <= of) & (of <= found.upper)).all(), label
        small = (of > 0) & (of < 5)
        disclosed = int((found.disclosed & small).sum())
        print(
            f"| {label} | {len(of):,} | {found.exact.mean():.0%} | {disclosed} of {small.sum()} | {seconds:.2f} |",
            flush=True,
        )


def read(query: str, names: Sequence[str], counted: bool) -> Data:
    """Records from a query: the variables, and the count where there is one."""
    with duckdb.connect() as con:
        columns = con.execute(query).fetchnumpy()
    codes, levels = [], []
    for name in names:
        values, code = np.unique(np.asarray(columns[name]).astype(str), return_inverse=True)
        codes.append(code)
        levels.append(len(values))
    sizes = columns["count"].astype(np.int64) if counted else None
    return Data(records(levels, np.stack(codes, axis=1), sizes), names)


def enumeration() -> None:
    checked, cells, proven = 0, 0, 0

    @settings(max_examples=MANY, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases())
    def compare(case: Case) -> None:
        nonlocal checked, cells, proven
        releases = Releases(case.levels, tuple(one.released() for one in case.published), case.n)
        found = table_bounds(releases, case.target)
        ours = {tuple(c): (a, b) for c, a, b in zip(found.codes.tolist(), found.lower, found.upper, strict=True)}
        for cell, ends in plain.bounds(case.levels, case.published, [case.n], case.target).items():
            assert ours.get(cell, (0, 0)) == ends, case
        checked, cells, proven = checked + 1, cells + len(found.codes), proven + int(found.exact.sum())

    compare()
    print(f"Random sets of 1 to 4 tables against enumeration: {checked:,} sets, {cells:,} cells, {proven:,} proven.")


def by_programs(releases: Releases, target: Sequence[int]) -> tuple[TargetBounds, float]:
    """One integer program for each bound, over all cells of the target."""
    model = build(releases, part_around(releases, frozenset(target)), target, None)
    system = model.system
    matrix = csr_array((system.coefficient, system.column, system.start), shape=(system.rows, system.columns))
    rows, box = LinearConstraint(matrix, system.least, system.most), Bounds(system.lower, system.upper)
    ends = np.zeros((2, len(model.codes)), dtype=np.int64)
    start = time.process_time()
    for cell, column in enumerate(model.column):
        for which, sign in enumerate((1, -1)):
            cost = np.zeros(system.columns)
            cost[column] = sign
            answer = milp(cost, constraints=rows, bounds=box, integrality=np.ones(system.columns))
            ends[which, cell] = model.scale[cell] * round(sign * answer.fun)
    return TargetBounds(model.codes, ends[0], ends[1], ends[0], ends[1]), time.process_time() - start


def czech(folder: Path) -> None:
    with duckdb.connect() as con:
        names = [row[0] for row in con.execute(f"DESCRIBE FROM '{folder}/czech_autoworkers.csv'").fetchall()][:-1]
    data = read(f"FROM '{folder}/czech_autoworkers.csv'", names, counted=True)
    data.names = list("ABCDEF")
    everything = list(range(6))
    sets: dict[str, tuple[str, ...]] = {"[BF][ABCE][ADE]": ("B F", "A B C E", "A D E")}
    sets |= {f"all {k}-way": tuple(map(" ".join, combinations("ABCDEF", k))) for k in (2, 3, 4, 5)}
    print("\nCzech autoworkers, 64 cells; HiGHS: one integer program for each bound.\n")
    print("| released | proven | seconds | HiGHS, seconds |\n|---|---|---|---|")
    for label, each in sets.items():
        releases = data.releases(*map(data.counts, each))
        start = time.process_time()
        found = table_bounds(releases, everything)
        seconds = time.process_time() - start
        twin, others = by_programs(releases, everything)
        twin = twin.ordered()
        assert (found.lower == twin.lower).all(), label
        assert (found.upper == twin.upper).all(), label
        print(f"| {label} | {found.exact.mean():.0%} | {seconds:.2f} | {others:.2f} |", flush=True)
    print("\nOne conditional through the general search, against `engines/cells`:\n")
    print("| shares | cells | differ | search, seconds | cells, seconds |\n|---|---|---|---|---|")
    for of, on, digits in (
        ("A", "B C", None),
        ("A", "B C D", None),
        ("A B", "C D", None),
        ("A", "B C D E", None),
        ("A", "B C", 2),
        ("A B", "C D", 2),
        ("A", "B C D", 2),
    ):
        releases = data.releases(data.shares(of, on, digits))
        target = data.positions(f"{on} {of}")
        start = time.process_time()
        known = table_bounds(releases, target)
        cells = time.process_time() - start
        start = time.process_time()
        model = build(releases, part_around(releases, frozenset(target)), target, known.codes)
        ends = Search(model.system, 60).run(np.unique(model.column))
        seconds = time.process_time() - start
        low, high = model.scale * ends.lower[model.column], model.scale * ends.upper[model.column]
        differ = int(((low != known.lower) | (high != known.upper)).sum())
        exact = "exact" if digits is None else f"{digits} digits"
        print(f"| {of} \\| {on}, {exact} | {len(low)} | {differ} | {seconds:.2f} | {cells:.3f} |", flush=True)


def adult(folder: Path) -> None:
    names = "age workclass education marital_status occupation race sex native_country".split()
    with duckdb.connect() as con:
        columns = [row[0] for row in con.execute(f"DESCRIBE FROM '{folder}/adult.parquet'").fetchall()]
    names = [name if name in columns else name.replace("_", "-") for name in names]
    data = read(f"FROM '{folder}/adult.parquet'", names, counted=False)
    data.names = "age work edu mar occ race sex country".split()
    cells = float(np.prod([float(size) for size in data.truth.levels]))
    print(f"\nAdult, {data.truth.total:,} records, eight variables, {cells:.2g} cells.\n")
    print("| released | target's cells | proven | small cells disclosed | seconds |\n|---|---|---|---|---|")
    three = [data.counts(one) for one in ("edu occ sex", "mar occ race", "work sex race")]
    data.bound("three 3-way margins, target 4-way", "edu occ sex race", *three)
    three = [data.counts(one) for one in ("work occ sex", "mar occ race", "work mar sex")]
    data.bound("three overlapping 3-way margins, target 4-way", "work mar occ sex", *three)
    exact = data.shares("occ", "edu sex"), data.shares("sex", "mar race"), data.counts("edu race")
    data.bound("two exact conditionals and a margin", "edu sex race", *exact)
    rounded = data.shares("occ", "edu", 2), data.shares("sex", "occ", 2), data.counts("edu")
    data.bound("two conditionals at 2 digits and a margin", "edu occ", *rounded)


def nltcs(folder: Path) -> None:
    names = [f"v{i}" for i in range(1, 17)]
    data = read(f"FROM '{folder}/nltcs.csv'", names, counted=True)
    print("\nNLTCS, 16 binary variables.\n")
    print("| released | target's cells | proven | small cells disclosed | seconds |\n|---|---|---|---|---|")
    chain = [data.counts(f"v{i} v{i + 1} v{i + 2}") for i in range(1, 15, 2)] + [data.counts("v15 v16")]
    data.bound("chain of 3-way margins, cells with records", " ".join(names), *chain, listed=True)
    data.bound("chain of 3-way margins, all cells", " ".join(names), *chain)
    eight = names[:8]
    for ways in (2, 3):
        every = [data.counts(" ".join(one)) for one in combinations(eight, ways)]
        data.bound(f"all {ways}-way margins of eight variables, 60 s", " ".join(eight), *every)


def cube() -> None:
    rng = np.random.default_rng(1)
    size = 22
    effects = rng.normal(0, 1, (3, size))
    shape = effects[0][:, None, None] + effects[1][None, :, None] + effects[2][None, None, :]
    chances = np.exp(shape + rng.normal(0, 0.7, (size,) * 3))
    true = rng.multinomial(20_000, (chances / chances.sum()).ravel())
    cells = product((size,) * 3)
    data = Data(records((size,) * 3, cells, true), "a b c".split())
    pairs = [data.counts(" ".join(pair)) for pair in combinations("abc", 2)]
    releases = data.releases(*pairs)
    print(f"\n{size} x {size} x {size}, 20,000 records (log-normal chances), its three 2-way margins.\n")
    for width in (1, 3):
        start = time.process_time()
        found = audit(releases, data.truth, (0, 1, 2), width=width, time_limit=60)
        seconds = time.process_time() - start
        print(
            f"Audit of {len(found.codes):,} small cells, at least {width} between the ends: {found.safe.sum():,} safe, "
            f"{found.narrow.sum()} narrow, {found.disclosed.sum()} disclosed: {seconds:.2f} s.",
            flush=True,
        )
    start = time.process_time()
    some = bounds_around(
        releases, part_around(releases, frozenset(range(3))), (0, 1, 2), cells[:: len(cells) // 100][:100], 60, None
    )
    seconds = time.process_time() - start
    print(f"Bounds of {len(some.codes)} cells: {some.exact.mean():.0%} proven: {seconds:.2f} s.", flush=True)


def warm() -> None:
    """Compile what will be measured."""
    truth = records((2, 2, 2), product((2, 2, 2)), [9, 1, 8, 7, 6, 5, 3, 2])
    data = Data(truth, "a b c".split())
    for tables in (
        [data.counts(pair) for pair in ("a b", "b c", "a c")],
        [data.shares("a", "b"), data.counts("b c"), data.counts("c a")],
        [data.shares("a", "b")],
        [data.shares("a", "b", 1)],
    ):
        releases = data.releases(*tables)
        target = sorted({v for table in tables for v in table.scope})
        table_bounds(releases, target)
        audit(releases, truth, target, width=3)


def main() -> int:
    warm()
    if "--short" not in sys.argv:
        enumeration()
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        czech(folder)
        adult(folder)
        nltcs(folder)
    cube()
    return 0


if __name__ == "__main__":
    sys.exit(main())
