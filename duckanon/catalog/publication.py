"""A release that a steward wants to publish, as data: governance passes it to the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput

# A hierarchy of codes: each with the code that it is a part of, None for the widest.
Codes = tuple[tuple[str | None, str | None], ...]


@dataclass(frozen=True)
class Perturbation:
    """How `cell_key` changed counts. key: the column of record keys. The others make the perturbation table."""

    key: str
    max_deviation: int
    variance: float
    threshold: int

    @property
    def in_words(self) -> str:
        return f"max_deviation {self.max_deviation}, variance {self.variance:g}, threshold {self.threshold}"


@dataclass(frozen=True)
class Terms:
    """How a steward describes a release.

    variables, given, value: of a table of counts or of shares; no value: a k-anonymous table. digits, base: how its
    numbers were rounded. accept_changes: publish although the records have changed since an earlier publication.
    suppressed: the column that says which numbers are suppressed. sum: the column of the protected table that these add
    up; None: they count records. weight: the column of the weights of what is added up. perturbation: how counts were
    changed by cell key.
    magnitude: of perturbed sums, as in `cell_key`.
    width: how far apart the least and the largest count must be that readers hold for possible, where it is small.
    hierarchies: columns that a k-anonymous table has as labels, or a suppressed one as codes, and the tables of their
    hierarchies, as written. count: the column that says for how many records a row of the protected table stands.
    """

    variables: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    value: str | None = None
    digits: int | None = None
    base: int | None = None
    accept_changes: bool = False
    suppressed: str | None = None
    perturbation: Perturbation | None = None
    width: int = 1
    sum: str | None = None
    hierarchies: tuple[tuple[str, str], ...] = ()
    weight: str | None = None
    count: str | None = None
    magnitude: float | None = None

    @property
    def kind(self) -> str:
        if self.value is None:
            return "records"
        if self.suppressed is not None:
            return "suppressed"
        if self.perturbation is not None:
            return "perturbed"
        return "shares" if self.given else "counts"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that identify a cell of a table of numbers."""
        return (*self.given, *self.variables)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the protected table from which it can be computed."""
        return (*self.columns, *self.summed)

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns whose products it adds up; none where it counts records. The first is what it is about."""
        return tuple(name for name in (self.sum, self.weight) if name is not None)


@dataclass(frozen=True)
class Earlier:
    """An earlier publication of the same table. copy: its full name in SQL; None if it was withdrawn.

    columns: of the copy. same: whether the records are still those from which it was made. content: a hash of the copy.
    suppressed, perturbation, width, sum, weight, count: as in Terms. codes: as in Candidate.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    variables: tuple[str, ...]
    given: tuple[str, ...]
    digits: int | None
    base: int | None
    content: str
    same: bool
    copy: str | None
    suppressed: str | None = None
    perturbation: Perturbation | None = None
    width: int = 1
    sum: str | None = None
    weight: str | None = None
    count: str | None = None
    codes: Mapping[str, Codes] = field(default_factory=dict)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the protected table from which it can be computed."""
        return (*self.given, *self.variables, *self.summed)

    @property
    def summed(self) -> tuple[str, ...]:
        """As in Terms."""
        return tuple(name for name in (self.sum, self.weight) if name is not None)

    @property
    def exact(self) -> bool:
        """Whether its numbers are exact: not rounded to digits or to a multiple, suppressed or perturbed."""
        return self.digits is None and self.base is None and self.kind in ("counts", "shares")


@dataclass(frozen=True)
class Candidate:
    """A release that is audited before it is published.

    release: full name in SQL of a copy of the release, which does not change. of: what stands after FROM to read the
    protected table, with the column of its policy's privacy unit. name,
    label: of both, for messages. columns, source: types of their columns by name. policy: the table's. totals: whether
    the audit assumes that readers know the number of records in every row. earlier: what was published of the same
    table, withdrawn ones too. elsewhere: the names of what was published of other tables of the population. content: a
    hash of the release. looked_up: by column, folded, the open table that is its domain, and the column of that.
    trees: by column, folded, the name in SQL of the open table with the hierarchy of its labels. codes: by column,
    folded, the hierarchy of the codes of a suppressed table. levels: by the folded name of a level of codes that the
    records were given, the column of the codes. count: the column that says for how many records a row stands; None:
    for one.
    """

    release: str
    of: str
    name: str
    label: str
    terms: Terms
    columns: Mapping[str, str]
    source: Mapping[str, str]
    policy: Policy
    totals: bool = False
    earlier: Sequence[Earlier] = ()
    elsewhere: Sequence[str] = ()
    content: str = ""
    looked_up: Mapping[str, tuple[tuple[str, str], str]] = field(default_factory=dict)
    trees: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, Codes] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    count: str | None = None

    @property
    def records(self) -> str:
        """SQL: how many records some rows of the protected table are, as an aggregate."""
        if self.count is None:
            return "system.main.count(*)"
        return f"CAST(coalesce(system.main.sum({identifier(self.count)}), 0) AS BIGINT)"

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the protected table from which the release can be computed: levels follow from codes."""
        return tuple(name for name in self.terms.read if fold(name) not in self.levels)

    @property
    def changed(self) -> bool:
        """Whether the records have changed since an earlier publication was made."""
        return not all(publication.same for publication in self.earlier)

    def check_changes(self) -> None:
        """Raises InvalidInput if the records have changed and the steward has not accepted that."""
        if self.changed and not self.terms.accept_changes:
            raise InvalidInput(
                f"{self.name} is not published: the records of {self.label} have changed since something was published "
                "of them, and what two releases differ by may be one person. If that is acceptable, say accept_changes "
                ":= true; the ledger then says that the audit does not cover differences."
            )
