"""What may be asked instead of what is refused."""

from __future__ import annotations

import re

import pytest

import duckanon
from duckanon.errors import PolicyRefusal
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


BROWSED = """
  CREATE TABLE patients AS
  SELECT i AS id, 'c' || i % 5 AS county, ['f', 'm'][1 + i % 2] AS sex, (1000 + i)::DECIMAL(10, 2) AS income,
    TIMESTAMP '2024-01-01' + INTERVAL 1 HOUR * (i * 7) AS seen, DATE '1940-01-01' + i::INTEGER AS born
  FROM range(1000) t(i)
"""


@pytest.mark.parametrize(
    ("more", "chart"),
    [
        (
            "bounds := {income: [0, 5000, 10], seen: [DATE '2024-01-01', DATE '2024-12-31']}",
            "date_trunc('month', seen)",
        ),
        ("bounds := {income: [0, 5000, 10], born: [DATE '1940-01-01', DATE '1979-12-31']}", "date_trunc('year', born)"),
        ("bounds := {income: [0, 5000, 10]}", "GROUP BY county ORDER BY n DESC"),
        ("domains := {county: ['c0', 'c1'], sex: ['f', 'm']}", "GROUP BY county ORDER BY n DESC"),
        ("privacy_unit := 'id', rows_per_unit := 1", "GROUP BY county ORDER BY n DESC"),
    ],
)
@pytest.mark.parametrize(
    "browse",
    [
        "SELECT * FROM patients LIMIT 100",
        "SELECT p.id, p.county FROM patients p",
        "FROM patients",
        # As Metabase names the columns.
        'SELECT "main"."patients"."id" AS "id", "main"."patients"."sex" AS "sex" FROM "main"."patients" LIMIT 2000',
    ],
)
def test_a_browse_is_told_three_questions_which_are_answered(tmp_path, browse: str, more: str, chart: str) -> None:
    """They differ, and the first is a chart, over time where the policy has a time."""
    path = tmp_path / "patients.duckdb"
    domains = "" if "domains" in more else "domains := {county: ['c0', 'c1', 'c2', 'c3', 'c4']}, "
    with duckanon.connect(path, role="steward") as con:
        con.execute(BROWSED)
        columns = "['county', 'sex', 'seen', 'born']"
        con.execute(
            f"SELECT protect('patients', epsilon := 50, per_query := 0.5, public := {columns}, {domains}{more})"
        )
        con.fetchall()
    with duckanon.connect(path) as con:
        with pytest.raises(PolicyRefusal) as refused:
            con.execute(browse)
        asked = str(refused.value).partition("What may be asked: ")[2].removesuffix(".").split(" or ")
        assert len(set(asked)) == 3
        assert chart in asked[0]
        for one in asked:
            assert con.explain(one).refusal is None, one
