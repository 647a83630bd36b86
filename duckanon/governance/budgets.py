"""Budgets in words: what an amount is, how near to the truth a count is that costs it, and what is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from duckanon.accounting import Charge, written
from duckanon.catalog.policy import Policy
from duckanon.engines.noise_tails import least_width
from duckanon.errors import InvalidInput
from duckanon.governance.ledger_state import Population
from duckanon.governance.noise_prices import Moved, bought, concentrated, pure
from duckanon.renyi import Renyi


def in_words(amount: Fraction, renyi: Renyi | None) -> str:
    """What a charge or a limit is, as an error says it."""
    return f"epsilon {written(amount)}" if renyi is None else f"{written(amount)} ({renyi.unit})"


def in_unit_of(charge: Charge, renyi: Renyi | None) -> Charge:
    """A charge for noise in the unit of its population's ledger, with the noise in words where that is another.

    Raises InvalidInput for Gaussian noise in a population without a delta.
    """
    if renyi is None and charge.rho is not None:
        raise InvalidInput("The budget of the table has become another one meanwhile: repeat the call.")
    if renyi is None or charge.noise:
        return charge
    spent = pure(charge.epsilon, renyi) if charge.rho is None else concentrated(charge.rho, renyi)
    return Charge(spent.price, charge.what, charge.neighbours, charge.unit, spent.words)


def count_width(policy: Policy, renyi: Renyi | None) -> int:
    """How near to the truth a count that costs `per_query` is in 95 % of cases."""
    assert policy.per_query is not None
    moved = Moved(policy.contributions, policy.contributions**2)
    return least_width(bought(policy.per_query, moved, renyi), 1)


def cap_of_edition(policies: Iterable[Policy]) -> Fraction | None:
    """What a population may spend in one edition; None without a cap.

    The cap of one table holds for its whole population: a question about another table costs the same persons.
    """
    return min((policy.per_edition for policy in policies if policy.per_edition is not None), default=None)


def left_of_edition(population: Population, policies: Iterable[Policy]) -> Fraction | None:
    """What may be spent yet in the current edition; None where that has no cap."""
    cap = cap_of_edition(policies)
    return None if cap is None else max(cap - population.in_edition, Fraction(0))


def left_in_words(population: Population, policies: Sequence[Policy], allotted: Fraction | None = None) -> str | None:
    """What is left of a budget, as a number of counts; None where the policies offer none.

    policies: those of the population's tables. allotted: what is left of a user's allotment, for which it is said then.
    """
    offered = [(policy.per_query, at, policy) for at, policy in enumerate(policies) if policy.per_query is not None]
    if not offered or population.budget is None:
        return None
    price, _, policy = max(offered)
    left = population.budget.remaining
    several = int((left if allotted is None else min(left, allotted)) / price)
    if several == 0:
        return f"no count at {written(price)}"
    counts = "1 more count" if several == 1 else f"about {several:,} more counts"
    width = count_width(policy, population.renyi)
    now = _in_this_edition(several, price, left_of_edition(population, policies))
    return f"{counts} at {written(price)} each, within {width:,} of the truth{now}"


def room_in_words(remaining: Fraction, price: Fraction, renyi: Renyi | None, in_edition: Fraction | None = None) -> str:
    """How many answers at a price fit into what is left, as a sentence; empty in a population without a delta.

    in_edition: what may be spent yet in the current edition, if that is capped.
    """
    if renyi is None:
        return ""
    several = int(remaining / price)
    answers = "no answer" if several == 0 else "1 answer" if several == 1 else f"about {several:,} answers"
    now = _in_this_edition(several, price, in_edition)
    return f" What is left of the budget has room for {answers} at this price{now}."


def _in_this_edition(several: int, price: Fraction, left: Fraction | None) -> str:
    """How many of several answers the current edition has room for; empty where it has room for all."""
    now = several if left is None else int(left / price)
    if now >= several:
        return ""
    return f", {now:,} of them in this edition" if now else ", but none in this edition"
