"""Results of k_report and k_compare as tables, with a sentence on what each figure means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from duckanon.integrations.results import figure
from duckanon.integrations.terminal.output import printable

NAMES = {
    "records": "records",
    "classes": "classes",
    "k": "k (smallest class)",
    "singletons": "records alone",
    "avg_class": "average class",
    "max_risk": "highest risk",
    "avg_risk": "average risk",
    "l": "l (diversity)",
    "entropy_l": "l by entropy",
    "t": "t (closeness)",
    "recursive_c": "c (recursive)",
    "journalist_max": "journalist's, highest",
    "journalist_avg": "journalist's, average",
    "population_uniques": "alone in population",
    "k_map": "k-map",
}
_COMPARED = {
    "method": "method",
    "k": "k",
    "classes": "classes",
    "min_class": "smallest class",
    "information_loss": "information lost",
    "lower_bound": "least possible",
    "seconds": "seconds",
}
_CLASSIFIED = {"classification": "misclassified"}
_CONDITIONED = {"joined": "classes joined", "suppressed": "records dropped"}
_COMPARED_NOTE = "0 % is untouched, 100 % is nothing left. No copy with this k can lose less than the least possible."


def _meanings(found: Mapping[str, Any], qi: Sequence[str], sensitive: Sequence[str]) -> dict[str, str]:
    columns, hidden = ", ".join(qi), ", ".join(sensitive)
    return {
        "records": "Records in the table.",
        "classes": f"Groups of records that agree on {columns}.",
        "k": f"Every record shares its values with others, in groups of {found['k']:,} or more."
        if found["k"] > 1
        else "Some records share their values with no other record.",
        "singletons": "Records that are alone with their values: who knows the values finds the record.",
        "avg_class": "Records in a group, on average.",
        "max_risk": "The chance of picking the right record for the most exposed person: 1 / k.",
        "avg_risk": "The same chance, averaged over all records: classes / records.",
        "l": f"The fewest different values of {hidden} in a group; 1 means that some group gives the value away.",
        "entropy_l": f"The same, counting by how evenly the values of {hidden} are spread in a group.",
        "t": f"The farthest that {hidden} in a group lies from the whole table: 0 is alike, 1 is as far as can be.",
        "recursive_c": f"In every group the commonest value of {hidden} occurs at most this many times as often as all "
        "but the l - 1 commonest together; l is 2 without --l.",
        "journalist_max": "The highest chance for somebody who does not know who is in the table.",
        "journalist_avg": "The same chance, averaged over all records.",
        "population_uniques": "Records that are alone in the population too, as far as this table lets one expect.",
        "k_map": "Every record may be one of this many people or more.",
    }


def explained(found: Mapping[str, Any], qi: Sequence[str], sensitive: Sequence[str]) -> Table:
    """The row of k_report as a table: figure, value, and a sentence for each. What was not asked for is NULL there."""
    table = Table(box=box.ROUNDED)
    table.add_column("figure", style="bold", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for name, meaning in _meanings(found, qi, sensitive).items():
        if found[name] is not None:
            table.add_row(NAMES[name], figure(name, found[name]), Text(printable(meaning)))
    return table


def before_and_after(before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]) -> Table:
    """Two rows of k_report side by side."""
    table = Table(box=box.ROUNDED, title="Risk of re-identification", title_justify="left", title_style="bold")
    table.add_column("figure", style="bold", no_wrap=True)
    table.add_column("before", justify="right", style="red", no_wrap=True)
    table.add_column("after", justify="right", style="green", no_wrap=True)
    for name in names:
        table.add_row(NAMES[name], figure(name, before[name]), figure(name, after[name]))
    return table


def compared(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows of k_compare, with the columns that decide."""
    names = _COMPARED
    if rows[0]["classification"] is not None:
        names = names | _CLASSIFIED
    # There is an l where there are conditions on sensitive columns.
    if rows[0]["l"] is not None:
        names = names | _CONDITIONED
    table = Table(box=box.ROUNDED, caption=_COMPARED_NOTE, caption_justify="left")
    for name, title in names.items():
        table.add_column(title, justify="left" if name == "method" else "right")
    for row in rows:
        table.add_row(*(Text(figure(name, row[name])) for name in names))
    return table
