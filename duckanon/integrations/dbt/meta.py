"""What dbt's `meta: {duckanon: ...}` says of a table and its columns, as the policy that `protect` would set."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.accounting import epsilon
from duckanon.errors import InvalidInput
from duckanon.governance.policy import Policy

# What a column may be, and the policy's list that it then is in.
_ROLES = {
    "unit": "unit",
    "hierarchy": "hierarchy",
    "public": "public",
    "quasi_identifier": "quasi_identifiers",
    "sensitive": "sensitive",
    "identifier": "drop",
}
# The policy's lists of columns.
LISTS = ("hierarchy", "public", "quasi_identifiers", "sensitive", "drop")
_TERMS = ("epsilon", "unit", "per_query", "max_size", "k", "small", *LISTS)
# Kinds of findings that a model may be allowed.
KINDS = ("row-level", "group-size", "conditional", "count", "unknown")


@dataclass(frozen=True)
class Declared:
    """What is said of one table. protected: whether it is a protected one. terms: the policy's, as far as said.

    allow: kinds of findings that the model may read from protected tables besides releases.
    """

    protected: bool
    terms: Mapping[str, Any]
    allow: tuple[str, ...] = ()


def declared(node: Mapping[str, Any]) -> Declared:
    """What a node or source of dbt's manifest says. Raises InvalidInput for what it must not say."""
    label = f"The {node.get('resource_type') or 'table'} {node.get('name')}"
    said = _said(node, label)
    allow = said.pop("allow", [])
    allow = [allow] if isinstance(allow, str) else allow
    if not isinstance(allow, list) or not all(one in KINDS for one in allow):
        raise InvalidInput(f"{label} may allow findings of these kinds only: {one_of(KINDS)}.")
    protected = said.pop("protected", None)
    if protected not in (None, True, False):
        raise InvalidInput(f"{label}: protected in meta.duckanon is true or false.")
    found = terms(said, label)
    for column, roles in _columns(node, label):
        for role in roles:
            _take(found, role, column, label)
    if protected is False and found:
        raise InvalidInput(f"{label} is not to be protected, and has a policy in meta.duckanon: leave out one of them.")
    return Declared(bool(protected or found), found, tuple(allow))


def policy(node: Declared, default: Mapping[str, Any], label: str) -> Policy:
    """The policy of a protected table. default: terms for what the node does not say.

    Raises InvalidInput where the terms are no policy, naming the table.
    """
    from duckanon.functions.budgets import offers

    said = {"k": 5, "small": 5, "per_query": None, "max_size": None, "unit": None, **default, **node.terms}
    if "epsilon" not in said:
        raise InvalidInput(
            f"{label} is protected and has no budget: give it an epsilon in meta.duckanon, or give the plugin in "
            "profiles.yml a policy with one for all tables."
        )
    lists = {name: said.get(name, []) for name in LISTS}
    rest = {name: said[name] for name in ("per_query", "max_size", "k", "small")}
    try:
        budget = epsilon(said["epsilon"])
        found = offers(budget, said["unit"], lists, **rest)
    except InvalidInput as error:
        raise InvalidInput(f"{label}: {error}") from None
    found |= {name: tuple(found[name]) for name in LISTS}
    if "per_query" in found:
        found["per_query"] = epsilon(found["per_query"], "per_query")
    return Policy(budget, said["unit"], **found)


def terms(said: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The terms of a policy, by their names in `protect`. Raises InvalidInput for a name that is none."""
    if not isinstance(said, Mapping):
        raise InvalidInput(f"{label} must be keys and values, such as epsilon: 1.")
    found = {}
    for key, value in said.items():
        if key not in _TERMS:
            raise InvalidInput(f"{label} has no term {key!r} in its policy: {one_of(_TERMS)}.")
        found[key] = [value] if key in LISTS and isinstance(value, str) else value
    return found


def one_of(names: Collection[str]) -> str:
    """The choices, for an error."""
    *most, last = names
    return f"it is {', '.join(most)} or {last}" if most else f"it is {last}"


def _said(node: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The part of `meta` that is ours: dbt keeps it beside the node, and since 1.10 in its config as well."""
    found: dict[str, Any] = {}
    for meta in (node.get("meta"), (node.get("config") or {}).get("meta")):
        part = (meta or {}).get("duckanon") or {}
        if not isinstance(part, Mapping):
            raise InvalidInput(f"{label}: meta.duckanon must be keys and values, such as {{epsilon: 1}}.")
        found |= part
    return found


def _columns(node: Mapping[str, Any], label: str) -> Iterator[tuple[str, Sequence[str]]]:
    for name, column in (node.get("columns") or {}).items():
        said = _said(column, f"{label}, column {name}")
        roles = said.pop("role", [])
        roles = [roles] if isinstance(roles, str) else roles
        if said or not isinstance(roles, list) or not all(role in _ROLES for role in roles):
            raise InvalidInput(f"{label}, column {name}: meta.duckanon gives a role, and {one_of(tuple(_ROLES))}.")
        if roles:
            yield str(column.get("name") or name), roles


def _take(found: dict[str, Any], role: str, column: str, label: str) -> None:
    term = _ROLES[role]
    if term != "unit":
        known = found.setdefault(term, [])
        if column.lower() not in [str(one).lower() for one in known]:
            known.append(column)
    elif found.setdefault("unit", column) != column:
        raise InvalidInput(f"{label} has two columns with the role unit: one column tells groups apart.")
