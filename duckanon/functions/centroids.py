"""k_anonymize(..., release := 'centroid'): of each class one value of each quasi-identifier, not what it covers.

Numbers become their mean, rounded to a declared step; what else has an order the median level; categories the commonest
one. A mean and an interval of the same class together tell more than either: of three values the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.bands import pairs_of, width_of
from duckanon.functions.schema import Table, is_number
from duckanon.functions.sqltext import ROW, as_bytes

if TYPE_CHECKING:
    from duckanon.functions.k_release import Cell

# Values are summed as whole thousandths of a step: their sum does not depend on the order of rows. Up to so many.
_PARTS, _MOST = 1000, 10**15
# A lambda's argument. On DuckDB 1.4 a column of its name would be taken for it.
_ITEM = '"duckanon.item"'
_EXAMPLE = "as in steps := {'income': 100}"


@dataclass(frozen=True)
class Centroids:
    """The steps of numbers, by name as in `qi`, and the share of a sum from which on one record dominates a class."""

    steps: tuple[Step, ...]
    dominance: Fraction | None

    @classmethod
    def read(cls, steps: object, dominance: Fraction | None, qi: Sequence[str], sets: Sequence[str]) -> Centroids:
        """Those of a call. sets: quasi-identifiers that are categories. Raises InvalidInput."""
        found, own = list[Step](), {fold(name): name for name in qi}
        for name, told in pairs_of(steps, f"steps must give a step by name, {_EXAMPLE}."):
            if fold(name) not in own:
                raise InvalidInput(f'steps names "{name}", which is not in qi: means are released of these alone.')
            if fold(name) in {fold(one) for one in sets}:
                raise InvalidInput(f'Column "{name}" is in both categorical and steps: name it in one of them.')
            width = width_of(told)
            if width is None:
                raise InvalidInput(
                    f'The step of "{name}" must be a number above zero with at most 9 decimals, {_EXAMPLE}.'
                )
            found.append(Step(own[fold(name)], width))
        return cls(tuple(found), dominance)

    def check(self, found: Table, qi: Sequence[str], sets: Sequence[str]) -> None:
        """Check that numbers, and they alone, have a step. Raises InvalidInput."""
        stepped, categories = {one.name for one in self.steps}, {fold(name) for name in sets}
        for name in qi:
            if name in stepped:
                found.number(name, "released as a mean", "a number, or leave it out of steps")
            elif is_number(found.kind(name)) and fold(name) not in categories:
                raise InvalidInput(
                    f'Column "{name}" would be released as a mean: say to which step it is rounded, as in '
                    f"steps := {{{literal(name)}: 100}}."
                )
        if self.dominance is not None and not self.steps:
            raise InvalidInput("dominance is about means, and no quasi-identifier has one: leave it out.")

    def cells(self, qi: Sequence[str], sets: Sequence[str]) -> list[Cell]:
        """What is released of each quasi-identifier."""
        stepped, categories = {one.name: one for one in self.steps}, {fold(name) for name in sets}
        found: list[Cell] = []
        for name in qi:
            if name in stepped:
                found.append(MeanCell(stepped[name]))
            elif fold(name) in categories:
                found.append(ModeCell(name))
            else:
                found.append(MedianCell(name))
        if self.dominance is not None:
            found.append(FlagCell(self.steps, self.dominance))
        return found


@dataclass(frozen=True)
class Step:
    """The step to which the mean of a column is rounded."""

    name: str
    width: Fraction

    @property
    def written(self) -> str:
        return f"{Decimal(self.width.numerator) / Decimal(self.width.denominator):f}"

    @property
    def parts(self) -> str:
        """SQL: a row's value in whole thousandths of a step; NULL for NULL, and where it is too far from zero."""
        value = f"TRY_CAST({ROW}.{identifier(self.name)} AS DOUBLE) / {self.written} * {_PARTS}"
        return f"CASE WHEN system.main.abs({value}) < {_MOST} THEN CAST(system.main.round({value}) AS HUGEINT) END"

    def dominated(self, share: str) -> str:
        """SQL: whether one value of a class is more than this share of the sum of all, signs left aside."""
        away = f"system.main.abs({self.parts})"
        return f"system.main.max({away}) > {share} * system.main.sum({away})"


@dataclass(frozen=True)
class MeanCell:
    """The mean of a class, rounded; NULL where a value is NULL."""

    step: Step
    shown = ()
    found = ""

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.step.name}_mean"]

    def aggregate(self) -> str:
        parts, value = self.step.parts, f"{ROW}.{identifier(self.step.name)}"
        steps = f"CAST(system.main.round(system.main.sum({parts}) / ({_PARTS} * system.main.count(*))) AS BIGINT)"
        return (
            f"CASE WHEN system.main.count({parts}) = system.main.count(*) THEN {steps} * {self.step.written} "
            f"WHEN system.main.count({value}) = system.main.count(*) THEN {self._too_far} END "
            f"AS {identifier(self.names[0])}"
        )

    @property
    def _too_far(self) -> str:
        """SQL: the error where a value is too large for its step."""
        said = (
            f'Column "{self.step.name}" holds a value of more than a million million steps: give it a larger step, or '
            "leave that record out."
        )
        return f"system.main.error({literal(said)})"

    def holds(self) -> str:
        return "true"


@dataclass(frozen=True)
class MedianCell:
    """The middle value of a class, of two the lower one; NULL where one is NULL."""

    name: str
    shown = ()
    found = ""

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.name}_median"]

    def aggregate(self) -> str:
        value = f"{ROW}.{identifier(self.name)}"
        ordered = f"system.main.list_sort(system.main.list({value}))"
        middle = f"({ordered})[(system.main.count({value}) + 1) // 2]"
        all_of_them = f"system.main.count({value}) = system.main.count(*)"
        return f"CASE WHEN {all_of_them} THEN {middle} END AS {identifier(self.names[0])}"

    def holds(self) -> str:
        return "true"


@dataclass(frozen=True)
class ModeCell:
    """The commonest value of a class, of several the first one by its bytes; NULL where one is NULL."""

    name: str
    shown = ()
    found = ""

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.name}_mode"]

    def aggregate(self) -> str:
        value = f"{ROW}.{identifier(self.name)}"
        # (As aggregates, `mode` and `histogram` would ask for the label of each row once more.)
        ranked = f"{{'rarer': -CAST({_ITEM}.value AS BIGINT), 'bytes': {as_bytes(f'{_ITEM}.key')}, 'own': {_ITEM}.key}}"
        counted = f"system.main.map_entries(system.main.list_aggregate(system.main.list({value}), 'histogram'))"
        commonest = f"system.main.list_sort(system.main.list_transform({counted}, lambda {_ITEM}: {ranked}))[1].own"
        all_of_them = f"system.main.count({value}) = system.main.count(*)"
        return f"CASE WHEN {all_of_them} THEN {commonest} END AS {identifier(self.names[0])}"

    def holds(self) -> str:
        return "true"


@dataclass(frozen=True)
class FlagCell:
    """The columns of a class whose mean is mostly one record's: its part of the sum is above a share."""

    steps: tuple[Step, ...]
    share: Fraction
    names = ("dominated",)
    shown = ()
    found = ""

    def aggregate(self) -> str:
        share = f"{Decimal(self.share.numerator) / Decimal(self.share.denominator):f}"
        each = ", ".join(f"CASE WHEN {one.dominated(share)} THEN {literal(one.name)} END" for one in self.steps)
        return f"system.main.list_filter([{each}], lambda {_ITEM}: {_ITEM} IS NOT NULL) AS {self.names[0]}"

    def holds(self) -> str:
        return "true"
