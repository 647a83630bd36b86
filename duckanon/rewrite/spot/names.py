"""Names as DuckDB reads them: letters A to Z without case, quoted or not; everything else as it stands."""

from __future__ import annotations

from dataclasses import dataclass

_FOLD = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def fold(name: str) -> str:
    """The name as DuckDB compares it. Letters beyond ASCII keep their case: DuckDB folds no others."""
    return name.translate(_FOLD)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """catalog.schema.object, folded, as far as known: an empty part is one that nobody told."""

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
        """Whether both can name the same table: parts that nobody told fit everything.

        In `a.persons` the first part may be a schema or, as DuckDB has it, a catalog.
        """
        if self.object != other.object:
            return False
        return any(
            all(not mine or not theirs or mine == theirs for mine, theirs in zip(one, two, strict=True))
            for one in self._places()
            for two in other._places()
        )

    def _places(self) -> tuple[tuple[str, str], ...]:
        """What catalog and schema can be."""
        whole = (self.catalog, self.schema)
        return (whole, (self.schema, "")) if self.schema and not self.catalog else (whole,)

    def within(self, home: TableName) -> TableName:
        """The name as one reads it in `home`: parts not told are home's."""
        if self.schema:
            return TableName(
                self.catalog or (home.catalog if self.schema == home.schema else ""), self.schema, self.object
            )
        return TableName(home.catalog, home.schema, self.object)

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.object) if part)


NOWHERE = TableName("", "", "")
