"""k_anonymize, k_report and k_compare: from a call to the query that answers it, and the engine's calls inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from duckanon.engines.parallel import spread
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.schema import RESERVED, Table
from duckanon.functions.templates import fill, identifier, literal, literals
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer

Progress = Callable[[str, float], None]

_ROW = f'"{RESERVED}"'


def register(on: Instance, progress: Progress) -> None:
    """Put the functions behind k_anonymize, k_report and k_compare on a database instance.

    progress: told what runs and the share done (0 to 1), from whichever thread runs it.
    """
    register_writer(on, "_dk_write_k_anonymize", _write_anonymize)
    register_writer(on, "_dk_write_k_compare", _write_compare)
    register_writer(on, "_dk_write_k_report", _write_report)
    register_check(on, "_dk_k_problem", _check_anonymize)
    register_check(on, "_dk_k_report_problem", _check_report)
    engines = _Engines(progress)
    register_engine(on, "_dk_k_classes", engines.classes, "classes", _CLASSES)
    register_engine(on, "_dk_k_compare", engines.compare, "runs", f"STRUCT({_COMPARED})[]")
    register_engine(on, "_dk_k_report", engines.report, "measures", f"STRUCT({_REPORTED})")


# --- from a call to a query -------------------------------------------------------------------------------------------


def _structs(columns: Sequence[str]) -> str:
    """All rows' values of `columns`, as one list of structs."""
    fields = ", ".join(f"{literal(name)}: {_ROW}.{identifier(name)}" for name in columns)
    return f"system.main.list({{{fields}}})"


def _number(given: float | None) -> str:
    """The number as a SQL literal."""
    return "NULL::DOUBLE" if given is None else f"{given!r}::DOUBLE"


def _absent(columns: Sequence[str]) -> str:
    """The columns that a call names, and the one it must not find, as NULLs."""
    return ", ".join(f"NULL AS {identifier(name)}" for name in [*columns, RESERVED])


def _released_names(qi: Sequence[str], categorical: Sequence[str]) -> list[list[str]]:
    """The columns that stand for each quasi-identifier."""
    sets = {name.lower() for name in categorical}
    return [[f"{name}_set"] if name.lower() in sets else [f"{name}_lo", f"{name}_hi"] for name in qi]


def _in_order(cell: Sequence[str]) -> str:
    """Sort keys under which two cells tie only if they are the same."""
    keys = [identifier(name) for name in cell]
    if len(keys) == 1:
        keys.append(f"_dk_bytes({keys[0]})")
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


def _write_anonymize(
    tbl: object,
    qi: object,
    k: object,
    method: object,
    weights: object,
    categorical: object,
    drop: object,
    seconds: object,
) -> str:
    table = arguments.table(tbl)
    columns = arguments.names(qi, "qi", empty=False)
    sets = arguments.names(categorical, "categorical", empty=True)
    dropped = arguments.names(drop, "drop", empty=True)
    arguments.subset(sets, columns, "categorical")
    arguments.disjoint(dropped, columns, "drop")
    weighed = arguments.weights(weights, columns)
    least = arguments.whole(k, "k")
    if least < 2:
        raise InvalidInput("k must be 2 or more: with k = 1 every record may stand alone.")
    cells, within = [], []
    released = _released_names(columns, sets)
    for name, cell in zip(columns, released, strict=True):
        value = f"{_ROW}.{identifier(name)}"
        ends = [identifier(end) for end in cell]
        if len(ends) == 1:
            cells.append(f"_dk_set({value}) AS {ends[0]}")
            within.append(f"({ends[0]} IS NULL OR system.main.list_contains({ends[0]}, {value}))")
        else:
            cells.append(f"_dk_lowest({value}) AS {ends[0]}, _dk_highest({value}) AS {ends[1]}")
            within.append(f"({ends[0]} IS NULL AND {ends[1]} IS NULL OR {value} BETWEEN {ends[0]} AND {ends[1]})")
    names = [end for cell in released for end in cell]
    return fill(
        "k_anonymize",
        table=literal(table),
        absent=_absent([*columns, *dropped]),
        excluded=", ".join(identifier(name) for name in [*dropped, RESERVED]),
        problem=(
            f"system.main._dk_k_problem(names, types, {literal(table)}, {literals(columns)}, {literals(sets)}, "
            f"{literals(dropped)}, {literals(['class_id', *names])})"
        ),
        classes=(
            f"system.main._dk_k_classes({_structs(columns)}, system.main.list(system.main.hash({_ROW})), "
            f"{least}, {literal(arguments.text(method, 'method'))}, {weighed}, {literals(sets)}, "
            f"{_number(arguments.seconds(seconds))}, system.main.current_setting('threads'))"
        ),
        cells=", ".join(cells),
        released=", ".join(identifier(name) for name in names),
        released_in_order=", ".join(_in_order(cell) for cell in released),
        within=" AND ".join(within),
        k=str(least),
        kept=", ".join(identifier(name) for name in columns),
        hidden=literals(names),
    )


def _write_compare(
    tbl: object,
    qi: object,
    k: object,
    methods: object,
    weights: object,
    categorical: object,
    seconds: object,
    target: object,
) -> str:
    table = arguments.table(tbl)
    columns = arguments.names(qi, "qi", empty=False)
    sets = arguments.names(categorical, "categorical", empty=True)
    arguments.subset(sets, columns, "categorical")
    weighed = arguments.weights(weights, columns)
    learned = [] if target is None else [arguments.text(target, "target")]
    arguments.disjoint(learned, columns, "target")
    ks = [arguments.whole(one, "k") for one in arguments.many(k, "k")]
    names = [arguments.text(one, "methods") for one in arguments.many(methods, "methods")]
    return fill(
        "k_measure",
        table=literal(table),
        absent=_absent([*columns, *learned]),
        problem=(
            f"system.main._dk_k_problem(names, types, {literal(table)}, {literals(columns)}, {literals(sets)}, "
            f"{literals(learned)}, []::VARCHAR[])"
        ),
        source="_dk_source",
        answer=(
            f"system.main._dk_k_compare({_structs(columns)}, {ks}, {literals(names)}, {weighed}, {literals(sets)}, "
            f"{_number(arguments.seconds(seconds))}, {_structs(learned) if learned else 'NULL'}, "
            "system.main.current_setting('threads'))"
        ),
        rows="unnest(answer.runs, recursive := true)",
    )


def _write_report(tbl: object, qi: object, sensitive: object) -> str:
    table = arguments.table(tbl)
    columns = arguments.names(qi, "qi", empty=False)
    hidden = arguments.names(sensitive, "sensitive", empty=True)
    arguments.disjoint(hidden, columns, "sensitive")
    members = _structs(hidden) if hidden else "system.main.list({'duckanon.none': 0})"
    # The hash tells apart what a collation takes for equal and a reader does not.
    groups = ", ".join(identifier(name) for name in columns)
    groups += f", system.main.hash({groups})"
    return fill(
        "k_measure",
        table=literal(table),
        absent=_absent([*columns, *hidden]),
        problem=(
            f"system.main._dk_k_report_problem(names, types, {literal(table)}, {literals(columns)}, {literals(hidden)})"
        ),
        source=f"(SELECT {members} AS members FROM _dk_source AS {_ROW} GROUP BY {groups})",
        answer=f"system.main._dk_k_report(system.main.list(members), {literals(hidden)})",
        rows="unnest(answer.measures)",
    )


# --- checks that need the table's columns -----------------------------------------------------------------------------


def _check_anonymize(
    names: list[str],
    types: list[str],
    table: str,
    qi: list[str],
    categorical: list[str],
    drop: list[str],
    released: list[str],
) -> None:
    found = Table(table, names, types)
    found.has([*qi, *drop])
    found.plain(qi, "quasi-identifier")
    found.ordered(qi, categorical)
    found.leaves_free(released, [*qi, *drop])


def _check_report(names: list[str], types: list[str], table: str, qi: list[str], sensitive: list[str]) -> None:
    found = Table(table, names, types)
    found.has([*qi, *sensitive])
    found.plain(sensitive, "sensitive column")


# --- the engine's calls -----------------------------------------------------------------------------------------------

# Row numbers from 1, class after class, and the label of each.
_CLASSES = "STRUCT(members BIGINT[], labels INTEGER[])"
_COMPARED = (
    "method VARCHAR, k BIGINT, classes BIGINT, min_class BIGINT, information_loss DOUBLE, gcp DOUBLE, "
    "discernibility HUGEINT, lower_bound DOUBLE, gap DOUBLE, seconds DOUBLE, avg_class DOUBLE, "
    "classification DOUBLE"
)
_REPORTED = (
    "records BIGINT, classes BIGINT, k BIGINT, singletons BIGINT, avg_class DOUBLE, max_risk DOUBLE, "
    "avg_risk DOUBLE, l BIGINT, entropy_l DOUBLE, t DOUBLE, recursive_c DOUBLE"
)


class _Engines:
    """The functions that run inside a query. Engines load when the first one is called, not with the package."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def _records(self, rows: pa.Scalar, weights: pa.Scalar, categorical: pa.Scalar, threads: int) -> Any:
        from duckanon.engines.kanon.records import records
        from duckanon.functions.columns import encode

        if not rows.is_valid:
            raise InvalidInput("The table has no rows: there is nothing to anonymise.")
        packed = rows.values
        sets = {name.lower() for name in categorical.as_py()}
        fields = [(packed.type.field(i).name, packed.field(i)) for i in range(packed.type.num_fields)]

        def one(named: tuple[tuple[str, pa.Array], float]) -> Any:
            (name, column), weight = named
            return encode(name, column, categorical=name.lower() in sets, weight=weight)

        return records(spread(one, zip(fields, weights.as_py(), strict=True), threads))

    def classes(
        self,
        rows: pa.Scalar,
        content: pa.Scalar,
        k: pa.Scalar,
        method: pa.Scalar,
        weights: pa.Scalar,
        categorical: pa.Scalar,
        seconds: pa.Scalar,
        threads: pa.Scalar,
    ) -> pa.Array:
        from duckanon.engines.kanon.anonymize import anonymize, check_k, check_method, check_seconds
        from duckanon.engines.kanon.orders import by_label
        from duckanon.engines.kanon.work import Work

        check_method(method.as_py())
        check_seconds(seconds.as_py(), method.as_py())
        check_k(k.as_py(), len(rows.values) if rows.is_valid else 0)
        workers = max(1, int(threads.as_py()))
        work = Work(workers, partial(self._progress, f"k_anonymize, k = {k.as_py()}"), seconds.as_py())
        labels = anonymize(
            self._records(rows, weights, categorical, workers),
            k.as_py(),
            method.as_py(),
            content=content.values.to_numpy(),
            work=work,
        )
        members = by_label(labels)
        whole = pa.array([0, len(labels)], pa.int32())
        return pa.StructArray.from_arrays(
            [
                pa.ListArray.from_arrays(whole, pa.array(members + 1)),
                pa.ListArray.from_arrays(whole, pa.array(labels[members])),
            ],
            ["members", "labels"],
        )

    def compare(
        self,
        rows: pa.Scalar,
        ks: pa.Scalar,
        methods: pa.Scalar,
        weights: pa.Scalar,
        categorical: pa.Scalar,
        seconds: pa.Scalar,
        target: pa.Scalar,
        threads: pa.Scalar,
    ) -> pa.Array:
        from duckanon.engines.kanon.anonymize import anonymize, check_k, check_method, check_seconds
        from duckanon.engines.kanon.bounds import box_bound
        from duckanon.engines.kanon.loss import utility
        from duckanon.engines.kanon.methods import METHODS
        from duckanon.engines.kanon.orders import canonical
        from duckanon.engines.kanon.work import Work
        from duckanon.functions.columns import encode

        wanted, names = ks.as_py(), methods.as_py()
        for name in names:
            check_method(name)
        if seconds.is_valid and not any(METHODS[name].timed for name in names):
            check_seconds(seconds.as_py(), names[0])
        for k in wanted:
            check_k(k, len(rows.values) if rows.is_valid else 0)
        workers = max(1, int(threads.as_py()))
        records = self._records(rows, weights, categorical, workers)
        learned = None
        if target.is_valid:
            if pa.types.is_nested(target.values.field(0).type):
                raise InvalidInput("The target column is nested: unnest it, or pick out one field as a column.")
            learned = encode("target", target.values.field(0), categorical=True).codes
        ordered = records.take(canonical(records), workers)
        runs = []
        for k in wanted:
            bound = box_bound(ordered, k, workers, partial(self._progress, f"lower bound, k = {k}"))
            rows = []
            for name in names:
                proven: list[float] = []
                work = Work(
                    workers,
                    partial(self._progress, f"{name}, k = {k}"),
                    seconds.as_py() if METHODS[name].timed else None,
                    proven.append,
                )
                started = perf_counter()
                labels = anonymize(records, k, name, work=work)
                took = perf_counter() - started
                bound = max([bound, *proven])
                rows.append(dict(method=name, k=k, **asdict(utility(records, labels, learned)), seconds=took))
            for row in rows:
                loss = row["information_loss"]
                runs.append(dict(row, lower_bound=bound, gap=max(0.0, 1.0 - bound / loss) if loss else 0.0))
        return pa.array([runs])

    def report(self, members: pa.Scalar, sensitive: pa.Scalar) -> pa.Array:
        from duckanon.engines.kanon.records import Attribute
        from duckanon.engines.kanon.risk import Sensitive, report
        from duckanon.functions.columns import encode, is_ordered

        if not members.is_valid:
            raise InvalidInput("The table has no rows: there is nothing to report.")
        classes = members.values
        sizes = np.diff(classes.offsets.to_numpy()).astype(np.int64)
        packed = classes.flatten()
        columns = []
        for i in range(len(sensitive.as_py())):
            column = packed.field(i)
            ordered = is_ordered(column.type)
            found: Attribute = encode(packed.type.field(i).name, column, categorical=not ordered)
            holds_null = bool((found.codes == found.distinct).any())
            columns.append(Sensitive(found.codes, found.distinct + holds_null, ordered))
        return pa.array([asdict(report(sizes, columns))])
