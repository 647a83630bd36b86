"""Shares whose form no publication has."""

from __future__ import annotations

import pytest

from duckanon.releases.published_shares import are_followed
from duckanon.rewrite.recognize import Conditional, findings_in
from tests.rewrite.fixtures import schema

SHARE = "count(*) / sum(count(*)) OVER (PARTITION BY state)"


@pytest.mark.parametrize(
    ("shares", "followed"),
    [
        ([SHARE], True),
        ([SHARE, f"round({SHARE}, 3)"], True),
        ([f"round({SHARE}, 13)"], False),
        # Each share is looked at, not the first alone.
        ([f"({SHARE})::FLOAT", SHARE], False),
        ([SHARE, f"({SHARE})::FLOAT"], False),
        ([SHARE, f"round({SHARE}, 13)"], False),
    ],
)
def test_the_form_of_each_share(shares: list[str], followed: bool) -> None:
    columns = ", ".join(f"{one} AS p{at}" for at, one in enumerate(shares))
    sql = f"SELECT state, sex, {columns} FROM persons GROUP BY state, sex"
    found = [one for one in findings_in(sql, schema()) if isinstance(one, Conditional)]
    assert len(found) == len(shares)
    assert are_followed(found) is followed
