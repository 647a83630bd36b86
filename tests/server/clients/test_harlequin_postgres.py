"""Harlequin's PostgreSQL adapter: its catalog tree, a query, completions."""

from tests.server.clients.conftest import COUNT, VISIBLE, needs

needs("harlequin-postgres", library="harlequin_postgres")

from harlequin_postgres import HarlequinPostgresAdapter  # noqa: E402


def test_catalog_and_queries(server):
    adapter = HarlequinPostgresAdapter(
        (),
        host=server.host,
        port=str(server.port),
        user="ana",
        password=server.passwords["ana"],
        dbname=server.database,
        sslmode="verify-full",
        sslrootcert=str(server.certificate),
    )
    con = adapter.connect()
    try:
        (database,) = con.get_catalog().items
        schemas = {one.label: one for one in database.children or database.fetch_children()}  # type: ignore[attr-defined]
        tables = {one.label: one for one in schemas["main"].children or schemas["main"].fetch_children()}
        assert sorted(tables) == VISIBLE
        columns = tables["persons"].children or tables["persons"].fetch_children()
        assert [one.label for one in columns] == ["id", "name", "age", "county", "income"]
        found = con.execute(COUNT)
        assert found is not None
        assert found.fetchall().num_rows == 5
        con.get_completions()
    finally:
        con.close()
