"""What the guard knows of the database while it decides about one statement: a snapshot, made of public facts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from duckanon.catalog.names import TableName, candidates, fold
from duckanon.catalog.policy import Domain, Policy

SCHEMA = "duckanon"


@dataclass(frozen=True)
class Stored:
    """A table. columns: their names as stored, and their types as DuckDB writes them, '' where a type is not known.

    path: its full name as stored; empty where a text alone describes it. keys: sets of folded columns that no two rows
    share. complete: whether those are all columns.
    """

    path: tuple[str, str, str] = ("", "", "")
    columns: Mapping[str, str] = field(default_factory=dict)
    temporary: bool = False
    keys: tuple[frozenset[str], ...] = ()
    complete: bool = True

    @property
    def types(self) -> dict[str, str]:
        """The columns' types by folded name."""
        return {fold(name): kind for name, kind in self.columns.items()}


@dataclass(frozen=True)
class View:
    """A view: its full name as stored, the statement that made it or its query, and the names of its columns.

    No columns: those of the query, or those that the statement lists.
    """

    path: tuple[str, str, str] = ("", "", "")
    sql: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Macro:
    """A macro that somebody defined: where, its parameters in order and folded, and what stands behind it."""

    name: str
    home: tuple[str, str]
    parameters: tuple[str, ...]
    body: str
    is_table: bool = False


@dataclass(frozen=True)
class Protected:
    """A table with a policy. stored: None where the table is gone.

    version: of the policy. edition: of its population. remaining: of the population's budget. domains: the copies that
    keys come from, by folded column.
    """

    policy: Policy
    stored: Stored | None = None
    version: int = 0
    edition: int = 1
    remaining: Fraction = Fraction(0)
    domains: Mapping[str, Domain] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """Whether the table is there with every column that its policy names. Else no rule of the policy is sure."""
        return self.stored is not None and {fold(name) for name in self.policy.columns} <= set(self.stored.types)


@dataclass(frozen=True)
class Catalog:
    """What an analyst may see, by full names with letters folded.

    search: catalogs and schemas in which a name is looked for, in order. tables: open tables, publications and the
    analyst's own temporary ones. views: open ones. protected: tables with a policy. behind: what open views may read
    besides, which nobody else may. macros: folded names of all macros that somebody defined; duckanon's own are not
    among them. definitions: those of them that have one meaning.
    """

    search: Sequence[tuple[str, str]] = (("memory", "main"),)
    tables: Mapping[TableName, Stored] = field(default_factory=dict)
    views: Mapping[TableName, View] = field(default_factory=dict)
    protected: Mapping[TableName, Protected] = field(default_factory=dict)
    behind: Mapping[TableName, Stored | View] = field(default_factory=dict)
    macros: frozenset[str] = frozenset()
    definitions: Mapping[str, Macro] = field(default_factory=dict)

    def find(self, written: TableName, home: tuple[str, str] | None = None) -> TableName | None:
        """The table or view that a name means, looked for in DuckDB's order; None if there is none to be seen.

        home: the catalog and schema of the open view in which the name is written.
        """
        # A publication is found by its own name, last.
        search = [*self.search, *dict.fromkeys((catalog, SCHEMA) for catalog, _ in self.search)]
        for name in candidates(written, search, home):
            if name in self.tables or name in self.views or name in self.protected:
                return name
            if home is not None and name in self.behind:
                return name
        return None

    def stored(self, name: TableName) -> Stored | None:
        """The table of that full name, protected or not."""
        if name in self.protected:
            return self.protected[name].stored
        found = self.tables.get(name) or self.behind.get(name)
        return found if isinstance(found, Stored) else None

    @property
    def objects(self) -> frozenset[str]:
        """The folded last names of all that may be seen."""
        return frozenset(name.object for names in (self.tables, self.views, self.protected) for name in names)
