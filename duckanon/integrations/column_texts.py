"""Columns of text that hold numbers or dates as offices write them, and the values that keep them from being such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import identifier, literal

# Numbers by the sign before their decimals; the other sign may stand between thousands.
_NUMBERS = {
    ",": r"[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?",
    ".": r"[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?",
}
# Commas that can only be decimal: not three digits follow, or points stand between the thousands before.
_DECIMAL_COMMA = r".*(,(\d{1,2}|\d{4,})|\..*,\d+)"
_ISO = "%Y-%m-%d"
# So many records are looked at before all are.
_FIRST = 2048
_SHOWN = 3


@dataclass(frozen=True)
class Unfit:
    """Values that keep a column of text from being numbers or dates. kind: which of both, in words.

    all, wrong: how many values there are, and how many of them are neither; texts: different ones. first: the numbers
    of the first few records that have one.
    """

    column: str
    kind: str
    all: int
    wrong: int
    texts: int
    first: Sequence[int]

    @property
    def more(self) -> int:
        return self.wrong - len(self.first)


def texts(con: Any, table: str, names: Sequence[str] | None = None) -> list[str]:
    """The columns of text, those among `names` if these are given. table: as SQL has it."""
    described = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608 - quoted
    wanted = None if names is None else {name.lower() for name in names}
    return [name for name, kind in described if kind == "VARCHAR" and (wanted is None or name.lower() in wanted)]


def to_numbers(con: Any, table: str, names: Sequence[str], decimal: str | None) -> list[str]:
    """Make numbers of the columns of text whose values are all numbers written with decimal commas; returns these.

    table: a temporary one, which is replaced. decimal: the sign before decimals, where it is known; then points or
    commas between thousands are understood too. None: only commas that must be decimal are taken for such.
    """
    sign = decimal or ","
    likely = [name for name in names if _are_numbers(con, f"(FROM {table} LIMIT {_FIRST})", name, sign)]
    sure = [
        name
        for name in likely
        # Digits alone that DuckDB took for text are codes: 007 is no number.
        if _are_numbers(con, table, name, sign)
        and _some(con, table, name, _DECIMAL_COMMA if decimal is None else ".*[.,].*")
    ]
    if sure:
        text = ", ".join(f"{_as_number(con, table, name, sign)} AS {identifier(name)}" for name in sure)
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * REPLACE ({text}) FROM {table}").fetchall()  # noqa: S608
    return sure


def to_dates(con: Any, table: str, names: Sequence[str], date_format: str) -> list[str]:
    """Make dates of the columns of text whose values are all written as was said, or as 2024-12-31; returns these.

    table: a temporary one, which is replaced. Only days that the other form cannot mean otherwise are read.
    """
    if date_format.startswith(("%Y", "%y")) or "%H" in date_format or "%I" in date_format:
        return []
    sure = [name for name in names if _all(con, table, name, f"{as_date(name, date_format)} IS NOT NULL")]
    if sure:
        days = ", ".join(f"{as_date(name, date_format)} AS {identifier(name)}" for name in sure)
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * REPLACE ({days}) FROM {table}").fetchall()  # noqa: S608
    return sure


def is_ambiguous(con: Any, table: str, name: str) -> bool:
    """Whether a column of text holds numbers whose commas may be decimal, or stand between thousands."""
    return _are_numbers(con, table, name, ",") and _some(con, table, name, ".*,.*")


def has_other_sign(con: Any, table: str, name: str, decimal: str) -> bool:
    """Whether a column of text holds numbers whose decimals stand after the other sign than the one that was said."""
    other = "." if decimal == "," else ","
    return _are_numbers(con, table, name, other) and _some(con, table, name, f".*[{other}].*")


def unfit(con: Any, table: str, name: str, decimal: str | None, date_format: str | None) -> Unfit | None:
    """What keeps a column of text from being numbers or dates; None where most of its values are neither, or all are.

    table: a temporary one, whose rows are the records in the order of the file. The texts themselves are not told.
    """
    column = identifier(name)
    signs = [decimal] if decimal else [",", "."]
    is_number = " OR ".join(
        [f"TRY_CAST({column} AS DOUBLE) IS NOT NULL", *(_matches(name, _NUMBERS[sign]) for sign in signs)]
    )
    is_date = f"TRY_CAST({column} AS TIMESTAMP) IS NOT NULL"
    if date_format is not None:
        is_date += f" OR try_strptime({column}, {literal(date_format)}) IS NOT NULL"
    for kind, is_one in (("numbers", is_number), ("dates", is_date)):
        wrong = f"{column} IS NOT NULL AND NOT ({is_one})"
        ((every, many, different, first),) = con.execute(
            f"SELECT count({column}), count(*) FILTER ({wrong}), count(DISTINCT {column}) FILTER ({wrong}), "  # noqa: S608
            f"min(rowid + 1, {_SHOWN}) FILTER ({wrong}) FROM {table}"
        ).fetchall()
        if 0 < many < every / 2:
            return Unfit(name, kind, every, many, different, first)
    return None


def _matches(name: str, form: str) -> str:
    return f"regexp_full_match(trim({identifier(name)}), {literal(form)})"


def _are_numbers(con: Any, source: str, name: str, sign: str) -> bool:
    """Whether there are values, and all are numbers."""
    return _all(con, source, name, _matches(name, _NUMBERS[sign]))


def _all(con: Any, source: str, name: str, condition: str) -> bool:
    """Whether a column has values, and all of them meet a condition."""
    text = f"{identifier(name)} IS NOT NULL"
    ((are,),) = con.execute(f"SELECT bool_and({condition}) FILTER ({text}) FROM {source}").fetchall()  # noqa: S608
    return bool(are)


def _some(con: Any, table: str, name: str, form: str) -> bool:
    return bool(con.execute(f"SELECT 1 FROM {table} WHERE {_matches(name, form)} LIMIT 1").fetchall())  # noqa: S608


def _as_number(con: Any, table: str, name: str, sign: str) -> str:
    """SQL: the number that a text is. Without any decimals they are whole numbers."""
    is_whole = not _some(con, table, name, f".*(\\{sign}.*|\\d{{18,}})")
    return as_number(name, sign, "BIGINT" if is_whole else "DOUBLE")


def as_number(name: str, sign: str, kind: str) -> str:
    """SQL: a text of a column as a number. sign: before decimals. kind: DuckDB's type."""
    other = "." if sign == "," else ","
    return f"CAST(replace(replace(trim({identifier(name)}), '{other}', ''), '{sign}', '.') AS {kind})"


def as_date(name: str, date_format: str) -> str:
    """SQL: a text of a column as a date, written as was said or as 2024-12-31; NULL where it is neither."""
    return f"CAST(try_strptime(trim({identifier(name)}), [{literal(date_format)}, {literal(_ISO)}]) AS DATE)"
