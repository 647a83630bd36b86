"""SQLAlchemy's reflection with three drivers, and pandas on top."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.clients.conftest import COUNT, VISIBLE, Server, needs

needs("SQLAlchemy", library="sqlalchemy")
needs("pandas", library="pandas")
needs("psycopg", library="psycopg")

import pandas as pd  # noqa: E402
import sqlalchemy as sa  # noqa: E402


@pytest.fixture(scope="module", params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    verified = {"sslmode": "verify-full", "sslrootcert": str(server.certificate)}
    one = sa.create_engine(server.url("ana", request.param), connect_args=verified)
    yield one
    one.dispose()


def test_names(engine):
    inspected = sa.inspect(engine)
    assert inspected.default_schema_name == "main"
    assert inspected.get_schema_names() == ["information_schema", "main"]
    assert sorted([*inspected.get_table_names(), *inspected.get_view_names()]) == VISIBLE
    assert inspected.get_view_names() == ["labels"]
    assert inspected.has_table("persons")
    assert not inspected.has_table("nothing")
    for method in ("materialized_view_names", "temp_table_names", "sequence_names", "enums", "domains"):
        assert getattr(inspected, f"get_{method}")() == []


def test_columns_and_keys(engine):
    inspected = sa.inspect(engine)
    columns = {one["name"]: one for one in inspected.get_columns("persons")}
    assert list(columns) == ["id", "name", "age", "county", "income"]
    assert isinstance(columns["id"]["type"], sa.BIGINT)
    assert (columns["income"]["type"].precision, columns["income"]["type"].scale) == (10, 2)
    assert inspected.get_pk_constraint("persons")["constrained_columns"] == []
    assert inspected.get_foreign_keys("persons") == inspected.get_indexes("persons") == []
    assert inspected.get_unique_constraints("persons") == inspected.get_check_constraints("persons") == []
    assert "Numbers get noise" in inspected.get_table_comment("persons")["text"]


def test_reflected_tables_are_queried(engine):
    known = sa.MetaData()
    known.reflect(engine, views=True)
    assert sorted(known.tables) == VISIBLE
    counties = known.tables["counties"]
    with engine.connect() as con:
        found = con.execute(sa.select(counties.c.label).where(counties.c.county == "c3")).scalar_one()
    assert found == "County 3"


def test_pandas(engine):
    assert list(pd.read_sql(COUNT, engine)["county"]) == ["c1", "c2", "c3", "c4", "c5"]
    assert pd.read_sql_table("counties", engine).shape == (5, 2)
    one = pd.read_sql(sa.text("SELECT label FROM counties WHERE county = :one"), engine, params={"one": "c1"})
    assert one["label"].tolist() == ["County 1"]
