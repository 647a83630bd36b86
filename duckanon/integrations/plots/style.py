"""How pictures look: colours that everybody can tell apart, marks that need no colour, names and numbers that fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

# Inches; at 100 dots an inch a picture is 800 pixels wide.
WIDTH = 8.0
# Okabe and Ito 2008, without the yellow that is lost on white and the black that is for bounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
DASHES = ("-", "--", "-.", ":")
INK, QUIET, FAINT, ALARM = "#1a1a1a", "#595959", "#d9d9d9", "#9c2f00"
# In units of a font's size: how wide a letter is, on the generous side, for browsers with another font.
LETTER = 0.62

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    # A name such as $a$ is a name. Text stays text, so that it can be searched and read aloud.
    "text.parse_math": False,
    "svg.fonttype": "none",
    # The same picture is the same file.
    "svg.hashsalt": "duckanon",
}


def named(values: Iterable[object]) -> str:
    """A combination of values as one name."""
    return " · ".join("NULL" if value is None else printable(str(value)) for value in values)


def printable(text: str) -> str:
    """The text with its control characters written out: XML has none, and none must break a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def short(text: str, most: int = 26) -> str:
    """The text without its middle if it is long: names often differ at their ends."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end].rstrip()}…{text[-end:].lstrip()}"


def number(value: float) -> str:
    """A number as short as it can be read."""
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    if abs(value) >= 100_000:
        return f"{value / 1000:.0f}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def counted(many: int, one: str, more: str = "") -> str:
    """`1 row`, `2 rows`."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"


def sentence_of(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def titled(figure: Any, title: str, notes: Sequence[str] = ()) -> None:
    """Put the title above and the notes below, both from the left edge, in as many lines as they need."""
    figure.suptitle(
        textwrap.fill(title, 74), x=0.012, ha="left", fontsize=12, fontweight="bold", linespacing=1.25, color=INK
    )
    if notes:
        text = "\n".join(textwrap.fill(note, 112) for note in notes)
        figure.supxlabel(text, x=0.012, ha="left", fontsize=9, linespacing=1.35, color=QUIET)


def plain_log(axis: Any, ticks: Sequence[float] | None = None) -> None:
    """Numbers on a logarithmic axis, in place of powers of ten; at these ticks if there are any."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def apart(values: Sequence[float], least: float = 1.25) -> list[float]:
    """Of ascending values those that stand apart on a logarithmic axis: each at least so many times the one before."""
    kept: list[float] = []
    for value in values:
        if not kept or value >= kept[-1] * least:
            kept.append(value)
    return kept
