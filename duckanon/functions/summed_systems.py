"""The cells of a release of sums as one system of equations: of one table, or of linked ones.

Sums of linked tables are margins of the sums by all their variables together, which are not negative, and zero where
there are no records. That tells more than the tables' own equations: A by B, B by C and A by C may each allow what no
A by B by C does. So the system of linked tables has the sums of all these combinations, too, as cells that nobody
publishes. Whatever it leaves open, values of the true records can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput
from duckanon.functions.suppressed_tables import Form, Hierarchies, Node, Place, above

if TYPE_CHECKING:
    from duckanon.engines.suppression.system import Layout
    from duckanon.engines.suppression.table import Dimension

Ints = npt.NDArray[np.int64]

# Larger tables take minutes to audit.
MOST_CELLS = 20_000


@dataclass(frozen=True)
class Cells:
    """The cells of a release, in the order of a layout. numbers: of their places."""

    layout: Layout
    numbers: Mapping[Place, int]

    @staticmethod
    def of(form: Form, places: Sequence[Place]) -> Cells:
        """Raises InvalidInput unless these are all cells of its tables with their totals, and not too many."""
        from duckanon.engines.suppression.system import Layout

        sides = [sorted({place[d] for place in places}, key=_in_order) for d in range(len(form.dimensions))]
        dimensions = [_dimension(lists, side) for lists, side in zip(form.dimensions, sides, strict=True)]
        tables = [
            [
                [at for at, (names, _) in enumerate(side) if set(names) <= set(inside)]
                for side, inside in zip(sides, table.nodes, strict=True)
            ]
            for table in form.tables
        ]
        if sum(prod(map(len, table)) for table in tables) > MOST_CELLS:
            raise InvalidInput(f"Sums of more than {MOST_CELLS:,} cells are not audited: leave columns out.")
        layout = Layout.of(dimensions, tables)
        every = [tuple(side[at] for side, at in zip(sides, row, strict=True)) for row in layout.places.tolist()]
        if set(every) != set(places):
            raise _not_whole()
        return Cells(layout, {place: at for at, place in enumerate(every)})


def _dimension(lists: Hierarchies, nodes: Sequence[Node]) -> Dimension:
    """A dimension of these nodes. Raises InvalidInput where one is a part of a total that is not there."""
    from duckanon.engines.suppression.table import Dimension

    number = {node: at for at, node in enumerate(nodes)}
    parents = np.full((len(lists), len(nodes)), -1, dtype=np.int64)
    for at, node in enumerate(nodes):
        for hierarchy, total in enumerate(above(lists, node)):
            if total is not None and total not in number:
                raise _not_whole()
            if total is not None:
                parents[hierarchy, at] = number[total]
    return Dimension.of(len(nodes), *parents)


def _in_order(node: Node) -> tuple[int, tuple[str, ...], list[tuple[bool, str]]]:
    """Totals before their parts, NULL last."""
    names, values = node
    return len(values), names, [(value is None, value or "") for value in values]


def _not_whole() -> InvalidInput:
    return InvalidInput("The release lacks cells or totals of its tables: publish the whole answer of suppress.")
