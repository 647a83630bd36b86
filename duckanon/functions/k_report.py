"""k_report: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import columns_of, one_row, row_type
from duckanon.functions.encoding import sensitive_columns
from duckanon.functions.population import OTHERS, Population
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import ROW, absent, call, check, fill, identifier, literal, packed
from duckanon.functions.udf import Host, Instance, register_check, register_engine


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind k_report on a database instance."""
    on.function("k_report", KReport)
    register_check(on, "_dk_k_report_problem", check_table, KReport)
    register_engine(on, "_dk_k_report", _report, "measures", row_type(columns_of("k_report")), KReport)


@dataclass(frozen=True, kw_only=True)
class KReport(Request):
    """A call of k_report."""

    tbl: str
    qi: tuple[str, ...]
    sensitive: tuple[str, ...]
    population: Population
    l: int  # noqa: E741 - the argument's name

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        table = arguments.table(given["tbl"])
        columns = arguments.names(given["qi"], "qi", empty=False)
        hidden = arguments.names(given["sensitive"], "sensitive", empty=True)
        arguments.disjoint(hidden, columns, "sensitive")
        people = Population.read(given, columns)
        least = arguments.whole(given["l"], "l")
        if least < 2:
            raise InvalidInput("l must be 2 or more: recursive_c leaves the l - 1 commonest values of a class out.")
        return cls(tbl=table, qi=tuple(columns), sensitive=tuple(hidden), population=people, l=least)

    def query(self) -> str:
        # The hash tells apart what a collation takes for equal and a reader does not.
        groups = ", ".join(map(identifier, self.qi))
        groups += f", system.main.hash({groups})"
        counted, source, own = "NULL::BIGINT", f"_dk_source AS {ROW}", ""
        if self.population.table is not None:
            source = f"{self.population.together('_dk_source', self.qi)} AS {ROW}"
            own = f" FILTER (WHERE NOT {OTHERS})"
            counted = f"system.main.count(*) FILTER (WHERE {OTHERS})"
        elif self.population.weight is not None:
            counted = self.population.weighed
        members = f"{packed(self.sensitive)}{own}" if self.sensitive else "NULL"
        # (A HAVING would take `size` for a column of that name.)
        classes = (
            f"(FROM (SELECT {members} AS members, system.main.count(*){own} AS size, {counted} AS people "
            f"FROM {source} GROUP BY {groups}) WHERE size > 0)"
        )
        # Classes of the same size are alike, unless sensitive columns tell them apart.
        each = f"(SELECT *, 1 AS times FROM {classes})"
        alike = f"(SELECT size, people, system.main.count(*) AS times FROM {classes} GROUP BY size, people)"
        return fill(
            "k_report",
            table=literal(self.tbl),
            absent=absent([*self.qi, *self.sensitive, *self.population.columns]),
            problem=check("_dk_k_report_problem", self.literal, people=self.population.described),
            source=each if self.sensitive else alike,
            answer=self.measured("size", "times", "people"),
        )

    def measured(self, size: str = "NULL::BIGINT", times: str = "1", people: str = "NULL::BIGINT") -> str:
        """The engine's call over classes: their `members` if columns are sensitive, else their size and number.

        people: of each class, in the population, as far as they are known.
        """
        fields = {"sizes": size, "times": times, "people": people}
        lists = {name: f"system.main.list({one})" for name, one in fields.items()}
        members = "system.main.list(members)" if self.sensitive else "NULL"
        return call("_dk_k_report", request=self.literal, members=members, **lists)


def check_table(request: KReport, names: list[str], types: list[str], people: list[str]) -> None:
    found = Table(request.tbl, names, types)
    found.has([*request.qi, *request.sensitive])
    found.plain(request.sensitive, "sensitive column")
    request.population.check(found, people, request.qi)


def _report(request: KReport, members: pa.Scalar, sizes: pa.Scalar, times: pa.Scalar, people: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.risk import report

    if not sizes.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to report.")
    columns = sensitive_columns(members.values.flatten()) if request.sensitive else []
    of_class = np.diff(members.values.offsets.to_numpy()) if request.sensitive else sizes.values.to_numpy()
    exact = request.population.table is not None
    found = report(
        of_class.astype(np.int64),
        columns,
        people.values.to_numpy() if exact else None,
        request.population.sampled(of_class, people.values.to_numpy(zero_copy_only=False).astype(np.float64)),
        request.l,
        times.values.to_numpy().astype(np.int64),
    )
    return one_row(asdict(found), columns_of("k_report"))
