"""The names of columns, in answers and in the queries that make them: nowhere else are they put together from text."""

from __future__ import annotations


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
