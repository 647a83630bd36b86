"""A policy in words, for a reader who has never seen one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckanon.accounting import written
from duckanon.catalog.policy import Policy
from duckanon.renyi import digits


def allowed(policy: Policy) -> list[str]:
    """What analysts may ask of a table, and what no answer shows: a sentence each."""
    said = [*_with_noise(policy), *_without_noise(policy)]
    if policy.drop:
        said.append(f"No answer shows {_and(policy.drop)}.")
    return said or ["Nothing: no release with noise, and no copy."]


def terms(policy: Policy) -> str:
    """The policy as one text: the budget and what a charge protects, then what may be asked."""
    cap = "" if policy.per_edition is None else f", of which {written(policy.per_edition)} in one edition"
    delta = "" if policy.delta is None else f" with delta {digits(policy.delta)}"
    budget = f"Budget {written(policy.epsilon)}{delta}{cap} for {policy.population or 'the table'}"
    return " ".join([f"{budget}; a charge protects {policy.protects}.", *allowed(policy)])


def _with_noise(policy: Policy) -> list[str]:
    if policy.per_query is None:
        return ["No number with noise, since per_query is not set."]
    said = []
    keys = [*policy.public, *(name for name in policy.domains if name not in policy.public)]
    if keys:
        closed = [name for name in keys if name not in policy.domains]
        unlisted = f" ({_and(closed)} only as a filter: no list of values was given)" if closed else ""
        said.append(f"Counts and shares with noise by {_and(keys)}{unlisted}.")
    if policy.bounds:
        said.append(f"Sums, means and quantiles of {_and(list(policy.bounds))}, within declared bounds.")
    if policy.unit:
        most = f" (larger than {policy.max_size:,} counts as {policy.max_size:,})" if policy.max_size else ""
        where = f", by {_and(policy.hierarchy)}" if policy.hierarchy else ""
        said.append(f"How many {policy.unit}s there are of each size{most}{where}.")
    return [*said, f"One answer costs {written(policy.per_query)} at most."]


def _without_noise(policy: Policy) -> list[str]:
    said = []
    if policy.quasi_identifiers:
        kept = f"; {_and(policy.sensitive)} as it is" if policy.sensitive else ""
        said.append(
            f"A published copy in which {policy.k:,} or more look alike by {_and(policy.quasi_identifiers)}{kept}."
        )
    if policy.publishable:
        said.append(f"Published tables from which no count of 1 to {policy.small - 1:,} follows.")
    return said


def _and(names: Sequence[Any]) -> str:
    parts = [str(name) for name in names]
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
