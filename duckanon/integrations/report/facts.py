"""What a report tells of a database, read and nothing written."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon import __version__
from duckanon.accounting import sequential, written
from duckanon.integrations.report.asked import Asked
from duckanon.integrations.report.judged import Conditional, Judged, Released, judged
from duckanon.integrations.report.views import Views
from duckanon.integrations.results import fetch

if TYPE_CHECKING:
    from duckanon.connection import Connection

_BLOCK = 1 << 20
_LIBRARIES = "duckdb numpy scipy pyarrow numba highspy pulp sqlglot matplotlib jinja2".split()


@dataclass(frozen=True)
class Prints:
    """SHA-256 of the file, and of the log beside it if there is one. size: bytes of both."""

    file: str
    log: str | None
    size: int


@dataclass(frozen=True)
class Point:
    """A finding for the first page. look: whether it should be looked at before anyone signs."""

    look: bool
    text: str


@dataclass(frozen=True)
class Facts:
    """All that the page tells. budgets: with what was spent on tables without a policy; epsilons are exact texts."""

    name: str
    made_at: datetime
    prints: Prints
    policies: Sequence[dict[str, Any]]
    budgets: Sequence[dict[str, Any]]
    unlimited: Sequence[tuple[str, str, int]]
    ledger: Sequence[dict[str, Any]]
    judged: Judged
    views: Views
    versions: Sequence[tuple[str, str]] = field(default_factory=list)

    @property
    def charges(self) -> int:
        return sum(line["action"] == "charge" for line in self.ledger)

    @property
    def said(self) -> str:
        """The report in a line."""
        found = [
            _counted(len(self.policies), "protected table"),
            _counted(self.charges, "charge"),
            _counted(len(self.judged.released), "released table") + " judged",
            _counted(sum(point.look for point in self.points), "point") + " to look at",
        ]
        return ", ".join(found) + "."

    @property
    def points(self) -> list[Point]:
        """What matters most, what should be looked at first."""
        found = [*self._budget_points(), *self._release_points(), *self._share_points()]
        found += [Point(True, f"The view {one.object} asks: {one.found}.") for one in self.views.unsafe]
        found += [Point(True, problem) for problem in self.judged.problems]
        if self.views.problem:
            found.append(Point(True, f"Views could not be read: {self.views.problem}"))
        return sorted(found, key=lambda point: not point.look)

    def _budget_points(self) -> list[Point]:
        found = []
        if not self.policies:
            found.append(Point(True, "No table is protected: no budget limits what is released with noise."))
        for one in self.budgets:
            spent, whole, left = (one[f"{name}_exact"] for name in ("spent", "epsilon", "remaining"))
            text = f"{one['tbl']}: {spent} of epsilon {whole} is spent, {left} is left."
            found.append(Point(Fraction(spent) > Fraction(whole), text))
        for table, spent, charges in self.unlimited:
            found.append(
                Point(True, f"{table} has no budget: {_counted(charges, 'charge')} of epsilon {spent} in all.")
            )
        return found

    def _release_points(self) -> list[Point]:
        return [point for one in self.judged.released for point in _released(one)]

    def _share_points(self) -> list[Point]:
        return [_shares(one) for one in self.judged.shares]


def _released(one: Released) -> list[Point]:
    k, alone = one.figures["k"], one.figures["singletons"]
    if k is None:
        return [Point(False, f"{one.table} has no records.")]
    if k == 1:
        return [Point(True, f"{one.table}: k is 1. {_counted(alone, 'record')} can be told from all others.")]
    found = [Point(False, f"{one.table}: each record looks like {k - 1:,} others or more (k = {k:,}).")]
    if one.sensitive and one.figures["l"] == 1:
        found.append(Point(True, f"{one.table}: in some class all agree on {', '.join(one.sensitive)} (l = 1)."))
    return found


def _shares(one: Conditional) -> Point:
    small, rows = one.figures["disclosed_small_cells"], one.figures["disclosed_rows"]
    if small or rows:
        given = f"the counts of {_counted(rows, 'row')}, and {_counted(small, 'small count')}"
        return Point(True, f"{one.label}: the shares give away {given}.")
    return Point(False, f"{one.label}: no count above zero follows exactly from the shares.")


def _counted(many: int, one: str) -> str:
    return f"{many:,} {one if many == 1 else one + 's'}"


def fingerprint(path: Path) -> Prints:
    """What tells this file from every other."""
    log = path.with_name(path.name + ".wal")
    has_log = log.exists() and log.stat().st_size > 0
    size = path.stat().st_size + (log.stat().st_size if has_log else 0)
    return Prints(_hash(path), _hash(log) if has_log else None, size)


def _hash(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def gathered(
    con: Connection, path: Path, prints: Prints, views: Views, asked: Sequence[Asked], sensitive: Sequence[str]
) -> Facts:
    """Read everything. con: a connection to the database, for reading only."""
    policies, budgets, ledger = (
        fetch(con.execute(f"FROM {name}()")).records() for name in ("policies", "privacy_budget", "privacy_ledger")
    )
    hidden = [*sensitive, *(column for one in policies for column in one["sensitive"] or ())]
    budgeted = {one["tbl"].lower() for one in budgets}
    spent: dict[str, list[Fraction]] = {}
    for line in ledger:
        if line["action"] == "charge" and line["tbl"].lower() not in budgeted:
            spent.setdefault(line["tbl"], []).append(Fraction(line["epsilon_exact"]))
    return Facts(
        path.name,
        datetime.now(UTC).replace(microsecond=0),
        prints,
        _exact(policies, ledger),
        budgets,
        [(table, written(sequential(costs)), len(costs)) for table, costs in sorted(spent.items())],
        ledger,
        judged(con, asked, list(dict.fromkeys(hidden)), views),
        views,
        _versions(),
    )


def _exact(policies: Sequence[dict[str, Any]], ledger: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The policies, with their epsilons as the ledger has them: fractions, where policies() has numbers."""
    exact: dict[str, dict[str, Any]] = {}
    for line in ledger:
        if line["action"] == "protect":
            exact[line["tbl"].lower()] = json.loads(line["what"].removeprefix("protect: "))
    return [
        {**one, **{name: exact[one["tbl"].lower()].get(name, one[name]) for name in ("epsilon", "per_query")}}
        for one in policies
    ]


def _versions() -> list[tuple[str, str]]:
    found = [("duckanon", __version__), ("Python", platform.python_version()), ("system", platform.platform())]
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "not installed"))
    return found
