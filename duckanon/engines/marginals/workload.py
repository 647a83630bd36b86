"""The marginals that are to be answered together."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from duckanon.engines.marginals.residual_spaces import Table, closure
from duckanon.errors import InvalidInput

# The most pairs of a table and a residual space within it: what a plan's size and seconds grow with.
MOST_PAIRS = 1_000_000


@dataclass(frozen=True)
class Workload:
    """Marginals over attributes whose cells are known beforehand.

    A record gives each attribute a vector of whole numbers of zero or more that add up to the attribute's `parts`: for
    a key that is 1 in the cell of its value. A number x of 0 to s steps is one too, with s - x in one cell and x in the
    other, and s parts; with squares, (s - x)^2, 2 x (s - x) and x^2, and s^2 parts (the Bernstein polynomials). A table
    has for each record the product of the vectors of its attributes. So a record changes it by the product of the parts
    at most, in L2, and tables that share attributes agree on them.

    sizes: the cells of each attribute, with one for all values outside its domain, which is the last, if it has one.
    tables: each the positions of its attributes, increasing; () is the number of records. weights: how much the squared
    error of each cell of a table counts, above zero. inside: how many cells of each attribute, from the first, count in
    the error; empty for all. parts: as above; empty for 1 of each.
    Raises InvalidInput for tables that cannot be planned.
    """

    sizes: tuple[int, ...]
    tables: tuple[Table, ...]
    weights: tuple[Fraction, ...]
    inside: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.tables or len(set(self.tables)) != len(self.tables):
            raise InvalidInput("Marginals that are planned together must be one or more, each of them once.")
        if len(self.weights) != len(self.tables) or min(self.weights) <= 0:
            raise InvalidInput("Each marginal needs one weight, which is above zero.")
        if {len(self.inside), len(self.parts)} - {0, len(self.sizes)}:
            raise InvalidInput("Each attribute needs one number of cells that count, and one number of parts.")
        if min(self.sizes, default=2) < 2 or min((*self.inside, *self.parts), default=1) < 1:
            raise InvalidInput("An attribute of a marginal needs two cells at least, one that counts, and one part.")
        if any(counted > size for counted, size in zip(self.inside, self.sizes, strict=False)):
            raise InvalidInput("An attribute of a marginal has fewer cells than are to count.")
        for table in self.tables:
            if list(table) != sorted(set(table)) or not set(table) <= set(range(len(self.sizes))):
                raise InvalidInput("A marginal names each of its attributes once, by increasing positions.")
        if sum(2 ** len(table) for table in self.tables) > MOST_PAIRS:
            raise InvalidInput(
                "These marginals have too many keys to be planned together: take fewer keys for each, or fewer of them."
            )

    @cached_property
    def spaces(self) -> tuple[Table, ...]:
        """The residual spaces that the tables consist of, by size: all that is asked for."""
        return closure(self.tables)

    def shape(self, table: Table) -> tuple[int, ...]:
        return tuple(self.sizes[at] for at in table)

    def whole(self, table: Table) -> int:
        """What a record adds to a table in all."""
        return prod(self.parts[at] for at in table) if self.parts else 1

    def counted(self, table: Table) -> int:
        """How many cells of a table count in the error."""
        counted = self.inside or self.sizes
        return prod(counted[at] for at in table)
