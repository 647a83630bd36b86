"""The corpus of attacks is well-formed, covers the ways in, and is SQL where it says so."""

import re

import duckdb

from tests.attacks import FAMILIES, attacks

ALL = list(attacks())
# The ways in that must be covered.
KINDS = {
    "aggregate", "alias", "attach", "averaging", "case", "cast", "comment", "copy", "cte", "differencing",
    "direct", "distinct", "division", "encoding", "error", "explain", "file", "insert", "join", "limit",
    "list", "macro", "merge", "metadata", "order", "our own", "overflow", "path", "pivot", "policy",
    "prepared", "probe", "qualified", "qualify", "query", "query_table", "quoted", "sampling", "set",
    "setting", "several", "shadow", "small groups", "subquery", "table", "time", "tracker", "unicode",
    "unpivot", "update", "variable", "view", "window",
}  # fmt: skip


def test_there_are_enough_of_every_kind() -> None:
    assert len({re.sub(r"\s+", " ", one.sql) for one in ALL}) >= 300
    assert {one.kind for one in ALL} >= KINDS
    assert all(one.tries and one.sql for one in ALL)
    assert len({(one.family, one.kind, one.tries) for one in ALL}) == len(ALL)
    assert set(FAMILIES) >= {"reads", "names", "functions", "metadata", "copies", "statements", "errors", "inference"}


def test_duckdb_parses_what_it_should() -> None:
    with duckdb.connect() as con:
        for one in ALL:
            try:
                parsed = bool(con.extract_statements(one.sql))
            except duckdb.Error:
                parsed = False
            assert parsed == one.parsed, (one.kind, one.tries)
