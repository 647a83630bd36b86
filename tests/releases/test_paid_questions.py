"""Questions as data: what makes two of them one, and what does not."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from subprocess import run

import pytest

from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion
from tests.rewrite.guarded import decided


def asked(sql: str, **changed: object) -> PaidQuestion:
    (one,) = decided(sql, **changed).answers
    assert isinstance(one, PaidQuestion)
    return one


SAME = [
    [
        "SELECT sex, count(*) AS n FROM persons WHERE age > 3 AND sick GROUP BY sex",
        "SELECT count(1), SEX FROM x.main.PERSONS WHERE sick AND AGE > 3.0 GROUP BY ALL ORDER BY 1 LIMIT 3",
        "SELECT p.sex, count(*) FROM persons p WHERE (p.sick) AND (age > 3) AND age > 3 GROUP BY p.sex",
        "SELECT s, n + 1 FROM (SELECT sex AS s, count(*) AS n FROM persons WHERE age > '3' AND sick GROUP BY 1)",
        "WITH c AS (FROM persons WHERE sick) SELECT sex, sum(1) FROM c WHERE age > 3 GROUP BY sex",
        "SELECT sex FROM persons WHERE age > 3 AND sick GROUP BY sex HAVING count(*) > 7",
    ],
    [
        "SELECT n, count(*) FROM (SELECT hid, count(*) AS n FROM persons GROUP BY hid) GROUP BY n",
        "SELECT size, groups FROM dp_group_sizes('persons', 'hid', epsilon := 0.5, max_size := 6)",
        "SELECT n, count(*) FROM sizes() WHERE n > 2 GROUP BY n ORDER BY n LIMIT 1",
    ],
    [
        "SELECT state, county, n, count(*) FROM (SELECT hid, state, county, count(*) AS n FROM persons GROUP BY ALL) "
        "GROUP BY ALL",
        "SELECT size, groups FROM dp_group_sizes('persons', 'hid', ['state', 'county'], epsilon := 0.5, max_size := 6)",
        "FROM dp_group_sizes('PERSONS', unit := 'HID', hierarchy := ['STATE', 'county'], epsilon := '1/2', "
        "max_size := 6, mechanism := 'auto', totals := 'private')",
        "SELECT state, n, count(*) FROM (SELECT hid, state, county, count(*) AS n FROM persons GROUP BY ALL) "
        "GROUP BY ALL",
    ],
    [
        "SELECT count(*) FROM persons WHERE born < current_date",
        "SELECT count(*) FROM persons WHERE born < DATE '2026-02-28'",
        "SELECT count(*) FROM persons WHERE born < '2026-02-28'",
    ],
    [
        "SELECT sex, edu, count(*) / sum(count(*)) OVER (PARTITION BY sex) AS p FROM persons GROUP BY sex, edu",
        "SELECT sex, edu, round(100 * count(*) / sum(count(*)) OVER (PARTITION BY sex), 1) AS p FROM persons "
        "GROUP BY sex, edu ORDER BY p",
        "SELECT sex, edu, count(*) FROM persons GROUP BY sex, edu",
    ],
]


@pytest.mark.parametrize("group", SAME)
def test_other_words_are_the_same_question(group: list[str]) -> None:
    assert {asked(sql).key for sql in group} == {asked(group[0]).key}


DIFFERENT = [
    "SELECT count(*) FROM persons",
    "SELECT count(*) FROM persons WHERE age > 3",
    "SELECT count(*) FROM persons WHERE age >= 3",
    "SELECT count(*) FROM persons WHERE age > 3 OR sick",
    "SELECT count(*) FROM persons WHERE age > 3 AND sick",
    "SELECT count(*) FROM persons WHERE open = '3'",
    "SELECT count(*) FROM persons WHERE county = '3'",
    "SELECT count(DISTINCT pid) FROM persons",
    "SELECT sex, count(*) FROM persons GROUP BY sex",
    "SELECT sex, edu, count(*) FROM persons GROUP BY sex, edu",
    "SELECT sex, avg(sick::INT) FROM persons GROUP BY sex",
    "SELECT sex, count(*) FILTER (WHERE age > 3) / count(*) FROM persons GROUP BY sex",
    "SELECT sex, count(*) FROM persons WHERE sick GROUP BY sex",
    "SELECT n, count(*) FROM sizes() GROUP BY n",
    "FROM dp_group_sizes('persons', 'hid', ['state'], epsilon := 0.5, max_size := 6)",
    "FROM dp_group_sizes('persons', 'hid', ['state', 'county'], epsilon := 0.4, max_size := 6)",
    "FROM dp_group_sizes('persons', 'hid', ['state', 'county'], epsilon := 0.5, max_size := 5)",
    "FROM dp_group_sizes('persons', 'hid', ['state', 'county'], epsilon := 0.5, max_size := 6, mechanism := 'topdown')",
    "FROM dp_group_sizes('persons', 'hid', ['state'], epsilon := 0.5, max_size := 6, split := [1, 2])",
    "FROM dp_group_sizes('persons', 'hid', ['state'], epsilon := 0.5, max_size := 6, split := [2, 1])",
]


def test_other_questions_have_other_keys() -> None:
    keys = [asked(sql).key for sql in DIFFERENT]
    assert len(set(keys)) == len(keys)
    (half,) = decided(DIFFERENT[0], per_query=asked(DIFFERENT[0]).epsilon / 2).answers
    assert half.key not in keys


def test_counts_by_the_same_keys_are_one_question_in_any_order() -> None:
    one, other = (
        "SELECT sex, edu, count(*) FROM persons GROUP BY sex, edu",
        "SELECT edu, sex, count(*) FROM persons GROUP BY 2, 1",
    )
    shares = "SELECT sex, edu, count(*) / sum(count(*)) OVER (PARTITION BY sex) AS p FROM persons GROUP BY sex, edu"
    assert asked(one).key == asked(other).key == asked(shares).key


def test_the_key_is_of_policy_and_edition_and_not_of_the_database() -> None:
    one = asked(DIFFERENT[4])
    place = one.location
    assert replace(one, version=one.version + 1).key != one.key
    assert replace(one, edition=one.edition + 1).key != one.key
    assert replace(one, location=type(place)("renamed", place.schema, place.name)).key == one.key
    assert replace(one, location=type(place)(place.database, "other", place.name)).key != one.key
    assert replace(one, location=type(place)(place.database, place.schema, place.name.upper())).key == one.key
    # Words about the price are no part of the question.
    assert replace(one, protects="somebody").key == one.key


def test_conditions_cannot_be_confused() -> None:
    """A constant cannot look like two conditions."""
    joined = asked("SELECT count(*) FROM persons WHERE open = 'a'' AND county = ''b'")
    two = asked("SELECT count(*) FROM persons WHERE open = 'a' AND county = 'b'")
    assert joined.key != two.key
    assert len(joined.filter) == 1
    assert len(two.filter) == 2


@pytest.mark.parametrize(
    ("first", "second", "cells"),
    [
        ("open = 'a'", "open = 'b'", 3),
        ("edu = 'a'", "edu = 'b'", 3),
        ("sick", "NOT sick", 3),
        # Of numbers several texts may mean one value, so they count as conditions that may both hold.
        ("age = '1'", "age = '2'", 4),
        ("open = 'a'", "sick", 4),
    ],
)
def test_conditions_that_exclude_each_other_share_their_cells(first: str, second: str, cells: int) -> None:
    """So that each count is of fewer cells, and has less noise: the cells of each condition, and that of neither."""
    one = asked(f"SELECT count(*) FILTER (WHERE {first}), count(*) FILTER (WHERE {second}) FROM persons")
    assert isinstance(one, AggregatesQuestion)
    assert one.outcomes == cells


@pytest.mark.ci("processes with other orders of hashes")
def test_a_question_is_the_same_in_every_process() -> None:
    """The order of a set of texts differs from process to process."""
    sql = "SELECT count(*) FILTER (WHERE sick), count(*) FILTER (WHERE NOT sick), avg(sick::INT) FROM persons"
    told = f"from tests.releases.test_paid_questions import asked; print(asked({sql!r}).key)"
    keys = {
        run(
            [sys.executable, "-c", told], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "1234"
    }
    assert keys == {f"{asked(sql).key}\n".encode()}
