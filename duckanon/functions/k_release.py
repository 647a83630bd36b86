"""The query of a k-anonymous release: what k_anonymize and its coarser releases have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duckanon.catalog.names import fold
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.sqltext import (
    LABEL,
    NUMBER,
    RESERVED_NAMES,
    ROW,
    absent,
    fill,
    identifier,
    literal,
    literals,
    packed,
)

# The handle of the collection that keeps the rows' labels, -1 for a row that is dropped.
CLASSES = "BIGINT"


def _label(scans: int) -> str:
    """SQL: the label of each row. scans: how often the query asks for that of every row."""
    return f"system.main._dk_label((SELECT labels FROM _dk_answered), {ROW}.{NUMBER}, {scans})"


def _in_order(cell: Sequence[str]) -> str:
    """Sort keys under which two cells tie only if they are the same."""
    keys = [identifier(name) for name in cell]
    if len(keys) == 1:
        keys.append(f"_dk_bytes({keys[0]})")
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


@dataclass(frozen=True)
class Cell:
    """What is released of one quasi-identifier. names: of its columns; a set has one, an interval two.

    values: the columns of the source that it stands for, the same one twice or the ends of an earlier interval.
    """

    names: Sequence[str]
    values: Sequence[str]

    @staticmethod
    def of(name: str, *, categorical: bool) -> Cell:
        """The cell of a column of the table."""
        return Cell([f"{name}_set"], [name]) if categorical else Cell([f"{name}_lo", f"{name}_hi"], [name, name])

    @staticmethod
    def over(name: str, *, categorical: bool) -> Cell:
        """The cell of a coarser release over that of an earlier one."""
        names = Cell.of(name, categorical=categorical).names
        return Cell(names, names)

    @property
    def again(self) -> bool:
        """Whether it covers cells of an earlier release instead of values."""
        return list(self.names) == list(self.values)

    def aggregate(self) -> str:
        """Its columns, from the records of a class."""
        ends = [identifier(name) for name in self.names]
        values = [f"{ROW}.{identifier(name)}" for name in self.values]
        if len(ends) == 1:
            return f"{'_dk_union' if self.again else '_dk_set'}({values[0]}) AS {ends[0]}"
        return f"_dk_lowest({values[0]}) AS {ends[0]}, _dk_highest({values[1]}) AS {ends[1]}"

    def holds(self) -> str:
        """Whether a record's value, or the cell it had, lies inside."""
        ends = [f"_dk_classes.{identifier(name)}" for name in self.names]
        values = [f"{ROW}.{identifier(name)}" for name in self.values]
        if len(ends) == 1:
            test = "list_has_all" if self.again else "list_contains"
            return f"({ends[0]} IS NULL OR system.main.{test}({ends[0]}, {values[0]}))"
        return (
            f"({ends[0]} IS NULL AND {ends[1]} IS NULL OR {values[0]} BETWEEN {ends[0]} AND {ends[1]} "
            f"AND {values[1]} BETWEEN {ends[0]} AND {ends[1]})"
        )


def write(
    source: str,
    cells: Sequence[Cell],
    k: int,
    criteria: Criteria,
    *,
    dropped: Sequence[str],
    replaced: Sequence[str],
    problem: str,
    collected: str,
    classes: str,
    suppressed: str | None = None,
) -> str:
    """The query that releases the rows of `source` in the classes that the call `classes` finds.

    dropped, replaced: columns that are not released, and those for which the cells stand. collected: an aggregate over
    the rows, which `classes` is called with under this name. suppressed: how many of the `records` of `source` may be
    dropped, if that is not a share of them.
    """
    names = [name for cell in cells for name in cell.names]
    hidden, unit = packed(criteria.columns), criteria.unit
    # The unit is counted before it is dropped.
    only_counted = [name for name in dropped if unit is not None and fold(name) == fold(unit)]
    dropped = [name for name in dropped if name not in only_counted]
    classes_of = f"_dk_labelled AS {ROW} JOIN _dk_classes USING ({LABEL})"
    return fill(
        "k_anonymize",
        table=literal(source),
        absent=absent([*replaced, *dropped, *criteria.columns]),
        taken=f"* EXCLUDE ({', '.join(identifier(name) for name in [*dropped, *RESERVED_NAMES])})",
        problem=problem,
        collected=collected,
        classes=classes,
        # For the cells and for the release; where they are asked for, for units and for sensitive columns.
        label=_label(2 + bool(criteria.sensitive) + (unit is not None)),
        smallest=criteria.smallest(classes_of),
        unmet=criteria.unmet(
            f"(SELECT {hidden} AS members FROM {classes_of} WHERE _dk_classes.class_id IS NOT NULL "
            "GROUP BY _dk_classes.class_id)"
        ),
        suppressed=suppressed or criteria.allowed("records"),
        cells=", ".join(cell.aggregate() for cell in cells),
        released=", ".join(f"_dk_classes.{identifier(name)}" for name in names),
        released_in_order=", ".join(_in_order(cell.names) for cell in cells),
        within=" AND ".join(cell.holds() for cell in cells),
        k=str(k),
        kept=", ".join(identifier(name) for name in [*replaced, *only_counted]),
        hidden=literals(names),
    )
