"""Keys that are computed: what cannot be answered is quoted, and told which expressions a key may have."""

from __future__ import annotations

import re

import pytest

from tests.rewrite.refused import refusal


@pytest.mark.parametrize(
    "key",
    [
        "md5(o_orderstatus)",
        "o_orderstatus || o_orderpriority",
        "hash(o_orderstatus)",
        "o_orderstatus::INTEGER",
        "regexp_extract(o_orderpriority, '[0-9]+')",
        "CASE WHEN o_orderstatus = 'F' THEN md5(o_orderstatus) END",
    ],
)
def test_of_public_columns(key: str) -> None:
    """They stand outside the closed list, or could fail."""
    said = refusal(f"SELECT {key} AS k, count(*) FROM orders GROUP BY k")
    assert said is not None
    assert said.startswith(f"`{key}` cannot be answered. A key is computed by functions that have a value for every")
    assert "filter" not in said.lower()
    assert "date_trunc" in said


@pytest.mark.parametrize("key", ["o_totalprice // 1000", "year(o_orderdate)", "substring(o_comment, 1, 1)"])
def test_of_other_columns(key: str) -> None:
    """What is said to be possible is, and only columns with a domain are named."""
    said = refusal(f"SELECT {key} AS k, count(*) FROM orders GROUP BY k")
    assert said is not None
    assert said.startswith(f"`{key}` cannot be answered.")
    listed = re.search(r"calls public \((.*?)\)", said)
    way = re.search(r"as in (CASE .*? END)\.", said) or re.search(r"told by (floor\(.*?\)),", said)
    assert listed is not None
    assert way is not None
    for instead in (*listed[1].split(", "), way[1]):
        assert refusal(f"SELECT {instead} AS k, count(*) FROM orders GROUP BY k") is None


def test_of_a_column_that_is_dropped() -> None:
    said = refusal("SELECT upper(c_name) AS k, count(*) FROM customer GROUP BY k")
    assert said is not None
    assert "lets nothing out that depends on c_name" in said
