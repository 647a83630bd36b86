"""What a k-anonymous table that is to be published says of each quasi-identifier, and which values lie inside.

Labels of a hierarchy are ends, too: the leaves below a label follow one another in the order of the tree, so it stands
for those from the first to the last. Labels of bands, as `[30, 40)`, say their ends themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from duckanon.catalog.names import fold, identifier, literal
from duckanon.engines.kanon.hierarchy import ROOT
from duckanon.errors import InvalidInput
from duckanon.functions.earlier_cells import BAND, EarlierLabels
from duckanon.functions.hierarchies import Labels
from duckanon.functions.schema import is_date, is_number

# Types of the ends of bands, whatever the column's.
_BAND_ENDS = ("BIGINT", "DATE", "DECIMAL")


@dataclass(frozen=True)
class Cell:
    """What is released of one quasi-identifier.

    kind: the column's type in the protected table. names: of its columns: an interval has two, a set, a label or a
    single value one. keys: what the table of classes calls them. is_set: whether it is a set.
    """

    column: str
    kind: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    is_set: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        """What the table of classes calls what values are compared with."""
        return self.keys

    @property
    def derived(self) -> Mapping[str, str]:
        """SQL of those of `ends` that are not columns of the release, from `keys`."""
        return {}

    def check(self, con: duckdb.DuckDBPyConnection, of: str) -> None:
        """Check the records. of: what stands after FROM to read them. Raises InvalidInput."""

    def _ends(self, alias: str) -> list[str]:
        """Its ends in SQL. Copies keep an ENUM as text, so that it is cast to the type of the protected table."""
        ends = [f"{alias}.{key}" for key in self.ends]
        if not self.kind.startswith("ENUM"):
            return ends
        return [f"CAST({end} AS {self.kind}{'[]' if self.is_set else ''})" for end in ends]

    def _within(self, inner: Sequence[str], outer: Sequence[str], of_set: str) -> list[str]:
        """Conditions that one value or cell lies inside another cell, by their ends. of_set: DuckDB's test for sets."""
        if self.is_set:
            return [f"system.main.{of_set}({outer[0]}, {inner[0]})"]
        if len(outer) == 1:
            return [f"{inner[0]} = {outer[0]}"]
        return [f"{inner[0]} >= {outer[0]}", f"{inner[-1]} <= {outer[1]}"]

    def value(self) -> str:
        """A record's value, in SQL."""
        return identifier(self.column)

    def holds(self, alias: str, value: str, *, nulls: bool = True) -> str:
        """Whether a value lies inside. NULL for a cell holds everything; nulls: whether there are such cells.

        Without them DuckDB joins by ranges, which is faster.
        """
        ends = self._ends(alias)
        tests = self._within([value], ends, "list_contains")
        if nulls:
            tests = [f"({end} IS NULL OR {test})" for end, test in zip(ends, tests, strict=True)]
        return " AND ".join(tests)

    def inside(self, inner: str, outer: str) -> str:
        """Whether one table's cell lies inside another's."""
        ends, other = self._ends(inner), self._ends(outer)
        tests = self._within(ends, other, "list_has_all")
        # (An inner end that is NULL is inside no value: the test is NULL.)
        return " AND ".join(f"({end} IS NULL OR {test})" for end, test in zip(other, tests, strict=True))


@dataclass(frozen=True)
class _LabelCell(Cell):
    """A label that stands for the values between two ends."""

    @property
    def ends(self) -> tuple[str, ...]:
        return f"{self.keys[0]}_low", f"{self.keys[0]}_high"

    def _ends(self, alias: str) -> list[str]:
        return [f"{alias}.{end}" for end in self.ends]


@dataclass(frozen=True)
class _TreeCell(_LabelCell):
    """A label of a hierarchy. Values and ends are numbers of leaves.

    tree, spans: temporary tables with the leaves, and with those below each label.
    """

    tree: str = ""
    spans: str = ""

    @property
    def derived(self) -> Mapping[str, str]:
        spans = f"FROM {self.spans} AS s WHERE s.label = {self.keys[0]}"
        return {end: f"(SELECT s.{of} {spans})" for end, of in zip(self.ends, ("low", "high"), strict=True)}

    def value(self) -> str:
        return f"(SELECT t.number FROM {self.tree} AS t WHERE t.leaf = CAST({identifier(self.column)} AS VARCHAR))"

    def check(self, con: duckdb.DuckDBPyConnection, of: str) -> None:
        lost = f"{identifier(self.column)} IS NOT NULL AND {self.value()} IS NULL"
        ((strays,),) = con.execute(f"SELECT system.main.count(*) FROM {of} WHERE {lost}").fetchall()
        if strays:
            raise InvalidInput(Labels(self.column, 0, None, ()).outside)


@dataclass(frozen=True)
class _BandCell(_LabelCell):
    """A label of a band, which counts with both ends, or '*' for all of them. end: the type of the ends."""

    end: str = ""

    @property
    def derived(self) -> Mapping[str, str]:
        return {name: _band_end(self.keys[0], at, self.end) for at, name in enumerate(self.ends, 1)}


def _band_end(label: str, at: int, kind: str) -> str:
    return f"TRY_CAST(system.main.regexp_extract({label}, {BAND}, {at}) AS {kind})"


def cells_of(
    con: duckdb.DuckDBPyConnection,
    qi: Sequence[str],
    columns: Mapping[str, str],
    source: Mapping[str, str],
    release: str,
    trees: Mapping[str, str],
) -> list[Cell]:
    """The cell of each quasi-identifier, in their order. Raises InvalidInput where the release has none.

    columns: of the release, whose name in SQL is `release`, by type. source: the protected table's. trees: by column,
    folded, the name in SQL of the table with the hierarchy of its labels.
    """
    own = {fold(name): name for name in columns}
    kinds = {fold(name): (name, kind) for name, kind in source.items()}
    if not qi:
        raise InvalidInput(
            "The policy names no quasi_identifiers, so no k-anonymous table can be published: protect the table with "
            "them, or name the value column of a table of counts or shares."
        )
    for named in trees:
        if named not in {fold(name) for name in qi}:
            raise InvalidInput(
                f'hierarchies names "{named}", which is no quasi-identifier of the policy: leave it out of hierarchies.'
            )
    cells = list[Cell]()
    for quasi_identifier in qi:
        if fold(quasi_identifier) not in kinds:
            raise InvalidInput(
                f'The protected table has no column "{quasi_identifier}" any more, which its policy names.'
            )
        name, kind = kinds[fold(quasi_identifier)]
        label = own.get(fold(f"{name}_label"))
        if fold(name) in trees:
            cells.append(_tree_cell(con, len(cells), (name, kind), columns, label, (release, trees[fold(name)])))
            continue
        for parts in ((f"{name}_lo", f"{name}_hi"), (f"{name}_set",), (name,)):
            if all(fold(part) in own for part in parts):
                cells.append(_cell(len(cells), name, kind, tuple(own[fold(part)] for part in parts), columns))
                break
        else:
            if label is None:
                raise _nothing(qi, own, name)
            cells.append(_band_cell(con, len(cells), (name, kind), columns, label, release))
    return cells


def _nothing(qi: Sequence[str], own: Mapping[str, str], name: str) -> InvalidInput:
    means = ""
    if any(fold(f"{name}_{part}") in own for part in ("mean", "median", "mode")):
        means = (
            " Means are not published: beside intervals of the same records they tell single values. Release "
            "an interval, a set or bands of it."
        )
    return InvalidInput(
        f'The release says nothing of "{name}", which the policy calls a quasi-identifier: k_anonymize with '
        f"all of them ({', '.join(qi)}), or name the value column of a table of counts "
        f"or shares.{means}"
    )


def _cell(at: int, name: str, kind: str, parts: tuple[str, ...], columns: Mapping[str, str]) -> Cell:
    """The cell of a quasi-identifier whose columns are `parts`. Raises InvalidInput for one of another type."""
    keys = tuple(f"k{at}_{end}" for end in range(len(parts)))
    cell = Cell(name, kind, parts, keys, is_set=fold(parts[0]) == fold(f"{name}_set"))
    types = {columns[part] for part in parts}
    bands = len(parts) == 2 and len(types) == 1 and next(iter(types)).split("(")[0] in _BAND_ENDS
    if types != {f"{kind}[]" if cell.is_set else kind} and not bands:
        raise _wrong_type(name)
    return cell


def _wrong_type(name: str) -> InvalidInput:
    return InvalidInput(f'What the release says of "{name}" must be of the type that k_anonymize gives it.')


def _tree_cell(
    con: duckdb.DuckDBPyConnection,
    at: int,
    column: tuple[str, str],
    columns: Mapping[str, str],
    label: str | None,
    tables: tuple[str, str],
) -> Cell:
    """The cell of a quasi-identifier that is released as labels. column: its name and type. label: the released one.

    tables: the release, and the hierarchy. Makes temporary tables of the hierarchy. Raises InvalidInput if it is no
    tree, or lacks a label.
    """
    from duckanon.engines.kanon.hierarchy import hierarchy

    (name, kind), (release, table) = column, tables
    if label is None:
        raise InvalidInput(f'The release has no labels of "{name}": take it out of hierarchies.')
    if columns[label] != "VARCHAR":
        raise _wrong_type(name)
    labels = Labels(name, at, table, ())
    tree, spans = f"temp.main._dk_leaves_{at}", f"temp.main._dk_labels_{at}"
    earlier = EarlierLabels(labels)
    for target, of in ((tree, labels.tree), (spans, earlier.span)):
        con.execute(f"CREATE OR REPLACE TEMP TABLE {target} AS WITH {earlier.defined}_dk_none AS (SELECT 1) FROM {of}")
    ((rows,),) = con.execute(f"SELECT system.main.list(labels[:-2] ORDER BY number) FROM {tree}").fetchall()
    hierarchy(name, rows or [])
    label_column = identifier(label)
    known = f"{label_column} IS NULL OR {label_column} IN (SELECT s.label FROM {spans} AS s)"
    ((strange,),) = con.execute(f"SELECT system.main.count(*) FROM {release} WHERE NOT ({known})").fetchall()
    if strange:
        raise InvalidInput(
            f'Column "{label}" holds a label that the hierarchy of "{name}" lacks: give the hierarchy that the release '
            "was made with."
        )
    return _TreeCell(name, kind, (label,), (f"k{at}_0",), tree=tree, spans=spans)


def _band_cell(
    con: duckdb.DuckDBPyConnection,
    at: int,
    column: tuple[str, str],
    columns: Mapping[str, str],
    label: str,
    release: str,
) -> Cell:
    """The cell of a quasi-identifier that is released as labels of bands. Raises InvalidInput for other labels."""
    name, kind = column
    shown, ends = (
        identifier(label),
        ["DATE"] if is_date(kind) else ["BIGINT", "DECIMAL(38, 9)"] if is_number(kind) else [],
    )
    for end in ends if columns[label] == "VARCHAR" else []:
        sides = (f"system.main.regexp_extract({shown}, {BAND}, {at})" for at in (1, 2))
        test = " AND ".join(f"({side} = '' OR TRY_CAST({side} AS {end}) IS NOT NULL)" for side in sides)
        fine = f"{shown} IS NULL OR {shown} = {literal(ROOT)} OR system.main.regexp_matches({shown}, {BAND}) AND {test}"
        ((strange,),) = con.execute(f"SELECT system.main.count(*) FROM {release} WHERE NOT ({fine})").fetchall()
        if not strange:
            return _BandCell(name, kind, (label,), (f"k{at}_0",), end=end)
    raise InvalidInput(
        f'Nothing in the release says for which values the labels of "{name}" stand: name the table of their '
        f"hierarchy, which must be open, as in hierarchies := {{{literal(name)}: 'levels'}}."
    )
