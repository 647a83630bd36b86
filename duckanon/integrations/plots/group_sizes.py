"""Released group sizes with their intervals, level by level: a result of dp_group_sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import (
    ALARM,
    COLOURS,
    INK,
    WIDTH,
    apart,
    named,
    number,
    readable,
    short,
    titled,
)
from duckanon.integrations.translations import counted, listed
from duckanon.integrations.translations import gettext as _
from duckanon.integrations.translations import number as whole_number

_FIGURES = ("level", "size", "groups", "low", "high")
_ACROSS = 3
# The most regions of a level, and the most levels, that get panels.
_MOST_PANELS = 6
_MOST_LEVELS = 6
# Up to so many sizes, bars stand apart.
_FEW = 40


@dataclass(frozen=True)
class _Region:
    """The release of one region, by ascending size. truth: the true numbers of groups, if they are to be shown."""

    level: int
    key: tuple[Any, ...]
    name: str
    sizes: list[int]
    groups: list[int]
    low: list[int]
    high: list[int]
    truth: list[int] | None

    @property
    def total(self) -> int:
        return sum(self.groups)


def draw(
    columns: ResultColumns,
    *,
    truth: ResultColumns | None = None,
    epsilon: str | float | None = None,
    title: str | None = None,
) -> tuple[Any, str]:
    """A row of panels for each level, a panel for each region, with the 95 % intervals as whiskers.

    truth: a result of group_sizes, to be drawn over it. epsilon: what the release cost, for the title.
    """
    from matplotlib.figure import Figure

    levels = _levels(columns, truth)
    chosen = {level: _largest(regions) for level, regions in list(levels.items())[:_MOST_LEVELS]}
    lines = [-(-len(regions) // _ACROSS) for regions in chosen.values()]
    figure = Figure(figsize=(WIDTH, 1.5 + 2.15 * sum(lines)), layout="constrained")
    parts = figure.subfigures(len(lines), 1, squeeze=False, height_ratios=lines)[:, 0]
    for part, (level, regions) in zip(parts, chosen.items(), strict=True):
        _level(part, level, regions)
    said = title or _title(sum(map(len, levels.values())), len(levels), epsilon)
    if truth is not None:
        said += _(" — with the true counts: not for release")
    titled(figure, said, _notes(levels, chosen, is_true=truth is not None))
    most = whole_number(next(iter(levels.values()))[0].sizes[-1])
    return figure, f"{said}. {_('Sizes up to {most}.').format(most=most)}"


def _title(regions: int, levels: int, epsilon: str | float | None) -> str:
    said = _("Released group sizes of {regions} on {levels}").format(
        regions=counted("{n} region", "{n} regions", regions), levels=counted("{n} level", "{n} levels", levels)
    )
    return said if epsilon is None else said + _(", epsilon {epsilon}").format(epsilon=epsilon)


def _notes(
    levels: Mapping[int, Sequence[_Region]], chosen: Mapping[int, Sequence[_Region]], *, is_true: bool
) -> list[str]:
    """The sentences below the picture. chosen: the regions that have panels."""
    notes = [
        _("Bar: released groups of each size. Whisker: the interval that holds the true number in 95 of 100 cases.")
    ]
    steep = [level for level, regions in chosen.items() if _steep(regions)]
    if steep:
        text = _("The groups of level {levels} have a logarithmic axis.")
        notes.append(text.format(levels=listed([str(one) for one in steep])))
    if is_true:
        notes.append(_("Crosses: the true numbers."))
    for level, regions in chosen.items():
        if len(regions) < len(levels[level]):
            text = _("Level {level}: the {shown} of {all} regions with the most groups.")
            notes.append(text.format(level=level, shown=len(regions), all=whole_number(len(levels[level]))))
    if len(chosen) < len(levels):
        text = _("The first {shown} of {all} levels are shown.")
        notes.append(text.format(shown=len(chosen), all=len(levels)))
    return notes


def _levels(columns: ResultColumns, truth: ResultColumns | None) -> dict[int, list[_Region]]:
    hierarchy = [name for name in columns.names() if name not in _FIGURES]
    rows: dict[tuple[int, tuple[Any, ...]], list[tuple[int, int, int, int]]] = defaultdict(list)
    figures = columns.rows(["size", "groups", "low", "high"])
    for level, region, row in zip(columns["level"], columns.rows(hierarchy), figures, strict=True):
        rows[level, region].append((row[0], row[1], row[2], row[3]))
    most = max(columns["size"])
    true = None if truth is None else _true(truth, hierarchy, most)
    levels: dict[int, list[_Region]] = defaultdict(list)
    for (level, region), one in sorted(rows.items(), key=lambda item: item[0][0]):
        sizes, groups, low, high = (list(column) for column in zip(*sorted(one), strict=True))
        own = None if true is None else [true.get((level, region, size), 0) for size in sizes]
        levels[level].append(_Region(level, region, "", sizes, groups, low, high, own))
    return {level: _named(level, regions) for level, regions in levels.items()}


def _named(level: int, regions: list[_Region]) -> list[_Region]:
    """The regions with names. Where two would have the same name, the names of the regions above are added."""
    if not level:
        return [replace(region, name=_("all regions")) for region in regions]
    own = [named(region.key[level - 1 : level]) for region in regions]
    whole = own if len(set(own)) == len(own) else [named(region.key[:level]) for region in regions]
    return [replace(region, name=name) for region, name in zip(regions, whole, strict=True)]


def _true(truth: ResultColumns, hierarchy: list[str], most: int) -> dict[tuple[int, tuple[Any, ...], int], int]:
    """The true numbers of groups. Sizes above the largest of the release are counted as the largest, as there."""
    missing = [name for name in ("level", *hierarchy, "size", "groups") if name not in truth]
    if missing:
        raise InvalidInput(f"truth has no column {missing[0]}: give what group_sizes gave for the same hierarchy.")
    found: dict[tuple[int, tuple[Any, ...], int], int] = defaultdict(int)
    for level, region, size, groups in zip(
        truth["level"], truth.rows(hierarchy), truth["size"], truth["groups"], strict=True
    ):
        found[level, region, min(size, most)] += groups
    return found


def _largest(regions: list[_Region]) -> list[_Region]:
    """All regions; if there are too many, those with the most groups."""
    if len(regions) <= _MOST_PANELS:
        return regions
    return sorted(regions, key=lambda region: (-region.total, region.name))[:_MOST_PANELS]


def _level(part: Any, level: int, regions: list[_Region]) -> None:
    """Draw the panels of a level, all with the same scale."""
    across = 1 if len(regions) == 1 else _ACROSS
    grid = part.subplots(-(-len(regions) // across), across, sharey=True, squeeze=False)
    panels = grid.ravel()
    steep = _steep(regions)
    for axes, region in zip(panels, regions, strict=False):
        _panel(axes, region, steep)
    for axes in panels[len(regions) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(_("groups"))
    panels[0].annotate(
        _("Level {level}").format(level=level), (0, 1), xytext=(-42, 18), xycoords="axes fraction",
        textcoords="offset points", fontsize=10.5, fontweight="bold", annotation_clip=False,
    )  # fmt: skip


def _steep(regions: Sequence[_Region]) -> bool:
    """Whether the numbers of groups are so far apart that their axis is logarithmic."""
    values = [value for region in regions for value in (*region.groups, *region.high, *(region.truth or ()))]
    return bool(max(values) > 50 * max(1, sorted(values)[len(values) // 2]))


def _panel(axes: Any, region: _Region, steep: bool) -> None:
    """Bars with whiskers: a size is a whole number, and nothing lies between two of them."""
    colour = COLOURS[region.level % len(COLOURS)]
    few = len(region.sizes) <= _FEW
    whiskers = region.sizes, region.low, region.high
    if few:
        axes.bar(region.sizes, region.groups, width=0.78, color=colour, alpha=0.55, linewidth=0)
        axes.vlines(*whiskers, color=readable(colour), linewidth=1.3, zorder=3)
        for ends in (region.low, region.high):
            axes.scatter(region.sizes, ends, s=22, marker="_", color=readable(colour), linewidths=1.3, zorder=3)
    else:
        axes.vlines(*whiskers, color=colour, alpha=0.35, linewidth=0.8)
        axes.bar(region.sizes, region.groups, width=1.0, color=readable(colour), linewidth=0, zorder=2)
    if region.truth is not None:
        axes.plot(
            region.sizes, region.truth, linestyle="none", marker="x", color=INK, markersize=5, markeredgewidth=1.2,
            zorder=4,
        )  # fmt: skip
    axes.set_title(
        short(region.name, 24) + f" ({number(region.total)})", fontsize=9.5, color=ALARM if region.truth else INK
    )
    axes.set_xlabel(_("size of the group"))
    axes.grid(visible=False, axis="x")
    _scales(axes, region.sizes, steep)


def _scales(axes: Any, sizes: list[int], steep: bool) -> None:
    """Set logarithmic axes where values differ by much. The last size includes larger ones, so it is marked with +."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    last = sizes[-1]
    if len(sizes) > 60:
        axes.set_xscale("symlog" if sizes[0] == 0 else "log")
        axes.set_xlabel(_("size of the group (logarithmic)"))
        marks = [
            one
            for one in (
                0,
                1,
                2,
                5,
                10,
                20,
                50,
                100,
                200,
                500,
                1000,
                2000,
                5000,
                10_000,
                20_000,
                50_000,
                100_000,
                1_000_000,
            )
            if sizes[0] <= one < last / 2.2
        ]
        ticks = [float(mark) for mark in marks if mark == 0] + apart([float(mark) for mark in marks if mark], 4)
        ticks = [*ticks, float(last)]
    else:
        step = -(-len(sizes) // 8)
        ticks = [float(size) for size in sizes[::step] if last - size >= step or size == last]
        ticks = ticks if ticks[-1] == last else [*ticks, float(last)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _place: number(at) + ("+" if at == last else "")))
    if steep:
        axes.set_yscale("symlog", linthresh=1, linscale=0.5)
        top = axes.get_ylim()[1]
        decades = [0.0, *(10.0**i for i in range(19) if 10.0**i <= top)]
        axes.yaxis.set_major_locator(FixedLocator(decades if len(decades) <= 6 else [0, *decades[1::2]]))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _place: number(at)))
