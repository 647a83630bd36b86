"""How many random examples and cases are tried, by the profile in the environment variable HYPOTHESIS_PROFILE."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

# The README's command tries few examples and CI some more; long runs try as many as a test is written with, and more.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "short")
LONG = PROFILE == "long"
_OF_FIFTY = {"oldest": 5, "quick": 5, "short": 5, "ci": 7}
# Of a list of more cases than two, the oldest versions try each eighth.
_SHORT_LIST, _EVERY = 2, 8

# Where most tests open a database, every second case of a list of three or more runs by the README's command and CI,
# and every third of nine or more: the others run before a release.
_LIST, _LONG_LIST = 3, 9
_SLOW_ROOMS = tuple(
    f"tests/{room}/" for room in "answers engines functions governance guard integrations releases server units".split()
)


def many(examples: int, least: int = 1) -> int:
    """`examples`, or a part in profiles for fewer: a tenth in `quick` and `short`, a seventh in `ci`.

    least: fewer than that would not show what the test is about.
    """
    return max(least, examples * _OF_FIFTY.get(PROFILE, 50) // 50)


def sampled(cases: Iterable[Any], every: int = 2) -> list[Any]:
    """Parameters of a test: of each `every` cases the first; CI adds the second of half of them, `long` the rest.

    A tuple has a value for each argument.
    """
    later = pytest.mark.long("further cases of a list of which the README's command and CI try some")
    added = pytest.mark.ci("further cases of a list of which the README's command tries some")

    def marks(at: int) -> list[pytest.MarkDecorator]:
        place = at % (2 * every)
        return [] if place % every == 0 else [added] if place == 1 else [later]

    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks(at)) for at, case in enumerate(cases)
    ]


def seldom(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Most cases of long lists, in the rooms whose tests take most of the time: they run before a release.

    A list of which `sampled` leaves cases out stays as it is.
    """
    lists: dict[str, list[pytest.Item]] = {}
    thinned: set[str] = set()
    for item in items:
        test = item.nodeid.split("[")[0]
        if item.get_closest_marker("ci") or item.get_closest_marker("long"):
            thinned.add(test)
        elif item.nodeid.startswith(_SLOW_ROOMS):
            lists.setdefault(test, []).append(item)
    lists = {test: cases for test, cases in lists.items() if test not in thinned}
    return [case for cases in lists.values() for at, case in enumerate(cases) if at % _kept_of(len(cases))]


def _kept_of(cases: int) -> int:
    """Of how many cases one is kept."""
    return 3 if cases >= _LONG_LIST else 2 if cases >= _LIST else 1


def not_with_oldest(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests that need not run with the oldest versions too: seven of eight cases of a list, each second of a file.

    In what versions differ, many cases of a list and many tests of a file differ. Before a version is released the
    README's command runs with the oldest versions, whole.
    """
    files: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        file, _, _ = item.nodeid.partition("::")
        files.setdefault(file, {}).setdefault(item.nodeid.split("[")[0], []).append(item)
    return [item for tests in files.values() for item in _left_out(list(tests.values()))]


def _left_out(tests: Sequence[Sequence[pytest.Item]]) -> Iterator[pytest.Item]:
    """Of one file, by test its cases."""
    for number, cases in enumerate(tests):
        every = 1 if len(cases) <= _SHORT_LIST else _EVERY
        yield from (case for at, case in enumerate(cases) if number % 2 or at % every)
