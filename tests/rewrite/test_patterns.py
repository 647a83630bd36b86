"""Patterns that are followed are such as DuckDB takes, whatever text they are compared with."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duckanon.rewrite.algebra.patterns import is_escaped, is_regular

TEXTS = ("", "a", "ab\nc", "Ärger 7", "x" * 300, "[a-z]{2}", "\\", "%_!")
_PARTS = [
    "a", "Z", "7", " ", "ä", "€", ".", "-", "^", "$", "|", "(", "(?:", "(?i)", ")", "[", "[^", "]", "a-z", "z-a", "*",
    "+", "?", "{2}", "{2,}", "{,2}", "{3,1}", "{1000}", "{1001}", "{", "}", "\\", "\\d", "\\W", "\\b", "\\.", "\\_",
    "\\pL", "\\1", "\\Q", "[:alpha:]", "\t", "\n", "!", "[a-\\d]", "[\\]-a]", "(a{100}){100}",
]  # fmt: skip
patterns = st.lists(st.sampled_from(_PARTS), max_size=8).map("".join)


def taken(con: duckdb.DuckDBPyConnection, condition: str, *values: str) -> bool:
    try:
        for text in TEXTS:
            con.execute(f"SELECT {condition}", [text, *values]).fetchall()
    except duckdb.Error:
        return False
    return True


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@given(patterns)
@example("[^]")
@example("[]")
@example("[a-]")
@example("()*")
@example("(" * 30 + ")" * 30)
@example(f"({'.' * 50}){{1000}}")
def test_re2_takes_what_is_called_regular(con: duckdb.DuckDBPyConnection, pattern: str) -> None:
    if is_regular(pattern):
        for name in ("regexp_matches", "regexp_full_match"):
            assert taken(con, f"{name}(?, ?)", pattern)
            assert taken(con, f"{name}(?, ?, ?)", pattern, "ims")


@pytest.mark.parametrize("pattern", ["^flu", "a|b", r"[a-zA-Z_]+\d{2,4}", r"(?:x|y)*?\.csv$", "[^,]+", r"\bab\b", ".*"])
def test_what_people_write_is_regular(pattern: str) -> None:
    assert is_regular(pattern)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "a**", "[z-a]", "a{3,1}", "{2}", "\\", "(?i)a", "[[:alpha:]]", "a{1001}"]
)
def test_what_is_wrong_or_of_another_kind_is_not(pattern: str) -> None:
    assert not is_regular(pattern)


@given(st.text("ab!%_\\ä", max_size=6), st.sampled_from("!%a\\ä"))
def test_duckdb_takes_patterns_with_an_escape(con: duckdb.DuckDBPyConnection, pattern: str, escape: str) -> None:
    if is_escaped(pattern, escape):
        assert taken(con, "? LIKE ? ESCAPE ?", pattern, escape)
        assert taken(con, "? NOT ILIKE ? ESCAPE ?", pattern, escape)


@given(st.text("ab[]!-*?\\^ä", max_size=6))
def test_duckdb_takes_all_patterns_of_glob(con: duckdb.DuckDBPyConnection, pattern: str) -> None:
    assert taken(con, "? GLOB ?", pattern)
