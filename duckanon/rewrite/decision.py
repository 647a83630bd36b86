"""The decision about a statement, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from fractions import Fraction
from typing import Any

from duckanon.accounting import written
from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import View
from duckanon.rewrite.dialect import Reading


class Verdict(StrEnum):
    """What is decided about one part of a statement."""

    RUNS = "runs"
    RELEASED = "released"
    REWRITTEN = "rewritten"
    REFUSED = "refused"


@dataclass(frozen=True)
class Step:
    """One part of a statement: what it is, which table it is about, and what is decided.

    epsilon: what it costs; None for what costs nothing. remaining: the budget before it. edition: of the answer.
    drawn: the day on which the answer was charged, if it is stored already: then it is free. within: how far 95 % of
    its counts are from the truth at most. width: the same, not rounded. noisy: the positions of the result's columns
    that are counts and sums with noise, and how wide the 95 % intervals of their numbers are. note: where widths differ
    from row to row, as of means, shares and totals, a query of stored answers for how wide the noise is beside the
    numbers of the result: `duckanon.releases.margins.query`. about_now: what `now()` is in it, as a sentence.
    """

    kind: str
    object: str | None
    verdict: Verdict
    reason: str
    epsilon: Fraction | None = None
    remaining: Fraction | None = None
    edition: int | None = None
    drawn: date | None = None
    within: int | None = None
    width: float | None = None
    noisy: tuple[tuple[int, float], ...] = ()
    note: str | None = None
    about_now: str | None = None

    @property
    def line(self) -> str:
        """The decision in one line."""
        about = f" of {self.object}" if self.object else ""
        cost = ""
        if self.drawn is not None:
            cost = f" (free: edition {self.edition}, drawn {self.drawn.isoformat()})"
        elif self.epsilon is not None:
            cost = f" (epsilon {written(self.epsilon)}, edition {self.edition})"
        return f"{self.kind}{about}: {self.verdict}{cost}. {self.reason}"


@dataclass(frozen=True)
class Decision:
    """A statement as it will run. query: its query with full names; None if it has none, or is refused.

    calls: of duckanon's functions in the query. answers: paid questions whose answers must be stored before it runs.
    target: the text before the query, or all of a statement without one; written by the guard. tables: all that it
    reads besides answers, also through views. view: the name of a temporary view that the statement makes, and the
    view; None in its place where it is dropped. filled: whether parameters are written out in the query.
    has_definitions: whether it holds the text of views or macros, which analysts use without seeing it. readings: of
    the views and macros in it.
    """

    steps: Sequence[Step]
    query: str | None
    calls: Sequence[str] = ()
    answers: Sequence[Any] = ()
    target: str | None = None
    tables: frozenset[TableName] = frozenset()
    view: tuple[TableName, View | None] | None = None
    filled: bool = False
    has_definitions: bool = False
    readings: Sequence[Reading] = ()

    @property
    def sql(self) -> str | None:
        """The text that runs in place of the statement."""
        return None if self.query is None and self.target is None else (self.target or "") + (self.query or "")

    @property
    def shown(self) -> Decision:
        """What of the decision may be shown: not the text of a view or macro, nor what it reads, calls or asks for."""
        if not self.has_definitions:
            return self
        steps = [replace(step, note=None) for step in self.steps]
        return replace(
            self, steps=steps, query=None, target=None, readings=(), tables=frozenset(), calls=(), answers=()
        )

    @property
    def refusal(self) -> Step | None:
        return next((step for step in self.steps if step.verdict is Verdict.REFUSED), None)

    @property
    def noisy(self) -> tuple[tuple[int, float], ...]:
        """The columns of the result that are counts and sums with noise: positions and widths, as of the steps."""
        return tuple(pair for step in self.steps for pair in step.noisy)

    @property
    def note(self) -> str | None:
        """As of its steps. It has one only if the result is that of the statement's own SELECT."""
        return next((step.note for step in self.steps if step.note is not None), None)

    def rows(self) -> list[dict[str, Any]]:
        """The steps as explain_privacy shows them."""
        return [
            {
                "kind": step.kind,
                "object": step.object,
                "decision": str(step.verdict),
                "epsilon": None if step.epsilon is None else float(step.epsilon if step.drawn is None else 0),
                "remaining": None if step.remaining is None else float(step.remaining),
                "edition": step.edition,
                "drawn": step.drawn,
                "reason": step.reason,
                "within": step.within,
                "width": step.width,
                "price": None if step.epsilon is None else float(step.epsilon),
                "rewritten_sql": self.shown.sql,
            }
            for step in self.steps
        ]
