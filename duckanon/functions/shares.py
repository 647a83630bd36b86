"""Whether a conditional table may be released: what an outsider learns from its shares about counts of records.

The outsider is taken to know the number of all records, and every share that was released of them before. A cell is
small if it holds 1 to small - 1 units (records, where the policy has no unit). A small cell is disclosed

- if its count follows, or if it follows that the count is below `small` (the bounds of Wright and Smucker for exact
  shares; those of `engines/cells/rounded.py` for rounded ones);
- or if it is all of its row: whoever is known to be in the row is then known to be in the cell.

Where columns may be linked to persons, each combination of them that is shown must hold k units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import numpy.typing as npt

from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.templates import identifier, literal, literals

# More cells than anybody reads, and more than should be audited before an answer.
_MOST = 200_000

# Ways out that are looked at when a table of shares is refused.
_MOST_COLUMNS, _MOST_DESIGNS, _DIGITS = 5, 20, (2, 1)

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Published:
    """A table of shares of the records of `source`, a table's full name in SQL.

    rows, cols: columns. tests: for each share the conditions on what is counted at all and on what is in the cell, as
    SQL; '' for none. digits: decimals of the proportion, if it is rounded. linkable: SQL of which each combination of
    values must hold k units. unit, small, k: the policy's.
    """

    source: str
    rows: Sequence[str]
    cols: Sequence[str]
    tests: Sequence[tuple[str, str]] = (("", ""),)
    digits: int | None = None
    linkable: Sequence[str] = ()
    unit: str | None = None
    small: int = 5
    k: int = 5

    @property
    def variables(self) -> list[str]:
        """What tells the cells of a row apart, as SQL."""
        conditions = [one for test in self.tests for one in test if one]
        return list(dict.fromkeys([*map(identifier, self.cols), *(f"coalesce({one}, false)" for one in conditions)]))


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells that hold records: the row's number from 0, ascending, how many records, and how many units."""

    row: _Ints
    count: _Ints
    units: _Ints


def disclosed(con: duckdb.DuckDBPyConnection, asked: Published, before: Sequence[str] = ()) -> int:
    """How many cells the shares would disclose; 0 for a safe table.

    before: what tells cells apart in shares of the same rows that were released before, as SQL. Several tables are
    audited as the one with all their variables, unrounded, which says at least as much as they do together.
    Raises InvalidInput for what is too large to be audited.
    """
    cells = _cells(con, asked, asked.variables)
    if not len(cells.row):
        return 0
    more = [one for one in before if one not in asked.variables]
    known = _rounded(con, asked, cells) if asked.digits is not None and not before else _known(cells, asked.small)
    alone = np.bincount(cells.row)[cells.row] == 1
    found = int(((known | alone) & (cells.units < asked.small)).sum())
    if more:
        joint = _cells(con, asked, [*asked.variables, *more])
        found = max(found, int((_known(joint, asked.small) & (joint.units < asked.small)).sum()))
    return found + _linked(con, asked)


def _cells(con: duckdb.DuckDBPyConnection, asked: Published, variables: Sequence[str]) -> _Cells:
    keys = [*map(identifier, asked.rows), *variables]
    named = [f"{key} AS v{at}" for at, key in enumerate(keys)]
    order = ", ".join(f"v{at}" for at in range(len(asked.rows)))
    every = "".join(f", v{at}" for at in range(len(keys)))
    place = f"system.main.dense_rank() OVER (ORDER BY {order})" if order else "1"
    found = con.execute(
        f"SELECT {place} - 1 AS place, n, CAST(units AS BIGINT) AS units FROM ("
        f"SELECT {', '.join([*named, 'system.main.count(*) AS n', f'{_units(asked)} AS units'])} FROM {asked.source} "
        f'AS "duckanon.row"{" GROUP BY ALL" if named else ""}) WHERE n > 0 ORDER BY place{every} LIMIT {_MOST + 1}'
    ).fetchnumpy()
    if len(found["n"]) > _MOST:
        raise InvalidInput(f"The shares have more than {_MOST:,} cells: ask for fewer columns.")
    return _Cells(*(np.asarray(found[name]).astype(np.int64) for name in ("place", "n", "units")))


def _units(asked: Published) -> str:
    """How many units some records are of; those without a unit are together one."""
    if asked.unit is None:
        return "system.main.count(*)"
    unit = identifier(asked.unit)
    return (
        f"system.main.count(DISTINCT {unit}) + "
        f"CASE WHEN system.main.count({unit}) < system.main.count(*) THEN 1 ELSE 0 END"
    )


def _linked(con: duckdb.DuckDBPyConnection, asked: Published) -> int:
    """How many combinations of linkable columns hold fewer than k units."""
    if not asked.linkable:
        return 0
    keys = ", ".join(f"{one} AS v{at}" for at, one in enumerate(asked.linkable))
    ((few,),) = con.execute(
        f"SELECT system.main.count(*) FROM (SELECT {keys}, {_units(asked)} AS units FROM {asked.source} "
        f'AS "duckanon.row" GROUP BY ALL) WHERE units < {asked.k}'
    ).fetchall()
    return int(few)


def _known(cells: _Cells, small: int) -> _Bools:
    """Of which cells exact shares tell the count, or that it is below `small`."""
    from duckanon.engines.cells.audit import audit_table
    from duckanon.engines.cells.reduction import reduce

    table = reduce(cells.row, cells.count)
    found = audit_table(table)
    part = cells.count // table.divisors[cells.row]
    return _told(found.lower[cells.row] * part, found.upper[cells.row] * part, cells.count, small)


def _told(lower: _Ints, upper: _Ints, count: _Ints, small: int) -> _Bools:
    if ((lower > count) | (upper < count)).any():
        raise DuckanonError("The bounds of a cell lost its count: this is a bug in duckanon, nothing was released.")
    told: _Bools = (lower == upper) | ((lower >= 1) & (upper < small))
    return told


def _rounded(con: duckdb.DuckDBPyConnection, asked: Published, cells: _Cells) -> _Bools:
    """As `_known`, from rounded shares; from exact ones where it is not known what the rounding leaves open."""
    from duckanon.engines.cells.rounded import rounded_bounds

    assert asked.digits is not None
    scale, n = 10**asked.digits, int(cells.count.sum())
    if n * (2 * scale + 1) >= 2**62 or len(asked.tests) > 1:
        return _known(cells, asked.small)
    conditions = any(map(any, asked.tests))
    if not conditions:
        row, count, rules = cells.row, cells.count, ["up"] * len(cells.row)
    else:
        halves = _halves(con, asked)
        if halves is None:
            return _known(cells, asked.small)
        row, count = halves
        # A share is rounded up at a half, so what is left of its row is rounded down.
        rules = ["down", "up"] * (len(row) // 2)
    total = np.bincount(row, count).astype(np.int64)[row]
    published = (2 * count * scale + total) // (2 * total)
    if conditions:
        published[::2] = scale - published[1::2]
    try:
        found = rounded_bounds(row, published, asked.digits, n, rules, shown=not conditions)
    except InvalidInput:
        return _known(cells, asked.small)
    return _told(found.lower, found.upper, count, asked.small)[count > 0]


def _halves(con: duckdb.DuckDBPyConnection, asked: Published) -> tuple[_Ints, _Ints] | None:
    """What a single share leaves of each row, and what it counts; None where it does not count all records of it."""
    ((of, event),) = asked.tests
    if asked.cols or not event:
        return None
    keys = [*map(identifier, asked.rows)]
    named = [f"{key} AS v{at}" for at, key in enumerate(keys)]
    of = f" FILTER (WHERE {of})" if of else ""
    found = con.execute(
        f"SELECT {', '.join([*named, 'system.main.count(*) AS n', f'system.main.count(*){of} AS counted'])}, "
        f"system.main.count(*) FILTER (WHERE coalesce({event}, false)) AS inside FROM {asked.source} "
        f'AS "duckanon.row"{" GROUP BY ALL" if named else ""} ORDER BY ALL'
    ).fetchall()
    if any(n != counted for *_, n, counted, _ in found):
        return None
    count = [part for *_, n, _, inside in found for part in (n - inside, inside)]
    return np.repeat(np.arange(len(found)), 2), np.array(count, dtype=np.int64)


def nearest(
    con: duckdb.DuckDBPyConnection, asked: Published, before: Sequence[str]
) -> list[tuple[list[str], list[str], int | None]]:
    """Safe tables of shares by the same columns, or fewer: rows, columns and decimals of each, the most telling first.

    Three at most. Where shares of the rows were released before, the rows stay.
    """
    columns = [*asked.rows, *asked.cols]
    if any(map(any, asked.tests)) or not 2 <= len(columns) <= _MOST_COLUMNS:
        return []
    fixed = f", fixed_rows := {literals(asked.rows)}" if before else ""
    designs = con.execute(
        f"SELECT rows, cols FROM table_designs({literal(asked.source)}, {literals(columns)}, "
        f"small := {asked.small}{fixed})"
    ).fetchall()
    found: list[tuple[list[str], list[str], int | None]] = []
    for digits in (None, *_DIGITS):
        for rows, cols in designs[:_MOST_DESIGNS]:
            if digits is not None and (rows, cols) != (list(asked.rows), list(asked.cols)):
                continue
            linkable = [one for one in map(identifier, [*rows, *cols]) if one in asked.linkable]
            way = replace(asked, rows=rows, cols=cols, digits=digits, linkable=linkable)
            if not disclosed(con, way, before):
                found.append((rows, cols, digits))
    return sorted(found, key=lambda way: len(way[0]) + len(way[1]), reverse=True)[:3]
