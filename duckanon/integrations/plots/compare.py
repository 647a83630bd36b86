"""Loss and risk against k: a result of k_compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import isclose
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import (
    COLOURS,
    DASHES,
    FAINT,
    INK,
    MARKS,
    QUIET,
    WIDTH,
    apart,
    counted,
    plain_log,
    printable,
    readable,
    short,
    titled,
)

Line = list[tuple[int, float]]

_BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "borderaxespad": 0.8}
# How wide a line is that stands for a single k, in points.
_WIDE = 300


def draw(columns: ResultColumns, *, title: str | None = None) -> tuple[Any, str]:
    """Above, the loss of each method and the least possible; below, the highest and the average risk.

    Methods with the same loss and risk share a line. Where losses are far apart, their axis is logarithmic.
    """
    from matplotlib.figure import Figure

    loss, risk, bound = _lines(columns)
    order = sorted(loss, key=lambda name: (-loss[name][-1][1], name))
    ks = sorted({k for line in loss.values() for k, _ in line})
    drawn = _together(order, loss, risk)
    figure = Figure(figsize=(WIDTH, 6.8 + 0.22 * max(0, len(drawn) - 10)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.9, 1])
    logarithmic = _axes(above, below, ks, [value for line in loss.values() for _, value in line])
    if bound:
        above.fill_between(*zip(*bound, strict=True), color=FAINT, alpha=0.6, linewidth=0)
        above.plot(*zip(*bound, strict=True), color=INK, linewidth=1.8, label="least possible", zorder=3)
        if len(bound) == 1:
            above.plot(*bound[0], "_", color=INK, markersize=_WIDE, markeredgewidth=2)
    for i, names in enumerate(drawn):
        style = {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKS[i % len(MARKS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
            "markersize": 6,
            # Lines that lie on each other stay visible: those below are wider.
            "linewidth": 1.3 + 2 * (len(drawn) - 1 - i) / max(1, len(drawn) - 1),
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
        }
        label = ",\n".join(short(printable(name), 20) for name in names)
        # Of one k, the methods stand beside each other.
        aside = (i - (len(drawn) - 1) / 2) * 1.6 / len(drawn) if len(ks) == 1 else 0
        for axes, line in ((above, loss[names[0]]), (below, risk[names[0]])):
            axes.plot([k + aside for k, _ in line], [value for _, value in line], label=label, **style)
    (highest,) = below.plot(ks, [100 / k for k in ks], color=INK, linewidth=1.8, label="highest: 1 / k")
    (average,) = below.plot([], [], color=QUIET, linewidth=1.6, marker="o", markersize=5, label="average, by method")
    if len(ks) == 1:
        below.plot(ks, [100 / ks[0]], "_", color=INK, markersize=_WIDE, markeredgewidth=2)
    _legends(above, bool(bound))
    below.legend(handles=[highest, average], **_BESIDE)
    below.set_ylim(0, 108 / ks[0])
    if not logarithmic:
        above.set_ylim(bottom=0)
    records = round(columns["classes"][0] * columns["avg_class"][0])
    span = f"at k = {ks[0]:,}" if len(ks) == 1 else f"by k from {ks[0]:,} to {ks[-1]:,}"
    said = title or f"Loss and risk of k-anonymous copies of {counted(records, 'record')}, {span}"
    notes = ["Loss: 0 % is untouched, 100 % is nothing left. Risk: the chance of picking the right record of a person."]
    if bound:
        notes.append("No copy can lose less than the least possible (grey).")
    if logarithmic:
        notes.append(
            "The axis of the loss is logarithmic: equal distances are equal ratios, and it does not begin at 0."
        )
    titled(figure, said, notes)
    best, (last, lost) = order[-1], loss[order[-1]][-1]
    least = f"at k = {last:,} {printable(best)} loses least, {lost:.3g} %"
    return figure, f"{said}. {counted(len(order), 'method')}; {least}."


def _together(order: Sequence[str], loss: dict[str, Line], risk: dict[str, Line]) -> list[list[str]]:
    """The methods in groups that have the same line in both panels, to a hundredth part."""

    def same(line: Line, other: Line) -> bool:
        pairs = zip(line, other, strict=False)
        return len(line) == len(other) and all(
            k == at and isclose(value, beside, rel_tol=0.01, abs_tol=1e-9) for (k, value), (at, beside) in pairs
        )

    found: list[list[str]] = []
    for name in order:
        beside = (texts for texts in found if same(loss[texts[0]], loss[name]) and same(risk[texts[0]], risk[name]))
        group = next(beside, None)
        if group is None:
            found.append([name])
        else:
            group.append(name)
    return found


def _legends(above: Any, has_bound: bool) -> None:
    """The legend of the methods, in the lines' colours and in their order; the bound last."""
    handles, names = above.get_legend_handles_labels()
    if has_bound:
        handles, names = [*handles[1:], handles[0]], [*names[1:], names[0]]
    above.legend(handles, names, labelcolor=[readable(handle.get_color()) for handle in handles], **_BESIDE)


def _lines(columns: ResultColumns) -> tuple[dict[str, Line], dict[str, Line], Line]:
    """By method, the loss (percent) and the average risk at each k; and the highest lower bound (percent)."""
    loss: dict[str, Line] = defaultdict(list)
    risk: dict[str, Line] = defaultdict(list)
    bound: dict[int, float] = {}
    rows = columns.rows(["k", "method", "information_loss", "avg_class", "lower_bound"])
    for k, method, lost, size, least in sorted(rows, key=lambda row: (row[0], str(row[1]))):
        if lost is not None and size:
            loss[str(method)].append((k, 100 * lost))
            risk[str(method)].append((k, 100 / size))
        if least is not None:
            bound[k] = max(bound.get(k, 0.0), 100 * least)
    if not loss:
        raise InvalidInput("No method gave a result, so there is nothing to draw.")
    return loss, risk, sorted(bound.items())


def _axes(above: Any, below: Any, ks: list[int], losses: Sequence[float]) -> bool:
    """Set up the axes. Returns whether that of the loss is logarithmic."""
    along = "k, the least number of records that look alike"
    if len(ks) > 1 and ks[-1] >= 8 * ks[0]:
        below.set_xscale("log")
        plain_log(below.xaxis, apart(ks))
        along += " (logarithmic)"
    else:
        below.set_xticks(ks if len(ks) <= 16 else ks[:: -(-len(ks) // 16)])
        if len(ks) == 1:
            below.set_xlim(ks[0] - 1, ks[0] + 1)
    least, most = min(losses), max(losses)
    logarithmic = 0 < 8 * least < most
    if logarithmic:
        above.set_yscale("log")
        steps = [step * 10.0**power for power in range(-3, 3) for step in (1, 2, 5)]
        plain_log(above.yaxis, [number for number in steps if least / 2.5 <= number <= 1.5 * most])
    above.set_ylabel("information lost (%" + (", logarithmic)" if logarithmic else ")"))
    below.set_ylabel("risk (%)")
    below.set_xlabel(along)
    return logarithmic
