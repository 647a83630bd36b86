"""Group sizes with noise: how many groups of each size live in each region of the policy's hierarchy.

What the policy offers, calls of dp_group_sizes, and what they have in common with queries in ordinary SQL. A call may
ask for a release with its own epsilon. The number of groups is never released exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from duckanon.accounting import rational, written
from duckanon.catalog.names import TableName, fold, literal, literals
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Protected
from duckanon.errors import InvalidInput
from duckanon.governance.answers import check_price
from duckanon.governance.budgets import room_in_words
from duckanon.releases.noise import in_one_region, left_out_of, not_covered
from duckanon.releases.paid_questions import GroupSizesQuestion, Key, basis, key
from duckanon.rewrite.bind import full_name
from duckanon.rewrite.calls import Call
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.rule_context import RuleContext

KIND = "group sizes"
# The engine's work grows with the scale of the noise.
_WIDEST = 10**6
_MOST_CELLS = 20_000_000
NONE = "The policy offers no group sizes: ask the steward to protect the table with unit, per_query and max_size."


def offered(context: RuleContext, name: TableName) -> tuple[Key, ...] | None:
    """The hierarchy of the policy's release, down to the first column without a domain; None if there is no release."""
    protected = context.catalog.protected[name]
    policy = protected.policy
    if policy.per_query is None or policy.max_size is None or policy.unit is None or not protected.stands:
        return None
    keys: list[Key] = []
    for column in policy.hierarchy:
        own_key = key(protected, column)
        if own_key is None:
            break
        keys.append(own_key)
    return tuple(keys)


def suggestion(context: RuleContext, name: TableName, regions: Sequence[Key] | None = None) -> str | None:
    """The call that the policy allows, as text to paste; None if it offers no release. regions: the first of all."""
    policy, keys = context.policy(name), offered(context, name)
    if keys is None:
        return None
    assert policy.unit is not None
    assert policy.per_query is not None
    shown = keys if regions is None else regions
    more = f", hierarchy := {literals([region.column for region in shown])}" if keys else ""
    return (
        f"dp_group_sizes({literal(context.written(name))}, {literal(policy.unit)}{more}, "
        f"epsilon := {_exact(policy.per_query)}, max_size := {policy.max_size})"
    )


def _exact(number: Fraction) -> str:
    shown = written(number)
    return literal(shown) if "/" in shown else shown


# --- calls ------------------------------------------------------------------------------------------------------------


def of_call(context: RuleContext, call: Call, name: TableName) -> str | None:
    """Replace a call of dp_group_sizes by the release. Returns why the policy does not allow it, else None."""
    paste = suggestion(context, name)
    if paste is None:
        return NONE
    policy, keys = context.policy(name), offered(context, name) or ()
    reason = _call_objection(call, policy, keys)
    if reason is not None:
        return f"{reason}: FROM {paste}."
    hierarchy, epsilon, max_size = call.texts("hierarchy"), _epsilon(call), call.number("max_size")
    assert hierarchy is not None and epsilon is not None and max_size is not None  # noqa: PT018
    question = question_of(
        context,
        name,
        keys[: len(hierarchy)],
        epsilon=epsilon,
        max_size=int(max_size),
        mechanism=call.text("mechanism") or "auto",
        split=_split(call),
    )
    reason = check(question, context.protected(name))
    if reason is not None:
        return reason
    for part, argument in full_name(question.path).args.items():
        if part in ("this", "db", "catalog"):
            call.node.set(part, argument)
    settle(context, name, question, Verdict.RELEASED, words(question))
    return None


def _epsilon(call: Call) -> Fraction | None:
    return rational(call.number("epsilon") or call.text("epsilon"))


def _split(call: Call) -> tuple[str, ...] | None:
    """The call's split as shares of epsilon that add up to one; empty if it is not made of positive numbers."""
    if "split" not in call.arguments:
        return None
    numbers = [rational(str(expression.this)) or Fraction(0) for expression in call.arguments["split"].expressions]
    return tuple(str(number / sum(numbers)) for number in numbers) if all(numbers) and min(numbers) > 0 else ()


def _call_objection(call: Call, policy: Policy, keys: Sequence[Key]) -> str | None:
    assert policy.unit is not None
    assert policy.per_query is not None and policy.max_size is not None  # noqa: PT018
    unit, hierarchy, size, cost = call.text("unit"), call.texts("hierarchy"), call.number("max_size"), _epsilon(call)
    if not set(call.arguments) <= {"tbl", "unit", "hierarchy", "epsilon", "max_size", "mechanism", "totals", "split"}:
        return "quantity, bound, regions, person and intervals are the steward's to choose"
    if call.text("totals") not in (None, "private"):
        return "How many groups there are is told with noise only, as with totals := 'private'"
    if unit is None or fold(unit) != fold(policy.unit):
        return f"The policy counts groups by {policy.unit}"
    if (
        hierarchy is None
        or [fold(name) for name in hierarchy] != [fold(region.column) for region in keys][: len(hierarchy)]
    ):
        return "The hierarchy must be the policy's as far as its columns have domains, or the first columns of it"
    if cost is None or cost <= 0:
        return "epsilon must be a number above zero"
    if cost > policy.per_query:
        return f"A release may cost epsilon {written(policy.per_query)} at most"
    if size is None or not size.isdigit() or not 1 <= int(size) <= policy.max_size:
        return f"max_size must be from 1 to {policy.max_size}"
    split = _split(call)
    if split is not None and len(split) != len(hierarchy) + 1:
        return "split must give a number above zero for each level, the root first"
    return None


def question_of(
    context: RuleContext,
    name: TableName,
    keys: Sequence[Key],
    *,
    epsilon: Fraction,
    max_size: int,
    **more: Any,
) -> GroupSizesQuestion:
    """The question for group sizes of a table's policy. more: further fields of the question."""
    protected = context.catalog.protected[name]
    stored = {fold(column): column for column in context.columns(name)}
    fields = {
        **basis(protected, epsilon),
        "group": stored[fold(protected.policy.unit or "")],
        "hierarchy": tuple(keys),
        "max_size": max_size,
        "is_unit": protected.policy.unit_is_group,
    }
    return GroupSizesQuestion(**{**fields, **more})


def check(question: GroupSizesQuestion, protected: Protected) -> str | None:
    """Why a question cannot be answered, whatever the records are; None if it can."""
    try:
        check_price(question.epsilon, protected.total, protected.renyi)
        question.engine.check(depth=len(question.hierarchy) + 1)
    except InvalidInput as error:
        return str(error)
    if question.scale > _WIDEST:
        return "The noise would be wider than a million: ask for more epsilon, or the steward for fewer rows_per_unit."
    if question.max_size > _MOST_CELLS:
        return f"That is more than {_MOST_CELLS:,} sizes: choose a smaller max_size."
    return None


def settle(context: RuleContext, name: TableName, question: GroupSizesQuestion, verdict: Verdict, reason: str) -> None:
    """Note the question as one to be answered, with its step."""
    context.answers.append(question)
    protected = context.catalog.protected[name]
    reason += room_in_words(protected.remaining, question.epsilon, protected.renyi, protected.left_in_edition)
    context.steps.append(
        Step(KIND, context.label(name), verdict, reason, question.epsilon, protected.remaining, question.edition)
    )


def words(question: GroupSizesQuestion) -> str:
    """What is said of a call, whose result has intervals."""
    return (
        f"The numbers have noise, which protects {question.protects}; low and high hold the true one in 95 of 100 "
        f"cases.{not_covered(question)}"
    )


def words_beside(context: RuleContext, name: TableName, question: GroupSizesQuestion) -> str:
    """What is said of a query that is computed from the numbers alone: which call has their intervals, if one has."""
    sentence = f"The numbers have noise, which protects {question.protects}."
    call = suggestion(context, name, question.hierarchy)
    usual = question_of(context, name, question.hierarchy, epsilon=question.epsilon, max_size=question.max_size)
    if call is None or question != usual:
        left_out = left_out_of(question)
        more = f", and differ from the true ones by {left_out} too" if left_out else ""
        return f"{sentence} They have no intervals{more}.{in_one_region(question)}"
    return (
        f"{sentence} The 95 % intervals of the numbers of groups are in FROM {call}, for free.{not_covered(question)}"
    )
