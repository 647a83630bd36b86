"""dp_group_sizes of a protected table: admitted when it asks for what the policy offers, at no higher price."""

from __future__ import annotations

from fractions import Fraction

from duckanon.accounting import rational, written
from duckanon.rewrite.calls import Call, qualify
from duckanon.rewrite.catalog import Protection
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.question import Question, literal, literals, quoted
from duckanon.rewrite.spot.names import TableName, fold

KIND = "group sizes"
REASON = "Noise protects each person; the same release is given again for nothing."


def apply(question: Question) -> None:
    """Settle calls of dp_group_sizes on protected tables. Raises Refused where one does not keep the policy."""
    for call, name in question.asked("dp_group_sizes"):
        policy = question.protection(name)
        reason = _objection(question, call, name, policy)
        if reason is not None:
            question.refuse(KIND, name, reason)
        question.approved.append(qualify(call, {name: question.path(name)}))
        question.steps.append(step(question, name, _epsilon(call)))
        question.calls.remove(call)


def step(question: Question, name: TableName, epsilon: Fraction | None, verdict: Verdict = Verdict.RELEASED) -> Step:
    """What is said of a release of group sizes."""
    return Step(KIND, question.label(name), verdict, REASON, epsilon, question.protection(name).remaining)


def suggestion(question: Question, name: TableName, depth: int | None = None, *, full: bool = False) -> str | None:
    """The call that the policy offers, of the first `depth` columns of its hierarchy; None where it offers none."""
    policy = question.protection(name)
    if policy.unit is None or policy.per_query is None or policy.max_size is None:
        return None
    _, schema, own = question.path(name)
    named = quoted(question.path(name)) if full else own if schema == "main" else f"{schema}.{own}"
    regions = list(policy.hierarchy[:depth])
    more = f", hierarchy := {literals(regions)}" if regions else ""
    return (
        f"dp_group_sizes({literal(named)}, {literal(policy.unit)}{more}, "
        f"epsilon := {_exact(policy.per_query)}, max_size := {policy.max_size})"
    )


def _exact(number: Fraction) -> str:
    text = written(number)
    return literal(text) if "/" in text else text


def _epsilon(call: Call) -> Fraction | None:
    return rational(call.number("epsilon") or call.text("epsilon"))


def _objection(question: Question, call: Call, name: TableName, policy: Protection) -> str | None:
    paste = suggestion(question, name)
    if paste is None:
        return (
            "The policy offers no group sizes: ask the steward to protect the table with unit, per_query and max_size."
        )
    assert policy.unit is not None
    assert policy.per_query is not None and policy.max_size is not None  # noqa: PT018
    unit, hierarchy, size, cost = call.text("unit"), call.texts("hierarchy"), call.number("max_size"), _epsilon(call)
    if not set(call.arguments) <= {"tbl", "unit", "hierarchy", "epsilon", "max_size", "mechanism", "totals", "split"}:
        return f"quantity, bound, regions and person are the steward's to choose: FROM {paste}."
    if unit is None or fold(unit) != fold(policy.unit):
        return f"The policy counts groups by {policy.unit}: FROM {paste}."
    if (
        hierarchy is None
        or [fold(one) for one in hierarchy] != [fold(one) for one in policy.hierarchy][: len(hierarchy)]
    ):
        return f"The hierarchy must be the policy's, or the first columns of it: FROM {paste}."
    if cost is None or not 0 < cost <= policy.per_query:
        return f"A release may cost epsilon {written(policy.per_query)} at most: FROM {paste}."
    if size is None or not size.isdigit() or int(size) > policy.max_size:
        return f"max_size must be {policy.max_size} or less: FROM {paste}."
    return None
