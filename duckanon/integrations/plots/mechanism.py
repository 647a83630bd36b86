"""A perturbation matrix as a heat map: a result of metric_mechanism."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import floor, log10
from typing import Any

import numpy as np

from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import (
    BLACK,
    LETTER,
    WHITE,
    WIDTH,
    named,
    plain_log,
    short,
    titled,
)
from duckanon.integrations.translations import counted, exact, listed
from duckanon.integrations.translations import gettext as _

# The most secrets or outputs that are shown, that are named, and that are drawn as separate fields.
_MOST, _MOST_NAMED, _MOST_FIELDS = 200, 40, 20
# Smaller probabilities are drawn in the colour of this one.
_FLOOR = 1e-6
_CELL = 8.5


def draw(columns: ResultColumns, *, title: str | None = None) -> tuple[Any, str]:
    """One field for each secret (down) and output (across), coloured by its probability on a logarithmic scale."""
    from matplotlib.figure import Figure

    all_secrets, all_outputs = ordered(columns["secret"]), ordered(columns["output"])
    secrets, outputs = all_secrets[:_MOST], all_outputs[:_MOST]
    chances = _matrix(columns, secrets, outputs)
    many = max(len(secrets), len(outputs))
    figure = Figure(figsize=(WIDTH, min(7.2, 2.4 + 0.36 * len(secrets)) if many <= 14 else 7.6), layout="constrained")
    axes = figure.subplots()
    shade = _fill(figure, axes, chances)
    _ticks(axes, secrets, outputs)
    _write(axes, chances, shade, _room(outputs) / (_CELL * LETTER))
    axes.set_xlabel(_("given out in its place"))
    axes.set_ylabel(_("the true record"))
    said = title or _("What is given out in place of each record: {records}, {answers}").format(
        records=counted("{n} record", "{n} records", len(all_secrets)),
        answers=counted("{n} possible answer", "{n} possible answers", len(all_outputs)),
    )
    titled(figure, said, [*_notes(chances), *_cut((secrets, all_secrets), (outputs, all_outputs))])
    stays = [chances[i, outputs.index(secret)] for i, secret in enumerate(secrets) if secret in outputs]
    if not stays:
        return figure, f"{said}."
    kept = _("On average a record stays itself with a chance of {chance}.")
    return figure, f"{said}. {kept.format(chance=_percent(float(np.mean(stays))))}"


def _notes(chances: Any) -> list[str]:
    """How to read the picture."""
    notes = [
        _("Each row adds up to 100 %. The more alike two rows are, the less an answer tells the two records apart.")
    ]
    if (chances == 0).any():
        notes.append(_("White: never given out."))
    if chances[chances > 0].min() < _FLOOR:
        notes.append(_("Chances below {least} have the colour of {least}.").format(least=_percent(_FLOOR)))
    return notes


def _cut(secrets: tuple[list[Any], list[Any]], outputs: tuple[list[Any], list[Any]]) -> list[str]:
    """What the picture leaves out. secrets, outputs: those that are shown, and all."""
    notes, cut = [], []
    if len(secrets[0]) < len(secrets[1]):
        cut.append(counted("{shown} of {n} record", "{shown} of {n} records", len(secrets[1]), shown=len(secrets[0])))
    if len(outputs[0]) < len(outputs[1]):
        cut.append(counted("{shown} of {n} answer", "{shown} of {n} answers", len(outputs[1]), shown=len(outputs[0])))
    if cut:
        notes.append(_("Shown are the first {parts} in the order of their names.").format(parts=listed(cut)))
    if max(len(secrets[0]), len(outputs[0])) > _MOST_NAMED:
        notes.append(_("Not every record has its name at the sides: there are too many."))
    return notes


def _room(outputs: list[Any]) -> float:
    """About how wide a field is, in points."""
    return 72 * (WIDTH - 2.6) / len(outputs)


def _ticks(axes: Any, secrets: list[Any], outputs: list[Any]) -> None:
    """Write the names of all records at the sides, or of every so many if there is no room for all."""
    for axis, side in ((axes.yaxis, secrets), (axes.xaxis, outputs)):
        step = -(-len(side) // _MOST_NAMED)
        at = np.arange(0, len(side), step)
        axis.set_ticks(at, [short(named([side[i]]), 18) for i in at])
    many = max(len(secrets), len(outputs))
    size = 9.5 if many <= 25 else 8
    longest = max(len(short(named([output]), 18)) for output in outputs) * size * LETTER
    axes.tick_params(labelsize=size)
    axes.tick_params(axis="x", rotation=90 if longest > _room(outputs) * -(-len(outputs) // _MOST_NAMED) else 0)


def ordered(values: Iterable[Any]) -> list[Any]:
    """The distinct values in natural order: 2 before 10, `cell 2` before `cell 10`; NULL last."""

    def key(value: Any) -> tuple[Any, ...]:
        if value is None or isinstance(value, int | float):
            return (value is None, 0, value or 0, [])
        parts = re.split(r"(\d+)", str(value))
        return (False, 1, 0, [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part])

    return sorted(set(values), key=key)


def _matrix(columns: ResultColumns, secrets: list[Any], outputs: list[Any]) -> Any:
    down, across = ({value: i for i, value in enumerate(side)} for side in (secrets, outputs))
    chances = np.zeros((len(secrets), len(outputs)))
    for secret, output, chance in columns.rows(["secret", "output", "probability"]):
        if secret in down and output in across:
            chances[down[secret], across[output]] = chance
    return chances


def _fill(figure: Any, axes: Any, chances: Any) -> Callable[[float], float]:
    """Small matrices as fields, large ones as one image. Returns how bright a chance is, from 0 to 1."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    floor = max(_FLOOR, float(chances[chances > 0].min()) * 0.999)
    norm = LogNorm(floor, 1.0)
    shown = np.ma.masked_less_equal(chances, 0)
    if max(chances.shape) <= _MOST_FIELDS:
        edges = [np.arange(side + 1) - 0.5 for side in reversed(chances.shape)]
        look = {"edgecolors": "white", "linewidth": 0.8}
        drawn = axes.pcolormesh(*edges, np.ma.maximum(shown, floor), cmap="viridis", norm=norm, **look)
    else:
        drawn = axes.imshow(
            np.ma.maximum(shown, floor), cmap="viridis", norm=norm, interpolation="nearest", aspect="auto"
        )
    axes.set(xlim=(-0.5, chances.shape[1] - 0.5), ylim=(chances.shape[0] - 0.5, -0.5))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(drawn, ax=axes, pad=0.01, fraction=0.04, aspect=32)
    bar.set_label(_("chance (logarithmic)"))
    plain_log(bar.ax.yaxis)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: _percent(value)))
    bar.outline.set_visible(False)
    return lambda chance: float(norm(chance))


def _write(axes: Any, chances: Any, shade: Callable[[float], float], room: float) -> None:
    """Write each probability into its field, if fields are wide enough and it is not close to zero."""
    if room < 6:
        return
    for (row, column), chance in np.ndenumerate(chances):
        if chance >= 0.0005:
            axes.text(
                column, row, _percent(chance), ha="center", va="center", fontsize=_CELL,
                color=BLACK if shade(chance) > 0.6 else WHITE,
            )  # fmt: skip


def _percent(chance: float) -> str:
    """A chance in percent, as people write it: 25 %, 0.001 %."""
    digits = 2 - max(-20, min(2, floor(log10(100 * chance)))) if chance > 0 else 0
    text = f"{100 * chance:.{digits}f}"
    return f"{exact(text.rstrip('0').rstrip('.') if '.' in text else text)} %"
