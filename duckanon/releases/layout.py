"""The cells of an answer: the names of the columns that have them, and what divides them beside the keys.

Names of columns are put together from text nowhere else, neither in answers nor in the queries that make them. Beside
its keys, a record has a place among a fixed number of outcomes of each event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


def key(at: int) -> str:
    """A key's value in the domains, and what a cell is shown by."""
    return f"k{at}"


def event(at: int) -> str:
    """The position of the condition of an event that holds in a cell, after the last if none does."""
    return f"e{at}"


def base(at: int) -> str:
    """A key's value in a cell, where cells are shown by something else."""
    return f"b{at}"


def own_key(at: int) -> str:
    """A record's value of a key."""
    return f"c{at}"


def own_event(at: int) -> str:
    """As `event`, of a record."""
    return f"d{at}"


def value(at: int) -> str:
    """What a measure takes of a record."""
    return f"i{at}"


def total(at: int, place: int) -> str:
    """An exact total of a measure."""
    return f"t{at}_{place}"


def group(at: int) -> str:
    """A part of what identifies a record's group."""
    return f"g{at}"


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """A whole number that is computed of each record: its place among the numbers from `low` on.

    sql: the number, which cannot fail. last: the last place, where a record without the number is, too.
    """

    sql: str
    low: int
    last: int

    def __len__(self) -> int:
        return self.last


# Conditions: the first that holds decides, the last place is that of a record for which none does. Or steps.
Event: TypeAlias = tuple[str, ...] | Steps


def outcome(event: Event) -> str:
    """The place of a record, as SQL. There are `len(event) + 1`."""
    if isinstance(event, Steps):
        return f"(CASE WHEN {event.sql} IS NOT NULL THEN {event.sql} - ({event.low}) ELSE {event.last} END)"
    tried = " ".join(f"WHEN {condition} THEN {at}" for at, condition in enumerate(event))
    return f"(CASE {tried} ELSE {len(event)} END)"


def in_words(event: Event, called: Callable[[str], str] = str) -> str:
    """called: the statement's name of what an SQL expression computes, or the expression."""
    return f"steps of {called(event.sql)}" if isinstance(event, Steps) else " / ".join(event)


def combinations(events: Sequence[Event]) -> int:
    """How many combinations of conditions there are, whatever steps there are."""
    number = 1
    for event in events:
        number *= 1 if isinstance(event, Steps) else len(event) + 1
    return number
