"""The SQL of an opened view is not shown: neither its constants nor the names of closed tables."""

from __future__ import annotations

from pathlib import Path

import duckanon


def test_explain_privacy_shows_no_sql_of_a_view_over_a_closed_table(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE hidden AS SELECT 1 AS x; CREATE VIEW shown AS SELECT x FROM hidden WHERE x <> 77123")
        con.execute("SELECT open_table('shown')").fetchall()
        con.execute("CREATE TABLE persons AS SELECT i AS id, 'a' AS k FROM range(9) r(i)")
        con.execute(
            "SELECT protect('persons', epsilon := 1, per_query := 0.1, public := ['k'], domains := {'k': ['a']})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        for sql in ("SELECT * FROM shown", "SELECT count(*) FROM persons WHERE id IN (SELECT x FROM shown)"):
            told = str(con.execute(f"FROM explain_privacy('{sql}')").fetchall())
            assert "77123" not in told
            assert "hidden" not in told
