"""Each leaky or wrong variant is seen by the searches; as it stands, nothing is wrong with the same statement."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.units.checks import Equal, Neighbours, ask, world
from tests.units.twins import TWINS
from tests.units.world import records

_WORLDS = 20
pytestmark = pytest.mark.long("that the searches see mistakes: a test of the test")


def looked_at(sql: str, *, by_person: bool, check: str, worlds: int) -> Iterator[str]:
    """What is wrong with a statement, in so many random worlds. check: neighbours or equality."""
    is_equality = check == "equality"
    # Where cuts bind, neighbours differ by what is cut; answers are DuckDB's own where they do not.
    with world(by_person=by_person, wide=is_equality) as (con, about):
        rng = random.Random(7)
        one = ask(con, sql)
        if one is None:
            yield "refused"
            return
        checked = (Equal if is_equality else Neighbours)(con, about, rng)
        for _ in range(worlds):
            rows = records(rng, customers=12, extreme=not is_equality, tame=is_equality)
            yield from (each.reason for each in checked.check([one], rows))


@pytest.mark.parametrize("twin", TWINS)
def test_a_mistake_is_seen(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, sql, by_person, check = TWINS[twin]
    patch(monkeypatch)
    seen = next(looked_at(sql, by_person=by_person, check=check, worlds=_WORLDS), None)
    assert seen is not None
    assert seen != "refused"
    assert "fails" not in seen


# What the algebra refuses needs no search.
_REFUSED = (
    "`u =` left out of a join",
    "`u =` added silently",
    "`u =` left out of a probe",
    "a group of several units",
    "a sum of floats",
    "a fan-out that is not counted",
    "rows of open tables that are left out where they are asked",
    "a window over all units",
    "an aggregate that depends on order",
)


@pytest.mark.parametrize("twin", TWINS)
def test_without_it_nothing_is_wrong(twin: str) -> None:
    _, sql, by_person, check = TWINS[twin]
    assert list(looked_at(sql, by_person=by_person, check=check, worlds=3)) == ["refused"] * (twin in _REFUSED)
