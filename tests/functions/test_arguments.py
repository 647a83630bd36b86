"""Each argument is checked by what the specification says of it: every bound in it refuses what is beyond."""

import re
from typing import Any

import pytest

from duckanon.errors import InvalidInput
from duckanon.functions.arguments import checked
from duckanon.specification import Argument, functions

BOUNDED = [(function.name, one) for function in functions().values() for one in function.arguments if one.bounds]


def beyond(argument: Argument) -> list[Any]:
    if argument.values:
        return ["none of them", 3]
    steps = {"least": -1, "most": 1, "above": 0, "below": 0}
    return [getattr(argument, side) + step for side, step in steps.items() if getattr(argument, side) is not None]


@pytest.mark.parametrize(("function", "argument"), BOUNDED, ids=lambda one: getattr(one, "name", one))
def test_what_is_beyond_a_bound_is_refused(function: str, argument: Argument) -> None:
    for value in beyond(argument):
        with pytest.raises(InvalidInput, match=rf"^{argument.name} must be (a number )?{re.escape(argument.bounds)}"):
            checked(function, {argument.name: value})


@pytest.mark.parametrize(("function", "argument"), BOUNDED, ids=lambda one: getattr(one, "name", one))
def test_the_bound_itself_is_taken(function: str, argument: Argument) -> None:
    for value in [*argument.values, *(one for one in (argument.least, argument.most) if one is not None)]:
        found = checked(function, {argument.name: value})[argument.name]
        assert found in (value, (value,))


def test_what_is_not_bounded_is_checked_by_its_type() -> None:
    for value, said in [(2.5, "a whole number"), (True, "a whole number"), (2.0**70, "smaller whole number")]:
        with pytest.raises(InvalidInput, match=said):
            checked("k_subsets", {"size": value})
    with pytest.raises(InvalidInput, match=r"^regions must be the name of a table or view, in quotes\.$"):
        checked("dp_group_sizes", {"regions": ""})
    with pytest.raises(InvalidInput, match=r"^count must be the name of a column of counts, as in count := 'n'\.$"):
        checked("cell_bounds", {"count": 3})
    assert checked("k_report", {"sensitive": None, "weight": None}) == {"sensitive": (), "weight": None}
