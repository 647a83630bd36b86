"""A policy in words for a reader who has never seen one, and what ledger and budgets say, in the page's language."""

from __future__ import annotations

from collections.abc import Sequence

from duckanon.accounting import written
from duckanon.catalog.policy import Policy
from duckanon.integrations.translations import exact, listed, number, retold
from duckanon.integrations.translations import gettext as _
from duckanon.renyi import digits


def allowed(policy: Policy) -> list[str]:
    """What analysts may ask of a table, and what no answer shows: a sentence each."""
    said = [*_with_noise(policy), *_without_noise(policy)]
    if policy.drop:
        said.append(_("No answer shows {columns}.").format(columns=listed(policy.drop)))
    return said or [_("Nothing: no release with noise, and no copy.")]


def terms(policy: Policy) -> str:
    """The policy as one text: the budget and what a charge protects, then what may be asked."""
    budget = exact(written(policy.epsilon))
    if policy.delta is not None:
        budget = _("{epsilon} with delta {delta}").format(epsilon=budget, delta=exact(digits(policy.delta)))
    if policy.per_edition is not None:
        cap = exact(written(policy.per_edition))
        budget = _("{budget}, of which {cap} in one edition").format(budget=budget, cap=cap)
    text = _("Budget {budget} for {population}; a charge protects {protected}.").format(
        budget=budget, population=policy.population or _("the table"), protected=protected(policy.protects)
    )
    return " ".join([text, *allowed(policy)])


def protected(text: str) -> str:
    """What a charge protects, as policies and lines of the ledger have it."""
    return retold(text, "one record", "all records of one {unit} (a sample of {number} counts)", "one {unit}")


def neighbours(text: str) -> str:
    """Which tables a release makes hard to distinguish, as lines of the ledger have it."""
    told, separator, quantity = text.partition("; a person adds ")
    told = retold(
        told,
        "one record, added or removed",
        "all records of one {unit} (a sample of {number} counts), added or removed",
        "one person added to or removed from an existing group that keeps at least one; the number of groups of each "
        "region is public",
        "one person added or removed, with whom a group may appear or vanish",
        "one group added or removed, with all of its records",
        "tables that differ in the record of one row, for each unit of distance between the two records",
    )
    return told + retold(separator + quantity, "; a person adds 0 to {bound} to the quantity")


def promised(text: str | None) -> str:
    """What all answers of a population with a delta are together."""
    return retold(text or "", "epsilon {epsilon}, delta {delta}")


def left(text: str | None) -> str:
    """What is left of a budget, as `privacy_budget` has it."""
    return retold(
        text or "",
        "no count at {price}",
        "1 more count at {price} each, within {width} of the truth",
        "1 more count at {price} each, within {width} of the truth, but none in this edition",
        "about {several} more counts at {price} each, within {width} of the truth",
        "about {several} more counts at {price} each, within {width} of the truth, {now} of them in this edition",
        "about {several} more counts at {price} each, within {width} of the truth, but none in this edition",
    )


def _with_noise(policy: Policy) -> list[str]:
    if policy.per_query is None:
        return [_("No number with noise, since per_query is not set.")]
    said = []
    keys = [*policy.public, *(name for name in policy.domains if name not in policy.public)]
    if keys:
        said.append(_counts(keys, [name for name in keys if name not in policy.domains]))
    if policy.bounds:
        text = _("Sums, means and quantiles of {columns}, within declared bounds.")
        said.append(text.format(columns=listed(list(policy.bounds))))
    if policy.unit:
        said.append(_sizes(policy))
    return [*said, _("One answer costs {price} at most.").format(price=exact(written(policy.per_query)))]


def _counts(keys: Sequence[str], closed: Sequence[str]) -> str:
    """Counts by columns. closed: those of which no values are listed."""
    if not closed:
        return _("Counts and shares with noise by {columns}.").format(columns=listed(keys))
    text = _("Counts and shares with noise by {columns} ({closed} only as a filter: no list of values was given).")
    return text.format(columns=listed(keys), closed=listed(closed))


def _sizes(policy: Policy) -> str:
    """How many groups there are of each size."""
    told = _("How many {unit}s there are of each size").format(unit=policy.unit)
    if policy.max_size:
        told += " " + _("(larger than {most} counts as {most})").format(most=number(policy.max_size))
    if policy.hierarchy:
        told += _(", by {columns}").format(columns=listed(policy.hierarchy))
    return f"{told}."


def _without_noise(policy: Policy) -> list[str]:
    said = []
    if policy.quasi_identifiers:
        text = (
            _("A published copy in which {k} or more look alike by {columns}; {sensitive} as it is.")
            if policy.sensitive
            else _("A published copy in which {k} or more look alike by {columns}.")
        )
        columns, sensitive = listed(policy.quasi_identifiers), listed(policy.sensitive)
        said.append(text.format(k=number(policy.k), columns=columns, sensitive=sensitive))
    if policy.publishable:
        text = _("Published tables from which no count of 1 to {most} follows.")
        said.append(text.format(most=number(policy.small - 1)))
    return said
