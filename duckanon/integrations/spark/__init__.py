"""duckanon's functions on Spark DataFrames: the names and arguments of SQL, and the same engines.

Spark counts, sorts and splits; what it has aggregated is answered on the driver, by the same code as in DuckDB. Errors
are those of duckanon.errors, one sentence each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from duckanon.integrations.spark import driver
from duckanon.integrations.spark.arguments import signature
from duckanon.integrations.spark.call import Call
from duckanon.integrations.spark.families import FUNCTIONS
from duckanon.integrations.spark.table_functions import register
from duckanon.specification import functions

__all__ = [
    "cell_bounds",
    "disclosure_report",
    "dp_group_sizes",
    "group_sizes",
    "k_anonymize",
    "k_report",
    "metric_perturb",
    "register",
    "table_designs",
]


def _function(name: str) -> Callable[..., DataFrame]:
    """The function of that name, with the specification's arguments and summary."""

    def on_spark(*arguments: Any, **named: Any) -> DataFrame:
        with driver.connection() as con:
            call = Call.read(con, name, arguments, named)
            return FUNCTIONS[name].answer(call, FUNCTIONS[name].check(call))

    on_spark.__name__ = on_spark.__qualname__ = name
    on_spark.__doc__ = functions()[name].summary
    on_spark.__signature__ = signature(name)  # type: ignore[attr-defined] # what inspect and help() show
    return on_spark


cell_bounds = _function("cell_bounds")
disclosure_report = _function("disclosure_report")
dp_group_sizes = _function("dp_group_sizes")
group_sizes = _function("group_sizes")
k_anonymize = _function("k_anonymize")
k_report = _function("k_report")
metric_perturb = _function("metric_perturb")
table_designs = _function("table_designs")
