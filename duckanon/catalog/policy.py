"""A table's policy, as a steward sets it: governance stores it, and the rules read it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from duckanon.accounting import epsilon, written
from duckanon.catalog.domain_sources import DomainSource, Range, of_plain, plain
from duckanon.catalog.names import TableName, fold
from duckanon.renyi import delta

# The largest bound of a column: up to it a DOUBLE holds all whole numbers, and their sums stay below 64 bits.
LARGEST_BOUND = 10**15
# The column that a linked table's records get when their owners are looked up. No table has it of its own.
OWNER = "duckanon.unit"


@dataclass(frozen=True)
class Domain:
    """The values by which a column may be grouped, copied when the policy was set.

    table: the copy's name in the schema duckanon. columns: of the copy, named as in the protected table; a domain with
    several columns lists their combinations. checked: whether its values were known to be of the column's type, which
    earlier versions did not look at.
    """

    table: str
    columns: tuple[str, ...]
    checked: bool = False
    # Of a domain that is an open table itself: its full name, and its columns in the order of `columns`, whose names
    # may differ. nullable: whether NULL is a value beside those listed.
    path: tuple[str, str, str] | None = None
    listed: tuple[str, ...] = ()
    nullable: bool = False
    # Of a copy of an open table: its schema and name, folded, and its columns in the order of `columns`. None: it is a
    # list, or an earlier version made it.
    copied: tuple[tuple[str, str], tuple[str, ...]] | None = None
    # Whether the values are found with noise. Then the table is the answer that has them; empty while there is none.
    found: bool = False
    # The values as SQL, where no table lists them.
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """How a record finds the one record of a parent table whose owner is its own.

    columns: of the linked table. parent: folded; its catalog is empty in the ledger. parent_columns: in the order of
    `columns`, a key of the parent. All are spelled as the tables have them.
    """

    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]


@dataclass(frozen=True)
class UnitColumn:
    """The column that identifies the privacy unit of a table's records.

    records: of a linked table, a query for its records with that column; empty where the table has it.
    """

    name: str
    records: str = ""


@dataclass(frozen=True)
class Policy:
    """The policy of a protected table. Columns are spelled as the steward wrote them.

    epsilon: the whole budget of its population. delta: of a population that has one; None: its answers are purely
    differentially private. population: the name of the budget that it spends. privacy_unit: the
    column that identifies a privacy unit; None: each record is one; `OWNER` for a linked table, whose records have that
    column once their owners are looked up. link: by its own columns the parent's columns, as the steward wrote them.
    links, owner: what governance made of that: the link to the parent table (none or one), and the unit in words, as in
    `main.orders.o_custkey by l_orderkey`. rows_per_unit: how many records of one unit count
    in a release with noise; None: the default, one. unit: the column whose values are groups. hierarchy: region
    columns, the widest first. per_query: the most that one release may cost; None: there are no releases with noise.
    per_edition: the most that the population may spend in one edition; None: no cap. max_size: larger groups count as
    groups of this size. public: columns by which an analyst may count. domains: the values by which a column may be
    grouped. bounds: the least and the largest value of a column, and a step if there is one. quasi_identifiers, k:
    columns that a k-anonymous copy generalises, and the least number of privacy units in a class. sensitive: columns
    that such a copy may show unchanged. drop: columns that no release shows. small: counts from 1 to small - 1 must not
    follow from what is published.
    """

    epsilon: Fraction
    population: str = ""
    privacy_unit: str | None = None
    link: Mapping[str, str] = field(default_factory=dict)
    rows_per_unit: int | None = None
    unit: str | None = None
    hierarchy: tuple[str, ...] = ()
    max_size: int | None = None
    per_query: Fraction | None = None
    per_edition: Fraction | None = None
    public: tuple[str, ...] = ()
    domains: Mapping[str, DomainSource] = field(default_factory=dict)
    bounds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quasi_identifiers: tuple[str, ...] = ()
    k: int = 5
    sensitive: tuple[str, ...] = ()
    small: int = 5
    drop: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    owner: str | None = None
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        if self.link and self.privacy_unit is None:
            object.__setattr__(self, "privacy_unit", OWNER)

    @property
    def is_linked(self) -> bool:
        """Whether a record's unit is the owner of a record of another table."""
        return bool(self.link)

    def moments(self, column: str) -> tuple[str, ...] | None:
        """The first and the last moment of a column of dates or timestamps: its bounds, or those of a listed domain."""
        declared = {fold(name): bound for name, bound in self.bounds.items()}.get(fold(column))
        if declared is not None:
            return declared
        listed = {fold(name): domain for name, domain in self.domains.items()}.get(fold(column))
        values = listed.ends if isinstance(listed, Range) else listed if isinstance(listed, tuple) else ()
        values = tuple(value for value in values if value is not None)
        return (str(min(values)), str(max(values))) if values else None

    @property
    def unit_in_words(self) -> str | None:
        """The privacy unit as people are told of it; None: each record is one."""
        return self.owner or "the owner by links" if self.is_linked else self.privacy_unit

    def declaring(self, column: str) -> str | None:
        """The column of a table for which bounds of a column here would be declared; None if there is none."""
        return column

    @property
    def declared(self) -> Policy:
        """The policy as the steward declared it, without what governance made of its link."""
        return replace(self, links=(), owner=None)

    @property
    def contributions(self) -> int:
        """How many records of one privacy unit count in a release with noise, at most."""
        return 1 if self.privacy_unit is None else self.rows_per_unit or 1

    @property
    def unit_is_group(self) -> bool:
        """Whether the privacy unit is the group whose size is counted, such as a household."""
        same = self.unit is not None and self.privacy_unit is not None
        return same and fold(self.unit or "") == fold(self.privacy_unit or "")

    @property
    def protects(self) -> str:
        """A text that says what one charge protects."""
        if self.privacy_unit is None:
            return "one record"
        return f"all records of one {self.unit_in_words} (a sample of {self.contributions} counts)"

    @property
    def publishable(self) -> frozenset[str]:
        """The columns, folded, by which tables of counts and shares may be published."""
        public = (*self.public, *self.hierarchy, *self.quasi_identifiers, *self.sensitive)
        hidden = (*self.drop, *(text for text in (self.unit, self.privacy_unit) if text is not None))
        return frozenset(map(fold, public)) - frozenset(map(fold, hidden))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the policy names, each once."""
        own = None if self.is_linked else self.privacy_unit
        single = [text for text in (own, self.unit) if text is not None]
        lists = [name for one in LISTS for name in getattr(self, one)]
        return tuple(dict.fromkeys([*single, *self.link, *lists, *self.domains, *self.bounds]))

    def dump(self) -> dict[str, Any]:
        """The policy as plain values for JSON, with exact amounts. Fields that have their default are left out."""
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "links" or (one.name == "privacy_unit" and self.is_linked):
                continue
            if one.name in _ALWAYS or value != (one.default if one.name not in _MAPPINGS else {}):
                found[one.name] = written(value) if isinstance(value, Fraction) else _plain(value)
        if self.links:
            found["links"] = [
                [link.columns, [link.parent.schema, link.parent.object], link.parent_columns] for link in self.links
            ]
        return found

    @staticmethod
    def load(found: Mapping[str, Any]) -> Policy:
        """The policy that `dump` wrote."""
        given: dict[str, Any] = dict(found)
        for name in _AMOUNTS:
            if given.get(name) is not None:
                given[name] = epsilon(given[name], name)
        if given.get("delta") is not None:
            given["delta"] = delta(given["delta"])
        for name in LISTS:
            if name in given:
                given[name] = tuple(given[name])
        for name in _MAPPINGS:
            given[name] = {key: of_plain(value) for key, value in given.get(name, {}).items()}
        given["links"] = tuple(
            Link(tuple(columns), TableName("", *parent), tuple(theirs))
            for columns, parent, theirs in given.get("links", ())
        )
        return Policy(**given)

    def __str__(self) -> str:
        return json.dumps(self.dump(), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return list(value) if isinstance(value, tuple) else plain(value)


# Fields of a policy that are shown, and written to a file, as they are.
AS_THEY_ARE = (
    "rows_per_unit",
    "unit",
    "hierarchy",
    "max_size",
    "public",
    "quasi_identifiers",
    "k",
    "sensitive",
    "small",
    "drop",
)
LISTS = ("hierarchy", "public", "quasi_identifiers", "sensitive", "drop")
_AMOUNTS = ("epsilon", "per_query", "per_edition")
_MAPPINGS = ("link", "domains", "bounds")
_ALWAYS = ("epsilon", "population")


# Strings and quoted names of a CREATE TABLE statement.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_COLLATE = re.compile(r"\bCOLLATE\b", re.IGNORECASE)
# What a table cannot have that is protected.
_UNFIT = (
    (
        re.compile(r"\bGENERATED\s+ALWAYS\s+AS\b", re.IGNORECASE),
        "has a generated column, which may fail on a record, and that would tell about it: make the table with a "
        "column of values in its place.",
    ),
    (
        _COLLATE,
        "has a column with COLLATE, under which a record may have two keys: make the table without it.",
    ),
)


def collates(sql: str) -> bool:
    """Whether a table has a column with a collation, by the statement that made it."""
    return _COLLATE.search(_QUOTED.sub(" ", sql)) is not None


def obstacle(sql: str) -> str | None:
    """Why a table cannot be protected, by the statement that made it; None if it can."""
    bare = _QUOTED.sub(" ", sql)
    return next((why for found, why in _UNFIT if found.search(bare)), None)
