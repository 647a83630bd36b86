"""The banner above a result in a notebook: how the guard decided, what was spent, how exposed a release is.

The only facts about data in it are counts of rows of the result itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from duckanon.accounting import written
from duckanon.rewrite.decision import Decision, Step, Verdict

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's blue, vermilion and grey: they differ to colour-blind readers too.
_COLOURS = {"released": "#0072B2", "spent": "#D55E00", "refused": "#D55E00", "plain": "#767676"}


@dataclass(frozen=True)
class Banner:
    """Lines to show, and how they are marked: 'released', 'spent', 'refused' or 'plain'."""

    lines: Sequence[str]
    mark: str = "plain"

    def _repr_html_(self) -> str:
        body = "<br>".join(escape(line) for line in self.lines)
        return (
            f'<div class="duckanon-banner" style="border-left: 4px solid {_COLOURS[self.mark]}; padding: 2px 8px; '
            f'margin: 2px 0; font-size: 90%">{body}</div>'
        )

    def __repr__(self) -> str:
        return "\n".join(f"-- {line}" for line in self.lines)


@dataclass(frozen=True)
class Charged:
    """A charge in the ledger that a statement caused.

    whose: the population whose budget it was taken from, or a table without a population. epsilon, left: exact, as
    text. left: what remains; None without a budget. noise: what it paid for, in a population with a delta.
    """

    whose: str
    epsilon: str
    left: str | None
    noise: str | None = None

    @property
    def line(self) -> str:
        left = f"{self.left} left" if self.left is not None else "no budget limits it: protect the table to set one"
        spent = f"Epsilon {self.epsilon}" if self.noise is None else f"{self.epsilon} ({self.noise})"
        return f"{spent} spent on {self.whose}; {left}."


def banner(
    role: str,
    decision: Decision | None,
    spent: Sequence[Charged],
    release: pd.DataFrame | None,
    noise: str | None = None,
) -> Banner:
    """The banner of a statement that ran. release: its result, if it called k_anonymize. noise: how wide it is."""
    lines = [step.line for step in decision.steps] if decision else [f"Runs as written: the role is {role}."]
    lines += [charged.line for charged in spent]
    lines += [noise] if noise is not None else []
    lines += _kept(decision, spent)
    classes = exposure(release) if release is not None else None
    if classes:
        lines.append(classes)
    through_release = decision is not None and any(
        step.verdict in (Verdict.RELEASED, Verdict.REWRITTEN) for step in decision.steps
    )
    return Banner(lines, "spent" if spent else "released" if through_release or classes else "plain")


def preview(steps: Sequence[Mapping[str, Any]]) -> Banner:
    """The banner of a statement that did not run. steps: rows of explain_privacy."""
    found = [
        Step(
            one["kind"],
            one["object"],
            Verdict(one["decision"]),
            one["reason"],
            None if one["epsilon"] is None else Fraction(str(one["epsilon"])),
            edition=one["edition"],
            drawn=one["drawn"],
        )
        for one in steps
    ]
    lines = [step.line for step in found]
    mark = "refused" if any(step.verdict is Verdict.REFUSED for step in found) else "plain"
    rewritten = steps[0]["rewritten_sql"] if steps else None
    if rewritten is not None:
        lines.append(f"For an analyst would run: {rewritten}")
    return Banner(lines, mark)


def _kept(decision: Decision | None, spent: Sequence[Charged]) -> list[str]:
    """Lines about the remaining budget where the answer was stored already, and so was free."""
    if decision is None or spent:
        return []
    return [
        f"Nothing spent on {step.object}: this answer is stored. {written(step.remaining)} left."
        for step in decision.steps
        if step.drawn is not None and step.remaining is not None
    ]


def exposure(frame: pd.DataFrame) -> str | None:
    """How exposed the records of a k-anonymous release are, by its column class_id; None for other results.

    With LIMIT or WHERE the result has only parts of classes, so the sentence says that the rows below are counted.
    """
    if "class_id" not in frame.columns or frame.empty:
        return None
    sizes = frame["class_id"].value_counts()
    k, classes = int(sizes.min()), len(sizes)
    return (
        f"In the {len(frame):,} rows below: k = {k:,} (the smallest class), {classes:,} classes. "
        f"By these columns a record is found with chance 1 in {k:,} at most."
    )
