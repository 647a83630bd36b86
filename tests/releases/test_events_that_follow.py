"""Conditions that follow from others divide no records: so fewer cells with noise are added up."""

from __future__ import annotations

import pytest

from duckanon.releases.paid_questions import AggregatesQuestion
from tests.rewrite.guarded import decided


def asked(sql: str) -> AggregatesQuestion:
    (question,) = decided(sql).answers
    assert isinstance(question, AggregatesQuestion)
    return question


@pytest.mark.parametrize(
    ("shown", "cells"),
    [
        # A share counts those with a value, and those of them for whom the condition holds.
        ("avg(sick::INT), count(*) FILTER (WHERE sick), count(*)", 4),
        ("avg((age > 65)::INT), count(*) FILTER (WHERE age > 65) / count(*)", 4),
        ("avg(sick::INT), avg((age > 65)::INT)", 16),
        # All that is counted has a value, or one of the values in a list: that is the question's filter.
        ("count(*) FILTER (WHERE sick), count(sick)", 2),
        ("avg(sick::INT), count(*) FILTER (WHERE sick)", 2),
        ("count(*) FILTER (WHERE edu = 'a'), count(*) FILTER (WHERE edu IN ('a', 'b'))", 2),
        # These do not follow from each other.
        ("count(*) FILTER (WHERE edu IN ('a', 'b')), count(*) FILTER (WHERE edu IN ('b', 'c'))", 4),
        ("count(*) FILTER (WHERE sick), count(age)", 4),
    ],
)
def test_how_many_cells_records_are_divided_into(shown: str, cells: int) -> None:
    assert asked(f"SELECT {shown} FROM persons").outcomes == cells


def test_what_follows_is_counted_in_cells_where_it_can_be() -> None:
    sql = decided("SELECT avg(sick::INT), count(*) FILTER (WHERE sick) AS n, count(*) FROM persons").sql or ""
    told = next(one for one in sql.split(", CAST(") if 'AS "n"' in one)
    assert '"_dk_e0" = 0' in told
    assert '"_dk_e1" = 0' in told
