"""Grouping sets over several prepared tables: rows as DuckDB has them, and each set's as if it were asked alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.analyst import Analyst
from duckanon.releases.mechanisms import marginals
from tests.amounts import many
from tests.releases.test_preparations import POLICY, PREPARE, RECORDS, no_noise, rows, spent

# The keys of the prepared tables, and those of numbers of which sums are asked.
TABLES = {"count(*)": [{"state", "sex", "sick"}, {"age", "state"}], "sum(income)": [{"state", "sex"}]}
KEYS = ("state", "sex", "sick", "age")


def made(path: Path) -> Path:
    with duckanon.connect(path, role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit="")).fetchall()
        con.execute(PREPARE).fetchall()
    return path


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "discrete_gaussian", no_noise)
        path = made(tmp_path_factory.mktemp("sets") / "x.duckdb")
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    with duckanon.connect(made(tmp_path_factory.mktemp("sets") / "x.duckdb"), role="analyst") as con:
        yield con


def written(keys: Any) -> str:
    return f"({', '.join(keys)})"


NUMBERS = ("count(*)", "count(*) / 2", "avg((state = 'GA')::INT)", "count(*) FILTER (WHERE state <> 'GA')")
SETS = st.lists(st.sampled_from(KEYS), max_size=3, unique=True)
TERMS = st.one_of(
    SETS.map(written),
    SETS.filter(bool).map(lambda keys: f"ROLLUP {written(keys)}"),
    SETS.filter(bool).map(lambda keys: f"CUBE {written(keys)}"),
    st.sampled_from(["ROLLUP ((state, sex), sick)", "CUBE ((age, state))", "GROUPING SETS (state, ROLLUP (sex), ())"]),
)
GROUPS = st.one_of(
    st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: f"GROUPING SETS ({', '.join(terms)})"),
    st.lists(TERMS.filter(lambda term: term[0] != "("), min_size=1, max_size=2).map(", ".join),
    st.tuples(st.sampled_from(KEYS), TERMS.filter(lambda term: term[0] != "(")).map(", ".join),
)


@settings(max_examples=many(150))
@given(group=GROUPS, number=st.sampled_from([*TABLES]), having=st.sampled_from(["", " HAVING count(*) > 40"]))
def test_rows_are_those_of_duckdb(exact: Analyst, group: str, number: str, having: str) -> None:
    used = [one for one in KEYS if one in group]
    assume(used)
    sql = (
        f"SELECT {', '.join(used)}, {number}, grouping({', '.join(used)}) AS g, "
        f"rank() OVER (PARTITION BY grouping({used[0]}) ORDER BY {number} DESC) AS r "
        f"FROM persons GROUP BY {group}{having}"
    )
    plain = exact._con.cursor()
    sets = plain.execute(
        f"SELECT DISTINCT {', '.join(f'grouping({one})' for one in used)} FROM plain GROUP BY {group}"
    ).fetchall()
    own = [{key for key, left in zip(used, row, strict=True) if not left} for row in sets]
    follows = all(any(one <= table for table in TABLES[number]) for one in own)
    if having:
        follows = follows and all(any(one <= table for table in TABLES["count(*)"]) for one in own)
    is_free = all(step.drawn is not None for step in exact.explain(sql).steps)
    assert is_free is follows
    if is_free:
        found = [row for row in rows(exact, sql) if row[-3]]
        assert found == [row for row in rows(plain, sql.replace("persons", "plain")) if row[-3]]


@settings(max_examples=many(60))
@given(
    first=st.sampled_from([("sex",), ("sick", "state"), ("sex", "sick"), ("state", "sex", "sick")]),
    second=st.sampled_from([("age",), ("age", "state")]),
    more=st.lists(st.sampled_from([(), ("state",), ("sick",), ("state", "age")]), max_size=2),
    numbers=st.sampled_from(NUMBERS),
)
def test_each_set_is_as_if_it_were_asked_alone(
    noisy: Analyst, first: tuple[str, ...], second: tuple[str, ...], more: list[tuple[str, ...]], numbers: str
) -> None:
    """With its noise, and its interval."""
    sets = [first, second, *more]
    used = [key for key in KEYS if any(key in each for each in sets)]
    shown = f"{numbers}, low({numbers}), high({numbers})"
    together = noisy.execute(
        f"SELECT {', '.join(used)}, grouping({', '.join(used)}), {shown} FROM persons "
        f"GROUP BY GROUPING SETS ({', '.join(map(written, sets))})"
    ).fetchall()
    expected = []
    for own in sets:
        mask = sum((one not in own) << at for at, one in enumerate(reversed(used)))
        by = f" GROUP BY {', '.join(own)}" if own else ""
        alone = noisy.execute(f"SELECT {', '.join([*own, shown])} FROM persons{by}").fetchall()
        for row in alone:
            values = dict(zip(own, row, strict=False))
            expected.append((*(values.get(one) for one in used), mask, *row[len(own) :]))
    assert sorted(together, key=repr) == sorted(expected, key=repr)
    assert spent(noisy)[1] == 1


def test_a_total_is_there_without_rows(exact: Analyst) -> None:
    sql = (
        "SELECT state, age, count(*) FROM persons WHERE state = 'GA' AND age < 22 AND (age > 25 OR state = 'NY') "
        "GROUP BY GROUPING SETS ((state), (age), ())"
    )
    assert exact.execute(sql).fetchall() == exact._con.cursor().execute(sql.replace("persons", "plain")).fetchall()


def test_a_plan_has_a_table_for_each_set(tmp_path: Path) -> None:
    """Until now one by all keys was planned. Where a set has all keys the others follow from it."""
    with duckanon.connect(made(tmp_path / "x.duckdb"), role="steward") as con:
        for group, tables in (
            ("GROUPING SETS ((state, sex), (age))", [["age"], ["sex", "state"]]),
            ("ROLLUP (state, sex)", [["sex", "state"]]),
        ):
            asked = f"SELECT count(*) FROM persons GROUP BY {group}"
            shown = con.execute(f"SELECT columns FROM prepare('persons', queries := ['{asked}'], epsilon := 0.1)")
            assert [one for (one,) in shown.fetchall()] == tables


@pytest.mark.parametrize(
    "group",
    [
        "GROUPING SETS ((age, sex), (state))",
        "CUBE (state, sex, age)",
        "ROLLUP (age, sick)",
        "GROUPING SETS ((sex), (income))",
    ],
)
def test_what_does_not_follow(exact: Analyst, group: str) -> None:
    assert not any(one.drawn for one in exact.explain(f"SELECT count(*) FROM persons GROUP BY {group}").steps)


def test_every_order_of_keys(exact: Analyst) -> None:
    """Each bit of grouping() is that of its key."""
    for keys in itertools.permutations(("state", "sex", "age")):
        sql = f"SELECT grouping({', '.join(keys)}) AS g, grouping_id({keys[0]}), count(*) AS n FROM persons "
        sql += "GROUP BY GROUPING SETS ((state, sex), (age, state), ())"
        assert rows(exact, sql) == rows(exact._con.cursor(), sql.replace("persons", "plain"))
