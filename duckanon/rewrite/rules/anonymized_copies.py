"""k_anonymize of a protected table: admitted when it keeps the policy, and answered from one stored copy.

Two different copies of the same records can be intersected, so there is one for each content of the table.
"""

from __future__ import annotations

from hashlib import sha256

from duckanon.rewrite.bind import table
from duckanon.rewrite.calls import Call, qualify
from duckanon.rewrite.catalog import Protection
from duckanon.rewrite.decision import Copy, Step, Verdict
from duckanon.rewrite.question import Question, has, literal, literals
from duckanon.rewrite.spot.names import TableName, fold

KIND = "k-anonymous copy"
# Types that k_anonymize takes as quasi-identifiers only if they are said to be categorical.
_TEXT = ("VARCHAR", "JSON", "UUID")


def apply(question: Question) -> None:
    """Settle calls of k_anonymize on protected tables. Raises Refused where one does not keep the policy."""
    for call, name in question.asked("k_anonymize"):
        policy = question.protection(name)
        reason = objection(question, call, name, policy)
        if reason is not None:
            question.refuse(KIND, name, reason)
        path = question.path(name)
        kept = (path[0], "duckanon", stored(path))
        made = qualify(call, {name: path})
        for part, value in table(kept).args.items():
            if part in ("this", "db", "catalog"):
                call.node.set(part, value)
        drop = call.texts("drop") or []
        columns = tuple(column for column in question.columns(name) if not has(drop, column))
        question.copies.append(Copy(path, made, kept, columns))
        question.steps.append(
            Step(
                KIND,
                question.label(name),
                Verdict.RELEASED,
                "It keeps the policy. There is one copy for each content of the table, and all get the same.",
            )
        )
        question.calls.remove(call)


def stored(path: tuple[str, str, str]) -> str:
    """The name under which a table's copy is kept in the schema duckanon."""
    return "copy_" + sha256("\0".join(part.lower() for part in path[1:]).encode()).hexdigest()[:24]


def suggestion(question: Question, name: TableName) -> str | None:
    """The call that answers for a read of records, ready to paste; None where the policy allows none."""
    policy, columns = question.protection(name), question.columns(name)
    if not policy.quasi_identifiers or not columns:
        return None
    shown = [*policy.quasi_identifiers, *policy.sensitive]
    drop = [column for column in columns if has(policy.drop, column) or not has(shown, column)]
    _, schema, own = question.path(name)
    named = own if schema == "main" else f"{schema}.{own}"
    kinds = {fold(column): kind for column, kind in question.catalog.tables[name].columns.items()}
    text = [one for one in policy.quasi_identifiers if kinds.get(fold(one)) in _TEXT]
    more = f", categorical := {literals(text)}" if text else ""
    more += f", drop := {literals(drop)}" if drop else ""
    return f"FROM k_anonymize({literal(named)}, {literals(list(policy.quasi_identifiers))}, k := {policy.k}{more})"


def objection(question: Question, call: Call, name: TableName, policy: Protection) -> str | None:
    """Why a call does not keep the policy; None if it does."""
    paste = suggestion(question, name)
    if paste is None:
        return "The policy names no quasi_identifiers, so no copy is released: ask the steward to protect it with them."
    qi, drop, k = call.texts("qi"), call.texts("drop"), call.number("k")
    plain = {"tbl", "qi", "k", "method", "weights", "categorical", "drop"}
    if qi is None or drop is None or not set(call.arguments) <= plain:
        return f"The call cannot be read: write it as {paste}."
    missing = [column for column in policy.quasi_identifiers if not has(qi, column)]
    if missing:
        return f"The quasi-identifiers must include {', '.join(missing)}: {paste}."
    if not (k is None and policy.k <= 5) and not (k is not None and k.isdigit() and int(k) >= policy.k):
        return f"k must be {policy.k} or more: {paste}."
    for column in question.columns(name):
        free = has(qi, column) or (has(policy.sensitive, column) and not has(policy.drop, column))
        if not has(drop, column) and not free:
            return f"The policy does not let column {column} out, so it must be dropped: {paste}."
        if has(policy.drop, column) and not has(drop, column):
            return f"The policy has column {column} dropped: {paste}."
    return None
