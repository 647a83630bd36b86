"""Reads dbt's `meta: {duckanon: ...}` of a table and its columns: a policy, or that the table is open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from duckanon.catalog.policy import LISTS, Policy
from duckanon.errors import InvalidInput

# The roles of a column, and the term of the policy that lists columns of that role.
_ROLES = {
    "privacy_unit": "privacy_unit",
    "unit": "unit",
    "hierarchy": "hierarchy",
    "public": "public",
    "quasi_identifier": "quasi_identifiers",
    "sensitive": "sensitive",
    "identifier": "drop",
}
# Other settings of a column, and the term of the policy that holds them by column.
_SAID = {"domain": "domains", "bounds": "bounds"}
# What governance makes of a link is no term.
_TERMS = tuple(field.name for field in fields(Policy) if field.name not in ("links", "owner"))
# How often editions begin: from a time to its calendar period in UTC, like the times in the ledger. Periods are equal
# within one, and greater in a later one.
PERIODS: Mapping[str, Callable[[datetime], tuple[int, ...]]] = {
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: tuple(at.isocalendar()[:2]),
    "monthly": lambda at: (at.year, at.month),
    "quarterly": lambda at: (at.year, (at.month - 1) // 3),
    "yearly": lambda at: (at.year,),
}
# Kinds of findings that a model may be allowed.
KINDS = ("row-level", "group-size", "conditional", "count", "unknown")


@dataclass(frozen=True)
class Declared:
    """What `meta` declares of one table.

    protected: whether it is protected. terms: the terms of its policy that are given. new_edition: how often the next
    edition of its population begins; None: only when a steward begins it. open: whether analysts read it as it is;
    None: not declared. allow: kinds of findings that the audit of this model lets pass.
    """

    protected: bool
    terms: Mapping[str, Any]
    allow: tuple[str, ...] = ()
    open: bool | None = None
    new_edition: str | None = None


def declared(node: Mapping[str, Any]) -> Declared:
    """The declaration of a node or source in dbt's manifest. Raises InvalidInput for a wrong one."""
    label = f"The {node.get('resource_type') or 'table'} {node.get('name')}"
    said = _said(node, label)
    allow = said.pop("allow", [])
    allow = [allow] if isinstance(allow, str) else allow
    if not isinstance(allow, list) or not all(value in KINDS for value in allow):
        raise InvalidInput(f"{label} may allow findings of these kinds only: {one_of(KINDS)}.")
    protected, opened = _switch(said, "protected", label), _switch(said, "open", label)
    edition = said.pop("new_edition", None)
    if edition not in (None, *PERIODS):
        raise InvalidInput(f"{label}: new_edition in meta.duckanon says how often, and {one_of(PERIODS)}.")
    found = terms(said, label)
    for column, part in _columns(node, label):
        _take(found, part, column, label)
    if protected is False and (found or edition):
        raise InvalidInput(f"{label} is not to be protected, and has a policy in meta.duckanon: leave out one of them.")
    if opened and (protected or found or edition):
        raise InvalidInput(f"{label} is to be open, and has a policy in meta.duckanon: leave out one of them.")
    return Declared(bool(protected or found or edition), found, tuple(allow), opened, edition)


def policy_fields(
    node: Declared, default: Mapping[str, Any], label: str, budgets: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields of a protected table's Policy that are given; `epsilon` is always among them.

    default: terms for those that the node lacks. budgets: of populations, from other tables' declarations. Raises
    InvalidInput where the terms are no valid policy, with the table's label.
    """
    from duckanon.functions.policy_terms import loaded, plain_terms

    said = {**default, **node.terms}
    said |= {
        name: value for name, value in budgets.get(str(said.get("population")), {}).items() if name not in node.terms
    }
    if said.get("epsilon") is None:
        raise InvalidInput(
            f"{label} is protected and has no budget: give it an epsilon in meta.duckanon, or give the plugin in "
            "profiles.yml a policy with one for all tables."
        )
    try:
        return loaded(plain_terms(said))
    except InvalidInput as error:
        raise InvalidInput(f"{label}: {error}") from None


def terms(said: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The terms of a policy, by their names in `protect`. Raises InvalidInput for a name that is none."""
    if not isinstance(said, Mapping):
        raise InvalidInput(f"{label} must be keys and values, such as epsilon: 1.")
    found: dict[str, Any] = {}
    for key, value in said.items():
        if key not in _TERMS:
            raise InvalidInput(f"{label} has no term {key!r} in its policy: {one_of(_TERMS)}.")
        found[key] = [value] if key in LISTS and isinstance(value, str) else value
    for key in ("link", *_SAID.values()):
        if not isinstance(found.get(key, {}), Mapping):
            raise InvalidInput(f"{label}: {key} says something for each column, as in {key}: {{column: ...}}.")
    return found


def one_of(names: Collection[str]) -> str:
    """The choices, for an error."""
    *most, last = names
    return f"it is {', '.join(most)} or {last}" if most else f"it is {last}"


def _switch(said: dict[str, Any], name: str, label: str) -> bool | None:
    found = said.pop(name, None)
    if found not in (None, True, False):
        raise InvalidInput(f"{label}: {name} in meta.duckanon is true or false.")
    return None if found is None else bool(found)


def _said(node: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The key `duckanon` of `meta`, which dbt keeps in the node, and since 1.10 in the node's config too."""
    found: dict[str, Any] = {}
    for meta in (node.get("meta"), (node.get("config") or {}).get("meta")):
        part = (meta or {}).get("duckanon") or {}
        if not isinstance(part, Mapping):
            raise InvalidInput(f"{label}: meta.duckanon must be keys and values, such as {{epsilon: 1}}.")
        found |= part
    return found


def _columns(node: Mapping[str, Any], label: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each column with settings: its roles, its domain, its bounds."""
    for name, column in (node.get("columns") or {}).items():
        said = _said(column, f"{label}, column {name}")
        roles = said.pop("role", [])
        roles = [roles] if isinstance(roles, str) else roles
        if not isinstance(roles, list) or not all(role in _ROLES for role in roles):
            raise InvalidInput(f"{label}, column {name}: meta.duckanon gives a role, and {one_of(tuple(_ROLES))}.")
        if not said.keys() <= _SAID.keys():
            raise InvalidInput(f"{label}, column {name}: meta.duckanon gives a role, a domain or bounds, nothing else.")
        yield str(column.get("name") or name), {"role": roles, **said}


def _take(found: dict[str, Any], said: Mapping[str, Any], column: str, label: str) -> None:
    for role in said["role"]:
        _take_role(found, role, column, label)
    for key, term in _SAID.items():
        if key not in said:
            continue
        known = found[term] = dict(found.get(term) or {})
        if column.lower() in [str(value).lower() for value in known]:
            raise InvalidInput(f"{label} says {term} of the column {column} twice: leave out one of them.")
        known[column] = said[key]


def _take_role(found: dict[str, Any], role: str, column: str, label: str) -> None:
    term = _ROLES[role]
    if term in LISTS:
        known = found.setdefault(term, [])
        if column.lower() not in [str(value).lower() for value in known]:
            known.append(column)
    elif str(found.setdefault(term, column)).lower() != column.lower():
        text = "identifies a group" if term == "unit" else "identifies the privacy unit"
        raise InvalidInput(f"{label} has two columns with the role {role}: one column {text}.")


def is_due(period: str, began: datetime, now: datetime) -> bool:
    """Whether something that began in an earlier period than now's should begin again."""
    return PERIODS[period](began) < PERIODS[period](now)
