"""Domains as a steward writes them (lists, ranges, ENUM, names of open tables), and as the ledger keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

ENUM = "ENUM"
# In a population with a delta: the values are found with noise.
FOUND = "found"


@dataclass(frozen=True, eq=False)
class Range:
    """Whole numbers or dates from `first` to `last`, `step` apart (of dates: days). nulls: NULL is a value, too."""

    first: int | date
    last: int | date
    step: int = 1
    nulls: bool = False

    @property
    def count(self) -> int:
        """How many values there are, without NULL."""
        # Both are whole numbers, or both are dates.
        distance = self.last - self.first  # type: ignore[operator]
        return int((distance.days if isinstance(distance, timedelta) else distance) // self.step) + 1

    @property
    def ends(self) -> tuple[int | str, int | str]:
        """The least and the largest value, dates as texts."""
        return self._value(0), self._value(self.count - 1)

    def _value(self, at: int) -> int | str:
        if isinstance(self.first, date):
            return str(self.first + timedelta(days=at * self.step))
        return self.first + at * self.step

    def __eq__(self, other: object) -> bool:
        """Whether both have the same values: earlier versions kept a range as the list of them."""
        if isinstance(other, Range):
            same = (self.ends, self.count, self.nulls) == (other.ends, other.count, other.nulls)
            return same and (self.step == other.step or self.count == 1)
        if not isinstance(other, tuple) or len(other) != self.count + self.nulls:
            return NotImplemented
        return other == (*map(self._value, range(self.count)), *([None] if self.nulls else []))


@dataclass(frozen=True)
class WithNull:
    """The values that a name stands for, and NULL. name: ENUM, an open table or a column of one."""

    name: str


# A tuple is a list of values: NULL, truth values, whole numbers and texts. A text is ENUM or FOUND, or names an open
# table.
DomainSource = str | tuple[Any, ...] | Range | WithNull


def is_found(source: DomainSource) -> bool:
    """Whether the values are found with noise, where the population has a delta."""
    return (source.name if isinstance(source, WithNull) else source) == FOUND


def plain(source: Any) -> Any:
    """A domain as JSON holds it. What is neither a range nor has NULL beside a name is left as it is."""
    if isinstance(source, WithNull):
        return {"values": source.name, "nulls": True}
    if isinstance(source, Range):
        first, last = (number if isinstance(number, int) else str(number) for number in (source.first, source.last))
        return {"from": first, "to": last, "step": source.step, **({"nulls": True} if source.nulls else {})}
    return source


def of_plain(value: Any) -> DomainSource:
    """The domain that `plain` wrote."""
    if isinstance(value, Mapping) and "values" in value:
        return WithNull(value["values"])
    if isinstance(value, Mapping):
        first, last = (
            number if isinstance(number, int) else date.fromisoformat(number) for number in (value["from"], value["to"])
        )
        return Range(first, last, value["step"], value.get("nulls", False))
    return tuple(value) if isinstance(value, list) else value
