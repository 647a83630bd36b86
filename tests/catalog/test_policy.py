"""What follows from a policy by itself."""

from __future__ import annotations

from fractions import Fraction

from duckanon.catalog.policy import Policy


def test_tables_are_published_by_columns_that_are_named_for_it_and_not_hidden() -> None:
    policy = Policy(
        Fraction(1),
        population="p",
        privacy_unit="Person",
        unit="Home",
        hierarchy=("State", "County"),
        public=("Sex", "Name", "person"),
        quasi_identifiers=("Age", "home"),
        sensitive=("Illness",),
        drop=("NAME",),
    )
    assert policy.publishable == {"state", "county", "sex", "age", "illness"}
