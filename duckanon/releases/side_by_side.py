"""A query over several answers: each of its numbers follows from one of them.

The answers have the query's keys in common, and so the same rows. Their cells are put below each other, with these keys
in front; in the cells of one answer the columns of all others are NULL, so that a number adds up its own cells alone.
The query stays as it is, with HAVING, windows, ROLLUP and arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import quoted
from duckanon.releases.aggregates_plan import Plan, note, width
from duckanon.releases.statistics import answer_column
from duckanon.rewrite.algebra.nodes import Node, sql
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.grouped import Grouped, Interval, Over, Rows

_ALIAS = '"_dk_answer"'


@dataclass(frozen=True)
class Part:
    """One of the answers. at: its place among them. places: of the query's aggregates, those that it has, in order."""

    at: int
    plan: Plan
    places: tuple[int, ...]

    @cached_property
    def over(self) -> Over:
        """As if it were the only one."""
        return self.plan.over

    @cached_property
    def columns(self) -> dict[str, str]:
        """Its columns' names beside those of the others, by the names that they have alone."""
        return {f"_dk_{column}": f"_dk_part{self.at}_{column}" for column in self.plan.question.columns}

    def beside(self, text: str) -> str:
        """SQL over this answer alone, as it is beside the others."""
        tree = sqlglot.parse_one(text, read=DIALECT)
        for column in tree.find_all(exp.Column):
            if not column.table and column.name in self.columns:
                column.this.set("this", self.columns[column.name])
        return sql(tree)

    def cells(self, keys: Sequence[str], columns: Sequence[str]) -> str:
        """A query for its cells: the query's keys, then all columns, NULL where they are another answer's.

        keys: as SQL over this answer alone.
        """
        own = {new: quoted([old]) for old, new in self.columns.items()}
        shown = [*keys, *(own.get(column, "NULL") for column in columns)]
        names = ", ".join(map(answer_column, self.plan.question.columns))
        return f"SELECT {', '.join(shown)} FROM {quoted(self.plan.question.path)} AS _dk_part({names})"


@dataclass(frozen=True)
class _Beside(Interval):
    """A number over one answer, as it is beside the others."""

    part: Part
    alone: Interval

    @property
    def value(self) -> str:
        return self.part.beside(self.alone.value)

    def end(self, side: str) -> str:
        return self.part.beside(self.alone.end(side))


@dataclass(frozen=True)
class SideBySide:
    """How a query follows from its answers. grouped: the query."""

    grouped: Grouped
    parts: Sequence[Part]

    @property
    def over(self) -> Over:
        if len(self.parts) == 1:
            return self.parts[0].over
        keys = shown_keys(len(self.parts[0].over.keys))
        cells = (part.cells(part.over.keys, self.columns) for part in self.parts)
        source = put_below(cells, [*keys, *(quoted([column]) for column in self.columns)])
        return Over(source, keys, self.aggregates, self.end, self.quotient)

    @property
    def columns(self) -> list[str]:
        """Of all answers beside each other."""
        return [name for part in self.parts for name in part.columns.values()]

    @property
    def aggregates(self) -> list[str]:
        """Those of the query, as SQL over these columns."""
        return [part.beside(part.over.aggregates[at]) for part, at in self._found]

    @cached_property
    def _found(self) -> list[tuple[Part, int]]:
        """Of each aggregate of the query the answer that has it, and its place there."""
        parts = {place: (part, at) for part in self.parts for at, place in enumerate(part.places)}
        return [parts[place] for place in sorted(parts)]

    def end(self, place: int, side: str) -> str:
        """Of an aggregate's interval, as SQL over these columns. Raises NotFollowed."""
        part, at = self._found[place]
        return part.beside(part.over.ends(at, side))

    def quotient(self, rows: Rows) -> Interval | None:
        """A quotient of numbers of one answer; of two nothing is known but the numbers."""
        (part, above), (other, below) = self._found[rows.above], self._found[rows.below]
        if part is not other:
            return None
        interval = part.over.quotient(Rows(rows.quotient, above, below, rows.windows))
        return None if interval is None else _Beside(part, interval)

    @property
    def noisy(self) -> list[tuple[int, float]]:
        """As of a plan."""
        return sorted(pair for part in self.parts for pair in part.plan.noisy)

    def note(self, new: Node) -> str | None:
        """As of a plan."""
        widths = [width(part.plan.told[at]) for part, at in self._found] if len(self.parts) == 1 else self.widths
        return note(self.grouped, self.over, widths, self.noisy, new)

    @property
    def widths(self) -> list[str | None]:
        """How wide the aggregates' intervals are, as SQL over these columns; None where there is none."""
        alone = [(part, width(part.plan.told[at])) for part, at in self._found]
        return [None if text is None else part.beside(text) for part, text in alone]


def shown_keys(many: int) -> list[str]:
    """Names of the query's keys in front of the columns of its answers."""
    return [f'"_dk_shown{at}"' for at in range(many)]


def put_below(cells: Iterable[str], columns: Sequence[str]) -> str:
    """What stands after FROM to read cells of several answers, below each other."""
    return f"({' UNION ALL '.join(cells)}) AS {_ALIAS}({', '.join(columns)})"
