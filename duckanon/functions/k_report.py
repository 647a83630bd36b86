"""k_report: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import columns_of, one_row, row_type
from duckanon.functions.encoding import encode, null_apart, sensitive_columns, unit_codes
from duckanon.functions.k_request import KRequest
from duckanon.functions.population import OTHERS, Population
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import ROW, absent, call, check, exactly, fill, hashed, packed, struct, units
from duckanon.functions.udf import Host, Instance, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.kanon.risk import Report, Sizes

# null_sensitive: NULL is a value of a sensitive column.
NULL_IS_VALUE = "value"


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind k_report on a database instance."""
    on.function(KReport)
    register_check(on, "k_report", check_table, KReport)
    register_engine(on, "_dk_k_report", _report, "measures", row_type(columns_of("k_report")), KReport)


@dataclass(frozen=True, kw_only=True)
class KReport(KRequest):
    """A call of k_report."""

    function = "k_report"
    sensitive: tuple[str, ...]
    population: Population
    l: int  # noqa: E741 - the argument's name
    null_sensitive: str
    unit: str | None
    containment: bool = False

    @classmethod
    def read(cls, call_arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(call_arguments)
        arguments.disjoint(checked["sensitive"], checked["qi"], "sensitive")
        people, unit = Population.read(checked), checked["unit"]
        arguments.check_unit(unit, checked["qi"], checked["sensitive"])
        people.check_unit(unit)
        if checked["containment"] and unit is not None:
            raise InvalidInput(
                "containment counts records: leave unit out, and write unit := '' where a policy names one."
            )
        return cls(**checked, population=people)

    def query(self) -> str:
        # The hash tells apart what a collation takes for equal and a reader does not.
        keys = list(map(identifier, self.qi))
        groups = ", ".join([*keys, hashed(keys)])
        counted, source, own = "NULL::BIGINT", f"_dk_source AS {ROW}", ""
        named = [] if self.unit is None else [self.unit]
        if self.population.table is not None:
            source = f"{self.population.together('_dk_source', [*self.qi, *named])} AS {ROW}"
            own = f" FILTER (WHERE NOT {OTHERS})"
            counted = self._size(OTHERS)
        elif self.population.weight is not None:
            counted = self.population.weighed
        members = f"{packed([*self.sensitive, *named])}{own}" if self.sensitive else "NULL"
        shown = {f"k{i}": f"CASE WHEN {key} IS NOT NULL THEN {exactly(key)} END" for i, key in enumerate(keys)}
        own_values = struct(shown) if self.containment else "NULL"
        size = self._size(f"NOT {OTHERS}" if own else None)
        rows = f"system.main.count({ROW}.{identifier(self.unit)}){own}" if self.unit else "NULL::BIGINT"
        alone = self._alone(size, own)
        # (An alias in HAVING would mean a column of the table that has this name.)
        classes = (
            f"(SELECT {members} AS members, {size} AS size, {rows} AS rows, {counted} AS people, {alone} AS alone, "
            f"{own_values} AS shown FROM {source} GROUP BY {groups} HAVING {size} > 0)"
        )
        # Classes of the same size are alike, unless sensitive columns or their own values tell them apart.
        single = f"(SELECT *, 1 AS times FROM {classes})"
        alike = (
            "(SELECT size, people, system.main.sum(rows)::BIGINT AS rows, system.main.count(*) AS times, "
            "system.main.list(DISTINCT alone) FILTER (WHERE alone IS NOT NULL) AS alone "
            f"FROM {classes} GROUP BY size, people)"
        )
        return fill(
            "k_report",
            table=literal(self.tbl),
            absent=absent([*self.qi, *self.sensitive, *self.population.columns, *named]),
            problem=check("k_report", self.literal, people=self.population.described),
            source=single if self.sensitive or self.containment else alike,
            answer=self.measured("size", "times", "people", "rows", self._units),
        )

    def _alone(self, size: str, own: str) -> str:
        """SQL: the unit that is alone in a class, as `units` compares it; NULL where none is, or records count."""
        if self.unit is None:
            return "NULL::BIGINT"
        name = f"{ROW}.{identifier(self.unit)}"
        met = own[:-1] + f" AND {name} IS NOT NULL)" if own else f" FILTER (WHERE {name} IS NOT NULL)"
        return f"CASE WHEN {size} = 1 THEN system.main.min({exactly(name)}){met} END"

    @property
    def _units(self) -> str:
        """SQL: how many units there are, and how many of them are alone in a class, from the classes' `alone`."""
        if self.unit is None:
            return "NULL"
        alone = "system.main.count(DISTINCT alone)"
        if not self.sensitive:
            units_alone = "system.main.flatten(system.main.list(alone) FILTER (WHERE alone IS NOT NULL))"
            alone = f"coalesce(system.main.len(system.main.list_distinct({units_alone})), 0)"
        return f"[(SELECT {units(self.unit)} FROM _dk_source AS {ROW}), {alone}]"

    def _size(self, where: str | None) -> str:
        """SQL: an aggregate over the records of a class, its size by those that meet a condition, or by all."""
        if self.unit is not None:
            return units(self.unit, where)
        return "system.main.count(*)" if where is None else f"system.main.count(*) FILTER (WHERE {where})"

    def measured(
        self,
        size: str = "NULL::BIGINT",
        times: str = "1",
        people: str = "NULL::BIGINT",
        rows: str = "NULL::BIGINT",
        units: str = "NULL",
    ) -> str:
        """The engine's call over classes: their `members` if columns are sensitive, else their size and number.

        people: of each class, in the population, as far as they are known. rows: records, of classes of that size.
        units: how many there are, and how many are alone, as a list.
        """
        fields = {"sizes": size, "times": times, "people": people, "rows": rows}
        lists = {name: f"system.main.list({field})" for name, field in fields.items()}
        members = "system.main.list(members)" if self.sensitive else "NULL"
        shown = "system.main.list(shown)" if self.containment else "NULL"
        return call("_dk_k_report", request=self.literal, members=members, units=units, shown=shown, **lists)


def check_table(request: KReport, names: list[str], types: list[str], people: list[str]) -> None:
    table = Table(request.tbl, names, types)
    table.has([*request.qi, *request.sensitive])
    table.plain(request.sensitive, "sensitive column")
    table.unit(request.unit)
    request.population.check(table, people, [*request.qi, *([request.unit] if request.unit else [])])


def _report(
    request: KReport,
    members: pa.Scalar,
    units: pa.Scalar,
    shown: pa.Scalar,
    sizes: pa.Scalar,
    times: pa.Scalar,
    people: pa.Scalar,
    rows: pa.Scalar,
) -> pa.Array:
    from duckanon.engines.kanon.risk import report

    if not sizes.is_valid:
        whose = "" if request.unit is None else ", or none with a unit"
        raise InvalidInput(f"The table has no rows{whose}: there is nothing to report.")
    packed = members.values.flatten() if request.sensitive else None
    of_class = sizes.values.to_numpy() if packed is None else np.diff(members.values.offsets.to_numpy())
    class_counts, subjects = times.values.to_numpy().astype(np.int64), None
    if request.unit is not None:
        subjects = None if packed is None else unit_codes(packed.field(len(request.sensitive)))
    null_is_value = request.null_sensitive == NULL_IS_VALUE
    columns = [] if packed is None else sensitive_columns(packed, null_is_value=null_is_value)[: len(request.sensitive)]
    held = people.values.to_numpy(zero_copy_only=False).astype(np.float64)
    measured = report(
        of_class.astype(np.int64),
        columns,
        people.values.to_numpy() if request.population.table is not None else None,
        request.population.sampled(of_class, held),
        request.l,
        class_counts,
        subjects,
        None if packed is not None or request.unit is None else int(rows.values.to_numpy().sum()),
    )
    known, alone = units.as_py() if units.is_valid else (None, None)
    measured = replace(measured, units=known, units_alone=alone)
    if request.containment:
        measured = _with_containment(measured, shown.values, of_class.astype(np.int64))
    return one_row(asdict(measured), columns_of("k_report"))


def _with_containment(report: Report, shown: pa.StructArray, sizes: Sizes) -> Report:
    """The report with its measures of containment. shown: a hash of each value that a class shows, NULL for NULL."""
    from duckanon.engines.kanon.containment import agreeing

    columns = [null_apart(encode("", column, categorical=True)) for column in shown.flatten()]
    agree = agreeing(np.stack(columns, 1), sizes)
    alone = int(sizes[agree == 1].sum())
    return replace(report, k_containment=int(agree.min()), singletons_containment=alone)
