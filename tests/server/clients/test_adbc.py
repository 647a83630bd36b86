"""ADBC's PostgreSQL driver: Arrow tables, and its view of the catalog."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.clients.conftest import COUNT, COUNTY_ROWS, VISIBLE, Server, needs

needs("ADBC's PostgreSQL driver", library="adbc_driver_postgresql")

from adbc_driver_postgresql import dbapi  # noqa: E402


@pytest.fixture
def con(server: Server) -> Iterator[Any]:
    verified = f"sslmode=verify-full&sslrootcert={server.certificate}"
    with dbapi.connect(f"{server.url('ana')}?{verified}") as one:
        yield one


def test_queries_as_arrow(con):
    with con.cursor() as cursor:
        cursor.execute("SELECT * FROM counties ORDER BY county")
        found = cursor.fetch_arrow_table()
        assert list(zip(*found.to_pydict().values(), strict=True)) == COUNTY_ROWS
        cursor.execute("SELECT small, whole, big, rough, said, yes, day, list FROM kinds")
        assert cursor.fetch_arrow_table().to_pylist()[0]["list"] == [1, 2, None]
        cursor.execute(COUNT)
        assert [row[0] for row in cursor.fetchall()] == ["c1", "c2", "c3", "c4", "c5"]


def test_parameters(con):
    with con.cursor() as cursor:
        cursor.execute("SELECT label FROM counties WHERE county = $1", ("c2",))
        assert cursor.fetchall() == [("County 2",)]


def test_objects(con):
    (database,) = con.adbc_get_objects(depth="all").read_all().to_pylist()
    assert database["catalog_name"] == "people"
    (schema,) = [one for one in database["catalog_db_schemas"] if one["db_schema_name"] == "main"]
    assert sorted(one["table_name"] for one in schema["db_schema_tables"]) == VISIBLE
    names = con.adbc_get_table_schema("persons").names
    assert names == ["id", "name", "age", "county", "income"]
    assert (con.adbc_current_catalog, con.adbc_current_db_schema) == ("people", "main")
