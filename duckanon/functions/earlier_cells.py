"""The cells that a coarser release makes of those of an earlier one: intervals and sets, bands, labels of hierarchies.

Nothing of the table goes into them. A label of the coarser release stands at or above each label of the earlier one
that it covers, on a level no lower, even where the same leaves are below a lower one. A band that is open stays open.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duckanon.catalog.names import fold, identifier
from duckanon.errors import InvalidInput
from duckanon.functions.bands import Bands
from duckanon.functions.generalisation import Generalisation, place
from duckanon.functions.hierarchies import Labels
from duckanon.functions.k_cells import Cell, PlainCell, common, highest, lowest
from duckanon.functions.schema import Table, is_date, is_number, is_text
from duckanon.functions.sqltext import PLACES, ROW, struct

# The ends in the label of a band, as in '[30, 40)'.
BAND = r"'^\[([^,]*), ([^,]*)\)$'"

# The labels above the first and the last leaf below a label.
_OUTER = ("first", "last")


class EarlierCell(Cell):
    """What is released of a quasi-identifier, over the cells of the earlier release."""

    @property
    def sources(self) -> Sequence[str]:
        """The columns of the earlier release."""
        return self.names

    @property
    @abstractmethod
    def handed(self) -> str:
        """SQL: what an engine gets of a row of the earlier release, a struct."""

    @abstractmethod
    def own(self, name: str) -> str:
        """SQL: what an engine gets of a record's value. name: of the column."""

    @abstractmethod
    def check(self, release: Table, name: str, kind: str) -> None:
        """Check the columns of the earlier release. kind: the type of the table's column. Raises InvalidInput."""


class EarlierInterval(PlainCell, EarlierCell):
    """An interval or a set over those of the earlier release."""

    @property
    def handed(self) -> str:
        return struct({f"end{i}": f"{ROW}.{identifier(name)}" for i, name in enumerate(self.names)})

    def own(self, name: str) -> str:
        return f"{ROW}.{identifier(name)}"

    def check(self, release: Table, name: str, kind: str) -> None:
        release.has(self.names)
        expected = kind + ("[]" if len(self.names) == 1 else "")
        if any(release.kind(end) != expected for end in self.names):
            raise _wrong_type(self.names[0], release, name)


@dataclass(frozen=True)
class EarlierBands(EarlierCell):
    """Bands over bands, which the earlier release may have as ends or as labels."""

    bands: Bands

    @property
    def names(self) -> Sequence[str]:
        return self.bands.ends

    @property
    def sources(self) -> Sequence[str]:
        return [*self.bands.ends, self._label]

    @property
    def _label(self) -> str:
        return f"{self.bands.name}_label"

    @property
    def handed(self) -> str:
        return place(self.bands.name)

    def own(self, name: str) -> str:
        row_value, number = f"{ROW}.{identifier(name)}", self.bands.number
        return struct({"number": number, "lost": f"{row_value} IS NOT NULL AND {number} IS NULL"})

    @property
    def place(self) -> str:
        """SQL: the first and the last band of a row of the earlier release, and whether it has none of bands."""
        low, high, label = (f"{ROW}.{identifier(name)}" for name in self.sources)
        label = f"CAST({label} AS VARCHAR)"
        ends = [
            f"CASE WHEN {label} IS NULL THEN CAST({end} AS VARCHAR) "
            f"ELSE nullif(system.main.regexp_extract({label}, {BAND}, {at}), '') END"
            for at, end in enumerate((low, high), 1)
        ]
        first, last = self.bands.between(*ends)
        shown = f"({' OR '.join(f'{end} IS NOT NULL' for end in ends)})"
        wrong = f"CASE WHEN {shown} THEN coalesce({first} > {last}, true) ELSE coalesce({label} <> '*', false) END"
        return struct({"low": first, "high": last, "wrong": wrong})

    def aggregate(self) -> str:
        own = place(self.bands.name)
        ends = self.bands.released(lowest(f"{own}.low"), highest(f"{own}.high"))
        return ", ".join(f"{end} AS {identifier(name)}" for end, name in zip(ends, self.names, strict=True))

    def holds(self) -> str:
        own = place(self.bands.name)
        low, high = (f"_dk_classes.{identifier(name)}" for name in self.names)
        first, last = self.bands.between(*(f"CAST({end} AS VARCHAR)" for end in (low, high)))
        return f"({low} IS NULL AND {high} IS NULL OR {first} <= {own}.low AND {own}.high <= {last})"

    def check(self, release: Table, name: str, kind: str) -> None:
        if release.holds(self._label):
            if any(map(release.holds, self.bands.ends)):
                raise InvalidInput(
                    f'{release.name} has the bands of "{name}" and labels of them: select one of both from it.'
                )
            if not is_text(release.kind(self._label)):
                raise _wrong_type(self._label, release, name)
            return
        release.has(self.bands.ends)
        alike = is_date if is_date(kind) else is_number
        if not all(alike(release.kind(end)) for end in self.bands.ends):
            raise _wrong_type(self.bands.ends[0], release, name)


@dataclass(frozen=True)
class EarlierLabels(EarlierCell):
    """A label of a hierarchy over those of the earlier release."""

    labels: Labels

    @property
    def names(self) -> Sequence[str]:
        return [self.labels.released]

    @property
    def handed(self) -> str:
        return struct({"label": f"CAST({ROW}.{identifier(self.labels.released)} AS VARCHAR)"})

    def own(self, name: str) -> str:
        return f"CAST({ROW}.{identifier(name)} AS VARCHAR)"

    @property
    def span(self) -> str:
        """The name of the query's table with the leaves below each label."""
        return f"_dk_span_{self.labels.place}"

    @property
    def defined(self) -> str:
        """The definitions of the hierarchy's table, and of that with the leaves below each label.

        level: on which it is, the lowest if on several. first, last: the labels above the first and the last leaf.
        """
        tree = self.labels.tree
        levels = "system.main.range(1, system.main.len(labels) + 1)"
        # ('*' stands above the last level, unless that has one label only.)
        root = f"(SELECT system.main.count(DISTINCT labels[-2]) > 1 FROM {tree})"
        return (
            f"{self.labels.defined}{self.span} AS MATERIALIZED (SELECT labels[level] AS label, "
            "system.main.min(number) AS low, system.main.max(number) AS high, system.main.min(level) AS level, "
            "system.main.arg_min(labels, number) AS first, system.main.arg_max(labels, number) AS last "
            f"FROM (SELECT number, labels, unnest({levels}) AS level FROM {tree}) "
            f"WHERE level < system.main.len(labels) OR {root} GROUP BY labels[level]),\n"
        )

    @property
    def joined(self) -> str:
        """SQL: the join of rows of the earlier release with that table."""
        return (
            f"\n  LEFT JOIN {self.span} ON {self.span}.label = "
            f"CAST({ROW}.{identifier(self.labels.released)} AS VARCHAR)"
        )

    @property
    def place(self) -> str:
        """SQL: the first and the last leaf below the label of a row, and the label's level."""
        return struct({end: f"{self.span}.{end}" for end in ("low", "high", "level")})

    @property
    def shown(self) -> Sequence[str]:
        own = f'"duckanon.cell".{identifier(self.labels.released)}'
        low, high = (f"{self.labels.above_end(end)}[{own}.level:]" for end in ("low", "high"))
        return [f"{common(low, high)} AS {identifier(self.labels.released)}"]

    @property
    def joins(self) -> str:
        own = f'"duckanon.cell".{identifier(self.labels.released)}'
        return "".join(self.labels.join_of(end, f"{own}.{end}") for end in ("low", "high"))

    def aggregate(self) -> str:
        own = place(self.labels.name)
        ends = {"low": lowest(f"{own}.low"), "high": highest(f"{own}.high"), "level": highest(f"{own}.level")}
        return f"{struct(ends)} AS {identifier(self.labels.released)}"

    def holds(self) -> str:
        label = f"_dk_classes.{identifier(self.labels.released)}"
        below = (f"system.main.list_contains({self.span}.{end}[{self.span}.level:], {label})" for end in _OUTER)
        return f"({label} IS NULL OR {' AND '.join(below)})"

    def check(self, release: Table, name: str, kind: str) -> None:  # noqa: ARG002 - values are compared as text
        release.has(self.names)
        if not is_text(release.kind(self.labels.released)):
            raise _wrong_type(self.labels.released, release, name)


@dataclass(frozen=True)
class EarlierCells:
    """The cells of all quasi-identifiers, by name."""

    cells: Mapping[str, EarlierCell]

    @classmethod
    def of(cls, qi: Sequence[str], categorical: Sequence[str], how: Generalisation) -> EarlierCells:
        """how: the bands and hierarchies of the call."""
        sets = {fold(name) for name in categorical}
        cells = dict[str, EarlierCell]()
        for name in qi:
            own = how.of(name)
            if isinstance(own, Bands):
                cells[name] = EarlierBands(own)
            elif isinstance(own, Labels):
                cells[name] = EarlierLabels(own)
            else:
                names = PlainCell.of(name, categorical=fold(name) in sets).names
                cells[name] = EarlierInterval(names, names)
        return cls(cells)

    @property
    def trees(self) -> str:
        """The definitions of the query's tables with hierarchies."""
        return "".join(cell.defined for cell in self.cells.values() if isinstance(cell, EarlierLabels))

    @property
    def joined(self) -> str:
        """SQL: the joins of rows with them."""
        return "".join(cell.joined for cell in self.cells.values() if isinstance(cell, EarlierLabels))

    @property
    def places(self) -> str:
        """SQL: the column with the places of a row's cells, after others; nothing if there are none."""
        fields = {
            name: cell.place for name, cell in self.cells.items() if isinstance(cell, EarlierBands | EarlierLabels)
        }
        return f", {struct(fields)} AS {PLACES}" if fields else ""


def _wrong_type(end: str, release: Table, name: str) -> InvalidInput:
    return InvalidInput(
        f'Column "{end}" of {release.name} has not the type that a release of column "{name}" has: cast it.'
    )
