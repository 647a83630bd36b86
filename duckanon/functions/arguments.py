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


def checked(function: str, call_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, each checked by itself as the function's specification says.

    Lists become tuples. What is made of structs and maps is given back as it came, for the function to read. Arguments
    that `call_arguments` lacks are left out. Raises InvalidInput.
    """
    arguments = functions()[function].arguments
    if not arguments:
        return {}
    first, *others = arguments
    leading = {first.name: _first(first, call_arguments[first.name])} if first.name in call_arguments else {}
    return leading | {
        argument.name: _value(argument, call_arguments[argument.name])
        for argument in others
        if argument.name in call_arguments
    }


def _first(argument: Argument, value: object) -> Any:
    """The first argument, which is mostly a table: people do not write its name."""
    return _name(argument, value, "The first argument") if argument.table else _value(argument, value)


def _value(argument: Argument, value: object) -> Any:
    if value is None and argument.default is not None and not argument.required:
        if argument.default == "NULL":
            return None
        if argument.type == "VARCHAR[]":
            return ()
    read = _READERS.get(argument.type)
    return value if read is None else read(argument, value)


def _text(argument: Argument, value: object) -> str:
    if argument.values:
        if value not in argument.values:
            raise _refused(argument, argument.bounds)
    elif argument.table or argument.names:
        return _name(argument, value, argument.name)
    elif not isinstance(value, str):
        raise InvalidInput(f"{argument.name} must be a name in quotes.")
    return str(value)


def _name(argument: Argument, value: object, subject: str) -> str:
    if not isinstance(value, str) or not value:
        end = f"as in {argument.name} := {argument.example}" if argument.example else "in quotes"
        raise InvalidInput(f"{subject} must be the name of {argument.names or 'a table or view'}, {end}.")
    return value


def _columns(argument: Argument, value: object) -> tuple[str, ...]:
    return tuple(names(value, argument.name, empty=argument.empty or argument.default is not None))


def _whole(argument: Argument, value: object) -> int:
    number = whole(value, argument.name)
    if not _is_within(argument, number):
        raise _refused(argument, argument.bounds)
    return number


def _real(argument: Argument, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise InvalidInput(f"{argument.name} must be a number, as in {argument.name} := {argument.example}.")
    if not _is_within(argument, value):
        raise _refused(argument, f"a number {argument.bounds}")
    return float(value)


def _exact(argument: Argument, value: object) -> Fraction:
    """A decimal number, as it was written, rounded down."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value):
        grains = 10**argument.decimals
        fraction = Fraction(math.floor(Fraction(str(value)) * grains), grains)
        if _is_within(argument, value) and _is_within(argument, fraction):
            return fraction
    raise _refused(argument, f"a number {argument.bounds}")


def _is_within(argument: Argument, value: int | float | Decimal | Fraction) -> bool:
    return not (
        (argument.least is not None and value < argument.least)
        or (argument.most is not None and value > argument.most)
        or (argument.above is not None and value <= argument.above)
        or (argument.below is not None and value >= argument.below)
    )


def _refused(argument: Argument, bounds: str) -> InvalidInput:
    end = f", as in {argument.name} := {argument.example}" if argument.example else ""
    end = f": {argument.because}" if argument.because else end
    return InvalidInput(f"{argument.name} must be {bounds}{end}.")


def _flag(argument: Argument, value: object) -> bool:
    if not isinstance(value, bool):
        raise _refused(argument, "true or false")
    return value


def _flag_or_word(argument: Argument, value: object) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and value in (argument.values or ())):
        return value
    raise _refused(argument, argument.bounds)


def _several(read: Callable[[Argument, object], Any]) -> Callable[[Argument, object], tuple[Any, ...]]:
    """A list, or one value standing for a list of one; repeated values once."""

    def read_several(argument: Argument, value: object) -> tuple[Any, ...]:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise InvalidInput(f"{argument.name} is empty: give at least one value.")
        return tuple(read(argument, value) for value in dict.fromkeys(values))

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
    "number or text": lambda argument, value: epsilon(value, argument.name),
    "probability": lambda _, value: delta(value),
}


def names(value: object, argument: str, *, empty: bool) -> list[str]:
    """A list of column names, each once (DuckDB's names ignore case)."""
    example = f"{argument} := ['age', 'zip']"
    if not isinstance(value, list) or any(not isinstance(name, str) for name in value):
        if value is None and empty:
            return []
        raise InvalidInput(f"{argument} must be a list of column names, as in {example}.")
    if not value and not empty:
        raise InvalidInput(f"{argument} is empty: name at least one column, as in {example}.")
    folds: set[str] = set()
    for name in value:
        if fold(name) in folds:
            raise InvalidInput(f'Column "{name}" is named twice in {argument}: name it once.')
        folds.add(fold(name))
    return value


def options(struct: object) -> dict[str, int]:
    """Whole numbers by name, from a struct or a map."""
    pairs: object = list(struct.items()) if isinstance(struct, dict) else [] if struct is None else struct
    by_name = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        name, value = pair if isinstance(pair, tuple) else (None, None)
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput("options must give whole numbers by name, as in options := {'sets': 6}.")
        by_name[fold(name)] = value
    return by_name


def options_of_numbers(struct: object, argument: str, example: str) -> dict[str, float]:
    """Numbers by name, from a struct or a map; names in lower case."""
    pairs: object = list(struct.items()) if isinstance(struct, dict) else [] if struct is None else struct
    by_name = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        name, value = pair if isinstance(pair, tuple) else (None, None)
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise InvalidInput(f"{argument} must give numbers by name, as in {argument} := {example}.")
        by_name[fold(name)] = float(value)
    return by_name


def whole(value: object, argument: str) -> int:
    """A whole number of at most 64 bits."""
    # (What 64 bits do not hold comes as a decimal number, or as a float.)
    if isinstance(value, (Decimal, float)) and not -(2**63) <= value < 2**63:
        raise InvalidInput(f"{argument} does not fit into 64 bits: give a smaller whole number, as in {argument} := 5.")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{argument} must be a whole number, as in {argument} := 5.")
    return value


def weights(value: object, qi: Sequence[str]) -> tuple[float, ...]:
    """A weight for each quasi-identifier, from a struct or map by name, or a list in the order of `qi`.

    Quasi-identifiers that a struct or map leaves out weigh 1.
    """
    if value is None:
        return (1.0,) * len(qi)
    pairs: Iterable[tuple[object, object]]
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        pairs = value
    elif isinstance(value, list):
        if len(value) != len(qi):
            raise InvalidInput(f"weights has {len(value)} numbers for {len(qi)} quasi-identifiers: give one for each.")
        pairs = list(zip(qi, value, strict=True))
    else:
        raise InvalidInput("weights must give numbers by name, as in weights := {'age': 2, 'zip': 1}.")
    weight_of = {fold(name): 1.0 for name in qi}
    for name, weight in pairs:
        if not isinstance(name, str) or fold(name) not in weight_of:
            raise InvalidInput(f'weights names "{name}", which is not in qi: weigh quasi-identifiers only.')
        try:
            weight_of[fold(name)] = float(weight)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise InvalidInput(f'The weight of "{name}" must be a number that is zero or more.') from None
    for name in qi:
        if not math.isfinite(weight_of[fold(name)]) or weight_of[fold(name)] < 0:
            raise InvalidInput(f'The weight of "{name}" must be a number that is zero or more.')
    if not any(weight_of.values()):
        raise InvalidInput("All weights are zero: give at least one quasi-identifier a weight above zero.")
    return tuple(weight_of[fold(name)] for name in qi)


def subset(columns: Sequence[str], of: Sequence[str], argument: str) -> None:
    """Check that every name in `columns` is a quasi-identifier."""
    known = {fold(name) for name in of}
    for name in columns:
        if fold(name) not in known:
            raise InvalidInput(
                f'Column "{name}" is in {argument} but not in qi: add it to qi, or take it out of {argument}.'
            )


def disjoint(columns: Sequence[str], of: Sequence[str], argument: str) -> None:
    """Check that no name in `columns` is a quasi-identifier."""
    known = {fold(name) for name in of}
    for name in columns:
        if fold(name) in known:
            raise InvalidInput(f'Column "{name}" is in both qi and {argument}: name it in one of them.')


def check_unit(unit: str | None, qi: Sequence[str], sensitive: Sequence[str]) -> None:
    """Check that the column of units has no other role."""
    if unit is not None:
        disjoint([unit], qi, "unit")
        if fold(unit) in {fold(name) for name in sensitive}:
            raise InvalidInput(f'Column "{unit}" is in both sensitive and unit: name it in one of them.')


def from_policy(function: str, arguments: Mapping[str, Any], of: Callable[[str], str | None]) -> Mapping[str, Any]:
    """The arguments of a call, where those that are not given follow from the policy of its table.

    of: the column that names the privacy unit of a table. Raises InvalidInput as `_with_unit` does.
    """
    name = _first(functions()[function].arguments[0], arguments["tbl"])
    if "totals" not in arguments:
        return _with_unit(name, arguments, of)
    # A charge to a population protects whole units: where these are the groups, whole groups are protected.
    unit, person = of(name), arguments.get("person")
    if (
        person is None
        and unit is not None
        and isinstance(arguments["unit"], str)
        and fold(arguments["unit"]) == fold(unit)
    ):
        person = unit
    # Public totals protect fewer neighbours than the charges of a privacy unit do, and charges are added up.
    is_whole = person is not None and fold(str(person)) == fold(str(arguments["unit"]))
    totals = arguments["totals"] or ("private" if unit is not None or is_whole else "public")
    return {**arguments, "totals": totals, **({"person": person} if "person" in arguments else {})}


def _with_unit(name: str, arguments: Mapping[str, Any], of: Callable[[str], str | None]) -> Mapping[str, Any]:
    """The arguments of a call, with the `unit` of the table's policy where none is given; '' stands for records.

    A coarser release counts what the earlier one has, which mostly lacks the unit: there it has to be given. of: the
    column that names the privacy unit of a table. Raises InvalidInput if that is a quasi-identifier or a category here.
    """
    if arguments["unit"] is not None or arguments.get("within") is not None:
        return {**arguments, "unit": arguments["unit"] or None}
    unit = of(name)
    for role in ("qi", "rows", "cols"):
        if unit is not None and fold(unit) in {
            fold(name) for name in arguments.get(role) or () if isinstance(name, str)
        }:
            raise InvalidInput(
                f'Column "{unit}" names the privacy unit in the policy of {name}: leave it out of {role}, or count '
                "records with unit := ''."
            )
    return {**arguments, "unit": unit}
