"""What the size of a group is, and which groups there are, as data: parts of a question for group sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from duckanon.catalog.names import quoted
from duckanon.governance.locations import Location


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is added up over the records of a group.

    what: 'records' are counted; so are the 'distinct' values of `column`, without NULL; or `column` is summed: each
    value is clamped to `low` and `high`, and rounded to a multiple of `step`. low, high: in steps. where: conditions,
    as SQL: a record that does not fulfil them adds nothing, and a group of such records alone has size 0.
    """

    what: Literal["records", "distinct", "sum"] = "records"
    column: str | None = None
    low: int = 0
    high: int = 1
    step: int = 1
    where: tuple[str, ...] = ()

    @property
    def least(self) -> int:
        """The least size of a group that has a record, in steps: 1 if every record counts, else 0."""
        return 1 if self == RECORDS else 0

    @property
    def clamps(self) -> bool:
        """Whether values are clamped to bounds."""
        return self.what == "sum"

    @property
    def added(self) -> str:
        """What a record adds to its group, as SQL that cannot fail: a number of steps, or for 'distinct' a value."""
        counts = " AND ".join(f"({condition})" for condition in self.where) or "true"
        if self.column is None:
            return f"CASE WHEN {counts} THEN 1 ELSE 0 END"
        if self.what == "distinct":
            return f"CASE WHEN {counts} THEN {quoted([self.column])} END"
        # NaN is the largest number in DuckDB.
        value = f"system.main.round(CAST({quoted([self.column])} AS DOUBLE) / {float(self.step)!r})"
        clamped = f"system.main.least(system.main.greatest({value}, {float(self.low)!r}), {float(self.high)!r})"
        return f"CASE WHEN {counts} THEN CAST({clamped} AS BIGINT) ELSE 0 END"

    @property
    def total(self) -> str:
        """The size of a group from what its records add, `w`, as SQL."""
        return "system.main.count(DISTINCT w)" if self.what == "distinct" else "system.main.sum(w)"

    @property
    def words(self) -> str:
        """For the ledger; empty for what is usual."""
        of = {"records": "", "distinct": f"different {self.column}", "sum": f"sum of {self.column}"}[self.what]
        if not self.where:
            return of
        return f"{of or 'records'} where {' and '.join(self.where)}"


RECORDS = Size()


@dataclass(frozen=True, kw_only=True)
class UnitsTable:
    """A protected table of the privacy units, whose groups are counted, those without records too: they have size 0.

    It is of the population of the records. column: that identifies a unit. filter: conditions on
    units, as SQL.
    """

    location: Location
    version: int
    column: str
    filter: tuple[str, ...] = ()

    @property
    def resolved(self) -> dict[str, Any]:
        """All that an answer depends on, as plain values."""
        told = {"version": self.version, "column": self.column, "filter": self.filter}
        return {**told, "table": self.location.identity}


class Values(Protocol):
    """What is read of an open table: a query for it, and a hash of what that gave when the guard decided."""

    @property
    def values(self) -> str: ...

    @property
    def content(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Among:
    """A condition on records: their column `own` has one of the values of an open table's `column`.

    location: of the open table. filter: conditions on its rows, as SQL. content: a hash of the values that it had
    when the guard decided: with other values it is another condition, and another question.
    """

    own: str
    location: Location
    column: str
    filter: tuple[str, ...] = ()
    content: str = ""

    @property
    def resolved(self) -> dict[str, Any]:
        """All that an answer depends on, as plain values."""
        told = {"own": self.own, "column": self.column, "filter": self.filter, "content": self.content}
        return {**told, "table": self.location.identity}

    @property
    def values(self) -> str:
        """A query for the open table's values."""
        where = f" WHERE {' AND '.join(f'({test})' for test in self.filter)}" if self.filter else ""
        return f"SELECT {quoted([self.column])} FROM {quoted(self.location.path)} AS _dk_open{where}"

    @property
    def words(self) -> str:
        of = f" where {' and '.join(self.filter)}" if self.filter else ""
        return f"{self.own} in {self.location.label}.{self.column}{of}"
