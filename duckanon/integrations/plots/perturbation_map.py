"""A perturbation matrix on a map: the outputs of a few secrets, with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import cos, floor, log10, radians
from typing import Any

import numpy as np

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.mechanism import ordered
from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import ALARM, INK, LETTER, QUIET, WIDTH, counted, named, printable, short, titled

_MOST_PANELS = 4
# The most places that may all have names, and how many have where there is no room for all.
_MOST_NAMED, _FEW = 40, 5
_FLOOR = 1e-3
_LINE = 0.01
_KM_PER_DEGREE = 111.195


@dataclass(frozen=True)
class _Map:
    """Where records are: x to the right, y up. unit: of distances; empty if unknown. earth: x and y are degrees."""

    at: Mapping[Any, tuple[float, float]]
    x: str
    y: str
    unit: str
    earth: bool
    metric: str

    def distances(self, secret: Any, outputs: Sequence[Any]) -> Any:
        from duckanon.engines.metric.distances import METRICS

        points = np.array([self.at[output] for output in (secret, *outputs)], dtype=np.float64)
        points = points[:, ::-1] if self.earth else points
        return METRICS[self.metric].between(points[:1], points[1:])[0]


def draw(
    columns: ResultColumns,
    *,
    places: ResultColumns | None = None,
    id: str | None = None,  # noqa: A002 - the argument's name in metric_mechanism
    features: Sequence[str] = (),
    metric: str = "euclidean",
    unit: str = "",
    secrets: Sequence[Any] | None = None,
    title: str | None = None,
) -> tuple[Any, str]:
    """A map for each of a few secrets, with a circle at each output and lines to the likely ones.

    places: the table of records, id and features: as metric_mechanism was given. unit: of euclidean distances.
    secrets: up to four of them; unless given, the one in the middle and others far from it.
    """
    from matplotlib.figure import Figure

    where = _places(places, id, features, metric, unit)
    chances = _chances(columns, where)
    chosen = _spread(where, chances) if secrets is None else _asked(secrets, chances)
    across = min(2, len(chosen))
    down = -(-len(chosen) // across)
    frame = _frame(where, across)
    figure = Figure(figsize=(WIDTH, 1.3 + (frame.height + 0.6) * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    panels[0].set(xlim=frame.x, ylim=frame.y)
    for axes in panels[len(chosen) :]:
        axes.set_visible(False)
    for axes, secret, labels in zip(panels, chosen, _labels(where, frame, chosen, chances), strict=False):
        _panel(axes, where, frame, secret, chances[secret], labels)
    for axes in panels[: len(chosen)]:
        axes.label_outer()
    _key(figure)
    said = title or f"Where {len(chosen)} of {counted(len(chances), 'record')} may be moved to"
    notes = [
        f"Ring: the true place. Circles: places that may be given out instead, larger and darker where that is "
        f"likelier; grey dots: less than {100 * _FLOOR:g} %. Lines go to places of {100 * _LINE:g} % and more."
    ]
    titled(figure, said, notes)
    return figure, f"{said}: {', '.join(printable(named([one])) for one in chosen)}."


def _places(places: ResultColumns | None, id_: str | None, features: Sequence[str], metric: str, unit: str) -> _Map:
    from duckanon.engines.metric.distances import METRICS

    if places is None or id_ is None or len(features) != 2:
        raise InvalidInput("A map needs the table of records in places, its column id, and two features.")
    if metric not in METRICS:
        raise InvalidInput(f"metric must be one of {', '.join(METRICS)}.")
    missing = [name for name in (id_, *features) if name not in places]
    if missing:
        raise InvalidInput(f"The table of places has no column {missing[0]}.")
    earth = metric == "haversine"
    first, second = features
    x, y = (second, first) if earth else (first, second)
    at = {}
    for name, right, up in places.rows([id_, x, y]):
        if not all(isinstance(value, int | float | Decimal) and np.isfinite(float(value)) for value in (right, up)):
            raise InvalidInput("A feature of the table of places is no finite number.")
        at[name] = float(right), float(up)
    return _Map(at, x, y, "km" if earth else unit, earth, metric)


def _chances(columns: ResultColumns, where: _Map) -> dict[Any, dict[Any, float]]:
    """The probabilities of each secret's outputs; what is withheld has no place."""
    chances: dict[Any, dict[Any, float]] = {}
    for secret, output, chance in columns.rows(["secret", "output", "probability"]):
        if secret not in where.at or (output is not None and output not in where.at):
            raise InvalidInput("The mechanism has records that the table of places does not have.")
        outputs = chances.setdefault(secret, {})
        if output is not None:
            outputs[output] = chance
    return chances


def _asked(secrets: Sequence[Any], chances: Mapping[Any, Any]) -> list[Any]:
    by_name = {named([chance]): chance for chance in chances}
    found = [secret if secret in chances else by_name.get(str(secret)) for secret in secrets]
    if None in found or not 0 < len(found) <= _MOST_PANELS:
        raise InvalidInput(f"secrets must name one to {_MOST_PANELS} of the mechanism's secrets.")
    return found


def _spread(where: _Map, chances: Mapping[Any, Any]) -> list[Any]:
    """The secret nearest to the middle, then those farthest from the ones chosen before."""
    names = ordered(chances)
    points = np.array([where.at[name] for name in names])
    points = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-12)
    # Rounded, so that of places equally far the first is chosen on every machine.
    chosen = [int(np.argmin((points**2).sum(axis=1).round(9)))]
    while len(chosen) < min(_MOST_PANELS, len(names)):
        near = ((points[:, None] - points[chosen]) ** 2).sum(axis=2).min(axis=1).round(9)
        near[chosen] = -1
        chosen.append(int(np.argmax(near)))
    return [names[i] for i in chosen]


def _stretch(where: _Map) -> float:
    """How long a unit of y is beside one of x."""
    if not where.earth:
        return 1.0
    middle = float(np.mean([y for _, y in where.at.values()]))
    return 1 / max(0.05, cos(radians(middle)))


@dataclass(frozen=True)
class _Frame:
    """What part of the map the panels show, and their size in inches: the map fills them."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float


def _frame(where: _Map, across: int) -> _Frame:
    """All places with a margin, and more beside or above them where a panel would be too narrow or too high."""
    sides = [(min(side), max(side)) for side in zip(*where.at.values(), strict=True)]
    stretch = _stretch(where)
    wide, tall = (1.4 * (high - low) for low, high in sides)
    wide = wide or tall * stretch or 1.0
    tall = tall or wide / stretch
    width = (WIDTH - 1.9) / across
    height = float(np.clip(width * tall * stretch / wide, 0.5 * width, 1.15 * width))
    wide, tall = max(wide, tall * stretch * width / height), max(tall, wide / stretch * height / width)
    (x, y), spans = (sum(side) / 2 for side in sides), (wide / 2, tall / 2)
    return _Frame((x - spans[0], x + spans[0]), (y - spans[1], y + spans[1]), width, height)


def _panel(
    axes: Any, where: _Map, frame: _Frame, secret: Any, outputs: Mapping[Any, float], labels: Sequence[_Label]
) -> None:
    from matplotlib.colors import LogNorm

    x, y = where.at[secret]
    all_x, all_y = zip(*where.at.values(), strict=True)
    axes.scatter(all_x, all_y, s=3 if len(all_x) > 200 else 8, color="#b0b0b0", linewidths=0, zorder=1)
    likely = sorted(
        (output for output in outputs if outputs[output] >= _FLOOR), key=lambda item: -round(outputs[item], 6)
    )
    for one in likely:
        if outputs[one] >= _LINE and one != secret:
            axes.plot(
                *zip((x, y), where.at[one], strict=True),
                color=QUIET,
                linewidth=0.5 + 5 * outputs[one],
                alpha=0.6,
                zorder=2,
            )
    chance = [outputs[value] for value in likely]
    spots = list(zip(*(where.at[value] for value in likely), strict=True)) if likely else [(), ()]
    axes.scatter(
        *spots, s=[_area(number) for number in chance], c=chance, cmap=_colours(), norm=LogNorm(_FLOOR, 1.0),
        edgecolors="white", linewidths=0.6, zorder=3,
    )  # fmt: skip
    axes.scatter([x], [y], s=260, facecolors="none", edgecolors=ALARM, linewidths=1.8, zorder=4)
    axes.set_aspect(_stretch(where), adjustable="box")
    names = list(outputs)
    mean = float(np.dot(where.distances(secret, names), [outputs[name] for name in names])) if names else 0.0
    far = f", {mean:.3g} {where.unit} away on average" if where.unit else f", {mean:.3g} away on average"
    stays = outputs.get(secret, 0.0)
    axes.set_title(f"{short(named([secret]), 32)}\nstays {100 * stays:.3g} %{far}", fontsize=9.5, loc="left")
    unit = " (degrees)" if where.earth else f" ({where.unit})" if where.unit else ""
    axes.set_xlabel(short(printable(where.x)) + unit)
    axes.set_ylabel(short(printable(where.y)) + unit)
    _write(axes, frame, labels)
    if where.earth:
        _scale_bar(axes, frame)


def _area(chance: float) -> float:
    return 10 + 420 * chance


@dataclass(frozen=True)
class _Label:
    """A name beside a place. box: left, lower, right and upper edge in points, from the panel's lower left corner."""

    text: str
    box: tuple[float, float, float, float]

    def meets(self, other: tuple[float, float, float, float]) -> bool:
        left, low, right, high = self.box
        return left < other[2] and other[0] < right and low < other[3] and other[1] < high


def _labels(where: _Map, frame: _Frame, chosen: Sequence[Any], chances: Mapping[Any, Any]) -> list[list[_Label]]:
    """The names for each panel: of all places where all fit in every panel, else of the secret and likely outputs."""
    if len(where.at) <= _MOST_NAMED:
        whole = [_placed(where, frame, value, chances[value], list(where.at)) for value in chosen]
        if all(len(labels) == len(where.at) for labels in whole):
            return whole
    few = []
    for secret in chosen:
        outputs = chances[secret]
        likely = sorted(
            (output for output in outputs if outputs[output] >= _LINE), key=lambda one: -round(outputs[one], 6)
        )
        few.append(
            _placed(where, frame, secret, outputs, [secret, *(value for value in likely if value != secret)][:_FEW])
        )
    return few


def _placed(
    where: _Map, frame: _Frame, secret: Any, outputs: Mapping[Any, float], names: Sequence[Any]
) -> list[_Label]:
    """Labels beside places, in the order of `names`, that meet no other label and no circle; others are left out."""
    width, height = 72 * frame.width, 72 * frame.height
    centres = {
        value: (
            (x - frame.x[0]) / (frame.x[1] - frame.x[0]) * width,
            (y - frame.y[0]) / (frame.y[1] - frame.y[0]) * height,
        )
        for value, (x, y) in where.at.items()
    }
    # A circle's area in square points is also the square of its diameter, as matplotlib measures it.
    radii = {
        centre: _area(outputs.get(centre, 0.0)) ** 0.5 / 2 if outputs.get(centre, 0.0) >= _FLOOR else 1.5
        for centre in centres
    }
    radii[secret] = max(radii[secret], 9.0)
    circles = {
        value: (x - radii[value], y - radii[value], x + radii[value], y + radii[value])
        for value, (x, y) in centres.items()
    }
    labels: list[_Label] = []
    for name in names:
        text = short(named([name]), 16)
        wide, high = len(text) * 8 * LETTER, 9.0
        (x, y), away = centres[name], radii[name] + 2
        corners = (
            (x + away, y - high / 2),
            (x - away - wide, y - high / 2),
            (x - wide / 2, y + away),
            (x - wide / 2, y - away - high),
        )
        for left, low in corners:
            label = _Label(text, (left, low, left + wide, low + high))
            inside = left >= 0 and low >= 0 and left + wide <= width and low + high <= height
            others = [*(circle for place, circle in circles.items() if place != name), *(each.box for each in labels)]
            if inside and not any(map(label.meets, others)):
                labels.append(label)
                break
    return labels


def _write(axes: Any, frame: _Frame, labels: Sequence[_Label]) -> None:
    from matplotlib.patheffects import withStroke

    for label in labels:
        left, low, _, high = label.box
        at = left / (72 * frame.width), (low + high) / 2 / (72 * frame.height)
        axes.text(
            *at, label.text, transform=axes.transAxes, fontsize=8, color=INK, va="center", zorder=5,
            path_effects=[withStroke(linewidth=2, foreground="#ffffff")],
        )  # fmt: skip


def _scale_bar(axes: Any, frame: _Frame) -> None:
    """A scale bar of a round number of kilometres, measured at the map's middle."""
    (left, right), (low, high) = frame.x, frame.y
    per_degree = _KM_PER_DEGREE * max(0.05, cos(radians((low + high) / 2)))
    room = (right - left) * per_degree * 0.3
    size = 10.0 ** floor(log10(room))
    length = next(size * step for step in (5, 2, 1) if size * step <= room)
    start, height = left + 0.04 * (right - left), low + 0.05 * (high - low)
    axes.plot([start, start + length / per_degree], [height, height], color=INK, linewidth=2.5, solid_capstyle="butt")
    axes.annotate(f"{length:g} km", (start, height), xytext=(0, 4), textcoords="offset points", fontsize=8.5, color=INK)


def _colours() -> Any:
    """The colours of viridis from green to blue; its yellow is hard to see on white."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis_r"](np.linspace(0.22, 1, 128)))


def _key(figure: Any) -> None:
    """The legend: the circles of a few probabilities."""
    from matplotlib.colors import LogNorm
    from matplotlib.lines import Line2D

    norm = LogNorm(_FLOOR, 1.0)
    marks = [
        Line2D(
            [], [], linestyle="none", marker="o", markersize=_area(chance) ** 0.5, markeredgecolor="white",
            markerfacecolor=_colours()(float(norm(chance))), label=f"{100 * chance:g} %",
        )
        for chance in (0.001, 0.01, 0.1, 0.5)
    ]  # fmt: skip
    figure.legend(handles=marks, loc="outside right upper", title="chance", labelspacing=1.1, title_fontsize=9.5)
