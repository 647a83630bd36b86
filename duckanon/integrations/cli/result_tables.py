"""Results as rich tables that fit the terminal. Names and values are never read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duckanon.integrations.results import Result, text
from duckanon.integrations.terminal.output import printable

ROWS_SHOWN = 40
# The greatest width of a column where not all columns fit.
_WIDEST = 40
_BORDER = 3


def cell(value: object) -> Text:
    """A value as a cell; NULL dim."""
    return Text("NULL", style="dim italic") if value is None else Text(printable(text(value)), overflow="fold")


def _header(name: str) -> Text:
    return Text(printable(name), style="bold", overflow="fold")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _widths(result: Result) -> list[int]:
    """The width that each column needs."""
    columns = zip(result.columns, *result.rows, strict=True)
    return [
        min(_WIDEST, max([cell_len(printable(name)), *(cell_len(printable(text(value))) for value in values)]))
        for name, *values in columns
    ]


def _fitting(widths: Sequence[int], room: int) -> list[int]:
    """The positions of columns that fit into `room`: all, or the first and last ones; at least one."""
    if sum(widths) + _BORDER * len(widths) < room:
        return list(range(len(widths)))
    room -= 1 + _BORDER
    kept: list[int] = []
    first, last = 0, len(widths) - 1
    while first <= last:
        at = first if len(kept) % 2 == 0 else last
        room -= widths[at] + _BORDER
        if kept and room <= 0:
            break
        kept.append(at)
        first, last = (first + 1, last) if at == first else (first, last - 1)
    return sorted(kept)


def _grid(result: Result, kept: Sequence[int]) -> Table:
    table = Table(box=box.ROUNDED, header_style="")
    gap = next((place for place, at in enumerate(kept) if at != place), len(kept))
    elided = len(kept) < len(result.columns)
    for place, at in enumerate(kept):
        if elided and place == gap:
            table.add_column("…", style="dim")
        first = next((row[at] for row in result.rows if row[at] is not None), None)
        table.add_column(_header(result.columns[at]), justify="right" if _is_number(first) else "left")
    if elided and gap == len(kept):
        table.add_column("…", style="dim")
    for row in result.rows:
        cells = [cell(row[at]) for at in kept]
        table.add_row(*([*cells[:gap], Text("…"), *cells[gap:]] if elided else cells))
    return table


def _upright(result: Result) -> Table:
    """A result of one row, with a line for each column."""
    table = Table(box=box.ROUNDED, show_header=False)
    for name, value in zip(result.columns, result.rows[0], strict=True):
        table.add_row(_header(name), cell(value))
    return table


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def rendered(result: Result, room: int) -> RenderableType:
    """The result as a table of at most `room` columns of text, and a line that says how much of it is shown."""
    kept = _fitting(_widths(result), room)
    if len(kept) < len(result.columns) and len(result.rows) == result.total == 1:
        return _upright(result)
    said = _counted(result.total, "row")
    if len(result.rows) < result.total:
        said += f", {len(result.rows)} shown"
    if len(kept) < len(result.columns):
        said += f"; {len(result.columns)} columns, {len(kept)} shown"
    return Group(_grid(result, kept), Text(said, style="dim"))
