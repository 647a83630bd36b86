"""k_report: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments, privacy_criteria
from duckanon.functions.k_release import ROW, absent, number, structs
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import fill, identifier, literal, literals
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer

_REPORTED = (
    "records BIGINT, classes BIGINT, k BIGINT, singletons BIGINT, avg_class DOUBLE, max_risk DOUBLE, "
    "avg_risk DOUBLE, l BIGINT, entropy_l DOUBLE, t DOUBLE, recursive_c DOUBLE, "
    "journalist_max DOUBLE, journalist_avg DOUBLE"
)
# Marks the records of a population beside those of a table.
_OTHERS = '"duckanon.others"'


def register(on: Instance) -> None:
    """Put the functions behind k_report on a database instance."""
    register_writer(on, "_dk_write_k_report", _write)
    register_check(on, "_dk_k_report_problem", _check)
    register_engine(on, "_dk_k_report", _report, "measures", f"STRUCT({_REPORTED})")


def _write(
    tbl: object,
    qi: object,
    sensitive: object,
    population: object,
    fraction: object,
    l: object,  # noqa: E741 - the argument's name
) -> str:
    table = arguments.table(tbl)
    columns = arguments.names(qi, "qi", empty=False)
    hidden = arguments.names(sensitive, "sensitive", empty=True)
    arguments.disjoint(hidden, columns, "sensitive")
    people = arguments.optional_table(population, "population")
    share = None if fraction is None else arguments.share(fraction, "fraction", "0.1")
    if people is not None and share is not None:
        raise InvalidInput("population and fraction both say how many people there are: give one of them.")
    if share == 0:
        raise InvalidInput("fraction must be above 0: it is the share of the population that is in the table.")
    least = arguments.whole(l, "l")
    if least < 2:
        raise InvalidInput("l must be 2 or more: recursive_c leaves the l - 1 commonest values of a class out.")
    members = structs(hidden) if hidden else "system.main.list({'duckanon.none': 0})"
    # The hash tells apart what a collation takes for equal and a reader does not.
    groups = ", ".join(identifier(name) for name in columns)
    groups += f", system.main.hash({groups})"
    described = "[]::VARCHAR[]"
    counted, source = "NULL::BIGINT", f"_dk_source AS {ROW}"
    if people is not None:
        described = (
            f"(SELECT system.main.list(column_name) FROM (DESCRIBE FROM system.main.query_table({literal(people)})))"
        )
        kept = ", ".join(identifier(name) for name in columns)
        source = (
            f"(SELECT *, false AS {_OTHERS} FROM _dk_source UNION ALL BY NAME SELECT {kept}, true AS {_OTHERS} "
            f"FROM (FROM system.main.query_table({literal(people)}) UNION ALL BY NAME SELECT {absent(columns)} "
            f"WHERE false)) AS {ROW}"
        )
        members += f" FILTER (WHERE NOT {_OTHERS})"
        counted = f"system.main.count(*) FILTER (WHERE {_OTHERS})"
    return fill(
        "k_measure",
        table=literal(table),
        absent=absent([*columns, *hidden]),
        problem=(
            f"system.main._dk_k_report_problem(names, types, {literal(table)}, {literals(columns)}, "
            f"{literals(hidden)}, {described}, {literal(people or '')})"
        ),
        source=(
            f"(FROM (SELECT {members} AS members, {counted} AS people FROM {source} GROUP BY {groups}) "
            "WHERE members IS NOT NULL)"
        ),
        answer=(
            f"system.main._dk_k_report(system.main.list(members), {literals(hidden)}, system.main.list(people), "
            f"{number(None if share is None else float(share))}, {least})"
        ),
        rows="unnest(answer.measures)",
    )


def _check(
    names: list[str],
    types: list[str],
    table: str,
    qi: list[str],
    sensitive: list[str],
    people: list[str],
    population: str,
) -> None:
    found = Table(table, names, types)
    found.has([*qi, *sensitive])
    found.plain(sensitive, "sensitive column")
    if population:
        Table(population, people, [""] * len(people)).has(qi)


def _report(
    members: pa.Scalar, sensitive: pa.Scalar, people: pa.Scalar, fraction: pa.Scalar, least: pa.Scalar
) -> pa.Array:
    from duckanon.engines.kanon.risk import report

    if not members.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to report.")
    classes = members.values
    sizes = np.diff(classes.offsets.to_numpy()).astype(np.int64)
    columns = privacy_criteria.columns(classes.flatten()) if len(sensitive.as_py()) else []
    known = people.is_valid and people.values.null_count == 0
    population = people.values.to_numpy() if known else None
    return pa.array([asdict(report(sizes, columns, population, fraction.as_py(), least.as_py()))])
