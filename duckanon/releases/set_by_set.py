"""A query with grouping sets over several answers: the rows of each set follow from answers of their own.

The cells of all answers are put below each other, each with the number of its set in front. Grouped by that number and
all keys they give the same rows; what a row tells is computed from the answers of its set. HAVING, windows, ORDER BY
and arithmetic stay as they are, over the rows of all sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duckanon.catalog.names import quoted
from duckanon.releases.aggregates_plan import note
from duckanon.releases.side_by_side import SideBySide, put_below, shown_keys
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.grouped import Grouped, Interval, Over, Rows

_SET = '"_dk_set"'


@dataclass(frozen=True)
class SetBySet:
    """How a query follows. grouped: the query. each: the answers of each of its sets."""

    grouped: Grouped
    each: Sequence[SideBySide]

    @property
    def over(self) -> Over:
        sets = self.grouped.sets
        keys = shown_keys(len(self.grouped.keys))
        columns = [name for answers in self.each for name in answers.columns]
        aggregates = [_by_set(one) for one in zip(*(answers.aggregates for answers in self.each), strict=True)]
        source = put_below(self._cells(columns), [_SET, *keys, *(quoted([column]) for column in columns)])
        return Over(source, keys, aggregates, self._end, self._quotient, (_SET, sets))

    def _cells(self, columns: Sequence[str]) -> list[str]:
        cells = []
        for at, (own, answers) in enumerate(zip(self.grouped.sets, self.each, strict=True)):
            for part in answers.parts:
                keys = dict(zip(own, part.over.keys, strict=True))
                shown = [keys.get(key, "NULL") for key in range(len(self.grouped.keys))]
                cells.append(part.cells([str(at), *shown], columns))
            if not own:
                # The total of all rows is a row where there are none, too.
                cells.append(f"SELECT {', '.join([str(at), *['NULL'] * (len(self.grouped.keys) + len(columns))])}")
        return cells

    def _end(self, place: int, side: str) -> str:
        return _by_set([answers.end(place, side) for answers in self.each])

    def _quotient(self, rows: Rows) -> Interval | None:
        """One of each set's rows by themselves; None where it adds up rows of several sets, or is not known."""
        if rows.windows != (None, None):
            return None
        intervals = [answers.quotient(rows) for answers in self.each]
        known = [interval for interval in intervals if interval is not None]
        return _OfSets(known) if len(known) == len(intervals) else None

    @property
    def noisy(self) -> list[tuple[int, float]]:
        """None, as of all queries with totals: the rows of another set have other widths."""
        return []

    def note(self, new: Node) -> str | None:
        """As of a plan."""
        widths = [
            None if None in one else _by_set([each for each in one if each is not None])
            for one in zip(*(answers.widths for answers in self.each), strict=True)
        ]
        return note(self.grouped, self.over, widths, self.noisy, new)


@dataclass(frozen=True)
class _OfSets(Interval):
    """A number of each set."""

    each: Sequence[Interval]

    @property
    def value(self) -> str:
        return _by_set([interval.value for interval in self.each])

    def end(self, side: str) -> str:
        return _by_set([interval.end(side) for interval in self.each])


def _by_set(each: Sequence[str]) -> str:
    """What a row tells, by its set."""
    cases = " ".join(f"WHEN {at} THEN {one}" for at, one in enumerate(each))
    return f"(CASE {_SET} {cases} END)"
