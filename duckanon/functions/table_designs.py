"""table_designs: the search over roles of variables, from one cross-table that DuckDB counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import TYPES, integers
from duckanon.functions.cells import MEASURES, check_count, counting
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import absent, call, check, fill, renamed
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

_DESIGN = (
    "place BIGINT, rows VARCHAR[], cols VARCHAR[], omitted VARCHAR[], "
    f"{', '.join(f'{name} {kind}' for name, kind in MEASURES.items())}, information DOUBLE, dependence DOUBLE, "
    "merged STRUCT(variable VARCHAR, number BIGINT, starts BIGINT[])[]"
)


def register(on: Instance, host: Host) -> None:
    """Put the functions behind table_designs on a database instance."""
    on.function(TableDesigns)
    register_check(on, "designs", check_table, TableDesigns)
    compute = partial(_designs, host.progress)
    register_engine(on, "_dk_table_designs", compute, "designs", f"STRUCT({_DESIGN})[]", TableDesigns)


@dataclass(frozen=True, kw_only=True)
class TableDesigns(Request):
    """A call of table_designs. fixed_rows, fixed_cols, merge: positions among the variables."""

    function = "table_designs"
    tbl: str
    variables: tuple[str, ...]
    count: str | None
    small: int
    fixed_rows: tuple[int, ...]
    fixed_cols: tuple[int, ...]
    max_cols: int | None
    merge: tuple[int, ...]

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        names = checked["variables"]
        if len(names) < 2:
            raise InvalidInput("variables must name two columns or more: one for the rows and one for the columns.")
        if len(names) > 16:
            raise InvalidInput("variables names more than 16 columns, whose designs are too many: leave some out.")
        checked |= {
            argument: _among(checked[argument], names, argument) for argument in ("fixed_rows", "fixed_cols", "merge")
        }
        for place in checked["fixed_cols"]:
            if place in checked["fixed_rows"]:
                raise InvalidInput(
                    f'Column "{names[place]}" is in both fixed_rows and fixed_cols: name it in one of them.'
                )
        if checked["max_cols"] is not None and checked["max_cols"] < len(checked["fixed_cols"]):
            raise InvalidInput("max_cols must be no less than the number of fixed_cols.")
        check_count(checked["count"], names)
        return cls(**checked)

    def query(self) -> str:
        amount, flaws = counting(self.count)
        own = [f"v{i}" for i in range(1, len(self.variables) + 1)]
        lists = [
            f"(SELECT system.main.list(CAST({key} AS VARCHAR) ORDER BY {key} ASC NULLS LAST) "
            f"FROM (SELECT DISTINCT {key} FROM _dk_counted))"
            if i in self.merge
            else "NULL::VARCHAR[]"
            for i, key in enumerate(own)
        ]
        return fill(
            "table_designs",
            table=literal(self.tbl),
            absent=absent([*self.variables, *([self.count] if self.count else [])]),
            problem=check("designs", self.literal),
            keys=renamed(self.variables, own),
            amount=amount,
            flaws=flaws,
            codes=", ".join(f"system.main.dense_rank() OVER (ORDER BY {key} ASC NULLS LAST) - 1" for key in own),
            answer=call("_dk_table_designs", request=self.literal, cells="system.main.list({'codes': codes, 'n': n})"),
            levels=f"[{', '.join(lists)}]",
        )


def _among(named: Sequence[str], variables: Sequence[str], argument: str) -> tuple[int, ...]:
    """The positions of some variables among all."""
    places = {fold(name): i for i, name in enumerate(variables)}
    for name in named:
        if fold(name) not in places:
            raise InvalidInput(f'Column "{name}" is in {argument} but not in variables: add it, or take it out.')
    return tuple(places[fold(name)] for name in named)


def check_table(request: TableDesigns, names: list[str], types: list[str]) -> None:
    table = Table(request.tbl, names, types)
    table.has([*request.variables, *([request.count] if request.count else [])])
    if request.count:
        table.number(request.count, "count", "BIGINT")


def _designs(progress: Progress, request: TableDesigns, cells: pa.Scalar) -> pa.Array:
    from duckanon.engines.cells.designs import CrossTable, Search, designs

    if not cells.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    names = request.variables
    packed = cells.values
    codes = integers(packed.field("codes").flatten()).reshape(-1, len(names)).T
    counts = integers(packed.field("n"))
    # Cells without records are used for the variables' values alone.
    levels = [int(code.max()) + 1 for code in codes]
    some = counts > 0
    table = CrossTable(np.ascontiguousarray(codes[:, some]), levels, counts[some])
    search = Search(
        frozenset(request.fixed_rows), frozenset(request.fixed_cols), request.max_cols, frozenset(request.merge)
    )
    audited = designs(table, search, request.small, partial(progress, "table_designs"))
    answer = []
    for place, design in enumerate(audited):
        used = {*design.rows, *design.cols}
        measures = {name: measure for name, measure in design.measures.items() if name not in _INNER}
        answer.append(
            {
                "place": place,
                "rows": [names[v] for v in design.rows],
                "cols": [names[v] for v in design.cols],
                "omitted": [name for v, name in enumerate(names) if v not in used],
                "information": design.information,
                "dependence": design.dependence,
                "merged": [
                    {"variable": names[v], "number": v + 1, "starts": [start + 1 for start in groups]}
                    for v, groups in sorted(design.merged.items())
                ],
                **measures,
            }
        )
    return pa.array([answer], _ARROW)


_INNER = ("nonzero_rows", "nonzero_cells")
_ARROW = pa.list_(
    pa.struct(
        [("place", pa.int64())]
        + [(name, pa.list_(pa.string())) for name in ("rows", "cols", "omitted")]
        + [(name, TYPES[kind]) for name, kind in MEASURES.items()]
        + [
            ("information", pa.float64()),
            ("dependence", pa.float64()),
            (
                "merged",
                pa.list_(
                    pa.struct([("variable", pa.string()), ("number", pa.int64()), ("starts", pa.list_(pa.int64()))])
                ),
            ),
        ]
    )
)
