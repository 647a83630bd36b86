"""What does not concern a statement is not run for it, and would change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from duckanon.errors import DuckanonError
from duckanon.rewrite import admit, decide, rules
from duckanon.rewrite.recognize import classify
from duckanon.rewrite.rule_context import RuleContext
from tests.amounts import LONG
from tests.rewrite.fixtures import entries
from tests.rewrite.guarded import decided

# Each has what one pass is about, and the last ones what none is about.
WRITTEN = (
    "SELECT sex, count(*) FROM persons WHERE edu = ANY (ARRAY['a', 'b']) GROUP BY sex",
    "SELECT sex, count(*) FROM persons WHERE edu IN (VALUES ('a'), ('b')) GROUP BY sex",
    "SELECT sex, count(*) FROM persons WHERE born < (SELECT DATE '2000-01-01') GROUP BY sex",
    "SELECT count(*) FROM persons WHERE born < to_date('31/03/2024', 'DD/MM/YYYY')",
    "SELECT count(*) FROM persons WHERE born < '2024-03-31 +00'::date",
    "SELECT sex, corr(age, income) FROM persons GROUP BY sex",
    "SELECT quantile_cont(age, [0.25, 0.5]) FROM persons",
    "WITH a AS (SELECT sex, edu FROM persons), b AS (SELECT sex, count(*) AS n FROM a GROUP BY sex) SELECT * FROM b",
    "PIVOT persons ON sex IN ('f', 'm') USING count(*) GROUP BY edu ORDER BY edu LIMIT 1",
    "SELECT sex, count(*) FROM persons GROUP BY sex ORDER BY sex FETCH FIRST 1 ROWS ONLY",
    "SELECT * FROM persons LIMIT 0",
    "SELECT pid FROM persons WHERE 1 = 0",
    "SELECT sex, count(*) FROM persons WHERE born < now() GROUP BY sex",
    "SELECT sex, count(*) // count(*) FILTER (WHERE edu = 'a') FROM persons GROUP BY sex",
    "SELECT sex, avg(CASE WHEN edu = 'a' THEN 1 ELSE 0 END) FROM persons GROUP BY sex",
    "SELECT n, count(*) FROM (SELECT hid, count(*) AS n FROM persons GROUP BY hid) GROUP BY n",
    "SELECT sex, count(*) FROM persons GROUP BY sex",
    "SELECT count(*) FROM persons",
    "SELECT a FROM mine",
)
OF_RULES = [one.sql for rule in rules.RULES for one in entries(f"rewrite/rules/{rule.__name__}")]
STATEMENTS = [*WRITTEN, *OF_RULES[:: 1 if LONG else 4]]


class Everything(set[Any]):
    """The classes of the nodes of a query that has all."""

    def __contains__(self, _: object) -> bool:
        return True

    def isdisjoint(self, _: object) -> bool:
        return False


def outcomes() -> Iterator[object]:
    for sql in STATEMENTS:
        try:
            found = decided(sql)
        except DuckanonError as error:
            yield f"{type(error).__name__}: {error}"
        else:
            yield found.sql, found.steps, [one.key for one in found.answers], found.calls


def _all_rules(context: RuleContext) -> None:
    for rule in rules.RULES:
        rule(context)


def test_whatever_is_left_out_would_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = list(outcomes())
    for module in (admit, decide):
        monkeypatch.setattr(module, "kinds_of", lambda _: Everything())
    monkeypatch.setattr(decide, "RULES", (_all_rules,))
    for name in ("_may_have_shares", "_may_count_groups"):
        monkeypatch.setattr(classify, name, lambda _: True)
    for sql, one, other in zip(STATEMENTS, as_it_is, outcomes(), strict=True):
        assert one == other, sql


def test_each_pass_runs_for_some_statements_and_not_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above compares something."""
    ran: Counter[str] = Counter()

    def counting(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            ran[name] += 1
            return run(*given)

        return counted

    passes = (
        "as_duckdb",
        "written_out",
        "quantile_lists",
        "pairs_of_numbers",
        "staging",
        "is_empty",
        "without_failing",
    )
    places = [*((decide, one) for one in passes), (admit, "pivots"), (admit, "_as_limit")]
    places += [(classify, one) for one in ("group_sizes", "conditionals")]
    for module, name in places:
        monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    for sql in WRITTEN:
        with suppress(DuckanonError):
            decided(sql)
    assert {name for _, name in places} == {name for name, count in ran.items() if count < len(WRITTEN)}
