"""What a steward has decided about a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

from duckanon.accounting import epsilon, written


@dataclass(frozen=True)
class Policy:
    """The policy of a protected table. Columns are named as the steward wrote them.

    epsilon: how much may be spent on it in all. unit: the column whose values are groups of persons; None: not said.
    hierarchy: region columns, the widest first. per_query: the most that one of an analyst's releases may cost; None:
    an analyst gets none with noise. max_size: the largest group size that is told apart. public: columns whose values
    anybody may know. quasi_identifiers, k: what an analyst's k-anonymous copy generalises, and its least class.
    sensitive: columns that such a copy may show as they are. drop: columns that it must leave out. small: counts from
    1 to small - 1 must not be disclosed.
    """

    epsilon: Fraction
    unit: str | None = None
    hierarchy: tuple[str, ...] = ()
    per_query: Fraction | None = None
    max_size: int | None = None
    public: tuple[str, ...] = ()
    quasi_identifiers: tuple[str, ...] = ()
    k: int = 5
    sensitive: tuple[str, ...] = ()
    small: int = 5
    drop: tuple[str, ...] = ()

    def dump(self) -> str:
        """The policy as JSON, exact. What says no more than the default is left out."""
        plain = asdict(self) | {"epsilon": written(self.epsilon), "unit": self.unit}
        if self.per_query is not None:
            plain["per_query"] = written(self.per_query)
        kept = {one.name for one in fields(self) if one.name in _FIRST or getattr(self, one.name) != one.default}
        return json.dumps({name: value for name, value in plain.items() if name in kept})

    @staticmethod
    def load(text: str) -> Policy:
        found = json.loads(text)
        per_query = found.get("per_query")
        rest: dict[str, Any] = {name: tuple(found[name]) for name in _LISTS if name in found}
        rest |= {name: found[name] for name in ("max_size", "k", "small") if name in found}
        return Policy(
            epsilon(found["epsilon"]),
            found["unit"],
            per_query=None if per_query is None else epsilon(per_query, "per_query"),
            **rest,
        )


_FIRST = ("epsilon", "unit")
_LISTS = ("hierarchy", "public", "quasi_identifiers", "sensitive", "drop")
