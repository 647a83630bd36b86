"""Filters that cannot fail on any record: an error that depends on a record would disclose something about it.

A filter is made of comparisons of columns with constants (or with columns of the same type), LIKE with a constant
pattern, IS NULL, AND, OR and NOT. Each constant is cast to the column's type here, without loss; one that does not fit
is refused. So no value of a record is cast, and nothing can fail. TRY does not help: in DuckDB an error in one record
changes the result of TRY for others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from fractions import Fraction
from math import isfinite
from uuid import UUID

from duckanon.accounting import rational
from duckanon.catalog.names import fold, quoted
from duckanon.rewrite.algebra.expressions import Call, Column, Constant, Expr
from duckanon.rewrite.algebra.translate import type_of

_JOINED = {"And": " AND ", "Or": " OR "}
_COMPARED = {
    "EQ": "=",
    "NEQ": "<>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}
_MATCHED = {"Like": "LIKE", "ILike": "ILIKE"}
_ORDERED = ("GT", "GTE", "LT", "LTE", "Between")
# The arguments that each kind of call may have, operands included. Others would change its meaning.
_ARGUMENTS = {
    **dict.fromkeys((*_JOINED, *_COMPARED, "Is"), ("this", "expression")),
    **dict.fromkeys(_MATCHED, ("this", "expression", "negate")),
    **dict.fromkeys(("Not", "Paren", "Neg", "Boolean"), ("this",)),
    "In": ("this", "expressions"),
    "Between": ("this", "low", "high", "symmetric"),
    "Cast": ("this", "to"),
}
_WHOLE = {
    **{f"{name}INT": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (("TINY", 8), ("SMALL", 16))},
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    **{f"U{name}INT": (0, 2**bits - 1) for name, bits in (("TINY", 8), ("SMALL", 16), ("BIG", 64), ("HUGE", 128))},
    "UINTEGER": (0, 2**32 - 1),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# sqlglot's names of types that have another name in DuckDB.
_OTHER_NAMES = {"INT": "INTEGER", "TEXT": "VARCHAR", "REAL": "FLOAT", "INT128": "HUGEINT", "UINT128": "UHUGEINT"}


class NotTotal(Exception):
    """A condition that could fail, as far as is known. Its text says why, in one sentence."""


def written(condition: Expr, types: Mapping[str, str], today: date) -> str:
    """The condition as SQL over the table's own columns, with every constant cast to its column's type.

    types: of the table's columns as DuckDB writes them, by folded name. today: what `current_date` stands for.
    Raises NotTotal.
    """
    return _Writer(types, today).condition(condition)


def is_total(condition: Expr, types: Mapping[str, str]) -> bool:
    """Whether a condition on records is proven not to fail."""
    try:
        written(condition, types, date(2000, 1, 1))
    except NotTotal:
        return False
    return True


class _Writer:
    def __init__(self, types: Mapping[str, str], today: date) -> None:
        self._types, self._today = types, today

    def condition(self, expr: Expr) -> str:
        if isinstance(expr, Column):
            if self._type(expr) != "BOOLEAN":
                raise NotTotal(f'Column "{expr.name}" is no BOOLEAN: compare it with a constant.')
            return quoted([expr.name])
        if not isinstance(expr, Call) or not _is_plain(expr):
            raise NotTotal(_LIST)
        if expr.kind in _JOINED:
            return "(" + _JOINED[expr.kind].join(map(self.condition, expr.operands)) + ")"
        if expr.kind in ("Not", "Paren"):
            inner = self.condition(expr.operands[0])
            return f"(NOT {inner})" if expr.kind == "Not" else inner
        if expr.kind == "Boolean":
            return "true" if ("this", True) in expr.shape else "false"
        if expr.kind == "Is":
            return self._is(expr)
        if expr.kind in _MATCHED:
            return self._like(expr)
        if expr.kind in (*_COMPARED, "In", "Between"):
            return self._compared(expr)
        raise NotTotal(_LIST)

    def _is(self, expr: Call) -> str:
        subject, what = expr.operands
        if what == Call("Null"):
            return f"({quoted([subject.name]) if self._is_column(subject) else self.condition(subject)} IS NULL)"  # type: ignore[union-attr]
        if isinstance(what, Call) and what.kind == "Boolean":
            return f"({self.condition(subject)} IS {'TRUE' if _flag(what, 'this') else 'FALSE'})"
        raise NotTotal(_LIST)

    def _like(self, expr: Call) -> str:
        subject, pattern = expr.operands
        text = isinstance(subject, Column) and self._is_column(subject) and _is_text(self._type(subject))
        if not text or not isinstance(pattern, Constant) or not pattern.is_text:
            raise NotTotal("LIKE compares a column of text with a constant pattern, without ESCAPE.")
        assert isinstance(subject, Column)
        matched = f"({_shown(subject, self._type(subject))} {_MATCHED[expr.kind]} {_literal(pattern.value)})"
        return f"(NOT {matched})" if _flag(expr, "negate") else matched

    def _compared(self, expr: Call) -> str:
        columns = [one for one in expr.operands if isinstance(one, Column)]
        releases = {self._type(one) for one in columns}
        if len(releases) != 1:
            raise NotTotal(
                "A comparison has a column in it, and its columns have one type: casts and functions could fail on a "
                "record."
            )
        (kind,) = releases
        if kind.startswith("ENUM(") and expr.kind in _ORDERED and len(columns) > 1:
            raise NotTotal("Columns of an ENUM are compared by = and <> only: their order is nobody's to know.")
        parts = [_shown(one, kind) if isinstance(one, Column) else self._constant(one, kind) for one in expr.operands]
        if expr.kind == "In":
            return f"({parts[0]} IN ({', '.join(parts[1:])}))"
        if expr.kind == "Between":
            this, low, high = (parts[_operand(expr, name)] for name in ("this", "low", "high"))
            least = f"({this} BETWEEN {low} AND {high})"
            return f"({least} OR ({this} BETWEEN {high} AND {low}))" if _flag(expr, "symmetric") else least
        return f"({parts[0]} {_COMPARED[expr.kind]} {parts[1]})"

    def _is_column(self, expr: Expr) -> bool:
        return isinstance(expr, Column) and bool(self._type(expr))

    def _type(self, column: Column) -> str:
        found = self._types.get(fold(column.name))
        if found is None:
            raise NotTotal(f'The table has no column "{column.name}": look at its names in information_schema.columns.')
        return found

    def _constant(self, expr: Expr, kind: str) -> str:
        """A constant of the column's type, as SQL."""
        if expr == Call("Null"):
            return f"CAST(NULL AS {_kept(kind)})"
        found = _cast(self._text(expr, kind), kind)
        if found is None:
            raise NotTotal(
                f"A constant must be a value of its column's type ({_plain(kind)}), without loss: write it so."
            )
        return found

    def _text(self, expr: Expr, kind: str) -> tuple[str, bool]:
        """The text of a constant, and whether it was quoted. kind: type of the column with which it is compared."""
        if isinstance(expr, Constant):
            return expr.value, expr.is_text
        if isinstance(expr, Call) and _is_plain(expr):
            inner = expr.operands[0] if len(expr.operands) == 1 else None
            if expr.kind == "Boolean":
                return ("true" if ("this", True) in expr.shape else "false"), True
            if expr.kind == "CurrentDate":
                return self._today.isoformat(), True
            if expr.kind == "Neg" and isinstance(inner, Constant) and not inner.is_text:
                return f"-{inner.value}", False
            if expr.kind == "Cast" and inner is not None:
                return self._typed(inner, type_of(expr).upper(), kind)
        raise NotTotal(_LIST)

    def _typed(self, inner: Expr, to: str, kind: str) -> tuple[str, bool]:
        """The text of a typed constant such as DATE '2026-01-31', if it means the same without its type."""
        to = _OTHER_NAMES.get(to, to).replace(", ", ",")
        text = self._text(inner, kind)
        same = to == _kept(kind) or (to == "DATE" and kind == "TIMESTAMP")
        if not (same or (_is_exact(to) and _is_exact(kind))) or _cast(text, to) is None:
            raise NotTotal(
                f"A constant must be a value of its column's type ({_plain(kind)}), without loss: write it so."
            )
        return text


_LIST = (
    "A filter compares columns with constants of their own type, by AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL: "
    "casts, arithmetic, functions and queries could fail on a record."
)


def _is_plain(expr: Call) -> bool:
    """Whether a call has only arguments that are handled here."""
    known = _ARGUMENTS.get(expr.kind, ())
    return all(isinstance(one, tuple) and one[0] in known for one in expr.shape)


def _operand(expr: Call, name: str) -> int:
    """The index of an argument among the operands."""
    return [one[0] for one in expr.shape if isinstance(one, tuple) and one[1] == "part"].index(name)


def _flag(expr: Call, name: str) -> bool:
    return (name, True) in expr.shape


def _is_exact(kind: str) -> bool:
    """Whether a type holds whole numbers or decimals, which compare exactly, whatever their widths."""
    return kind in _WHOLE or _DECIMAL.fullmatch(kind) is not None


def _cast(said: tuple[str, bool], kind: str) -> str | None:
    """The text of a constant as a value of a type, in SQL; None if it is none or would be rounded."""
    text, is_text = said
    if _is_text(kind):
        return _literal(text) if is_text else None
    if kind == "BOOLEAN":
        return text.lower() if text.lower() in ("true", "false") and is_text else None
    if kind in _MOMENTS:
        return _MOMENTS[kind](text) if is_text else None
    number = rational(text.strip())
    return None if number is None else _number(number, kind)


def _number(number: Fraction, kind: str) -> str | None:
    if kind in _WHOLE:
        least, most = _WHOLE[kind]
        fits = number.denominator == 1 and least <= number <= most
        return f"CAST('{number.numerator}' AS {kind})" if fits else None
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        width, scale = int(decimal[1]), int(decimal[2])
        scaled = number * 10**scale
        if scaled.denominator != 1 or abs(scaled) >= 10**width:
            return None
        digits = f"{abs(scaled.numerator):0{scale + 1}d}"
        whole = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return f"CAST('{'-' * (scaled < 0)}{whole}' AS {kind})"
    if kind in ("FLOAT", "DOUBLE"):
        try:
            nearest = float(number)
        except OverflowError:
            return None
        return (
            f"CAST('{nearest!r}' AS {kind})"
            if isfinite(nearest) and (kind == "DOUBLE" or abs(nearest) < 3e38)
            else None
        )
    return None


def _date(text: str) -> str | None:
    try:
        return f"DATE '{date.fromisoformat(text)}'" if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _timestamp(text: str) -> str | None:
    day, gap, clock = text[:10], text[10:11], text[11:]
    if not _DATE.fullmatch(day) or gap not in ("", " ", "T") or bool(gap) != bool(_TIME.fullmatch(clock)):
        return None
    try:
        found = datetime.combine(date.fromisoformat(day), time.fromisoformat(_padded(clock)) if gap else time())
    except ValueError:
        return None
    return f"TIMESTAMP '{found.isoformat(sep=' ')}'"


def _time(text: str) -> str | None:
    try:
        return f"TIME '{time.fromisoformat(_padded(text)).isoformat()}'" if _TIME.fullmatch(text) else None
    except ValueError:
        return None


def _padded(clock: str) -> str:
    """A time whose fraction has six digits, which Python 3.10 could not read otherwise."""
    whole, point, part = clock.partition(".")
    return f"{whole}.{part:0<6}" if point else whole


def _uuid(text: str) -> str | None:
    return f"CAST('{UUID(text)}' AS UUID)" if _UUID.fullmatch(text) else None


_MOMENTS = {"DATE": _date, "TIMESTAMP": _timestamp, "TIME": _time, "UUID": _uuid}


def _is_text(kind: str) -> bool:
    # A cast to an ENUM fails for a text that is none of its values, which would tell the values. So text is compared.
    return kind == "VARCHAR" or kind.startswith("ENUM(")


def _kept(kind: str) -> str:
    return "VARCHAR" if _is_text(kind) else kind


def _plain(kind: str) -> str:
    return "VARCHAR" if _is_text(kind) else kind.split("(")[0]


def _shown(column: Column, kind: str) -> str:
    """A column in SQL, in the form in which it is compared."""
    name = quoted([column.name])
    if kind.startswith("ENUM("):
        return f"CAST({name} AS VARCHAR)"
    plain = {*_WHOLE, *_MOMENTS, "BOOLEAN", "FLOAT", "DOUBLE"}
    if kind not in plain and not _is_text(kind) and not _DECIMAL.fullmatch(kind):
        raise NotTotal(f'Column "{column.name}" has a type that filters do not compare: {_plain(kind)}.')
    return name


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
