"""table_bounds: what follows from several published tables; from a call to the query and the engine's call inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.publication import Codes
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import one_list, struct
from duckanon.functions.bands import pairs_of
from duckanon.functions.conditional_bounds import as_written
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_number, is_text, plain_type
from duckanon.functions.sqltext import absent, call, fill, named_call
from duckanon.functions.sqltext import struct as sql_struct
from duckanon.functions.suppressed_tables import BY_LEVEL, LEVELS, used_by
from duckanon.functions.table_codes import TREES, Cells, Tree, with_levels
from duckanon.functions.udf import Host, Instance, register_check, register_engine

_FOUND = "STRUCT(codes BIGINT[][], lower BIGINT[], upper BIGINT[], exact BOOLEAN[], disclosed BOOLEAN[])"
_USED = "STRUCT(levels BIGINT[][], used BOOLEAN[][])"
_RELEASED = ("lower", "upper", "exact", "disclosed")
_EXAMPLE = "tables := [{tbl: 't1', vars: ['age'], value: 'n'}]"
# What DuckDB calls the type of a column that holds nothing but NULL.
_UNTYPED = '"NULL"'


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind table_bounds on a database instance."""
    on.function(TableBounds)
    register_check(on, "table_bounds", _check, TableBounds)
    register_engine(on, "_dk_table_bounds_used", _used, "found", _USED, TableBounds)
    register_engine(on, "_dk_table_bounds", _bounds, "found", _FOUND, TableBounds)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublishedTable:
    """One of the tables, as a caller describes it. tbl: None where only its form is described.

    value: the column of its numbers; None: each row is a record. digits: of shares. base: of counts. suppressed: the
    column that says which counts are suppressed, where totals may stand among them. max_deviation: of perturbed counts.
    hierarchies: tables of codes, by column, of a suppressed table. key, variance, threshold, magnitude: of a candidate
    that is to be perturbed. sum, weight: of a candidate with suppressed or perturbed sums or weighted counts. count: of
    one of rows that stand for several records.
    """

    tbl: str | None
    vars: tuple[str, ...]
    given: tuple[str, ...]
    value: str | None
    digits: int | None
    base: int | None
    suppressed: str | None = None
    max_deviation: int | None = None
    key: str | None = None
    variance: float | None = None
    threshold: int | None = None
    sum: str | None = None
    weight: str | None = None
    count: str | None = None
    magnitude: float | None = None
    hierarchies: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, form: object, argument: str, example: str = _EXAMPLE) -> PublishedTable:
        """From a struct. argument: which one it is in; example: how it is written. Raises InvalidInput."""
        if not isinstance(form, dict):
            raise InvalidInput(f"{argument} must be made of structs, as in {example}.")
        fields = {fold(name): field for name, field in form.items()}
        for name in form:
            if fold(name) not in _FIELDS:
                raise InvalidInput(
                    f'A table has a field "{name}": its fields are {", ".join(_NAMED[:-1])} and {_NAMED[-1]}.'
                )
        described = {name: fields.get(name) for name in _FIELDS}
        for name in ("tbl", "value", "suppressed", "key", "sum", "weight", "count"):
            if described[name] is not None and (not isinstance(described[name], str) or not described[name]):
                raise InvalidInput(f"{name} of a table must be a name in quotes, as in {_EXAMPLE}.")
        by = arguments.names(described["vars"], "vars", empty=True)
        within = arguments.names(described["given"], "given", empty=True)
        if {fold(column) for column in by} & {fold(column) for column in within}:
            raise InvalidInput("A column is both in vars and in given of a table: name it in one of them.")
        if within and not by:
            raise InvalidInput("Shares within given need vars that tell them apart: name them.")
        digits, base = described["digits"], described["base"]
        rounded = within or (described["key"] is not None and described["sum"] is not None)
        if digits is not None and (not rounded or not 0 <= arguments.whole(digits, "digits") <= _MOST_DIGITS):
            raise InvalidInput(
                f"digits are for shares and perturbed sums, and are from 0 to {_MOST_DIGITS}; for counts say base."
            )
        if base is not None and (within or arguments.whole(base, "base") < 2):
            raise InvalidInput("base is for counts, and is 2 or more: they are rounded to its multiples.")
        deviation = described["max_deviation"]
        if (described["suppressed"] or deviation is not None) and (within or base is not None):
            raise InvalidInput(
                "suppressed and max_deviation are for counts that are not rounded: leave given and base out."
            )
        if deviation is not None and (described["suppressed"] or arguments.whole(deviation, "max_deviation") < 1):
            raise InvalidInput(
                "max_deviation is 1 or more, and for counts that cell_key perturbed: none are suppressed."
            )
        return cls(
            described["tbl"],
            tuple(by),
            tuple(within),
            described["value"],
            digits,
            base,
            described["suppressed"],
            deviation,
            described["key"],
            None if described["variance"] is None else float(described["variance"]),
            described["threshold"],
            described["sum"],
            described["weight"],
            described["count"],
            _magnitude(described),
            _codes(described, by),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The variables whose values identify a cell."""
        return (*self.given, *self.vars)


_NAMED = ("tbl", "vars", "given", "value", "digits", "base", "suppressed", "hierarchies", "max_deviation")
# The last seven describe candidates of release_audit.
_FIELDS = (*_NAMED, "key", "variance", "threshold", "sum", "weight", "count", "magnitude")
_MOST_DIGITS = 9
_NO_LINE = "NULL AS code, NULL AS parent"
# SQL: the levels of a cell in all lists of a suppressed table.
_LEVELS = f"[row_level::BIGINT, col_level::BIGINT] || coalesce({BY_LEVEL}, [])"
# Combinations of a perturbed table.
_MOST_CELLS = 3_000_000


def _magnitude(described: Mapping[str, Any]) -> float | None:
    """That of perturbed sums. Raises InvalidInput."""
    magnitude = arguments.checked("cell_key", {"magnitude": described["magnitude"]})["magnitude"]
    if magnitude is not None and (described["key"] is None or described["sum"] is None):
        raise InvalidInput("magnitude is of sums that cell_key perturbs: name their key and sum, or leave it out.")
    return None if magnitude is None else float(magnitude)


def _codes(described: Mapping[str, Any], by: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The tables of codes of a suppressed table, by column. Raises InvalidInput."""
    example = "hierarchies of a table must give tables by column, as in hierarchies: {'industry': 'industry_codes'}."
    pairs = pairs_of(described["hierarchies"], example)
    if not all(isinstance(table, str) and table for _, table in pairs):
        raise InvalidInput(example)
    if pairs and described["suppressed"] is None:
        raise InvalidInput("hierarchies are of a table with suppressed cells: say suppressed, or leave them out.")
    for name, _ in pairs:
        if fold(name) not in {fold(column) for column in by}:
            raise InvalidInput(f'hierarchies names "{name}", which is not in vars of that table: name it there too.')
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class TableBounds(Request):
    """A call of table_bounds. variables: of all tables, each once. target: positions among them."""

    function = "table_bounds"
    tables: tuple[PublishedTable, ...]
    variables: tuple[str, ...]
    n: int | None
    target: tuple[int, ...]
    small: int

    @classmethod
    def read(cls, call_arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(call_arguments)
        tables = _tables(checked["tables"])
        named: dict[str, str] = {}
        for name in (name for table in tables for name in table.columns):
            named.setdefault(fold(name), name)
        order = list(named)
        target = checked["target"]
        for name in target:
            if fold(name) not in named:
                raise InvalidInput(f"No table has {name}, so nothing bounds it: leave it out of the target.")
        if not order:
            raise InvalidInput(f"No table has a variable: name them, as in {_EXAMPLE}.")
        return cls(
            tables=tables,
            variables=tuple(named.values()),
            n=checked["n"],
            target=tuple(order.index(fold(name)) for name in target) or tuple(range(len(order))),
            small=checked["small"],
        )

    def places(self, table: PublishedTable) -> list[int]:
        """The variables of a table, by their positions among all."""
        order = [fold(name) for name in self.variables]
        return [order.index(fold(name)) for name in table.columns]

    def query(self) -> str:
        described = [
            "(SELECT {'names': system.main.list(column_name), 'types': system.main.list(column_type)} "
            f"FROM (DESCRIBE FROM system.main.query_table({literal(table.tbl or '')})))"
            for table in self.tables
        ]
        cells = [self._cells(at, table) for at, table in enumerate(self.tables)]
        levels = [self._levels(place) for place in range(len(self.variables))]
        sizes = ", ".join(f"(SELECT system.main.count(*) FROM _dk_levels_{place})" for place in range(len(levels)))
        packed = ", ".join(self._packed(at, table) for at, table in enumerate(self.tables))
        names = {place: identifier(self.variables[place]) for place in self.target}
        return fill(
            "table_bounds",
            described=", ".join(described),
            problem=named_call("_dk_check", "table_bounds", request=self.literal, described="described"),
            sources=",\n".join([*cells, *levels]),
            answer=call("_dk_table_bounds", request=self.literal, tables=f"[{packed}]", levels=f"[{sizes}]"),
            shown=", ".join(f"_dk_levels_{place}.value AS {name}" for place, name in names.items()),
            joined=" ".join(
                f"JOIN _dk_levels_{place} ON _dk_levels_{place}.code = codes[{at}]"
                for at, place in enumerate(self.target, 1)
            ),
            order=", ".join(f"codes[{at}]" for at in range(1, len(self.target) + 1)),
        )

    def _cells(self, at: int, table: PublishedTable) -> str:
        """The CTEs that read a table."""
        keys = [f"{identifier(name)} AS k{place}, " for name, place in self._keyed(table)]
        value_column = None if table.value is None else identifier(table.value)
        named = [*table.columns, *([table.value] if table.value else []), *(LEVELS if table.suppressed else [])]
        levels = f", NULL::BIGINT[] AS {BY_LEVEL}" if table.suppressed else ""
        if table.suppressed:
            keys += [f"_dk_used[{number}] AS a{place}, " for number, place in enumerate(self.places(table), 1)]
        return fill(
            "table_bounds_source",
            at=str(at),
            table=literal(table.tbl or ""),
            absent=absent(named) + levels,
            keys="".join(keys),
            used=self._used(at, table),
            leveled=f" JOIN _dk_used_{at} ON _dk_levels IS NOT DISTINCT FROM {_LEVELS}" if table.suppressed else "",
            number=f"system.main.any_value({value_column})" if value_column else "system.main.count(*)",
        ).strip()

    def _used(self, at: int, table: PublishedTable) -> str:
        """The CTEs that say, of all levels in a suppressed table, whether each variable identifies a cell there."""
        if table.suppressed is None:
            return ""
        used_call = call(
            "_dk_table_bounds_used",
            request=self.literal,
            place=str(at),
            levels=f"(SELECT system.main.list(levels) FROM (SELECT DISTINCT {_LEVELS} AS levels FROM _dk_source_{at}))",
        )
        return (
            f"_dk_form_{at} AS MATERIALIZED (SELECT {used_call} AS answer),\n"
            f"_dk_used_{at} AS (SELECT unnest(answer.found.levels) AS _dk_levels, "
            f"unnest(answer.found.used) AS _dk_used FROM _dk_form_{at} "
            "WHERE system.main.error(answer.problem) IS NULL),"
        )

    def _levels(self, place: int) -> str:
        """The CTE of a variable's values, numbered in their order."""
        shown = [at for at, table in enumerate(self.tables) if place in self.places(table)]
        cells = [f"_dk_cells_{at}{f' WHERE a{place}' if self.tables[at].suppressed else ''}" for at in shown]
        union = " UNION ".join(f"SELECT DISTINCT k{place} AS value FROM {cell}" for cell in cells)
        return (
            f"_dk_levels_{place} AS MATERIALIZED (SELECT value, system.main.row_number() OVER "
            f"(ORDER BY value ASC NULLS LAST) - 1 AS code FROM ({union}))"
        )

    def _packed(self, at: int, table: PublishedTable) -> str:
        """All cells of a table as one value: codes in the order of its columns, and numbers as text."""
        places = self.places(table)
        codes = ", ".join(f"_dk_levels_{place}.code" for place in places)
        join = "LEFT JOIN _dk_levels_{0} ON a{0} AND" if table.suppressed else "JOIN _dk_levels_{0} ON"
        joins = " ".join(
            f"{join.format(place)} _dk_levels_{place}.value IS NOT DISTINCT FROM k{place}" for place in places
        )
        cell = sql_struct({"codes": f"[{codes}]::BIGINT[]", "number": "CAST(number AS VARCHAR)", "times": "times"})
        fields = {"cells": f"system.main.list({cell})", "kind": "system.main.any_value(typeof(number))"}
        fields["codes"] = f"[{', '.join(self._codes(table))}]::{TREES}"
        return f"(SELECT {sql_struct(fields)} FROM _dk_cells_{at} {joins})"

    def _codes(self, table: PublishedTable) -> list[str]:
        """SQL: of each column of codes its place among the columns, its values in order, and what its table says."""
        order, described = [fold(name) for name in table.columns], []
        for name, codes in table.hierarchies:
            at = order.index(fold(name))
            column = f"_dk_levels_{self.places(table)[at]}"
            lines = f"FROM system.main.query_table({literal(codes)}) UNION ALL BY NAME SELECT {_NO_LINE} WHERE false"
            line = "{'code': CAST(code AS VARCHAR), 'parent': CAST(parent AS VARCHAR)}"
            fields = {
                "place": str(at),
                "labels": f"(SELECT system.main.list(CAST(value AS VARCHAR) ORDER BY code) FROM {column})",
                "lines": f"(SELECT system.main.list({line} ORDER BY code, parent) FROM ({lines}))",
            }
            described.append(sql_struct(fields))
        return described

    def _keyed(self, table: PublishedTable) -> list[tuple[str, int]]:
        return list(zip(table.columns, self.places(table), strict=True))


def _tables(value: object) -> tuple[PublishedTable, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidInput(f"tables is empty: give one published table at least, as in {_EXAMPLE}.")
    tables = tuple(PublishedTable.read(form, "tables") for form in value)
    for table in tables:
        if table.tbl is None:
            raise InvalidInput(f"A table has no tbl: name it, as in {_EXAMPLE}.")
        if table.count is not None:
            raise InvalidInput("table_bounds takes published counts as they are: leave count out.")
        if table.sum is not None or table.weight is not None:
            raise InvalidInput("table_bounds takes counts and shares, and no sums: leave that table out.")
        if table.value is None and table.given:
            raise InvalidInput(
                f"The table '{table.tbl}' is given {', '.join(table.given)}, so it holds shares: name their column, as "
                "in value := 'share'."
            )
        if table.value is not None and fold(table.value) in {fold(name) for name in table.columns}:
            raise InvalidInput(
                f'Column "{table.value}" cannot be both value and one that identifies a cell: name it in one of them.'
            )
    return tables


# --- checks that need the tables' columns -----------------------------------------------------------------------------


def _check(request: TableBounds, described: list[dict[str, list[str]]]) -> None:
    kinds: dict[int, str] = {}
    for table, columns in zip(request.tables, described, strict=True):
        source = Table(table.tbl or "", columns["names"], columns["types"])
        source.has([*table.columns, *(column for column in (table.value, table.suppressed) if column)])
        source.plain(table.columns, "variable")
        source.apart(table.columns, _RELEASED)
        if table.value is not None:
            _check_value(source, table.value)
        for name, place in zip(table.columns, request.places(table), strict=True):
            _check_kind(source, name, kinds.setdefault(place, source.kind(name)))


def _check_value(table: Table, name: str) -> None:
    kind = table.kind(name)
    if not is_number(kind) and not is_text(kind) and kind != _UNTYPED:
        raise InvalidInput(
            f'Column "{name}" of {table.name} is neither a number nor text and cannot be value: cast it to BIGINT, '
            "DOUBLE or DECIMAL."
        )
    if kind == "FLOAT":
        raise InvalidInput(
            f'Column "{name}" of {table.name} is FLOAT, which is too short to tell fractions apart: compute it as '
            "DOUBLE."
        )


def _check_kind(table: Table, name: str, first: str) -> None:
    """DuckDB would cast one table's values to the other's type, and quote the one that cannot be cast."""
    kinds = {table.kind(name), first}
    if len(kinds) > 1 and _UNTYPED not in kinds and not all(map(is_number, kinds)):
        raise InvalidInput(
            f'Column "{name}" of {table.name} has another type than in a table before it: cast it to '
            f"{plain_type(first)}."
        )


# --- the engine's call ------------------------------------------------------------------------------------------------


def _used(request: TableBounds, place: pa.Scalar, levels: pa.Scalar) -> pa.Array:
    """Which variables of a suppressed table identify a cell, by its levels."""
    table, rows = request.tables[place.as_py()], [tuple(row) for row in levels.as_py() or ()]
    used = used_by(rows, table.vars, {fold(name) for name, _ in table.hierarchies})
    arrays = {"levels": pa.array(rows, pa.list_(pa.int64())), "used": pa.array(used, pa.list_(pa.bool_()))}
    return struct({name: one_list(column) for name, column in arrays.items()})


def _bounds(request: TableBounds, tables: pa.Scalar, levels: pa.Scalar) -> pa.Array:
    from duckanon.engines.tables.bounds import table_bounds
    from duckanon.engines.tables.released import Releases

    read = [_read(table, packed) for table, packed in zip(request.tables, tables.as_py(), strict=True)]
    total = _total(request, read)
    coded = with_levels(request.variables, levels.as_py(), map(request.places, request.tables), read)
    released = [
        part
        for table, places, cell in zip(request.tables, coded.places, coded.cells, strict=True)
        for part in _released(table, places, cell, total, coded.sizes)
    ]
    bounds = table_bounds(Releases(coded.sizes, tuple(released), request.n, coded.names), request.target)
    disclosed = (bounds.lower >= 1) & (bounds.upper < request.small)
    codes = pa.array(bounds.codes.tolist(), pa.list_(pa.int64()))
    arrays = {"lower": bounds.lower, "upper": bounds.upper, "exact": bounds.exact, "disclosed": disclosed}
    return struct({"codes": one_list(codes), **{name: one_list(column) for name, column in arrays.items()}})


def _read(table: PublishedTable, packed: dict[str, Any]) -> Cells:
    if packed["cells"] is None:
        raise InvalidInput(f"The table '{table.tbl}' has no rows: there is nothing to bound.")
    cells = packed["cells"]
    if table.value is not None and any(cell["times"] > 1 for cell in cells):
        raise InvalidInput(f"The table '{table.tbl}' has a cell more than once: give one number for each combination.")
    written = [cell["number"] for cell in cells]
    problem = f"A number of the table '{table.tbl}' cannot be read: write 7, 0.25 or 1/4."
    numbers = [None if number is None else as_written(number, problem) for number in written]
    listed = [[-1 if code is None else code for code in cell["codes"]] for cell in cells]
    codes = np.array(listed, dtype=np.int64).reshape(len(cells), len(table.columns))
    trees = [
        Tree(table.columns[coded["place"]], coded["place"], coded["labels"] or [], _lines(coded["lines"]))
        for coded in packed["codes"]
    ]
    return Cells(codes, numbers, written, packed["kind"] == "DOUBLE", trees)


def _lines(packed: Sequence[Mapping[str, str | None]] | None) -> Codes:
    return tuple((line["code"], line["parent"]) for line in packed or ())


def _total(request: TableBounds, read: Sequence[Cells]) -> int | None:
    """The largest number of records: n, or what a table of counts adds up to. None where neither is known."""
    totals = [] if request.n is None else [request.n]
    for table, cells in zip(request.tables, read, strict=True):
        if table.suppressed is not None:
            totals += [int(cells.numbers[at] or 0) for at in _whole(cells)]
        elif not table.given and table.max_deviation is None and None not in cells.numbers:
            half = Fraction(table.base or 0, 2)
            totals.append(int(sum((number or 0) + half for number in cells.numbers)))
    return min(totals, default=None)


def _whole(cells: Cells) -> list[int]:
    """Where the number of all records is, if it is shown."""
    return [at for at in np.flatnonzero((cells.codes < 0).all(axis=1)).tolist() if cells.numbers[at] is not None]


def _released(
    table: PublishedTable, places: Sequence[int], cells: Cells, total: int | None, sizes: Sequence[int]
) -> list[Any]:
    """What a table tells: one or several parts of it."""
    from duckanon.engines.tables.released import counts, shares

    name, count = table.tbl or "", len(table.given)
    if table.suppressed is not None:
        return _margins(name, places, cells)
    if table.max_deviation is not None:
        return [_perturbed(name, places, cells, table.max_deviation, sizes)]
    if not count:
        return [counts(name, places, cells.codes, cells.numbers, base=table.base)]
    numbers = cells.numbers
    if table.digits is None and cells.double:
        numbers = _fractions(name, cells, total)
    return [shares(name, places[count:], places[:count], cells.codes, numbers, digits=table.digits)]


def _margins(name: str, places: Sequence[int], cells: Cells) -> list[Any]:
    """The margins of a suppressed table: cells identified by the same variables. No hidden cell is empty."""
    from duckanon.engines.tables.released import UNBOUNDED, counts

    margins = []
    patterns, of = np.unique(cells.codes >= 0, axis=0, return_inverse=True)
    for number, by in enumerate(patterns):
        at = np.flatnonzero(of.reshape(-1) == number)
        scope = [place for place, used in zip(places, by.tolist(), strict=True) if used]
        if scope:
            numbers = [cells.numbers[cell] for cell in at.tolist()]
            margins.append(counts(name, scope, cells.codes[at][:, by], numbers, within=(1, UNBOUNDED)))
    return margins


def _perturbed(name: str, places: Sequence[int], cells: Cells, most: int, sizes: Sequence[int]) -> Any:
    """Perturbed counts: a cell that is shown holds records, and one that is not holds `most` at most."""
    from duckanon.engines.tables.cells import keys, product
    from duckanon.engines.tables.released import Counts, Released

    levels = [sizes[place] for place in places]
    if prod(levels) > _MOST_CELLS:
        raise InvalidInput(
            f"The perturbed table '{name}' has more than {_MOST_CELLS:,} combinations: leave variables out."
        )
    if any(number is None or number.denominator != 1 or number < 0 for number in cells.numbers):
        raise InvalidInput(f"The perturbed table '{name}' must have whole numbers, none below 0 and none NULL.")
    every = product(levels)
    low, high = np.zeros(len(every), dtype=np.int64), np.full(len(every), most, dtype=np.int64)
    at = keys(cells.codes, levels)
    shown = np.array([int(number or 0) for number in cells.numbers], dtype=np.int64)
    low[at], high[at] = np.where(shown > 0, np.maximum(shown - most, 1), 0), shown + most
    return Released(name, tuple(places), (), every, Counts(low, high))


def _fractions(name: str, cells: Cells, total: int | None) -> list[Fraction | None]:
    """The fractions that shares of type DOUBLE stand for: those with a denominator up to the number of records."""
    from duckanon.engines.cells.proportions import MOST_FOR_DOUBLE, from_double

    if total is None:
        raise InvalidInput(f"The shares of '{name}' are DOUBLE, and no table tells how many records there are: give n.")
    if total > MOST_FOR_DOUBLE:
        raise InvalidInput(
            f"The shares of '{name}' are DOUBLE, which tells fractions apart only while there are fewer than 94906266 "
            "records: give shares as text, as in '3/7', or as DECIMAL."
        )
    return [None if share is None else from_double(float(share), total) for share in cells.written]
