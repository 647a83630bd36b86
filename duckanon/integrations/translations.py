"""Texts, numbers and days as a language writes them, from catalogues of gettext: `locale/<language>.po`, read as it is.

The language holds for a context: what runs `with speaking("de")` gets German from `gettext`, and all else English. So
code that others share, such as pictures, needs no argument for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime
from functools import cache
from pathlib import Path

from duckanon.errors import InvalidInput

ENGLISH = "en"
_FOLDER = Path(__file__).parent / "locale"
_ENTRY = re.compile(r'^(msgid|msgid_plural|msgstr|msgstr\[[01]\]) ((?:"(?:[^"\\]|\\.)*"\s*)+)', re.MULTILINE)
_PART = re.compile(r'"(?:[^"\\]|\\.)*"')
_FIELD = re.compile(r"\\{(\w+)\\}")
_NUMBER = re.compile(r"\d+(,\d{3})*(\.\d+)?")
_LANGUAGE = ContextVar("language", default=ENGLISH)
# By English text, the translation; where a number decides, those for one and for several.
_Texts = dict[str, tuple[str, ...]]


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """What runs in this context writes that language. Raises InvalidInput where there is no catalogue of it."""
    if language not in languages():
        raise InvalidInput(f"There is no page in the language {language!r}: choose one of {', '.join(languages())}.")
    token = _LANGUAGE.set(language)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def languages() -> list[str]:
    """English, and the languages that there are catalogues of."""
    return [ENGLISH, *sorted(path.stem for path in _FOLDER.glob("*.po"))]


def language() -> str:
    """That of this context."""
    return _LANGUAGE.get()


def gettext(message: str) -> str:
    """The text in the context's language; a text that the catalogue lacks stays English."""
    found = catalogue(language()).get(message)
    return found[0] if found else message


def ngettext(message: str, several: str, many: int) -> str:
    """The same of two texts, for one and for several."""
    found = catalogue(language()).get(message, (message, several))
    return found[0] if many == 1 else found[-1]


def counted(message: str, several: str, many: int, **others: int) -> str:
    """The same, with the number as `n`: `counted("{n} row", "{n} rows", 2)`. others: more numbers, by name."""
    return ngettext(message, several, many).format(
        n=number(many), **{name: number(one) for name, one in others.items()}
    )


def retold(text: str, *messages: str) -> str:
    """A text that was written in English by one of these messages, such as a line of the ledger, in this language.

    A text that fits none of them stays as it is.
    """
    for message in messages:
        pattern = _FIELD.sub(r"(?P<\1>.+?)", re.escape(message))
        if (match := re.fullmatch(pattern, text)) is not None:
            return gettext(message).format(**{name: exact(value) for name, value in match.groupdict().items()})
    return text


def number(value: float | None, form: str = ",") -> str:
    """A number with its thousands apart. form: another format of Python's, such as `.3g`."""
    return "" if value is None else exact(format(value, form))


def share(value: float | None) -> str:
    """A share of 1 in per cent."""
    return "" if value is None else f"{number(100 * value, '.3g')} %"


def exact(text: str) -> str:
    """A number that is already written, in English; other texts stay, such as fractions."""
    if language() == ENGLISH or _NUMBER.fullmatch(text.removeprefix("-")) is None:
        return text
    return text.translate({ord(","): ".", ord("."): ","})


def day(value: date | str, *, seconds: bool | None = None) -> str:
    """A day. value: also as ISO writes it. seconds: whether a moment has them; None: no time of the day."""
    value = datetime.fromisoformat(value) if isinstance(value, str) else value
    time = "" if seconds is None else " %H:%M:%S" if seconds else " %H:%M"
    return value.strftime(("%Y-%m-%d" if language() == ENGLISH else "%d.%m.%Y") + time)


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return gettext("{first} and {last}").format(first=", ".join(parts[:-1]), last=parts[-1])


@cache
def catalogue(language: str) -> _Texts:
    """A language's texts by the English ones."""
    return {} if language == ENGLISH else dict(_entries((_FOLDER / f"{language}.po").read_text(encoding="utf-8")))


def _entries(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts of a catalogue with their translations; its header has no text."""
    message = ""
    translations: tuple[str, ...] = ()
    for kind, parts in [*_ENTRY.findall(text), ("msgid", "")]:
        joined = "".join(ast.literal_eval(part) for part in _PART.findall(parts))
        if kind == "msgid":
            if message:
                yield message, translations
            message, translations = joined, ()
        elif kind.startswith("msgstr"):
            translations = (*translations, joined)
