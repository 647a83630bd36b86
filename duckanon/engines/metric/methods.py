"""The methods of metric privacy by name. Each solves the program of one component; its result is then repaired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from duckanon.engines import registry
from duckanon.engines.metric.benders import benders
from duckanon.engines.metric.column_generation import columns
from duckanon.engines.metric.exponential import exponential
from duckanon.engines.metric.lp import MANY_RATIOS, lp
from duckanon.engines.metric.partitions import named as partition_named
from duckanon.engines.metric.problem import Limits, Program, Solution


@dataclass(frozen=True, kw_only=True)
class Method(registry.Method[Callable[[Program, Limits], Solution]]):
    """A method of metric privacy.

    optimal: whether it iterates until the gap is small enough.
    """

    optimal: bool = True


DEFAULT = "columns"
METHODS = registry.by_name(
    Method(
        name="columns",
        help="column generation: the optimum, with a lower bound proved at each step",
        source="column generation over the cone of mDP vectors",
        limits="a dense program of N rows and a tree of N nodes for each output, some ten times",
        run=columns,
    ),
    Method(
        name="lp",
        help="the whole linear program at once",
        source="Qiu 2024, equations 4 to 7; HiGHS",
        limits=f"a program of N K columns and |E| K rows; up to {MANY_RATIOS:,} ratios, |E| K",
        run=lp,
    ),
    Method(
        name="benders",
        help="the paper's decomposition: a master program for boundary records, one for the inside of each part",
        source="Qiu 2024, section 3.2; HiGHS",
        limits="a program of K columns for each boundary node, and one for each part, in every iteration",
        run=lambda program, limits: benders(program, limits, partition_named("k-m-dv", None)),
        options={"parts": 1},
    ),
    Method(
        name="exponential",
        help="the exponential mechanism: near outputs are likely, nothing is optimised",
        source="Qiu 2024, equation 47",
        limits="O(N K)",
        run=exponential,
        optimal=False,
    ),
)


def named(name: str, partition: str = "k-m-dv", parts: int | None = None) -> Method:
    """The method of that name; 'auto' is the default one. Raises InvalidInput with the names there are.

    partition, parts: how 'benders' cuts the graph, and into how many parts.
    """
    method = registry.named(METHODS, name, aliases={"auto": DEFAULT})
    cut = partition_named(partition, parts)
    if method.name != "benders":
        return method
    return replace(method, run=lambda program, limits: benders(program, limits, cut))
