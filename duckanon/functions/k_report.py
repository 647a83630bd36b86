"""k_report: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import columns_of, one_row, row_type
from duckanon.functions.encoding import sensitive_columns
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import ROW, absent, call, check, fill, identifier, literal, packed
from duckanon.functions.udf import Host, Instance, register_check, register_engine

# The column that marks the records of a population, which are counted together with those of a table.
_OTHERS = '"duckanon.others"'


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
    population: str | None
    fraction: Fraction | None
    l: int  # noqa: E741 - the argument's name

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        table = arguments.table(given["tbl"])
        columns = arguments.names(given["qi"], "qi", empty=False)
        hidden = arguments.names(given["sensitive"], "sensitive", empty=True)
        arguments.disjoint(hidden, columns, "sensitive")
        people = arguments.optional_table(given["population"], "population")
        share = None if given["fraction"] is None else arguments.share(given["fraction"], "fraction", "0.1")
        if people is not None and share is not None:
            raise InvalidInput("population and fraction both say how many people there are: give one of them.")
        if share == 0:
            raise InvalidInput("fraction must be above 0: it is the share of the population that is in the table.")
        least = arguments.whole(given["l"], "l")
        if least < 2:
            raise InvalidInput("l must be 2 or more: recursive_c leaves the l - 1 commonest values of a class out.")
        return cls(tbl=table, qi=tuple(columns), sensitive=tuple(hidden), population=people, fraction=share, l=least)

    def query(self) -> str:
        # The hash tells apart what a collation takes for equal and a reader does not.
        groups = ", ".join(map(identifier, self.qi))
        groups += f", system.main.hash({groups})"
        described, counted, source, own = "[]::VARCHAR[]", "NULL::BIGINT", f"_dk_source AS {ROW}", ""
        if self.population is not None:
            people = f"system.main.query_table({literal(self.population)})"
            described = f"(SELECT system.main.list(column_name) FROM (DESCRIBE FROM {people}))"
            kept = ", ".join(map(identifier, self.qi))
            source = (
                f"(SELECT *, false AS {_OTHERS} FROM _dk_source UNION ALL BY NAME SELECT {kept}, true AS {_OTHERS} "
                f"FROM (FROM {people} UNION ALL BY NAME SELECT {absent(self.qi)} WHERE false)) AS {ROW}"
            )
            own = f" FILTER (WHERE NOT {_OTHERS})"
            counted = f"system.main.count(*) FILTER (WHERE {_OTHERS})"
        members = f"{packed(self.sensitive)}{own}" if self.sensitive else "NULL"
        size = f"system.main.count(*){own}"
        # (An alias in HAVING would mean a column of the table that has this name.)
        classes = (
            f"(SELECT {members} AS members, {size} AS size, {counted} AS people "
            f"FROM {source} GROUP BY {groups} HAVING {size} > 0)"
        )
        # Classes of the same size are alike, unless sensitive columns tell them apart.
        each = f"(SELECT *, 1 AS times FROM {classes})"
        alike = f"(SELECT size, people, system.main.count(*) AS times FROM {classes} GROUP BY size, people)"
        return fill(
            "k_report",
            table=literal(self.tbl),
            absent=absent([*self.qi, *self.sensitive]),
            problem=check("_dk_k_report_problem", self.literal, people=described),
            source=each if self.sensitive else alike,
            answer=self.measured("size", "times", "people"),
        )

    def measured(self, size: str = "NULL::BIGINT", times: str = "1", people: str = "NULL::BIGINT") -> str:
        """The engine's call over classes: their `members` if columns are sensitive, else their size and number.

        people: of each class, in the population.
        """
        fields = {"sizes": size, "times": times, "people": people}
        lists = {name: f"system.main.list({one})" for name, one in fields.items()}
        members = "system.main.list(members)" if self.sensitive else "NULL"
        return call("_dk_k_report", request=self.literal, members=members, **lists)


def check_table(request: KReport, names: list[str], types: list[str], people: list[str]) -> None:
    found = Table(request.tbl, names, types)
    found.has([*request.qi, *request.sensitive])
    found.plain(request.sensitive, "sensitive column")
    if request.population:
        Table(request.population, people, [""] * len(people)).has(request.qi)


def _report(request: KReport, members: pa.Scalar, sizes: pa.Scalar, times: pa.Scalar, people: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.risk import report

    if not sizes.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to report.")
    columns = sensitive_columns(members.values.flatten()) if request.sensitive else []
    of_class = np.diff(members.values.offsets.to_numpy()) if request.sensitive else sizes.values.to_numpy()
    known = people.values.null_count == 0
    found = report(
        of_class.astype(np.int64),
        columns,
        people.values.to_numpy() if known else None,
        None if request.fraction is None else float(request.fraction),
        request.l,
        times.values.to_numpy().astype(np.int64),
    )
    return one_row(asdict(found), columns_of("k_report"))
