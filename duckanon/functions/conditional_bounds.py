"""conditional_bounds: what an outsider learns from published proportions, exact or rounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import integers, lists, row_type
from duckanon.functions.cells import Cells
from duckanon.functions.schema import Table, is_number, is_text
from duckanon.functions.sqltext import absent, ascending, call, check, fill, struct
from duckanon.functions.udf import Host, Instance, register_check, register_engine

_RELEASED = ("lower", "upper", "feasible", "disclosed")
# Digits before or after the point. The least double has 324 places.
_LONGEST = 1100
_UNREADABLE = "A proportion cannot be read as a number: write 0.25 or 1/4."
_FOUND = ("cells", "lower", "upper", "feasible")


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind conditional_bounds on a database instance."""
    on.function(ConditionalBounds)
    register_check(on, "conditional", _check, ConditionalBounds)
    kind = row_type(dict.fromkeys(_FOUND, "BIGINT[]"))
    register_engine(on, "_dk_conditional_bounds", _bounds, "found", kind, ConditionalBounds)


@dataclass(frozen=True, kw_only=True)
class ConditionalBounds(Cells):
    """A call of conditional_bounds. digits: None for exact proportions."""

    function = "conditional_bounds"
    p: str
    n: int
    digits: int | None
    ties: str

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.roles(arguments)
        if fold(checked["p"]) in {fold(name) for name in [*checked["rows"], *checked["cols"]]}:
            column = checked["p"]
            raise InvalidInput(f'Column "{column}" is both p and in rows or cols: proportions are no categories.')
        return cls(**checked)

    def query(self) -> str:
        cell = struct({"place": "place", "cell": "cell", "share": "CAST(share AS VARCHAR)"})
        return fill(
            "conditional_bounds",
            table=literal(self.tbl),
            absent=absent([*self.categories, self.p]),
            problem=check("conditional", self.literal),
            keys=self.keys,
            share=identifier(self.p),
            in_rows=ascending(self.in_rows),
            order=ascending([*self.in_rows, *self.in_cols]),
            answer=call(
                "_dk_conditional_bounds",
                request=self.literal,
                cells=f"system.main.list({cell})",
                kind="system.main.any_value(typeof(share))",
            ),
            released=self.own_names,
        )


def _check(request: ConditionalBounds, names: list[str], types: list[str]) -> None:
    table, p = Table(request.tbl, names, types), request.p
    table.has([*request.categories, p])
    kind = table.kind(p)
    if not is_number(kind) and not is_text(kind):
        raise InvalidInput(
            f"Column \"{p}\" is neither a number nor text and cannot be p: give DOUBLE, DECIMAL, or text as in '3/7'."
        )
    if kind == "FLOAT":
        raise InvalidInput(
            f'Column "{p}" is FLOAT, which is too short to tell fractions apart: compute the proportions as DOUBLE.'
        )
    table.apart(request.categories, _RELEASED)


def as_written(written: str, problem: str = _UNREADABLE) -> Fraction:
    """The number as written. One with hundreds of digits, as '1e999999999' would have, is refused unwritten.

    problem: the sentence of InvalidInput for a text that is no number.
    """
    try:
        above, slash, below = written.partition("/")
        if slash:
            return Fraction(int(above), int(below))
        decimal = Decimal(written)
        if decimal and not -_LONGEST < decimal.adjusted() < _LONGEST:
            raise ValueError
        return Fraction(decimal)
    except (ValueError, ArithmeticError):
        raise InvalidInput(problem) from None


def _bounds(request: ConditionalBounds, cells: pa.Scalar, kind: pa.Scalar) -> pa.Array:
    from duckanon.engines.cells.proportions import MOST_FOR_DOUBLE, exact_bounds, from_double
    from duckanon.engines.cells.rounded_proportions import rounded_bounds

    if not cells.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    packed = cells.values
    number = integers(packed.field("cell"))
    order = np.argsort(number)
    place = integers(packed.field("place"))[order] - 1
    written_shares = packed.field("share").take(pa.array(order)).to_pylist()
    total, places, name = request.n, request.digits, request.place
    shares = [as_written(written_share) for written_share in written_shares]
    for row, share in zip(place.tolist(), shares, strict=True):
        if not 0 <= share <= 1:
            raise InvalidInput(f"A proportion of {name(row)} is not between 0 and 1: divide percentages by 100.")
    if places is None:
        if kind.as_py() == "DOUBLE":
            if total > MOST_FOR_DOUBLE:
                raise InvalidInput(
                    "p is DOUBLE, which tells fractions apart only while n is below 94906266: "
                    "give proportions as text, as in '3/7', or as DECIMAL."
                )
            shares = [from_double(float(written_share), total) for written_share in written_shares]
        cell_bounds = exact_bounds(place, shares, total, name)
    else:
        scaled = [share * 10**places for share in shares]
        if any(digits_moved.denominator != 1 for digits_moved in scaled):
            raise InvalidInput(f"A proportion has more than {places} digits: correct digits, or round the proportions.")
        published = np.array([int(number) for number in scaled], dtype=np.int64)
        cell_bounds = rounded_bounds(place, published, places, total, request.ties, name)
    return lists(_FOUND, (number[order], cell_bounds.lower, cell_bounds.upper, cell_bounds.feasible))
