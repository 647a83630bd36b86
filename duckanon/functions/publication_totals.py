"""Which cells of a suppressed table are totals: where noisy counts are sold, readers are taken to know these.

A code with parts is one. A code without parts that lies higher than the deepest stands on each level below it, too, and
is no total on any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from duckanon.catalog.names import fold
from duckanon.catalog.publication import Candidate, Codes, Earlier, Terms
from duckanon.functions.suppressed_tables import Form, Place


@dataclass(frozen=True)
class Totals:
    """Of a table of this form. levels, codes: as in Candidate, of its columns of codes."""

    form: Form
    levels: Mapping[str, str]
    codes: Mapping[str, Codes]

    @staticmethod
    def of(form: Form, candidate: Candidate, table: Earlier | Terms) -> Totals:
        """Those of an earlier table, or of the candidate itself, which was described by these terms."""
        return Totals(form, candidate.levels, table.codes if isinstance(table, Earlier) else candidate.codes)

    def __contains__(self, place: Place) -> bool:
        nodes = []
        for (names, values), lists in zip(place, self.form.dimensions, strict=True):
            column = self.levels.get(fold(names[-1])) if names else None
            has_parts = column is None or values[-1] in self._with_parts[column]
            nodes.append(names if has_parts else lists[0])
        return tuple(nodes) not in self._inside

    @cached_property
    def _with_parts(self) -> dict[str, set[str | None]]:
        """The codes that have parts, by column."""
        return {column: {parent for _, parent in lines} for column, lines in self.codes.items()}

    @cached_property
    def _inside(self) -> set[tuple[tuple[str, ...], ...]]:
        return {table.nodes for table in self.form.tables}
