"""Shares whose form no release can answer."""

from __future__ import annotations

import pytest

from duckanon.releases.noisy_shares import objection
from duckanon.rewrite.recognize import Conditional, findings_in
from tests.rewrite.fixtures import schema

SHARE = "count(*) / sum(count(*)) OVER (PARTITION BY state)"
GUARDED = "The shares are cast or guarded in a way that is not followed: count(*) / sum(count(*)) OVER (...)."
ROUNDED = "The shares are rounded in a way that is not followed: round(share, 3), or round(100 * share, 1)."


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ([SHARE], None),
        ([SHARE, f"round({SHARE}, 3)"], None),
        ([f"round({SHARE}, 13)"], ROUNDED),
        # Each share is looked at, not the first alone.
        ([f"({SHARE})::FLOAT", SHARE], GUARDED),
        ([SHARE, f"({SHARE})::FLOAT"], GUARDED),
        ([SHARE, f"round({SHARE}, 13)"], ROUNDED),
    ],
)
def test_the_form_of_each_share(shares: list[str], why: str | None) -> None:
    columns = ", ".join(f"{one} AS p{at}" for at, one in enumerate(shares))
    sql = f"SELECT state, sex, {columns} FROM persons GROUP BY state, sex"
    found = [one for one in findings_in(sql, schema()) if isinstance(one, Conditional)]
    assert len(found) == len(shares)
    assert objection(found) == why
