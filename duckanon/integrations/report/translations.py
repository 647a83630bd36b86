"""Texts of a page in another language, from a catalogue of gettext: `locale/<language>.po`, which is read as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from gettext import NullTranslations
from pathlib import Path

from duckanon.errors import InvalidInput

_FOLDER = Path(__file__).parent / "locale"
_ENTRY = re.compile(r'^(msgid|msgstr) ((?:"(?:[^"\\]|\\.)*"\s*)+)', re.MULTILINE)
_PART = re.compile(r'"(?:[^"\\]|\\.)*"')


class Catalogue(NullTranslations):
    """A language's texts by the English ones. number: how it writes large numbers."""

    def __init__(self, language: str, texts: dict[str, str]) -> None:
        super().__init__()
        self.language = language
        self._texts = texts

    def gettext(self, message: str) -> str:
        """The text in this language; a text that the catalogue lacks stays English."""
        return self._texts.get(message) or message

    def number(self, value: float | None) -> str:
        """A whole number with its thousands apart, as the language writes it."""
        if value is None:
            return ""
        return f"{value:,}" if self.language == "en" else f"{value:,}".replace(",", ".")

    def share(self, value: float | None) -> str:
        """A share of 1 in per cent."""
        if value is None:
            return ""
        told = f"{100 * value:.3g} %"
        return told if self.language == "en" else told.replace(".", ",")


def languages() -> list[str]:
    """The languages that there are catalogues of, and English."""
    return ["en", *sorted(path.stem for path in _FOLDER.glob("*.po"))]


def catalogue(language: str) -> Catalogue:
    """Raises InvalidInput for a language that there is none of."""
    if language not in languages():
        raise InvalidInput(f"There is no page in the language {language!r}: choose one of {', '.join(languages())}.")
    texts = {} if language == "en" else dict(_entries((_FOLDER / f"{language}.po").read_text(encoding="utf-8")))
    return Catalogue(language, texts)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """The texts of a catalogue with their translations; its header has no text."""
    message = ""
    for kind, parts in _ENTRY.findall(text):
        joined = "".join(ast.literal_eval(part) for part in _PART.findall(parts))
        if kind == "msgid":
            message = joined
        elif message:
            yield message, joined
