"""psqlodbc: queries with parameters, and ODBC's catalog functions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.clients.conftest import COUNT, COUNTY_ROWS, RECORDS, VISIBLE, Server, needs

DRIVER = next(Path("/usr/lib").glob("*/odbc/psqlodbcw.so"), Path("/usr/lib/odbc/psqlodbcw.so"))
needs("psqlodbc", file=DRIVER)
needs("pyodbc", library="pyodbc")

pyodbc = pytest.importorskip("pyodbc", reason="unixODBC's library is not installed", exc_type=ImportError)


@pytest.fixture
def con(server: Server) -> Iterator[Any]:
    pyodbc.pooling = False
    one = pyodbc.connect(
        f"DRIVER={DRIVER};SERVER={server.host};PORT={server.port};DATABASE={server.database};UID=ana;"
        f"PWD={server.passwords['ana']};SSLmode=verify-full;pqopt={{sslrootcert={server.certificate}}}"
    )
    yield one
    one.close()


def test_queries(con):
    cursor = con.cursor()
    assert [tuple(row) for row in cursor.execute("SELECT * FROM counties ORDER BY county")] == COUNTY_ROWS
    assert cursor.execute("SELECT label FROM counties WHERE county = ?", "c2").fetchval() == "County 2"
    assert cursor.execute("SELECT whole FROM kinds WHERE whole = ?", 2).fetchval() == 2
    assert [row[0] for row in cursor.execute(COUNT)] == ["c1", "c2", "c3", "c4", "c5"]
    with pytest.raises(pyodbc.Error, match="42501"):
        cursor.execute(RECORDS)


def test_catalog_functions(con):
    cursor = con.cursor()
    assert sorted(row.table_name for row in cursor.tables().fetchall()) == VISIBLE
    assert [row.table_name for row in cursor.tables(table="per%", schema="main").fetchall()] == ["persons"]
    names = [row.column_name for row in cursor.columns(table="persons").fetchall()]
    assert names == ["id", "name", "age", "county", "income"]
    assert cursor.primaryKeys("persons").fetchall() == cursor.foreignKeys("persons").fetchall() == []
    cursor.statistics("persons").fetchall()
    cursor.rowIdColumns("persons").fetchall()
    cursor.procedures().fetchall()
    assert cursor.getTypeInfo().fetchall()
