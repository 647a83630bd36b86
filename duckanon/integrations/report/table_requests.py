"""The tables that a report's options name: released tables, and tables of which shares are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.calls import split


@dataclass(frozen=True)
class TableRequest:
    """A table to assess. A released table has quasi-identifiers, a table of published shares has rows and columns.

    count: its column of counts. p, n, digits: its column of shares, of how many records they are, and to how many
    decimals they are rounded. With neither, each row is a record.
    """

    table: str
    qi: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    cols: list[str] = field(default_factory=list)
    count: str | None = None
    p: str | None = None
    n: int | None = None
    digits: int | None = None


def table_requests(
    released: Sequence[str] | None,
    qi: Sequence[str] | None,
    shares: Sequence[str] | None,
    **of_shares: Sequence[Any] | None,
) -> list[TableRequest]:
    """The tables that repeated options name: the first --released goes with the first --qi, and so on.

    of_shares: rows, cols, count, p, n and digits, by name. Raises InvalidInput where options are missing or left over.
    """
    released, qi, shares = ([*(texts or ())] for texts in (released, qi, shares))
    if len(released) != len(qi):
        raise InvalidInput("Each --released needs its own --qi: --released patients --qi age_lo,age_hi.")
    given = {name: [*(values or ())] for name, values in of_shares.items()}
    if not len(shares) == len(given["rows"]) == len(given["cols"]):
        raise InvalidInput("Each --shares needs its own --rows and --cols: --shares visits --rows ward --cols outcome.")
    for name in ("count", "p", "n", "digits"):
        if given[name] and len(given[name]) != len(shares):
            raise InvalidInput(f"Give --{name} for each of --shares, or for none.")
    if bool(given["p"]) != bool(given["n"]):
        raise InvalidInput("Shares need both --p, their column, and --n, the number of records that they are of.")
    if given["count"] and given["p"]:
        raise InvalidInput("A table of shares holds either counts (--count) or shares (--p and --n): name one of them.")
    found = [TableRequest(table, qi=split([columns])) for table, columns in zip(released, qi, strict=True)]
    for i, table in enumerate(shares):
        more = {name: given[name][i] for name in ("count", "p", "n", "digits") if given[name]}
        rows, cols = split([given["rows"][i]]), split([given["cols"][i]])
        found.append(TableRequest(table, rows=rows, cols=cols, **more))
    return found
