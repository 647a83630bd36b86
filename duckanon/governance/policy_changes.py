"""What of a standing policy a steward may change in place, while analysts ask: a closed list that weakens no promise.

A table that is protected stays so throughout: between the policy before and the policy after lies one line of the
ledger, and no moment in which analysts are refused. The list, and why each entry is on it:

- **More values of a domain**, or a domain for a column that has none. Which values are keys is the steward's choice, as
  it was when the table was protected: they come from the call, or from an open table, never from a record. So the
  change is public, and tells as much as a policy does. A question that has the column as a key is another question
  afterwards, since its key names the copy of the domain: it is charged, and drawn with noise of its own. The earlier
  answer stays what it was. Values that go, and another kind of source, are not on the list: audits of publications
  take columns of one open table for a fact about the records, and must not know less of it than before. Keys found
  with noise spend delta, and so are not declared in place.
- **Bounds of columns**, wider or narrower. Numbers are clamped to them before they are added up, and the noise is that
  of the bounds that a question was charged with: they are part of its key. So a question that computes from the column
  is another one.
- **Lower caps**: `per_query`, `per_edition`, `max_size` and `rows_per_unit`. What one release may cost, what an edition
  may cost, and how much one unit can change, only become less. Price and number of records are part of each question's
  key, so a question that was charged for more records is never drawn for fewer, or the other way round. What was spent
  in the edition is of the population, and spans all its policies.

What is not on the list stays as it was until the table is unprotected: the unit and how it is found, what it may add
(`rows_per_unit` upwards), `small` and `k`, with which publications were audited, the budget, and what analysts may
count or see (`public`, `hierarchy`, `sensitive`, `drop` and the rest).

Questions are told apart by the line that protected the table, the edition, and all that their answer depends on. So
those that use nothing that was changed stay the same: their stored answers are free. A statement that was decided about
before the change is decided about again before it is charged (`duckanon.governance.answers.Stale`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from duckanon.accounting import written
from duckanon.catalog.domain_sources import ENUM, DomainSource, Range, WithNull, is_found
from duckanon.catalog.names import fold, literal
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput
from duckanon.governance.ledger_state import TablePolicy


@dataclass(frozen=True)
class Changes:
    """What a policy changes of the one that stands.

    columns: folded, whose domains or bounds are changed. terms: names of other fields. said: in words.
    """

    columns: tuple[str, ...]
    terms: tuple[str, ...]
    said: str

    def dump(self) -> dict[str, Any]:
        """As the ledger's line notes it."""
        return {"columns": list(self.columns), "terms": list(self.terms)}


def differing(held: Policy, wanted: Policy) -> list[str]:
    """The names of the fields in which two policies differ."""
    return [field.name for field in fields(Policy) if getattr(held, field.name) != getattr(wanted, field.name)]


def changes(standing: TablePolicy, wanted: Policy, grown: Mapping[str, int]) -> Changes | None:
    """What a policy changes in place; None if it is the one that stands.

    grown: by the folded column of a domain how many values it has gained. Raises InvalidInput for what is not on the
    list, by name.
    """
    held, label = standing.policy, standing.location.label
    refused = [name for name in differing(held, wanted) if not _is_listed(name, held, wanted)]
    if refused:
        raise InvalidInput(
            f"{label} is protected already: unprotect({literal(standing.location.written)}) first, since "
            f"{' and '.join(refused)} cannot be changed so in place. What was spent stays spent."
        )
    bounds = _of_columns(held.bounds, wanted.bounds)
    terms = [name for name in differing(held, wanted) if name in _LOWER]
    domains = list(grown)
    if not bounds and not terms and not domains:
        return None
    said = [f"the domain of {_named(domain, wanted.domains)} has {_values(grown[domain])}" for domain in domains]
    said += [f"the bounds of {_named(bound, {**held.bounds, **wanted.bounds})} are others" for bound in bounds]
    said += [f"{name} is {_amount(getattr(wanted, name))}" for name in terms]
    is_anew = bool({"per_query", "rows_per_unit"} & set(terms)) and any(map(is_found, wanted.domains.values()))
    sentence = _sentence(said, domains, bounds, terms) + (" Keys found with noise are to be found anew." * is_anew)
    return Changes(tuple(dict.fromkeys([*domains, *bounds])), tuple(terms), sentence)


def comparable(column: str, before: DomainSource, after: DomainSource) -> None:
    """Raises InvalidInput where a domain has another kind of source than it had."""
    if _kind(before) != _kind(after):
        raise InvalidInput(
            f'The domain of "{column}" gets more values in place only from a source of its kind: a list or a range '
            "from a list or a range, an open table's column from the same one. Unprotect the table first for another."
        )


def _kind(source: DomainSource) -> str:
    if isinstance(source, tuple | Range):
        return "listed"
    name = source.name if isinstance(source, WithNull) else source
    return "found" if is_found(source) else "enum" if name == ENUM else "open"


def _is_listed(name: str, held: Policy, wanted: Policy) -> bool:
    """Whether a field is on the list, changed as it is. Of domains, which values they have is looked at elsewhere."""
    before, after = getattr(held, name), getattr(wanted, name)
    if name == "bounds":
        return True
    if name == "domains":
        known = {fold(value): source for value, source in after.items()}
        was = {fold(value) for value in before}
        declared = all(not is_found(source) for text, source in known.items() if text not in was)
        return was <= set(known) and declared
    return name in _LOWER and _LOWER[name](before, after)


def _less(before: Any, after: Any) -> bool:
    """Whether a cap is lower. Where there is none, there are no releases of its kind, so one is no lower cap."""
    return before is not None and after is not None and after < before


def _capped(before: Any, after: Any) -> bool:
    """As `_less`, for a cap without which there is no limit."""
    return after is not None and (before is None or after < before)


_LOWER: Mapping[str, Callable[[Any, Any], bool]] = {
    "per_query": _less,
    "per_edition": _capped,
    "max_size": _less,
    "rows_per_unit": _less,
}


def _of_columns(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The columns, folded, for which two mappings say something else."""
    was, now = ({fold(name): value for name, value in each.items()} for each in (before, after))
    return [text for text in dict.fromkeys([*was, *now]) if was.get(text) != now.get(text)]


def _named(column: str, spelled: Mapping[str, Any]) -> str:
    return next(name for name in spelled if fold(name) == column)


def _values(count: int) -> str:
    return "1 more value" if count == 1 else f"{count:,} more values"


def _amount(value: Any) -> str:
    return str(value) if isinstance(value, int) else written(value)


def _sentence(said: Sequence[str], domains: Sequence[str], bounds: Sequence[str], terms: Sequence[str]) -> str:
    """What is changed, and which questions are new ones by it."""
    new = [f"with {' or '.join(domains)} as a key"] if domains else []
    new += [f"that compute from {' or '.join(bounds)}"] if bounds else []
    new += ["of group sizes"] if "max_size" in terms else []
    if {"per_query", "rows_per_unit"} & set(terms):
        new = ["with noise"]
    questions = f"Questions {' and those '.join(new)} are new ones, which are charged anew; every other stored answer"
    return f"Changed in place: {', '.join(said)}. {questions if new else 'Every stored answer'} stays free."
