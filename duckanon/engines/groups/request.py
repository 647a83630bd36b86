"""What is asked of a release of group sizes, whatever the data: what it costs, what it protects, and how it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Literal

from duckanon.engines.groups.draws import variance
from duckanon.engines.groups.loss import Concentrated, Loss, Pure
from duckanon.engines.groups.measurements import MOST
from duckanon.engines.groups.methods import DEARER, METHODS, Mechanism
from duckanon.engines.groups.queries import Privacy, Query, Unit
from duckanon.engines.groups.split import as_asked
from duckanon.engines.registry import named
from duckanon.errors import InvalidInput

Totals = Literal["public", "private"]
Intervals = Literal["guaranteed", "model"]
RELATIONS: dict[Totals, str] = {
    "public": "one person added to or removed from an existing group that keeps at least one; "
    "the number of groups of each region is public",
    "private": "one person added or removed, with whom a group may appear or vanish",
}


def relation(totals: Totals, *, unit: Unit = "record", contributions: int = 1) -> str:
    """The neighbouring tables in words, for the ledger: what is added or removed from one to the other."""
    if unit == "group":
        return f"one group added or removed, with all of its records, at most {contributions:,}"
    if contributions > 1:
        return (
            f"one unit added or removed, with at most {contributions:,} records; with them groups may appear or vanish"
        )
    return RELATIONS[totals]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a release costs, protects and measures. `check` says what of it is refused.

    epsilon: for differential privacy, with Laplace noise; or rho: for zero-concentrated differential privacy, with
    Gaussian noise. totals: whether the number of groups of each region is public (and then kept), or private.
    Neighbours: RELATIONS. split: positive shares of the cost, one a level from the root to the leaves, that add up to
    one, alike for all sizes; None: equal ones or, for `auto`, chosen for each size (`split`).
    sensitivity: by how many sizes one record can move a group. contributions: how many records a privacy unit has at
    most. unit: 'record', its records lie in any groups; 'group', they are one whole group, in one leaf region. More
    than one record a unit, and groups as units, need private totals. What noise follows: `queries`.
    intervals: 'guaranteed' ones hold for any data; 'model' ones, of `auto` alone, assume that regions are
    like their parents.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    mechanism: str = "auto"
    totals: Totals = "public"
    split: tuple[Fraction, ...] | None = None
    sensitivity: int = 1
    contributions: int = 1
    unit: Unit = "record"
    intervals: Intervals = "guaranteed"

    @property
    def loss(self) -> Loss:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidInput("A release costs either an epsilon or a rho.")
        return Pure(Fraction(self.epsilon)) if self.epsilon is not None else Concentrated(Fraction(self.rho or 0))

    @property
    def privacy(self) -> Privacy:
        return Privacy(self.sensitivity, self.contributions, self.unit)

    def query(self, sizes: int) -> Query:
        """What is measured where there are so many sizes."""
        return METHODS[self.mechanism].query(self.totals == "public", self.privacy, sizes, self.loss)

    def check(self, depth: int) -> None:
        """Raises InvalidInput for whatever can be refused without the data, the number of levels being `depth`."""
        chosen = self._mechanism()
        if self.sensitivity < 1:
            raise InvalidInput("One person must be able to move a group by at least one size: sensitivity >= 1.")
        self._check_unit()
        if self.intervals not in ("guaranteed", "model"):
            raise InvalidInput("intervals must be 'guaranteed' or 'model'.")
        if self.intervals == "model" and not chosen.model:
            raise InvalidInput(f"{self.mechanism} has no model: its intervals are 'guaranteed'.")
        as_asked(self.loss, self.split, depth)

    def _mechanism(self) -> Mechanism:
        chosen = named(METHODS, self.mechanism, kind="mechanism")
        if self.totals not in RELATIONS:
            raise InvalidInput("totals must be 'public' or 'private'.")
        if self.totals == "private" and chosen.private is None:
            raise InvalidInput(f"{self.mechanism} needs totals := 'public'; with private totals take auto.")
        return chosen

    def _check_unit(self) -> None:
        if self.unit not in ("record", "group"):
            raise InvalidInput("unit must be 'record' or 'group'.")
        if not 1 <= self.contributions <= MOST:
            raise InvalidInput(
                "contributions must be 1 or more, and at most 10^15: how many records one unit may have."
            )
        if self.totals == "public" and self.unit == "group":
            raise InvalidInput(
                "Where a whole group is to be protected its existence is private: take totals 'private'."
            )
        if self.totals == "public" and self.contributions > 1:
            raise InvalidInput(
                "Where a unit may have several records the totals must be private: take totals 'private'."
            )

    def is_gaussian_nearer(self, rho: Fraction, depth: int, sizes: int) -> bool:
        """Whether Gaussian noise for rho has smaller standard deviations than Laplace noise for the request's epsilon,
        in all levels together. It follows from the request and public facts; what `check` refuses is no release.

        What is measured may differ: then noise on n_s counts as `DEARER` times as wide. A chain is taken to have one
        region.
        """
        try:
            self.check(depth)
        except InvalidInput:
            return False
        return replace(self, epsilon=None, rho=rho)._width(depth, sizes) < self._width(depth, sizes)

    def _width(self, depth: int, sizes: int) -> float:
        """The standard deviations of the noise of all levels, added up."""
        loss, query, shares = self.loss, self.query(sizes), self.split or (Fraction(1, depth),) * depth
        noise = [loss.noise(query, self.privacy, 1, sizes, loss.total * share) for share in shares]
        return sum(sqrt(variance(level_noise)) for level_noise in noise) * (
            DEARER if query is METHODS[self.mechanism].plain else 1
        )
