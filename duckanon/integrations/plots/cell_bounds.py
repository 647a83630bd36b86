"""Bounds of a table's counts as a heat map: a result of cell_bounds, conditional_bounds or table_bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.result_columns import ResultColumns
from duckanon.integrations.plots.style import (
    ALARM,
    BLACK,
    FAINT,
    LETTER,
    QUIET,
    WHITE,
    WIDTH,
    named,
    number,
    plain_log,
    sentence_of,
    short,
    titled,
)
from duckanon.integrations.translations import counted, listed, ngettext
from duckanon.integrations.translations import gettext as _
from duckanon.integrations.translations import number as whole_number

# Marks of cells, by what follows about their counts.
SMALL, EXACT, OPEN, ZERO = "small", "exact", "open", "zero"
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    SMALL: {"facecolor": ALARM, "edgecolor": ALARM},
    EXACT: {"facecolor": WHITE, "edgecolor": ALARM, "hatch": "////"},
    OPEN: {"facecolor": "#31446b", "edgecolor": "#31446b"},
    ZERO: {"facecolor": FAINT, "edgecolor": FAINT},
}
# From so many counts that follow exactly, if they are that share of all above zero, the picture is a summary.
_WALL, _MOST_EXACT = 40, 0.6
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

    def kind(self, small: int) -> str:
        """Which mark the cell has. small: counts from 1 to small - 1 are small."""
        if self.zero:
            return ZERO
        if not self.disclosed:
            return OPEN
        return SMALL if self.upper < small else EXACT

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
    columns: ResultColumns,
    *,
    cols: Sequence[str] | None = None,
    counts: bool = True,
    small: int = 5,
    title: str | None = None,
) -> tuple[Any, str]:
    """One field a cell; the narrower its bounds, the brighter. Counts that follow exactly have marks.

    Where almost all counts follow, bars say how many in each row, because a wall of marks says nothing. cols: the
    columns that go across; unless given, the last one before the figures. counts: show the true counts, where the
    result has them. small: counts from 1 to small - 1 are small, and have a mark of their own.
    """
    from matplotlib.figure import Figure

    rows, across = _dimensions(columns, cols)
    whole = _grid(columns, rows, across, counts)
    grid = whole.limited()
    tally = Counter(cell.kind(small) for cell in whole.cells.values())
    wall = tally[EXACT] + tally[SMALL] >= max(_WALL, _MOST_EXACT * (len(whole.cells) - tally[ZERO]))
    height = 2.3 + (0.26 if wall else 0.34) * len(grid.rows) + (0.9 if not wall and _tilted(grid) else 0.0)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    if wall:
        _summarise(axes, grid, small)
        axes.set_xlabel(_("cells: combinations with {columns}").format(columns=named(across)))
    else:
        _fill(figure, axes, grid, small)
        axes.set_xlabel(named(across), fontweight="bold")
    _label_rows(axes, named(rows))
    exact, above = tally[EXACT] + tally[SMALL], len(whole.cells) - tally[ZERO]
    said = title or _title(exact, above, _from_tables(columns))
    titled(figure, said, _notes(whole, grid, tally, _from_tables(columns), wall=wall, small=small))
    sides = _("{rows} by {down}, {columns} by {right}.").format(
        rows=counted("{n} row", "{n} rows", len(whole.rows)),
        columns=counted("{n} column", "{n} columns", len(whole.columns)),
        down=named(rows),
        right=named(across),
    )
    if not tally[SMALL]:
        return figure, f"{said}. {sides}"
    few = counted("{n} small count among them.", "{n} small counts among them.", tally[SMALL])
    return figure, f"{said}. {few} {sides}"


def _title(exact: int, above: int, from_tables: bool) -> str:
    """How many counts above zero follow."""
    text = (
        ngettext(
            "{exact} of {counts} above zero follows exactly from the tables",
            "{exact} of {counts} above zero follow exactly from the tables",
            exact,
        )
        if from_tables
        else ngettext(
            "{exact} of {counts} above zero follows exactly from the shares",
            "{exact} of {counts} above zero follow exactly from the shares",
            exact,
        )
    )
    return text.format(exact=whole_number(exact), counts=counted("{n} count", "{n} counts", above))


def _notes(
    whole: _Grid, grid: _Grid, tally: Mapping[str, int], from_tables: bool, *, wall: bool, small: int
) -> list[str]:
    """The sentences below the picture."""
    notes = []
    if wall:
        notes.append(_("So many counts follow that the fields would all be marked: the bars say how many in each row."))
    elif _counted(grid):
        notes.append(
            _("In each field: the count, and the least and the most that it can be (records). Bright: narrow bounds.")
        )
    else:
        notes.append(_("In each field: the least and the most that it can be (records). Bright: narrow bounds."))
    if tally[SMALL]:
        text = _("Small: 1 to {most} records, which may be people that somebody knows.")
        notes.append(text.format(most=small - 1))
    if tally[ZERO]:
        notes.append(
            counted(
                "Zeros that follow have no mark: {n} count of zero.",
                "Zeros that follow have no mark: {n} counts of zero.",
                tally[ZERO],
            )
            if from_tables
            else counted(
                "A share of zero is always visible: {n} count of zero.",
                "A share of zero is always visible: {n} counts of zero.",
                tally[ZERO],
            )
        )
    cut = _cut(whole, grid)
    if cut:
        text = _("Shown are {parts}: those with counts that follow exactly, then with the narrowest bounds.")
        notes.append(text.format(parts=listed(cut)))
    return notes


def _cut(whole: _Grid, grid: _Grid) -> list[str]:
    """How many of the rows and columns are shown, where some are left out."""
    cut = []
    if len(grid.rows) < len(whole.rows):
        cut.append(counted("{shown} of {n} row", "{shown} of {n} rows", len(whole.rows), shown=len(grid.rows)))
    if len(grid.columns) < len(whole.columns):
        shown = len(grid.columns)
        cut.append(counted("{shown} of {n} column", "{shown} of {n} columns", len(whole.columns), shown=shown))
    return cut


def _dimensions(columns: ResultColumns, cols: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The columns that go down, and those that go across."""
    names = columns.names()
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


def _from_tables(columns: ResultColumns) -> bool:
    """Whether tables were published, not shares: only table_bounds says whether its bounds are exact."""
    return "exact" in columns


def _grid(columns: ResultColumns, rows: Sequence[str], across: Sequence[str], counts: bool) -> _Grid:
    down: dict[tuple[Any, ...], int] = {}
    right: dict[tuple[Any, ...], int] = {}
    true = columns["n"] if counts and "n" in columns else [None] * len(columns)
    figures = zip(columns["lower"], columns["upper"], true, strict=True)
    cells = {}
    for row, column, (lower, upper, n) in zip(columns.rows(rows), columns.rows(across), figures, strict=True):
        at = down.setdefault(row, len(down)), right.setdefault(column, len(right))
        cells[at] = _Cell(lower, upper, n)
    return _Grid([named(one) for one in down], [named(one) for one in right], cells)


def _counted(grid: _Grid) -> bool:
    return any(cell.count is not None for cell in grid.cells.values())


def _room(grid: _Grid) -> float:
    """About how many letters fit into a field."""
    names = min(_LONGEST_ROW, max(map(len, grid.rows), default=0)) * 9.5 * LETTER
    return (72 * WIDTH - names - 120) / max(1, len(grid.columns)) / (_CELL * LETTER)


def _tilted(grid: _Grid) -> bool:
    return max(len(short(name)) for name in grid.columns) * 9.5 * LETTER > _room(grid) * _CELL * LETTER


def _label_rows(axes: Any, text: str) -> None:
    """Write what the rows are above their names, where long names cannot push it out of the picture."""
    axes.set_title(" ")  # room for it
    label = axes.annotate(
        short(text, 60),
        (0.012, 1),
        xytext=(0, 5),
        xycoords=(axes.figure.transFigure, axes.transAxes),
        textcoords="offset points",
        fontweight="bold",
        va="bottom",
        annotation_clip=False,
    )
    label.set_in_layout(False)


def _rows_named(axes: Any, grid: _Grid) -> None:
    axes.set_yticks(np.arange(len(grid.rows)) + 0.5, [short(name, _LONGEST_ROW) for name in grid.rows])
    axes.set_ylim(len(grid.rows), 0)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _summarise(axes: Any, grid: _Grid, small: int) -> None:
    """Bars: how many counts of each kind every row has."""
    kinds = [
        Counter(cell.kind(small) for at, cell in grid.cells.items() if at[0] == row) for row in range(len(grid.rows))
    ]
    left = np.zeros(len(grid.rows))
    present = [kind for kind in _LOOKS if any(one[kind] for one in kinds)]
    for kind in present:
        many = np.array([one[kind] for one in kinds])
        axes.barh(np.arange(len(many)) + 0.5, many, left=left, height=0.74, linewidth=1, **_LOOKS[kind])
        for row, (start, length) in enumerate(zip(left, many, strict=True)):
            if length:
                box = {"facecolor": WHITE, "edgecolor": "none", "pad": 0.8} if kind == EXACT else None
                axes.text(
                    start + length / 2, row + 0.5, whole_number(length), ha="center", va="center", fontsize=_CELL,
                    bbox=box, color=WHITE if kind in (SMALL, OPEN) else BLACK,
                )  # fmt: skip
        left += many
    _rows_named(axes, grid)
    axes.set_xlim(0, max(1.0, float(left.max())))
    axes.grid(visible=False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(axes, present, small)


def _fill(figure: Any, axes: Any, grid: _Grid, small: int) -> None:
    """The heat map."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patches import Rectangle

    widths = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for at, cell in grid.cells.items():
        if not cell.disclosed:
            widths[at] = float(cell.width)
    known = widths[np.isfinite(widths)]
    least, most = (float(known.min()), float(known.max())) if known.size else (1.0, 2.0)
    norm = LogNorm(least, most) if most > 30 * least else Normalize(min(least, most - 1), most)
    shades = _shades()
    drawn = axes.pcolormesh(np.ma.masked_invalid(widths), cmap=shades, norm=norm, edgecolors="white", linewidth=1)
    # The same distance from the sides of a field as from its top.
    inset = min(0.08, 0.35 / _room(grid))
    kinds = {at: cell.kind(small) for at, cell in grid.cells.items()}
    for (row, column), cell in grid.cells.items():
        kind = kinds[row, column]
        if kind in (EXACT, SMALL):
            place = (column + inset, row + 0.06), 1 - 2 * inset, 0.88
            axes.add_patch(Rectangle(*place, linewidth=1.6, **_LOOKS[kind]))
        is_dark = kind == SMALL or (kind == OPEN and float(norm(float(cell.width))) > 0.45)
        _write(axes, row, column, cell, _room(grid), kind, WHITE if is_dark else BLACK)
    if known.size:
        bar = figure.colorbar(drawn, ax=axes, pad=0.01, fraction=0.04, aspect=28)
        is_logarithmic = most > 30 * least
        bar.set_label(
            _("width of the bounds (records), logarithmic") if is_logarithmic else _("width of the bounds (records)")
        )
        if is_logarithmic:
            plain_log(bar.ax.yaxis)
        else:
            bar.ax.yaxis.get_major_locator().set_params(integer=True)
        bar.ax.invert_yaxis()
        bar.outline.set_visible(False)
    _rows_named(axes, grid)
    tilt = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"} if _tilted(grid) else {}
    axes.set_xticks(np.arange(len(grid.columns)) + 0.5, [short(name) for name in grid.columns], **tilt)
    axes.set_xlim(0, len(grid.columns))
    axes.grid(visible=False)
    _legend(axes, [kind for kind in (SMALL, EXACT) if kind in kinds.values()], small)


def _shades() -> Any:
    """From bright yellow for the narrowest bounds to dark blue for the widest."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["cividis_r"](np.linspace(0, 0.86, 256)))


def _legend(axes: Any, kinds: Sequence[str], small: int) -> None:
    from matplotlib.patches import Patch

    words = {
        SMALL: _("follows exactly, and small (1 to {most})").format(most=small - 1),
        EXACT: _("follows exactly"),
        OPEN: _("stays open"),
        ZERO: _("zero"),
    }
    marks = [Patch(linewidth=1.6, label=words[kind], **_LOOKS[kind]) for kind in kinds]
    if marks:
        axes.legend(
            handles=marks,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderpad=0.2,
            handleheight=1.2,
            ncols=len(marks),
        )


def _write(axes: Any, row: int, column: int, cell: _Cell, room: float, kind: str, colour: str) -> None:
    """Write as much about a cell as fits into its field: count and bounds, the bounds, one number, or nothing."""
    bounds = number(cell.lower) if cell.disclosed else f"{number(cell.lower)}–{number(cell.upper)}"
    texts = [bounds] if cell.count is None else [f"{number(cell.count)}  ({bounds})", number(cell.count)]
    if cell.disclosed:
        texts = [bounds]
    text = next((text for text in texts if len(text) <= room - 0.3), "")
    if not text:
        return
    look: dict[str, Any] = {"color": QUIET if kind == ZERO else colour}
    if kind in (EXACT, SMALL):
        look["fontweight"] = "bold"
    if kind == EXACT:
        look["bbox"] = {"facecolor": WHITE, "edgecolor": "none", "pad": 1.2}
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=_CELL, **look)
