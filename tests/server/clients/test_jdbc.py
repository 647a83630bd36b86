"""pgjdbc: DatabaseMetaData, prepared statements, fetch sizes. Java runs inside the test's process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.clients.conftest import COUNT, COUNTY_ROWS, RECORDS, VISIBLE, Server, needs

JAR = Path("/usr/share/java/postgresql.jar")
needs("Java", program="java")
needs("JPype", library="jpype")
needs("pgjdbc", file=JAR)

import jpype  # noqa: E402


@pytest.fixture(scope="module")
def con(server: Server) -> Iterator[Any]:
    if not jpype.isJVMStarted():
        jpype.startJVM(classpath=[str(JAR)], convertStrings=True)
    given = jpype.JClass("java.util.Properties")()
    for name, value in {
        "user": "ana",
        "password": server.passwords["ana"],
        "sslmode": "verify-full",
        "sslrootcert": str(server.certificate),
    }.items():
        given.setProperty(name, value)
    one = jpype.JClass("org.postgresql.Driver")().connect(
        f"jdbc:postgresql://{server.host}:{server.port}/{server.database}", given
    )
    yield one
    one.close()


def rows(found: Any, *columns: str) -> list[Any]:
    """The rows of a result: of one column, or tuples of several; of all columns if none is named."""
    about = found.getMetaData()
    names = columns or tuple(str(about.getColumnLabel(at)) for at in range(1, about.getColumnCount() + 1))
    read = []
    while found.next():
        read.append(tuple(found.getString(name) for name in names))
    return [one[0] for one in read] if len(columns) == 1 else read


def test_tables_and_columns(con):
    about = con.getMetaData()
    assert rows(about.getTables(None, "main", "%", ["TABLE", "VIEW"]), "TABLE_NAME", "TABLE_TYPE") == [
        ("counties", "TABLE"),
        ("kinds", "TABLE"),
        ("persons", "TABLE"),
        ("labels", "VIEW"),
    ]
    assert sorted(rows(about.getTables(None, None, "%", None), "TABLE_NAME")) == VISIBLE
    columns = rows(about.getColumns(None, "main", "persons", "%"), "COLUMN_NAME", "TYPE_NAME", "DECIMAL_DIGITS")
    assert columns[0] == ("id", "int8", "0")
    assert columns[4] == ("income", "numeric", "2")
    assert "main" in rows(about.getSchemas(), "TABLE_SCHEM")
    assert rows(about.getCatalogs(), "TABLE_CAT") == ["people"]


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("getPrimaryKeys", (None, "main", "persons")),
        ("getImportedKeys", (None, "main", "persons")),
        ("getExportedKeys", (None, "main", "persons")),
        ("getCrossReference", (None, "main", "counties", None, "main", "persons")),
        ("getIndexInfo", (None, "main", "persons", False, False)),
        ("getBestRowIdentifier", (None, "main", "persons", 0, True)),
        ("getProcedures", (None, None, "%")),
        ("getFunctions", (None, None, "%")),
        ("getFunctionColumns", (None, None, "%", "%")),
        ("getUDTs", (None, None, "%", None)),
    ],
)
def test_there_are_no_keys_indexes_or_functions(con, method, given):
    assert rows(getattr(con.getMetaData(), method)(*given)) == []


def test_types_privileges_and_limits(con):
    about = con.getMetaData()
    assert {"int4", "text", "numeric", "timestamptz"} <= set(rows(about.getTypeInfo(), "TYPE_NAME"))
    rows(about.getTablePrivileges(None, "main", "persons"))
    rows(about.getColumnPrivileges(None, "main", "persons", "%"))
    rows(about.getVersionColumns(None, "main", "persons"))
    rows(about.getTableTypes())
    rows(about.getClientInfoProperties())
    assert about.getMaxColumnsInIndex() == 32
    assert about.getMaxColumnNameLength() == 63
    assert about.getUserName() == "ana"
    assert about.getSQLKeywords() is not None
    assert (con.getCatalog(), con.getSchema(), con.isValid(5)) == ("people", "main", True)


def test_prepared_statements(con):
    asked = con.prepareStatement("SELECT county, label FROM counties WHERE county = ? OR county = ? ORDER BY 1")
    for _ in range(7):  # after five the driver keeps a named statement, in binary
        asked.setString(1, "c1")
        asked.setString(2, "c2")
        assert rows(asked.executeQuery()) == COUNTY_ROWS[:2]
    about = asked.getMetaData()
    assert (about.getColumnName(2), about.getColumnTypeName(2)) == ("label", "text")
    whole = con.prepareStatement("SELECT whole, exact, list FROM kinds WHERE whole = ?")
    whole.setInt(1, 2)
    found = whole.executeQuery()
    assert found.next()
    assert (found.getInt(1), str(found.getBigDecimal(2)), found.getArray(3).getArray()[1].intValue()) == (2, "4.50", 2)


def test_fetch_size(con):
    con.setAutoCommit(False)
    asked = con.createStatement()
    asked.setFetchSize(2)
    assert rows(asked.executeQuery("SELECT * FROM counties ORDER BY county")) == COUNTY_ROWS
    con.commit()
    con.setAutoCommit(True)


def test_paid_answers_and_refusals(con):
    asked = con.createStatement()
    assert rows(asked.executeQuery(COUNT), "county") == ["c1", "c2", "c3", "c4", "c5"]
    with pytest.raises(jpype.JClass("java.sql.SQLException")) as refused:
        asked.executeQuery(RECORDS)
    assert refused.value.getSQLState() == "42501"
    asked.setQueryTimeout(1)
    with pytest.raises(jpype.JClass("java.sql.SQLException")) as stopped:
        asked.executeQuery("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
    assert stopped.value.getSQLState() == "57014"
