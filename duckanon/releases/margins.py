"""What is said of a result with noise: how wide that is beside the numbers, what it protects, and what it cost.

How wide it is follows from noisy numbers and the widths of their intervals alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, log10
from typing import Any

from duckanon.accounting import written
from duckanon.rewrite.algebra.nodes import Node, copied
from duckanon.rewrite.decision import Decision
from duckanon.rewrite.dialect import DIALECT

# Of a number whose condition compares with an average that has noise: another draw of that moves the number further.
OF_OTHERS = "This does not cover the noise of the answer with which records are compared."
# Of the number: narrower noise is told as that.
_LEAST = 0.0001


@dataclass(frozen=True)
class Margin:
    """What is known of the noise in one column of a result, whose place is that.

    numbers: how many have noise, at least one. small: how many of these are smaller than their 95 % intervals are wide.
    largest: half the width of the largest number's interval, as a part of that number. median: of these parts of all
    numbers the one in the middle, of two the larger.
    """

    place: int
    numbers: int
    small: int
    largest: float
    median: float


def of_rows(noisy: Sequence[tuple[int, float]], rows: Iterable[Sequence[Any]]) -> list[Margin]:
    """The margins of columns whose intervals are as wide in every row.

    noisy: their places and widths. rows: of the result; nothing but these numbers is looked at.
    """
    columns: dict[int, list[float]] = {place: [] for place, _ in noisy}
    for row in rows:
        for place, numbers in columns.items():
            if row[place] is not None:
                numbers.append(abs(float(row[place])))
    return [_margin(place, columns[place], width) for place, width in noisy if columns[place] and width > 0]


def _margin(place: int, numbers: Sequence[float], width: float) -> Margin:
    parts = sorted(width / (2 * number) if number else inf for number in numbers)
    small = sum(number < width for number in numbers)
    return Margin(place, len(numbers), small, parts[0], parts[len(parts) // 2])


def query(result: Node, widths: Sequence[tuple[int, str]]) -> str:
    """A query for the margins of columns whose intervals are not as wide in every row: its one row is for `of_answer`.

    result: the query of the result, over a stored answer. widths: of its columns, by places, as SQL beside them.
    Numbers whose width is NULL have no noise, and are left out.
    """
    inner = copied(result).select(*(width for _, width in widths), dialect=DIALECT)
    names = [f"c{at}" for at in range(len(result.expressions))] + [f"w{at}" for at, _ in widths]
    numbers = ", ".join(
        f"CASE WHEN w{at} IS NOT NULL THEN CAST(abs(c{at}) AS DOUBLE) END AS n{at}, CAST(w{at} AS DOUBLE) AS w{at}"
        for at, _ in widths
    )
    margins = ", ".join(
        f"{at}, count(n{at}), CAST(coalesce(sum(CAST(n{at} < w{at} AS BIGINT)), 0) AS BIGINT), "
        f"arg_max(p{at}, struct_pack(n := n{at}, p := -p{at})), -quantile_disc(-p{at}, 0.5)"
        for at, _ in widths
    )
    # Division by 0 is not left to DuckDB, which has a setting for it.
    parts = ", ".join(
        f"CASE WHEN n{at} > 0 THEN w{at} / (2 * n{at}) WHEN n{at} = 0 THEN CAST('inf' AS DOUBLE) END AS p{at}"
        for at, _ in widths
    )
    inner_sql = inner.sql(DIALECT, comments=False, normalize_functions=False)
    return (
        f"SELECT {margins} FROM (SELECT *, {parts} FROM (SELECT {numbers} FROM ({inner_sql}) "
        f"AS _dk_result({', '.join(names)})) AS _dk_numbers) AS _dk_parts"
    )


def of_answer(row: Sequence[Any]) -> list[Margin]:
    """The margins that the row of `query` tells."""
    return [Margin(*row[at : at + 5]) for at in range(0, len(row), 5) if row[at + 1]]


def in_words(margins: Sequence[Margin], names: Sequence[str], *, small_first: bool = False) -> str | None:
    """Sentences on the widest of these margins and on small numbers; None without noise. names: of all columns."""
    if not margins:
        return None
    small, numbers = sum(margin.small for margin in margins), sum(margin.numbers for margin in margins)
    sentences = [_relative(margins, names), *([_small(small, numbers)] if small else [])]
    return " ".join(reversed(sentences) if small_first else sentences)


def _relative(margins: Sequence[Margin], names: Sequence[str]) -> str:
    """How wide the widest of the margins is beside its numbers."""
    widest = max(margins, key=lambda margin: (margin.median, margin.largest))
    whose = f" of {names[widest.place]}, the widest" if len(margins) > 1 else ""
    parts = {"largest cell": widest.largest, "median cell": widest.median}
    if widest.numbers == 1:
        parts = {"number": widest.largest}
    near = [f"{rounded(100 * max(part, _LEAST))} % of the {cell}" for cell, part in parts.items() if part < 1]
    wider = [f"wider than the {cell}" for cell, part in parts.items() if part >= 1]
    within = [f"95 % within {', '.join(near)}"] if near else []
    return f"Noise{whose}: {', '.join(within + wider[:1])}."


def _small(small: int, numbers: int) -> str:
    """How many numbers with noise are smaller than their own intervals are wide."""
    is_one, noun = small == 1, "number" if numbers == 1 else "numbers"
    own = "is smaller than its" if is_one else "are smaller than their"
    they = "it" if is_one else "they"
    return f"{small:,} of {numbers:,} noisy {noun} {own} own interval is wide: {they} may be noise alone."


def rounded(width: float) -> str:
    """A width in words, with two digits at least: never less than it is."""
    if width >= 10:
        return f"{ceil(width):,}"
    digits = 1 - floor(log10(width)) if width > 0 else 0
    return f"{ceil(width * 10**digits - 1e-9) / 10**digits:.6g}"


@dataclass(frozen=True)
class Noise:
    """The noise of a statement's numbers: what each answer protects, and its edition, with the day if it was stored.

    about_now: what `now()` is in them, as a sentence; empty where it is not asked for.
    """

    protects: tuple[str, ...]
    editions: tuple[str, ...]
    about_now: str = ""

    @classmethod
    def of(cls, decision: Decision) -> Noise | None:
        """The noise of a statement, by the whole decision about it; None if it has none."""
        steps = [step for step in decision.steps if step.epsilon is not None]
        if not decision.answers or not steps:
            return None
        editions = (
            f"edition {step.edition}" + (f", drawn {step.drawn.isoformat()}" if step.drawn is not None else "")
            for step in steps
        )
        protects = (answer.protects for answer in decision.answers)
        about_now = next((step.about_now for step in steps if step.about_now), "")
        return cls(tuple(dict.fromkeys(protects)), tuple(dict.fromkeys(editions)), about_now)

    def in_words(self, beside: str | None, spent: Fraction, number: int | None = None) -> str:
        """Sentences. beside: how wide noise is beside the numbers, where that is known. spent: what was charged.

        number: if these are only the first numbers, how many rows they are of.
        """
        sentence = beside or "Its numbers have noise; explain_privacy of the query says how wide."
        if beside is not None and number is not None:
            sentence = f"Of the first {number:,} rows: {beside}"
        cost = f"It cost epsilon {written(spent)}" if spent else "It is free"
        whole = f"{sentence} The noise protects {_listed(self.protects)}. {cost} ({'; '.join(self.editions)})."
        return f"{whole} {self.about_now}".rstrip()


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words)
