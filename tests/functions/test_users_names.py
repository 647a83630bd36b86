"""Users' columns may have any name that our queries give to theirs: a call answers as it does for other names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.functions import udf
from duckanon.specification import Function
from tests.amounts import LONG, sampled

_NAME = re.compile(r"\"([^\"]+)\"|(?<!system\.main\.)\b([a-z_][a-z_0-9]*)\b")
_TEXT = re.compile(r"'(?:[^']|'')*'")
# The sentences of refusals for names: of columns that the result has twice, and of those that rows are numbered by.
_CLEAR = re.compile(r"two columns|is reserved for duckanon")
_ROLES = ["q", "p", "s", "u", "w", "x", "y"]

# Calls over tables whose columns are in braces: q and p hold numbers, s texts, u units, w weights; x is in no call.
CALLS = {
    "k_anonymize": "FROM k_anonymize('t', ['{q}', '{p}'], k := 3)",
    "k_anonymize, sets": "FROM k_anonymize('t', ['{q}', '{s}'], k := 3, categorical := ['{s}'])",
    "k_anonymize, conditions": (
        "FROM k_anonymize('t', ['{q}', '{p}'], k := 2, sensitive := ['{s}'], l := 2, unit := '{u}')"
    ),
    "k_anonymize, bands": "FROM k_anonymize('t', ['{q}', '{p}'], k := 3, unit := '{u}', bands := {{'{q}': 2}})",
    "k_anonymize, cells": "FROM k_anonymize('t', ['{q}', '{p}'], k := 3, unit := '{u}', suppress_cells := true)",
    "k_anonymize, dropped": (
        "FROM k_anonymize('t', ['{q}', '{p}'], k := 3, drop := ['{u}', '{x}'], max_suppression := 0.2)"
    ),
    "k_anonymize, units": (
        "FROM k_anonymize('t', ['{q}', '{p}'], k := 3, drop := ['{x}', '{w}'], unit := '{u}', max_suppression := 0.2)"
    ),
    "k_report": "FROM k_report('t', ['{q}', '{p}'], sensitive := ['{s}'], unit := '{u}')",
    "k_report, weights": "FROM k_report('t', ['{q}', '{p}'], weight := '{w}')",
    "k_compare": (
        "SELECT * EXCLUDE (seconds) FROM k_compare('t', ['{q}', '{p}'], k := 3, unit := '{u}', methods := ['order'])"
    ),
    "k_certificate": "FROM k_certificate('t', ['{q}', '{p}'], k := 3)",
    "k_subsets": "FROM k_subsets('t', ['{q}', '{p}'], size := 2)",
    "record_risk": "FROM record_risk('t', ['{q}', '{p}'], size := 2)",
    "record_risk, weights": "FROM record_risk('t', ['{q}', '{p}'], weight := '{w}')",
    "k_utility": "FROM k_utility('t', 't', ['{q}', '{p}'])",
    "group_sizes": "FROM group_sizes('t', '{x}', ['{s}'], quantity := '{q}')",
    "suppress": "FROM suppress('t', ['{q}'], ['{s}'], value := '{w}', unit := '{u}', audit := true)",
    "suppress, counts": "FROM suppress('t', ['{q}', '{p}'], ['{s}'])",
    "table_bounds": (
        "FROM table_bounds([{{tbl: 't', vars: ['{q}', '{s}']}}, {{tbl: 't', vars: ['{p}', '{s}']}}], "
        "target := ['{q}', '{p}'])"
    ),
    "conditional_bounds": "FROM conditional_bounds('shares', ['{q}'], ['{s}'], '{w}', 90)",
    "cell_bounds": "FROM cell_bounds('t', ['{q}'], ['{s}'])",
    "cell_values": "FROM cell_values('t', ['{q}'], ['{s}'])",
    "disclosure_report": "FROM disclosure_report('t', ['{q}'], ['{s}'])",
    "table_designs": "FROM table_designs('t', ['{q}', '{s}', '{p}'])",
    "cell_key": "FROM cell_key('keyed', ['{q}', '{s}'], key := '{w}')",
    "metric_mechanism": "FROM metric_mechanism('places', '{s}', ['{q}', '{p}'], epsilon := 1)",
    "metric_perturb": "FROM metric_perturb('t', '{s}', 'mechanism')",
    "propose_domains": "FROM propose_domains('t')",
}

_TABLES = """
CREATE TABLE t AS SELECT
  i % 5 AS "{q}", i * i % 7 AS "{p}", 'v' || (i * 3 % 4) AS "{s}", i // 2 AS "{u}", (1 + i % 3)::DECIMAL(9, 1) AS "{w}",
  i AS "{x}", 'x' || i AS "{y}" FROM range(24) r(i);
CREATE TABLE keyed AS SELECT * REPLACE (("{x}" + 0.5) / 24 AS "{w}") FROM t;
CREATE TABLE shares AS
  SELECT 'a' AS "{q}", 'c' AS "{s}", 0.3 AS "{w}", 1 AS "{x}" UNION ALL SELECT 'a', 'd', 0.7, 2
  UNION ALL SELECT 'b', 'c', 0.5, 3 UNION ALL SELECT 'b', 'd', 0.5, 4;
CREATE TABLE places AS SELECT 'v' || i AS "{s}", i % 2 AS "{q}", i // 2 AS "{p}", i AS "{x}" FROM range(4) r(i);
CREATE TABLE mechanism AS SELECT 'v' || i AS secret, 'v' || j AS output, (CASE WHEN i = j THEN 1 ELSE 0 END)::DOUBLE AS
  probability FROM range(4) r(i), range(4) o(j);
"""


class Sample:
    """A database with the tables of the calls, whose columns have given names."""

    def __init__(self, roles: dict[str, str]) -> None:
        self._roles = roles
        self._con = duckdb.connect()
        duckanon.register(self._con)
        self._con.execute(_TABLES.format(**roles))

    def __enter__(self) -> Sample:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()

    def answer(self, call: str) -> list[tuple[Any, ...]]:
        return self._con.execute(call.format(**self._roles)).fetchall()


def renamed(cell: object, names: dict[str, str]) -> object:
    if isinstance(cell, list | tuple):
        return [renamed(one, names) for one in cell]
    return names.get(cell, cell) if isinstance(cell, str) else cell


def in_order(rows: list[tuple[Any, ...]], names: dict[str, str]) -> list[str]:
    """The rows, sorted, with other names in place of some."""
    return sorted(str(renamed(row, names)) for row in rows)


def given_names(query: str) -> list[str]:
    """The names in queries of ours that are not those of the plain table."""
    found = {quoted or bare for quoted, bare in _NAME.findall(_TEXT.sub("", query))}
    return sorted(name for name in found if not name.startswith("plain_"))


def placed(names: list[str]) -> Iterator[dict[str, str]]:
    """Names for all roles, so that each name has a role, and in long runs two or more."""
    step = 3 if LONG else len(_ROLES)
    for at in range(0, len(names), step):
        yield {role: names[(at + number) % len(names)] for number, role in enumerate(_ROLES)}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that calls were answered with, as they are written."""
    found: list[str] = []
    wrapped = udf._unless_other_meaning

    def watched(query: str, called: Function) -> str:
        found.append(query)
        return wrapped(query, called)

    monkeypatch.setattr(udf, "_unless_other_meaning", watched)
    return found


@pytest.mark.parametrize("label", sampled(CALLS, every=3))
def test_columns_may_have_the_names_of_our_queries(label: str, written: list[str]) -> None:
    call = CALLS[label]
    with Sample({role: f"plain_{role}" for role in _ROLES}) as sample:
        expected = sample.answer(call)
    wrong = []
    for roles in placed(given_names("\n".join(written))):
        with Sample(roles) as sample:
            try:
                found = sample.answer(call)
            except duckdb.Error as error:
                if not _CLEAR.search(str(error)):
                    wrong.append((roles, str(error)))
                continue
        plain = {f"plain_{role}": name for role, name in roles.items()}
        if in_order(found, {}) != in_order(expected, plain):
            wrong.append((roles, "another answer"))
    assert not wrong[:1]
