"""Bounds of a table's counts as a heat map: a result of cell_bounds, conditional_bounds or table_bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import (
    ALARM,
    INK,
    LETTER,
    QUIET,
    WIDTH,
    counted,
    named,
    number,
    plain_log,
    sentence_of,
    short,
    titled,
)

_MOST_ROWS, _MOST_COLUMNS = 40, 30
_LONGEST_ROW = 36
_CELL = 8.5


@dataclass(frozen=True)
class _Cell:
    """Bounds of a count, and the count itself: whole numbers of any size. count: None where unknown or hidden."""

    lower: int
    upper: int
    count: int | None

    @property
    def disclosed(self) -> bool:
        """Whether the count follows exactly."""
        return self.lower == self.upper

    @property
    def width(self) -> int:
        return self.upper - self.lower

    @property
    def zero(self) -> bool:
        """Whether the count is zero, which published shares always show."""
        return self.upper == 0


@dataclass(frozen=True)
class _Grid:
    """The cells by row and column; a row without records has none."""

    rows: list[str]
    columns: list[str]
    cells: dict[tuple[int, int], _Cell]

    def limited(self) -> _Grid:
        """The rows and columns that matter most: with counts that follow exactly, then with the narrowest bounds."""
        rows, columns = self._kept(0, len(self.rows), _MOST_ROWS), self._kept(1, len(self.columns), _MOST_COLUMNS)
        place = {row: i for i, row in enumerate(rows)}, {column: i for i, column in enumerate(columns)}
        return _Grid(
            [self.rows[i] for i in rows],
            [self.columns[i] for i in columns],
            {
                (place[0][row], place[1][column]): cell
                for (row, column), cell in self.cells.items()
                if row in place[0] and column in place[1]
            },
        )

    def _kept(self, side: int, many: int, most: int) -> list[int]:
        if many <= most:
            return list(range(many))
        disclosed, narrow = [0] * many, [float("inf")] * many
        for at, cell in self.cells.items():
            if not cell.zero:
                disclosed[at[side]] += cell.disclosed
                narrow[at[side]] = min(narrow[at[side]], cell.width)
        return sorted(sorted(range(many), key=lambda i: (-disclosed[i], narrow[i], i))[:most])


def draw(
    found: ResultColumns, *, cols: Sequence[str] | None = None, counts: bool = True, title: str | None = None
) -> tuple[Any, str]:
    """One field a cell, coloured by the width of its bounds. Counts that follow exactly are hatched and framed.

    cols: the columns that go across; unless given, the last one before the figures. counts: show the true counts, where
    the result has them.
    """
    from matplotlib.figure import Figure

    rows, across = _dimensions(found, cols)
    whole = _grid(found, rows, across, counts)
    grid = whole.limited()
    height = 2.1 + 0.34 * len(grid.rows) + (0.9 if _tilted(grid) else 0.0)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    _fill(figure, axes, grid)
    axes.set_xlabel(named(across), fontweight="bold")
    axes.set_ylabel(named(rows), fontweight="bold")
    open_, zeros = _tally(whole)
    all_ = len(whole.cells)
    said = (
        title
        or f"{open_:,} of {counted(all_ - zeros, 'count')} above zero "
        f"{'follows' if open_ == 1 else 'follow'} exactly from the {_source(found)}"
    )
    notes = [
        "In each field: "
        + ("the count, and " if _counted(grid) else "")
        + "the least and the most that it can be (records)."
    ]
    if zeros:
        why = "A share of zero is always visible" if _source(found) == "shares" else "Zeros that follow have no mark"
        notes.append(f"{why}: {counted(zeros, 'count')} of zero.")
    cut = [
        f"{shown} of {counted(many, what)}"
        for shown, many, what in (
            (len(grid.rows), len(whole.rows), "row"),
            (len(grid.columns), len(whole.columns), "column"),
        )
        if shown < many
    ]
    if cut:
        notes.append(
            f"Shown are {sentence_of(cut)}: those with counts that follow exactly, then with the narrowest bounds."
        )
    titled(figure, said, notes)
    down, right = counted(len(whole.rows), "row"), counted(len(whole.columns), "column")
    return figure, f"{said}. {down} by {named(rows)}, {right} by {named(across)}."


def _dimensions(found: ResultColumns, cols: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The columns that go down, and those that go across."""
    names = found.names()
    before = names[: names.index("lower")]
    dimensions = before[:-1] if before and before[-1] == "n" else before
    across = dimensions[-1:] if cols is None else list(cols)
    missing = [name for name in across if name not in dimensions]
    if missing:
        raise InvalidInput(f"The result has no column {sentence_of(missing)} to go across.")
    rows = [name for name in dimensions if name not in across]
    if not rows or not across:
        raise InvalidInput("The picture needs columns that go down and others that go across.")
    return rows, across


def _source(found: ResultColumns) -> str:
    """What was published: only table_bounds says whether its bounds are exact."""
    return "tables" if "exact" in found else "shares"


def _grid(found: ResultColumns, rows: Sequence[str], across: Sequence[str], counts: bool) -> _Grid:
    down: dict[tuple[Any, ...], int] = {}
    right: dict[tuple[Any, ...], int] = {}
    true = found["n"] if counts and "n" in found else [None] * len(found)
    figures = zip(found["lower"], found["upper"], true, strict=True)
    cells = {}
    for row, column, (lower, upper, n) in zip(found.rows(rows), found.rows(across), figures, strict=True):
        at = down.setdefault(row, len(down)), right.setdefault(column, len(right))
        cells[at] = _Cell(lower, upper, n)
    return _Grid([named(one) for one in down], [named(one) for one in right], cells)


def _tally(grid: _Grid) -> tuple[int, int]:
    """How many counts above zero follow exactly, and how many are zero."""
    zeros = sum(cell.zero for cell in grid.cells.values())
    return sum(cell.disclosed and not cell.zero for cell in grid.cells.values()), zeros


def _counted(grid: _Grid) -> bool:
    return any(cell.count is not None for cell in grid.cells.values())


def _room(grid: _Grid) -> float:
    """About how many letters fit into a field."""
    names = min(_LONGEST_ROW, max(map(len, grid.rows), default=0)) * 9.5 * LETTER
    return (72 * WIDTH - names - 120) / max(1, len(grid.columns)) / (_CELL * LETTER)


def _tilted(grid: _Grid) -> bool:
    return max(len(short(name)) for name in grid.columns) * 9.5 * LETTER > _room(grid) * _CELL * LETTER


def _fill(figure: Any, axes: Any, grid: _Grid) -> None:
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patches import Patch, Rectangle

    widths = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for at, cell in grid.cells.items():
        if not cell.disclosed:
            widths[at] = float(cell.width)
    known = widths[np.isfinite(widths)]
    least, most = (float(known.min()), float(known.max())) if known.size else (1.0, 2.0)
    norm = LogNorm(least, most) if most > 30 * least else Normalize(min(least, most - 1), most)
    drawn = axes.pcolormesh(np.ma.masked_invalid(widths), cmap="cividis", norm=norm, edgecolors="white", linewidth=1)
    # The same distance from the sides of a field as from its top.
    inset = min(0.08, 0.35 / _room(grid))
    for (row, column), cell in grid.cells.items():
        if cell.disclosed and not cell.zero:
            box: dict[str, Any] = {"facecolor": "white", "edgecolor": ALARM, "hatch": "////", "linewidth": 1.6}
            axes.add_patch(Rectangle((column + inset, row + 0.06), 1 - 2 * inset, 0.88, **box))
        dark = not cell.disclosed and float(norm(float(cell.width))) < 0.55
        _write(axes, row, column, cell, _room(grid), "white" if dark else INK)
    if known.size:
        bar = figure.colorbar(drawn, ax=axes, pad=0.01, fraction=0.04, aspect=28)
        bar.set_label("width of the bounds (records)")
        if most > 30 * least:
            plain_log(bar.ax.yaxis)
        else:
            bar.ax.yaxis.get_major_locator().set_params(integer=True)
        bar.outline.set_visible(False)
    axes.set_yticks(np.arange(len(grid.rows)) + 0.5, [short(name, _LONGEST_ROW) for name in grid.rows])
    tilt = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"} if _tilted(grid) else {}
    axes.set_xticks(np.arange(len(grid.columns)) + 0.5, [short(name) for name in grid.columns], **tilt)
    axes.set(xlim=(0, len(grid.columns)), ylim=(len(grid.rows), 0))
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    mark = Patch(facecolor="white", edgecolor=ALARM, hatch="////", linewidth=1.6, label="follows exactly: disclosed")
    axes.legend(handles=[mark], loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0.2, handleheight=1.2)


def _write(axes: Any, row: int, column: int, cell: _Cell, room: float, colour: str) -> None:
    """Write as much about a cell as fits into its field: count and bounds, the bounds, one number, or nothing."""
    bounds = number(cell.lower) if cell.disclosed else f"{number(cell.lower)}–{number(cell.upper)}"
    texts = [bounds] if cell.count is None else [f"{number(cell.count)}  ({bounds})", number(cell.count)]
    if cell.disclosed:
        texts = [bounds]
    text = next((one for one in texts if len(one) <= room - 0.3), "")
    if not text:
        return
    look: dict[str, Any] = {"color": QUIET if cell.zero else colour}
    if cell.disclosed and not cell.zero:
        look |= {"fontweight": "bold", "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.2}}
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=_CELL, **look)
