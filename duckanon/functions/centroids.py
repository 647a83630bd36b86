"""k_anonymize(..., release := 'centroid'): of each class one value of each quasi-identifier, not what it covers.

Numbers become their mean, rounded to a declared step; what else has an order the median level; categories the commonest
one. A mean and an interval of the same class together tell more than either: of three values the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.bands import pairs_of, width_of
from duckanon.functions.k_cells import ITEM, Cell, where_all
from duckanon.functions.schema import Table, is_number
from duckanon.functions.sqltext import ROW, as_bytes

# Values are summed as whole thousandths of a step: their sum does not depend on the order of rows. Up to so many.
_PARTS, _MOST = 1000, 10**15
_EXAMPLE = "as in steps := {'income': 100}"


@dataclass(frozen=True)
class Centroids:
    """The steps of numbers, by name as in `qi`, and the share of a sum from which on one record dominates a class."""

    steps: tuple[Step, ...]
    dominance: Fraction | None

    @classmethod
    def read(cls, steps: object, dominance: Fraction | None, qi: Sequence[str], sets: Sequence[str]) -> Centroids:
        """Those of a call. sets: quasi-identifiers that are categories. Raises InvalidInput."""
        own_steps, own = list[Step](), {fold(name): name for name in qi}
        for name, step in pairs_of(steps, f"steps must give a step by name, {_EXAMPLE}."):
            if fold(name) not in own:
                raise InvalidInput(f'steps names "{name}", which is not in qi: means are released of these alone.')
            if fold(name) in {fold(name) for name in sets}:
                raise InvalidInput(f'Column "{name}" is in both categorical and steps: name it in one of them.')
            width = width_of(step)
            if width is None:
                raise InvalidInput(
                    f'The step of "{name}" must be a number above zero with at most 9 decimals, {_EXAMPLE}.'
                )
            own_steps.append(Step(own[fold(name)], width))
        return cls(tuple(own_steps), dominance)

    def check(self, table: Table, qi: Sequence[str], sets: Sequence[str]) -> None:
        """Check that numbers, and they alone, have a step. Raises InvalidInput."""
        stepped, categories = {step.name for step in self.steps}, {fold(name) for name in sets}
        for name in qi:
            if name in stepped:
                table.number(name, "released as a mean", "a number, or leave it out of steps")
            elif is_number(table.kind(name)) and fold(name) not in categories:
                raise InvalidInput(
                    f'Column "{name}" would be released as a mean: say to which step it is rounded, as in '
                    f"steps := {{{literal(name)}: 100}}."
                )
        if self.dominance is not None and not self.steps:
            raise InvalidInput("dominance is about means, and no quasi-identifier has one: leave it out.")

    def cells(self, qi: Sequence[str], sets: Sequence[str]) -> list[Cell]:
        """What is released of each quasi-identifier."""
        stepped, categories = {step.name: step for step in self.steps}, {fold(name) for name in sets}
        cells: list[Cell] = []
        for name in qi:
            if name in stepped:
                cells.append(MeanCell(stepped[name]))
            elif fold(name) in categories:
                cells.append(ModeCell(name))
            else:
                cells.append(MedianCell(name))
        if self.dominance is not None:
            cells.append(FlagCell(self.steps, self.dominance))
        return cells


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
        scaled = f"TRY_CAST({ROW}.{identifier(self.name)} AS DOUBLE) / {self.written} * {_PARTS}"
        return f"CASE WHEN system.main.abs({scaled}) < {_MOST} THEN CAST(system.main.round({scaled}) AS HUGEINT) END"

    def dominated(self, share: str) -> str:
        """SQL: whether one value of a class is more than this share of the sum of all, signs left aside."""
        away = f"system.main.abs({self.parts})"
        return f"system.main.max({away}) > {share} * system.main.sum({away})"


class _Centroid(Cell):
    """A value for the whole class. Those of its records may be any, so there is nothing to check."""

    def holds(self) -> str:
        return "true"


@dataclass(frozen=True)
class MeanCell(_Centroid):
    """The mean of a class, rounded; NULL where a value is NULL."""

    step: Step

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.step.name}_mean"]

    def aggregate(self) -> str:
        parts, column = self.step.parts, f"{ROW}.{identifier(self.step.name)}"
        steps = f"CAST(system.main.round(system.main.sum({parts}) / ({_PARTS} * system.main.count(*))) AS BIGINT)"
        return (
            f"CASE WHEN system.main.count({parts}) = system.main.count(*) THEN {steps} * {self.step.written} "
            f"WHEN system.main.count({column}) = system.main.count(*) THEN {self._too_far} END "
            f"AS {identifier(self.names[0])}"
        )

    @property
    def _too_far(self) -> str:
        """SQL: the error where a value is too large for its step."""
        sentence = (
            f'Column "{self.step.name}" holds a value of more than a million million steps: give it a larger step, or '
            "leave that record out."
        )
        return f"system.main.error({literal(sentence)})"


@dataclass(frozen=True)
class MedianCell(_Centroid):
    """The middle value of a class, of two the lower one; NULL where one is NULL."""

    name: str

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.name}_median"]

    def aggregate(self) -> str:
        column = f"{ROW}.{identifier(self.name)}"
        ordered = f"system.main.list_sort(system.main.list({column}))"
        middle = f"({ordered})[(system.main.count({column}) + 1) // 2]"
        return f"{where_all(column, middle)} AS {identifier(self.names[0])}"


@dataclass(frozen=True)
class ModeCell(_Centroid):
    """The commonest value of a class, of several the first one by its bytes; NULL where one is NULL."""

    name: str

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.name}_mode"]

    def aggregate(self) -> str:
        column = f"{ROW}.{identifier(self.name)}"
        # (As aggregates, `mode` and `histogram` would ask for the label of each row once more.)
        ranked = f"{{'rarer': -CAST({ITEM}.value AS BIGINT), 'bytes': {as_bytes(f'{ITEM}.key')}, 'own': {ITEM}.key}}"
        counted = f"system.main.map_entries(system.main.list_aggregate(system.main.list({column}), 'histogram'))"
        commonest = f"system.main.list_sort(system.main.list_transform({counted}, lambda {ITEM}: {ranked}))[1].own"
        return f"{where_all(column, commonest)} AS {identifier(self.names[0])}"


@dataclass(frozen=True)
class FlagCell(_Centroid):
    """The columns of a class whose mean is mostly one record's: its part of the sum is above a share."""

    steps: tuple[Step, ...]
    share: Fraction

    @property
    def names(self) -> Sequence[str]:
        return ["dominated"]

    def aggregate(self) -> str:
        share = f"{Decimal(self.share.numerator) / Decimal(self.share.denominator):f}"
        columns = ", ".join(f"CASE WHEN {step.dominated(share)} THEN {literal(step.name)} END" for step in self.steps)
        return f"system.main.list_filter([{columns}], lambda {ITEM}: {ITEM} IS NOT NULL) AS {self.names[0]}"
