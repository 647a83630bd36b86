"""The methods of metric privacy by name. Each takes the program of one component; what it finds is repaired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckanon.engines.metric.columns import columns
from duckanon.engines.metric.exponential import exponential
from duckanon.engines.metric.lp import lp
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
        Method("exponential", exponential, False, "Qiu 2024, equation 47", "O(N K)"),
    )
}
DEFAULT = "columns"


def named(name: str, partition: str = "k-m-dv", parts: int | None = None) -> Method:
    """The method of that name; 'auto' is the default one. Raises InvalidInput with the names there are."""
    if name != "auto" and name not in METHODS:
        known = ", ".join(f"'{one}'" for one in ("auto", *METHODS))
        raise InvalidInput(f"There is no method '{name}': choose one of {known}.")
    return METHODS[DEFAULT if name == "auto" else name]
