"""Names as DuckDB compares them: without regard to the case of the letters A to Z, quoted or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from duckanon.catalog.keywords import NOT_NAMES

_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLD = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


@lru_cache(10_000)
def fold(name: str) -> str:
    """The name as DuckDB compares it. Letters beyond ASCII keep their case: DuckDB folds no others."""
    return name.translate(_FOLD)


class TableName(NamedTuple):
    """catalog.schema.object, folded. An empty part is not known."""

    catalog: str
    schema: str
    object: str

    @classmethod
    def of(cls, text: str) -> TableName:
        """The name in `a`, `b.a` or `c.b.a`; a part may stand in double quotes.

        >>> str(TableName.of('Lake."main".Persons'))
        'lake.main.persons'
        """
        parts: list[str] = []
        rest = text.strip()
        while True:
            if rest.startswith('"'):
                end = 1
                while (end := rest.find('"', end)) >= 0 and rest[end : end + 2] == '""':
                    end += 2
                if end < 0:
                    raise ValueError(text)
                part, rest = rest[1:end].replace('""', '"'), rest[end + 1 :]
            else:
                part, dot, rest = rest.partition(".")
                rest = dot + rest
            parts.append(fold(part))
            if not rest:
                break
            rest = rest.removeprefix(".")
        if len(parts) > 3 or not all(parts):
            raise ValueError(text)
        return cls(*([""] * (3 - len(parts)) + parts))

    def may_be(self, other: TableName) -> bool:
        """Whether both can name the same table: a part that is not known matches any.

        In `a.persons` the first part may be a schema or, as DuckDB has it, a catalog.
        """
        if self.object != other.object:
            return False
        return any(
            all(not mine or not theirs or mine == theirs for mine, theirs in zip(reading, two, strict=True))
            for reading in self._readings()
            for two in other._readings()
        )

    def _readings(self) -> tuple[tuple[str, str], ...]:
        """The catalogs and schemas that the name can mean."""
        whole = (self.catalog, self.schema)
        return (whole, (self.schema, "")) if self.schema and not self.catalog else (whole,)

    def within(self, home: TableName) -> TableName:
        """The full name for a name written in `home`: parts that are not known are taken from `home`."""
        if self.schema:
            return TableName(
                self.catalog or (home.catalog if self.schema == home.schema else ""), self.schema, self.object
            )
        return TableName(home.catalog, home.schema, self.object)

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.object) if part)


NOWHERE = TableName("", "", "")
# The catalog of a connection's temporary tables.
TEMPORARY = "temp"


def quoted(path: Sequence[str]) -> str:
    """A name of several parts as SQL, with each part in quotes."""
    return ".".join(map(identifier, path))


def identifier(name: str) -> str:
    """The name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """Texts as a SQL list of string literals, as people write it."""
    return f"[{', '.join(map(literal, texts))}]"


def spelled(path: Sequence[str]) -> str:
    """A name of several parts as people write it in SQL: a part stands in quotes where it must."""
    return ".".join(
        name if _PLAIN.fullmatch(name) and fold(name) not in NOT_NAMES else quoted([name]) for name in path if name
    )


def candidates(
    written: TableName, search: Sequence[tuple[str, str]], home: tuple[str, str] | None = None
) -> list[TableName]:
    """The full names that a name can mean, in the order in which DuckDB tries them.

    search: catalogs and schemas on the search path, folded. home: catalog and schema of the view or macro in which the
    name is written, if it is written in one. There it never means a temporary table or view: whoever asks could make
    one of that name, and DuckDB would take it in place of what the view's author meant.
    """
    if written.catalog:
        return [written] if home is None or written.catalog != TEMPORARY else []
    path = [home, *search] if home else [(TEMPORARY, "main"), *search]
    if written.schema:
        # In a.b, a is a schema of a catalog on the path, first of those whose entry has that schema; or it is a
        # catalog, and the table lies in its main schema.
        on_path = [catalog for catalog, schema in path if schema == written.schema]
        catalogs = dict.fromkeys([*on_path, *(catalog for catalog, _ in path)])
        path = [(catalog, written.schema) for catalog in catalogs]
        path += [(written.schema, "main")] if home is None or written.schema != TEMPORARY else []
    return [TableName(catalog, schema, written.object) for catalog, schema in path]


def search_path(database: str, schema: str, path: str) -> list[tuple[str, str]]:
    """The catalogs and schemas in which DuckDB looks for a name, folded and in order, without the temporary one.

    database, schema: the current ones. path: the value of DuckDB's setting search_path.
    """
    entries = [parts(entry.strip()) for entry in (path or "").split(",") if entry.strip()]
    search = [(fold(entry[0] if len(entry) > 1 else database), fold(entry[-1])) for entry in entries]
    return list(dict.fromkeys([*search, (fold(database), fold(schema)), (fold(database), "main")]))


def parts(name: str) -> list[str]:
    """The parts of a name such as a.b."c.d", without their quotes; the whole text if it is not such a name."""
    matches = list(_PART.finditer(name))
    if not 0 < len(matches) <= 3 or ".".join(match.group(0) for match in matches) != name:
        return [name]
    return [match.group(1).replace('""', '"') if match.group(1) is not None else match.group(2) for match in matches]


def parts_of_column(name: str) -> list[str]:
    """As `parts`, for a column with its table's name before it: two to four parts, or the whole text."""
    matches = list(_PART.finditer(name))
    if not 1 < len(matches) <= 4 or ".".join(match.group(0) for match in matches) != name:
        return [name]
    return [match.group(1).replace('""', '"') if match.group(1) is not None else match.group(2) for match in matches]
