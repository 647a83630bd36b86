"""The methods of metric privacy by name. Each takes the program of one component; what it finds is repaired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from duckanon.engines.metric.benders import benders
from duckanon.engines.metric.column_generation import columns
from duckanon.engines.metric.exponential import exponential
from duckanon.engines.metric.lp import lp
from duckanon.engines.metric.partitions import named as partition_named
from duckanon.engines.metric.problem import Limits, Program, Solution
from duckanon.errors import InvalidInput


@dataclass(frozen=True)
class Method:
    """A method of the registry.

    optimal: whether it goes on until the gap is small enough.
    """

    name: str
    run: Callable[[Program, Limits], Solution]
    optimal: bool
    source: str
    cost: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "columns",
            columns,
            True,
            "column generation over the cone of mDP vectors",
            "a dense program of N rows and a tree of N nodes for each output, some ten times",
        ),
        Method("lp", lp, True, "Qiu 2024, equations 4 to 7; HiGHS", "a program of N K columns and |E| K rows"),
        Method(
            "benders",
            lambda program, limits: benders(program, limits, partition_named("k-m-dv", None)),
            True,
            "Qiu 2024, section 3.2; HiGHS",
            "a program of K columns for each boundary node, and one for each part, in every iteration",
        ),
        Method("exponential", exponential, False, "Qiu 2024, equation 47", "O(N K)"),
    )
}
DEFAULT = "columns"


def named(name: str, partition: str = "k-m-dv", parts: int | None = None) -> Method:
    """The method of that name; 'auto' is the default one. Raises InvalidInput with the names there are.

    partition, parts: how 'benders' cuts the graph, and into how many parts.
    """
    if name != "auto" and name not in METHODS:
        known = ", ".join(f"'{one}'" for one in ("auto", *METHODS))
        raise InvalidInput(f"There is no method '{name}': choose one of {known}.")
    found, cut = METHODS[DEFAULT if name == "auto" else name], partition_named(partition, parts)
    if found.name != "benders":
        return found
    return replace(found, run=lambda program, limits: benders(program, limits, cut))
