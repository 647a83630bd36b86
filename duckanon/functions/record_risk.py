"""record_risk: from a call to the query that answers it, and the engines' calls inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import fsum
from typing import Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.policy import OWNER
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arguments import check_unit
from duckanon.functions.arrow import TYPES, columns_of, one_list, row_type, struct
from duckanon.functions.collection import COLLECTIONS
from duckanon.functions.k_request import register_k
from duckanon.functions.key_columns import Keyed
from duckanon.functions.population import OTHERS, Population
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import (
    LABEL,
    NUMBER,
    ROW,
    THREADS,
    absent,
    call,
    check,
    exactly,
    fill,
    hashed,
    no_unit,
    unit_of,
    units,
)
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

_HOUSEHOLD = '"duckanon.household"'
# What the engine finds of each class, and what it measures with that.
_CLASS = {"size": "BIGINT", "minimal_uniques": "BIGINT", "smallest_unique": "BIGINT", "suda": "DOUBLE"}
_RISK = {
    name: kind
    for name, kind in columns_of("record_risk").items()
    if name not in ("the table's columns", "household_risk")
}


def register(on: Instance, host: Host) -> None:
    """Put the functions behind record_risk on a database instance."""
    register_k(on, RecordRisk)
    register_check(on, "record_risk", _check, RecordRisk)
    kind = row_type({"labels": "BIGINT", "classes": f"{row_type(_CLASS)}[]"})
    register_engine(on, "_dk_record_risk_classes", partial(_classes, host.progress), "found", kind, RecordRisk)
    register_engine(on, "_dk_record_risk", _risks, "risks", f"{row_type(_RISK)}[]", RecordRisk)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RecordRisk(Keyed):
    """A call of record_risk."""

    function = "record_risk"
    population: Population
    household: str | None

    @classmethod
    def read(cls, call_arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(call_arguments)
        household = checked["household"]
        if household is not None:
            arguments.disjoint([household], checked["qi"], "household")
            if checked["unit"] is not None and fold(checked["unit"]) == fold(household):
                # Persons of a household have a record each, and their risks make that of the household.
                checked["unit"] = None
        people, unit = Population.read(checked), checked["unit"]
        check_unit(unit, checked["qi"], [])
        people.check_unit(unit)
        return cls(**checked, population=people)

    def memory(self, records: int, keys: int, size: int) -> int:
        from duckanon.engines.kanon.minimal_uniques import memory

        return memory(records, keys, size)

    def query(self) -> str:
        return fill(
            "record_risk",
            table=literal(self.tbl),
            absent=absent([*self.qi, *self.units, *self._households, *self.population.columns]),
            problem=check("record_risk", self.literal, people=self.population.described),
            collected=self.collected(self.units),
            hidden="".join(f", {identifier(unit)}" for unit in self.units if unit == OWNER),
            exactly=exactly("COLUMNS(*)"),
            found=call("_dk_record_risk_classes", request=self.literal, handle="collected", threads=THREADS),
            # For the people in the classes, and for the answer: two scans.
            label=f"system.main._dk_label((SELECT labels FROM _dk_found), {ROW}.{NUMBER}, 2)",
            household=unit_of(self.household),
            kept="NOT MATERIALIZED" if self.household is None else "MATERIALIZED",
            shown=self._shown,
            people=self._people,
            answer=call(
                "_dk_record_risk",
                request=self.literal,
                classes="(SELECT classes FROM _dk_found)",
                people=f"system.main.list(people ORDER BY {LABEL})",
            ),
        )

    @property
    def _households(self) -> list[str]:
        """The column of households, if there is one."""
        return [] if self.household is None else [self.household]

    @property
    def _shown(self) -> str:
        """A query of the records with the risk of their households, from those in `_dk_told`.

        It is 1 - (1 - r1)(1 - r2) ...: in the order of the risks, so that it does not depend on that of the records. A
        record without a household is one of its own.
        """
        own = f"_dk_told.* EXCLUDE ({_HOUSEHOLD})"
        if self.household is None:
            return f"SELECT {own}, NULL::DOUBLE AS household_risk FROM _dk_told"
        missed = "system.main.list_sort(system.main.list(1 - risk))"
        household_risk = f"1 - system.main.list_aggregate({missed}, 'product')"
        return (
            f"SELECT {own}, coalesce(found, risk) AS household_risk FROM _dk_told LEFT JOIN ("
            f"SELECT {_HOUSEHOLD}, {household_risk} AS found FROM _dk_told WHERE {_HOUSEHOLD} IS NOT NULL "
            f"GROUP BY {_HOUSEHOLD}"
            f") AS _dk_households USING ({_HOUSEHOLD})"
        )

    @property
    def _people(self) -> str:
        """A query of the classes' labels, with the people in each as far as they are known."""
        if self.population.table is None:
            known = self.population.weighed if self.population.weight else "NULL::BIGINT"
            return f"SELECT {LABEL}, {known} AS people FROM _dk_labelled AS {ROW} GROUP BY {LABEL}"
        keys, named = list(map(identifier, self.qi)), [*self.qi, *self.units]
        firsts = ", ".join(f"system.main.first({name}) AS {name}" for name in map(identifier, named))
        others = "system.main.count(*) FILTER (WHERE {})" if self.unit is None else units(self.unit, OTHERS)
        own = f"(SELECT {LABEL}, {firsts} FROM _dk_labelled GROUP BY {LABEL})"
        # In the type that a column shares with the population's, values of several classes may be equal.
        return (
            f"SELECT unnest(labels) AS {LABEL}, people FROM ("
            f"SELECT system.main.list({LABEL}) FILTER (WHERE NOT {OTHERS}) AS labels, "
            f"{others.format(OTHERS)} AS people "
            f"FROM {self.population.together(own, named)} AS {ROW} GROUP BY {', '.join([*keys, hashed(keys)])})"
        )


def _check(request: RecordRisk, names: list[str], types: list[str], people: list[str]) -> None:
    table = Table(request.tbl, names, types)
    request.check_columns(table)
    table.has(request._households)
    table.plain(request._households, "household")
    request.population.check(table, people, [*request.qi, *request.units])
    table.leaves_free([*_RISK, "household_risk"], [])


# --- the engines' calls -----------------------------------------------------------------------------------------------


def _classes(progress: Progress, request: RecordRisk, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    """The classes of the rows, whose labels the collection keeps, and the minimal uniques of each."""
    from duckanon.engines.kanon.key_subsets import class_labels, units_by_label
    from duckanon.engines.kanon.minimal_uniques import minimal_uniques

    kept = handle.as_py()
    with COLLECTIONS.work(kept) as rows:
        keys = request.keys(rows, max(1, int(threads.as_py())))
        labels, owners = class_labels(keys), request.owners(rows)
        if owners is not None and (owners < 0).any():
            raise InvalidInput(no_unit(request.unit))
        uniques = minimal_uniques(keys, request.size, partial(progress, "record_risk"), owners)
        # Records of one class have the same minimal uniques: any of them will do.
        of_class = np.empty(int(labels.max()) + 1, np.intp)
        of_class[labels] = np.arange(len(labels))
        smallest = uniques.smallest[of_class]
        classes = {
            "size": pa.array(np.bincount(labels) if owners is None else units_by_label(labels, owners)),
            "minimal_uniques": pa.array(uniques.total[of_class]),
            "smallest_unique": pa.array(smallest, mask=smallest == 0),
            "suda": pa.array(uniques.scores[of_class]),
        }
        rows.answer(labels)
    return struct({"labels": pa.array([kept], pa.int64()), "classes": one_list(struct(classes))})


def _risks(request: RecordRisk, classes: pa.Scalar, people: pa.Scalar) -> pa.Array:
    """The risk of each class. people: of each class, as far as they are known."""
    from duckanon.engines.kanon.minimal_uniques import intrusion_by_record
    from duckanon.engines.kanon.risk import journalist

    columns = classes.values
    sizes, scores = columns.field("size").to_numpy(), columns.field("suda").to_numpy()
    counted = people.values.to_numpy(zero_copy_only=False)
    sampled = request.population.sampled(sizes, counted.astype(np.float64))
    risk = journalist(sizes, counted if request.population.table else None, sampled)
    by_score = None
    if sampled is not None:
        fraction = int(sizes.sum()) / fsum(sizes / sampled)
        doubles = 2 * int((sizes == 2).sum())
        by_score = intrusion_by_record(scores, int((sizes == 1).sum()), doubles, fraction, len(request.qi))
    measured = {
        "class_size": columns.field("size"),
        "risk": pa.array(1.0 / sizes if risk is None else risk),
        "minimal_uniques": columns.field("minimal_uniques"),
        "smallest_unique": columns.field("smallest_unique"),
        "suda": columns.field("suda"),
        "dis_suda": pa.nulls(len(sizes), TYPES["DOUBLE"]) if by_score is None else pa.array(by_score),
    }
    return one_list(struct(measured))
