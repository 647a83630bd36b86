"""What a steward has decided about a table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

from duckanon.accounting import epsilon, written


@dataclass(frozen=True)
class Policy:
    """The policy of a protected table.

    epsilon: how much may be spent on it in all. unit: the column whose values are groups of persons; None: not said.
    """

    epsilon: Fraction
    unit: str | None = None

    def dump(self) -> str:
        """The policy as JSON, exact."""
        return json.dumps({"epsilon": written(self.epsilon), "unit": self.unit})

    @staticmethod
    def load(text: str) -> Policy:
        found = json.loads(text)
        return Policy(epsilon(found["epsilon"]), found["unit"])
