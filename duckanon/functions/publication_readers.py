"""What readers know of each published table of numbers.

Rounded counts are taken for exact, and shares for counts where readers know the number of records in every row.

Of a suppressed table they know which cells are suppressed, and that none of these is empty; where noisy counts are
sold, suppressed totals too. That a pattern costs least, they are not taken to work out. Where it has sums in several
linked tables, other records count as possible only if values can give them the same sums.

Of perturbed counts they know the perturbation table, and so what each cell may hold. The audit takes for known which
cells hold records. Two cells of the same records have the same perturbed count, so different ones tell that their
records differ: where two tables' cells could be the same records, a combination in which they differ is taken for known
to hold some. Nothing else follows from perturbed counts, as keys of cells are hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Earlier, Perturbation, Terms
from duckanon.functions.cell_key import ptable_of
from duckanon.functions.publication_totals import Totals
from duckanon.functions.suppressed_tables import Margin, form, place

if TYPE_CHECKING:
    from duckanon.engines.tables.released import Released
    from duckanon.engines.tables.truth import Records

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
# Shares with more decimals, or of more records, are audited as exact ones.
_MOST_DIGITS, _LARGEST = 9, 2**40
# Pairs of cells times combinations that are looked at: a few seconds.
_MOST_PAIRS = 2**27


@dataclass(frozen=True)
class Readers:
    """What is known of tables of some protected table.

    joint: a table with the codes of variables as v0, ..., numbers of records n, and sums of record keys k0, ... by the
    columns `keys`. names: of all variables, folded.
    """

    con: duckdb.DuckDBPyConnection
    candidate: Candidate
    joint: str
    names: Sequence[str]
    keys: Sequence[str]

    def know(self, tables: Sequence[Earlier | Terms], records: Records) -> list[Released]:
        """All tables as readers know them; some in several parts."""
        released: list[Released] = []
        perturbed: list[_Perturbed] = []
        for at, table in enumerate(tables):
            if table.kind == "suppressed":
                released += self._suppressed(table, f"t{at}", records)
            elif table.perturbation is None:
                released.append(self._numbers(table, f"t{at}", records))
            elif table.variables:  # the number of all records is known
                perturbed.append(self._perturbed(table.variables, table.perturbation))
        released += [perturbed_table.released(f"p{at}") for at, perturbed_table in enumerate(perturbed)]
        return [*released, *_differing(perturbed, records)]

    def _places(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.names.index(fold(name)) for name in names)

    # --- counts and shares --------------------------------------------------------------------------------------------

    def _numbers(self, table: Earlier | Terms, name: str, records: Records) -> Released:
        from duckanon.engines.tables.released import counts, shares

        given, by = self._places(table.given), self._places(table.variables)
        codes, own = records.margin((*given, *by))
        if table.kind == "counts" or self.candidate.totals:
            return counts(name, (*given, *by), codes, own)
        _, row = np.unique(codes[:, : len(given)], axis=0, return_inverse=True)
        row = row.reshape(-1)
        whole = np.bincount(row, own).astype(np.int64)[row]
        exact = [Fraction(a, b) for a, b in zip(own.tolist(), whole.tolist(), strict=True)]
        if table.digits is None or table.digits > _MOST_DIGITS or records.total * 10**table.digits >= _LARGEST:
            return shares(name, by, given, codes, exact)
        scaled = [share * 10**table.digits for share in exact]
        if any(2 * scaled_share % 2 == 1 for scaled_share in scaled):
            # It is not known any more how halves were rounded: exact shares disclose more than both ways.
            return shares(name, by, given, codes, exact)
        printed = [Fraction((scaled_share + Fraction(1, 2)) // 1, 10**table.digits) for scaled_share in scaled]
        return shares(name, by, given, codes, printed, digits=table.digits, ties="none", shown=True)

    # --- suppressed counts --------------------------------------------------------------------------------------------

    def _suppressed(self, table: Earlier | Terms, name: str, records: Records) -> Iterator[Released]:
        """The margins of a table. One that was withdrawn cannot be read any more, and all of it is taken for known."""
        from duckanon.engines.tables.released import UNBOUNDED, counts

        source = table.copy if isinstance(table, Earlier) else self.candidate.release
        if source is None:
            scope = self._places(table.variables)
            yield counts(name, scope, *records.margin(scope))
            return
        columns = table.columns if isinstance(table, Earlier) else tuple(self.candidate.columns)
        release_form = form(self.con, source, columns, table.variables)
        if table.summed and len(release_form.tables) > 1:
            yield self._summed(table.variables, f"{name}_s", records)
        totals = Totals.of(release_form, self.candidate, table)
        for at, margin in enumerate(release_form.margins):
            scope = self._places(margin.variables)
            if not scope:
                continue  # the number of all records is known
            codes, own = records.margin(scope)
            hidden = self._hidden(source, table.suppressed or "", margin, totals)
            empty = hidden[~rows_in(hidden, codes)]
            codes, own = np.vstack([codes, empty]), np.concatenate([own, np.zeros(len(empty), dtype=np.int64)])
            within = (0 if len(empty) else 1, UNBOUNDED)
            yield counts(f"{name}_{at}", scope, codes, own, suppressed=rows_in(codes, hidden), within=within)

    def _summed(self, variables: Sequence[str], name: str, records: Records) -> Released:
        """That the combinations of all variables which hold records do: so no more is asked of other records' values.

        Sums of several tables do not exclude records that have the same counts, and some in all these combinations:
        with the true sums in each of them, they have the same sums in all tables.
        """
        from duckanon.engines.tables.released import UNBOUNDED, counts

        scope = self._places(variables)
        codes, own = records.margin(scope)
        every = np.ones(len(codes), dtype=bool)
        return counts(name, scope, codes, own, suppressed=every, within=(1, UNBOUNDED), complete=False)

    def _hidden(self, source: str, suppressed: str, margin: Margin, totals: Totals) -> _Ints:
        """The codes of a margin's suppressed cells that readers do not know.

        Without those with values that no record has.
        """
        levels = [
            f"JOIN (SELECT value, system.main.dense_rank() OVER (ORDER BY value ASC NULLS LAST) - 1 AS code FROM "
            f"(SELECT DISTINCT {identifier(name)} AS value FROM {self.candidate.of})) AS l{at} "
            f"ON r.{identifier(name)} IS NOT DISTINCT FROM l{at}.value"
            for at, name in enumerate(margin.variables)
        ]
        shown = ", ".join(f"l{at}.code, CAST(l{at}.value AS VARCHAR)" for at in range(len(levels)))
        rows = self.con.execute(
            f"SELECT {shown} FROM {source} AS r {' '.join(levels)} WHERE {margin.levels} AND {identifier(suppressed)}"
        ).fetchall()
        if margin.total and self.candidate.totals:
            places = [place(margin.nodes, dict(zip(margin.variables, row[1::2], strict=True))) for row in rows]
            rows = [row for row, cell in zip(rows, places, strict=True) if cell not in totals]
        return np.array([row[::2] for row in rows], dtype=np.int64).reshape(-1, len(levels))

    # --- perturbed counts ---------------------------------------------------------------------------------------------

    def _perturbed(self, variables: Sequence[str], by: Perturbation) -> _Perturbed:
        """Perturbed counts, as `cell_key` makes them of the records as they are."""
        from duckanon.engines.suppression.cell_key import KEYS

        scope = self._places(variables)
        own = ", ".join(f"v{at}" for at in scope)
        key = f"CAST(system.main.sum(k{self.keys.index(by.key)}) % {KEYS} AS BIGINT)"
        rows = self.con.execute(
            f"SELECT {own}, CAST(system.main.sum(n) AS BIGINT), {key} FROM {self.joint} GROUP BY {own} ORDER BY {own}"
        ).fetchall()
        cells = np.array(rows, dtype=np.int64)
        ptable = ptable_of(by)
        shown = ptable.perturbed(cells[:, -2], cells[:, -1])
        low, high = ptable.possible(cells[:, -2], shown)
        return _Perturbed(scope, cells[:, :-2], shown, np.maximum(low, 1), high)


@dataclass(frozen=True, eq=False)
class _Perturbed:
    """A table of perturbed counts. codes: of its cells with records; result: what each shows; low, high: possible."""

    scope: tuple[int, ...]
    codes: _Ints
    result: _Ints
    low: _Ints
    high: _Ints

    def released(self, name: str) -> Released:
        from duckanon.engines.tables.released import Counts, Released

        return Released(name, self.scope, (), self.codes, Counts(self.low, self.high), shown=True)


def _differing(tables: Sequence[_Perturbed], records: Records) -> Iterator[Released]:
    """That some combinations hold records, by which cells of different tables with different results differ.

    Cells of one table differ in any case, and so do those of tables of which one has all variables of the other, as
    every cell that holds records is known to.
    """
    from duckanon.engines.tables.released import UNBOUNDED, counts

    for at, (left, right) in enumerate(combinations(tables, 2)):
        if set(left.scope) <= set(right.scope) or set(right.scope) <= set(left.scope):
            continue
        scope = tuple(sorted({*left.scope, *right.scope}))
        codes, own = records.margin(scope)
        chosen = _chosen(left, right, scope, codes, own)
        if chosen.any():
            hidden = np.ones(int(chosen.sum()), dtype=bool)
            some = (codes[chosen], own[chosen])
            yield counts(f"d{at}", scope, *some, suppressed=hidden, within=(1, UNBOUNDED), complete=False)


def _chosen(left: _Perturbed, right: _Perturbed, scope: Sequence[int], codes: _Ints, own: _Ints) -> _Bools:
    """Combinations, one at least for every two cells that could be the same records and have different results."""
    where = [_index(codes[:, [scope.index(v) for v in table.scope]], table.codes) for table in (left, right)]
    common = [v for v in left.scope if v in right.scope]
    _, group = np.unique(codes[:, [scope.index(v) for v in common]], axis=0, return_inverse=True)
    chosen = np.zeros(len(codes), dtype=bool)
    work = 0
    for members in np.split(
        np.argsort(group.reshape(-1), kind="stable"), np.cumsum(np.bincount(group.reshape(-1)))[:-1]
    ):
        first, second = where[0][members], where[1][members]
        ours, theirs = np.unique(first), np.unique(second)
        same = (left.low[ours, None] <= right.high[theirs]) & (right.low[theirs] <= left.high[ours, None])
        same &= left.result[ours, None] != right.result[theirs]
        work += int(same.sum()) * len(members)
        if work > _MOST_PAIRS:
            return np.ones(len(codes), dtype=bool)
        for a, b in zip(*np.nonzero(same), strict=True):
            apart = (first == ours[a]) != (second == theirs[b])
            if not (apart & chosen[members]).any():
                # The largest one: that it is not empty tells least.
                chosen[members[np.argmax(np.where(apart, own[members], -1))]] = True
    return chosen


def _index(rows: _Ints, listed: _Ints) -> _Ints:
    """For each row its number among the listed ones, which have all of them."""
    _, numbers = np.unique(np.vstack([listed, rows]), axis=0, return_inverse=True)
    place = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.int64)
    place[numbers.reshape(-1)[: len(listed)]] = np.arange(len(listed))
    return place[numbers.reshape(-1)[len(listed) :]]


def rows_in(rows: _Ints, listed: _Ints) -> _Bools:
    """Which rows are among the listed ones."""
    if not rows.shape[1]:
        return np.full(len(rows), len(listed) > 0)
    _, numbers = np.unique(np.vstack([rows, listed]), axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    return np.isin(numbers[: len(rows)], numbers[len(rows) :])
