"""Loss and risk against k: a result of k_compare."""

from __future__ import annotations

from collections import defaultdict
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
    short,
    titled,
)

Line = list[tuple[int, float]]


def draw(found: ResultColumns, *, title: str | None = None) -> tuple[Any, str]:
    """Above, the loss of each method and the least possible; below, the highest and the average risk."""
    from matplotlib.figure import Figure

    loss, risk, bound = _lines(found)
    order = sorted(loss, key=lambda name: (-loss[name][-1][1], name))
    ks = sorted({k for line in loss.values() for k, _ in line})
    figure = Figure(figsize=(WIDTH, 6.4 + 0.22 * max(0, len(order) - 10)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.7, 1])
    if bound:
        above.fill_between(*zip(*bound, strict=True), color=FAINT, alpha=0.6, linewidth=0)
        above.plot(*zip(*bound, strict=True), color=INK, linewidth=1.8, label="least possible", zorder=3)
        if len(bound) == 1:
            above.plot(*bound[0], "_", color=INK, markersize=60, markeredgewidth=2)
    for i, name in enumerate(order):
        style = {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKS[i % len(MARKS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
            "markersize": 6,
            "linewidth": 1.6,
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
        }
        above.plot(*zip(*loss[name], strict=True), label=short(printable(name), 20), **style)
        below.plot(*zip(*risk[name], strict=True), **style)
    below.plot(ks, [100 / k for k in ks], color=INK, linewidth=1.8, label="highest: 1 / k")
    below.plot([], [], color=QUIET, linewidth=1.6, marker="o", markersize=5, label="average, by method")
    if len(ks) == 1:
        below.plot(ks, [100 / ks[0]], "_", color=INK, markersize=60, markeredgewidth=2)
    _axes(above, below, ks)
    # Methods in the order of their lines; the bound last, because it is the lowest line.
    handles, names = above.get_legend_handles_labels()
    if bound:
        handles, names = [*handles[1:], handles[0]], [*names[1:], names[0]]
    above.legend(handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), borderaxespad=0.8)
    below.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), borderaxespad=0.8)
    records = round(found["classes"][0] * found["avg_class"][0])
    span = f"at k = {ks[0]:,}" if len(ks) == 1 else f"by k from {ks[0]:,} to {ks[-1]:,}"
    said = title or f"Loss and risk of k-anonymous copies of {counted(records, 'record')}, {span}"
    notes = ["Loss: 0 % is untouched, 100 % is nothing left. Risk: the chance of picking the right record of a person."]
    if bound:
        notes.append("No copy can lose less than the least possible (grey).")
    titled(figure, said, notes)
    best, (last, lost) = order[-1], loss[order[-1]][-1]
    least = f"at k = {last:,} {printable(best)} loses least, {lost:.3g} %"
    return figure, f"{said}. {counted(len(order), 'method')}; {least}."


def _lines(found: ResultColumns) -> tuple[dict[str, Line], dict[str, Line], Line]:
    """By method, the loss (percent) and the average risk at each k; and the highest lower bound (percent)."""
    loss: dict[str, Line] = defaultdict(list)
    risk: dict[str, Line] = defaultdict(list)
    bound: dict[int, float] = {}
    rows = found.rows(["k", "method", "information_loss", "avg_class", "lower_bound"])
    for k, method, lost, size, least in sorted(rows, key=lambda row: (row[0], str(row[1]))):
        if lost is not None and size:
            loss[str(method)].append((k, 100 * lost))
            risk[str(method)].append((k, 100 / size))
        if least is not None:
            bound[k] = max(bound.get(k, 0.0), 100 * least)
    if not loss:
        raise InvalidInput("No method gave a result, so there is nothing to draw.")
    return loss, risk, sorted(bound.items())


def _axes(above: Any, below: Any, ks: list[int]) -> None:
    if len(ks) > 1 and ks[-1] >= 8 * ks[0]:
        below.set_xscale("log")
        plain_log(below.xaxis, apart(ks))
    else:
        below.set_xticks(ks if len(ks) <= 16 else ks[:: -(-len(ks) // 16)])
        if len(ks) == 1:
            below.set_xlim(ks[0] - 1, ks[0] + 1)
    above.set_ylim(bottom=0)
    below.set_ylim(bottom=0)
    above.set_ylabel("information lost (%)")
    below.set_ylabel("risk (%)")
    below.set_xlabel("k, the least number of records that look alike")
