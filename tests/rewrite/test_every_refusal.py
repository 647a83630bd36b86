"""Each refusal of the first gate and of the last has an attack of its own, which it and nothing else refuses."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from duckanon.errors import DuckanonError
from duckanon.rewrite import admit, verify
from tests.rewrite.test_verify import ALLOWED, CALL, serialized

_SHOPS = "SELECT a FROM x.main.shops WHERE a > 1"


def read(sql: str) -> None:
    admit.admit(sql)


def run(sql: str, allowed: verify.Allowed = ALLOWED) -> None:
    verify.verify(serialized(sql), allowed)


def changed(sql: str, *place: str | int, **values: Any) -> None:
    """As `run`, after a change of the node at `place` in DuckDB's tree, such as an older or newer version's."""
    tree = serialized(sql)
    node = tree["statements"][0]
    for one in place:
        node = node[one]
    node.update(values)
    verify.verify(tree, ALLOWED)


_FROM = ("node", "from_table")
_SELECTED = ("node", "select_list", 0)
# A call, and what the sentence of its refusal begins with.
ATTACKS: dict[ModuleType, list[tuple[Callable[[], None], str]]] = {
    admit: [
        (partial(read, "SELECT '" + "x" * 100_001 + "'"), "The statement is longer than"),
        (partial(read, "SELECT 1 \0"), "The statement holds characters that are no text"),
        (partial(read, "SELECT '\ud800'"), "The statement holds characters that are no text"),
        (partial(read, "PRAGMA version"), "An analyst's connection does not run this PRAGMA"),
        (partial(read, "EXPLAIN ANALYZE SELECT 1"), "An analyst's connection does not run this EXPLAIN"),
        (partial(read, "SUMMARIZE t; DROP TABLE t"), "An analyst runs one statement at a time"),
        (partial(read, "DESCRIBE WITH a AS (SELECT 1) DELETE FROM t"), "An analyst's connection does not run DELETE"),
        (partial(read, "SELECT 1; SELECT 2"), "An analyst runs one statement at a time"),
        (partial(read, "SELEC FROM ("), "The statement cannot be understood"),
        (partial(read, "PIVOT t ON a USING count(*) GROUP BY b HAVING b > 1"), "This PIVOT cannot be understood"),
        (partial(read, "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES"), "FETCH is followed as in"),
        (partial(read, "SELECT a FROM t FETCH FIRST 10 PERCENT ROWS ONLY"), "FETCH is followed as in"),
        (partial(read, "UPDATE t SET a = 1"), "An analyst's connection does not run UPDATE"),
        *[(partial(read, none), "There is no statement in the text") for none in ("", " ; ;", "-- SELECT 1", "/* */")],
        *[
            (partial(read, typo), "The statement cannot be understood")
            for typo in ("SELEC", "FRM x", "persons", "f(1)")
        ],
        *[
            (partial(read, f"/* all */ {other} t"), f"An analyst's connection does not run {other} statements")
            for other in ("CHECKPOINT", "VACUUM", "EXPORT", "DEALLOCATE", "CALL", "GRANT", "TRUNCATE")
        ],
        *[
            (partial(read, begun), "A transaction begins with BEGIN and ends with COMMIT or ROLLBACK")
            for begun in ("BEGIN READ ONLY", "START TRANSACTION", "ABORT", "COMMIT AND CHAIN", "BEGIN x")
        ],
        (partial(read, "SELECT " + "(" * 300 + "1" + ")" * 300), "The statement cannot be understood"),
        (partial(read, "SELECT 1" + " + 1" * 300), "The statement is nested too deeply"),
        (partial(read, "SELECT TRY(1 / 0)"), "TRY is not run here"),
        (partial(read, "SELECT _DK_WIDTH(1, 2)"), "The ends of intervals are low(...) and high(...)"),
        (partial(read, "SELECT N'x'"), "The statement holds what the guard does not know"),
        (partial(read, "SELECT a INTO b FROM t"), "The guard does not know INTO here"),
        (partial(read, "SELECT a FROM t FOR UPDATE"), "The guard does not know FOR UPDATE here"),
        (partial(read, "SELECT a FROM ONLY t"), "The guard does not know ONLY here"),
        (partial(read, "CREATE TABLE t AS SELECT 1"), "An analyst creates nothing but temporary"),
        (partial(read, "CREATE TEMP TABLE t (a INT)"), "An analyst creates nothing but temporary"),
        (partial(read, "CREATE VIEW v AS SELECT 1"), "An analyst creates nothing but temporary"),
        (partial(read, "CREATE TEMP MACRO f() AS 1"), "An analyst creates nothing but temporary"),
        (partial(read, "INSERT INTO t VALUES (1) RETURNING a"), "An analyst inserts into temporary tables"),
        (partial(read, "INSERT OR REPLACE INTO t SELECT 1"), "An analyst inserts into temporary tables"),
        (partial(read, "DROP TABLE a, b"), "An analyst drops nothing but temporary tables and views"),
        (partial(read, "DROP SCHEMA s"), "An analyst drops nothing but temporary tables and views"),
        (partial(read, "DROP TABLE a CASCADE"), "An analyst drops nothing but temporary tables and views"),
    ],
    verify: [
        (partial(run, "SELECT 1; SELECT 2"), "The guard wrote more than one statement"),
        (partial(run, "WITH persons AS (SELECT 1) FROM persons"), "A WITH clause has the name of a table"),
        (partial(verify.verify, {"error": True}, ALLOWED), "DuckDB does not take the statement for a query"),
        (partial(changed, _SHOPS, *_FROM, type="MAGIC_REF"), "The statement holds what the guard does not know"),
        (partial(changed, _SHOPS, "node", "where_clause", **{"class": "MAGIC"}), "The statement holds what"),
        (partial(changed, _SHOPS, *_FROM, at_clause={"unit": "VERSION"}), "The statement reads a table in a way"),
        (
            partial(changed, _SHOPS, *_FROM, qualified_name={"path": ["x", "a", "b", "c"]}),
            "The statement reads a table",
        ),
        (partial(changed, _SHOPS, *_FROM, qualified_name={"path": ["x", "main", "persons"]}), "The statement reads"),
        (partial(run, "SELECT * FROM shops"), "A table is not named in full"),
        (partial(run, "SELECT * FROM x.main.persons"), "A table would be read that must not be"),
        (partial(run, f"SELECT * FROM {CALL.replace('0.5', '0.6')}"), "A function would be called that must not be"),
        (partial(run, "SELECT * FROM read_csv('x')"), "A function would be called that must not be"),
        (
            partial(run, f"SELECT * FROM {CALL.replace('temp.main.', '')}"),
            "A function would be called that must not be",
        ),
        (partial(run, "SELECT twice(1)"), "In this database twice is a macro"),
        (partial(run, "SELECT getenv('HOME')"), "The function getenv is not one of those"),
        (partial(run, "SELECT low(1)"), "low and high are of counts, sums, means and shares"),
        (partial(run, "SELECT x.main.length('a')"), "The function length is called in a way"),
        (partial(changed, "SELECT sum(1)", *_SELECTED, export_state=True), "The function sum is called in a way"),
        (
            partial(run, "SELECT current_date", verify.Allowed(frozenset(), macros=frozenset({"current_date"}))),
            "In this database a macro has the name of a built-in function",
        ),
        (
            partial(run, "SELECT current_date", verify.Allowed(frozenset(), macros=frozenset({"get_current_time"}))),
            "In this database a macro has the name of a built-in function",
        ),
        (partial(run, "SELECT 1::mood"), "The statement casts to a type that somebody made"),
        (partial(run, 'SELECT 1::main."integer"'), "The statement casts to a type that somebody made"),
        (partial(changed, "SELECT 1::INTEGER", *_SELECTED, cast_type={"id": "ENUM"}), "The statement casts to a type"),
        (partial(run, "SELECT TRY(1 / 0)"), "TRY is not run here"),
        (partial(changed, "SELECT NOT true", *_SELECTED, type="OPERATOR_MAGIC"), "The statement holds what"),
    ],
}


def raised(module: ModuleType) -> Iterator[int]:
    """The lines of the raise statements of a module, without those that raise again what was raised."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    return (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc)


@pytest.mark.parametrize("module", ATTACKS, ids=lambda one: one.__name__)
def test_each_refusal_has_an_attack(module: ModuleType) -> None:
    met = set()
    for attack, sentence in ATTACKS[module]:
        with pytest.raises(DuckanonError) as refused:
            attack()
        said = re.sub(r"^`[^`]*`( \.\.\.)? cannot be answered\. ", "", str(refused.value))
        assert said.startswith(sentence), (attack, str(refused.value))
        met |= {entry.lineno + 1 for entry in refused.traceback if str(entry.path) == module.__file__}
    assert set(raised(module)) <= met


# What is quoted of a statement, as it was written; None where the sentence is about all of it.
QUOTED = [
    ("SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES", "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES"),
    ("SELECT 1 + TRY ( 1/ 0) AS b FROM t", "TRY ( 1/ 0)"),
    ("EXPLAIN SELECT Try(? + $2) FROM t", "Try(? + $2)"),
    ("CREATE TEMP TABLE a AS SELECT TRY(b) FROM c", "TRY(b)"),
    ("SELECT _DK_WIDTH(1, 2)", "_DK_WIDTH(1, 2)"),
    ("SELECT a, N'x' FROM t", "N'x'"),
    ("SELECT a INTO b FROM t", "INTO b"),
    ("SELECT a FROM ONLY t", "ONLY t"),
    ("SELECT * FROM t AT (VERSION => 1) WHERE a", "AT (VERSION => 1)"),
    ("SELECT a FROM t FOR UPDATE", None),
    ("UPDATE t SET a = 1", None),
    ("SELECT 1; SELECT 2", None),
]


@pytest.mark.parametrize(("sql", "part"), QUOTED)
def test_the_first_gate_quotes_the_part(sql: str, part: str | None) -> None:
    with pytest.raises(DuckanonError) as refused:
        read(sql)
    found = re.match(r"`([^`]*)` cannot be answered\. ", str(refused.value))
    assert (found and found[1]) == part
