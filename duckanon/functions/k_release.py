"""The query of a k-anonymous release: what k_anonymize and its coarser releases have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duckanon.catalog.names import fold, identifier, literal
from duckanon.functions.earlier_cells import EarlierCells
from duckanon.functions.generalisation import Generalisation
from duckanon.functions.k_cells import Cell
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.sqltext import (
    LABEL,
    NUMBER,
    PLACES,
    RESERVED_NAMES,
    ROW,
    absent,
    as_bytes,
    fill,
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
        keys.append(as_bytes(keys[0]))
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of the rows of `source` in the classes that the call `classes` finds.

    dropped, replaced: columns that are not released, and those for which the cells stand. collected: an aggregate over
    the rows, which `classes` is called with under this name. suppressed: how many of the `records` of `source` may be
    dropped, if that is not a share of them. how: the bands and hierarchies of the cells.
    levels: the levels of the columns, after the engine's answer, or nothing. smallest: SQL of the k of the release from
    its rows with their classes, where that is not the size of the smallest class.
    """

    source: str
    cells: Sequence[Cell]
    k: int
    criteria: Criteria
    dropped: Sequence[str]
    replaced: Sequence[str]
    problem: str
    collected: str
    classes: str
    suppressed: str | None = None
    how: Generalisation | EarlierCells | None = None
    levels: str = ""
    smallest: Callable[[str], str] | None = None

    @property
    def query(self) -> str:
        """The query that makes it."""
        names = [name for cell in self.cells for name in cell.names]
        shown = [column for cell in self.cells for column in cell.shown]
        places = "" if self.how is None else self.how.places
        criteria, hidden = self.criteria, packed(self.criteria.columns)
        dropped = [name for name in self.dropped if name not in self._only_counted]
        classes_of = f"_dk_labelled AS {ROW} JOIN _dk_classes USING ({LABEL})"
        return fill(
            "k_anonymize",
            table=literal(self.source),
            absent=absent([*self.replaced, *dropped, *criteria.columns]),
            taken=f"* EXCLUDE ({', '.join(identifier(name) for name in [*dropped, *RESERVED_NAMES])})",
            problem=self.problem,
            collected=self.collected,
            classes=self.classes,
            # For the cells and for the release; where asked for, for units, for sensitive columns and for `smallest`.
            label=_label(2 + bool(criteria.sensitive) + (criteria.unit is not None) + (self.smallest is not None)),
            smallest=self.smallest(classes_of) if self.smallest is not None else criteria.smallest(classes_of),
            unmet=criteria.unmet(
                f"(SELECT {hidden} AS members FROM {classes_of} WHERE _dk_classes.class_id IS NOT NULL "
                "GROUP BY _dk_classes.class_id)"
            ),
            suppressed=self.suppressed or criteria.allowed("records"),
            trees="" if self.how is None else self.how.trees,
            joined="" if self.how is None else self.how.joined,
            found="".join(cell.joins for cell in self.cells),
            levels=self.levels,
            places=places,
            cells=", ".join(cell.aggregate() for cell in self.cells),
            shown=f" REPLACE ({', '.join(shown)})" if shown else "",
            released=", ".join(f"_dk_classes.{identifier(name)}" for name in names),
            released_in_order=", ".join(_in_order(cell.names) for cell in self.cells),
            within=" AND ".join(cell.holds() for cell in self.cells),
            k=str(self.k),
            kept=", ".join([*map(identifier, [*self.replaced, *self._only_counted]), *([PLACES] if places else [])]),
            hidden=literals(names),
        )

    @property
    def _only_counted(self) -> list[str]:
        """The unit's column, if it is dropped: it is counted before."""
        unit = self.criteria.unit
        return [name for name in self.dropped if unit is not None and fold(name) == fold(unit)]
