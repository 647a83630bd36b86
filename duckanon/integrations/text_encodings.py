"""In which encoding a text file is written, and a copy of it in UTF-8, the only one that DuckDB reads everywhere."""

from __future__ import annotations

import codecs
import gzip
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duckanon.errors import InvalidInput

UTF_8 = "utf-8"
WINDOWS = "cp1252"
LATIN_1 = "iso8859-1"
# What a message calls an encoding that Python has under another name.
NAMES = {UTF_8: "UTF-8", "utf-16": "UTF-16", WINDOWS: "Windows-1252", LATIN_1: "Latin-1"}
_CHUNK = 1 << 20
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# A character of several bytes in UTF-8, which text in Windows-1252 hardly ever has, and any other byte beyond ASCII.
_CHARACTERS = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|([\x80-\xff])")
# Bytes alone that tell that a file is not in UTF-8.
_ENOUGH = 10_000
# Signs of Windows-1252 that are control characters in Latin-1.
_SIGNS = re.compile(rb"[\x80-\x9f]")


def opened(path: Path) -> gzip.GzipFile:
    """The bytes of a file, with or without compression by gzip, as its suffix says. Raises OSError."""
    return (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb")  # type: ignore[return-value]


def encoding_of(path: Path) -> str | None:
    """Python's name of a text file's encoding: UTF-8, UTF-16 or Windows-1252, of which the letters of Latin-1 are part.

    None: none of these, or UTF-8 with bytes that are no part of it. Raises OSError.
    """
    if _is_utf_8(path):
        return UTF_8
    with opened(path) as file:
        if file.read(2) in _UTF_16:
            return "utf-16"
    valid = invalid = 0
    for chunk in _chunks(path):
        bytes_alone = [match[1] for match in _CHARACTERS.finditer(chunk)]
        alone = len(bytes_alone) - bytes_alone.count(None)
        valid, invalid = valid + len(bytes_alone) - alone, invalid + alone
        if invalid > _ENOUGH:
            break
    return WINDOWS if invalid > valid else None


def named(encoding: str, path: Path) -> str:
    """Python's name of the encoding that somebody named. Raises InvalidInput if there is none, or it is not the file's.

    Latin-1 is refused for a file with signs that Windows-1252 has in its place, such as the euro or a dash: they would
    become control characters.
    """
    try:
        found = codecs.lookup(encoding)
        "a".encode(found.name)
    except (LookupError, TypeError, ValueError):
        raise InvalidInput(
            f"There is no encoding {encoding!r}: name one such as utf-8, cp1252 (Windows, Western Europe), cp1250, "
            "latin-1 or utf-16."
        ) from None
    if found.name == LATIN_1 and any(_SIGNS.search(chunk) for chunk in _chunks(path)):
        raise InvalidInput(
            f"{path} is not in Latin-1: it has signs that only Windows-1252 has, such as dashes or curly quotes. Name "
            "it with --encoding cp1252."
        )
    return str(found.name)


@contextmanager
def as_utf_8(path: Path, encoding: str) -> Iterator[Path]:
    """A copy of a file in UTF-8, without compression, that only its owner can read and that is gone afterwards.

    A file in UTF-8 stands for itself. Raises InvalidInput if its bytes are not in the encoding, and OSError.
    """
    if encoding == UTF_8:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="duckanon-") as folder:
        copy = Path(folder) / f"copy{path.with_suffix('').suffix if path.suffix.lower() == '.gz' else path.suffix}"
        line = 1
        try:
            with opened(path) as file, copy.open("w", encoding=UTF_8, newline="") as out:
                for text in codecs.iterdecode(iter(lambda: file.read(_CHUNK), b""), encoding):
                    line += text.count("\n")
                    out.write(text)
        except UnicodeDecodeError as error:
            # `object` is what was being decoded; its lines before the flaw are counted as bytes.
            line += error.object[: error.start].count(b"\n")
            raise InvalidInput(
                f"{path} cannot be read: line {line} is not in {NAMES.get(encoding, encoding)}. Name the file's "
                "encoding, as in --encoding cp1250."
            ) from None
        yield copy


def _is_utf_8(path: Path) -> bool:
    decode = codecs.getincrementaldecoder(UTF_8)().decode
    try:
        for chunk in _chunks(path):
            decode(chunk)
        decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _chunks(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk
