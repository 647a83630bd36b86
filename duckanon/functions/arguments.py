"""The arguments of a call, read into Python values, with one clear sentence for each mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput


def names(given: object, argument: str, *, empty: bool) -> list[str]:
    """A list of column names, each once (DuckDB's names ignore case)."""
    example = f"{argument} := ['age', 'zip']"
    if not isinstance(given, list) or any(not isinstance(name, str) for name in given):
        if given is None and empty:
            return []
        raise InvalidInput(f"{argument} must be a list of column names, as in {example}.")
    if not given and not empty:
        raise InvalidInput(f"{argument} is empty: name at least one column, as in {example}.")
    seen: set[str] = set()
    for name in given:
        if fold(name) in seen:
            raise InvalidInput(f'Column "{name}" is named twice in {argument}: name it once.')
        seen.add(fold(name))
    return given


def options(given: object) -> dict[str, int]:
    """Whole numbers by name, from a struct or a map."""
    pairs: object = list(given.items()) if isinstance(given, dict) else [] if given is None else given
    found = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        name, value = pair if isinstance(pair, tuple) else (None, None)
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput("options must give whole numbers by name, as in options := {'sets': 6}.")
        found[fold(name)] = value
    return found


def table(given: object) -> str:
    """The name of a table or view."""
    if not isinstance(given, str) or not given:
        raise InvalidInput("The first argument must be the name of a table or view, in quotes.")
    return given


def whole(given: object, argument: str) -> int:
    """A whole number of at most 64 bits."""
    # (What 64 bits do not hold comes as a decimal number, or as a float.)
    if isinstance(given, (Decimal, float)) and not -(2**63) <= given < 2**63:
        raise InvalidInput(f"{argument} does not fit into 64 bits: give a smaller whole number, as in {argument} := 5.")
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidInput(f"{argument} must be a whole number, as in {argument} := 5.")
    return given


def seconds(given: object) -> float | None:
    """A time limit in seconds; None if there is none."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal) or not 0 < given < math.inf:
        raise InvalidInput("seconds must be a number above zero, as in seconds := 10.")
    return float(given)


def text(given: object, argument: str) -> str:
    if not isinstance(given, str):
        raise InvalidInput(f"{argument} must be a name in quotes.")
    return given


def many(given: object, argument: str) -> list[object]:
    """A list, or one value standing for a list of one; repeated values once."""
    found = given if isinstance(given, list) else [given]
    if not found:
        raise InvalidInput(f"{argument} is empty: give at least one value.")
    return list(dict.fromkeys(found))


def weights(given: object, qi: Sequence[str]) -> list[float]:
    """A weight for each quasi-identifier, from a struct or map by name, or a list in the order of `qi`.

    Quasi-identifiers that a struct or map leaves out weigh 1.
    """
    if given is None:
        return [1.0] * len(qi)
    pairs: Iterable[tuple[object, object]]
    if isinstance(given, dict):
        pairs = given.items()
    elif isinstance(given, list) and all(isinstance(pair, tuple) for pair in given):
        pairs = given
    elif isinstance(given, list):
        if len(given) != len(qi):
            raise InvalidInput(f"weights has {len(given)} numbers for {len(qi)} quasi-identifiers: give one for each.")
        pairs = list(zip(qi, given, strict=True))
    else:
        raise InvalidInput("weights must give numbers by name, as in weights := {'age': 2, 'zip': 1}.")
    found = {fold(name): 1.0 for name in qi}
    for name, weight in pairs:
        if not isinstance(name, str) or fold(name) not in found:
            raise InvalidInput(f'weights names "{name}", which is not in qi: weigh quasi-identifiers only.')
        try:
            found[fold(name)] = float(weight)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise InvalidInput(f'The weight of "{name}" must be a number that is zero or more.') from None
    for name in qi:
        if not math.isfinite(found[fold(name)]) or found[fold(name)] < 0:
            raise InvalidInput(f'The weight of "{name}" must be a number that is zero or more.')
    if not any(found.values()):
        raise InvalidInput("All weights are zero: give at least one quasi-identifier a weight above zero.")
    return [found[fold(name)] for name in qi]


def subset(given: Sequence[str], of: Sequence[str], argument: str) -> None:
    """Check that every name in `given` is a quasi-identifier."""
    known = {fold(name) for name in of}
    for name in given:
        if fold(name) not in known:
            raise InvalidInput(
                f'Column "{name}" is in {argument} but not in qi: add it to qi, or take it out of {argument}.'
            )


def disjoint(given: Sequence[str], of: Sequence[str], argument: str) -> None:
    """Check that no name in `given` is a quasi-identifier."""
    known = {fold(name) for name in of}
    for name in given:
        if fold(name) in known:
            raise InvalidInput(f'Column "{name}" is in both qi and {argument}: name it in one of them.')


def flag(given: object, argument: str) -> bool:
    """An argument that is true or false."""
    if not isinstance(given, bool):
        raise InvalidInput(f"{argument} must be true or false.")
    return given


def from_policy(given: Mapping[str, Any], of: Callable[[str], str | None]) -> Mapping[str, Any]:
    """The arguments of a call, where those that are not given follow from the policy of its table.

    of: the column that names the privacy unit of a table. Raises InvalidInput as `_with_unit` does.
    """
    if "totals" not in given:
        return _with_unit(given, of)
    if given["totals"] is not None:
        return given
    # Public totals protect fewer neighbours than the charges of a privacy unit do, and charges are added up.
    return {**given, "totals": "public" if of(table(given["tbl"])) is None else "private"}


def _with_unit(given: Mapping[str, Any], of: Callable[[str], str | None]) -> Mapping[str, Any]:
    """The arguments of a call, with the `unit` of the table's policy where none is given; '' stands for records.

    A coarser release counts what the earlier one has, which mostly lacks the unit: there it has to be given. of: the
    column that names the privacy unit of a table. Raises InvalidInput if that is a quasi-identifier here.
    """
    if given["unit"] is not None or given.get("within") is not None:
        return {**given, "unit": given["unit"] or None}
    name = table(given["tbl"])
    unit = of(name)
    if unit is not None and fold(unit) in {fold(one) for one in given["qi"] or () if isinstance(one, str)}:
        raise InvalidInput(
            f'Column "{unit}" names the privacy unit in the policy of {name}: leave it out of qi, or count records '
            "with unit := ''."
        )
    return {**given, "unit": unit}


def real(given: object, argument: str, example: str) -> float:
    """A number, as a float. example: a call that is right."""
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal) or not math.isfinite(given):
        raise InvalidInput(f"{argument} must be a number, as in {argument} := {example}.")
    return float(given)


def optional_table(given: object, argument: str) -> str | None:
    """The name of another table, or none."""
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise InvalidInput(f"{argument} must be the name of a table or view, in quotes.")
    return given


def share(given: object, argument: str, example: str) -> Fraction:
    """A number from 0 to 1, as it was written, rounded down to nine decimals."""
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal) or not 0 <= given <= 1:
        raise InvalidInput(f"{argument} must be a number from 0 to 1, as in {argument} := {example}.")
    return Fraction(int(Fraction(str(given)) * 10**9), 10**9)


def above(given: object, least: int, argument: str, example: str, *, up: bool) -> Fraction:
    """A number above `least`, as it was written, rounded to six decimals: upwards or downwards."""
    found = Fraction(0)
    if isinstance(given, int | float | Decimal) and not isinstance(given, bool) and math.isfinite(given):
        scaled = Fraction(str(given)) * 10**6
        found = Fraction(math.ceil(scaled) if up else math.floor(scaled), 10**6)
    if found <= least:
        raise InvalidInput(f"{argument} must be a number above {least}, as in {argument} := {example}.")
    return found
