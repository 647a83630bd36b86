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
from duckanon.integrations.report.assessment import Assessment, Conditional, Governed, Released, Wanted, assess
from duckanon.integrations.report.audited_tables import unseen
from duckanon.integrations.report.fingerprint import Prints
from duckanon.integrations.report.views import Views
from duckanon.integrations.report.words import allowed, left, promised, protected, terms
from duckanon.integrations.results import fetch
from duckanon.integrations.translations import counted, exact, ngettext, number
from duckanon.integrations.translations import gettext as _

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
        asks = _("The view {view} asks: {found}.")
        found += [Point(True, asks.format(view=one.object, found=one.found)) for one in self.views.unsafe]
        found += [Point(True, problem) for problem in self.assessment.problems]
        found += [Point(True, f"{file.name}: {unseen()}") for file in self.assessment.files if file.is_unseen]
        found += self._open_points()
        if self.views.problem:
            found.append(Point(True, _("Views could not be read: {error}").format(error=self.views.problem)))
        return sorted(found, key=lambda point: not point.look)

    def _budget_points(self) -> list[Point]:
        budget_points = []
        if not self.policies:
            budget_points.append(Point(True, _("No table is protected: no budget limits what is released with noise.")))
        budget_points += [_budget(budget) for budget in self.budgets]
        for whose, spent, charges in self.unlimited:
            text = ngettext(
                "{name} has no budget: {n} charge of epsilon {spent} in all.",
                "{name} has no budget: {n} charges of epsilon {spent} in all.",
                charges,
            )
            budget_points.append(Point(True, text.format(name=whose, n=number(charges), spent=exact(spent))))
        return budget_points

    def _publication_points(self) -> list[Point]:
        """Publications made after the records had changed: they were audited alone, not together with earlier ones."""
        text = _("{name} was published although the records had changed: differences are not audited.")
        return [
            Point(True, text.format(name=publication["name"]))
            for publication in self.publications
            if publication["changes_accepted"]
        ]

    def _open_points(self) -> list[Point]:
        """Tables of the file that nothing protects, and those that undo a suppression."""
        audited = _(
            "True values of suppressed cells: {tables}. Whoever gets this file reads them: drop the tables, or hand "
            "the file to nobody."
        )
        text = _(
            "Neither protected nor a known release: {tables}. Whoever gets this file reads them: protect them, or hand "
            "the file to nobody."
        )
        told = ((audited, self.assessment.audited), (text, self.assessment.unprotected))
        return [Point(True, each.format(tables=_named(tables))) for each, tables in told if tables]

    def _release_points(self) -> list[Point]:
        points = [point for one in self.assessment.released for point in _released(one)]
        return points + [Point(bool(one.apart), one.sentences) for one in self.assessment.together]

    def _share_points(self) -> list[Point]:
        return [_shares(share) for share in self.assessment.shares]


def _named(tables: Sequence[str]) -> str:
    """Some of the tables, and how many more there are."""
    names = ", ".join(tables[:_MOST_NAMED])
    if len(tables) <= _MOST_NAMED:
        return names
    return _("{names} and {number} more").format(names=names, number=number(len(tables) - _MOST_NAMED))


def _budget(one: dict[str, Any]) -> Point:
    """What of a population's budget is spent and left."""
    spent, whole = one["spent_exact"], one["epsilon_exact"]
    text = _("{population}: {spent} of epsilon {whole} is spent, {left} is left")
    if one["promise"] is not None:
        text = _(
            "{population}: {spent} of {whole} (Rényi divergences of order {order}; {promise}) is spent, {left} is left"
        )
    told = text.format(
        population=one["population"],
        spent=exact(spent),
        whole=exact(whole),
        left=exact(one["remaining_exact"]),
        order=exact(one["order_exact"] or ""),
        promise=promised(one["promise"]),
    )
    words = left(one["left_in_words"])
    return Point(Fraction(spent) > Fraction(whole), f"{told}: {words}." if words else f"{told}.")


def _released(released: Released) -> list[Point]:
    found = [_smallest(released)]
    if released.origin.publication is not None and released.origin.owner is not None:
        text = _(
            "{table}: k counts records here; publish counted the unit of the policy, which the copy does not hold."
        )
        found.append(Point(False, text.format(table=released.table)))
    elif released.origin.owner is not None:
        text = _(
            "{table}: k counts records. By its policy the unit is {unit}, which the copy does not hold: whether k "
            "holds for it follows from its call alone (unit := '{unit}')."
        )
        found.append(Point(True, text.format(table=released.table, unit=released.origin.owner)))
    found += [Point(True, f"{released.table}: {link}") for link in released.copied.links]
    if released.dominated is not None:
        found.append(Point(True, f"{released.table}: {dominance(released.dominated)}"))
    if released.agreed:
        found.append(Point(True, _given_away(released)))
    if released.copied.near_unique:
        text = _("{table}: almost every record has a value of its own in {columns}.")
        found.append(Point(True, text.format(table=released.table, columns=", ".join(released.copied.near_unique))))
    return found


def _smallest(released: Released) -> Point:
    """How many look alike at least."""
    k, unit = released.figures["k"], released.origin.unit
    values = {"table": released.table, "unit": unit, "units": number(released.figures["units"]), "k": number(k)}
    if k == 1 and unit is None:
        text = counted(
            "k is 1. {n} record can be told from all others.",
            "k is 1. {n} records can be told from all others.",
            released.figures["singletons"],
        )
        return Point(True, f"{released.table}: {text}")
    if k == 1:
        text = _("{table}: k is 1. {alone} of {units} values of {unit} can be told from all others.")
        return Point(True, text.format(alone=number(released.figures["units_alone"]), **values))
    if unit is None:
        text = (
            _("{table}: each record, taken by itself, looks like {others} others or more (k = {k}).")
            if released.copied.links
            else _("{table}: each record looks like {others} others or more (k = {k}).")
        )
        return Point(False, text.format(others=number(k - 1), **values))
    text = (
        _("{table}: each class, taken by itself, has records of {k} or more of {units} values of {unit}.")
        if released.copied.links
        else _("{table}: each class has records of {k} or more of {units} values of {unit}.")
    )
    return Point(False, text.format(**values))


def dominance(classes: int) -> str:
    """What the column `dominated` of a table of means tells whoever gets it."""
    return counted(
        "The mean of {n} class is dominated by one record. Leave the column dominated out of what others get.",
        "The means of {n} classes are dominated by one record each. Leave the column dominated out of what others get.",
        classes,
    )


def _given_away(released: Released) -> str:
    """The columns on whose values whole classes agree."""
    columns = [
        ngettext("{column} of {n} record", "{column} of {n} records", records).format(column=column, n=number(records))
        for column, records in released.agreed.items()
    ]
    text = _("{table} gives away {columns}: in their classes all that have a value agree on it.")
    told = text.format(table=released.table, columns=", ".join(columns))
    return told if released.sensitive else f"{told} {_('Name with --sensitive the columns that must stay unknown.')}"


def _shares(conditional: Conditional) -> Point:
    small, rows = conditional.figures["disclosed_small_cells"], conditional.figures["disclosed_rows"]
    if not small and not rows:
        text = _("{table}: no count above zero follows exactly from the shares.")
        return Point(False, text.format(table=conditional.label))
    text = _("{table}: the shares give away the counts of {rows}, and {small}.").format(
        table=conditional.label,
        rows=counted("{n} row", "{n} rows", rows),
        small=counted("{n} small count", "{n} small counts", small),
    )
    return Point(True, text)


def _counted(many: int, one: str) -> str:
    """In English, as all that the terminal shows."""
    return f"{many:,} {one if many == 1 else one + 's'}"


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
    standing = [publication for publication in publications if not publication["withdrawn"]]
    governed = Governed([policy["tbl"] for policy in policies], opened, standing)
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
        assess(con, wanted, views, governed),
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
    limits = {name: None if amount is None else exact(written(amount)) for name, amount in amounts}
    return {**limits, "protects": protected(policy.protects), "allowed": allowed(policy)}


def _policy(line: dict[str, Any]) -> Policy:
    """The policy that a line of the ledger sets."""
    return Policy.load(json.loads(line["what"].removeprefix(_PROTECT)))


def _worded(ledger: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ledger's lines, with policies in words."""
    return [{**line, "words": terms(_policy(line)) if line["action"] == "protect" else ""} for line in ledger]


def _versions() -> list[tuple[str, str]]:
    found = [("duckanon", __version__), ("Python", platform.python_version()), (_("system"), platform.platform())]
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, _("not installed")))
    return found
