"""The arguments of a call, read into Python values, with one clear sentence for each mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from duckanon.accounting import epsilon
from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.renyi import delta
from duckanon.specification import Argument, functions


def checked(function: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, each checked by itself as the function's specification says.

    Lists become tuples. What is made of structs and maps is given back as it came, for the function to read. Arguments
    that `given` lacks are left out. Raises InvalidInput.
    """
    arguments = functions()[function].arguments
    if not arguments:
        return {}
    first, *others = arguments
    found = {first.name: _first(first, given[first.name])} if first.name in given else {}
    return found | {one.name: _value(one, given[one.name]) for one in others if one.name in given}


def _first(argument: Argument, given: object) -> Any:
    """The first argument, which is mostly a table: people do not write its name."""
    return _name(argument, given, "The first argument") if argument.table else _value(argument, given)


def _value(argument: Argument, given: object) -> Any:
    if given is None and argument.default is not None and not argument.required:
        if argument.default == "NULL":
            return None
        if argument.type == "VARCHAR[]":
            return ()
    read = _READERS.get(argument.type)
    return given if read is None else read(argument, given)


def _text(argument: Argument, given: object) -> str:
    if argument.values:
        if given not in argument.values:
            raise _refused(argument, argument.bounds)
    elif argument.table or argument.names:
        return _name(argument, given, argument.name)
    elif not isinstance(given, str):
        raise InvalidInput(f"{argument.name} must be a name in quotes.")
    return str(given)


def _name(argument: Argument, given: object, subject: str) -> str:
    if not isinstance(given, str) or not given:
        end = f"as in {argument.name} := {argument.example}" if argument.example else "in quotes"
        raise InvalidInput(f"{subject} must be the name of {argument.names or 'a table or view'}, {end}.")
    return given


def _columns(argument: Argument, given: object) -> tuple[str, ...]:
    return tuple(names(given, argument.name, empty=argument.empty or argument.default is not None))


def _whole(argument: Argument, given: object) -> int:
    found = whole(given, argument.name)
    if not _is_within(argument, found):
        raise _refused(argument, argument.bounds)
    return found


def _real(argument: Argument, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal) or not math.isfinite(given):
        raise InvalidInput(f"{argument.name} must be a number, as in {argument.name} := {argument.example}.")
    if not _is_within(argument, given):
        raise _refused(argument, f"a number {argument.bounds}")
    return float(given)


def _exact(argument: Argument, given: object) -> Fraction:
    """A decimal number, as it was written, rounded down."""
    if isinstance(given, int | float | Decimal) and not isinstance(given, bool) and math.isfinite(given):
        grains = 10**argument.decimals
        found = Fraction(math.floor(Fraction(str(given)) * grains), grains)
        if _is_within(argument, given) and _is_within(argument, found):
            return found
    raise _refused(argument, f"a number {argument.bounds}")


def _is_within(argument: Argument, given: int | float | Decimal | Fraction) -> bool:
    return not (
        (argument.least is not None and given < argument.least)
        or (argument.most is not None and given > argument.most)
        or (argument.above is not None and given <= argument.above)
        or (argument.below is not None and given >= argument.below)
    )


def _refused(argument: Argument, bounds: str) -> InvalidInput:
    end = f", as in {argument.name} := {argument.example}" if argument.example else ""
    end = f": {argument.because}" if argument.because else end
    return InvalidInput(f"{argument.name} must be {bounds}{end}.")


def _flag(argument: Argument, given: object) -> bool:
    if not isinstance(given, bool):
        raise _refused(argument, "true or false")
    return given


def _flag_or_word(argument: Argument, given: object) -> bool | str:
    if isinstance(given, bool) or (isinstance(given, str) and given in (argument.values or ())):
        return given
    raise _refused(argument, argument.bounds)


def _several(read: Callable[[Argument, object], Any]) -> Callable[[Argument, object], tuple[Any, ...]]:
    """A list, or one value standing for a list of one; repeated values once."""

    def read_several(argument: Argument, given: object) -> tuple[Any, ...]:
        values = given if isinstance(given, list) else [given]
        if not values:
            raise InvalidInput(f"{argument.name} is empty: give at least one value.")
        return tuple(read(argument, one) for one in dict.fromkeys(values))

    return read_several


_READERS: Mapping[str, Callable[[Argument, object], Any]] = {
    "BIGINT": _whole,
    "BOOLEAN": _flag,
    "BOOLEAN or VARCHAR": _flag_or_word,
    "DECIMAL": _exact,
    "DOUBLE": _real,
    "INTEGER": _whole,
    "INTEGER or INTEGER[]": _several(_whole),
    "VARCHAR": _text,
    "VARCHAR or VARCHAR[]": _several(_text),
    "VARCHAR[]": _columns,
    "number or text": lambda argument, given: epsilon(given, argument.name),
    "probability": lambda _, given: delta(given),
}


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


def options_of_numbers(given: object, argument: str, example: str) -> dict[str, float]:
    """Numbers by name, from a struct or a map; names in lower case."""
    pairs: object = list(given.items()) if isinstance(given, dict) else [] if given is None else given
    found = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        name, value = pair if isinstance(pair, tuple) else (None, None)
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise InvalidInput(f"{argument} must give numbers by name, as in {argument} := {example}.")
        found[fold(name)] = float(value)
    return found


def whole(given: object, argument: str) -> int:
    """A whole number of at most 64 bits."""
    # (What 64 bits do not hold comes as a decimal number, or as a float.)
    if isinstance(given, (Decimal, float)) and not -(2**63) <= given < 2**63:
        raise InvalidInput(f"{argument} does not fit into 64 bits: give a smaller whole number, as in {argument} := 5.")
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidInput(f"{argument} must be a whole number, as in {argument} := 5.")
    return given


def weights(given: object, qi: Sequence[str]) -> tuple[float, ...]:
    """A weight for each quasi-identifier, from a struct or map by name, or a list in the order of `qi`.

    Quasi-identifiers that a struct or map leaves out weigh 1.
    """
    if given is None:
        return (1.0,) * len(qi)
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
    return tuple(found[fold(name)] for name in qi)


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


def check_unit(unit: str | None, qi: Sequence[str], sensitive: Sequence[str]) -> None:
    """Check that the column of units has no other role."""
    if unit is not None:
        disjoint([unit], qi, "unit")
        if fold(unit) in {fold(name) for name in sensitive}:
            raise InvalidInput(f'Column "{unit}" is in both sensitive and unit: name it in one of them.')


def from_policy(function: str, given: Mapping[str, Any], of: Callable[[str], str | None]) -> Mapping[str, Any]:
    """The arguments of a call, where those that are not given follow from the policy of its table.

    of: the column that names the privacy unit of a table. Raises InvalidInput as `_with_unit` does.
    """
    name = _first(functions()[function].arguments[0], given["tbl"])
    if "totals" not in given:
        return _with_unit(name, given, of)
    # A charge to a population protects whole units: where these are the groups, whole groups are protected.
    unit, person = of(name), given.get("person")
    if person is None and unit is not None and isinstance(given["unit"], str) and fold(given["unit"]) == fold(unit):
        person = unit
    # Public totals protect fewer neighbours than the charges of a privacy unit do, and charges are added up.
    is_whole = person is not None and fold(str(person)) == fold(str(given["unit"]))
    totals = given["totals"] or ("private" if unit is not None or is_whole else "public")
    return {**given, "totals": totals, **({"person": person} if "person" in given else {})}


def _with_unit(name: str, given: Mapping[str, Any], of: Callable[[str], str | None]) -> Mapping[str, Any]:
    """The arguments of a call, with the `unit` of the table's policy where none is given; '' stands for records.

    A coarser release counts what the earlier one has, which mostly lacks the unit: there it has to be given. of: the
    column that names the privacy unit of a table. Raises InvalidInput if that is a quasi-identifier or a category here.
    """
    if given["unit"] is not None or given.get("within") is not None:
        return {**given, "unit": given["unit"] or None}
    unit = of(name)
    for role in ("qi", "rows", "cols"):
        if unit is not None and fold(unit) in {fold(one) for one in given.get(role) or () if isinstance(one, str)}:
            raise InvalidInput(
                f'Column "{unit}" names the privacy unit in the policy of {name}: leave it out of {role}, or count '
                "records with unit := ''."
            )
    return {**given, "unit": unit}
