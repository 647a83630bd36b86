"""cell_bounds, cell_values and disclosure_report: from a call to the query that answers it, and the engine's calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.schema import RESERVED, Table, is_number, plain_type
from duckanon.functions.sqltext import fill, identifier, literal, literals
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer

_BOUNDS = ("n", "lower", "upper", "feasible", "disclosed")


def register(on: Instance) -> None:
    """Put the functions behind cell_bounds, cell_values and disclosure_report on a database instance."""
    register_writer(on, "_dk_write_cell_bounds", _audit_writer("cell_bounds", _BOUNDS))
    register_writer(on, "_dk_write_cell_values", _audit_writer("cell_values", ("value",)))
    register_writer(on, "_dk_write_disclosure_report", _write_report)
    register_check(on, "_dk_cells_problem", _check)
    register_check(on, "_dk_known_problem", _check_known)
    register_engine(on, "_dk_cells_audit", _audit, "found", f"STRUCT({_AUDITED})")
    register_engine(on, "_dk_cells_report", _report, "found", f"STRUCT({MEASURES_IN_SQL})")


# --- from a call to a query -------------------------------------------------------------------------------------------


def roles(tbl: object, rows: object, cols: object) -> tuple[str, list[str], list[str]]:
    """The table, its row columns and its column columns, as every function of the family takes them."""
    table = arguments.table(tbl)
    row_columns = arguments.names(rows, "rows", empty=False)
    col_columns = arguments.names(cols, "cols", empty=False)
    both = {name.lower() for name in row_columns}
    for name in col_columns:
        if name.lower() in both:
            raise InvalidInput(f'Column "{name}" is in both rows and cols: name it in one of them.')
    return table, row_columns, col_columns


def counting(count: object, taken: Sequence[str]) -> tuple[str, str, list[str]]:
    """A cell's number of records and what may be wrong with it, as aggregates, and the column they need."""
    if count is None:
        return "system.main.count(*)", "NULL::VARCHAR", []
    if not isinstance(count, str) or not count:
        raise InvalidInput("count must be the name of a column of counts, as in count := 'n'.")
    if count.lower() in {name.lower() for name in taken}:
        raise InvalidInput(f'Column "{count}" is both count and in rows or cols: counts are no categories.')
    value = identifier(count)
    whole = f"TRY_CAST({value} AS HUGEINT)"
    # Doubles are compared as doubles: as decimals they would change their last digits.
    fractional = (
        f"CASE WHEN system.main.typeof({value}) IN ('DOUBLE', 'FLOAT') "
        f"THEN TRY_CAST({value} AS DOUBLE) <> TRY_CAST({whole} AS DOUBLE) "
        f"ELSE TRY_CAST({value} AS DECIMAL(38, 18)) <> TRY_CAST({whole} AS DECIMAL(38, 18)) END"
    )
    flaws = [
        (f"{value} IS NULL", "holds NULL: replace it by 0, or leave those rows out"),
        (f"{whole} IS NULL OR {fractional}", "holds a number that is not whole: counts are whole numbers"),
        (f"{whole} < 0", "holds a negative count: counts are zero or more"),
        (f"{whole} > {10**18}", "holds a count above 10^18, which is more than cell bounds are made for"),
    ]
    said = f'Column "{count}" '
    cases = " ".join(f"WHEN {test} THEN {literal(said + text + '.')}" for test, text in flaws)
    total = f"coalesce(system.main.sum({whole}), 0)"
    large = literal("The counts add up to more than 10^18, which is more than cell bounds are made for.")
    return total, f"coalesce(system.main.max(CASE {cases} END), CASE WHEN {total} > {10**18} THEN {large} END)", [count]


def keys(rows: Sequence[str], cols: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our names for the row columns and the column columns, which cannot meet those of the caller."""
    return [f"r{i}" for i in range(1, len(rows) + 1)], [f"c{i}" for i in range(1, len(cols) + 1)]


def renamed(names: Sequence[str], own: Sequence[str]) -> str:
    return ", ".join(f"{identifier(name)} AS {key}" for name, key in zip(names, own, strict=True))


def absent(columns: Sequence[str]) -> str:
    return ", ".join(f"NULL AS {identifier(name)}" for name in [*columns, RESERVED])


def every(own: Sequence[str]) -> str:
    """All combinations of the values of columns."""
    parts = ", ".join(f"(SELECT DISTINCT {key} FROM _dk_cells)" for key in own)
    return f"SELECT {', '.join(own)} FROM {parts}"


def _levels(own: Sequence[str]) -> str:
    """How many values each column has, those of cells without records included."""
    counts = ", ".join(f"(SELECT system.main.count(*) FROM (SELECT DISTINCT {key} FROM _dk_cells))" for key in own)
    return f"[{counts}]"


_NO_FACTS = "_dk_facts AS (SELECT 0 AS fact, true AS placed, 0 AS place, 0 AS part, '' AS low, '' AS high WHERE false)"


def _facts(known: object, rows: Sequence[str], cols: Sequence[str]) -> str:
    if known is None:
        return _NO_FACTS
    if not isinstance(known, str) or not known:
        raise InvalidInput("known must be the name of a table of facts, in quotes.")
    in_rows, in_cols = keys(rows, cols)
    needed = [*rows, *cols, "lower", "upper"]
    return fill(
        "cell_facts",
        known=literal(known),
        known_absent=", ".join(f"NULL AS {identifier(name)}" for name in needed),
        known_problem=(
            f"system.main._dk_known_problem(names, types, {literal(known)}, {literals([*rows, *cols])}, "
            "(SELECT {'names': names, 'types': types} FROM _dk_described))"
        ),
        known_keys=f"{renamed(rows, in_rows)}, {renamed(cols, in_cols)}",
        row_keys=", ".join(in_rows),
        same_row=" AND ".join(f"k.{key} IS NOT DISTINCT FROM p.{key}" for key in in_rows),
        placed=" AND ".join(f"(k.{key} IS NULL OR k.{key} IN (SELECT {key} FROM _dk_cells))" for key in in_cols),
        same_cell=" AND ".join(f"(k.{key} IS NULL OR k.{key} = c.{key})" for key in in_cols),
    )


def _write(
    table: str,
    rows: Sequence[str],
    cols: Sequence[str],
    count: object,
    *,
    released: Sequence[str],
    facts: str,
    answer: str,
    result: str,
) -> str:
    records, flaws, counted = counting(count, [*rows, *cols])
    in_rows, in_cols = keys(rows, cols)
    needed = [*rows, *cols, *counted]
    return fill(
        "cells",
        table=literal(table),
        absent=absent(needed),
        problem=(
            f"system.main._dk_cells_problem(names, types, {literal(table)}, {literals([*rows, *cols])}, "
            f"{literals(counted)}, {literals(released)})"
        ),
        keys=f"{renamed(rows, in_rows)}, {renamed(cols, in_cols)}",
        amount=records,
        flaws=flaws,
        in_rows=", ".join(f"{key} ASC NULLS LAST" for key in in_rows),
        facts=facts,
        answer=answer,
        result=result,
    )


def _audit_call(rows: Sequence[str]) -> str:
    facts = "{'placed': placed, 'place': place, 'part': part, 'low': low, 'high': high}"
    return (
        "system.main._dk_cells_audit(system.main.list(place), system.main.list(n), "
        f"(SELECT system.main.list({facts} ORDER BY fact) FROM _dk_facts), {literals(rows)})"
    )


def own_names(rows: Sequence[str], cols: Sequence[str]) -> str:
    named = zip([*rows, *cols], [*keys(rows, cols)[0], *keys(rows, cols)[1]], strict=True)
    return ", ".join(f"{key} AS {identifier(name)}" for name, key in named)


def _audit_writer(query: str, released: Sequence[str]) -> Callable[..., str]:
    """What writes the query whose result is the template `query`. released: its columns beside those of the call."""

    def write(tbl: object, rows: object, cols: object, count: object, known: object) -> str:
        table, row_columns, col_columns = roles(tbl, rows, cols)
        in_rows, in_cols = keys(row_columns, col_columns)
        result = fill(
            query,
            columns=every(in_cols),
            row_keys=", ".join(in_rows),
            same_column=" AND ".join(f"_dk_cells.{key} IS NOT DISTINCT FROM every.{key}" for key in in_cols),
            released=own_names(row_columns, col_columns),
            order=", ".join(f"{key} ASC NULLS LAST" for key in [*in_rows, *in_cols]),
        )
        return _write(
            table,
            row_columns,
            col_columns,
            count,
            released=released,
            facts=_facts(known, row_columns, col_columns),
            answer=_audit_call(row_columns),
            result=result,
        )

    return write


def small_counts(small: object) -> int:
    least = arguments.whole(small, "small")
    if least < 1:
        raise InvalidInput("small must be 1 or more: counts from 1 to small - 1 are small.")
    return least


def _write_report(tbl: object, rows: object, cols: object, count: object, small: object) -> str:
    table, row_columns, col_columns = roles(tbl, rows, cols)
    in_rows, in_cols = keys(row_columns, col_columns)
    least = small_counts(small)
    return _write(
        table,
        row_columns,
        col_columns,
        count,
        released=[],
        facts=_NO_FACTS,
        answer=(
            f"system.main._dk_cells_report(system.main.list(place), system.main.list(n), {least}, "
            f"{_levels(in_rows)}, {_levels(in_cols)})"
        ),
        result=fill("disclosure_report"),
    )


# --- checks that need the table's columns -----------------------------------------------------------------------------


def _check(
    names: list[str], types: list[str], table: str, categories: list[str], count: list[str], released: list[str]
) -> None:
    found = Table(table, names, types)
    found.has([*categories, *count])
    for name in count:
        if not is_number(found.kind(name)):
            raise InvalidInput(f'Column "{name}" is not a number and cannot be count: cast it to BIGINT.')
    for name in categories:
        if name.lower() in released:
            raise InvalidInput(f'The result would have two columns "{name}": rename the column of the table.')


def _check_known(
    names: list[str], types: list[str], known: str, categories: list[str], described: dict[str, list[str]]
) -> None:
    facts, table = Table(known, names, types), Table("", described["names"], described["types"])
    facts.has([*categories, "lower", "upper"])
    for name in ("lower", "upper"):
        if not is_number(facts.kind(name)) and facts.kind(name) != _UNTYPED:
            raise InvalidInput(f'Column "{name}" of {known} is not a number: cast it to BIGINT.')
    # DuckDB would cast one column to the other's type, and quote the value that cannot be cast.
    for name in categories:
        kinds = {facts.kind(name), table.kind(name)}
        if len(kinds) > 1 and _UNTYPED not in kinds and not all(map(is_number, kinds)):
            raise InvalidInput(
                f'Column "{name}" of {known} has another type than in the table of counts: '
                f"cast it to {plain_type(table.kind(name))}."
            )


# What DuckDB calls the type of a column that holds nothing but NULL.
_UNTYPED = '"NULL"'


# --- the engine's calls -----------------------------------------------------------------------------------------------

_AUDITED = (
    "rows BIGINT[], divisors BIGINT[], lower BIGINT[], upper BIGINT[], feasible BIGINT[], offsets BIGINT[], "
    "kinds BIGINT[], run_kinds BIGINT[], first BIGINT[], step BIGINT[], size BIGINT[]"
)
# Counts of combinations may be beyond 64 bits; between Arrow and DuckDB they travel as decimals.
_WIDE = pa.decimal128(38, 0)
# What is told of a table as a whole, in the order of the columns.
MEASURES = {
    "n": pa.int64(),
    "row_count": _WIDE,
    "col_count": _WIDE,
    "zero_rows": _WIDE,
    "unit_rows": pa.int64(),
    "disclosed_rows": pa.int64(),
    "zero_cells": _WIDE,
    "disclosed_small_cells": pa.int64(),
    "reduced_total": pa.int64(),
}
MEASURES_IN_SQL = ", ".join(
    f"{name} {'DECIMAL(38, 0)' if kind == _WIDE else 'BIGINT'}" for name, kind in MEASURES.items()
)


def _cells(places: pa.Scalar, counts: pa.Scalar) -> tuple[Any, Any]:
    if not places.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    place = places.values.to_numpy().astype(np.int64)
    order = np.argsort(place, kind="stable")
    return place[order], counts.values.to_numpy().astype(np.int64)[order]


def _whole(text: str | None, argument: str) -> int | None:
    """A bound of a fact, as SQL writes it."""
    if text is None:
        return None
    value = Decimal(text)
    if not value.is_finite() or value != value.to_integral_value():
        raise InvalidInput(f'Column "{argument}" of known holds a number that is not whole: counts are whole.')
    return int(value)


def _audit(places: pa.Scalar, counts: pa.Scalar, facts: pa.Scalar, rows: pa.Scalar) -> pa.Array:
    from duckanon.engines.cells.audit import audit_table
    from duckanon.engines.cells.prior_knowledge import Fact
    from duckanon.engines.cells.reduction import reduce

    table = reduce(*_cells(places, counts))
    position = {int(place): i for i, place in enumerate(table.rows)}
    known = []
    for number, fact in enumerate(facts.as_py() or [], 1):
        if fact["place"] not in position:
            raise InvalidInput(
                f"Line {number} of known is about a row that the table does not have, or that holds only zeros: "
                "remove it, or correct its row columns."
            )
        if not fact["placed"]:
            raise InvalidInput(
                f"Line {number} of known is about a column that the table does not have: "
                "remove it, or correct its column columns."
            )
        row = position[fact["place"]]
        low, high = _whole(fact["low"], "lower"), _whole(fact["high"], "upper")
        known.append(Fact(row, fact["part"] // int(table.divisors[row]), 0 if low is None else low, high))
    columns = ", ".join(f'"{name}"' for name in rows.as_py())
    found = audit_table(table, known, lambda row: f"row {table.rows[row]} in the order of {columns}")
    runs = found.feasible
    arrays = [
        table.rows,
        table.divisors,
        found.lower,
        found.upper,
        found.count,
        found.offset,
        found.kind,
        np.repeat(np.arange(len(runs)), runs.end - runs.begin),
        *_in_order(runs),
    ]
    names = [part.split()[0] for part in _AUDITED.split(", ")]
    return pa.StructArray.from_arrays([one_list(array) for array in arrays], names)


def _in_order(runs: Any) -> list[Any]:
    """first, step and size of all runs, kind after kind."""
    index = np.concatenate([np.arange(b, e) for b, e in zip(runs.begin, runs.end, strict=True)])
    return [runs.first[index], runs.step[index], runs.size[index]]


def one_list(array: Any) -> pa.Array:
    """The whole array as the one value of a list column."""
    return pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), pa.array(np.ascontiguousarray(array)))


def _report(
    places: pa.Scalar, counts: pa.Scalar, small: pa.Scalar, row_levels: pa.Scalar, col_levels: pa.Scalar
) -> pa.Array:
    from duckanon.engines.cells.audit import report, shape

    measures = report(*_cells(places, counts), small.as_py())
    measures |= shape(measures, row_levels.as_py(), col_levels.as_py())
    return pa.StructArray.from_arrays(
        [pa.array([measures[name]], kind) for name, kind in MEASURES.items()], list(MEASURES)
    )
