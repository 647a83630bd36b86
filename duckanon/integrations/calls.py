"""SQL text of calls of duckanon's functions, the command line's options for them, and what a policy adds to them."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import literal, parts
from duckanon.errors import InvalidInput
from duckanon.specification import functions

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from duckanon.connection import Connection

# An argument with a number, a text or a list of texts, as in the examples in errors.
_ARGUMENT = re.compile(r"\b(\w+) := (\[(?:'(?:[^']|'')*'|[^\]'])*\]|'(?:[^']|'')*'|\d+(?:\.\d+)?)")
_TEXT = re.compile(r"'((?:[^']|'')*)'")
# The name of a table that was read from a file named by an option: quotes would make one word of both.
_OPTION_AS_NAME = re.compile(r'"(--[a-z-]+ [^"]*)"')
# A part of an option that needs no quotes.
_PLAIN = re.compile(r"[^\s,\"]+")


def split(texts: Sequence[str] | None) -> list[str]:
    """The parts of options such as `age,zip`, given once or more often. A part with a comma stands in double quotes."""
    parts = [part.strip() for row in csv.reader(texts or [], skipinitialspace=True) for part in row]
    return [part for part in parts if part]


def numbers(texts: Sequence[str], option: str) -> dict[str, int | float]:
    """The numbers of `age=2,zip=1` by name. Raises InvalidInput if a part is not a name and a number."""
    found: dict[str, int | float] = {}
    for part in split(texts):
        name, _, number = part.rpartition("=")
        try:
            found[name] = int(number) if number.isdecimal() else float(number)
        except ValueError:
            name = ""
        if not name:
            raise InvalidInput(f"{option} has '{part}' where a name and a number belong, as in {option} age=2,zip=1.")
    return found


def named(texts: Sequence[str], option: str) -> dict[str, str]:
    """The texts of `zip=zip_levels,job=job.csv` by name. Raises InvalidInput if a part is not a name and a text."""
    found: dict[str, str] = {}
    for part in split(texts):
        name, _, text = part.partition("=")
        if not name or not text:
            raise InvalidInput(f"{option} has '{part}' where a name and a table belong, as in {option} zip=zip_levels.")
        found[name] = text
    return found


def widths(texts: Sequence[str], option: str) -> dict[str, object]:
    """The widths of `age=5,born=year` by name, with a bottom and a top as in `age=5:20:85`, or as in `age=5::85`.

    Widths on several levels are given as in `age=5/10/20`. Raises InvalidInput if a part is something else.
    """
    found: dict[str, object] = {}
    for part in split(texts):
        name, _, told = part.rpartition("=")
        fields = dict(zip(("width", "bottom", "top"), told.split(":"), strict=False))
        if not name or not fields["width"] or told.count(":") > 2:
            raise InvalidInput(
                f"{option} has '{part}' where a name and a width belong, as in {option} age=5,born=year, or with a "
                f"bottom and a top, {option} age=5:20:85, or on several levels, {option} age=5/10/20."
            )
        values: dict[str, object] = {field: _value(text) for field, text in fields.items() if text}
        levels = [_value(text) for text in fields["width"].split("/")]
        values["width"] = levels if len(levels) > 1 else levels[0]
        found[name] = values if len(values) > 1 else values["width"]
    return found


def _value(text: str) -> int | float | str:
    """A number, if the text is one."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


def whole(texts: Sequence[str], option: str) -> list[int]:
    """The whole numbers of `2,5,10`. Raises InvalidInput if a part is something else."""
    try:
        return [int(part) for part in split(texts)]
    except ValueError:
        raise InvalidInput(f"{option} needs whole numbers, as in {option} 2,5,10.") from None


def as_options(sentence: str) -> str:
    """A sentence with options in place of SQL's arguments such as `categorical := ['zip']`.

    >>> as_options("Name it in categorical := ['zip'], or choose max_suppression := 0.02.")
    'Name it in --categorical zip, or choose --max-suppression 0.02.'
    """

    def option(match: re.Match[str]) -> str:
        texts = [one.replace("''", "'") for one in _TEXT.findall(match[2])]
        value = ",".join(text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '""') + '"' for text in texts)
        return f"--{match[1].replace('_', '-')} {shlex.quote(value) if texts else match[2]}"

    return _OPTION_AS_NAME.sub(r"\1", _ARGUMENT.sub(option, sentence))


def ordered(given: Mapping[str, Any]) -> list[str]:
    """The quasi-identifiers among arguments of k_anonymize or k_compare that become intervals, not sets or labels."""
    if given["suppress_cells"]:
        return []
    others = {name.lower() for name in [*(given["categorical"] or ()), *(given["hierarchies"] or ())]}
    return [name for name in given["qi"] if name.lower() not in others]


def constant(value: object) -> str:
    """A number, text, list or mapping, as SQL."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(name)}: {constant(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(constant(inner) for inner in value) + "]"
    return f"{value!r}::DOUBLE" if isinstance(value, float) else str(value)


def call(function: str, *given: object, **named: object) -> str:
    """`FROM function('table', [qi], name := value, ...)`. None, empty lists and empty mappings are left out by name.

    Arguments without a default may be given by name, too: they stand first, in the function's order.
    """
    rest = [argument.name for argument in functions()[function].arguments if argument.default is None][len(given) :]
    first = arguments(*given, *(named.pop(name) for name in rest if name in named))
    options = arguments(**named)
    return f"FROM {function}(\n  {first},\n  {options}\n)" if options else f"FROM {function}({first})"


def arguments(*given: object, **options: object) -> str:
    """The arguments of a call, as SQL: `'table', [qi], name := value`."""
    named = [f"{name} := {constant(value)}" for name, value in options.items() if value not in (None, [], {})]
    return ", ".join([*map(constant, given), *named])


def privacy_unit(con: Connection | DuckDBPyConnection, table: str) -> str | None:
    """The column that names the privacy unit of a table, by its policy; None where there is none."""
    rows = con.execute(
        "SELECT privacy_unit FROM policies() WHERE database = current_database() AND lower(tbl) = lower(?)",
        [".".join(["main", *parts(table)][-2:])],
    ).fetchall()
    return str(rows[0][0]) if rows and rows[0][0] is not None else None


def policy_units(con: Connection | DuckDBPyConnection) -> list[str]:
    """The columns that name a privacy unit or a group in the policies of the database: a copy must not hold them."""
    rows = con.execute(
        "SELECT DISTINCT name FROM (SELECT unnest([privacy_unit, unit]) AS name FROM policies() "
        "WHERE database = current_database()) WHERE name IS NOT NULL ORDER BY name"
    ).fetchall()
    return [str(name) for (name,) in rows]
