"""Random publications of random records, and the list of all records from which the same could have been published.

Nothing of the audit is used here: a world is a count for each cell, and agrees with a publication if the publication
could have been made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import duckdb
import numpy as np

from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Earlier, Perturbation, Terms
from duckanon.engines.suppression.cell_key import KEYS, maximum_entropy
from duckanon.errors import InvalidInput
from duckanon.functions.publication_audit import audit

NAMES = ("a", "b", "c")
LEVELS = (4, 2, 2)
CELLS = list(product(*map(range, LEVELS)))
SMALL = 3
POLICY = Policy(Fraction(1), public=NAMES, small=SMALL, k=2)
MOST_JOINED = 3
Cell = tuple[int, ...]
# The cells of a table by some columns: which of the elementary cells each one joins.
Parts = dict[Cell, np.ndarray]


@dataclass(frozen=True)
class Published:
    """A publication. rows: (variables, level of each, number) of a suppressed table; numbers: of others, by cell."""

    terms: Terms
    rows: tuple[tuple[tuple[str, ...], Cell, int | None], ...] = ()
    numbers: tuple[tuple[Cell, Any], ...] = ()


def parts(by: Sequence[str]) -> Parts:
    places = [NAMES.index(name) for name in by]
    found: Parts = {}
    for at, cell in enumerate(CELLS):
        found.setdefault(tuple(cell[place] for place in places), np.zeros(len(CELLS), dtype=bool))[at] = True
    return found


@cache
def worlds(total: int) -> np.ndarray:
    """Shape (worlds, cells): all ways to have so many records."""
    found = np.zeros((1, 0), dtype=np.int8)
    left = np.array([total], dtype=np.int8)
    for _ in range(len(CELLS) - 1):
        repeat = left.astype(int) + 1
        first = np.concatenate([np.arange(one, dtype=np.int8) for one in repeat])
        found = np.hstack([np.repeat(found, repeat, axis=0), first[:, None]])
        left = np.repeat(left, repeat) - first
    return np.hstack([found, left[:, None]])


def fits(tables: np.ndarray, one: Published) -> np.ndarray:
    """Which worlds agree with a publication by itself."""
    same = np.ones(len(tables), dtype=bool)
    terms = one.terms
    if terms.kind == "suppressed":
        for by, cell, number in one.rows:
            count = tables[:, parts(by)[cell]].sum(axis=1)
            same &= (count == number) if number is not None else count >= 1
        listed = {(by, cell) for by, cell, _ in one.rows}
        for by in {by for by, _, _ in one.rows}:
            for cell, members in parts(by).items():
                if (by, cell) not in listed:
                    same &= tables[:, members].sum(axis=1) == 0
        return same
    numbers = dict(one.numbers)
    if terms.perturbation is not None:
        chances = ptable(terms.perturbation).weights
        for cell, members in parts(terms.variables).items():
            count = tables[:, members].sum(axis=1).astype(int)
            change = numbers.get(cell, 0) - count + chances.shape[1] // 2
            inside = (change >= 0) & (change < chances.shape[1])
            row = np.minimum(count, len(chances) - 1)
            same &= inside & (chances[row, np.where(inside, change, 0)] > 0)
        return same
    whole = {cell: tables[:, members].sum(axis=1) for cell, members in parts(terms.given).items()}
    for cell, members in parts(terms.columns).items():
        count = tables[:, members].sum(axis=1).astype(int)
        number = numbers.get(cell, Fraction(0))
        if terms.given:
            row = whole[cell[: len(terms.given)]].astype(int)
            same &= (count > 0) == (number > 0)
            same &= count * number.denominator == row * number.numerator
        else:
            same &= count == number
    return same


def told_apart(tables: np.ndarray, published: Sequence[Published]) -> np.ndarray:
    """Which worlds have other records wherever perturbed counts are others."""
    cells = [
        (members, dict(one.numbers).get(cell, 0))
        for one in published
        if one.terms.perturbation is not None
        for cell, members in parts(one.terms.variables).items()
    ]
    same = np.ones(len(tables), dtype=bool)
    for (one, first), (other, second) in combinations(cells, 2):
        if first != second:
            apart = tables[:, one != other].sum(axis=1)
            same &= (apart > 0) | (tables[:, one].sum(axis=1) == 0)
    return same


def agreeing(counts: np.ndarray, published: Sequence[Published]) -> np.ndarray:
    tables = worlds(int(counts.sum()))
    for one in sorted(published, key=lambda one: one.terms.kind not in ("counts", "suppressed")):
        tables = tables[fits(tables, one)]
    tables = tables[told_apart(tables, published)]
    assert len(tables)
    return tables


def broken(counts: np.ndarray, published: Sequence[Published]) -> Iterator[tuple[tuple[str, ...], Cell]]:
    """Cells, and unions of up to three levels of one variable, that are known to be small, or within the width."""
    tables = agreeing(counts, published)
    width = max(one.terms.width for one in published)
    used = [name for name in NAMES if any(name in one.terms.columns for one in published)]
    for by in (by for size in range(1, len(used) + 1) for by in combinations(used, size)):
        for cell, members in unions(by):
            if not 0 < counts[members].sum() < SMALL:
                continue
            possible = tables[:, members].sum(axis=1)
            if (possible.min() > 0 and possible.max() < SMALL) or possible.max() - possible.min() < width:
                yield by, cell


def unions(by: Sequence[str]) -> Iterator[tuple[Cell, np.ndarray]]:
    known = parts(by)
    yield from known.items()
    for at, name in enumerate(by):
        levels = LEVELS[NAMES.index(name)]
        for rest in {(*cell[:at], *cell[at + 1 :]) for cell in known}:
            for size in range(2, min(MOST_JOINED, levels - 1) + 1):
                for joined in combinations(range(levels), size):
                    yield rest, np.any([known[(*rest[:at], one, *rest[at:])] for one in joined], axis=0)


@cache
def ptable(by: Perturbation) -> Any:
    return maximum_entropy(by.max_deviation, by.variance, by.threshold)


# --- what is published ------------------------------------------------------------------------------------------------


def filled(con: duckdb.DuckDBPyConnection, counts: np.ndarray, random: np.random.Generator) -> None:
    """The records, with their keys."""
    con.execute("CREATE OR REPLACE TABLE t (a INTEGER, b INTEGER, c INTEGER, record_key DOUBLE)").fetchall()
    records = [cell for cell, count in zip(CELLS, counts.tolist(), strict=True) for _ in range(count)]
    for cell in records:
        con.execute("INSERT INTO t VALUES (?, ?, ?, ?)", [*cell, random.integers(KEYS) / KEYS]).fetchall()


def perturbation(random: np.random.Generator) -> Perturbation:
    """The same for all publications of some records: any other is refused."""
    return Perturbation("record_key", int(random.integers(2, 6)), float(random.choice([1.0, 2.0])), 0)


def chosen(random: np.random.Generator, by: Perturbation) -> Terms:
    """How something is published: every kind as often."""
    order = [str(one) for one in random.permutation(NAMES)[: random.integers(1, 4)]]
    width = int(random.choice([1, 1, 2, 4]))
    kind = random.integers(4)
    if kind == 0 and len(order) > 1:
        return Terms(tuple(order[1:]), (order[0],), "v", width=width)
    if kind == 1:
        return Terms(tuple(order), (), "v", perturbation=by, width=width)
    if kind == 2:
        return Terms(tuple(order), (), "value", suppressed="suppressed", width=width)
    return Terms(tuple(order), (), "v", width=width)


def made(con: duckdb.DuckDBPyConnection, terms: Terms, random: np.random.Generator) -> None:
    """The release in the table `made`."""
    by = ", ".join(terms.columns)
    if terms.kind == "suppressed":
        _suppress(con, shape(terms.variables, random), int(random.integers(2, 4)), random)
        return
    if terms.perturbation is not None:
        more = f"max_deviation := {terms.perturbation.max_deviation}, variance := {terms.perturbation.variance}"
        query = f"SELECT {by}, n AS v FROM cell_key('t', {list(terms.variables)}, {more})"
    else:
        share = f" / sum(count(*)) OVER (PARTITION BY {', '.join(terms.given)})" if terms.given else ""
        query = f"SELECT {by}, count(*){share} AS v FROM t GROUP BY {by}"
    con.execute(f"CREATE OR REPLACE TABLE made AS {query}").fetchall()


@dataclass(frozen=True)
class Shape:
    """A call of suppress. lists: its rows, its cols, and each of by; two that end alike are over one dimension.

    tables: None for one with everything.
    """

    lists: tuple[tuple[str, ...], ...]
    tables: tuple[tuple[str, ...], ...] | None = None

    @property
    def call(self) -> str:
        rows, cols, *by = map(list, self.lists)
        more = f", by := {by}" if by else ""
        return f"suppress('t', {rows}, {cols}{more}{f', tables := {[*map(list, self.tables)]}' if self.tables else ''}"

    def has(self, levels: Sequence[int]) -> bool:
        """Whether a table has the cells with these levels in the lists, which are all dimensions of their own."""
        named = {name for level, one in zip(levels, self.lists, strict=True) for name in one[:level]}
        return self.tables is None or any(named <= set(one) for one in self.tables)


def shape(by: Sequence[str], random: np.random.Generator) -> Shape:
    """Rows and columns; or, as often, further dimensions or hierarchies, or linked tables. by: what the lists name."""
    rows = int(random.integers(1, len(by) + 1))
    plain = Shape((tuple(by[:rows]), tuple(by[rows:])))
    first, *rest = ((name,) for name in by)
    apart = (first, rest[0] if rest else (), *rest[1:])
    others = [plain]
    if len(by) == 2:
        others.append(Shape(apart, (first, rest[0])))
    if len(by) == 3:
        x, y, z = by
        pairs = ((x, y), (y, z), (x, z))
        others = [Shape(apart), Shape(apart, pairs[:2]), Shape(apart, pairs), Shape(apart, ((x, y), (z,)))]
        others.append(Shape(((x, y), (), (z, y))))
    return plain if random.integers(2) else others[int(random.integers(len(others)))]


def _suppress(con: duckdb.DuckDBPyConnection, asked: Shape, n: int, random: np.random.Generator) -> None:
    """As suppress does it; or, as often, with any cells that are not empty."""
    named = [name for one in asked.lists for name in one]
    shares = len(set(named)) < len(named)
    if shares or random.integers(2):
        try:
            con.execute(f"CREATE OR REPLACE TABLE made AS FROM {asked.call}, n := {n})").fetchall()
        except duckdb.Error:  # too few records to protect them
            pass
        else:
            return
    if shares:
        asked = Shape((tuple(dict.fromkeys(named)), ()))
    sets = ", ".join(f"ROLLUP ({', '.join(own)})" for own in asked.lists if own)
    row, col, *more = (" + ".join(["0::BIGINT", *(f"1 - GROUPING({name})" for name in own)]) for own in asked.lists)
    levels = f"{row} AS row_level, {col} AS col_level" + (f", [{', '.join(more)}] AS by_level" if more else "")
    names = ", ".join(name for one in asked.lists for name in one)
    con.execute(
        f"CREATE OR REPLACE TABLE made AS SELECT {names}, {levels}, count(*) AS value FROM t GROUP BY {sets}"
    ).fetchall()
    shown = "row_level, col_level" + ", by_level" * bool(more)
    for row, col, *by in con.execute(f"SELECT DISTINCT {shown} FROM made").fetchall():
        if not asked.has([row, col, *(by[0] if by else [])]):
            same = f"row_level = {row} AND col_level = {col}" + (f" AND by_level = {by[0]}" if by else "")
            con.execute(f"DELETE FROM made WHERE {same}").fetchall()
    con.execute("CREATE OR REPLACE TABLE made AS FROM made ORDER BY ALL").fetchall()
    ((size,),) = con.execute("SELECT count(*) FROM made").fetchall()
    con.execute("ALTER TABLE made ADD COLUMN suppressed BOOLEAN").fetchall()
    hidden = np.flatnonzero(random.random(size) < 0.4).tolist()
    con.execute(f"UPDATE made SET suppressed = list_contains({hidden}::BIGINT[], rowid)").fetchall()
    con.execute("UPDATE made SET value = NULL WHERE suppressed").fetchall()


def published(con: duckdb.DuckDBPyConnection, terms: Terms) -> Published:
    """What readers see of the table `made`."""
    if terms.kind == "suppressed":
        found = con.execute(f"SELECT {', '.join(terms.variables)}, value FROM made").fetchall()
        rows = []
        for *cell, number in found:
            by = tuple(name for name, level in zip(terms.variables, cell, strict=True) if level is not None)
            rows.append((by, tuple(one for one in cell if one is not None), number))
        return Published(terms, rows=tuple(rows))
    found = con.execute(f"SELECT {', '.join(terms.columns)}, v FROM made").fetchall()
    numbers = ((tuple(cell), Fraction(v).limit_denominator(100) if terms.given else int(v)) for *cell, v in found)
    return Published(terms, numbers=tuple(numbers))


def let_out(con: duckdb.DuckDBPyConnection, wanted: Sequence[Terms], random: np.random.Generator) -> list[Published]:
    """Those of some publications that the audit lets out, one after the other."""
    out: list[Published] = []
    earlier: list[Earlier] = []
    for terms in wanted:
        made(con, terms, random)
        columns, source = (
            {name: kind for name, kind, *_ in con.execute(f"DESCRIBE {table}").fetchall()} for table in ("made", "t")
        )
        asked = Candidate("made", "t", "made", "main.t", terms, columns, source, POLICY, False, tuple(earlier))
        try:
            audit(con, replace(asked, content=f"{len(out)}"))
        except InvalidInput:
            continue
        copy = f"copy_{len(out)}"
        con.execute(f"CREATE OR REPLACE TABLE {copy} AS FROM made").fetchall()
        earlier.append(
            Earlier(
                copy,
                terms.kind,
                tuple(columns),
                terms.variables,
                terms.given,
                None,
                None,
                f"{len(out)}",
                True,
                copy,
                terms.suppressed,
                terms.perturbation,
                terms.width,
            )
        )
        out.append(published(con, terms))
    return out


def population(random: np.random.Generator) -> np.ndarray:
    """Few records, so that all worlds can be listed."""
    weights = random.dirichlet(np.full(len(CELLS), 0.35))
    return random.multinomial(int(random.integers(6, 10)), weights)
