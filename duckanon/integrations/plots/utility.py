"""A table beside its release: the distribution of each column, and the errors of counts. A result of k_utility."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import COLOURS, QUIET, WIDTH, counted, printable, short, titled

# A longer picture cannot be read: the columns that moved most are shown, and the commonest values of each.
_HIGHEST, _MOST_PARTS = 15.0, 12
# Inches of a panel's parts: a pair of bars, and what is above and below them.
_BAR, _FRAME = 0.3, 1.0
_BEFORE, _AFTER = "#a6a6a6", COLOURS[0]


@dataclass(frozen=True)
class _Panel:
    """The distribution of a column. moved: its total variation. parts: label, share before and after, in percent."""

    name: str
    moved: float
    parts: list[tuple[str, float, float]]


def draw(columns: ResultColumns, *, title: str | None = None) -> tuple[Any, str]:
    """A panel for each column, those that moved most first, and one for the errors of counts."""
    from matplotlib.figure import Figure

    panels, errors = _panels(columns), _errors(columns)
    if not panels:
        raise InvalidInput("No column was compared, so there is nothing to draw.")
    shown, heights = _fitting(sorted(panels, key=lambda item: (-item.moved, item.name)), len(errors))
    rows = len(heights)
    figure = Figure(figsize=(WIDTH, sum(heights) + 1.2), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False, height_ratios=heights).ravel()
    for axis, panel in zip(axes, shown, strict=False):
        _distribution(axis, panel)
    used = len(shown)
    if errors:
        _bars(axes[used], errors)
        used += 1
    for axis in axes[used:]:
        axis.remove()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    most = shown[0]
    said = title or f"What a release still tells of {counted(len(panels), 'column')}"
    notes = ["Moved: the part of the records that lies elsewhere in the distribution (total variation)."]
    if errors:
        notes.append("Errors of counts of records under random conditions, relative to the true counts.")
    if len(shown) < len(panels):
        notes.append(f"{counted(len(panels) - len(shown), 'column')} that moved less are not shown.")
    titled(figure, said, notes)
    says = f"{said}. Most moved is {printable(most.name)}, by {most.moved:.3g} %"
    return figure, says + (f"; half of the counts are at most {errors[0][1]:.3g} % off." if errors else ".")


def _fitting(panels: list[_Panel], errors: int) -> tuple[list[_Panel], list[float]]:
    """As many panels as the picture has room for, in rows of two, with the rows' heights in inches.

    errors: bars of a panel that comes last, if there are any.
    """
    for many in range(len(panels), 0, -1):
        bars = [len(panel.parts) for panel in panels[:many]] + [errors] * bool(errors)
        heights = [max([3, *bars[i : i + 2]]) * _BAR + _FRAME for i in range(0, len(bars), 2)]
        if sum(heights) <= _HIGHEST:
            break
    return panels[:many], heights


def _panels(found: ResultColumns) -> list[_Panel]:
    moved: dict[str, float] = {}
    parts: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for measure, columns, value, before, after, difference in found.rows(
        ["measure", "columns", "value", "before", "after", "difference"]
    ):
        name = columns[0] if columns else ""
        if measure == "total_variation":
            moved[name] = 100 * difference
        elif measure in ("share", "missing"):
            label = "(missing)" if measure == "missing" else short(printable(str(value)), 22)
            parts[name].append((label, 100 * before, 100 * after))
    return [_Panel(name, share, _commonest(parts[name])) for name, share in moved.items() if parts[name]]


def _commonest(parts: list[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """The commonest parts in their order, and all others together."""
    if len(parts) <= _MOST_PARTS:
        return parts
    order = sorted(range(len(parts)), key=lambda i: (-max(parts[i][1:]), i))
    kept, left = sorted(order[: _MOST_PARTS - 1]), order[_MOST_PARTS - 1 :]
    others = ("(others)", sum(parts[i][1] for i in left), sum(parts[i][2] for i in left))
    return [*(parts[i] for i in kept), others]


def _errors(columns: ResultColumns) -> list[tuple[str, float]]:
    """Quantiles of the errors of counts, in percent."""
    labels = {"median": "half of the counts"}
    rows = columns.rows(["measure", "value", "difference"])
    return [
        (labels.get(value, f"{value} of the counts"), 100 * error)
        for measure, value, error in rows
        if measure == "query_error"
    ]


def _distribution(axis: Any, panel: _Panel) -> None:
    places = range(len(panel.parts))
    labels, before, after = zip(*panel.parts, strict=True)
    axis.barh([place - 0.2 for place in places], before, height=0.38, color=_BEFORE, label="before")
    axis.barh([place + 0.2 for place in places], after, height=0.38, color=_AFTER, label="after")
    name = short(printable(panel.name), 18)
    _framed(axis, labels, f"{name}\n{panel.moved:.2g} % moved", "share of the records (%)")


def _bars(axis: Any, errors: list[tuple[str, float]]) -> None:
    labels, wrong = zip(*errors, strict=True)
    axis.barh(range(len(errors)), wrong, height=0.5, color=COLOURS[1])
    for place, value in enumerate(wrong):
        axis.annotate(f"{value:.2g} %", (value, place), xytext=(4, 0), textcoords="offset points", va="center")
    axis.margins(x=0.25)
    _framed(axis, labels, "Errors of counts", "off by at most (%)")


def _framed(axis: Any, labels: tuple[str, ...], title: str, unit: str) -> None:
    """Name the bars, and put the first of them on top."""
    from matplotlib.ticker import MaxNLocator

    axis.set_yticks(range(len(labels)), labels)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(left=0)
    # The same ticks with every version of matplotlib, which would count how many have room.
    axis.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    axis.set_title(title, loc="left", fontweight="bold")
    axis.set_xlabel(unit, color=QUIET)
