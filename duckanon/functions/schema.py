"""Checks a table's column names and types, as DuckDB describes them, before a row is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from duckanon.catalog.names import fold, literal
from duckanon.catalog.types import DATES, NUMBERS, WHOLE, base
from duckanon.errors import InvalidInput
from duckanon.functions.sqltext import RESERVED_NAMES

# A name of digits and signs alone is rather a number or a date of a record.
_VALUE = re.compile(r"[\d.,:;/+_ -]*\d[\d.,:;/+_ -]*")
_TEXT = {"VARCHAR", "JSON", "UUID"}
# Types without a place on a line that Arrow or the engines cannot carry faithfully, and what to cast them to.
_UNPLACED = {
    "BLOB": "VARCHAR",
    "BIT": "VARCHAR",
    "INTERVAL": "a number of seconds",
    "TIME WITH TIME ZONE": "TIME",
    "UHUGEINT": "DOUBLE",
    "BIGNUM": "DOUBLE",
    "VARINT": "DOUBLE",
    "GEOMETRY": "numbers",
}
_NESTED = ("STRUCT", "MAP", "UNION", "VARIANT", "LIST", "ARRAY")


def plain_type(kind: str) -> str:
    """The type without an ENUM's values and a STRUCT's fields, which may be data that no error may repeat."""
    return "the same type" if is_nested(kind) or base(kind) == "ENUM" else base(kind)


def is_text(kind: str) -> bool:
    return base(kind) == "VARCHAR"


def is_number(kind: str) -> bool:
    return base(kind) in NUMBERS


def is_integer(kind: str) -> bool:
    """Whether values of the type are whole numbers, true and false included."""
    return base(kind) in WHOLE or base(kind) == "BOOLEAN"


def is_date(kind: str) -> bool:
    """Whether values of the type are days, or times on days without a time zone."""
    return base(kind) in DATES


def is_numbers(kind: str) -> bool:
    """Whether it is a list or an array of numbers."""
    return kind.endswith("]") and "[" not in kind[: kind.rindex("[")] and is_number(kind[: kind.rindex("[")])


def is_nested(kind: str) -> bool:
    """Whether values of the type hold several values."""
    return kind.endswith("]") or base(kind) in _NESTED


def looks_like_a_value(name: str) -> bool:
    """Whether a column's name is a number or a date: then the first line of a file may hold values, and no names."""
    return _VALUE.fullmatch(name) is not None


@dataclass(frozen=True)
class Table:
    """A table's columns as DESCRIBE gives them: names and types, shape (columns,)."""

    name: str
    names: Sequence[str]
    kinds: Sequence[str]

    def __post_init__(self) -> None:
        for name in RESERVED_NAMES:
            if name in self._types:
                raise InvalidInput(f'The column name "{name}" is reserved for duckanon: rename the column.')

    @cached_property
    def _types(self) -> dict[str, str]:
        """Types by name, as DuckDB compares names."""
        return {fold(name): kind for name, kind in zip(self.names, self.kinds, strict=True)}

    def kind(self, name: str) -> str:
        return self._types[fold(name)]

    def holds(self, name: str) -> bool:
        return fold(name) in self._types

    def has(self, columns: Sequence[str], hint: str = "") -> None:
        """Check that every wanted column exists. hint: a sentence for where it does not, after a blank."""
        for name in columns:
            if fold(name) not in self._types:
                raise InvalidInput(f'There is no column "{name}" in {self.name}; {self._known}.{hint}')

    @property
    def _known(self) -> str:
        """The columns there are. In a file without a line of names the first record is taken for it."""
        if any(map(looks_like_a_value, self.names)):
            return (
                f"the names of its {len(self.names):,} columns look like values, so they are not listed: if it comes "
                "from a file, put the names of the columns into its first line"
            )
        return "its columns are " + ", ".join(self.names[:30]) + (", ..." if len(self.names) > 30 else "")

    def unit(self, name: str | None) -> None:
        """Check a column that names the unit of each record, if one does: it may come from the policy."""
        if name is not None:
            self.has([name], " To count records instead of units, write unit := ''.")
            self.plain([name], "unit")

    def plain(self, columns: Sequence[str], role: str, *, lists: bool = False) -> None:
        """Check that each wanted column has a plain type: one that can be compared and is not nested.

        lists: whether lists of plain values will do, such as the sets of a release.
        """
        for name in columns:
            kind = self._types[fold(name)]
            if lists and kind.endswith("[]"):
                kind = kind.removesuffix("[]")
            if is_nested(kind):
                raise InvalidInput(
                    f'Column "{name}" is nested and cannot be a {role}: unnest it, or pick out one field as a column.'
                )
            if base(kind) in _UNPLACED:
                raise InvalidInput(
                    f'Column "{name}" is of type {base(kind)} and cannot be a {role}: '
                    f"cast it to {_UNPLACED[base(kind)]}."
                )

    def number(self, name: str, role: str, to: str) -> None:
        """Check that a column is a number."""
        if not is_number(self.kind(name)):
            raise InvalidInput(f'Column "{name}" is not a number and cannot be {role}: cast it to {to}.')

    def apart(self, kept: Sequence[str], released: Sequence[str]) -> None:
        """Check that the columns which a result keeps have other names than those which it adds, in lower case."""
        for name in kept:
            if fold(name) in released:
                raise InvalidInput(f'The result would have two columns "{name}": rename the column of the table.')

    def ordered(self, qi: Sequence[str], categorical: Sequence[str]) -> None:
        """Check that text among the quasi-identifiers is declared categorical."""
        named = {fold(name) for name in categorical}
        for name in qi:
            if base(self._types[fold(name)]) in _TEXT and fold(name) not in named:
                raise InvalidInput(
                    f'Column "{name}" is text: name it in categorical := [{literal(name)}] to release sets of '
                    "its values, or cast it to an ENUM, a number or a date to release intervals."
                )

    def leaves_free(self, released: Sequence[str], gone: Sequence[str]) -> None:
        """Check that the names of a release differ from each other and from those of columns that are not `gone`."""
        names = set(self._types) - {fold(name) for name in gone}
        for name in released:
            if fold(name) in names:
                raise InvalidInput(
                    f'The release would have two columns "{name}": drop or rename the column of the table.'
                )
            names.add(fold(name))
