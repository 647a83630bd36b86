"""What an epsilon buys: group sizes released from made-up groups, in a database of their own, and noise of counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import exp, log
from typing import Any, ClassVar, Self

from duckanon.accounting import written
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.explore.choices import Choices
from duckanon.integrations.explore.jobs import Running

_MOST_SIZES = 20
_MOST_GROUPS = 1_000_000
_MOST_PERSONS = 2_000_000
_MOST_REGIONS = 200
# Releases that are drawn, to tell the usual error.
_DRAWS = 8
_COUNTS = (10, 30, 100, 300, 1000, 10_000)
_NUMBERS = count(1)
# Counts with noise are within the margin this often.
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Simulation:
    """groups: how many made-up groups there are of each size from 1 on; they are dealt out evenly over regions.

    rows_per_unit: how many records of one person count in a count with noise.
    """

    groups: tuple[int, ...]
    regions: int
    epsilon: Fraction
    rows_per_unit: int
    lane: ClassVar[str] = "simulation"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        found = cls(
            choices.wholes("groups", 0, _MOST_GROUPS, _MOST_SIZES),
            choices.whole("regions", 1, _MOST_REGIONS),
            choices.epsilon(),
            choices.whole("rows_per_unit", 1, 1000, 1),
        )
        persons = sum(size * many for size, many in enumerate(found.groups, 1))
        if not persons:
            raise InvalidInput("There are no groups yet: say how many there are of one size at least.")
        if persons > _MOST_PERSONS:
            raise InvalidInput(f"These groups have more than {_MOST_PERSONS:,} persons: make up fewer.")
        return found

    def answer(self, run: Running) -> object:
        """`sizes`: for each the true number, one release with its interval, and the mean error over all of them.

        `regions`: the mean error in one region. `margin`: what a count with noise is within, 95 times of 100.
        """
        drawn = [self._release(run) for _ in range(_DRAWS)]
        sizes, in_region = [], []
        for i, true in enumerate(self.groups):
            whole = [rows[0, i + 1] for rows in drawn]
            errors = [abs(groups - true) for groups, _, _ in whole]
            parts = (
                [abs(rows[1, i + 1, at][0] - self._in_region(i, at)) for rows in drawn for at in range(self.regions)]
                if self.regions > 1
                else []
            )
            groups, low, high = whole[0]
            sizes.append(
                {"size": i + 1, "true": true, "groups": groups, "low": low, "high": high, "error": sum(errors) / _DRAWS}
            )
            in_region.append(sum(parts) / len(parts) if parts else None)
        margin = self.margin
        return {
            "sizes": sizes,
            "in_region": in_region,
            "draws": _DRAWS,
            "margin": margin,
            "counts": [{"count": number, "share": margin / number} for number in _COUNTS],
            "epsilon": written(self.epsilon),
        }

    @property
    def margin(self) -> int:
        """Discrete Laplace noise of scale rows_per_unit / epsilon is at most this with a chance of 95 %."""
        ratio = exp(-float(self.epsilon) / self.rows_per_unit)
        # P(|noise| > m) = 2 ratio^(m + 1) / (1 + ratio)
        least = log((1 - _CONFIDENCE) * (1 + ratio) / 2) / log(ratio) - 1 if ratio > 0 else 0
        return max(0, -int(-least // 1)) if least > 0 else 0

    def _in_region(self, size: int, region: int) -> int:
        whole, rest = divmod(self.groups[size], self.regions)
        return whole + (region < rest)

    def _release(self, run: Running) -> dict[tuple[int, ...], tuple[int, int, int]]:
        """One release: groups, low and high by level, size and, on level 1, region."""
        # The same release of the same records would be given again, so each has a table of its own.
        name = f"made_up_{next(_NUMBERS)}"
        shapes = ", ".join(f"({size}, {many})" for size, many in enumerate(self.groups, 1))
        run.rows(f"""
            CREATE TABLE {name} AS
            SELECT size * 10_000_000 + number AS household, number % {self.regions} AS region
            FROM (VALUES {shapes}) AS shape(size, many), range(many) AS groups(number), range(size)
        """)  # noqa: S608 - numbers
        try:
            hierarchy = ["region"] if self.regions > 1 else []
            asked = call(
                "dp_group_sizes", name, "household", hierarchy, epsilon=written(self.epsilon), max_size=len(self.groups)
            )
            found: list[dict[str, Any]] = run.records(asked)
        finally:
            run.con.execute(f"DROP TABLE {name}").fetchall()
        return {
            (one["level"], one["size"], *([one["region"]] if one["level"] else [])): (
                one["groups"], one["low"], one["high"]
            )
            for one in found
        }  # fmt: skip
