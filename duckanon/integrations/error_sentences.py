"""Errors as one sentence, for all programs that show them."""

from __future__ import annotations

import re

from duckanon.errors import DuckanonError
from duckanon.specification import functions

_LONGEST = 400
# DuckDB's prefix of errors raised by its SQL function error(), which our queries call.
_PREFIX = "Invalid Input Error: "
# How DuckDB's error about a call that a macro does not take begins; after it come all arguments of the macro.
_NO_SUCH_CALL = re.compile(r"Binder Error: Macro \"?(\w+)\"?\(\) does not support the supplied arguments")

_MEMORY = (
    "DuckDB needs more memory than memory_limit allows: raise it with SET memory_limit = '8GB', let DuckDB spill to "
    "disk with SET temp_directory = 'spilled', take fewer threads with SET threads = 2, or work on the table in parts, "
    "one view a part."
)
_DISK = (
    "DuckDB has spilled to disk as much as it may: raise that with SET max_temp_directory_size = '100GB', name a disk "
    "with more room with SET temp_directory = 'spilled', or work on the table in parts, one view a part."
)
# What DuckDB says of a CSV file in another encoding.
_ENCODED = re.compile(r"CSV Error on Line: (\d+)\b.*file is not utf-8 encoded", re.DOTALL)


def sentence(error: Exception) -> str:
    """An error as a sentence, without DuckDB's prefix, its excerpt of the statement, and lines of data."""
    import duckdb

    from duckanon.catalog.database_files import is_damaged

    text = unprefixed(str(error))
    if isinstance(error, DuckanonError):
        return text
    if isinstance(error, duckdb.OutOfMemoryException):
        return _DISK if "max_temp_directory_size" in text else _MEMORY
    if isinstance(error, duckdb.Error) and is_damaged(error):
        return "The file of the database is damaged, or was cut off when it was copied: take a copy that is whole."
    call = _NO_SUCH_CALL.match(text)
    if call is not None and (known := functions().get(call[1])) is not None:
        return known.usage
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}."
    if (encoded := _ENCODED.search(text)) is not None:
        return (
            f"The file is not in UTF-8 (line {int(encoded[1]):,}): `duckanon preview` says in which encoding it is. "
            "Read it with read_csv('...', encoding := 'latin-1'), which has the letters of Windows-1252 too, or save "
            "it in UTF-8."
        )
    lines = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("LINE "):
            break
        if not line.startswith("Original Line:"):
            lines.append(line.strip())
    told = " ".join(lines)
    return told if len(told) <= _LONGEST else told[:_LONGEST].rstrip() + " ..."


def unprefixed(text: str) -> str:
    """An error's text without DuckDB's prefix."""
    return text.removeprefix(_PREFIX)


def is_told(error: BaseException) -> bool:
    """Whether a user can cause the error: it is duckanon's, DuckDB's or the system's. Other errors are bugs."""
    import duckdb

    return isinstance(error, DuckanonError | duckdb.Error | OSError) and not isinstance(error, BrokenPipeError)
