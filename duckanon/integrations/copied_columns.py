"""The columns that a k-anonymous table has as they were, and those of them that could identify a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import identifier, literal

# A column with more distinct values than this share of its values is almost an identifier.
_NEAR_UNIQUE = 0.9


def generalised(columns: Sequence[str]) -> list[str]:
    """The columns that k_anonymize made from quasi-identifiers: `age_lo` with `age_hi`, `zip_set`, `zip_label`."""
    names = {name.lower() for name in columns}

    def made(name: str) -> bool:
        base, _, end = name.lower().rpartition("_")
        other = {"lo": "hi", "hi": "lo"}.get(end)
        return end in ("set", "label") or f"{base}_{other}" in names

    return [name for name in columns if made(name)]


@dataclass(frozen=True)
class Copied:
    """The columns of a release that are copied as they are. near_unique: those that could identify on their own."""

    names: Sequence[str]
    near_unique: Sequence[str]

    @classmethod
    def of(cls, con: Any, table: str, made: Sequence[str] | None = None) -> Copied:
        """Those of a result of k_anonymize. con: a DuckDB connection. table: the result, as SQL reads it.

        made: the columns that stand for quasi-identifiers, if they are known; else their names tell. Raises
        duckdb.Error.
        """
        described = con.execute(f"SELECT column_name FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608 - quoted
        columns = [name for (name,) in described]
        changed = {name.lower() for name in (generalised(columns) if made is None else made)} | {"class_id"}
        names = [name for name in columns if name.lower() not in changed]
        if not names:
            return cls([], [])
        count = "system.main.count"
        shares = (f"{count}(DISTINCT {one}) > {_NEAR_UNIQUE} * {count}({one})" for one in map(identifier, names))
        (found,) = con.execute(f"SELECT {', '.join(shares)} FROM {table}").fetchall()  # noqa: S608
        return cls(names, [name for name, is_one in zip(names, found, strict=True) if is_one])

    @property
    def sentences(self) -> str:
        """What to know about them before the release goes out."""
        if not self.names:
            return "No column is copied as it is."
        told = f"Copied as they are: {', '.join(self.names)}."
        if self.near_unique:
            several = len(self.near_unique) > 1
            listed = ", ".join(map(literal, self.near_unique))
            told += (
                f" Almost every record has a value of its own in {', '.join(self.near_unique)}: whoever knows "
                f"{'these values' if several else 'this value'} finds the record. Leave {'them' if several else 'it'} "
                f"out with drop := [{listed}]."
            )
        return told
