"""The mechanisms by name. Each is a query to which noise is added, and a function that makes a release of the result.

That function gets only noisy values and public facts, so by post-processing it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckanon.engines import registry
from duckanon.engines.groups.auto import auto
from duckanon.engines.groups.chain import chain
from duckanon.engines.groups.integer_programs import c_exact, h_exact, refuse_large
from duckanon.engines.groups.loss import Loss
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.groups.queries import ABOVE, CHAIN, FORWARD, HISTOGRAM, INNER, Privacy, Query
from duckanon.engines.groups.relaxed_least_squares import c_relaxed, h_relaxed
from duckanon.engines.groups.topdown import topdown
from duckanon.engines.groups.tree_least_squares import c_dp, h_dp, refuse_wide


@dataclass(frozen=True, kw_only=True)
class Mechanism(registry.Method[Callable[[Measurements], Estimate]]):
    """A mechanism for group sizes: the queries to which noise is added; `run` makes the release of the noisy values.

    public, private: what is measured when the regions' totals are public, or private (None: not supported). The query
    holds the derivation of the sensitivity. refuse: raises InvalidInput where the number of regions of each level, the
    number of sizes and the scales of noise are too much for it. plain: what is measured instead where that needs
    `DEARER` times less noise, or less still. model: whether the mechanism has intervals of its own. by_size: whether
    noise on t_s may have another scale for each size (`split`).
    """

    public: Query
    private: Query | None
    refuse: Callable[[tuple[int, ...], int, tuple[float, ...]], None] = lambda _regions, _sizes, _scales: None
    plain: Query | None = None
    model: bool = False
    by_size: bool = False

    def query(self, public: bool, privacy: Privacy, sizes: int, loss: Loss) -> Query:
        """What is measured: chosen by the noise that it needs, from public facts alone.

        A mechanism that has no query for private totals must not be asked for one.
        """
        query = self.public if public else self.private
        assert query is not None, "refused when the arguments were checked"
        if self.plain and loss.moved(query, privacy, 1, sizes) >= DEARER * loss.moved(self.plain, privacy, 1, sizes):
            return self.plain
        return query


# Counts themselves get the noise if noise on cumulative counts would be so many times wider: "quantities" in
# docs/benchmarks.md.
DEARER = 1.5
_PAPER = "Fioretto, Van Hentenryck and Zhu 2021, "

METHODS = registry.by_name(
    Mechanism(
        name="auto",
        help="noise on counts from above, shrinkage toward the parent's shape, whole tables with all margins kept",
        run=auto,
        public=INNER,
        private=ABOVE,
        source="our own; the levels are combined after Hay, Rastogi, Miklau and Suciu 2010",
        limits="O(cells)",
        plain=HISTOGRAM,
        model=True,
        by_size=True,
    ),
    Mechanism(
        name="topdown",
        help="noise on counts, then from the root down least squares in whole numbers",
        run=topdown,
        public=HISTOGRAM,
        private=HISTOGRAM,
        source=_PAPER + "section 10 (TopDown, after Abowd 2018)",
        limits="O(cells log(children))",
    ),
    Mechanism(
        name="h_relaxed",
        help="noise on counts, then least squares over the tree in real numbers, rounded with the sums kept",
        run=h_relaxed,
        public=HISTOGRAM,
        private=HISTOGRAM,
        source=_PAPER + "Model 1, relaxed (M_H^r)",
        limits="O(cells) a round of projections",
    ),
    Mechanism(
        name="h_exact",
        help="noise on counts, then Model 1 as an integer program in HiGHS",
        run=h_exact,
        public=HISTOGRAM,
        private=HISTOGRAM,
        source=_PAPER + "Model 1 (M_H)",
        limits="an integer program; small trees only",
        refuse=refuse_large,
    ),
    Mechanism(
        name="h_dp",
        help="noise on counts, then the nearest consistent whole numbers, by dynamic programming",
        run=h_dp,
        public=HISTOGRAM,
        private=HISTOGRAM,
        source=_PAPER + "sections 6 and 7 (M_H^dp)",
        limits="O(cells + inner regions * sizes * scale of the noise)",
        refuse=refuse_wide,
    ),
    Mechanism(
        name="c_relaxed",
        help="noise on cumulative counts, then least squares over the tree in real numbers, rounded with the sums kept",
        run=c_relaxed,
        public=FORWARD,
        private=ABOVE,
        source=_PAPER + "Model 2, relaxed (M_c^r)",
        limits="O(cells) a round of projections",
    ),
    Mechanism(
        name="c_exact",
        help="noise on cumulative counts, then Model 2 as an integer program in HiGHS",
        run=c_exact,
        public=FORWARD,
        private=ABOVE,
        source=_PAPER + "Model 2 (M_c)",
        limits="an integer program; small trees only",
        refuse=refuse_large,
    ),
    Mechanism(
        name="c_dp",
        help="noise on cumulative counts, isotonic regression region by region, then as h_dp",
        run=c_dp,
        public=FORWARD,
        private=ABOVE,
        source=_PAPER + "Algorithm 2 (M_c^dp)",
        limits="as h_dp",
        refuse=refuse_wide,
    ),
    Mechanism(
        name="chain",
        help="noise on one chain of cumulative counts a level, at its true sensitivity, then one isotonic regression",
        run=chain,
        public=CHAIN,
        private=None,
        source=_PAPER + "section 9.2 (M_c^ch), with the sensitivity put right",
        limits="O(cells)",
    ),
)
