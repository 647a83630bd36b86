"""SQLAlchemy through duckdb-engine: the recipes of the page, as they are printed there; pools, threads, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import Engine

import duckanon
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.integrations.sqlalchemy import analyst
from tests.integrations.protected import COUNT, RECORDS, make

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sqlalchemy.md"


def answers() -> AbstractContextManager[Any]:
    """On DuckDB 1.4.0 SQLAlchemy answers nothing, without duckanon too: column types have no hash there."""
    if duckdb.__version__ == "1.4.0":
        return pytest.raises(TypeError, match=r"unhashable type: .*DuckDBPyType")
    return nullcontext()


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return make(tmp_path / "people.duckdb")


@pytest.fixture
def guarded(people: Path) -> Iterator[Engine]:
    engine = create_engine("duckdb://", creator=analyst(people))
    yield engine
    engine.dispose()


def test_without_duckanon() -> None:
    with answers(), create_engine("duckdb:///:memory:").connect() as con:
        assert con.execute(text("SELECT 1")).scalar() == 1


def test_the_recipes_of_the_page(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(people.parent)
    steward, guard = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    with answers():
        exec(steward, names)
        assert len(names["rows"]) == 90
        names["engine"].dispose()
        exec(guard, names)
        assert sorted(sex for sex, _ in names["counts"]) == ["f", "m"]
        names["guarded"].dispose()


def test_a_pool_and_threads(people: Path) -> None:
    opened = []
    engine = create_engine(f"duckdb:///{people}", pool_size=2, max_overflow=0)

    @event.listens_for(engine, "connect")
    def register(con: Any, record: Any) -> None:
        opened.append(duckanon.register(con))

    def classes(_: int) -> int:
        with engine.connect() as con:
            found: Any = con.execute(
                text("SELECT classes FROM k_report('persons', [:column])"), {"column": "age"}
            ).scalar()
            return int(found)

    with answers():
        assert classes(0) == 7
        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(classes, range(12))) == [7] * 12
        assert len(opened) <= 2
    engine.dispose()


def test_a_steward_has_every_function(people: Path) -> None:
    """Some functions ask the database while they run, and record charges: they need a connection of their own."""
    engine = create_engine(f"duckdb:///{people}")
    event.listen(engine, "connect", lambda con, record: duckanon.register(con))
    sizes = "SELECT sum(groups) FROM dp_group_sizes('persons', 'household', [], epsilon := 0.5, max_size := 6)"
    with answers(), engine.connect() as con:
        assert [tuple(row) for row in con.execute(text("SELECT epsilon FROM policies()"))] == [(2.0,)]
        con.execute(text("SELECT open_table('payroll')"))
        before = con.execute(text(sizes)).scalar()
        con.rollback()
        assert con.execute(text(sizes)).scalar() == before
        (spent,) = con.execute(text("SELECT spent FROM privacy_budget()")).fetchall()
        assert spent == (0.5,)
        actions = con.execute(text("SELECT action FROM privacy_ledger() ORDER BY number")).fetchall()
        assert [action for (action,) in actions] == ["protect", "open", "open", "charge"]
    engine.dispose()


def test_an_analyst(guarded: Engine) -> None:
    def counts(_: int) -> list[Any]:
        with guarded.connect() as con:
            return [tuple(row) for row in con.execute(text(COUNT))]

    with answers():
        with guarded.connect() as con:
            assert con.execute(text("SELECT city FROM cities WHERE size = :size"), {"size": 1}).scalar() == "c1"
            with pytest.raises(PolicyRefusal, match="Records of persons are protected"):
                con.execute(text(RECORDS))
        with ThreadPoolExecutor(4) as threads:
            first, *others = threads.map(counts, range(6))
        assert others == [first] * 5
        with guarded.connect() as con:
            con.execute(text(COUNT))
            (step,) = con.connection.decision.steps
            assert step.line.startswith("count of persons: rewritten (free: edition 1")
            # What SQLAlchemy's wrappers hand out is guarded as well.
            raw: Any
            for raw in (con.connection, con.connection.cursor(), con.connection.dbapi_connection):
                with pytest.raises(UnsupportedQuery, match="analysts cannot see"):
                    raw.execute("FROM payroll")
                assert not hasattr(raw, "table")
        with guarded.begin() as con:
            con.execute(text("CREATE TEMP TABLE two AS SELECT 2 AS n"))
            assert con.execute(text("SELECT n FROM two")).scalar() == 2
            (spent,) = con.execute(text("SELECT spent FROM privacy_budget()")).fetchall()
            assert spent == (0.5,)
        assert "payroll" not in inspect(guarded).get_table_names()
