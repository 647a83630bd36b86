"""What follows from several tables of counts and shares of one protected table together.

Readers are taken to know all these tables, the number of all records, and what combinations of values are possible: of
the hierarchy's columns, of columns whose domains are different columns of one open table, and of two columns of which
one determines the other in the records. All of that is true for the records, so assuming more of it to be known never
makes the audit weaker.

For every set S of the variables, each cell of S is at risk that holds fewer units than the threshold of S: `small`, or
`k` if that is more and S is neither public nor sensitive. It is open if some other records, from which all tables would
be the same, have none there, or as many as the threshold; where few units have so many records, another number. And
where fewer than k units agree in all variables but a sensitive one, and in that one too, other records must have
another value there. What is not proven open is not safe. The proofs are those of `engines/tables`.

What readers know of each table is in `publication_readers`. Open counts must also be `width` apart, the largest that is
asked of these tables.

The same holds for unions of cells that join several levels of one variable of S, but not all: "not white" is one. A
union of cells of one safe table is safe with it. Unions that join levels of several variables are not audited, nor are
sums of other cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from time import monotonic
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Earlier, Terms
from duckanon.functions.cell_key import key_sql
from duckanon.functions.publication_readers import Readers, rows_in
from duckanon.functions.sqltext import unit_of

if TYPE_CHECKING:
    from duckanon.engines.tables.disclosure import Known
    from duckanon.engines.tables.released import Releases
    from duckanon.engines.tables.truth import Records
    from duckanon.engines.tables.unions import Row

_Ints = npt.NDArray[np.int64]
# The most variables: more have more than a thousand sets.
MOST_VARIABLES = 10
# Seconds for one audit of all sets. Only cross-classifications of many thousand open cells take so long.
SECONDS = 900.0
_JOINT = "temp.main._dk_joint"


@dataclass(frozen=True)
class Finding:
    """What is known of the cells at risk of one set of variables, or of their unions.

    union_of: None for single cells. Otherwise the variable of which unions join levels; then `cells` and all that
    follow count combinations of levels of the other variables, by what is known of some union. sensitive: the variable
    of whose values only one is left; None for cells of few units. below: the threshold, in units. at_risk: cells of
    fewer units. determined: of them, whose number of records follows. narrow: that are known to hold 1 to below - 1
    records, or to less than `width`; or one sensitive value. unproven: of which neither is proven, nor the contrary.
    """

    variables: tuple[str, ...]
    union_of: str | None
    sensitive: str | None
    below: int
    cells: int
    at_risk: int
    determined: int
    narrow: int
    unproven: int
    width: int = 1

    @property
    def safe(self) -> bool:
        return not (self.determined or self.narrow or self.unproven)


class Joint:
    """The tables of numbers of a protected table, and its records by all their variables.

    It leaves a temporary table behind, in the auditing transaction.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, candidate: Candidate, tables: Sequence[Earlier | Terms]) -> None:
        self._con, self._policy = con, candidate.policy
        self._looked_up, self._levels = candidate.looked_up, candidate.levels
        self._width = max(table.width for table in tables)
        named = {fold(name): name for table in tables for name in (*table.given, *table.variables)}
        self.names = tuple(named.values())
        self._folded = tuple(named)
        unit = candidate.policy.privacy_unit
        own = ", ".join(f"{identifier(name)} AS v{at}" for at, name in enumerate(self.names))
        own_names = [f"v{at}" for at in range(len(self.names))]
        codes = ", ".join(
            f"system.main.dense_rank() OVER (ORDER BY v{at} ASC NULLS LAST) - 1 AS v{at}"
            for at in range(len(self.names))
        )
        columns = list(dict.fromkeys(table.perturbation.key for table in tables if table.perturbation is not None))
        keys = "".join(f", CAST({key_sql(name)[1]} AS BIGINT) AS k{at}" for at, name in enumerate(columns))
        self._readers = Readers(con, candidate, _JOINT, self._folded, columns)
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE _dk_joint AS SELECT {codes}, * EXCLUDE ({', '.join(own_names)}) FROM "
            f"(SELECT {own}, {unit_of(unit)} AS u, {candidate.records} AS n{keys} FROM {candidate.of} GROUP BY ALL)"
        ).fetchall()
        self._tables = tables
        self._until = monotonic() + SECONDS

    def findings(self) -> Iterator[Finding]:
        """Of each set of variables that has cells at risk, smaller sets first; then of each sensitive variable, and of
        unions of the cells.
        """
        from duckanon.engines.tables.truth import Records

        codes, counts, _ = self._margin(range(len(self.names)))
        if not len(codes):
            return
        levels = tuple(int(column.max()) + 1 for column in codes.T)
        records = Records(levels, codes, counts)
        releases = self._releases(records)
        sets = [
            combination for size in range(len(levels)) for combination in combinations(range(len(levels)), size + 1)
        ]
        for chosen in sets:
            yield from self._small(releases, records, chosen)
        for at, name in enumerate(self._folded):
            if name in _folds(self._policy.sensitive):
                yield from self._alike(releases, records, at)
        for chosen in sets:
            yield from self._unions(releases, records, chosen)

    # --- cells of few units -------------------------------------------------------------------------------------------

    def _small(self, releases: Releases, records: Records, chosen: tuple[int, ...]) -> Iterator[Finding]:
        from duckanon.engines.tables.disclosure import known_counts

        below = self._threshold(chosen)
        codes, counts, units = self._margin(chosen)
        few = units < below
        if not few.any():
            return
        known = known_counts(releases, records, chosen, codes[few], counts[few], below, self._left(), self._width)
        yield self._finding(chosen, len(codes), below, known)

    def _threshold(self, chosen: Sequence[int]) -> int:
        policy, own = self._policy, {self._folded[at] for at in chosen}
        linked = own.isdisjoint(_folds(policy.sensitive)) and not own <= _folds((*policy.public, *policy.hierarchy))
        return max(policy.small, policy.k) if linked else policy.small

    # --- unions of cells ----------------------------------------------------------------------------------------------

    def _unions(self, releases: Releases, records: Records, chosen: tuple[int, ...]) -> Iterator[Finding]:
        from duckanon.engines.tables.unions import known_unions

        below = self._threshold(chosen)
        codes, counts, units = self._margin(chosen)
        few = units < below
        if not few.any():
            return
        who = None if self._policy.privacy_unit is None else self._who(chosen, below)
        for column, joined in enumerate(chosen):
            rows = _rows(codes, counts, few, who, column, records.levels[joined])
            at_risk = [row for row in rows if row.at_risk(below)]
            if at_risk:
                known = known_unions(releases, records, chosen, joined, at_risk, below, self._left(), self._width)
                yield self._finding(chosen, len(rows), below, known, union_of=joined)

    def _who(self, chosen: Sequence[int], below: int) -> dict[tuple[int, ...], list[int]]:
        """The units of each cell that has fewer than `below`, as numbers."""
        keys = ", ".join(f"v{at}" for at in chosen)
        units = "system.main.dense_rank() OVER (ORDER BY u ASC NULLS LAST)"
        listed = self._con.execute(
            f"SELECT {keys}, who FROM (SELECT DISTINCT {keys}, {units} AS who FROM {_JOINT}) "
            f"QUALIFY system.main.count(*) OVER (PARTITION BY {keys}) < {below}"
        ).fetchall()
        units_of: dict[tuple[int, ...], list[int]] = {}
        for *cell, unit in listed:
            units_of.setdefault(tuple(cell), []).append(unit)
        return units_of

    # --- few units with one sensitive value ---------------------------------------------------------------------------

    def _alike(self, releases: Releases, records: Records, sensitive: int) -> Iterator[Finding]:
        from duckanon.engines.tables.disclosure import known_values

        everything = tuple(range(len(self.names)))
        # Levels of codes tell of each other, and who looks for the one is not taken to know the other.
        own = family(self._levels, self._folded[sensitive])
        others = tuple(at for at in everything if family(self._levels, self._folded[at]) != own)
        codes, _, units = self._margin(others)
        few = codes[units < self._policy.k]
        whole = records.codes[:, [*others, sensitive]]
        # Cells of these groups, group by group; a group of one cell has one value.
        inside = whole[rows_in(whole[:, :-1], few)]
        _, first, counts = np.unique(inside[:, :-1], axis=0, return_index=True, return_counts=True)
        alike = inside[first[counts == 1]]
        if not len(alike):
            return
        known = known_values(releases, records, (*others, sensitive), alike, self._left())
        yield self._finding(others, len(codes), self._policy.k, known, sensitive=sensitive)

    # --- what both need -----------------------------------------------------------------------------------------------

    def _finding(
        self,
        chosen: Sequence[int],
        cells: int,
        below: int,
        known: Known,
        *,
        union_of: int | None = None,
        sensitive: int | None = None,
    ) -> Finding:
        return Finding(
            tuple(self.names[at] for at in chosen),
            None if union_of is None else self.names[union_of],
            None if sensitive is None else self.names[sensitive],
            below,
            cells,
            len(known.determined),
            int(known.determined.sum()),
            int(known.narrow.sum()),
            int(known.unproven.sum()),
            self._width,
        )

    def _left(self) -> float:
        return max(self._until - monotonic(), 0.0)

    def _margin(self, chosen: Iterable[int]) -> tuple[_Ints, _Ints, _Ints]:
        """The cells of some variables that hold records: codes, numbers of records, numbers of units."""
        keys = [f"v{at}" for at in chosen]
        units = "system.main.sum(n)"
        if self._policy.privacy_unit is not None:
            # Records without a unit are together one.
            units = "system.main.count(DISTINCT u) + system.main.max(CASE WHEN u IS NULL THEN 1 ELSE 0 END)"
        by = f"GROUP BY {', '.join(keys)} ORDER BY {', '.join(keys)}" if keys else "HAVING system.main.count(*) > 0"
        shown = ", ".join([*keys, "CAST(system.main.sum(n) AS BIGINT) AS n", f"CAST({units} AS BIGINT) AS units"])
        fetched = self._con.execute(f"SELECT {shown} FROM {_JOINT} {by}").fetchnumpy()
        counts, units_ = (np.asarray(fetched[name]).astype(np.int64) for name in ("n", "units"))
        columns = [np.asarray(fetched[key]).astype(np.int64) for key in keys]
        codes = np.stack(columns, axis=1) if columns else np.zeros((len(counts), 0), dtype=np.int64)
        return codes, counts, units_

    def _releases(self, records: Records) -> Releases:
        from duckanon.engines.tables.released import Releases, support

        tables = self._readers.know(self._tables, records)
        for at, chosen in enumerate(self._structure(records)):
            tables.append(support(f"s{at}", chosen, records.margin(chosen)[0]))
        return Releases(records.levels, tuple(tables), records.total, self.names)

    def _structure(self, records: Records) -> list[tuple[int, ...]]:
        """Sets of variables whose possible combinations are taken for known: those that the records have."""
        known_sets = [self._used(self._policy.hierarchy)]
        tables: dict[tuple[str, str], dict[str, list[str]]] = {}
        for name in filter(self._looked_up.__contains__, self._folded):
            table, column = self._looked_up[name]
            tables.setdefault(table, {}).setdefault(column, []).append(name)
        # The table says nothing of two variables that are both looked up in one of its columns.
        known_sets += [self._used(names) for columns in tables.values() for names in product(*columns.values())]
        for number, other in permutations(range(len(self.names)), 2):
            cells, _ = records.margin((number, other))
            if len(cells) == records.levels[number] and records.levels[other] > 1:
                known_sets.append((min(number, other), max(number, other)))
        return sorted({numbers for numbers in known_sets if len(numbers) > 1})

    def _used(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(sorted(self._folded.index(name) for name in _folds(names) if name in self._folded))


def _rows(
    codes: _Ints,
    counts: _Ints,
    few: npt.NDArray[np.bool_],
    who: dict[tuple[int, ...], list[int]] | None,
    column: int,
    size: int,
) -> list[Row]:
    """The cells by the levels of all variables but one. who: the units of cells of few; None: each record is one.

    column: of the variable left out, which has `size` levels.
    """
    from duckanon.engines.tables.unions import Row

    cells: dict[tuple[int, ...], list[tuple[int, int, bool, tuple[int, ...]]]] = {}
    for code, count, is_few in zip(codes.tolist(), counts.tolist(), few.tolist(), strict=True):
        level, whole = code[column], tuple(code)
        cells.setdefault((*whole[:column], *whole[column + 1 :]), []).append((level, count, is_few, whole))
    rows = []
    for cell, members in cells.items():
        units: dict[int, int] = {}
        bits: dict[int, int] = {}
        used = 0
        for level, count, is_few, whole in members:
            if not is_few:
                continue
            if who is None:
                units[level] = ((1 << count) - 1) << used
                used += count
            else:
                units[level] = sum(1 << bits.setdefault(unit, len(bits)) for unit in who[whole])
        some = {level: count for level, count, is_few, _ in members if is_few}
        larger = tuple(level for level, _, is_few, _ in members if not is_few)
        if some:
            rows.append(Row(cell, units, some, larger, size))
    return rows


def family(levels: Mapping[str, str], name: str) -> str:
    """The column of whose codes a variable is a level, or the variable itself. name: folded."""
    return levels.get(name, name)


def _folds(names: Iterable[str]) -> set[str]:
    return {fold(name) for name in names}
