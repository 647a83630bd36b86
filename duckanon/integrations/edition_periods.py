"""How often editions begin: by the calendar, in UTC, as the ledger's times are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

# Equal within a period, greater in a later one.
PERIODS: Mapping[str, Callable[[datetime], tuple[int, ...]]] = {
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: tuple(at.isocalendar()[:2]),
    "monthly": lambda at: (at.year, at.month),
    "quarterly": lambda at: (at.year, (at.month - 1) // 3),
    "yearly": lambda at: (at.year,),
}


def is_due(period: str, began: datetime, now: datetime) -> bool:
    """Whether something that began in an earlier period than now's should begin again."""
    return PERIODS[period](began) < PERIODS[period](now)
