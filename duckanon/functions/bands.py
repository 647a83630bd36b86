"""Bands: fixed intervals, all of one width, to which the values of a quasi-identifier are widened.

A band holds its lower end and not its upper one: 20 to 25 holds 20 and 24, not 25. Bands of numbers begin at multiples
of the width, bands of months and years are counted from January 2000, bands of days and weeks from Monday, 2000-01-03.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.schema import Table, is_date, is_number
from duckanon.functions.sqltext import ROW

_EXAMPLE = "as in bands := {'age': 5, 'born': 'year'}"
_NUMBERS, _DAYS, _MONTHS = "numbers", "days", "months"
_UNITS = {"day": (_DAYS, 1), "week": (_DAYS, 7), "month": (_MONTHS, 1), "quarter": (_MONTHS, 3), "year": (_MONTHS, 12)}
_PERIOD = re.compile(r"(?:(\d{1,4}) )?(day|week|month|quarter|year)s?")
_MONDAY, _JANUARY = date(2000, 1, 3), date(2000, 1, 1)
# A width has no more decimals, and is below the power of ten.
_DECIMALS, _POWER = 9, 12
# Up to this number of bands, doubles tell any two apart.
_MOST = 2**51


@dataclass(frozen=True)
class Bands:
    """The bands of one quasi-identifier. They are numbered along the line; band 0 begins where the count begins.

    name: of the column, as in `qi`. width: of a band, in numbers, days or months, as `unit` says. bottom: the first
    band that has a lower end: all below is one band. top: the last one, which has no upper end. None without such.
    levels: how many bands make one of each level, 1 on the first.
    """

    name: str
    width: Fraction
    unit: str
    bottom: int | None
    top: int | None
    levels: tuple[int, ...] = (1,)

    def check(self, table: Table) -> None:
        """Check the type of the column. Raises InvalidInput."""
        kind = table.kind(self.name)
        if self.unit == _NUMBERS and is_date(kind):
            raise InvalidInput(
                f'Column "{self.name}" holds dates: give its bands days, weeks, months, quarters or years, as in '
                f"bands := {{{literal(self.name)}: '3 months'}}."
            )
        if self.unit != _NUMBERS and is_number(kind):
            raise InvalidInput(
                f'Column "{self.name}" holds numbers: give its bands a number as their width, as in '
                f"bands := {{{literal(self.name)}: 5}}."
            )
        if not (is_date(kind) or is_number(kind)):
            raise InvalidInput(
                f'Column "{self.name}" is no number, date or timestamp and has no bands: leave it out of bands, or '
                "cast it."
            )

    @property
    def ends(self) -> tuple[str, str]:
        """The columns of the release: the lower and the upper end."""
        return f"{self.name}_lo", f"{self.name}_hi"

    @property
    def outside(self) -> str:
        """What is wrong where a value is in no band."""
        return (
            f'Column "{self.name}" holds an infinite value, or one too large for bands of this width: choose wider '
            "bands, replace such values by NULL, or leave those rows out."
        )

    @property
    def number(self) -> str:
        """SQL: the number of the band that holds a row's value; NULL for NULL, and where it is in no band."""
        row_value = f"{ROW}.{identifier(self.name)}"
        if self.unit == _NUMBERS:
            band = _band(row_value, self._width)
        else:
            band = f"CAST(system.main.floor({self._passed(row_value)} / {self._width}) AS BIGINT)"
        return self._coded(band)

    def _coded(self, number: str) -> str:
        """SQL: the number of the band to which one belongs as the bottom and the top have it."""
        if self.top is not None:
            number = f"CASE WHEN {number} > {self.top} THEN {self.top} ELSE {number} END"
        if self.bottom is not None:
            number = f"CASE WHEN {number} < {self.bottom} THEN {self.bottom - 1} ELSE {number} END"
        return number

    def between(self, low: str, high: str) -> tuple[str, str]:
        """SQL: the first and the last band between two ends, given as texts; NULL for both where both are NULL.

        An end that is NULL beside another one is open. NULL where no band begins at an end, or none is open there.
        """
        bottom, top = "NULL" if self.bottom is None else self.bottom - 1, "NULL" if self.top is None else self.top
        first, last = self._coded(self._beginning(low)), self._coded(f"({self._beginning(high)} - 1)")
        return (
            f"CASE WHEN {low} IS NOT NULL THEN {first} WHEN {high} IS NOT NULL THEN CAST({bottom} AS BIGINT) END",
            f"CASE WHEN {high} IS NOT NULL THEN {last} WHEN {low} IS NOT NULL THEN CAST({top} AS BIGINT) END",
        )

    def _beginning(self, end: str) -> str:
        """SQL: the number of the band that begins at an end, given as a text; NULL where none does."""
        if self.unit != _NUMBERS:
            day = f"TRY_CAST({end} AS DATE)"
            return f"CASE WHEN {self._begins(day)} THEN CAST({self._passed(day)} // {self._width} AS BIGINT) END"
        near = f"TRY_CAST({end} AS DOUBLE) / {self._width}"
        number = f"CAST(system.main.round({near}) AS BIGINT)"
        exact = f"{number} * {self._width} = TRY_CAST({end} AS DECIMAL(38, {_DECIMALS}))"
        return f"CASE WHEN system.main.abs({near}) < {_MOST} THEN CASE WHEN {exact} THEN {number} END END"

    def released(self, lowest: str, highest: str) -> tuple[str, str]:
        """SQL: the lower and the upper end of the bands from the one number to the other; NULL where there is none."""
        low, high = self._begin(lowest), self._begin(f"({highest} + 1)")
        if self.bottom is not None:
            low = f"CASE WHEN {lowest} >= {self.bottom} THEN {low} END"
        if self.top is not None:
            high = f"CASE WHEN {highest} < {self.top} THEN {high} END"
        return low, high

    def label(self, number: str, count: int = 1) -> str:
        """SQL: the text of the band with this number, as in '[20, 25)'; an end that it has not is left out.

        many: how many bands, counted from number 0, make one.
        """
        first = number if count == 1 else f"CAST(system.main.floor({number} / {count}) * {count} AS BIGINT)"
        low, high = self.released(first, first if count == 1 else f"({first} + {count - 1})")
        ends = (f"coalesce(CAST({end} AS VARCHAR), '')" for end in (low, high))
        return f"CASE WHEN {number} IS NOT NULL THEN system.main.concat('[', {next(ends)}, ', ', {next(ends)}, ')') END"

    def holds(self, low: str, high: str) -> str:
        """SQL: whether a row's value lies within the released ends, which are NULL or begin a band."""
        return (
            f"({low} IS NULL AND {high} IS NULL OR ({low} IS NULL OR NOT {self._below(low)}) "
            f"AND ({high} IS NULL OR {self._below(high)}) AND {self._begins(low)} AND {self._begins(high)})"
        )

    def _below(self, end: str) -> str:
        """SQL: whether a row's value is below the end of a band."""
        row_value = f"{ROW}.{identifier(self.name)}"
        return _below_end(row_value, end) if self.unit == _NUMBERS else f"TRY_CAST({row_value} AS TIMESTAMP) < {end}"

    @property
    def _width(self) -> str:
        return f"{Decimal(self.width.numerator) / Decimal(self.width.denominator):f}"

    def _passed(self, value: str) -> str:
        """SQL: how many days or months have passed since the count began."""
        unit, began = ("day", _MONDAY) if self.unit == _DAYS else ("month", _JANUARY)
        return f"system.main.date_diff('{unit}', DATE '{began}', TRY_CAST({value} AS DATE))"

    def _begin(self, number: str) -> str:
        """SQL: where a band begins."""
        if self.unit == _NUMBERS:
            return f"{number} * {self._width}"
        passed = f"CAST({number} * {self._width} AS INTEGER)"
        if self.unit == _DAYS:
            return f"DATE '{_MONDAY}' + {passed}"
        return f"CAST(DATE '{_JANUARY}' + system.main.to_months({passed}) AS DATE)"

    def _begins(self, end: str) -> str:
        """SQL: whether a band begins at an end, if there is one."""
        if self.unit == _NUMBERS:
            return f"({end} IS NULL OR {end} % {self._width} = 0)"
        begins = f"{self._passed(end)} % {self._width} = 0"
        if self.unit == _MONTHS:
            begins += f" AND system.main.day({end}) = 1"
        return f"({end} IS NULL OR {begins})"


def _below_end(value: str, end: str) -> str:
    """SQL: whether a number is below the end of a band.

    Any type binds, so that the check of types can refuse those that are no numbers. A FLOAT counts as it is written,
    0.7 and not 0.699999988.
    """
    return (
        f"CASE system.main.typeof({value}) "
        f"WHEN 'DOUBLE' THEN TRY_CAST({value} AS DOUBLE) < CAST({end} AS DOUBLE) "
        f"WHEN 'FLOAT' THEN TRY_CAST(CAST({value} AS VARCHAR) AS DOUBLE) < CAST({end} AS DOUBLE) "
        f"ELSE TRY_CAST({value} AS DECIMAL(38, 18)) < {end} END"
    )


def _band(value: str, width: str) -> str:
    """SQL: the number of the band that holds a number: it begins at a multiple of the width.

    Division may round to the next band, so the bands' ends decide. NULL for infinity, NaN, and numbers too large.
    """
    near = (
        f"CASE WHEN system.main.abs(TRY_CAST({value} AS DOUBLE) / {width}) < {_MOST} "
        f"THEN CAST(system.main.floor(TRY_CAST({value} AS DOUBLE) / {width}) AS BIGINT) END"
    )
    above = f"CAST({_below_end(value, f'({near}) * {width}')} AS BIGINT)"
    below = f"CAST(NOT ({_below_end(value, f'(({near}) + 1) * {width}')}) AS BIGINT)"
    return f"(({near}) - {above} + {below})"


def read(value: object, qi: Sequence[str], sets: Sequence[str]) -> tuple[Bands, ...]:
    """The bands of a call, in the order of `qi`. sets: quasi-identifiers that are released as sets."""
    own, bands = {fold(name): name for name in qi}, dict[str, Bands]()
    for name, described in pairs_of(value, f"bands must give a width by name, {_EXAMPLE}."):
        if fold(name) not in own:
            raise InvalidInput(f'bands names "{name}", which is not in qi: quasi-identifiers alone have bands.')
        if fold(name) in {fold(name) for name in sets}:
            raise InvalidInput(f'Column "{name}" is in both categorical and bands: name it in one of them.')
        bands[fold(name)] = _bands(own[fold(name)], described)
    return tuple(bands[fold(name)] for name in qi if fold(name) in bands)


def pairs_of(value: object, otherwise: str) -> list[tuple[str, Any]]:
    """The fields of a struct or map by name, none of NULL. otherwise: the error if it is something else."""
    pairs = list(value.items()) if isinstance(value, dict) else [] if value is None else value
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) and isinstance(pair[0], str) for pair in pairs):
        raise InvalidInput(otherwise)
    return pairs


def width_of(value: object) -> Fraction | None:
    """A width in numbers, exactly as it was written; None if it is none."""
    width = _number(value)
    return width if width is not None and 0 < width < 10**_POWER else None


def of_one_width(bands: Sequence[Bands], otherwise: str) -> None:
    """Check that no bands have several levels. otherwise: what is to be done, after a colon. Raises InvalidInput."""
    for band in bands:
        if len(band.levels) > 1:
            raise InvalidInput(f'The bands of "{band.name}" have several widths, which are levels: {otherwise}.')


def _bands(name: str, described: object) -> Bands:
    fields: Mapping[str, Any] = {"width": described}
    if isinstance(described, dict):
        fields = {fold(field): value for field, value in described.items() if value is not None}
    if not {"width"} <= set(fields) <= {"width", "bottom", "top"}:
        raise InvalidInput(
            f'The bands of "{name}" have a width, and may have a bottom and a top, as in '
            f"{{{literal(name)}: {{'width': 5, 'bottom': 20, 'top': 85}}}}."
        )
    width, unit, levels = _levels(name, fields["width"])
    bare = Bands(name, width, unit, None, None, levels)
    bottom, top = (_edge(bare, side, fields[side]) if side in fields else None for side in ("bottom", "top"))
    if bottom is not None and top is not None and bottom >= top:
        raise InvalidInput(f'The bottom of the bands of "{name}" must be below their top.')
    return Bands(name, width, unit, bottom, top, levels)


def _levels(name: str, value: object) -> tuple[Fraction, str, tuple[int, ...]]:
    """The width of the first level, its unit, and how many such bands make one of each level."""
    widths = [
        _width(name, level_width) for level_width in (value if isinstance(value, list | tuple) and value else [value])
    ]
    (first, unit), numbers = widths[0], [width for width, _ in widths]
    several = [width / first for width in numbers]
    rise = all(a < b and (b / a).denominator == 1 for a, b in pairwise(numbers))
    if not rise or any(other_unit != unit for _, other_unit in widths):
        raise InvalidInput(
            f'The widths of the bands of "{name}" are levels, so each must be a multiple of the one before it, as in '
            "[5, 10, 20] or ['month', 'year']."
        )
    return first, unit, tuple(int(number) for number in several)


def _width(name: str, value: object) -> tuple[Fraction, str]:
    if isinstance(value, str) and (period := _PERIOD.fullmatch(value.strip().lower())):
        unit, units = _UNITS[period[2]]
        if int(period[1] or 1) > 0:
            return Fraction(units * int(period[1] or 1)), unit
    elif (width := width_of(value)) is not None:
        return width, _NUMBERS
    raise InvalidInput(
        f'The width of the bands of "{name}" must be a number above zero with at most {_DECIMALS} decimals, as in 5, '
        "or for dates days, weeks, months, quarters or years, as in 'month', '10 years'."
    )


def _number(value: object) -> Fraction | None:
    """A number with few decimals, exactly as it was written; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    written = Decimal(str(value))
    if not written.is_finite() or abs(written) >= 10 ** (_POWER + 3):
        return None
    fraction = Fraction(written)
    return fraction if (fraction * 10**_DECIMALS).denominator == 1 else None


def _edge(bands: Bands, side: str, value: object) -> int:
    """The number of the band that begins at a bottom or a top."""
    passed: Fraction | None
    if bands.unit == _NUMBERS:
        passed = _number(value)
    else:
        try:
            day = value if isinstance(value, date) else date.fromisoformat(str(value))
        except ValueError:
            raise InvalidInput(
                f"The {side} of the bands of \"{bands.name}\" must be a date, as in '1950-01-01'."
            ) from None
        if bands.unit == _DAYS:
            passed = Fraction((date(day.year, day.month, day.day) - _MONDAY).days)
        else:
            passed = Fraction((day.year - _JANUARY.year) * 12 + day.month - 1) if day.day == 1 else None
    if passed is None or (passed / bands.width / bands.levels[-1]).denominator != 1:
        every = "a band begins" if len(bands.levels) == 1 else "a band of every width begins"
        raise InvalidInput(
            f'The {side} of the bands of "{bands.name}" must be where {every}: for numbers a multiple of the '
            "width, for months and years counted from January 2000, for days and weeks from 2000-01-03."
        )
    return int(passed / bands.width)
