"""conditional_bounds: what an outsider learns from published proportions, exact or rounded."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.cells import absent, keys, one_list, own_names, renamed, roles
from duckanon.functions.schema import Table, is_number, is_text
from duckanon.functions.sqltext import fill, identifier, literal, literals
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer

_RELEASED = ("lower", "upper", "feasible", "disclosed")
# Digits before or after the point. The least double has 324 places.
_LONGEST = 1100
_FOUND = "cells BIGINT[], lower BIGINT[], upper BIGINT[], feasible BIGINT[]"


def register(on: Instance) -> None:
    """Put the functions behind conditional_bounds on a database instance."""
    register_writer(on, "_dk_write_conditional_bounds", _write)
    register_check(on, "_dk_conditional_problem", _check)
    register_engine(on, "_dk_conditional_bounds", _bounds, "found", f"STRUCT({_FOUND})")


def _write(tbl: object, rows: object, cols: object, p: object, n: object, digits: object, ties: object) -> str:
    table, row_columns, col_columns = roles(tbl, rows, cols)
    if not isinstance(p, str) or not p:
        raise InvalidInput("p must be the name of the column of proportions, in quotes.")
    if p.lower() in {name.lower() for name in [*row_columns, *col_columns]}:
        raise InvalidInput(f'Column "{p}" is both p and in rows or cols: proportions are no categories.')
    total = arguments.whole(n, "n")
    if total < 1:
        raise InvalidInput("n must be 1 or more: it is the number of records behind the proportions.")
    places = None if digits is None else arguments.whole(digits, "digits")
    if places is not None and not 0 <= places <= 18:
        raise InvalidInput("digits must be between 0 and 18: how many decimals the proportions were rounded to.")
    rule = arguments.text(ties, "ties")
    if rule not in ("any", "up", "even"):
        raise InvalidInput(f"There is no rule {literal(rule)} for ties: choose one of 'any', 'up', 'even'.")
    in_rows, in_cols = keys(row_columns, col_columns)
    cells = "{'place': place, 'cell': cell, 'share': CAST(share AS VARCHAR)}"
    return fill(
        "conditional_bounds",
        table=literal(table),
        absent=absent([*row_columns, *col_columns, p]),
        problem=(
            f"system.main._dk_conditional_problem(names, types, {literal(table)}, "
            f"{literals([*row_columns, *col_columns])}, {literal(p)}, {literals(_RELEASED)})"
        ),
        keys=f"{renamed(row_columns, in_rows)}, {renamed(col_columns, in_cols)}",
        share=identifier(p),
        in_rows=", ".join(f"{key} ASC NULLS LAST" for key in in_rows),
        order=", ".join(f"{key} ASC NULLS LAST" for key in [*in_rows, *in_cols]),
        answer=(
            f"system.main._dk_conditional_bounds(system.main.list({cells}), system.main.any_value(typeof(share)), "
            f"{total}::HUGEINT::VARCHAR, {'NULL::INTEGER' if places is None else places}, {literal(rule)}, "
            f"{literals(row_columns)})"
        ),
        released=own_names(row_columns, col_columns),
    )


def _check(names: list[str], types: list[str], table: str, categories: list[str], p: str, released: list[str]) -> None:
    found = Table(table, names, types)
    found.has([*categories, p])
    kind = found.kind(p)
    if not is_number(kind) and not is_text(kind):
        raise InvalidInput(
            f"Column \"{p}\" is neither a number nor text and cannot be p: give DOUBLE, DECIMAL, or text as in '3/7'."
        )
    if kind == "FLOAT":
        raise InvalidInput(
            f'Column "{p}" is FLOAT, which is too short to tell fractions apart: compute the proportions as DOUBLE.'
        )
    for name in categories:
        if name.lower() in released:
            raise InvalidInput(f'The result would have two columns "{name}": rename the column of the table.')


def _number(text: str) -> Fraction:
    """The number as written. One with hundreds of digits, as '1e999999999' would have, is refused unwritten."""
    try:
        above, slash, below = text.partition("/")
        if slash:
            return Fraction(int(above), int(below))
        value = Decimal(text)
        if value and not -_LONGEST < value.adjusted() < _LONGEST:
            raise ValueError
        return Fraction(value)
    except (ValueError, ArithmeticError):
        raise InvalidInput("A proportion cannot be read as a number: write 0.25 or 1/4.") from None


def _bounds(
    cells: pa.Scalar, kind: pa.Scalar, n: pa.Scalar, digits: pa.Scalar, ties: pa.Scalar, rows: pa.Scalar
) -> pa.Array:
    from duckanon.engines.cells.proportions import MOST_FOR_DOUBLE, exact_bounds, from_double
    from duckanon.engines.cells.rounded_proportions import rounded_bounds

    if not cells.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    packed = cells.values
    number = packed.field("cell").to_numpy().astype(np.int64)
    order = np.argsort(number)
    place = packed.field("place").to_numpy().astype(np.int64)[order] - 1
    texts = packed.field("share").take(pa.array(order)).to_pylist()
    total, places = int(n.as_py()), digits.as_py()
    columns = ", ".join(f'"{name}"' for name in rows.as_py())

    def name(row: int) -> str:
        return f"row {row + 1} in the order of {columns}"

    shares = [_number(text) for text in texts]
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
            shares = [from_double(float(text), total) for text in texts]
        found = exact_bounds(place, shares, total, name)
    else:
        scaled = [share * 10**places for share in shares]
        if any(one.denominator != 1 for one in scaled):
            raise InvalidInput(f"A proportion has more than {places} digits: correct digits, or round the proportions.")
        published = np.array([int(one) for one in scaled], dtype=np.int64)
        found = rounded_bounds(place, published, places, total, ties.as_py(), name)
    return pa.StructArray.from_arrays(
        [one_list(array) for array in (number[order], found.lower, found.upper, found.feasible)],
        ["cells", "lower", "upper", "feasible"],
    )
