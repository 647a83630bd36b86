"""A perturbation matrix as a heat map: a result of metric_mechanism."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import INK, LETTER, WIDTH, counted, named, plain_log, sentence_of, short, titled

# The most secrets or outputs that are shown, that are named, and that are drawn as separate fields.
_MOST, _MOST_NAMED, _MOST_FIELDS = 200, 45, 20
# Smaller probabilities are drawn in the colour of this one.
_FLOOR = 1e-6
_CELL = 8.5


def draw(found: ResultColumns, *, title: str | None = None) -> tuple[Any, str]:
    """One field for each secret (down) and output (across), coloured by its probability on a logarithmic scale."""
    from matplotlib.figure import Figure

    all_secrets, all_outputs = ordered(found["secret"]), ordered(found["output"])
    secrets, outputs = all_secrets[:_MOST], all_outputs[:_MOST]
    chances = _matrix(found, secrets, outputs)
    many = max(len(secrets), len(outputs))
    figure = Figure(figsize=(WIDTH, min(7.2, 2.4 + 0.36 * len(secrets)) if many <= 14 else 7.4), layout="constrained")
    axes = figure.subplots()
    _fill(figure, axes, chances)
    names_down, names_across = ([short(named([one]), 18) for one in side] for side in (secrets, outputs))
    if many <= _MOST_NAMED:
        size = 9.5 if many <= 25 else 7.5
        room = 72 * (WIDTH - 2.6) / len(outputs)
        tilted = max(map(len, names_across)) * size * LETTER > room
        axes.set_yticks(np.arange(len(secrets)), names_down, fontsize=size)
        axes.set_xticks(np.arange(len(outputs)), names_across, fontsize=size, rotation=90 if tilted else 0)
        _write(axes, chances, room / (_CELL * LETTER))
    axes.set_xlabel("output, what is given out" + (" (record's number)" if many > _MOST_NAMED else ""))
    axes.set_ylabel("secret, the true record" + (" (record's number)" if many > _MOST_NAMED else ""))
    said = title or f"Perturbation matrix: {counted(len(all_secrets), 'secret')}, {counted(len(all_outputs), 'output')}"
    notes = ["Each row adds up to 100 %. Two rows that are alike cannot be told apart by what is given out."]
    if chances[chances > 0].min() < _FLOOR:
        notes.append(f"Probabilities below {_percent(_FLOOR)} are coloured like it.")
    cut = [
        f"{len(shown)} of {counted(len(whole), what)}"
        for shown, whole, what in ((secrets, all_secrets, "secret"), (outputs, all_outputs, "output"))
        if len(shown) < len(whole)
    ]
    if cut:
        notes.append(f"Shown are the first {sentence_of(cut)} in the order of their names.")
    titled(figure, said, notes)
    stays = [chances[i, outputs.index(one)] for i, one in enumerate(secrets) if one in outputs]
    kept = f" On average a secret stays itself with {_percent(float(np.mean(stays)))}." if stays else ""
    return figure, f"{said}.{kept}"


def ordered(values: Iterable[Any]) -> list[Any]:
    """The distinct values in natural order: 2 before 10, `cell 2` before `cell 10`; NULL last."""

    def key(value: Any) -> tuple[Any, ...]:
        if value is None or isinstance(value, int | float):
            return (value is None, 0, value or 0, [])
        parts = re.split(r"(\d+)", str(value))
        return (False, 1, 0, [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part])

    return sorted(set(values), key=key)


def _matrix(found: ResultColumns, secrets: list[Any], outputs: list[Any]) -> Any:
    down, across = ({value: i for i, value in enumerate(side)} for side in (secrets, outputs))
    chances = np.zeros((len(secrets), len(outputs)))
    for secret, output, chance in found.rows(["secret", "output", "probability"]):
        if secret in down and output in across:
            chances[down[secret], across[output]] = chance
    return chances


def _fill(figure: Any, axes: Any, chances: Any) -> None:
    """Small matrices as fields, large ones as one image."""
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
    bar.set_label("probability (%, logarithmic)")
    plain_log(bar.ax.yaxis)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _percent(value)))
    bar.outline.set_visible(False)


def _write(axes: Any, chances: Any, room: float) -> None:
    """Write each probability into its field, if fields are wide enough and it is not close to zero."""
    if room < 6:
        return
    for (row, column), chance in np.ndenumerate(chances):
        if chance >= 0.0005:
            axes.text(
                column, row, _percent(chance), ha="center", va="center", fontsize=_CELL,
                color=INK if chance > 0.08 else "white",
            )  # fmt: skip


def _percent(chance: float) -> str:
    return f"{100 * chance:.3g} %" if chance >= 1e-4 else f"{100 * chance:.0e} %".replace("e-0", "e-")
