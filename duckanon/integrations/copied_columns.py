"""The columns that a k-anonymous table has as they were, and those of them that could identify a record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.types import WHOLE
from duckanon.integrations.translations import gettext as _
from duckanon.integrations.translations import ngettext

# A column with more distinct values than this share of its values is almost an identifier.
_NEAR_UNIQUE = 0.9
# A column of whole numbers or text looks like the number of a household or patient if it has this many values or more,
# and few records share one: from and to so many on average, and at most so many.
_LEAST_VALUES, _ON_AVERAGE, _FEW_AT_MOST = 20, (1.15, 8), 30
_KEYS = {"VARCHAR", "UUID", *WHOLE} - {"TINYINT", "UTINYINT"}

_OF_VALUES = ("mean", "median", "mode")
# What k_anonymize puts behind the name of a quasi-identifier.
ENDS = ("lo", "hi", "set", "label", *_OF_VALUES)


def generalised(columns: Sequence[str]) -> list[str]:
    """The columns that k_anonymize made from quasi-identifiers: `age_lo` with `age_hi`, `zip_set`, `zip_label`.

    Of a table of classes without such columns `age_mean`, `age_median` and `zip_mode`: no release has both.
    """
    names = {name.lower() for name in columns}

    def covers(name: str) -> bool:
        base, _, end = name.lower().rpartition("_")
        other = {"lo": "hi", "hi": "lo"}.get(end)
        return end in ("set", "label") or f"{base}_{other}" in names

    found = [name for name in columns if covers(name)]
    if found or "class_id" not in names:
        return found
    return [name for name in columns if name.lower().rpartition("_")[2] in _OF_VALUES and "_" in name]


@dataclass(frozen=True)
class Copied:
    """The columns of a release that are copied as they are. near_unique: those that could identify on their own.

    units: those that name a privacy unit, and link its records: a value of theirs has several. linking: others that
    look as if they did the same.
    """

    names: Sequence[str]
    near_unique: Sequence[str]
    units: Sequence[str] = ()
    linking: Sequence[str] = ()

    @classmethod
    def of(cls, con: Any, table: str, made: Sequence[str] | None = None, units: Collection[str] = ()) -> Copied:
        """Those of a result of k_anonymize. con: a DuckDB connection. table: the result, as SQL reads it.

        made: the columns that stand for quasi-identifiers, if they are known; else their names tell. units: columns
        that name a privacy unit, wherever they occur. Raises duckdb.Error.
        """
        described = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608 - quoted
        kinds = dict(described)
        changed = {fold(name) for name in (generalised(list(kinds)) if made is None else made)} | {"class_id"}
        names = [name for name in kinds if fold(name) not in changed]
        if not names:
            return cls([], [])
        figures = ", ".join(_figures(name) for name in names)
        (found,) = con.execute(f"SELECT {figures} FROM {table}").fetchall()  # noqa: S608
        of = dict(zip(names, found, strict=True))
        near = [name for name in names if of[name]["different"] > _NEAR_UNIQUE * of[name]["given"]]
        named = {fold(name) for name in units}
        several = [name for name in names if of[name]["different"] < of[name]["given"]]
        known = [name for name in several if fold(name) in named]
        alike = [name for name in several if name not in [*near, *known] and kinds[name] in _KEYS]
        guessed = [name for name in alike if _few_share(con, table, name, of[name])]
        return cls(names, near, known, guessed)

    @property
    def identifying(self) -> list[str]:
        """Those by which a record or a unit is found: their distribution tells nothing of use."""
        return [*self.near_unique, *self.units, *self.linking]

    @property
    def warns(self) -> bool:
        """Whether one of them may undo what the classes promise."""
        return bool(self.near_unique or self.units or self.linking)

    @property
    def sentences(self) -> str:
        """What to know about them before the release goes out."""
        if not self.names:
            return "No column is copied as it is."
        text = f"Copied as they are: {', '.join(self.names)}."
        if self.near_unique:
            several = len(self.near_unique) > 1
            text += (
                f" Almost every record has a value of its own in {', '.join(self.near_unique)}: whoever knows "
                f"{'these values' if several else 'this value'} finds the record. {self._way_out(self.near_unique)}"
            )
        return " ".join([text, *self.links])

    @property
    def links(self) -> list[str]:
        """What columns that link records undo, a sentence each, with the way out."""
        links = _(
            "{name} links the records of each {name}, also where its values were made for this release: k holds for "
            "each record, and does not hold for {name}, since whoever knows all records of one can find it by them."
        )
        texts = [f"{links.format(name=name)} {self._way_out([name])}" for name in self.units]
        if self.linking:
            text = ngettext(
                "A few records share each value of {columns}: if it links the records of a person or household, k does "
                "not hold for these.",
                "A few records share each value of {columns}: if they link the records of a person or household, k "
                "does not hold for these.",
                len(self.linking),
            )
            texts.append(f"{text.format(columns=', '.join(self.linking))} {self._way_out(self.linking)}")
        return texts

    @staticmethod
    def _way_out(names: Sequence[str]) -> str:
        text = ngettext("Leave it out with drop := [{names}].", "Leave them out with drop := [{names}].", len(names))
        return text.format(names=", ".join(map(literal, names)))


def _figures(name: str) -> str:
    """SQL: how many values a column has, and how many different ones."""
    count, one = "system.main.count", identifier(name)
    return f"{{'given': {count}({one}), 'different': {count}(DISTINCT {one})}}"


def _few_share(con: Any, table: str, name: str, figures: Mapping[str, int]) -> bool:
    """Whether few records share each value of a column. figures: of `_figures`."""
    few, many = _ON_AVERAGE
    if figures["different"] < _LEAST_VALUES or not few <= figures["given"] / figures["different"] <= many:
        return False
    one = identifier(name)
    ((most,),) = con.execute(
        f"SELECT system.main.max(records) FROM (SELECT system.main.count({one}) AS records FROM {table} GROUP BY {one})"  # noqa: S608
    ).fetchall()
    return bool(most <= _FEW_AT_MOST)
