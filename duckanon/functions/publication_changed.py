"""Whether sums that `cell_key` perturbed may be published: what readers learn about contributions, and about records.

About contributions: a sum is changed by v / d of `magnitude` times the largest contribution, where v is one of the
changes that the perturbation table's last row has, and d the largest of them. Readers are taken to know everything but
one contribution of a cell, the largest or the second largest, and the perturbation table. What they hold for possible
is listed: it must reach over twice 10 % of the contribution. So changes that rounding takes away count as none.

About records: perturbed sums tell no more than perturbed counts of the same cells. For whatever records readers hold
for possible by these, values can be put into each cell that give its sum without a change, which the table must allow.
That holds for one table of sums of a column: its cells have no record in common. A second one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Perturbation
from duckanon.errors import InvalidInput
from duckanon.functions.cell_key import key_sql, looked_up, ptable_of
from duckanon.functions.publication_numbers import number
from duckanon.functions.publication_sums import CHANGED, NARROWEST, amount, check_summed, digits_of, units_of

if TYPE_CHECKING:
    from duckanon.engines.suppression.cell_key import PTable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# How near to a half of a unit no change is taken to be rounded for sure.
_TIE = 1e-6


def check_changed_sums(con: duckdb.DuckDBPyConnection, candidate: Candidate, by: Perturbation) -> None:
    """Raises InvalidInput for perturbed sums that are not what the records give, or that tell too much."""
    ptable = _ptable(con, candidate, by)
    published, cells = _published(con, candidate, by)
    shown = np.array([_units(candidate, written) for written in published], dtype=np.int64)
    wrong = int((np.abs(shown - cells.sums - _changes(candidate, ptable, cells)) > 0.5 + _TIE).sum())
    if wrong:
        raise InvalidInput(
            f"{wrong} of the {len(published)} sums are not what cell_key makes of {candidate.label} with magnitude "
            f"{candidate.terms.magnitude:g}: make the release again from the table as it is."
        )
    _check_open(candidate, ptable, cells, shown)


def check_sums_before(con: duckdb.DuckDBPyConnection, candidate: Candidate, by: Perturbation) -> None:
    """Raises InvalidInput where the perturbed sums that cell_key would make of the records would tell too much.

    There is no release yet: the candidate's columns say how many decimals it would have.
    """
    ptable = _ptable(con, candidate, by)
    count, key = "system.main.count(*)", f"CAST({looked_up(key_sql(by.key)[1])} AS BIGINT)"
    rows = con.execute(f"SELECT s, top, h, n, k {_made(candidate, by, [f'{count} AS n', f'{key} AS k'])}").fetchall()
    counts, keys = (np.array([row[at] for row in rows], dtype=np.int64) for at in (3, 4))
    cells = _Cells.of([row for row, n in zip(rows, ptable.changed(counts, keys).tolist(), strict=True) if n])
    change = _changes(candidate, ptable, cells)
    rounded = np.sign(change) * np.floor(np.abs(change) + 0.5)  # as DuckDB rounds
    _check_open(candidate, ptable, cells, cells.sums + rounded.astype(np.int64))


@dataclass(frozen=True)
class _Cells:
    """What the records have in each cell, in units: sums, the two largest contributions, and keys by which sums change.

    Shape (cells,) each.
    """

    sums: Ints
    first: Ints
    second: Ints
    keys: Ints

    @staticmethod
    def of(rows: Sequence[Sequence[Any]]) -> _Cells:
        """From rows that begin with a sum, a list of the two largest contributions, and a key."""
        numbers = [[int(s), int(top[0]), int(top[1]) if len(top) > 1 else 0, h] for s, top, h, *_ in rows]
        return _Cells(*np.array(numbers, dtype=np.int64).reshape(-1, 4).T)


def _ptable(con: duckdb.DuckDBPyConnection, candidate: Candidate, by: Perturbation) -> PTable:
    """The perturbation table. Raises InvalidInput for sums or tables of which nothing can be proven."""
    if candidate.policy.privacy_unit is not None:
        raise InvalidInput(
            f"The policy of {candidate.label} has a privacy unit, and cell_key changes sums by the largest record: "
            "publish its counts alone, or sums with suppressed cells."
        )
    check_summed(con, candidate)
    ptable = ptable_of(by)
    if not ptable.weights[-1, ptable.most]:
        raise InvalidInput("The perturbation table changes every sum, of which nothing is proven: choose another.")
    return ptable


def _changes(candidate: Candidate, ptable: PTable, cells: _Cells) -> Floats:
    """The change of each cell's sum, in units, before it is rounded."""
    last = np.full(len(cells.keys), len(ptable.weights) - 1)
    changes: Floats = (ptable.changed(last, cells.keys) - last) / ptable.most * (candidate.terms.magnitude or 0.0)
    return changes * cells.first


def _check_open(candidate: Candidate, ptable: PTable, cells: _Cells, shown: Ints) -> None:
    """Raises InvalidInput where the sums that are shown leave too little open about the two largest contributions."""
    changes = (np.flatnonzero(ptable.weights[-1]) - ptable.most) / ptable.most * (candidate.terms.magnitude or 0.0)
    narrow = np.zeros(len(shown), dtype=bool)
    for own, other in ((cells.first, cells.second), (cells.second, cells.first)):
        low, high = possible(shown - (cells.sums - own), other, changes)
        narrow |= (100 * (high - low) < 2 * NARROWEST * own) & (own > 0)
    if narrow.any():
        raise InvalidInput(
            f"{candidate.name} is not published: of {int(narrow.sum())} of its {len(shown)} sums, who knows all other "
            f"contributions of the cell can estimate one to within {NARROWEST:g} %. Choose a larger magnitude, or "
            "larger digits where sums are small."
        )


def possible(left: Ints, other: Ints, changes: npt.NDArray[np.float64]) -> tuple[Ints, Ints]:
    """The least and the largest contribution that the published sums allow, shape (cells,), in units.

    left: the published sums without all contributions but one. other: the largest of these. changes: that the sum may
    have, in shares of the largest contribution. Where a change may be rounded to both sides it is left out.
    """
    low, high = np.full(len(left), np.iinfo(np.int64).max), np.full(len(left), -1, dtype=np.int64)
    for change in changes.tolist():
        candidates = [left - np.rint(change * other).astype(np.int64)]
        if 1 + change > _TIE:
            near = np.floor(left / (1 + change)).astype(np.int64)
            candidates += [near - 1, near, near + 1, near + 2]
        for own in candidates:
            largest = np.maximum(own, other)
            fits = (own >= 0) & (np.abs(own + change * largest - left) < 0.5 - _TIE)
            low, high = np.where(fits, np.minimum(low, own), low), np.where(fits, np.maximum(high, own), high)
    return np.where(high < 0, 0, low), np.maximum(high, 0)


def _published(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, by: Perturbation
) -> tuple[list[str | None], _Cells]:
    """The sums of the release, as text, and what the records have in its cells."""
    keys = list(map(identifier, candidate.terms.variables))
    same = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys) or "true"
    rows = con.execute(
        f"SELECT a.s, a.top, a.h, CAST(b.{identifier(CHANGED)} AS VARCHAR) FROM {candidate.release} AS b "
        f"JOIN (SELECT * {_made(candidate, by)}) AS a ON {same}"
    ).fetchall()
    return [row[-1] for row in rows], _Cells.of(rows)


def _made(candidate: Candidate, by: Perturbation, more: Sequence[str] = ()) -> str:
    """What stands after SELECT and its columns: each cell with s, top and h, as in `_Cells.of`, and more."""
    keys = list(map(identifier, candidate.terms.variables))
    hashed = looked_up(key_sql(by.key)[1], fold(candidate.terms.sum or ""))
    largest = f"system.main.max({units_of('x', candidate)}, 2)"
    measures = [
        f"{units_of('system.main.sum(x)', candidate)} AS s",
        f"{largest} AS top",
        f"CAST({hashed} AS BIGINT) AS h",
    ]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return (
        f"FROM (SELECT {', '.join([*keys, *measures, *more])} "
        f"FROM (SELECT *, {amount(candidate)} AS x FROM {candidate.of}){grouped})"
    )


def _units(candidate: Candidate, written: str | None) -> int:
    """A published sum in units of its last decimal. Raises InvalidInput for NULL, and for more decimals."""
    units = None if written is None else number(written) * 10 ** digits_of(candidate)
    if units is None or units.denominator != 1:
        raise InvalidInput(f'Column "{CHANGED}" holds the sums as cell_key gives them, and no NULL: publish these.')
    return int(units)
