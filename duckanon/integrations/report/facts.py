"""What a report says about a database. Everything is read; nothing is written."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon import __version__
from duckanon.accounting import sequential, written
from duckanon.catalog.policy import Policy
from duckanon.integrations.report.assessment import Assessment, Conditional, Released, Wanted, assess
from duckanon.integrations.report.fingerprint import Prints
from duckanon.integrations.report.views import Views
from duckanon.integrations.report.words import allowed, terms
from duckanon.integrations.results import fetch

if TYPE_CHECKING:
    from duckanon.connection import Connection

_PROTECT = "protect: "
# How many tables one point names.
_MOST_NAMED = 8
_LIBRARIES = "duckdb numpy scipy pyarrow numba highspy pulp sqlglot matplotlib jinja2".split()


@dataclass(frozen=True)
class Point:
    """A finding for the first page. look: whether it should be checked before anybody approves a release."""

    look: bool
    text: str


@dataclass(frozen=True)
class Facts:
    """Everything that the page shows. Epsilons are exact, as text.

    unlimited: what was spent without a budget: the table or population, how much, and in how many charges.
    """

    name: str
    made_at: datetime
    prints: Prints
    policies: Sequence[dict[str, Any]]
    budgets: Sequence[dict[str, Any]]
    unlimited: Sequence[tuple[str, str, int]]
    editions: Sequence[dict[str, Any]]
    publications: Sequence[dict[str, Any]]
    opened: Sequence[str]
    ledger: Sequence[dict[str, Any]]
    assessment: Assessment
    views: Views
    versions: Sequence[tuple[str, str]] = field(default_factory=list)

    @property
    def charges(self) -> int:
        return sum(line["action"] == "charge" for line in self.ledger)

    @property
    def said(self) -> str:
        """The report in one line."""
        found = [
            _counted(len(self.policies), "protected table"),
            _counted(self.charges, "charge"),
            _counted(len(self.publications), "publication"),
            _counted(len(self.assessment.released), "released table") + " judged",
            _counted(sum(point.look for point in self.points), "point") + " to look at",
        ]
        return ", ".join(found) + "."

    @property
    def points(self) -> list[Point]:
        """The findings for the first page; those that should be checked come first."""
        found = [*self._budget_points(), *self._publication_points(), *self._release_points(), *self._share_points()]
        found += [Point(True, f"The view {one.object} asks: {one.found}.") for one in self.views.unsafe]
        found += [Point(True, problem) for problem in self.assessment.problems]
        found += self._open_points()
        if self.views.problem:
            found.append(Point(True, f"Views could not be read: {self.views.problem}"))
        return sorted(found, key=lambda point: not point.look)

    def _budget_points(self) -> list[Point]:
        found = []
        if not self.policies:
            found.append(Point(True, "No table is protected: no budget limits what is released with noise."))
        for one in self.budgets:
            spent, whole, left = (one[f"{name}_exact"] for name in ("spent", "epsilon", "remaining"))
            unit = "epsilon " if one["promise"] is None else ""
            of = (
                ""
                if one["promise"] is None
                else f" (Rényi divergences of order {one['order_exact']}; {one['promise']})"
            )
            words = f": {one['left_in_words']}" if one["left_in_words"] else ""
            text = f"{one['population']}: {spent} of {unit}{whole}{of} is spent, {left} is left{words}."
            found.append(Point(Fraction(spent) > Fraction(whole), text))
        for whose, spent, charges in self.unlimited:
            found.append(
                Point(True, f"{whose} has no budget: {_counted(charges, 'charge')} of epsilon {spent} in all.")
            )
        return found

    def _publication_points(self) -> list[Point]:
        """Publications made after the records had changed: they were audited alone, not together with earlier ones."""
        return [
            Point(True, f"{one['name']} was published although the records had changed: differences are not audited.")
            for one in self.publications
            if one["changes_accepted"]
        ]

    def _open_points(self) -> list[Point]:
        """Tables of the file that nothing protects."""
        tables = self.assessment.unprotected
        if not tables:
            return []
        more = f" and {len(tables) - _MOST_NAMED} more" if len(tables) > _MOST_NAMED else ""
        text = f"Neither protected nor a known release: {', '.join(tables[:_MOST_NAMED])}{more}. "
        return [Point(True, text + "Whoever gets this file reads them: protect them, or hand the file to nobody.")]

    def _release_points(self) -> list[Point]:
        found = [point for one in self.assessment.released for point in _released(one)]
        return found + [Point(bool(one.apart), one.sentences) for one in self.assessment.together]

    def _share_points(self) -> list[Point]:
        return [_shares(share) for share in self.assessment.shares]


def _released(one: Released) -> list[Point]:
    k, unit = one.figures["k"], one.origin.unit
    if k is None:
        return [Point(False, f"{one.table} has no records.")]
    if k == 1:
        alone = _counted(one.figures["singletons"], "record")
        if unit is not None:
            alone = f"{one.figures['units_alone']:,} of {one.figures['units']:,} values of {unit}"
        found = [Point(True, f"{one.table}: k is 1. {alone} can be told from all others.")]
    else:
        by_itself = ", taken by itself," if one.copied.links else ""
        each = f"each record{by_itself} looks like {k - 1:,} others or more (k = {k:,})."
        if unit is not None:
            each = f"each class{by_itself} has records of {k:,} or more of {one.figures['units']:,} values of {unit}."
        found = [Point(False, f"{one.table}: {each}")]
    if one.origin.owner is not None:
        found.append(
            Point(
                True,
                f"{one.table}: k counts records. By its policy the unit is {one.origin.owner}, which the copy does not "
                f"hold: whether k holds for it follows from its call alone (unit := '{one.origin.owner}').",
            )
        )
    found += [Point(True, f"{one.table}: {link}") for link in one.copied.links]
    if one.agreed:
        told = ", ".join(f"{column} of {_counted(records, 'record')}" for column, records in one.agreed.items())
        named = "" if one.sensitive else " Name with --sensitive the columns that must stay unknown."
        found.append(
            Point(True, f"{one.table} gives away {told}: in their classes all that have a value agree on it.{named}")
        )
    if one.copied.near_unique:
        columns = ", ".join(one.copied.near_unique)
        found.append(Point(True, f"{one.table}: almost every record has a value of its own in {columns}."))
    return found


def _shares(one: Conditional) -> Point:
    small, rows = one.figures["disclosed_small_cells"], one.figures["disclosed_rows"]
    if small or rows:
        given = f"the counts of {_counted(rows, 'row')}, and {_counted(small, 'small count')}"
        return Point(True, f"{one.label}: the shares give away {given}.")
    return Point(False, f"{one.label}: no count above zero follows exactly from the shares.")


def _counted(many: int, one: str, several: str | None = None) -> str:
    return f"{many:,} {one if many == 1 else several or one + 's'}"


def gathered(
    con: Connection,
    path: Path,
    prints: Prints,
    views: Views,
    wanted: Wanted,
) -> Facts:
    """Read everything. con: a connection to the database, for reading only."""
    policies, budgets, editions, publications, ledger = (
        fetch(con.execute(f"FROM {name}()")).records()
        for name in ("policies", "privacy_budget", "editions", "publications", "privacy_ledger")
    )
    said = [column for policy in policies for column in policy["sensitive"] or ()]
    if said or wanted.sensitive is not None:
        wanted = replace(wanted, sensitive=list(dict.fromkeys([*(wanted.sensitive or ()), *said])))
    opened = _opened(ledger)
    published = [
        publication["name"]
        for publication in publications
        if publication["kind"] == "records" and not publication["withdrawn"]
    ]
    settled = {*opened, *(policy["tbl"] for policy in policies)}
    return Facts(
        path.name,
        datetime.now(UTC).replace(microsecond=0),
        prints,
        _exact(policies, ledger),
        budgets,
        _unlimited(budgets, ledger),
        editions,
        publications,
        opened,
        _worded(ledger),
        assess(con, wanted, views, settled, published),
        views,
        _versions(),
    )


def _unlimited(budgets: Sequence[dict[str, Any]], ledger: Sequence[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Charges that count towards no budget. One made before its table was protected counts towards its population's."""
    tables = {table.lower() for budget in budgets for table in budget["tables"]}
    populations = {budget["population"] for budget in budgets}
    spent: dict[str, list[Fraction]] = {}
    for line in ledger:
        counts = line["tbl"].lower() in tables or line["population"] in populations
        if line["action"] == "charge" and not counts:
            spent.setdefault(line["population"] or line["tbl"], []).append(Fraction(line["epsilon_exact"]))
    return [(whose, written(sequential(costs)), len(costs)) for whose, costs in sorted(spent.items())]


def _opened(ledger: Sequence[dict[str, Any]]) -> list[str]:
    """The open tables and schemas: analysts read them as they are."""
    found: dict[str, bool] = {}
    for line in ledger:
        if line["action"] in ("open", "close", "protect"):
            found[line["tbl"]] = line["action"] == "open"
    return sorted(name for name, is_open in found.items() if is_open)


def _exact(policies: Sequence[dict[str, Any]], ledger: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The policies, with exact epsilons from the ledger, what each charge protects, and what may be asked."""
    decided = {line["tbl"].lower(): _policy(line) for line in ledger if line["action"] == "protect"}
    return [{**policy, **_told(decided[policy["tbl"].lower()])} for policy in policies]


def _told(policy: Policy) -> dict[str, Any]:
    amounts = ((name, getattr(policy, name)) for name in ("epsilon", "per_query", "per_edition"))
    exact = {name: None if amount is None else written(amount) for name, amount in amounts}
    return {**exact, "protects": policy.protects, "allowed": allowed(policy)}


def _policy(line: dict[str, Any]) -> Policy:
    """The policy that a line of the ledger sets."""
    return Policy.load(json.loads(line["what"].removeprefix(_PROTECT)))


def _worded(ledger: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ledger's lines, with policies in words."""
    return [{**line, "words": terms(_policy(line)) if line["action"] == "protect" else ""} for line in ledger]


def _versions() -> list[tuple[str, str]]:
    found = [("duckanon", __version__), ("Python", platform.python_version()), ("system", platform.platform())]
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "not installed"))
    return found
