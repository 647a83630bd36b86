"""How far noise moves what follows from a preparation: by the cells that a row adds up, which are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from duckanon.governance.preparations import Preparation, Table
from duckanon.releases.intervals import NOTHING


@dataclass(frozen=True)
class PreparedForm:
    """How noise varies in one table of a preparation. text: for `duckanon.functions.prepared_widths`."""

    text: str
    widths: Any


def noise_of(known: Preparation, table: Table, axis: int = 0, ways: Sequence[float] = ()) -> PreparedForm:
    """Of a table, by its attributes. axis, ways: of a key whose values are added up, as `Along` has them."""
    from duckanon.engines.marginals.intervals import Widths
    from duckanon.engines.marginals.linear_functions import Along, Noise

    if not known.design.measured:
        # It is only asked which tables would do.
        return PreparedForm("", None)
    noise = Noise.of(known.design.plan.variances, table, known.rows)
    factor, is_whole = known.design.factor(known.rows), known.design.is_whole
    text = f"{_written(noise.sizes)};{_written(noise.residuals)};{factor!r};{int(is_whole)}"
    along = Along(axis, np.array(ways, dtype=np.float64)) if ways else None
    if along is not None:
        text += f";{axis};{' '.join(map(repr, along.ways.tolist()))}"
    return PreparedForm(text, Widths(noise, factor, is_whole, along))


@dataclass(frozen=True)
class PreparedNoise:
    """A number that is told: cells of a prepared table are added up, each times a weight.

    weights: of the parts of a cell; one where it has no number. places: the cells, as SQL. rows: those of each row of
    all keys; None where they are too many to look at.
    """

    form: PreparedForm
    weights: tuple[Fraction, ...]
    places: str
    rows: tuple[Any, ...] | None

    @property
    def each(self) -> list[float]:
        return [float(weight) for weight in self.weights]

    def width(self, cells: int = 1) -> Fraction:  # noqa: ARG002 # a row's cells are known
        """How far 95 % are from the truth at most in a row of all keys."""
        widths = self.form.widths
        rows = {widths.alike(row): row for row in self.rows or ()}
        return Fraction(max((widths.width(widths.of(row, self.each)) for row in rows.values()), default=0))

    def records(self, cells: int = 1) -> int:
        """The same for a count, which is rounded."""
        return floor(self.width(cells) + Fraction(1, 2))

    def fine(self, cells: int = 1) -> float:
        return float(self.width(cells))

    def width_sql(self, cells: str = "") -> str:  # noqa: ARG002 # `places` says which they are
        return f"_dk_prepared_width('{self.form.text}', '{_written(self.each)}', {self.places})"


@dataclass(frozen=True)
class Quotients:
    """A quotient of two such numbers of one table."""

    above: PreparedNoise
    below: PreparedNoise

    @property
    def most(self) -> float | None:
        """For 95 % how far the quotient is from the true one at most, times the noisy divisor; None if not known."""
        if self.above.rows is None or self.below.rows is None:
            return None
        widths, pairs = self.above.form.widths, zip(self.above.rows, self.below.rows, strict=True)
        known = {self._alike(value, other): (value, other) for value, other in pairs}
        found = (
            widths.most(widths.of(value, self.above.each), widths.of(other, self.below.each))
            for value, other in known.values()
        )
        return max(found, default=0.0)

    def _alike(self, one: Any, other: Any) -> tuple[bytes, bytes, bool]:
        """Equal for pairs of rows whose quotients have the same noise."""
        widths = self.above.form.widths
        return widths.alike(one), widths.alike(other), one.tobytes() == other.tobytes()

    def end_sql(self, side: str, above: str, below: str, *, places: Sequence[str] = (), more: str = NOTHING) -> str:
        """An end of the interval of the quotient, from 0 to 1, as SQL. places: in place of both noises' own."""
        part, whole = places or (self.above.places, self.below.places)
        constants = f"'{side}', '{self.above.form.text}', '{_written(self.above.each)}', '{_written(self.below.each)}'"
        return f"_dk_prepared_quotient_end({constants}, {above}, {below}, {more}, {part}, {whole})"


def _written(numbers: Sequence[float]) -> str:
    return " ".join(
        f"{number:g}" if number == int(number) and abs(number) < 10**6 else repr(number) for number in numbers
    )
