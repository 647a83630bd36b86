"""The mechanisms by name. Each is a query to add noise to, and what makes a release of the noisy values.

The second half sees noisy values and public facts alone, so whatever it does costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from duckanon.engines.groups.auto import auto
from duckanon.engines.groups.chain import chain
from duckanon.engines.groups.integer_programs import c_exact, h_exact, refuse_large
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.groups.queries import ABOVE, CHAIN, FORWARD, HISTOGRAM, INNER, Privacy, Query
from duckanon.engines.groups.relaxed_least_squares import c_relaxed, h_relaxed
from duckanon.engines.groups.topdown import topdown
from duckanon.engines.groups.tree_least_squares import c_dp, h_dp, refuse_wide


@dataclass(frozen=True)
class Mechanism:
    """A mechanism of the registry.

    public, private: what is measured when the regions' totals are public, or private (None: not supported). The query
    holds the derivation of the sensitivity. run: from the noisy measurements to a release.
    refuse: raises InvalidInput where the regions of each level, the sizes and the scales of noise are too much for it.
    plain: what is measured instead where its noise is `_DEARER` times less or more so. model: whether the mechanism has
    intervals of its own.
    """

    name: str
    summary: str
    run: Callable[[Measurements], Estimate]
    public: Query
    private: Query | None
    source: str
    cost: str
    refuse: Callable[[tuple[int, ...], int, tuple[Fraction, ...]], None] = lambda _regions, _sizes, _scales: None
    plain: Query | None = None
    model: bool = False

    def query(self, public: bool, privacy: Privacy, sizes: int) -> Query:
        """What is measured: chosen by the noise that it needs, from public facts alone.

        A mechanism that has no query for private totals must not be asked for one.
        """
        query = self.public if public else self.private
        assert query is not None, "refused when the arguments were checked"
        if self.plain and query.distance(privacy, 1, sizes) >= _DEARER * self.plain.distance(privacy, 1, sizes):
            return self.plain
        return query


# So much wider noise on counts from above gives way to noise on the counts: "quantities" in docs/benchmarks.md.
_DEARER = 1.5
_PAPER = "Fioretto, Van Hentenryck and Zhu 2021, "

MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            "auto",
            "noise on counts from above, shrinkage toward the parent's shape, whole tables with all margins kept",
            auto,
            INNER,
            ABOVE,
            "our own; the levels are combined after Hay, Rastogi, Miklau and Suciu 2010",
            "O(cells)",
            plain=HISTOGRAM,
            model=True,
        ),
        Mechanism(
            "topdown",
            "noise on counts, then from the root down least squares in whole numbers",
            topdown,
            HISTOGRAM,
            HISTOGRAM,
            _PAPER + "section 10 (TopDown, after Abowd 2018)",
            "O(cells log(children))",
        ),
        Mechanism(
            "h_relaxed",
            "noise on counts, then least squares over the tree in real numbers, rounded with the sums kept",
            h_relaxed,
            HISTOGRAM,
            HISTOGRAM,
            _PAPER + "Model 1, relaxed (M_H^r)",
            "O(cells) a round of projections",
        ),
        Mechanism(
            "h_exact",
            "noise on counts, then Model 1 as an integer program in HiGHS",
            h_exact,
            HISTOGRAM,
            HISTOGRAM,
            _PAPER + "Model 1 (M_H)",
            "an integer program; small trees only",
            refuse_large,
        ),
        Mechanism(
            "h_dp",
            "noise on counts, then the nearest consistent whole numbers, by dynamic programming",
            h_dp,
            HISTOGRAM,
            HISTOGRAM,
            _PAPER + "sections 6 and 7 (M_H^dp)",
            "O(cells + inner regions * sizes * scale of the noise)",
            refuse_wide,
        ),
        Mechanism(
            "c_relaxed",
            "noise on cumulative counts, then least squares over the tree in real numbers, rounded with the sums kept",
            c_relaxed,
            FORWARD,
            ABOVE,
            _PAPER + "Model 2, relaxed (M_c^r)",
            "O(cells) a round of projections",
        ),
        Mechanism(
            "c_exact",
            "noise on cumulative counts, then Model 2 as an integer program in HiGHS",
            c_exact,
            FORWARD,
            ABOVE,
            _PAPER + "Model 2 (M_c)",
            "an integer program; small trees only",
            refuse_large,
        ),
        Mechanism(
            "c_dp",
            "noise on cumulative counts, isotonic regression region by region, then as h_dp",
            c_dp,
            FORWARD,
            ABOVE,
            _PAPER + "Algorithm 2 (M_c^dp)",
            "as h_dp",
            refuse_wide,
        ),
        Mechanism(
            "chain",
            "noise on one chain of cumulative counts a level, at its true sensitivity, then one isotonic regression",
            chain,
            CHAIN,
            None,
            _PAPER + "section 9.2 (M_c^ch), with the sensitivity put right",
            "O(cells)",
        ),
    )
}
