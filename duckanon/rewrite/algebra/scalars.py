"""Scalar expressions over a table's columns that cannot fail on any record, written as SQL with their types.

A closed list: each function on it is total, which means that it has a value for every value of its arguments' types, as
the tests show on all extreme values on the oldest and newest DuckDB. Results depend on the record alone, not on
settings, on other records or on their order. Of numbers the least and the greatest possible value are followed, so that
arithmetic is done in a type that holds every result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from math import ceil, floor

from duckanon.catalog.names import fold, quoted
from duckanon.rewrite.algebra import constants
from duckanon.rewrite.algebra.constants import (
    NOTHING,
    NUMBER,
    TEXT,
    WHOLE,
    NotTotal,
    Value,
    digits,
    folded,
    is_exact,
    is_text,
    reach,
)
from duckanon.rewrite.algebra.expressions import (
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Constant,
    Expr,
    Function,
    Negative,
    Operation,
    Operator,
    Round,
    Word,
)

LISTED = (
    "A filter compares columns, total functions of columns and constants of one type, by AND, OR, NOT, IN, BETWEEN, "
    "LIKE and IS NULL: other casts, arithmetic, functions and queries could fail on a record."
)
# The most characters that left, right and substring count.
_LONGEST = 1_000_000
# Constants by which DOUBLEs are divided or multiplied, so that results are finite.
_LEAST, _MOST = Fraction(1, 10**60), Fraction(10**60)
# Dates outside are taken for infinite by the functions that could fail on them.
_EARLIEST, _LATEST = "290000-01-01 (BC)", "290000-12-31"


@dataclass(frozen=True)
class Scalar:
    """A total expression: its SQL and type. span: the least and the greatest value of a number, if it has such.

    enum: the type of the column, if it is one of an ENUM, which is written as text. null: whether it is NULL.
    number: the value of a constant number.
    """

    sql: str
    kind: str
    span: tuple[Fraction, Fraction] | None = None
    enum: str = ""
    null: bool = False
    number: Fraction | None = None


class Scalars:
    """Writes scalar expressions. condition: writes a condition, for CASE."""

    def __init__(self, types: Mapping[str, str], today: date, condition: Callable[[Expr], str]) -> None:
        self._types, self._today, self._condition = types, today, condition

    def constant(self, expr: Expr) -> Value | None:
        """The value of a constant expression; None for any other expression."""
        return folded(expr, self._today)

    def type_of_column(self, column: Column) -> str:
        found = self._types.get(fold(column.name))
        if found is None:
            raise NotTotal(f'The table has no column "{column.name}": look at its names in information_schema.columns.')
        return found

    def scalar(self, expr: Expr) -> Scalar:
        """An expression over columns. Raises NotTotal."""
        match expr:
            case Column():
                return self._column(expr)
            case Case():
                return self._case(expr)
            case Coalesce(operands):
                return self._coalesced(operands)
            case Cast(operand, kind, tries=False):
                return _cast(self.scalar(operand), constants.type_name(kind))
            case Arithmetic(operator, left, right):
                return ARITHMETIC[operator](self._number(left), self._number(right))
        name, arguments = called(expr)
        if name in FUNCTIONS:
            first, *rest = arguments
            return FUNCTIONS[name](self.scalar(first), [self.constant(one) for one in rest])
        raise NotTotal(LISTED)

    def _column(self, column: Column) -> Scalar:
        kind, name = self.type_of_column(column), quoted([column.name])
        if kind.startswith("ENUM("):
            return Scalar(f"CAST({name} AS VARCHAR)", "VARCHAR", enum=kind)
        if kind not in constants.SIMPLE and digits(kind) is None:
            raise NotTotal(f'Column "{column.name}" has a type that filters do not compare: {constants.plain(kind)}.')
        return Scalar(name, kind, reach(kind) if is_exact(kind) else None)

    def _number(self, expr: Expr) -> Scalar:
        """An operand of arithmetic: a scalar, or a constant number."""
        value = self.constant(expr)
        return self.scalar(expr) if value is None else _of_number(value)

    def _case(self, expr: Case) -> Scalar:
        values = self._alike(expr.values)
        *thens, default = values
        written = " ".join(
            f"WHEN {self._condition(branch.condition)} THEN {then.sql}"
            for branch, then in zip(expr.branches, thens, strict=True)
        )
        return Scalar(f"CASE {written} ELSE {default.sql} END", default.kind, _around(values))

    def _coalesced(self, operands: Sequence[Expr]) -> Scalar:
        values = self._alike(operands)
        return Scalar(f"coalesce({', '.join(one.sql for one in values)})", values[0].kind, _around(values))

    def _alike(self, exprs: Sequence[Expr]) -> list[Scalar]:
        """Values of one type: that of the columns among them, or the least that holds all constants."""
        found = [(self.constant(one), one) for one in exprs]
        scalars = [self.scalar(one) for value, one in found if value is None]
        kind = together([one.kind for one in scalars], [value for value, _ in found if value is not None])
        rest = iter(scalars)
        return [widened(next(rest), kind) if value is None else of_constant(value, kind) for value, _ in found]


def builtin(name: str, *arguments: str) -> str:
    """A call of DuckDB's own function or operator: a macro may have its name."""
    own = name if name.isidentifier() else f'"{name}"'
    return f"system.main.{own}({', '.join(arguments)})"


def together(kinds: Sequence[str], values: Sequence[Value]) -> str:
    """The type in which scalars of these types and constants are compared or brought together. Raises NotTotal."""
    different = set(kinds)
    if not different:
        return _least_kind([one for one in values if one.kind != NOTHING])
    if len(different) == 1:
        (kind,) = different
    elif all(one in WHOLE for one in different):
        kind = _holding([reach(one) for one in different], sorted(different, key=lambda one: reach(one)[1]))
    elif "DOUBLE" in different and all(is_exact(one) for one in different - {"DOUBLE"}):
        kind = "DOUBLE"
    else:
        raise NotTotal(
            "Values of different types are compared: a cast could fail on a record. Compare values of one type."
        )
    numbers = [one.value for one in values if one.kind == NUMBER and isinstance(one.value, Fraction)]
    if kind in WHOLE and all(one.denominator == 1 for one in numbers):
        # A whole number that the column's type does not hold widens it, as in DuckDB.
        return _holding([reach(kind), *((one, one) for one in numbers)], [kind, "INTEGER", "BIGINT"])
    return kind


def _least_kind(values: Sequence[Value]) -> str:
    """The type of constants alone, as DuckDB chooses it."""
    kinds = {one.kind for one in values}
    if kinds and kinds <= {TEXT, "VARCHAR"}:
        return "VARCHAR"
    if len(kinds) == 1 and kinds.isdisjoint({NUMBER}):
        return kinds.pop()
    numbers = [one.value for one in values if one.kind == NUMBER and isinstance(one.value, Fraction)]
    if numbers and len(numbers) == len(values) and all(one.denominator == 1 for one in numbers):
        return _holding([(one, one) for one in numbers], ["INTEGER", "BIGINT"])
    raise NotTotal("The values of CASE and coalesce are of one type: texts, whole numbers, dates or truth values.")


def of_constant(value: Value, kind: str) -> Scalar:
    """A constant as SQL of a type. Raises NotTotal if the type does not have that value."""
    if value.value is None and (value.kind in (NOTHING, kind)):
        return Scalar(f"CAST(NULL AS {kind})", kind, null=True)
    if value.kind == constants.NOW:
        raise NotTotal(
            "now() is another time at each call, so each would be a question of its own: compare with current_date, or "
            "write the time out."
        )
    found = constants.of_type(value, kind)
    if found is None:
        raise NotTotal(
            f"A constant must be a value of its column's type ({constants.plain(kind)}), without loss: write it so."
        )
    span = (found, found) if isinstance(found, Fraction) else None
    return Scalar(constants.in_sql(found, kind), kind, span)


def widened(one: Scalar, kind: str) -> Scalar:
    """A scalar in a type that holds all its values."""
    if one.kind == kind:
        return one
    sql = f"CAST({one.sql} AS {kind})" if one.number is None else constants.in_sql(one.number, kind)
    return replace(one, sql=sql, kind=kind)


def _of_number(value: Value) -> Scalar:
    number = value.value
    if not isinstance(number, Fraction) or value.kind not in (NUMBER, "DOUBLE", *WHOLE):
        raise NotTotal(LISTED)
    kind = constants.decimal_type(number) if value.kind == NUMBER else value.kind
    if value.kind == NUMBER and number.denominator == 1:
        kind = _holding([(number, number)], ["INTEGER", "BIGINT"])
    if kind is None:
        raise NotTotal("A number has too many digits: round it.")
    return Scalar(constants.in_sql(number, kind), kind, (number, number), number=number)


def _holding(spans: Sequence[tuple[Fraction, Fraction]], first: Sequence[str]) -> str:
    """The first type that holds all numbers of the spans: one of `first`, or a HUGEINT. Raises NotTotal."""
    low, high = min(one for one, _ in spans), max(one for _, one in spans)
    for kind in (*first, "HUGEINT"):
        if reach(kind)[0] <= low and high <= reach(kind)[1]:
            return kind
    raise NotTotal("A number could leave the range of every type: compute with smaller ones.")


def _around(values: Sequence[Scalar]) -> tuple[Fraction, Fraction] | None:
    """The least and the greatest of several values."""
    spans = [one.span for one in values if not one.null]
    known = [one for one in spans if one is not None]
    if not known or len(known) < len(spans):
        return None
    return min(one for one, _ in known), max(one for _, one in known)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _in_range(
    sign: str, one: Scalar, other: Scalar, span: tuple[Fraction, Fraction], *also: tuple[Fraction, Fraction]
) -> Scalar:
    """An operation on whole numbers in a type that holds its operands and results. also: other spans that must fit."""
    assert one.span is not None
    assert other.span is not None
    # The constant takes the type of the other operand, where that holds it.
    named = [each for each in (one, other) if each.number is None]
    kinds = sorted({each.kind for each in named or (one, other)}, key=lambda kind: reach(kind)[1])
    kind = _holding([one.span, other.span, span, *also], [kinds[-1], "INTEGER", "BIGINT"])
    a, b = widened(one, kind), widened(other, kind)
    return Scalar(builtin(sign, a.sql, b.sql), kind, span)


def _in_double(sign: str, one: Scalar, other: Scalar, span: tuple[Fraction, Fraction]) -> Scalar:
    a, b = (widened(each, "DOUBLE") for each in (one, other))
    # A result is rounded: by less than this.
    slack = max(abs(span[0]), abs(span[1])) / 10**9
    return Scalar(builtin(sign, a.sql, b.sql), "DOUBLE", (span[0] - slack, span[1] + slack))


def _spans(one: Scalar, other: Scalar) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """The spans of two numbers. Raises NotTotal if one has no span."""
    fit = [is_exact(each.kind) or each.kind == "DOUBLE" for each in (one, other)]
    if one.span is None or other.span is None or not all(fit):
        raise NotTotal(
            "Arithmetic is for whole numbers, decimals are divided by constants, and others could overflow: compute "
            "with the constant instead, as in x > 100 for x / 2 > 50."
        )
    if max(abs(each) for each in (*one.span, *other.span)) > _MOST:
        raise NotTotal("A number could leave the range of every type: compute with smaller ones.")
    return (*one.span, *other.span)


def _combined(sign: str, one: Scalar, other: Scalar, span: tuple[Fraction, Fraction]) -> Scalar:
    if one.kind in WHOLE and other.kind in WHOLE:
        return _in_range(sign, one, other, span)
    if "DOUBLE" not in (one.kind, other.kind):
        raise NotTotal("Decimals are not computed with here, but divided: compare them with constants.")
    return _in_double(sign, one, other, span)


def _sum(one: Scalar, other: Scalar) -> Scalar:
    a, b, c, d = _spans(one, other)
    return _combined("+", one, other, (a + c, b + d))


def _difference(one: Scalar, other: Scalar) -> Scalar:
    a, b, c, d = _spans(one, other)
    return _combined("-", one, other, (a - d, b - c))


def _product(one: Scalar, other: Scalar) -> Scalar:
    a, b, c, d = _spans(one, other)
    ends = [a * c, a * d, b * c, b * d]
    return _combined("*", one, other, (min(ends), max(ends)))


def _divisor(other: Scalar) -> Fraction:
    if other.number is None or not _LEAST <= abs(other.number) <= _MOST:
        raise NotTotal("Numbers are divided by constants other than zero only: others could fail on a record.")
    return other.number


def _quotient(one: Scalar, other: Scalar) -> Scalar:
    a, b, *_ = _spans(one, other)
    by = _divisor(other)
    ends = [a / by, b / by]
    return _in_double("/", one, other, (min(ends), max(ends)))


def _whole_quotient(one: Scalar, other: Scalar) -> Scalar:
    a, b, *_ = _spans(one, other)
    by = _divisor(other)
    if one.kind not in WHOLE or other.kind not in WHOLE:
        raise NotTotal("// is for whole numbers: others are divided by /.")
    ends = [a / by, b / by]
    return _in_range("//", one, other, (Fraction(int(min(ends))), Fraction(int(max(ends)))))


def _remainder(one: Scalar, other: Scalar) -> Scalar:
    a, b, *_ = _spans(one, other)
    by = _divisor(other)
    if one.kind not in WHOLE or other.kind not in WHOLE:
        raise NotTotal("% is for whole numbers.")
    most = abs(by) - 1
    # The machine computes the quotient too, which overflows for the least number by -1.
    return _in_range(
        "%", one, other, (max(-most, min(a, Fraction(0))), min(most, max(b, Fraction(0)))), (a / by, a / by)
    )


ARITHMETIC: Mapping[Operator, Callable[[Scalar, Scalar], Scalar]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
}


# --- casts ------------------------------------------------------------------------------------------------------------


def _cast(one: Scalar, kind: str) -> Scalar:
    """A cast that holds for every value."""
    if one.kind == kind:
        return one
    if kind in WHOLE and one.span is not None:
        # A cast rounds.
        low, high = Fraction(floor(one.span[0])), Fraction(ceil(one.span[1]))
        if reach(kind)[0] <= low and high <= reach(kind)[1]:
            return Scalar(f"CAST({one.sql} AS {kind})", kind, (low, high))
    if kind == "DOUBLE" and is_exact(one.kind) and one.span is not None:
        return Scalar(f"CAST({one.sql} AS {kind})", kind, one.span)
    if (one.kind, kind) in _CASTS or (kind == "VARCHAR" and one.kind in WHOLE):
        return Scalar(f"CAST({one.sql} AS {kind})", kind)
    if one.kind == "BOOLEAN" and kind in WHOLE:
        return Scalar(f"CAST({one.sql} AS {kind})", kind, (Fraction(0), Fraction(1)))
    raise NotTotal(LISTED)


_CASTS = {("TIMESTAMP", "DATE"), ("DATE", "VARCHAR"), ("BOOLEAN", "VARCHAR"), ("UUID", "VARCHAR"), ("FLOAT", "DOUBLE")}


# --- functions --------------------------------------------------------------------------------------------------------

_Function = Callable[[Scalar, Sequence[Value | None]], Scalar]


def _no_more(rest: Sequence[Value | None]) -> None:
    if rest:
        raise NotTotal(LISTED)


def _texts(one: Scalar, rest: Sequence[Value | None], most: int) -> list[str]:
    """The arguments of a function of a text: the text, and up to `most` constant texts."""
    if not is_text(one.kind) or len(rest) > most:
        raise NotTotal(LISTED)
    return [one.sql, *(of_constant(each, "VARCHAR").sql for each in _given(rest))]


def _given(rest: Sequence[Value | None]) -> list[Value]:
    known = [one for one in rest if one is not None and one.value is not None]
    if len(known) < len(rest):
        raise NotTotal("The further arguments of a function are constants, and not NULL.")
    return known


def _of_text(name: str, kind: str = "VARCHAR", most: int = 0, least: int = 0) -> _Function:
    """A function of a text and up to `most` constant texts."""

    def written(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
        if len(rest) < least:
            raise NotTotal(LISTED)
        span = (Fraction(0), Fraction(2**40)) if kind == "BIGINT" else None
        return Scalar(builtin(name, *_texts(one, rest, most)), kind, span)

    return written


def _part_of_text(name: str, least: int, most: int) -> _Function:
    """left, right and substring, with constant numbers of characters."""

    def written(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
        numbers = [each.value for each in _given(rest) if each.kind in (NUMBER, *WHOLE)]
        plain = [int(each) for each in numbers if isinstance(each, Fraction) and each.denominator == 1]
        fits = least <= len(plain) <= most and len(plain) == len(rest) and all(abs(each) <= _LONGEST for each in plain)
        if not fits or (len(plain) == 2 and plain[1] < 0):
            raise NotTotal(f"{name} takes constant whole numbers of characters, up to {_LONGEST:,}.")
        return Scalar(builtin(name, *_texts(one, (), 0), *map(str, plain)), "VARCHAR")

    return written


def _between(one: Scalar) -> tuple[str, str]:
    """A condition that a date is within 290,000 years, and the date moved into them."""
    low, high = f"{one.kind} '{_EARLIEST}'", f"{one.kind} '{_LATEST}'"
    return f"{one.sql} >= {low} AND {one.sql} <= {high}", builtin("least", builtin("greatest", one.sql, low), high)


def _of_date(
    name: str, low: int, high: int, *, guarded: bool = False, kinds: tuple[str, ...] = ("DATE", "TIMESTAMP")
) -> _Function:
    """A part of a date as a number. guarded: whether it is NULL beyond 290,000 years, where it could fail."""

    def written(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
        _no_more(rest)
        if one.kind not in kinds:
            raise NotTotal(f"{name} is for columns of the types {' and '.join(kinds)} here.")
        sql = builtin(name, one.sql)
        if guarded:
            inside, moved = _between(one)
            sql = f"CASE WHEN {inside} THEN {builtin(name, moved)} END"
        return Scalar(sql, "BIGINT", (Fraction(low), Fraction(high)))

    return written


def _truncated(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """date_trunc to a day or a longer unit. Dates beyond 290,000 years count as infinite."""
    (unit,) = [str(each.value).lower() for each in _given(rest)] or [""]
    if one.kind == "TIMESTAMP" and unit in ("hour", "minute", "second"):
        return Scalar(builtin("date_trunc", f"'{unit}'", one.sql), "TIMESTAMP")
    if one.kind not in ("DATE", "TIMESTAMP") or unit not in _TRUNCATED:
        raise NotTotal(f"date_trunc is for dates and timestamps here, to {', '.join(_TRUNCATED)}.")
    inside, moved = _between(one)
    truncated = builtin("date_trunc", f"'{unit}'", moved)
    sql = (
        f"CASE WHEN {inside} THEN CAST({truncated} AS DATE) "
        f"WHEN {one.sql} > {one.kind} '{_LATEST}' THEN DATE 'infinity' "
        f"WHEN {one.sql} < {one.kind} '{_EARLIEST}' THEN DATE '-infinity' END"
    )
    return Scalar(sql, "DATE")


_TRUNCATED = ("day", "week", "month", "quarter", "year", "decade", "century")


def _rounded(name: str) -> _Function:
    """floor, ceil and round: a DECIMAL without digits of a DECIMAL, else a DOUBLE."""

    def written(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
        _no_more(rest)
        span = None if one.span is None else (Fraction(floor(one.span[0])), Fraction(ceil(one.span[1])))
        decimal = digits(one.kind)
        if decimal is not None:
            return Scalar(builtin(name, one.sql), f"DECIMAL({decimal[0]},0)", span)
        if one.kind in ("FLOAT", "DOUBLE") or (one.kind in WHOLE and name != "round"):
            exact = one if one.kind == "FLOAT" else _cast(one, "DOUBLE")
            return Scalar(builtin(name, exact.sql), exact.kind, span)
        raise NotTotal(LISTED)

    return written


def _absolute(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
    _no_more(rest)
    if one.kind in WHOLE and one.span is not None:
        most = max(abs(one.span[0]), abs(one.span[1]))
        kind = _holding([one.span, (Fraction(0), most)], [one.kind, "BIGINT"])
        return Scalar(builtin("abs", widened(one, kind).sql), kind, (Fraction(0), most))
    if one.kind in ("FLOAT", "DOUBLE") or digits(one.kind) is not None:
        span = None if one.span is None else (Fraction(0), max(abs(one.span[0]), abs(one.span[1])))
        return Scalar(builtin("abs", one.sql), one.kind, span)
    raise NotTotal(LISTED)


def _negative(one: Scalar, rest: Sequence[Value | None]) -> Scalar:
    _no_more(rest)
    if one.kind in WHOLE:
        return _difference(_of_number(Value(Fraction(0), NUMBER)), one)
    raise NotTotal(LISTED)


_DATES: Mapping[str, _Function] = {
    "year": _of_date("year", -6_000_000, 6_000_000),
    "quarter": _of_date("quarter", 1, 4),
    "month": _of_date("month", 1, 12),
    "day": _of_date("day", 1, 31),
    "dayofweek": _of_date("dayofweek", 0, 6),
    "isodow": _of_date("isodow", 1, 7),
    "dayofyear": _of_date("dayofyear", 1, 366),
    "decade": _of_date("decade", -600_000, 600_000),
    "century": _of_date("century", -60_000, 60_000),
    "week": _of_date("week", 1, 53, guarded=True),
    "isoyear": _of_date("isoyear", -300_000, 300_000, guarded=True),
    "yearweek": _of_date("yearweek", -30_000_000, 30_000_000, guarded=True),
    "hour": _of_date("hour", 0, 23, kinds=("TIMESTAMP",)),
    "minute": _of_date("minute", 0, 59, kinds=("TIMESTAMP",)),
}
FUNCTIONS: Mapping[str, _Function] = {
    **{name: _of_text(name) for name in ("lower", "upper", "reverse")},
    **{name: _of_text(name, most=1) for name in ("trim", "ltrim", "rtrim")},
    **{name: _of_text(name, "BIGINT") for name in ("length", "strlen")},
    **{name: _of_text(name, "BOOLEAN", 1, 1) for name in ("starts_with", "ends_with", "contains")},
    "left": _part_of_text("left", 1, 1),
    "right": _part_of_text("right", 1, 1),
    "substring": _part_of_text("substring", 1, 2),
    "date_trunc": _truncated,
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "round": _rounded("round"),
    "abs": _absolute,
    "neg": _negative,
    **_DATES,
}
# DuckDB's other names, and sqlglot's, of functions on the list.
OTHER_NAMES = {
    "lcase": "lower", "ucase": "upper", "len": "length", "char_length": "length", "character_length": "length",
    "prefix": "starts_with", "startswith": "starts_with", "suffix": "ends_with", "endswith": "ends_with",
    "substr": "substring", "ceiling": "ceil", "dayofmonth": "day", "weekday": "dayofweek", "dow": "dayofweek",
    "dayofweekiso": "isodow", "weekofyear": "week", "doy": "dayofyear", "datetrunc": "date_trunc",
    "timestamptrunc": "date_trunc", "datepart": "date_part", "extract": "date_part", "y": "year", "years": "year",
    "months": "month", "days": "day", "weeks": "week", "quarters": "quarter",
}  # fmt: skip
_SIDES = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def called(call: Expr) -> tuple[str, Sequence[Expr]]:
    """The name of a function as DuckDB has it, and its arguments: what it is applied to comes first.

    What is no function, or has an argument that is not known here, gives the name ''.
    """
    match call:
        case Negative(operand):
            return "neg", [operand]
        case Round(operand, None):
            return "round", [operand]
        case Function(name, operands, quoted=False):
            return _by_name(name.lower(), operands)
        case Operation():
            return _by_class(call)
    return "", []


def _by_name(written: str, operands: Sequence[Expr]) -> tuple[str, Sequence[Expr]]:
    """As `called`, for a function that sqlglot has no class for."""
    name = OTHER_NAMES.get(written, written)
    if not operands:
        return "", []
    if name == "date_trunc":
        return name, operands[::-1]
    if name == "date_part":
        unit, *rest = operands
        return _part(unit.value if isinstance(unit, Constant) and unit.is_text else "", rest)
    return name, operands


def _by_class(call: Operation) -> tuple[str, Sequence[Expr]]:
    """As `called`, for a function that sqlglot has a class for."""
    if call.kind == "Substring":
        parts = [call.argument(name) for name in ("this", "start", "length")]
        return "substring", [one for one in parts if isinstance(one, Expr)]
    if not {name for name, _ in call.arguments} <= {"this", "expression", "position", "unit"}:
        return "", []
    name = call.kind.lower()
    if name == "trim":
        side = call.argument("position")
        return (name if side is None else _SIDES.get(str(side), "")), call.parts
    name = OTHER_NAMES.get(name, name)
    units = [value.text for _, value in call.arguments if isinstance(value, Word) and not value.is_name]
    if name == "date_trunc":
        return name, [*call.parts, *(Constant(one, is_text=True) for one in units)]
    if name == "date_part":
        return _part(units[0], call.parts) if units else _by_name(name, call.parts)
    return (name, call.parts) if call.parts else ("", [])


def _part(unit: str, operands: Sequence[Expr]) -> tuple[str, Sequence[Expr]]:
    """The function that takes this part of a date."""
    part = OTHER_NAMES.get(unit.lower(), unit.lower())
    return (part, operands) if part in _DATES and len(operands) == 1 else ("", [])
