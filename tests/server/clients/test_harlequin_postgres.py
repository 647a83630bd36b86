"""Harlequin's PostgreSQL adapter: its catalog tree, a query, completions."""

from typing import Any

from tests.server.clients.conftest import COUNT, VISIBLE, needs

needs("harlequin-postgres", library="harlequin_postgres")

from harlequin_postgres import HarlequinPostgresAdapter  # noqa: E402


def children(item: Any) -> Any:
    return item.children or item.fetch_children()


def test_catalog_and_queries(server, monkeypatch):
    monkeypatch.setenv("PGSSLROOTCERT", str(server.certificate))
    adapter = HarlequinPostgresAdapter(
        (),
        host=server.host,
        port=str(server.port),
        user="ana",
        password=server.passwords["ana"],
        dbname=server.database,
        sslmode="verify-full",
    )
    con = adapter.connect()
    try:
        (database,) = con.get_catalog().items
        schemas = {one.label: one for one in children(database)}
        tables = {one.label: one for one in children(schemas["main"])}
        assert sorted(tables) == VISIBLE
        columns = children(tables["persons"])
        assert [one.label for one in columns] == ["id", "name", "age", "county", "income"]
        found: Any = con.execute(COUNT)
        assert len(found.fetchall()) == 5
        con.get_completions()
    finally:
        con.close()
