"""Results of k_report, k_compare, k_subsets and k_utility as tables, with words on what the figures mean."""

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
    "units": "units",
    "units_alone": "units alone",
    "k_containment": "k by containment",
    "singletons_containment": "alone by containment",
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


def _meanings(
    found: Mapping[str, Any], qi: Sequence[str], sensitive: Sequence[str], unit: str | None
) -> dict[str, str]:
    columns, hidden = ", ".join(qi), ", ".join(sensitive)
    if unit is not None:
        return _meanings(found, qi, sensitive, None) | _meanings_of_units(found, unit)
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
        "l": f"The fewest different values of {hidden} in a group; 1 or 0 means that some group gives the value away.",
        "entropy_l": f"The same, counting by how evenly the values of {hidden} are spread in a group.",
        "t": f"The farthest that {hidden} in a group lies from the whole table: 0 is alike, 1 is as far as can be.",
        "recursive_c": f"In every group the commonest value of {hidden} occurs at most this many times as often as all "
        "but the l - 1 commonest together; l is 2 without --l.",
        "journalist_max": "The highest chance for somebody who does not know who is in the table.",
        "journalist_avg": "The same chance, averaged over all records.",
        "population_uniques": "Records that are alone in the population too, as far as this table lets one expect.",
        "k_map": "Every record may be one of this many people or more.",
        "k_containment": "The fewest records that agree with a record where an empty field agrees with everything.",
        "singletons_containment": "Records with which no other agrees even so.",
    }


# As `NAMES`, where units were counted.
_OF_UNITS = {"singletons": "classes of one unit"}


def _meanings_of_units(found: Mapping[str, Any], unit: str) -> dict[str, str]:
    """What counts values of the column `unit`, not records."""
    return {
        "records": f"Records in the table that have a value of {unit}.",
        "k": f"In every group there are {found['k']:,} or more values of {unit}."
        if found["k"] > 1
        else f"Some groups hold the records of one value of {unit} alone.",
        "singletons": f"Groups with one value of {unit}: who knows the values finds all its records there.",
        "units": f"Values of {unit} in the table.",
        "units_alone": f"{of_units(found['units_alone'], found['units'], unit)} are alone in a group at least, each "
        "counted once.",
        "avg_class": f"Values of {unit} in a group, on average.",
        "max_risk": f"The chance of picking the right value of {unit} by one of its records, where {unit} cannot be "
        f"seen: 1 / k. A copy that shows {unit} links its records: who knows several of them may find it.",
        "avg_risk": f"The same chance, averaged over all values of {unit}, each once in a group.",
        "journalist_avg": f"The same chance, averaged over all values of {unit}, each once in a group.",
        "population_uniques": f"Values of {unit} that are alone in the population too, as far as this table lets one "
        "expect.",
        "k_map": f"Every value of {unit} may be one of this many or more.",
    }


def of_units(some: int, all_: int, unit: str) -> str:
    """So many of all units, as in `4,980 of 12,629 values of household`."""
    return f"{some:,} of {all_:,} values of {unit}"


def explained(found: Mapping[str, Any], qi: Sequence[str], sensitive: Sequence[str], unit: str | None = None) -> Table:
    """The row of k_report as a table: figure, value, and a sentence for each. What was not asked for is NULL there.

    unit: the column whose values were counted; None: records.
    """
    names = NAMES if unit is None else NAMES | _OF_UNITS
    table = Table(box=box.ROUNDED)
    table.add_column("figure", style="bold", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for name, meaning in _meanings(found, qi, sensitive, unit).items():
        if found[name] is not None:
            table.add_row(names[name], figure(name, found[name]), Text(printable(meaning)))
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


def compared(rows: Sequence[Mapping[str, Any]], unit: str | None = None) -> Table:
    """The rows of k_compare, with the columns that decide. unit: the column whose values k counts; None: records."""
    names = _COMPARED
    if rows[0]["classification"] is not None:
        names = names | _CLASSIFIED
    # There is an l where there are conditions on sensitive columns.
    if rows[0]["l"] is not None:
        names = names | _CONDITIONED
    counts = "" if unit is None else f" k and the smallest class count values of {printable(unit)}."
    table = Table(box=box.ROUNDED, caption=_COMPARED_NOTE + counts, caption_justify="left")
    for name, title in names.items():
        table.add_column(title, justify="left" if name == "method" else "right")
    for row in rows:
        table.add_row(*(Text(figure(name, row[name])) for name in names))
    return table


# Subsets that are printed; the other formats have all.
_MOST_SUBSETS = 40


def subsets(rows: Sequence[Mapping[str, Any]], unit: str | None = None) -> Table:
    """The rows of k_subsets, those with most records alone first. unit: the column whose values were counted."""
    alone = "singletons" if unit is None else "units_alone"
    shown = sorted(rows, key=lambda row: (-row[alone], row["k"], len(row["columns"])))[:_MOST_SUBSETS]
    left = f" {len(rows) - len(shown):,} more are in --format json and csv." if len(shown) < len(rows) else ""
    of = "records" if unit is None else f"values of {printable(unit)}"
    note = f"Who knows these columns of a person finds one of k {of} or more.{left}"
    table = Table(box=box.ROUNDED, caption=note, caption_justify="left")
    table.add_column("columns")
    names = ("classes", "k", alone, "avg_risk")
    for name in names:
        table.add_column(NAMES[name], justify="right")
    for row in shown:
        cells = [figure(name, row[name]) for name in names]
        table.add_row(Text(printable(", ".join(row["columns"]))), *cells)
    return table


_MEASURES = {
    "records": "records",
    "total_variation": "moved",
    "missing": "missing",
    "mean": "mean",
    "standard_deviation": "standard deviation",
    "correlation": "correlation",
    "cramers_v": "Cramér's V",
    "query_error": "error of counts",
    "accuracy": "predicted",
    "r_squared": "predicted, R²",
}
_MOVED = {"total_variation", "missing", "query_error", "accuracy"}
_USEFUL_NOTE = (
    "Moved: the part of the records that lies elsewhere in the distribution. Error of counts: of random counts, "
    "relative to the true ones. Shares and quantiles are in --format json and csv."
)


def usefulness(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows of k_utility but for shares and quantiles."""
    table = Table(box=box.ROUNDED, caption=_USEFUL_NOTE, caption_justify="left")
    table.add_column("measure", no_wrap=True)
    table.add_column("of")
    for name in ("before", "after", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in (row for row in rows if row["measure"] in _MEASURES):
        measure, columns = row["measure"], ", ".join(row["columns"])
        of = row["value"] if measure == "query_error" else columns + (f" ({row['value']})" if row["value"] else "")
        cells = [_number(row[name], share=measure in _MOVED) for name in ("before", "after", "difference")]
        table.add_row(_MEASURES[measure], Text(printable(of)), *cells)
    return table


def _number(value: float | None, *, share: bool) -> str:
    if value is None:
        return ""
    return f"{100 * value:.3g} %" if share else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
