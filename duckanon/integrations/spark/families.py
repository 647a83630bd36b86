"""Every function on Spark: what reads and checks a call, and what answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from duckanon.integrations.spark import anonymize, cells, groups, perturb, report
from duckanon.integrations.spark.call import Call


@dataclass(frozen=True)
class Function:
    """A function on Spark.

    check: the call's request; raises InvalidInput before a row is read. answer: the answer to a request. in_sql:
    whether it is a table function of Spark's SQL, too: its answer is the same at every call, whichever task runs it.
    """

    check: Callable[[Call], Any]
    answer: Callable[[Call, Any], DataFrame]
    in_sql: bool = True


FUNCTIONS: Mapping[str, Function] = {
    "cell_bounds": Function(cells.check_cell_bounds, cells.cell_bounds),
    "disclosure_report": Function(cells.check_disclosure_report, cells.disclosure_report),
    "dp_group_sizes": Function(groups.check_dp_group_sizes, groups.dp_group_sizes, in_sql=False),
    "group_sizes": Function(groups.check_group_sizes, groups.group_sizes),
    "k_anonymize": Function(anonymize.check_k_anonymize, anonymize.k_anonymize),
    "k_report": Function(report.check_k_report, report.k_report),
    "metric_perturb": Function(perturb.check_metric_perturb, perturb.metric_perturb, in_sql=False),
    "table_designs": Function(cells.check_table_designs, cells.table_designs),
}
