"""Whether a file may hold a release of a protected table, by the names of its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from duckanon.catalog.names import fold
from duckanon.integrations.copied_columns import ENDS
from duckanon.integrations.translations import gettext as _


@dataclass(frozen=True)
class AuditedTables:
    """protected: the columns of the protected tables, whose releases are audited. others: those of all other tables."""

    protected: Collection[str]
    others: Collection[str]

    @classmethod
    def of(cls, tables: Mapping[str, Sequence[str]], protected: Collection[str]) -> Self:
        """tables: the columns of all tables of a database, by their labels. protected: labels."""
        named = {fold(name) for name in protected}
        sets: tuple[set[str], set[str]] = (set(), set())
        for label, columns in tables.items():
            sets[fold(label) not in named].update(map(fold, columns))
        return cls(*sets)

    def has_made(self, columns: Sequence[str]) -> bool:
        """Whether a release with such columns may be of a protected table: it has a column of one, or of no table."""
        names = {fold(name) for name in columns}
        names |= {name.rpartition("_")[0] for name in names if name.rpartition("_")[2] in ENDS}
        if names & set(self.protected):
            return True
        return bool(self.protected) and not names & set(self.others)


def unseen() -> str:
    """What to do about a file of a protected table that is no publication."""
    return _("No publication is equal to it, so no audit has seen it: publish it, or leave it out.")
