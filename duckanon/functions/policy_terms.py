"""From the arguments of protect to the terms of a policy: checked against each other, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from duckanon.accounting import epsilon, rational, written
from duckanon.catalog.domain_sources import ENUM, Range, WithNull, of_plain, plain
from duckanon.catalog.names import fold, literal, parts_of_column
from duckanon.catalog.policy import LARGEST_BOUND, LISTS
from duckanon.errors import InvalidInput
from duckanon.functions.arguments import checked
from duckanon.renyi import delta
from duckanon.specification import functions

_AMOUNTS = ("epsilon", "per_query", "per_edition")
# The most values of a range.
_MOST_VALUES = 1_000_000


def plain_terms(arguments: Mapping[str, object]) -> dict[str, Any]:
    """The terms of a policy as plain values that JSON can hold, checked against each other. NULLs are left out.

    arguments: the arguments of protect, by name. Raises InvalidInput for arguments that contradict each other.
    """
    terms: dict[str, Any] = dict.fromkeys(argument.name for argument in functions()["protect"].arguments[1:])
    terms |= checked(
        "protect", {name: argument for name, argument in arguments.items() if argument is not None and name != "tbl"}
    )
    terms |= {name: list(terms[name] or ()) for name in LISTS}
    terms |= {name: None if terms[name] is None else written(terms[name]) for name in _AMOUNTS}
    terms["delta"] = None if terms["delta"] is None else written(terms["delta"])
    terms["link"] = _link(arguments.get("link"))
    terms["domains"] = _domains(arguments.get("domains"))
    terms["bounds"] = _bounds(arguments.get("bounds"))
    _check_together(terms)
    return {name: term for name, term in terms.items() if term not in (None, [], {})}


def loaded(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms as fields of Policy."""
    fields: dict[str, Any] = {name: tuple(term) if isinstance(term, list) else term for name, term in terms.items()}
    for name in _AMOUNTS:
        if name in fields:
            fields[name] = epsilon(fields[name], name)
    if "delta" in fields:
        fields["delta"] = delta(fields["delta"])
    for name in ("link", "domains", "bounds"):
        pairs = fields.get(name, {}).items()
        fields[name] = {key: of_plain(entry) for key, entry in pairs}
    return fields


def _check_together(terms: Mapping[str, Any]) -> None:
    for argument, other in _APART:
        named = terms[other]
        _apart(argument, terms[argument], other, named if isinstance(named, list) else [named] if named else [])
    unit, rows_per_unit = terms["privacy_unit"], terms["rows_per_unit"]
    if unit is not None and terms["link"]:
        raise InvalidInput(
            "privacy_unit and link both say whose a record is: name the column where the table has it, else the link."
        )
    unit = "privacy unit" if terms["link"] else unit
    if unit is None and rows_per_unit not in (None, 1):
        raise InvalidInput(
            "rows_per_unit is for a privacy unit with a column: name it, as in privacy_unit := 'person'."
        )
    if unit is not None and rows_per_unit is None and terms["per_query"] is not None:
        raise InvalidInput(
            f"How many records of one {unit} count? Noise grows with it: say so, as in rows_per_unit := 3."
        )


# Arguments that must not name the same column.
_APART = (
    ("hierarchy", "unit"),
    ("hierarchy", "privacy_unit"),
    ("public", "privacy_unit"),
    ("quasi_identifiers", "drop"),
    ("quasi_identifiers", "sensitive"),
    ("quasi_identifiers", "privacy_unit"),
    ("sensitive", "drop"),
    ("public", "drop"),
    ("hierarchy", "drop"),
)


def _apart(argument: str, names: list[str], other: str, others: list[str]) -> None:
    other_names = {fold(name) for name in others}
    for name in names:
        if fold(name) in other_names:
            raise InvalidInput(f'Column "{name}" is both in {argument} and in {other}: name it in one of them.')


def _pairs(value: object, argument: str, example: str) -> dict[str, Any]:
    """A struct or a map by column."""
    if value is None:
        return {}
    # A MAP comes as a list of pairs.
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    by_column: dict[Any, Any] = {None: None}
    if isinstance(pairs, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        by_column = dict(pairs)
    if not all(isinstance(name, str) for name in by_column):
        raise InvalidInput(f"{argument} must say something for each column, as in {argument} := {example}.")
    return by_column


def _link(value: object) -> dict[str, str]:
    """By the table's own columns the parent's, each with its table's name."""
    example = "{'l_orderkey': 'orders.o_orderkey'}"
    pairs = {name: pair for name, pair in _pairs(value, "link", example).items() if pair is not None}
    for name, column in pairs.items():
        if not isinstance(column, str) or len(parts_of_column(column)) < 2:
            raise InvalidInput(f'The link of "{name}" must be a table and its column, in quotes: link := {example}.')
    return pairs


def _domains(domains: object) -> dict[str, Any]:
    return {
        name: [_plain(value) for value in source] if isinstance(source, list | tuple) else plain(source)
        for name, source in domain_sources(domains).items()
    }


def domain_sources(value: object) -> dict[str, Any]:
    """The domains as they are written in SQL: by column a list of values, of the types that SQL gives them, a range, or
    a text with or without NULL.

    Raises InvalidInput.
    """
    pairs = _pairs(value, "domains", _DOMAINS).items()
    return {name: _source(name, domain) for name, domain in pairs if domain is not None}


_DOMAINS = "{'state': ['GA', 'NY'], 'county': 'counties'}"


def _source(name: str, domain: object) -> list[object] | tuple[object, ...] | str | Range | WithNull:
    """One domain. {'values': ..., 'nulls': true} is a list or a name with NULL."""
    described = domain if isinstance(domain, Mapping) else {}
    if described and "values" not in described:
        return _range(name, described)
    source, nulls = described.get("values", domain), described.get("nulls")
    fits = set(described) <= {"values", "nulls"} and isinstance(nulls, bool | None)
    if not fits or not isinstance(source, str | list | tuple) or not source:
        raise InvalidInput(
            f'The domain of "{name}" must be a list of values, a range, the name of an open table or of a column of '
            f"one, or {ENUM!r}: domains := {_DOMAINS}."
        )
    if not nulls:
        return source
    return WithNull(source) if isinstance(source, str) else [*source, None]


def _range(name: str, arguments: Mapping[str, Any]) -> Range:
    """A range of whole numbers or dates: {'from': 0, 'to': 120, 'step': 5, 'nulls': true}. A step of dates is days."""
    example = f"{{{literal(name)}: {{'from': 0, 'to': 120, 'step': 5}}}}"
    first, last, step, nulls = (arguments.get(part) for part in ("from", "to", "step", "nulls"))
    # (YAML and JSON hand over a date as a text.)
    first, last = (_time(end) if isinstance(end, str) else end for end in (first, last))
    step = 1 if step is None else step
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (first, last))
    days = all(isinstance(end, date) and not isinstance(end, datetime) for end in (first, last))
    known = set(arguments) <= {"from", "to", "step", "nulls"} and isinstance(nulls, bool | None)
    if not known or not (whole or days) or not isinstance(step, int) or step < 1:
        raise InvalidInput(
            f'The range of "{name}" must have two whole numbers or dates, and a whole step if there is one: domains := '
            f"{example}."
        )
    assert first is not None
    assert last is not None
    spanned = Range(first, last, step, bool(nulls))
    if not 0 < spanned.count <= _MOST_VALUES:
        raise InvalidInput(f'The range of "{name}" must have from 1 to {_MOST_VALUES:,} values: choose a larger step.')
    return spanned


def _plain(value: object) -> object:
    """A value that JSON can hold; SQL casts it to the column's type."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _bounds(value: object) -> dict[str, list[str]]:
    example = "{'income': [0, 200000, 100]}"
    bounds = {}
    for name, pair in _pairs(value, "bounds", example).items():
        if pair is None:
            continue
        times = [_time(end) for end in pair] if isinstance(pair, list | tuple) else []
        if len(times) == 2 and None not in times:
            bounds[name] = _of_times(name, [str(time) for time in times])
            continue
        numbers = [rational(_number(end)) for end in pair] if isinstance(pair, list | tuple) else []
        whole = [number for number in numbers if number is not None]
        if (
            len(whole) not in (2, 3)
            or len(whole) != len(numbers)
            or whole[0] >= whole[1]
            or min(whole[2:], default=1) <= 0
            or max(map(abs, whole)) > LARGEST_BOUND
        ):
            raise InvalidInput(
                f'The bounds of "{name}" must be its least and its largest value, and a step above zero if there is '
                f"one, none beyond 10^15: bounds := {example}."
            )
        bounds[name] = [written(number) for number in whole]
    return bounds


def _of_times(name: str, ends: list[str]) -> list[str]:
    """The bounds of a column of dates or timestamps, the earlier one first."""
    first, last = map(datetime.fromisoformat, ends)
    if (first.tzinfo is None) != (last.tzinfo is None) or first >= last:
        raise InvalidInput(
            f'The bounds of "{name}" must be its earliest and its latest value: bounds := '
            f"{{{literal(name)}: [DATE '2020-01-01', DATE '2029-12-31']}}."
        )
    return ends


def _time(value: object) -> date | None:
    """A date or a timestamp, which may be written as in ISO 8601; None for anything else."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, date) else None


def _number(value: object) -> object:
    return value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
