"""The methods of cell bounds by name. Each takes a knapsack and bounds nu of each kind of row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckanon.engines.cells.classical import classical
from duckanon.engines.cells.knapsack import Extremes, Feasible, Knapsack
from duckanon.engines.cells.milp import milp
from duckanon.engines.cells.reachable_sums import reachable_sums
from duckanon.engines.cells.residues import residues
from duckanon.engines.cells.viability import viability


@dataclass(frozen=True)
class Method:
    """A method of the registry.

    run: from a knapsack to its bounds; a Feasible if `every_value`.
    """

    name: str
    run: Callable[[Knapsack], Feasible | Extremes]
    every_value: bool
    source: str
    cost: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "residues",
            residues,
            True,
            "smallest sum for each residue class",
            "O(kinds log(kinds) m), m the smallest reduced sum: independent of N",
        ),
        Method(
            "viability",
            viability,
            True,
            "Wright and Smucker 2014, Algorithm 3.1",
            "O((N - R) kinds log(kinds)), 64 at a time",
        ),
        Method(
            "sums",
            reachable_sums,
            True,
            "Wright and Smucker 2014, section 3.1: lists instead of a table",
            "the number of different sums times kinds log(kinds)",
        ),
        Method("classical", classical, True, "Wright and Smucker 2014, Algorithm 3.4", "O((N - R) kinds rows)"),
        Method("milp", milp, False, "Wright and Smucker 2014, equations 1 and 2; HiGHS", "two programs for each kind"),
    )
}
DEFAULT = "residues"
