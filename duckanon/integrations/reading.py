"""How a text file is read, as far as somebody says it: what is not said is found out, and told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckanon.errors import InvalidInput

# What is done with a sentence about how a file was read.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Reading:
    """How a text file is read. encoding: a name that Python knows. decimal: `,` or `.`, the sign before decimals.

    null: texts that stand for a missing value, besides the empty one. date_format: of dates, as strptime has it.
    """

    encoding: str | None = None
    decimal: str | None = None
    null: tuple[str, ...] = ()
    date_format: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ",", "."):
            raise InvalidInput("--decimal is the sign before decimals, a comma or a point: --decimal , or --decimal .")
        if self.date_format is not None and not {"%d", "%m"} <= {self.date_format[i : i + 2] for i in range(99)}:
            raise InvalidInput("--date-format has a day, a month and a year, as in --date-format %d.%m.%Y.")

    @property
    def is_said(self) -> bool:
        """Whether anything is said."""
        return self != Reading()


def silent(_: str) -> None:
    """Tell nobody how a file was read."""
