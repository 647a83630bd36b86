"""The methods of cell bounds by name. Each takes a knapsack and bounds the multiple nu of each kind of row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckanon.engines import registry
from duckanon.engines.cells.classical import classical
from duckanon.engines.cells.knapsack import Extremes, Feasible, Knapsack
from duckanon.engines.cells.milp import milp
from duckanon.engines.cells.reachable_sums import reachable_sums
from duckanon.engines.cells.residues import residues
from duckanon.engines.cells.viability import viability


@dataclass(frozen=True, kw_only=True)
class Method(registry.Method[Callable[[Knapsack], Feasible | Extremes]]):
    """A method of cell bounds.

    every_value: whether `run` finds every possible multiple, a Feasible; otherwise the extremes alone.
    """

    every_value: bool = True


DEFAULT = "residues"
METHODS = registry.by_name(
    Method(
        name="residues",
        help="the smallest sum that can be made in each residue class",
        source="smallest sum for each residue class",
        limits="O(kinds log(kinds) m), m the smallest reduced sum: independent of N",
        run=residues,
    ),
    Method(
        name="viability",
        help="the paper's viability algorithm on bit sets",
        source="Wright and Smucker 2014, Algorithm 3.1",
        limits="O((N - R) kinds log(kinds)), 64 at a time; N - R up to 2^30",
        run=viability,
    ),
    Method(
        name="sums",
        help="sorted lists of all sums that can be made",
        source="Wright and Smucker 2014, section 3.1: lists instead of a table",
        limits="the number of different sums times kinds log(kinds); up to 2^21 sums",
        run=reachable_sums,
    ),
    Method(
        name="classical",
        help="the textbook dynamic program for bounded knapsacks, anew for each row",
        source="Wright and Smucker 2014, Algorithm 3.4",
        limits="O((N - R) kinds rows); N - R below 2^26",
        run=classical,
    ),
    Method(
        name="milp",
        help="the smallest and the largest multiple by integer programming",
        source="Wright and Smucker 2014, equations 1 and 2; HiGHS",
        limits="two programs for each kind; N - R below 2^31",
        run=milp,
        every_value=False,
    ),
)
