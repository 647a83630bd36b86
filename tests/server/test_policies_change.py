"""A steward changes policies in place while analysts ask: nobody is refused, and nothing is charged twice."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest

from duckanon.connection import connect
from tests.server.served import Served, serving

BY_DAY = "SELECT day, count(*) FROM persons GROUP BY day ORDER BY 1"
BY_SEX = "SELECT sex, count(*) FROM persons GROUP BY sex ORDER BY 1"


def protect(last: str, **more: str) -> str:
    terms = {
        "population": "'people'",
        "privacy_unit": "'person'",
        "rows_per_unit": "1",
        "epsilon": "100",
        "per_query": "1",
        "public": "['sex', 'day']",
        "domains": f"{{'sex': ['f', 'm'], 'day': {{'from': DATE '2024-01-01', 'to': DATE '{last}'}}}}",
        **more,
    }
    return f"SELECT protect('persons', {', '.join(f'{name} := {one}' for name, one in terms.items())})"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "people.duckdb"
    with connect(found, role="steward") as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i AS person, ['f', 'm'][1 + i % 2] AS sex, "
            "DATE '2024-01-01' + (i % 121)::INTEGER AS day FROM range(1000) r(i)"
        )
        con.execute(protect("2024-01-31")).fetchall()
    return found


class Asking:
    """An analyst who asks the same two questions until told to stop. seen: how many days there were, in order."""

    def __init__(self, served: Served, name: str, stopped: Event) -> None:
        self.seen: list[int] = []
        self.by_sex: set[str] = set()
        self.problems: list[Exception] = []
        self._thread = Thread(target=self._ask, args=(served, name, stopped))
        self._thread.start()

    def _ask(self, served: Served, name: str, stopped: Event) -> None:
        try:
            with served.login(name) as con:
                while not stopped.is_set():
                    self.seen.append(len(con.execute(BY_DAY).fetchall()))
                    self.by_sex.add(str(con.execute(BY_SEX).fetchall()))
        except psycopg.Error as error:
            self.problems.append(error)

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_months_are_added_without_a_moment_of_refusals(path: Path) -> None:
    with serving(path) as served, served.login("stu") as steward:
        stopped = Event()
        analysts = [Asking(served, name, stopped) for name in ("ana", "bob", "cyd")]
        for last in ("2024-02-29", "2024-03-31", "2024-04-30"):
            asked = [len(one.seen) for one in analysts]
            while not all(
                len(one.seen) > before + 2 or one.problems for one, before in zip(analysts, asked, strict=True)
            ):
                stopped.wait(0.05)
            (said,) = steward.execute(protect(last)).fetchone() or ("",)
            assert "Changed in place: the domain of day has" in str(said)
        with served.login("ana") as ana:
            assert len(ana.execute(BY_DAY).fetchall()) == 121
        stopped.set()
        for one in analysts:
            one.join()
            assert one.problems == []
            assert one.seen == sorted(one.seen)
            assert set(one.seen) <= {31, 60, 91, 121}
            assert len(one.by_sex) == 1, "this answer stays"
        # Once by sex, and by day once for each domain that somebody asked about.
        days = {count for one in analysts for count in one.seen} | {121}
        (charges,) = steward.execute("SELECT charges FROM privacy_budget()").fetchall()
        assert charges == (1 + len(days),)


def test_what_is_not_on_the_list_is_refused_over_the_wire(path: Path) -> None:
    with serving(path) as served, served.login("stu") as steward, served.login("ana") as ana:
        for more in ({"rows_per_unit": "2"}, {"epsilon": "200"}, {"small": "1"}, {"k": "2"}, {"per_query": "2"}):
            with pytest.raises(psycopg.Error, match="cannot be changed so in place"):
                steward.execute(protect("2024-01-31", **more))
        for statement in (protect("2024-02-29"), "SELECT unprotect('persons')"):
            with pytest.raises(psycopg.Error):
                ana.execute(statement)
        assert len(ana.execute(BY_DAY).fetchall()) == 31
