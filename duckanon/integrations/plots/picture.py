"""A picture: SVG or PNG, in a file or in a notebook."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.plots.style import STYLE

_PNG_DOTS = 200
_SUFFIXES = {".svg": "svg", ".png": "png"}
_PREAMBLE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>\s*", re.DOTALL)
_SIZE = re.compile(
    r'(<svg [^>]*?)width="[^"]*pt"([^>]*?)height="[^"]*pt"|(<svg [^>]*?)height="[^"]*pt"([^>]*?)width="[^"]*pt"'
)
_NAMES = re.compile(r'(\bid="|url\(#|href="#)')


@dataclass(frozen=True)
class Picture:
    """A drawn result. figure: matplotlib's, to be changed further. kind: its name in PICTURES. says: a description."""

    figure: Any
    kind: str
    says: str

    def svg(self) -> str:
        """The picture as SVG; the same picture gives the same text."""
        out = io.BytesIO()
        with styled():
            self.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Title": self.says})
        return out.getvalue().decode("utf-8")

    def png(self, dots: int = _PNG_DOTS) -> bytes:
        """The picture as PNG, eight inches wide at so many dots an inch."""
        out = io.BytesIO()
        with styled():
            self.figure.savefig(out, format="png", dpi=dots, metadata={"Software": None, "Description": self.says})
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture. Raises InvalidInput unless the name ends in .svg or .png, and OSError."""
        target = Path(path)
        target.write_bytes(self.bytes(form(target)))
        return target

    def bytes(self, kind: str) -> bytes:
        """The picture as a file of that kind, 'svg' or 'png'."""
        return self.png() if kind == "png" else self.svg().encode()

    def inline(self, prefix: str) -> str:
        """The picture as an SVG element for a page. prefix: put before its ids, which must differ between pictures."""
        from html import escape

        text = _PREAMBLE.sub("", self.svg())
        text = _NAMES.sub(lambda match: match.group(1) + prefix, text)
        text = _SIZE.sub(lambda match: "".join(part or "" for part in match.groups()), text, count=1)
        return text.replace("<svg ", f'<svg role="img" aria-label="{escape(self.says)}" ', 1)

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg()


def form(path: Path) -> str:
    """'svg' or 'png', by the name's end. Raises InvalidInput for others."""
    text = _SUFFIXES.get(path.suffix.lower())
    if text is None:
        raise InvalidInput(f"{path}: a picture's name ends in .svg or .png.")
    return text


@contextmanager
def styled() -> Iterator[None]:
    """Use our style instead of the user's while the body runs."""
    from matplotlib import style

    with style.context(["default", STYLE]), warnings.catch_warnings():
        # A browser has other fonts, and in a PNG a box stands for a missing letter: no warning is needed.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def drawn(kind: str, draw: Callable[..., tuple[Any, str]], *args: Any, **options: Any) -> Picture:
    """The picture that `draw` makes. draw: returns a figure and a sentence that describes it."""
    ready()
    with styled():
        figure, says = draw(*args, **options)
        # Compute the layout once: matplotlib would move things a little at each drawing.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return Picture(figure, kind, says)


def ready() -> None:
    """Raises InvalidInput where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InvalidInput("Pictures need matplotlib: pip install 'duckanon[plot]'.") from None
