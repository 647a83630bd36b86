"""cell_bounds, cell_values and disclosure_report: from a call to the query that answers it, and the engine's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, integers, lists, one_row, row_type
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_number, plain_type
from duckanon.functions.sqltext import absent, ascending, call, check, fill, literals, renamed, struct
from duckanon.functions.udf import Host, Instance, register_check, register_engine


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind cell_bounds, cell_values and disclosure_report on a database instance."""
    on.function(CellBounds)
    on.function(CellValues)
    on.function(DisclosureReport)
    register_check(on, "cells", check_table, _Counted)
    register_check(on, "known", _check_known, CellBounds)
    register_engine(on, "_dk_cells_audit", _audit, "found", row_type(dict.fromkeys(_AUDITED, "BIGINT[]")), Cells)
    register_engine(on, "_dk_cells_report", _report, "found", row_type(MEASURES), DisclosureReport)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Cells(Request):
    """The arguments that all functions about cells have: the table, and its row columns and column columns."""

    tbl: str
    rows: tuple[str, ...]
    cols: tuple[str, ...]

    @property
    def in_rows(self) -> list[str]:
        """Our names for the row columns, which cannot meet those of the caller."""
        return [f"r{i}" for i in range(1, len(self.rows) + 1)]

    @property
    def in_cols(self) -> list[str]:
        """Our names for the column columns."""
        return [f"c{i}" for i in range(1, len(self.cols) + 1)]

    @property
    def categories(self) -> list[str]:
        return [*self.rows, *self.cols]

    @property
    def keys(self) -> str:
        """The columns under our names."""
        return renamed(self.categories, [*self.in_rows, *self.in_cols])

    @property
    def own_names(self) -> str:
        """Our columns under the caller's names."""
        named = zip(self.categories, [*self.in_rows, *self.in_cols], strict=True)
        return ", ".join(f"{key} AS {identifier(name)}" for name, key in named)

    @classmethod
    def roles(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked against each other: a column of the table has one role."""
        checked = cls.checked(arguments)
        both = {fold(name) for name in checked["rows"]}
        for name in checked["cols"]:
            if fold(name) in both:
                raise InvalidInput(f'Column "{name}" is in both rows and cols: name it in one of them.')
        check_count(checked.get("count"), [*checked["rows"], *checked["cols"]])
        return checked

    def place(self, row: int) -> str:
        """How an error names a row, by its number from 0, without a value."""
        return f"row {row + 1} in the order of {', '.join(map(identifier, self.rows))}"


def check_count(count: str | None, others: Sequence[str]) -> None:
    """Check that a column of counts, if there is one, has no other role."""
    if count is not None and fold(count) in {fold(name) for name in others}:
        raise InvalidInput(f'Column "{count}" is both count and in rows or cols: counts are no categories.')


def counting(count: str | None) -> tuple[str, str]:
    """A cell's number of records and what may be wrong with it, as aggregates."""
    if count is None:
        return "system.main.count(*)", "NULL::VARCHAR"
    column = identifier(count)
    whole = f"TRY_CAST({column} AS HUGEINT)"
    # Doubles are compared as doubles: as decimals they would change their last digits.
    fractional = (
        f"CASE WHEN system.main.typeof({column}) IN ('DOUBLE', 'FLOAT') "
        f"THEN TRY_CAST({column} AS DOUBLE) <> TRY_CAST({whole} AS DOUBLE) "
        f"ELSE TRY_CAST({column} AS DECIMAL(38, 18)) <> TRY_CAST({whole} AS DECIMAL(38, 18)) END"
    )
    flaws = [
        (f"{column} IS NULL", "holds NULL: replace it by 0, or leave those rows out"),
        (f"{whole} IS NULL OR {fractional}", "holds a number that is not whole: counts are whole numbers"),
        (f"{whole} < 0", "holds a negative count: counts are zero or more"),
        (f"{whole} > {10**18}", "holds a count above 10^18, which is more than cell bounds are made for"),
    ]
    subject = f'Column "{count}" '
    cases = " ".join(f"WHEN {test} THEN {literal(subject + flaw + '.')}" for test, flaw in flaws)
    total = f"coalesce(system.main.sum({whole}), 0)"
    large = literal("The counts add up to more than 10^18, which is more than cell bounds are made for.")
    return total, f"coalesce(system.main.max(CASE {cases} END), CASE WHEN {total} > {10**18} THEN {large} END)"


def every(own: Sequence[str]) -> str:
    """All combinations of the values of columns."""
    parts = ", ".join(f"(SELECT DISTINCT {key} FROM _dk_cells)" for key in own)
    return f"SELECT {', '.join(own)} FROM {parts}"


def _levels(own: Sequence[str]) -> str:
    """How many values each column has, those of cells without records included."""
    counts = ", ".join(f"(SELECT system.main.count(*) FROM (SELECT DISTINCT {key} FROM _dk_cells))" for key in own)
    return f"[{counts}]"


_NO_FACTS = "_dk_facts AS (SELECT 0 AS fact, true AS placed, 0 AS place, 0 AS part, '' AS low, '' AS high WHERE false)"


@dataclass(frozen=True, kw_only=True)
class _Counted(Cells):
    """A call about the counts of cells. count: the column of counts; None if the table has a row for each record."""

    count: str | None

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        return cls(**cls.roles(arguments))

    def write(self, *, released: Sequence[str], facts: str, answer: str, result: str) -> str:
        """The query that counts, and then runs `result`. released: its columns in addition to those of the call."""
        amount, flaws = counting(self.count)
        return fill(
            "cells",
            table=literal(self.tbl),
            absent=absent([*self.categories, *([self.count] if self.count else [])]),
            problem=check("cells", self.literal, released=literals(released)),
            keys=self.keys,
            amount=amount,
            flaws=flaws,
            in_rows=ascending(self.in_rows),
            facts=facts,
            answer=answer,
            result=result,
        )


@dataclass(frozen=True, kw_only=True)
class CellBounds(_Counted):
    """A call of cell_bounds."""

    function = "cell_bounds"
    known: str | None
    released: ClassVar[Sequence[str]] = ("n", "lower", "upper", "feasible", "disclosed")
    template: ClassVar[str] = "cell_bounds"

    def query(self) -> str:
        result = fill(
            self.template,
            columns=every(self.in_cols),
            row_keys=", ".join(self.in_rows),
            same_column=" AND ".join(f"_dk_cells.{key} IS NOT DISTINCT FROM every.{key}" for key in self.in_cols),
            released=self.own_names,
            order=ascending([*self.in_rows, *self.in_cols]),
        )
        fact = struct({name: name for name in ("placed", "place", "part", "low", "high")})
        answer = call(
            "_dk_cells_audit",
            request=self.literal,
            places="system.main.list(place)",
            counts="system.main.list(n)",
            facts=f"(SELECT system.main.list({fact} ORDER BY fact) FROM _dk_facts)",
        )
        return self.write(released=self.released, facts=self._facts(), answer=answer, result=result)

    def _facts(self) -> str:
        if self.known is None:
            return _NO_FACTS
        return fill(
            "cell_facts",
            known=literal(self.known),
            known_absent=absent([*self.categories, "lower", "upper"], own=False),
            known_problem=check(
                "known",
                self.literal,
                described="(SELECT {'names': names, 'types': types} FROM _dk_described)",
            ),
            known_keys=self.keys,
            row_keys=", ".join(self.in_rows),
            same_row=" AND ".join(f"k.{key} IS NOT DISTINCT FROM p.{key}" for key in self.in_rows),
            placed=" AND ".join(
                f"(k.{key} IS NULL OR k.{key} IN (SELECT {key} FROM _dk_cells))" for key in self.in_cols
            ),
            same_cell=" AND ".join(f"(k.{key} IS NULL OR k.{key} = c.{key})" for key in self.in_cols),
        )


@dataclass(frozen=True, kw_only=True)
class CellValues(CellBounds):
    """A call of cell_values."""

    function = "cell_values"
    released: ClassVar[Sequence[str]] = ("value",)
    template: ClassVar[str] = "cell_values"


@dataclass(frozen=True, kw_only=True)
class DisclosureReport(_Counted):
    """A call of disclosure_report."""

    function = "disclosure_report"
    small: int

    def query(self) -> str:
        answer = call(
            "_dk_cells_report",
            request=self.literal,
            places="system.main.list(place)",
            counts="system.main.list(n)",
            row_levels=_levels(self.in_rows),
            col_levels=_levels(self.in_cols),
        )
        return self.write(released=[], facts=_NO_FACTS, answer=answer, result=fill("disclosure_report"))


# --- checks that need the table's columns -----------------------------------------------------------------------------


def check_table(request: _Counted, names: list[str], types: list[str], released: list[str]) -> None:
    table = Table(request.tbl, names, types)
    table.has([*request.categories, *([request.count] if request.count else [])])
    if request.count:
        table.number(request.count, "count", "BIGINT")
    table.apart(request.categories, released)


def _check_known(request: CellBounds, names: list[str], types: list[str], described: dict[str, list[str]]) -> None:
    facts, table = Table(request.known or "", names, types), Table("", described["names"], described["types"])
    facts.has([*request.categories, "lower", "upper"])
    for name in ("lower", "upper"):
        if not is_number(facts.kind(name)) and facts.kind(name) != _UNTYPED:
            raise InvalidInput(f'Column "{name}" of {facts.name} is not a number: cast it to BIGINT.')
    # DuckDB would cast one column to the other's type, and quote the value that cannot be cast.
    for name in request.categories:
        kinds = {facts.kind(name), table.kind(name)}
        if len(kinds) > 1 and _UNTYPED not in kinds and not all(map(is_number, kinds)):
            raise InvalidInput(
                f'Column "{name}" of {facts.name} has another type than in the table of counts: '
                f"cast it to {plain_type(table.kind(name))}."
            )


# What DuckDB calls the type of a column that holds nothing but NULL.
_UNTYPED = '"NULL"'


# --- the engine's calls -----------------------------------------------------------------------------------------------

_AUDITED = "rows divisors lower upper feasible offsets kinds run_kinds first step size".split()
# What is reported about a table as a whole. Counts of combinations may be beyond 64 bits.
MEASURES = {name: kind.replace("HUGEINT", "DECIMAL(38, 0)") for name, kind in columns_of("disclosure_report").items()}


def _cells(places: pa.Scalar, counts: pa.Scalar) -> tuple[Any, Any]:
    if not places.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    place = integers(places.values)
    order = np.argsort(place, kind="stable")
    return place[order], integers(counts.values)[order]


def _whole(written: str | None, argument: str) -> int | None:
    """A bound of a fact, as SQL writes it."""
    if written is None:
        return None
    number = Decimal(written)
    if not number.is_finite() or number != number.to_integral_value():
        raise InvalidInput(f'Column "{argument}" of known holds a number that is not whole: counts are whole.')
    return int(number)


def _audit(request: Cells, places: pa.Scalar, counts: pa.Scalar, facts: pa.Scalar) -> pa.Array:
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
    audit = audit_table(table, known, lambda row: request.place(int(table.rows[row]) - 1))
    runs = audit.feasible
    arrays = [
        table.rows,
        table.divisors,
        audit.lower,
        audit.upper,
        audit.count,
        audit.offset,
        audit.kind,
        np.repeat(np.arange(len(runs)), runs.end - runs.begin),
        *_in_order(runs),
    ]
    return lists(_AUDITED, arrays)


def _in_order(runs: Any) -> list[Any]:
    """first, step and size of all runs, kind after kind."""
    index = np.concatenate([np.arange(b, e) for b, e in zip(runs.begin, runs.end, strict=True)])
    return [runs.first[index], runs.step[index], runs.size[index]]


def _report(
    request: DisclosureReport, places: pa.Scalar, counts: pa.Scalar, row_levels: pa.Scalar, col_levels: pa.Scalar
) -> pa.Array:
    from duckanon.engines.cells.audit import report, shape

    measures = report(*_cells(places, counts), request.small)
    return one_row(measures | shape(measures, row_levels.as_py(), col_levels.as_py()), MEASURES)
