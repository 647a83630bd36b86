"""Whether a protected table stands as its policy needs it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Protected, Stored

POLICY = Policy(Fraction(1), population="p", privacy_unit="Person", public=("state",))
STANDING = Protected(POLICY, Stored(("memory", "main", "t"), {"person": "BIGINT", "state": "VARCHAR", "age": "BIGINT"}))


def test_a_table_stands_with_all_columns_of_its_policy() -> None:
    assert STANDING.stands


def test_it_does_not_if_it_is_gone_or_lacks_one_or_its_owners() -> None:
    assert not replace(STANDING, stored=None).stands
    assert not replace(STANDING, stored=Stored(("memory", "main", "t"), {"person": "BIGINT"})).stands
    assert not replace(STANDING, severed=True).stands
