"""Questions that are paid for, as data: all that an answer depends on besides the records and the noise.

A question is resolved: names are full, constants are typed, `current_date` is written out. Its key does not hold the
database's name, which changes when a file is renamed or copied.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

from duckanon.accounting import Charge, written
from duckanon.catalog.names import fold
from duckanon.catalog.reader import text_for_enum
from duckanon.catalog.snapshot import Protected
from duckanon.governance.answers import Purchase
from duckanon.governance.locations import Location
from duckanon.releases.sizes import RECORDS, Size, UnitsTable


@dataclass(frozen=True)
class Key:
    """A column by which an answer is grouped: there is a row for each value of its domain.

    domain: the table of the schema duckanon that lists the values. kind: the column's type, VARCHAR for an ENUM, whose
    type would show all its values. columns: of that table, folded; it may have further columns, such as the state in
    which a county lies.
    """

    column: str
    domain: str
    kind: str = "VARCHAR"
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PaidQuestion:
    """What every paid question has in common.

    location: the protected table. version, edition: of its policy and its population. privacy_unit: the column that
    identifies one; None: each record is one. contributions: how many records of a unit count. epsilon: what it costs.
    protects: what that protects, in words. filter: conditions on records, as SQL that cannot fail.
    """

    kind: ClassVar[str] = ""

    location: Location
    version: int
    edition: int
    privacy_unit: str | None
    contributions: int
    epsilon: Fraction
    protects: str
    filter: tuple[str, ...] = ()

    @property
    def resolved(self) -> dict[str, Any]:
        """All that the answer depends on, as plain values."""
        found = asdict(self)
        for name in ("location", "protects", "epsilon"):
            found.pop(name)
        return {**found, "kind": self.kind, "table": self.location.identity, "epsilon": written(self.epsilon)}

    @cached_property
    def key(self) -> str:
        """A hash: equal for the same question under one policy and in one edition, however it is written."""
        return sha256(json.dumps(self.resolved, sort_keys=True, default=str).encode()).hexdigest()[:32]

    @property
    def path(self) -> tuple[str, str, str]:
        """The full name of the table that holds the answer."""
        return self.purchase.path

    @property
    def what(self) -> str:
        """The question in words, for the ledger. Its constants come from the analyst's statement."""
        raise NotImplementedError

    @property
    def scale(self) -> Fraction:
        """Of the discrete Laplace noise: how much one unit can change the exact values, divided by epsilon."""
        raise NotImplementedError

    @property
    def purchase(self) -> Purchase:
        charge = Charge(self.epsilon, self.what, f"{self.protects}, added or removed", self.protects)
        return Purchase(self.location, self.key, self.version, self.edition, charge)

    @property
    def _filtered(self) -> str:
        return f" where {' and '.join(self.filter)}" if self.filter else ""


@dataclass(frozen=True, kw_only=True)
class CountsQuestion(PaidQuestion):
    """Counts of records, or of different privacy units, for every combination of keys and events.

    events: conditions as SQL; a record lies in the cell of those that it fulfils. distinct: whether units are counted.
    A unit's records lie in at most `contributions` cells, and it adds at most one to each. Without keys and events
    there is one cell, in which a unit is counted once however many records it has.
    """

    kind: ClassVar[str] = "count"

    keys: tuple[Key, ...] = ()
    events: tuple[str, ...] = ()
    distinct: bool = False

    @property
    def sensitivity(self) -> int:
        return 1 if self.distinct and not self.keys and not self.events else self.contributions

    @property
    def scale(self) -> Fraction:
        return self.sensitivity / self.epsilon

    @property
    def what(self) -> str:
        of = f"different {self.privacy_unit}" if self.distinct else "records"
        by = ", ".join([one.column for one in self.keys] + list(self.events)) or "nothing"
        return f"count of {of} of {self.location.label} by {by}{self._filtered}"


@dataclass(frozen=True, kw_only=True)
class GroupSizesQuestion(PaidQuestion):
    """How many groups of each size live in each region of a hierarchy; a group is a (group, leaf region) pair.

    group: the column that identifies a group. within: further columns that do, with it. size: what a group's size is.
    units: the table of all groups, where they are the privacy units; None: the groups are those that have records.
    hierarchy: the regions' columns, the widest first. max_size: in steps of the size; larger groups count as groups of
    that size. is_unit: whether the group is the privacy unit; then only its records in one leaf region count. split:
    shares of epsilon, one a level.
    """

    kind: ClassVar[str] = "group sizes"

    group: str
    hierarchy: tuple[Key, ...]
    max_size: int
    is_unit: bool = False
    mechanism: str = "auto"
    split: tuple[str, ...] | None = None
    within: tuple[str, ...] = ()
    size: Size = RECORDS
    units: UnitsTable | None = None

    @property
    def resolved(self) -> dict[str, Any]:
        """As for all questions; parts that are as usual are left out."""
        found = super().resolved
        usual = {"within": (), "size": asdict(RECORDS), "units": None}
        found = {name: one for name, one in found.items() if name not in usual or one != usual[name]}
        return found if self.units is None else {**found, "units": self.units.resolved}

    @property
    def least(self) -> int:
        """The least size that is told, 0 or 1."""
        return 0 if self.units is not None else self.size.least

    @property
    def sizes(self) -> int:
        """How many sizes are told: from the least to `max_size`."""
        return self.max_size + 1 - self.least

    @property
    def largest(self) -> int:
        """The largest size that a group can count as. One that is the privacy unit has no more records than count."""
        return min(self.max_size, self.contributions * self.size.high) if self.is_unit else self.max_size

    @property
    def engine(self) -> dict[str, Any]:
        """The engine's arguments, which do not depend on the records.

        The engine numbers sizes from 1, and 0 is a group that is not there. So where sizes begin with 0 a record that
        brings a group with it moves it by one more.
        """
        return {
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "totals": "private",
            "split": None if self.split is None else tuple(map(Fraction, self.split)),
            "sensitivity": min(self.size.high, self.max_size) + 1 - self.least,
            "contributions": self.contributions,
            "unit": "group" if self.is_unit else "record",
        }

    @property
    def scale(self) -> Fraction:
        """The largest scale of noise that the engine can need for any level."""
        smallest = min(map(Fraction, self.split)) if self.split else Fraction(1, len(self.hierarchy) + 1)
        return 2 * self.contributions / (self.epsilon * smallest)

    @property
    def what(self) -> str:
        by = ", ".join(one.column for one in self.hierarchy) or "nothing"
        more = "" if self.mechanism == "auto" else f", mechanism {self.mechanism}"
        groups = ", ".join((self.group, *self.within))
        sizes = f"group sizes of {self.location.label} by {groups}, up to {self.max_size}"
        if self.units is not None:
            of = f" where {' and '.join(self.units.filter)}" if self.units.filter else ""
            sizes += f", of all units of {self.units.location.label}{of}"
        counted = f", size: {self.size.words}" if self.size.words else ""
        return f"{sizes}, by {by}{counted}{more}{self._filtered}"

    @property
    def purchase(self) -> Purchase:
        beside = () if self.units is None else ((self.units.location, self.units.version),)
        return replace(super().purchase, beside=beside)


def basis(protected: Protected, epsilon: Fraction, filter: Sequence[str] = ()) -> dict[str, Any]:  # noqa: A002 # as the field is called
    """The fields of a question that follow from the protected table and its policy."""
    assert protected.stored is not None
    database, schema, table = protected.stored.path
    return {
        "location": Location(database, schema, table),
        "version": protected.version,
        "edition": protected.edition,
        "privacy_unit": protected.policy.privacy_unit and _stored(protected, protected.policy.privacy_unit),
        "contributions": protected.policy.contributions,
        "epsilon": epsilon,
        "protects": protected.policy.protects,
        "filter": tuple(sorted(set(filter))),
    }


def key(protected: Protected, column: str) -> Key | None:
    """The key for a column of a protected table; None if its policy has no domain for it."""
    assert protected.stored is not None
    domain, kind = protected.domains.get(fold(column)), protected.stored.types.get(fold(column))
    if domain is None or kind is None:
        return None
    return Key(_stored(protected, column), domain.table, text_for_enum(kind), tuple(map(fold, domain.columns)))


def _stored(protected: Protected, column: str) -> str:
    """The column's name as the table has it."""
    assert protected.stored is not None
    return {fold(name): name for name in protected.stored.columns}.get(fold(column), column)
