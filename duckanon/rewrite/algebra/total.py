"""Expressions that have a value for every value of their columns, as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

LISTED = (
    "A filter compares columns, total functions of columns and constants of one type, by AND, OR, NOT, IN, BETWEEN, "
    "LIKE and IS NULL: other casts, arithmetic, functions and queries could fail on a record."
)
# Dates outside are taken for infinite by the functions that could fail on them.
EARLIEST, LATEST = "290000-01-01 (BC)", "290000-12-31"


@dataclass(frozen=True)
class Scalar:
    """A total expression: its SQL and type. A moment with a time zone is written as a TIMESTAMP in UTC.

    span: the least and the greatest value of a number, if it has such. enum: the type of the column, if it is one of an
    ENUM, which is written as text. null: whether it is NULL. number: the value of a constant number. is_near: whether a
    time is infinite or within 290,000 years, give or take days: functions that only move it have a value. is_moment:
    whether DuckDB has a moment with a time zone where this is a time in UTC, which is the session's zone. is_start:
    whether it is a day by date_trunc, which DuckDB has as a TIMESTAMP (DuckDB 1 as a DATE, if it is of a DATE).
    """

    sql: str
    kind: str
    span: tuple[Fraction, Fraction] | None = None
    enum: str = ""
    null: bool = False
    number: Fraction | None = None
    is_near: bool = False
    is_moment: bool = False
    is_start: bool = False


def builtin(name: str, *arguments: str) -> str:
    """A call of DuckDB's own function or operator: a macro may have its name."""
    own = name if name.isidentifier() else f'"{name}"'
    return f"system.main.{own}({', '.join(arguments)})"


def within_years(scalar: Scalar, earliest: str = EARLIEST, latest: str = LATEST) -> tuple[str, str]:
    """A condition that a date or a timestamp lies between two, and the same moved to between them."""
    low, high = f"{scalar.kind} '{earliest}'", f"{scalar.kind} '{latest}'"
    return f"{scalar.sql} >= {low} AND {scalar.sql} <= {high}", builtin(
        "least", builtin("greatest", scalar.sql, low), high
    )
