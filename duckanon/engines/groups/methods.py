"""The mechanisms by name. Each is a query to add noise to, and what makes a release of the noisy values.

The second half sees noisy values and public facts alone, so whatever it does costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckanon.engines.groups.auto import auto
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.groups.queries import ABOVE, HISTOGRAM, INNER, Query
from duckanon.engines.groups.topdown import topdown


@dataclass(frozen=True)
class Mechanism:
    """A mechanism of the registry.

    public, private: what is measured when the regions' totals are public, or private (None: not supported).
    run: from the noisy measurements to a release.
    """

    name: str
    summary: str
    run: Callable[[Measurements], Estimate]
    public: Query
    private: Query | None
    source: str
    cost: str


MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            "auto",
            "noise on counts from above, shrinkage toward the parent's shape, whole tables with all margins kept",
            auto,
            INNER,
            ABOVE,
            "docs/group-size-mechanisms.md",
            "O(cells)",
        ),
        Mechanism(
            "topdown",
            "noise on the counts, then from the root down least squares in whole numbers",
            topdown,
            HISTOGRAM,
            HISTOGRAM,
            "Abowd 2018, as in Fioretto, Van Hentenryck and Zhu 2021, section 10",
            "O(cells log(children))",
        ),
    )
}
