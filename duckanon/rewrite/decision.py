"""What is decided about a statement, as data: to run, to explain, or to show in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from duckanon.accounting import written


class Verdict(StrEnum):
    """What becomes of one part of a statement."""

    RUNS = "runs"
    RELEASED = "released"
    REWRITTEN = "rewritten"
    REFUSED = "refused"


@dataclass(frozen=True)
class Step:
    """One part of a statement: what it is, which table it is about, and what is decided.

    epsilon: the most that it can cost; a release that is stored already is free. remaining: the budget before it.
    """

    kind: str
    object: str | None
    verdict: Verdict
    reason: str
    epsilon: Fraction | None = None
    remaining: Fraction | None = None

    @property
    def line(self) -> str:
        """The decision in one line."""
        about = f" of {self.object}" if self.object else ""
        cost = f" (epsilon {written(self.epsilon)})" if self.epsilon is not None else ""
        return f"{self.kind}{about}: {self.verdict}{cost}. {self.reason}"


@dataclass(frozen=True)
class Copy:
    """A k-anonymous copy that must stand before the statement runs.

    call: what makes it. path: where it is kept. columns: those of the table that it shows, generalised or not.
    """

    table: tuple[str, str, str]
    call: str
    path: tuple[str, str, str]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Noisy:
    """Counts with noise that must stand before the statement runs.

    exact: the query for the counts themselves, with columns k0, ... (`keys` of them) and n. path: where they are kept.
    scale: of the double geometric noise. what: in words, without a value of the data.
    """

    table: tuple[str, str, str]
    exact: str
    path: tuple[str, str, str]
    keys: int
    epsilon: Fraction
    scale: Fraction
    what: str


@dataclass(frozen=True)
class Share:
    """One share of a conditional table. of, event: conditions as SQL, '' for all records.

    digits: decimals to which the proportion itself is rounded; None where it is not.
    """

    of: str = ""
    event: str = ""
    digits: int | None = None


@dataclass(frozen=True)
class Shares:
    """A conditional table that must be safe, and stand, before the statement runs.

    made: the query for the shares, with columns k0, ... and p0, ...; path: where they are kept. rows, cols: the columns
    of the table that are its variables, as stored. used: all columns that it looks at. linkable: what persons may be
    told apart by, as SQL; () where all of it is public. unit, small, k: the policy's. what: in words.
    """

    table: tuple[str, str, str]
    label: str
    made: str
    path: tuple[str, str, str]
    rows: tuple[str, ...]
    cols: tuple[str, ...]
    shares: tuple[Share, ...]
    used: tuple[str, ...]
    linkable: tuple[str, ...]
    unit: str | None
    small: int
    k: int
    what: str


@dataclass(frozen=True)
class Decision:
    """A statement as it will run. query: the query in it, fully qualified; None if it has none, or is refused.

    calls: the calls of duckanon's functions in the query. copies: what must stand before it runs. target: what stands
    before the query, or is all of a statement without one; written by the guard, not by the analyst.
    """

    steps: Sequence[Step]
    query: str | None
    calls: Sequence[str] = ()
    copies: Sequence[Copy | Noisy | Shares] = ()
    target: str | None = None

    @property
    def sql(self) -> str | None:
        """What runs in place of the statement."""
        return None if self.query is None and self.target is None else (self.target or "") + (self.query or "")

    @property
    def refusal(self) -> Step | None:
        return next((step for step in self.steps if step.verdict is Verdict.REFUSED), None)

    def rows(self) -> list[dict[str, Any]]:
        """The steps as explain_privacy shows them."""
        return [
            {
                "kind": step.kind,
                "object": step.object,
                "decision": str(step.verdict),
                "epsilon": None if step.epsilon is None else float(step.epsilon),
                "remaining": None if step.remaining is None else float(step.remaining),
                "reason": step.reason,
                "rewritten_sql": self.sql,
            }
            for step in self.steps
        ]
