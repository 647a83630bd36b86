"""What may be asked instead of what is refused."""

from __future__ import annotations

import re

import pytest

from duckanon.releases.available import AvailableReleases
from duckanon.rewrite.admit import admit
from duckanon.rewrite.bind import bind
from duckanon.rewrite.recognize import Conditional, Counts, GroupSizes, RecordReads
from duckanon.rewrite.rule_context import RuleContext
from tests.rewrite.guarded import CATALOG, PERSONS, PUBLISHED, TODAY


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (RecordReads.shown, 'FROM "persons_k5"'),
        (Counts.shown, "SELECT sex, count("),
        (GroupSizes.shown, "FROM dp_group_sizes("),
        (Conditional.shown, 'FROM "persons_k5"'),
        ("something else", 'FROM "persons_k5"'),
    ],
)
def test_what_comes_nearest_is_offered_first(kind: str, first: str) -> None:
    query = admit("SELECT 1").query
    assert query is not None
    releases = AvailableReleases({PERSONS: [PUBLISHED]})
    context = RuleContext(bind(query, CATALOG, frozenset()), CATALOG, releases, TODAY, [], [])
    offers = releases.offers(context, PERSONS, kind)
    assert re.match(r"What may be asked: " + re.escape(first), offers), offers
    # All of them are named, whatever comes first.
    assert all(one in offers for one in ('FROM "persons_k5"', "count(*)", "dp_group_sizes("))
