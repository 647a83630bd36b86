"""How far noise moves what is estimated from measured marginals, in closed form and exactly.

The estimate of each residual space is independent of the others, and its variance is that of one measurement whose
precision is the sum of all. The variances of discrete Gaussian noise are at most those of its parameter sigma^2
(Canonne, Kamath and Steinke 2020, corollary 9), and so are these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from duckanon.engines.marginals.residual_spaces import Table, part_of_a_cell, precision_of, within
from duckanon.errors import InvalidInput


@dataclass(frozen=True)
class Variances:
    """Variances of cells, and of sums of them; `linear_functions` has those of any sums, as floats.

    sizes: the cells of each attribute. precisions: the inverse variance with which each residual space is known.
    """

    sizes: tuple[int, ...]
    precisions: Mapping[Table, Fraction]

    def of_cell(self, table: Table) -> Fraction:
        """The variance of each cell of a table, exactly."""
        self._check(table)
        parts = (part_of_a_cell(self.sizes, table, space) / self.precisions[space] for space in within(table))
        return sum(parts, Fraction(0))

    def of_product(self, table: Table, factors: Sequence[Sequence[Fraction]]) -> Fraction:
        """The variance of a sum of a table's cells with weights that are products, exactly.

        factors: the weights of the cells of each of the table's attributes. A filter on keys has 1 for what is kept.
        """
        self._check(table)
        evenly, apart = {}, {}
        for at, own in zip(table, factors, strict=True):
            size = self.sizes[at]
            if len(own) != size:
                raise InvalidInput("A weight is needed for each cell of each attribute of a marginal.")
            mean = sum(own, Fraction(0)) ** 2 / size
            evenly[at], apart[at] = mean / size, sum((weight**2 for weight in own), Fraction(0)) - mean
        total = Fraction(0)
        for space in within(table):
            parts = (apart[at] if at in space else evenly[at] for at in table)
            total += prod(parts, start=1 / self.precisions[space])
        return total

    def answers(self, table: Table) -> bool:
        """Whether a table follows from what is measured."""
        return table in self.precisions

    def _check(self, table: Table) -> None:
        if not self.answers(table):
            raise InvalidInput("This marginal does not follow from those that are measured.")


def combined(sizes: Sequence[int], measured: Mapping[Table, Fraction]) -> Variances:
    """Of all measured marginals together. measured: the variance of the noise in a cell of each."""
    precisions: dict[Table, Fraction] = {}
    for table, variance in measured.items():
        for space in within(table):
            own = precision_of(sizes, table, space) / variance
            precisions[space] = precisions.get(space, Fraction(0)) + own
    return Variances(tuple(sizes), precisions)
