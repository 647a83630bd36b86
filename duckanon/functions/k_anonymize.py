"""k_anonymize and k_compare: from a call to the query that answers it, and the engine's calls inside it."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any

import pyarrow as pa

from duckanon.engines.parallel import spread
from duckanon.errors import InvalidInput
from duckanon.functions import arguments, k_report, k_within, privacy_criteria
from duckanon.functions.k_release import CLASSES, HASHES, Cell, absent, named_numbers, number, structs, write
from duckanon.functions.k_within import write_coarser
from duckanon.functions.labels import answer
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import fill, literal, literals
from duckanon.functions.udf import Instance, Progress, register_check, register_engine, register_writer


def register(on: Instance, progress: Progress) -> None:
    """Put the functions behind k_anonymize, k_report and k_compare on a database instance.

    progress: told what runs and the share done (0 to 1), from whichever thread runs it.
    """
    register_writer(on, "_dk_write_k_anonymize", _write_anonymize)
    register_writer(on, "_dk_write_k_compare", _write_compare)
    register_check(on, "_dk_k_problem", _check_anonymize)
    k_within.register(on, CLASSES)
    k_report.register(on)
    engines = _Engines(progress)
    register_engine(on, "_dk_k_classes", engines.classes, "classes", CLASSES)
    register_engine(on, "_dk_k_compare", engines.compare, "runs", f"STRUCT({_COMPARED})[]")


# --- from a call to a query -------------------------------------------------------------------------------------------


def _write_anonymize(
    tbl: object,
    qi: object,
    k: object,
    method: object,
    weights: object,
    categorical: object,
    drop: object,
    seconds: object,
    sensitive: object,
    l: object,  # noqa: E741 - the argument's name
    diversity: object,
    c: object,
    t: object,
    max_suppression: object,
    within: object,
    options: object,
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
    demanded = privacy_criteria.read(
        sensitive, l, diversity, c, t, max_suppression, [*columns, *dropped], bare=within is not None
    )
    limit, chosen = arguments.seconds(seconds), arguments.text(method, "method")
    if within is not None:
        if limit is not None or chosen != "auto" or options is not None:
            raise InvalidInput("within joins the classes of an earlier release: leave method, seconds and options out.")
        return write_coarser(table, columns, least, weighed, sets, dropped, demanded, within)
    named = {name.lower() for name in sets}
    cells = [Cell.of(name, categorical=name.lower() in named) for name in columns]
    taken = literals(["class_id", *(name for cell in cells for name in cell.names)])
    return write(
        table,
        cells,
        least,
        demanded,
        dropped=dropped,
        replaced=columns,
        problem=(
            f"system.main._dk_k_problem(names, types, {literal(table)}, {literals(columns)}, {literals(sets)}, "
            f"{literals(dropped)}, {literals(demanded.sensitive)}, {taken})"
        ),
        classes=(
            f"system.main._dk_k_classes({structs(columns)}, {HASHES}, {least}, {literal(chosen)}, {weighed}, "
            f"{literals(sets)}, {number(limit)}, {structs(demanded.sensitive)}, {demanded.literal()}, "
            f"{named_numbers(arguments.options(options))}, system.main.current_setting('threads'))"
        ),
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
    sensitive: object,
    l: object,  # noqa: E741 - the argument's name
    diversity: object,
    c: object,
    t: object,
    max_suppression: object,
    options: object,
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
    demanded = privacy_criteria.read(sensitive, l, diversity, c, t, max_suppression, columns)
    return fill(
        "k_measure",
        table=literal(table),
        absent=absent([*columns, *learned, *demanded.sensitive]),
        problem=(
            f"system.main._dk_k_problem(names, types, {literal(table)}, {literals(columns)}, {literals(sets)}, "
            f"{literals(learned)}, {literals(demanded.sensitive)}, []::VARCHAR[])"
        ),
        source="_dk_source",
        answer=(
            f"system.main._dk_k_compare({structs(columns)}, {ks}, {literals(names)}, {weighed}, {literals(sets)}, "
            f"{number(arguments.seconds(seconds))}, {structs(learned) if learned else 'NULL'}, "
            f"{HASHES if demanded.any else 'NULL'}, {structs(demanded.sensitive)}, {demanded.literal()}, "
            f"{named_numbers(arguments.options(options))}, system.main.current_setting('threads'))"
        ),
        rows="unnest(answer.runs, recursive := true)",
    )


# --- checks that need the table's columns -----------------------------------------------------------------------------


def _check_anonymize(
    names: list[str],
    types: list[str],
    table: str,
    qi: list[str],
    categorical: list[str],
    drop: list[str],
    sensitive: list[str],
    released: list[str],
) -> None:
    found = Table(table, names, types)
    found.has([*qi, *drop, *sensitive])
    found.plain(sensitive, "sensitive column")
    found.plain(qi, "quasi-identifier")
    found.ordered(qi, categorical)
    found.leaves_free(released, [*qi, *drop])


# --- the engine's calls -----------------------------------------------------------------------------------------------

_COMPARED = (
    "method VARCHAR, k BIGINT, classes BIGINT, min_class BIGINT, information_loss DOUBLE, gcp DOUBLE, "
    "discernibility HUGEINT, lower_bound DOUBLE, gap DOUBLE, seconds DOUBLE, avg_class DOUBLE, "
    "classification DOUBLE, l BIGINT, t DOUBLE, entropy_l DOUBLE, recursive_c DOUBLE, joined BIGINT, "
    "suppressed BIGINT"
)


def _by_name(options: pa.Scalar) -> dict[str, int]:
    """The value of `named_numbers`."""
    return {one["name"]: one["value"] for one in options.as_py()}


class _Engines:
    """The functions that run inside a query. Engines load when the first one is called, not with the package."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def _records(self, rows: pa.Scalar, weights: pa.Scalar, categorical: pa.Scalar, threads: int) -> Any:
        from duckanon.engines.kanon.records import records
        from duckanon.functions.encoding import encode

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
        sensitive: pa.Scalar,
        demanded: pa.Scalar,
        options: pa.Scalar,
        threads: pa.Scalar,
    ) -> pa.Array:
        from duckanon.engines.kanon.anonymize import anonymize, check_k, check_method, check_options, check_seconds
        from duckanon.engines.kanon.control import Work
        from duckanon.engines.kanon.criteria.enforcement import settle_classes

        check_method(method.as_py())
        check_seconds(seconds.as_py(), method.as_py())
        chosen = _by_name(options)
        check_options(chosen, [method.as_py()])
        check_k(k.as_py(), len(rows.values) if rows.is_valid else 0)
        workers = max(1, int(threads.as_py()))
        told = partial(self._progress, f"k_anonymize, k = {k.as_py()}")
        work = Work(workers, told, seconds.as_py(), options=chosen)
        records = self._records(rows, weights, categorical, workers)
        labels = anonymize(records, k.as_py(), method.as_py(), content=content.values.to_numpy(), work=work)
        if sensitive.is_valid:
            columns = privacy_criteria.columns(sensitive.values)
            wanted = privacy_criteria.conditions(k.as_py(), demanded)
            labels = settle_classes(records, labels, columns, wanted, workers).labels
        return answer(labels)

    def compare(
        self,
        rows: pa.Scalar,
        ks: pa.Scalar,
        methods: pa.Scalar,
        weights: pa.Scalar,
        categorical: pa.Scalar,
        seconds: pa.Scalar,
        target: pa.Scalar,
        content: pa.Scalar,
        sensitive: pa.Scalar,
        demanded: pa.Scalar,
        options: pa.Scalar,
        threads: pa.Scalar,
    ) -> pa.Array:
        from duckanon.engines.kanon.anonymize import anonymize, check_k, check_method, check_options, check_seconds
        from duckanon.engines.kanon.bounds import box_bound
        from duckanon.engines.kanon.control import Work
        from duckanon.engines.kanon.criteria.enforcement import Released, released
        from duckanon.engines.kanon.methods import METHODS
        from duckanon.engines.kanon.methods.freeform import FREEFORM, measure
        from duckanon.engines.kanon.orders import canonical
        from duckanon.functions.encoding import encode

        wanted, names = ks.as_py(), methods.as_py()
        classed = [name for name in names if name not in FREEFORM]
        for name in classed:
            check_method(name)
        if classed != names and sensitive.is_valid:
            raise InvalidInput("Freeform methods make no classes that could meet l or t: leave them out of methods.")
        if seconds.is_valid and classed and not any(METHODS[name].timed for name in classed):
            check_seconds(seconds.as_py(), classed[0])
        chosen = _by_name(options)
        check_options(chosen, classed)
        for k in wanted:
            check_k(k, len(rows.values) if rows.is_valid else 0)
        workers = max(1, int(threads.as_py()))
        records = self._records(rows, weights, categorical, workers)
        learned = None
        if target.is_valid:
            if pa.types.is_nested(target.values.field(0).type):
                raise InvalidInput("The target column is nested: unnest it, or pick out one field as a column.")
            learned = encode("target", target.values.field(0), categorical=True).codes
        hidden = privacy_criteria.columns(sensitive.values) if sensitive.is_valid else []
        hashes = content.values.to_numpy() if content.is_valid else None
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
                    seconds.as_py() if name in classed and METHODS[name].timed else None,
                    proven.append,
                    {} if name in FREEFORM else {one: chosen[one] for one in METHODS[name].options if one in chosen},
                )
                wanted_too = privacy_criteria.conditions(k, demanded)
                started = perf_counter()
                if name in FREEFORM:
                    found = Released(measure(records, k, name, learned, work))
                else:
                    labels = anonymize(records, k, name, content=hashes, work=work)
                    found = released(records, labels, hidden, wanted_too, learned, workers)
                took = perf_counter() - started
                # (What is proven of all records does not hold where some may be left out.)
                bound = max([bound, *([] if wanted_too.suppress else proven)])
                rows.append(dict(method=name, k=k, **asdict(found.utility), seconds=took, **found.told()))
            for row in rows:
                loss = row["information_loss"]
                runs.append(dict(row, lower_bound=bound, gap=max(0.0, 1.0 - bound / loss) if loss else 0.0))
        return pa.array([runs])
