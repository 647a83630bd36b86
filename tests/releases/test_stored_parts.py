"""Cells of an answer that was paid for are not bought again, in populations with a delta."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.engines.noise import Gaussian
from duckanon.releases import mechanisms
from tests.releases.test_preparations import POLICY, RECORDS, UNIT, no_noise, rows, spent

EARLIER = (
    "SELECT state, sex, count(*) FROM persons GROUP BY ALL",
    "SELECT state, sick, count(*), sum(income) FROM persons WHERE score IS NOT NULL GROUP BY ALL",
    "SELECT state, count(*) FROM persons WHERE sick GROUP BY state",
    "SELECT state, count(*) FROM persons WHERE state <> 'GA' AND NOT sick GROUP BY state",
    "SELECT count(*), sum(income) FROM persons WHERE state = 'NY'",
)
PARTS = (
    "SELECT state, count(*) FROM persons WHERE sex = 'f' GROUP BY state",
    "SELECT count(*) FROM persons WHERE sex = 'f' AND state = 'GA'",
    "SELECT state, sex, count(*) FROM persons WHERE state = 'GA' OR sex = 'm' GROUP BY ALL",
    "SELECT sex, count(*) FILTER (WHERE state = 'GA'), count(*) FILTER (WHERE state = 'NY') FROM persons GROUP BY sex",
    "SELECT state, count(*) AS n FROM persons WHERE sex = 'm' GROUP BY state HAVING count(*) > 30 ORDER BY n, state",
    "SELECT state, sum(income), avg(income), count(*) FROM persons WHERE sick AND score IS NOT NULL GROUP BY state",
    "SELECT state, sick, sum(income) FROM persons WHERE score IS NOT NULL GROUP BY ALL",
    "SELECT state, avg(income) FROM persons WHERE NOT sick AND score IS NOT NULL GROUP BY state",
    # Some of the conditions were asked before, and others say which of its cells are meant.
    "SELECT count(*) FROM persons WHERE sick AND state = 'GA'",
    "SELECT state, count(*) FROM persons WHERE state >= 'H' AND sick GROUP BY state",
    "SELECT count(*) FROM persons WHERE sick AND state IN ('NY') AND 'GA' < state",
    "SELECT count(*) FROM persons WHERE NOT sick AND state <> 'GA' AND state = 'NY'",
    "SELECT avg(income) FROM persons WHERE 'NY' = state",
)
# Several cells a row would be wider than a new answer; others are by other columns, or of other records.
OTHERS = (
    "SELECT state, count(*) FROM persons GROUP BY state",
    "SELECT count(*) FROM persons",
    "SELECT count(*) FROM persons WHERE sex = 'f'",
    "SELECT count(*) FROM persons WHERE sick",
    "SELECT count(*) FROM persons WHERE NOT sick AND state = 'NY'",
    "SELECT count(*) FROM persons WHERE sick AND state = 'NY' AND income > 3",
    # A number's count has the noise of two measurements where its sum has that of one.
    "SELECT state, sick, count(income) FROM persons WHERE score IS NOT NULL GROUP BY ALL",
    "SELECT sex, count(*) FROM persons WHERE state <> 'GA' GROUP BY sex",
    "SELECT state, count(*) FROM persons WHERE sex = 'f' AND age > 22 GROUP BY state",
    "SELECT state, count(*) FROM persons WHERE sex = 'f' AND income > 3 GROUP BY state",
    "SELECT state, avg((sex = 'f')::INT) FROM persons WHERE sick GROUP BY state",
    "SELECT state, count(*) FILTER (WHERE income > 3) FROM persons WHERE sex = 'f' GROUP BY state",
    "SELECT state, count(score) FROM persons WHERE sex = 'f' GROUP BY state",
    "SELECT state, sick, count(*) FROM persons WHERE score IS NOT NULL GROUP BY ALL",
    "SELECT state, sick, sum(income), stddev(income) FROM persons WHERE score IS NOT NULL GROUP BY ALL",
)


def made(path: Path, unit: str, *, delta: bool = True) -> Path:
    with duckanon.connect(path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        policy = POLICY.format(unit=unit)
        con.execute(policy if delta else policy.replace("delta := 1e-9,", "")).fetchall()
    return path / "x.duckdb"


@pytest.fixture
def analyst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Analyst]:
    """With the earlier answers, without noise."""
    monkeypatch.setattr(Gaussian, "draw", lambda self, shape, source, **_: no_noise(self.variance, shape, source))
    with duckanon.connect(made(tmp_path, ""), role="analyst") as con:
        for sql in EARLIER:
            con.execute(sql).fetchall()
        yield con


@pytest.mark.parametrize("sql", PARTS)
def test_a_part_is_free_and_what_duckdb_says(sql: str, analyst: Analyst) -> None:
    before = spent(analyst)
    found = rows(analyst, sql)
    assert spent(analyst) == before
    step = analyst.explain(sql).steps[0]
    assert step.drawn is not None
    assert step.reason.startswith("Free: it is a part of the answer to: ")
    expected = rows(analyst._con.cursor(), sql.replace("persons", "plain"))
    assert len(found) >= len(expected)
    shown = {row[0] for row in expected}
    assert [row for row in found if row[0] in shown or len(row) == 1] == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize("sql", OTHERS)
def test_what_is_none_is_charged(sql: str, analyst: Analyst) -> None:
    before = spent(analyst)[1]
    analyst.execute(sql).fetchall()
    assert spent(analyst)[1] == before + 1


def test_its_interval_is_no_wider_than_that_of_a_new_answer(tmp_path: Path, analyst: Analyst) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with duckanon.connect(made(other, ""), role="analyst") as fresh:
        for sql in PARTS[:2]:
            stored, new = analyst.explain(sql).steps[0], fresh.explain(sql).steps[0]
            assert new.drawn is None
            assert stored.within is not None
            assert new.within is not None
            assert stored.within <= new.within


def test_a_sum_beside_a_count_is_as_near_to_the_truth_as_alone(tmp_path: Path, analyst: Analyst) -> None:
    """It was charged again, though the count beside it costs nothing."""
    other = tmp_path / "other"
    other.mkdir()
    asked = "SELECT state, sick, high(sum(income)) - low(sum(income)) FROM persons WHERE score IS NOT NULL GROUP BY ALL"
    with duckanon.connect(made(other, ""), role="analyst") as fresh:
        before = spent(analyst)
        assert rows(analyst, asked) == rows(fresh, asked)
        assert spent(analyst) == before
        assert spent(fresh)[1] == 1


def test_an_answer_of_its_own_stays(tmp_path: Path) -> None:
    """It was another one as soon as an answer was bought of which it is a part."""
    with duckanon.connect(made(tmp_path, ""), role="analyst") as con:
        alone = [PARTS[0], "SELECT state, sum(income) FROM persons GROUP BY state"]
        first = [con.execute(one).fetchall() for one in alone]
        for sql in (EARLIER[0], "SELECT state, count(*), sum(income) FROM persons GROUP BY state"):
            con.execute(sql).fetchall()
        assert [con.execute(one).fetchall() for one in alone] == first
        assert spent(con)[1] == 4


def test_the_cut_is_named(tmp_path: Path) -> None:
    with duckanon.connect(made(tmp_path, UNIT), role="analyst") as con:
        con.execute(EARLIER[0]).fetchall()
        reason = con.explain(PARTS[0]).steps[0].reason
        assert "Of each pid a sample of 2 counts, picked before the conditions on sex." in reason
        assert "picked before" not in con.explain(EARLIER[0]).steps[0].reason


def test_a_condition_that_the_answer_has_is_none_after_the_cut(tmp_path: Path) -> None:
    with duckanon.connect(made(tmp_path, UNIT), role="analyst") as con:
        con.execute(EARLIER[2]).fetchall()
        reason = con.explain(PARTS[8]).steps[0].reason
        assert "Of each pid a sample of 2 counts, picked before the conditions on state." in reason


def test_another_edition_has_none(tmp_path: Path) -> None:
    path = made(tmp_path, "")
    with duckanon.connect(path, role="analyst") as con:
        con.execute(EARLIER[0]).fetchall()
    with duckanon.connect(path, role="steward") as con:
        con.execute("SELECT new_edition('persons')").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        assert con.explain(PARTS[0]).steps[0].drawn is None


def test_populations_without_a_delta_stay_as_they_are(tmp_path: Path) -> None:
    with duckanon.connect(made(tmp_path, "", delta=False), role="analyst") as con:
        con.execute(EARLIER[0]).fetchall()
        con.execute(PARTS[0]).fetchall()
        assert spent(con) == (Fraction(2, 100), 2)


def test_parts_of_macros_do_not_show_their_text(tmp_path: Path) -> None:
    path = made(tmp_path, "")
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE MACRO hidden() AS TABLE SELECT state FROM persons WHERE sex = 'f'")
    with duckanon.connect(path, role="analyst") as con:
        con.execute(EARLIER[0]).fetchall()
        step: Any = con.explain("SELECT state, count(*) FROM hidden() GROUP BY state").steps[0]
        assert "sex" not in step.reason


def test_a_part_of_what_could_not_be_made_is_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise MemoryError

    with duckanon.connect(made(tmp_path, ""), role="analyst") as con:
        with monkeypatch.context() as patch:
            patch.setattr(mechanisms, "draw", failing)
            with pytest.raises(duckanon.errors.MachineFailure):
                con.execute(EARLIER[0]).fetchall()
        step = con.explain(PARTS[0]).steps[0]
        assert step.drawn is None
        assert con.execute(PARTS[0]).fetchall()
        assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(2,)]


_LINKED = (
    "CREATE TABLE people AS SELECT i AS pid, ['f', 'm'][1 + i % 2] AS sex, ['GA', 'NY'][1 + i // 2 % 2] AS state "
    "FROM range(60) r(i)",
    "ALTER TABLE people ADD PRIMARY KEY (pid)",
    "CREATE TABLE visits AS SELECT i AS vid, i % 70 AS pid, ['A', 'B', NULL][1 + i % 3] AS ward, i % 50 AS cost "
    "FROM range(180) r(i)",
    "CREATE TABLE wards AS FROM (VALUES ('A', 'north'), ('B', 'south')) v(ward, house)",
    "ALTER TABLE wards ADD PRIMARY KEY (ward)",
    "CREATE TABLE plain_people AS FROM people",
    "CREATE TABLE plain_visits AS FROM visits SEMI JOIN people USING (pid)",
    "SELECT open_table('wards')",
    "SELECT protect('people', population := 'p', privacy_unit := 'pid', rows_per_unit := 1, epsilon := 4, "
    "delta := 1e-9, per_query := 0.01, public := ['sex', 'state'], "
    "domains := {'sex': ['f', 'm'], 'state': ['GA', 'NY']})",
    "SELECT protect('visits', population := 'p', link := {'pid': 'people.pid'}, rows_per_unit := 3, "
    "per_query := 0.01, public := ['ward'], domains := {'ward': ['A', 'B', NULL]}, bounds := {'cost': [0, 49]})",
)
_JOINED = "FROM visits v JOIN people p ON v.pid = p.pid"
_HOUSES = "FROM visits v JOIN wards w ON v.ward = w.ward"
JOINS = {
    f"SELECT ward, count(*), sum(cost) {_JOINED} WHERE sex = 'f' GROUP BY ALL ORDER BY ALL": True,
    f"SELECT count(*), sum(cost) {_JOINED} WHERE sex = 'f' AND ward = 'A'": True,
    f"SELECT sex, avg(cost) {_JOINED} WHERE 'B' = ward GROUP BY sex ORDER BY sex": True,
    f"SELECT sum(cost) {_JOINED} WHERE ward IS NULL AND p.sex = 'm'": True,
    f"SELECT sex, count(*) {_JOINED} WHERE ward = 'A' GROUP BY sex": False,
    f"SELECT ward, sum(cost) {_JOINED} GROUP BY ward": False,
    f"SELECT ward, sum(cost) {_JOINED} WHERE sex = 'f' AND cost > 3 GROUP BY ward": False,
    f"SELECT ward, count(*), sum(cost) {_JOINED} WHERE state = 'GA' GROUP BY ward": False,
    f"SELECT count(*) {_HOUSES} WHERE house = 'north' AND v.pid > 7": True,
}


def test_parts_of_joins_are_free_and_what_duckdb_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "draw", lambda self, shape, source, **_: no_noise(self.variance, shape, source))
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        for sql in _LINKED:
            con.execute(sql).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        con.execute(f"SELECT sex, ward, count(*), sum(cost) {_JOINED} GROUP BY ALL").fetchall()
        con.execute(f"SELECT house, count(*) {_HOUSES} WHERE v.pid > 7 GROUP BY house").fetchall()
        for sql, is_free in JOINS.items():
            before = spent(con)[1]
            drawn = con.explain(sql).steps[0].drawn
            plain = sql.replace("FROM visits", "FROM plain_visits").replace("JOIN people", "JOIN plain_people")
            assert sorted(rows(con, sql), key=repr) == sorted(rows(con._con.cursor(), plain), key=repr)
            assert (drawn is not None, spent(con)[1] - before) == (is_free, 0 if is_free else 1), sql


def test_a_change_of_a_policy_in_place_ends_what_its_answers_make_free(tmp_path: Path) -> None:
    path, part = tmp_path / "x.duckdb", f"SELECT ward, count(*) {_JOINED} WHERE sex = 'f' GROUP BY ward"
    with duckanon.connect(path, role="steward") as con:
        for sql in _LINKED:
            con.execute(sql).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        con.execute(f"SELECT sex, ward, count(*) {_JOINED} GROUP BY ALL").fetchall()
        assert con.explain(part).steps[0].drawn is not None
    for changed in (
        _LINKED[-2].replace("['f', 'm']", "['f', 'm', 'x']"),
        _LINKED[-1].replace("'B', NULL", "'B', 'C', NULL"),
        _LINKED[-1].replace("'B', NULL", "'B', 'C', NULL").replace("rows_per_unit := 3", "rows_per_unit := 2"),
    ):
        with duckanon.connect(path, role="steward") as con:
            con.execute(changed).fetchall()
        with duckanon.connect(path, role="analyst") as con:
            assert con.explain(part).steps[0].drawn is None
            con.execute(f"SELECT sex, ward, count(*) {_JOINED} GROUP BY ALL").fetchall()
            assert con.explain(part).steps[0].drawn is not None
