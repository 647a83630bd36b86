"""Keys whose values follow from the bounds of columns that have no domain, such as `floor(age / 10) * 10`.

The bounds are public, so the values of such a key are, too. What lies outside of the bounds counts in the first or the
last of them, as in sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from duckanon.releases.noise import NotOffered
from duckanon.releases.numbers import Columns
from duckanon.rewrite.algebra.bounds import DATE, Bounded, NotBounded, counted, known
from duckanon.rewrite.algebra.constants import NUMBER, in_sql
from duckanon.rewrite.algebra.expressions import Constant, Expr
from duckanon.rewrite.algebra.scalars import called

# More values would make the query that puts records into cells too long.
MOST_VALUES = 63
_FIRST = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Histogram:
    """The values of a key as SQL, each with the condition of a record that has it.

    nullable: whether a record may have none of them.
    """

    tests: tuple[str, ...]
    values: tuple[str, ...]
    nullable: bool


def histogram(columns: Columns, expr: Expr, shown: str) -> Histogram:
    """The values of a key. shown: how it is written.

    Raises NotOffered for one that has too many values, and NotBounded and NotTotal for one of which none are known.
    """
    try:
        found, value = _truncated(columns, expr) or _plain(columns, expr)
    except NotOffered as no:
        raise NotBounded(str(no)) from no
    values = found.high - found.low + 1
    if values > MOST_VALUES:
        raise NotOffered(
            f"A key that is computed from bounds has at most {MOST_VALUES} values, and {shown} has {values:,}: take "
            "wider steps, or fewer of them by a condition with CASE."
        )
    steps = range(found.low, found.high + 1)
    return Histogram(
        tuple(f"({found.sql} = {one})" for one in steps), tuple(value(one) for one in steps), found.nullable
    )


def _plain(columns: Columns, expr: Expr) -> tuple[Bounded, Callable[[int], str]]:
    """A number or a day, and its values as SQL, by their steps."""
    found = known(expr, columns)
    if found.kind == DATE:
        return found, lambda at: in_sql((_FIRST + timedelta(days=at)).date(), "DATE")
    if found.kind != NUMBER:
        raise NotBounded("A key is a number, a day, or a part of a date")
    kind = "DOUBLE" if found.scale is None else f"DECIMAL(18,{found.scale})" if found.scale else "BIGINT"
    return found, lambda at: in_sql(at * found.step, kind)


def _truncated(columns: Columns, expr: Expr) -> tuple[Bounded, Callable[[int], str]] | None:
    """A date or a timestamp, truncated to a unit; None for anything else."""
    name, arguments = called(expr)
    if name != "date_trunc" or len(arguments) != 2 or not isinstance(arguments[1], Constant):
        return None
    unit = arguments[1].value.lower()
    found = counted(unit, known(arguments[0], columns))
    if unit in _STARTS:
        return found, lambda at: in_sql(_STARTS[unit](at), "DATE")
    length = timedelta(**{f"{unit}s": 1})
    return found, lambda at: in_sql(_FIRST + at * length, "TIMESTAMP")


# The first day of a unit, by its number.
_STARTS: Mapping[str, Callable[[int], date]] = {
    "day": lambda at: (_FIRST + timedelta(days=at)).date(),
    "month": lambda at: date(at // 12, at % 12 + 1, 1),
    "quarter": lambda at: date(at // 4, at % 4 * 3 + 1, 1),
    "year": lambda at: date(at, 1, 1),
}
