"""The style of pictures: colours for colour-blind readers too, marks that differ without colour, short labels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from duckanon.integrations import translations

# Inches; at 100 dots an inch a picture is 800 pixels wide.
WIDTH = 8.0
# Okabe and Ito 2008, without yellow, which is hard to see on white, and black, which is used for bounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
DASHES = ("-", "--", "-.", ":")
INK, QUIET, FAINT, ALARM = "#1a1a1a", "#595959", "#d9d9d9", "#9c2f00"
# White and black inside fields, which stay when a dark page changes the other colours (report/page.css).
WHITE, BLACK = "#fffffe", "#000000"
# The width of a letter in units of the font's size, rather too large, since browsers may use another font.
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
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "figure.dpi": 100,
    # Letters are a little wider at other sizes, and in browsers.
    "figure.constrained_layout.w_pad": 0.1,
    "figure.facecolor": "white",
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    # A name such as $a$ is no formula. SVG keeps text as text, so that it can be searched and read aloud.
    "text.parse_math": False,
    "svg.fonttype": "none",
    # The same picture gives the same bytes.
    "svg.hashsalt": "duckanon",
}


def named(values: Iterable[object]) -> str:
    """The name of a combination of values."""
    return " · ".join("NULL" if value is None else printable(str(value)) for value in values)


def printable(text: str) -> str:
    """The text with control characters escaped: XML does not allow them, and they would break lines."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def short(text: str, most: int = 26) -> str:
    """The text, shortened in the middle if it is long, because names often differ at their ends."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end].rstrip()}…{text[-end:].lstrip()}"


def number(value: float) -> str:
    """A number in few characters, as in 1.2M."""
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{translations.number(value / size, '.3g')}{unit}"
    if abs(value) >= 100_000:
        return f"{value / 1000:.0f}k"
    return translations.number(value, ",.0f" if value == int(value) else ".3g")


def counted(many: int, one: str, more: str = "") -> str:
    """`1 row`, `2 rows`."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"


def sentence_of(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def readable(colour: str) -> str:
    """A line's colour, dark enough for text on white."""
    from matplotlib.colors import to_hex, to_rgb

    parts = to_rgb(colour)
    light = 0.2126 * parts[0] ** 2.2 + 0.7152 * parts[1] ** 2.2 + 0.0722 * parts[2] ** 2.2
    # Contrast of 4.5 to 1 with white.
    red, green, blue = (part * min(1.0, (0.18 / light) ** (1 / 2.2)) for part in parts)
    return str(to_hex((red, green, blue)))


def titled(figure: Any, title: str, notes: Sequence[str] = ()) -> None:
    """Add a title above and notes below, left-aligned and wrapped."""
    figure.suptitle(
        textwrap.fill(title, 74), x=0.012, ha="left", fontsize=12, fontweight="bold", linespacing=1.25, color=INK
    )
    if notes:
        text = "\n".join(textwrap.fill(note, 112) for note in notes)
        figure.supxlabel(text, x=0.012, ha="left", fontsize=9, linespacing=1.35, color=QUIET)


def plain_log(axis: Any, ticks: Sequence[float] | None = None) -> None:
    """Label a logarithmic axis with numbers, not with powers of ten. ticks: where, if not at matplotlib's choice."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def apart(values: Sequence[float], least: float = 1.25) -> list[float]:
    """Ascending values thinned out for a logarithmic axis: each is at least `least` times the one before."""
    kept: list[float] = []
    for value in values:
        if not kept or value >= kept[-1] * least:
            kept.append(value)
    return kept
