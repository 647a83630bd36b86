"""The database as the guard sees it while it decides about one statement: a snapshot of public facts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from duckanon.catalog.names import TableName, candidates, fold, identifier
from duckanon.catalog.policy import OWNER, Domain, Policy
from duckanon.renyi import Renyi

SCHEMA = "duckanon"


@dataclass(frozen=True)
class Stored:
    """A table. columns: their names as stored, and their types as DuckDB writes them, '' where a type is not known.

    path: its full name as stored; empty for a table that is known from SQL text alone. keys: sets of folded columns
    that no two rows share. unique: as `keys`, by what DuckDB enforces, which lets rows
    share NULL. required: the folded columns in which DuckDB lets no row have NULL. complete: whether those are all
    columns. collates: whether some column has a collation of its own, under which different texts can be equal.
    """

    path: tuple[str, str, str] = ("", "", "")
    columns: Mapping[str, str] = field(default_factory=dict)
    temporary: bool = False
    keys: tuple[frozenset[str], ...] = ()
    unique: tuple[frozenset[str], ...] = ()
    complete: bool = True
    collates: bool = False
    required: frozenset[str] = frozenset()

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The columns' types by folded name."""
        return {fold(name): kind for name, kind in self.columns.items()}


@dataclass(frozen=True)
class View:
    """A view: its full name as stored, the statement that made it or its query, and the names of its columns.

    No columns: those of the query, or those that the statement lists. types: of the columns by name, where they are
    known. own: whether it is an analyst's temporary view, which reads what the analyst may read.
    """

    path: tuple[str, str, str] = ("", "", "")
    sql: str = ""
    columns: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    own: bool = False


@dataclass(frozen=True)
class Macro:
    """A macro that a user defined. home: its catalog and schema. parameters: folded, in order. body: its SQL."""

    name: str
    home: tuple[str, str]
    parameters: tuple[str, ...]
    body: str
    is_table: bool = False


@dataclass(frozen=True)
class Home:
    """Where a steward's view or macro stands: in it names are looked up here, and never among temporary tables.

    catalog, schema: folded. reads_closed: whether it reads closed tables, as an open view does.
    """

    catalog: str
    schema: str
    reads_closed: bool = False


@dataclass(frozen=True)
class Owned:
    """How the records of a linked table get their owner: as `r` they are joined with the tables above, up to the owner.

    table, above: the table, and the one that it is linked to, as SQL names them. joins: what stands after each JOIN.
    owner: the unit's column in the last of them. by: the record's own columns that decide whose it is, where these are
    grouped alike in every collation; else empty.
    """

    table: str
    above: str
    joins: tuple[str, ...]
    owner: str
    by: tuple[str, ...]

    def records(self, *, orphans: bool = False) -> str:
        """A query for the records, whose owner the column `OWNER` holds.

        orphans: whether records without an owner come too, with NULL for it.
        """
        shown = f"r.*, {self.owner} AS {identifier(OWNER)}"
        query = f"SELECT {shown} FROM {self.joined(self.table, orphans=orphans)}"
        return query if orphans else f"{query} WHERE {self.owner} IS NOT NULL"

    def joined(self, records: str, *, orphans: bool = False) -> str:
        """What stands after FROM to join records, which have the columns `by`, with the tables above."""
        return f" {'LEFT ' if orphans else ''}JOIN ".join([f"{records} AS r", *self.joins])


@dataclass(frozen=True)
class Protected:
    """A table with a policy. stored: None if the table is gone.

    version: of the policy; of a linked table, of the newest one on the way to its unit's column. edition: the
    population's current one. remaining: what is left of its budget. left_in_edition: what may be spent yet in the
    edition; None if that has no cap. domains: the copies of the columns' domains, by folded column. severed: whether
    the owners of a linked table's records cannot be looked up any more. owned: of a linked table, how its records get
    their owners; None for others. renyi: how the population accounts if it has a delta. finders: of what is computed
    within each unit, for a folded column whose values are found with noise, the table that finds them, and the column
    there. changed: the number of the newest line of the ledger that changed a policy in place, of any table.
    """

    policy: Policy
    stored: Stored | None = None
    version: int = 0
    edition: int = 1
    remaining: Fraction = Fraction(0)
    left_in_edition: Fraction | None = None
    domains: Mapping[str, Domain] = field(default_factory=dict)
    severed: bool = False
    owned: Owned | None = None
    renyi: Renyi | None = None
    finders: Mapping[str, tuple[Protected, str]] = field(default_factory=dict)
    changed: int = 0

    @property
    def total(self) -> Fraction:
        """The whole budget of its population, in the unit of its ledger."""
        return self.policy.epsilon if self.renyi is None else self.renyi.capacity

    @property
    def stands(self) -> bool:
        """Whether the table exists with every column that its policy names, and with the owners of its records.

        If not, the policy cannot be applied.
        """
        if self.severed:
            return False
        return self.stored is not None and {fold(name) for name in self.policy.columns} <= set(self.stored.types)


@dataclass(frozen=True)
class Catalog:
    """What an analyst may see, by full and folded names.

    search: the catalogs and schemas in which a name is looked up, in order. tables: open tables, publications and the
    analyst's own temporary tables. views: open views. protected: tables with a policy. behind: closed tables and views,
    which an analyst reaches through open views only. macros: folded names of all macros that users defined.
    definitions: the macros whose name is defined only once.
    """

    search: Sequence[tuple[str, str]] = (("memory", "main"),)
    tables: Mapping[TableName, Stored] = field(default_factory=dict)
    views: Mapping[TableName, View] = field(default_factory=dict)
    protected: Mapping[TableName, Protected] = field(default_factory=dict)
    behind: Mapping[TableName, Stored | View] = field(default_factory=dict)
    macros: frozenset[str] = frozenset()
    definitions: Mapping[str, Macro] = field(default_factory=dict)

    def find(self, written: TableName, home: Home | None = None) -> TableName | None:
        """The table or view that a name means, looked up in DuckDB's order; None if an analyst may see none of that
        name.

        home: of the steward's view or macro in which the name is written, if it is written in one.
        """
        # Publications are found by their bare names, after everything else.
        search = [*self.search, *dict.fromkeys((catalog, SCHEMA) for catalog, _ in self.search)]
        for name in candidates(written, search, None if home is None else (home.catalog, home.schema)):
            if self.is_seen(name):
                return name
            if home is not None and home.reads_closed and name in self.behind:
                return name
        return None

    def is_seen(self, name: TableName) -> bool:
        """Whether an analyst sees what has that full name, and does not only reach it through an open view."""
        return name in self.tables or name in self.views or name in self.protected

    def stored(self, name: TableName) -> Stored | None:
        """The table of that full name, protected or not."""
        if name in self.protected:
            return self.protected[name].stored
        table = self.tables.get(name) or self.behind.get(name)
        return table if isinstance(table, Stored) else None

    @property
    def objects(self) -> frozenset[str]:
        """The folded names, without catalog and schema, of all tables and views that may be seen."""
        return frozenset(name.object for names in (self.tables, self.views, self.protected) for name in names)
