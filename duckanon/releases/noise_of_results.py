"""What is said of a result with noise: how wide it is beside the numbers, what it protects, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from duckanon.accounting import written
from duckanon.rewrite.decision import Decision


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
        steps = [one for one in decision.steps if one.epsilon is not None]
        if not decision.answers or not steps:
            return None
        editions = (
            f"edition {one.edition}" + (f", drawn {one.drawn.isoformat()}" if one.drawn is not None else "")
            for one in steps
        )
        protects = (one.protects for one in decision.answers)
        about_now = next((one.about_now for one in steps if one.about_now), "")
        return cls(tuple(dict.fromkeys(protects)), tuple(dict.fromkeys(editions)), about_now)

    def in_words(self, beside: str | None, spent: Fraction, seen: int | None = None) -> str:
        """Sentences. beside: how wide noise is beside the numbers, where that is known. spent: what was charged.

        seen: if these are only the first numbers, how many rows they are of.
        """
        said = beside or "Its numbers have noise; explain_privacy of the query says how wide."
        if beside is not None and seen is not None:
            said = f"Of the first {seen:,} rows: {beside}"
        cost = f"It cost epsilon {written(spent)}" if spent else "It is free"
        found = f"{said} The noise protects {_listed(self.protects)}. {cost} ({'; '.join(self.editions)})."
        return f"{found} {self.about_now}".rstrip()


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words)
