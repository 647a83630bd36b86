"""table_designs: the search over roles of variables, from one cross-table that DuckDB counts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.cells import MEASURES, MEASURES_IN_SQL, absent, counting, renamed, small_counts
from duckanon.functions.schema import Table, is_number
from duckanon.functions.sqltext import fill, literal, literals
from duckanon.functions.udf import Instance, Progress, register_check, register_engine, register_writer

_DESIGN = (
    f"place BIGINT, rows VARCHAR[], cols VARCHAR[], omitted VARCHAR[], {MEASURES_IN_SQL}, information DOUBLE, "
    "dependence DOUBLE, merged STRUCT(variable VARCHAR, number BIGINT, starts BIGINT[])[]"
)


def register(on: Instance, progress: Progress) -> None:
    """Put the functions behind table_designs on a database instance. `progress` as for k_anonymize."""
    register_writer(on, "_dk_write_table_designs", _write)
    register_check(on, "_dk_designs_problem", _check)
    register_engine(on, "_dk_table_designs", partial(_designs, progress), "designs", f"STRUCT({_DESIGN})[]")


def _among(given: list[str], variables: list[str], argument: str) -> list[int]:
    """The positions of some variables among all."""
    places = {name.lower(): i for i, name in enumerate(variables)}
    for name in given:
        if name.lower() not in places:
            raise InvalidInput(f'Column "{name}" is in {argument} but not in variables: add it, or take it out.')
    return [places[name.lower()] for name in given]


def _write(
    tbl: object,
    variables: object,
    count: object,
    small: object,
    fixed_rows: object,
    fixed_cols: object,
    max_cols: object,
    merge: object,
) -> str:
    table = arguments.table(tbl)
    names = arguments.names(variables, "variables", empty=False)
    if len(names) < 2:
        raise InvalidInput("variables must name two columns or more: one for the rows and one for the columns.")
    if len(names) > 16:
        raise InvalidInput("variables names more than 16 columns, whose designs are too many: leave some out.")
    in_rows = _among(arguments.names(fixed_rows, "fixed_rows", empty=True), names, "fixed_rows")
    in_cols = _among(arguments.names(fixed_cols, "fixed_cols", empty=True), names, "fixed_cols")
    for place in in_cols:
        if place in in_rows:
            raise InvalidInput(f'Column "{names[place]}" is in both fixed_rows and fixed_cols: name it in one of them.')
    merged = _among(arguments.names(merge, "merge", empty=True), names, "merge")
    most = None if max_cols is None else arguments.whole(max_cols, "max_cols")
    if most is not None and most < max(1, len(in_cols)):
        raise InvalidInput("max_cols must be 1 or more, and no less than the number of fixed_cols.")
    records, flaws, counted = counting(count, names)
    own = [f"v{i}" for i in range(1, len(names) + 1)]
    lists = [
        f"(SELECT system.main.list(CAST({key} AS VARCHAR) ORDER BY {key} ASC NULLS LAST) "
        f"FROM (SELECT DISTINCT {key} FROM _dk_counted))"
        if i in merged
        else "NULL::VARCHAR[]"
        for i, key in enumerate(own)
    ]
    return fill(
        "table_designs",
        table=literal(table),
        absent=absent([*names, *counted]),
        problem=(
            f"system.main._dk_designs_problem(names, types, {literal(table)}, {literals(names)}, {literals(counted)})"
        ),
        keys=renamed(names, own),
        amount=records,
        flaws=flaws,
        codes=", ".join(f"system.main.dense_rank() OVER (ORDER BY {key} ASC NULLS LAST) - 1" for key in own),
        answer=(
            "system.main._dk_table_designs(system.main.list({'codes': codes, 'n': n}), "
            f"{literals(names)}, {small_counts(small)}, {in_rows}::INTEGER[], {in_cols}::INTEGER[], "
            f"{'NULL::INTEGER' if most is None else most}, {merged}::INTEGER[])"
        ),
        levels=f"[{', '.join(lists)}]",
    )


def _check(names: list[str], types: list[str], table: str, variables: list[str], count: list[str]) -> None:
    found = Table(table, names, types)
    found.has([*variables, *count])
    for name in count:
        if not is_number(found.kind(name)):
            raise InvalidInput(f'Column "{name}" is not a number and cannot be count: cast it to BIGINT.')


def _designs(
    progress: Progress,
    cells: pa.Scalar,
    variables: pa.Scalar,
    small: pa.Scalar,
    fixed_rows: pa.Scalar,
    fixed_cols: pa.Scalar,
    max_cols: pa.Scalar,
    merge: pa.Scalar,
) -> pa.Array:
    from duckanon.engines.cells.designs import CrossTable, Search, designs

    if not cells.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    names = variables.as_py()
    packed = cells.values
    codes = packed.field("codes").flatten().to_numpy().astype(np.int64).reshape(-1, len(names)).T
    counts = packed.field("n").to_numpy().astype(np.int64)
    # Cells without records lend their values to the variables, and nothing else.
    levels = [int(one.max()) + 1 for one in codes]
    some = counts > 0
    table = CrossTable(np.ascontiguousarray(codes[:, some]), levels, counts[some])
    search = Search(
        frozenset(fixed_rows.as_py()), frozenset(fixed_cols.as_py()), max_cols.as_py(), frozenset(merge.as_py())
    )
    found = designs(table, search, small.as_py(), partial(progress, "table_designs"))
    answer = []
    for place, design in enumerate(found):
        used = {*design.rows, *design.cols}
        measures = {name: value for name, value in design.measures.items() if name not in _INNER}
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
        + list(MEASURES.items())
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
