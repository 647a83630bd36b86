"""cell_key and cell_key_table: counts perturbed by cell key, and the perturbation tables by which they are changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.publication import Perturbation
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.listing import listed
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import absent, ascending, call, check, fill, renamed
from duckanon.functions.suppressed_tables import LEVELS
from duckanon.functions.udf import Host, Instance, register_check, register_engine
from duckanon.specification import functions

if TYPE_CHECKING:
    from duckanon.engines.suppression.cell_key import PTable

# The largest deviation, the variance and the threshold of a perturbation table, by default.
DEFAULTS = {argument.name: json.loads(argument.default or "") for argument in functions()["cell_key_table"].arguments}
_PTABLE = {"i": "BIGINT", "v": "BIGINT", "first_key": "BIGINT", "beyond_key": "BIGINT"}
_MOST_ROWS = 1_000_000
# Decimals of weights; and of what share of its largest contribution a sum is changed at most, by default.
_WEIGHT, _MAGNITUDE = 6, 0.2


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind cell_key and cell_key_table on a database instance."""
    on.function(CellKey)
    on.function(CellKeyTable)
    register_check(on, "cell_key", _check, CellKey)
    register_engine(on, "_dk_cell_key", _ptable, "ptable", f"{row_type(_PTABLE)}[]", CellKey)
    kind = f"{row_type(columns_of('cell_key_table'))}[]"
    register_engine(on, "_dk_cell_key_table", _table, "rows", kind, CellKeyTable)


@dataclass(frozen=True, kw_only=True)
class CellKeyTable(Request):
    """A call of cell_key_table."""

    function = "cell_key_table"
    max_deviation: int
    variance: float
    threshold: int

    def query(self) -> str:
        return listed("_dk_cell_key_table", self)

    def to_ptable(self) -> PTable:
        """The perturbation table of largest entropy. Raises InvalidInput where there is none."""
        from duckanon.engines.suppression.cell_key import maximum_entropy

        return maximum_entropy(self.max_deviation, self.variance, self.threshold)


@dataclass(frozen=True, kw_only=True)
class CellKey(Request):
    """A call of cell_key. parameters: of the perturbation table, where the caller has none.

    magnitude: of what share of its largest contribution a sum is changed at most.
    """

    function = "cell_key"
    tbl: str
    by: tuple[str, ...]
    cols: tuple[str, ...]
    key: str
    totals: bool
    value: str | None
    weight: str | None
    digits: int
    magnitude: float
    ptable: str | None
    parameters: CellKeyTable

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        own = {name: value for name in DEFAULTS if (value := checked.pop(name)) is not None}
        _apart(checked)
        for name in own:
            if checked["ptable"] is not None:
                raise InvalidInput(f"{name} makes a perturbation table, and ptable is one: leave one of them out.")
        if checked["value"] is None and (checked["digits"] or checked["magnitude"] is not None):
            raise InvalidInput("digits and magnitude are of a column to sum: name it, as in value := 'turnover'.")
        checked["magnitude"] = magnitude_of(checked["magnitude"])
        return cls(**checked, parameters=CellKeyTable(**(DEFAULTS | own)))

    @property
    def categories(self) -> list[str]:
        return [*self.by, *self.cols]

    @property
    def named(self) -> list[str]:
        """All columns of the table that the call names."""
        return [*self.categories, self.key, *(column for column in (self.value, self.weight) if column)]

    def query(self) -> str:
        own = [f"c{i}" for i in range(1, len(self.categories) + 1)]
        released = [f"{key} AS {identifier(name)}, " for key, name in zip(own, self.categories, strict=True)]
        levels = ["row_level", "col_level"] if self.totals else []
        record, cell = key_sql(self.key)
        return fill(
            "cell_key",
            table=literal(self.tbl),
            absent=absent(self.named),
            problem=check("cell_key", self.literal, ptable=self._described),
            keys=renamed(self.categories, own) + (", " if own else ""),
            key=looked_up(cell),
            flaws=self._flaws(record),
            sets=self._sets if self.totals else "GROUP BY ALL",
            levels=self._levels if self.totals else "",
            measures=self._measures,
            shown=self._shown(cell_levels=levels),
            valued=self._valued,
            given=self._ptable_rows,
            answer=call("_dk_cell_key", request=self.literal, given="given"),
            released="".join(released),
            order=ascending([*levels, *own]) or "n",
        )

    @property
    def _sides(self) -> list[list[str]]:
        """The columns of rows and of columns, as SQL."""
        return [[f"_dk_records.{identifier(name)}" for name in side] for side in (self.by, self.cols)]

    @property
    def _sets(self) -> str:
        sides = ", ".join(f"ROLLUP ({', '.join(side)})" for side in self._sides if side)
        return f"GROUP BY {sides}" if sides else "GROUP BY ()"

    @property
    def _levels(self) -> str:
        """By how many columns a cell is identified, of rows and of columns."""
        sums = (" + ".join(["0::BIGINT", *(f"(1 - GROUPING({column}))" for column in side)]) for side in self._sides)
        return "".join(f"{level} AS {name}, " for level, name in zip(sums, LEVELS, strict=True))

    def _flaws(self, record: str) -> str:
        flaws = [(f"{record} IS NULL OR NOT ({record} >= 0 AND {record} < 1)", key_flaw(self.key))]
        if self.weight is not None:
            weight = _decimal(self.weight, _WEIGHT)
            sentence = f'Column "{self.weight}" holds a weight that is NULL, below 0 or too large: correct it.'
            flaws.append((f"{weight} IS NULL OR {weight} < 0", sentence))
        if self.value is not None:
            amount = _decimal(self.value, self.digits)
            exact = f"{amount} = TRY_CAST({identifier(self.value)} AS DOUBLE)"
            sentence = (
                f'Column "{self.value}" holds NULL, a negative number, too large a one, or one with more than '
                f"{self.digits} decimals: correct it, or choose larger digits."
            )
            flaws.append((f"{amount} IS NULL OR {amount} < 0 OR NOT {exact}", sentence))
        cases = " ".join(f"WHEN {test} THEN {literal(sentence)}" for test, sentence in flaws)
        return f"system.main.max(CASE {cases} END)"

    @property
    def _measures(self) -> str:
        """What is added up of a cell, beside its records: weights, and the sum with its largest contribution."""
        weight = "1" if self.weight is None else _decimal(self.weight, _WEIGHT)
        measures = f", system.main.sum({weight}) AS weights"
        if self.value is None:
            return measures
        amount = f"{weight} * {_decimal(self.value, self.digits)}"
        cell = looked_up(key_sql(self.key)[1], fold(self.value))
        return (
            f"{measures}, system.main.sum({amount}) AS amount, system.main.max({amount}) AS largest, {cell} AS sum_key"
        )

    def _shown(self, cell_levels: list[str]) -> str:
        count = "_dk_counted.records + _dk_ptable.v"
        if self.weight is not None:
            mean = "CAST(weights AS DOUBLE) / _dk_counted.records"
            count = f"CAST(system.main.round(({count}) * {mean}) AS BIGINT)"
        columns = [*cell_levels, f"{count} AS n"]
        if self.value is not None:
            kind = f"DECIMAL(38, {self.digits})"
            change = f"CAST(largest AS DOUBLE) * {self.magnitude!r} * _dk_of_sums.v / _dk_of_sums.most"
            columns.append(f"CAST(amount AS {kind}) + CAST({change} AS {kind}) AS {identifier('value')}")
        return ", ".join(columns)

    @property
    def _valued(self) -> str:
        if self.value is None:
            return ""
        return (
            "JOIN (SELECT *, system.main.max(system.main.abs(v)) OVER () AS most FROM _dk_ptable "
            "WHERE i = (SELECT i FROM _dk_last)) AS _dk_of_sums "
            "ON sum_key >= _dk_of_sums.first_key AND sum_key < _dk_of_sums.beyond_key"
        )

    @property
    def _described(self) -> str:
        if self.ptable is None:
            return "NULL::VARCHAR[]"
        described = f"DESCRIBE FROM system.main.query_table({literal(self.ptable)})"
        return f"(SELECT system.main.list(column_name) FROM ({described}))"

    @property
    def _ptable_rows(self) -> str:
        if self.ptable is None:
            return "NULL"
        source = f"system.main.query_table({literal(self.ptable)})"
        change = "coalesce(TRY_CAST(v AS BIGINT), TRY_CAST(j AS BIGINT) - TRY_CAST(i AS BIGINT))"
        row = f"{{'i': TRY_CAST(i AS BIGINT), 'v': {change}, 'p': TRY_CAST(p AS DOUBLE)}}"
        named = f"FROM {source} UNION ALL BY NAME SELECT {absent(['i', 'j', 'v', 'p'], own=False)} WHERE false"
        return f"(SELECT system.main.list({row} ORDER BY i) FROM ({named}) WHERE (SELECT fine FROM _dk_sound))"


def magnitude_of(value: Any) -> float:
    """Of what share of its largest contribution a sum is changed at most; the default for None."""
    return float(_MAGNITUDE if value is None else value)


def key_flaw(column: str) -> str:
    """The sentence of a refusal of record keys."""
    return (
        f'Column "{column}" holds a number that is not from 0 to below 1, or NULL: draw a record key for each record '
        "once, as random() does, and keep it."
    )


def perturbed_by(key: str | None, arguments: Mapping[str, Any]) -> Perturbation | None:
    """How counts were perturbed, with the defaults of `cell_key`; None without a key. Raises InvalidInput."""
    own = {name: arguments[name] for name in DEFAULTS if arguments[name] is not None}
    if key is None:
        if own:
            raise InvalidInput(
                f"{next(iter(own))} is for counts that cell_key perturbed: name their key, as in key := 'record_key'."
            )
        return None
    table = CellKeyTable(**(DEFAULTS | own))
    table.to_ptable()
    return Perturbation(key, table.max_deviation, float(table.variance), table.threshold)


def ptable_of(perturbation: Perturbation) -> PTable:
    """The perturbation table by which published counts were changed."""
    table = CellKeyTable(
        max_deviation=perturbation.max_deviation, variance=perturbation.variance, threshold=perturbation.threshold
    )
    return table.to_ptable()


def key_sql(column: str) -> tuple[str, str]:
    """SQL: a record's key as it is, and its cell's key as an aggregate, a whole number below KEYS."""
    from duckanon.engines.suppression.cell_key import KEYS

    record = f"TRY_CAST({identifier(column)} AS DOUBLE)"
    # Whole numbers add up to the same in any order.
    return record, f"system.main.sum(TRY_CAST(system.main.floor({record} * {KEYS}) AS BIGINT)) % {KEYS}"


def looked_up(cell: str, column: str = "") -> str:
    """SQL: a hash of a cell's key, a whole number below KEYS, as `hashed` has it. column: of which the change is."""
    from duckanon.engines.suppression.cell_key import KEYS

    more = f" || {literal(':' + column)}" if column else ""
    return f"system.main.md5_number_lower(CAST({cell} AS VARCHAR){more}) % {KEYS}"


def _decimal(column: str, digits: int) -> str:
    """SQL: a column's number, with so many decimals."""
    return f"TRY_CAST({identifier(column)} AS DECIMAL(18, {digits}))"


def _apart(checked: Mapping[str, Any]) -> None:
    """Check that no column has two roles."""
    by = {fold(name) for name in checked["by"]}
    if fold(checked["key"]) in {*by, *map(fold, checked["cols"])}:
        raise InvalidInput(f'Column "{checked["key"]}" is both key and in by: nobody must see record keys.')
    for name in checked["cols"]:
        if fold(name) in by:
            raise InvalidInput(f'Column "{name}" is in both by and cols: name it in one of them.')
    for role in ("value", "weight"):
        if checked[role] is not None and fold(checked[role]) in {
            *by,
            *map(fold, checked["cols"]),
            fold(checked["key"]),
        }:
            raise InvalidInput(f'Column "{checked[role]}" has another role than {role}, too: name it in one of them.')


def _check(request: CellKey, names: list[str], types: list[str], ptable: list[str] | None) -> None:
    table = Table(request.tbl, names, types)
    table.has(request.named)
    table.number(request.key, "key", "DOUBLE")
    for role in ("value", "weight"):
        if getattr(request, role) is not None:
            table.number(getattr(request, role), role, "DECIMAL")
    table.apart(request.categories, ["n", *(LEVELS if request.totals else []), *(["value"] if request.value else [])])
    if request.ptable is not None:
        source = Table(request.ptable, ptable or [], [""] * len(ptable or []))
        source.has(["i", "p"])
        if not source.holds("v") and not source.holds("j"):
            source.has(["v"])


# --- the engine's calls -----------------------------------------------------------------------------------------------


def _ptable(request: CellKey, given: pa.Scalar) -> pa.Array:
    """The perturbation table with the keys of each change, from the first one to the one beyond the last."""
    table = request.parameters.to_ptable() if request.ptable is None else _read(given)
    lines = []
    for i, v, weight, beyond in _changes(table):
        lines.append({"i": i, "v": v, "first_key": beyond - weight, "beyond_key": beyond})
    return rows(lines, _PTABLE)


def _table(request: CellKeyTable) -> pa.Array:
    from duckanon.engines.suppression.cell_key import KEYS

    lines = [{"i": i, "j": i + v, "v": v, "p": weight / KEYS} for i, v, weight, _ in _changes(request.to_ptable())]
    return rows(lines, columns_of("cell_key_table"))


def _changes(table: PTable) -> Iterator[tuple[int, int, int, int]]:
    """A count, a change that it can have, its number of keys, and the first key beyond them."""
    for i, weights in enumerate(table.weights.tolist()):
        beyond = 0
        for v, weight in enumerate(weights, -table.most):
            beyond += weight
            if weight:
                yield i, v, weight, beyond


def _read(given: pa.Scalar) -> PTable:
    """The caller's perturbation table. Raises InvalidInput if it is not one."""
    from duckanon.engines.suppression.cell_key import PTable

    lines: Any = given.values if given.is_valid else None
    if lines is None or len(lines) > _MOST_ROWS or any(lines.field(name).null_count for name in ("i", "v", "p")):
        raise InvalidInput(
            "A ptable has whole numbers i, and v or j, and probabilities p: fill it, and leave out NULL."
        )
    i, v = (lines.field(name).to_numpy() for name in ("i", "v"))
    most = int(np.abs(v).max())
    if i.min() < 0 or (int(i.max()) + 1) * (2 * most + 1) > _MOST_ROWS:
        raise InvalidInput("A ptable has a row for each count from 0 on and each change: its numbers are too large.")
    if len(np.unique(i * (2 * most + 1) + v + most)) < len(i):
        raise InvalidInput("A ptable has each count and change once: leave out what is there twice.")
    probabilities = np.zeros((int(i.max()) + 1, 2 * most + 1))
    probabilities[i, v + most] = lines.field("p").to_numpy()
    return PTable.of(probabilities)
