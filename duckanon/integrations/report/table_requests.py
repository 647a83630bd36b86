"""The tables that a report's options name: released tables, and tables of which shares are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from duckanon.errors import InvalidInput
from duckanon.integrations.calls import split


@dataclass(frozen=True)
class TableRequest:
    """A table to assess. A released table has quasi-identifiers, a table of published shares has rows and columns."""

    table: str
    qi: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    cols: list[str] = field(default_factory=list)
    count: str | None = None


def table_requests(
    released: Sequence[str] | None,
    qi: Sequence[str] | None,
    shares: Sequence[str] | None,
    rows: Sequence[str] | None,
    cols: Sequence[str] | None,
    count: Sequence[str] | None,
) -> list[TableRequest]:
    """The tables that repeated options name: the first --released goes with the first --qi, and so on.

    Raises InvalidInput where options are missing or left over.
    """
    released, qi, shares, rows, cols, count = ([*(one or ())] for one in (released, qi, shares, rows, cols, count))
    if len(released) != len(qi):
        raise InvalidInput("Each --released needs its own --qi: --released patients --qi age_lo,age_hi.")
    if not len(shares) == len(rows) == len(cols):
        raise InvalidInput("Each --shares needs its own --rows and --cols: --shares visits --rows ward --cols outcome.")
    if count and len(count) != len(shares):
        raise InvalidInput("Give --count for each of --shares, or for none.")
    counts: list[str | None] = [*count] if count else [None] * len(shares)
    return [
        *(TableRequest(table, qi=split([columns])) for table, columns in zip(released, qi, strict=True)),
        *(
            TableRequest(table, rows=split([down]), cols=split([across]), count=column)
            for table, down, across, column in zip(shares, rows, cols, counts, strict=True)
        ),
    ]
