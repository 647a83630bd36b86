"""How often editions begin: calendar periods in UTC, like the times in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

# From a time to its period: equal within a period, greater in a later one.
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
