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


_BODIES = {
    "open_view": "CREATE VIEW open_view AS SELECT k, v FROM lookup WHERE v <> 'constant_77123'",
    "over_closed": "CREATE VIEW over_closed AS SELECT x AS k, x AS v FROM hidden_table WHERE x <> 77123",
    "in_macro": "CREATE MACRO in_macro(a) AS CASE WHEN a = 'constant_77123' THEN 'hidden_table' ELSE a END",
}
# Statements that work, fail while they are bound, fail while they run, or ask for a plan; {} is a view.
_STATEMENTS = (
    "SELECT k FROM {}",
    "SELECT in_macro(k) FROM lookup",
    "SELECT typo FROM {}",
    "SELECT sum(k) OVER w FROM {}",
    "SELECT CAST(k AS DATE) FROM {}",
    "SELECT CAST(in_macro(k) AS DATE) FROM lookup",
    "SELECT error(in_macro(k)) FROM lookup",
    "CREATE TEMP TABLE mine AS SELECT CAST(k AS DATE) FROM {}",
    "EXPLAIN SELECT * FROM {}",
    "EXPLAIN SELECT in_macro(k) FROM lookup",
    "EXPLAIN SELECT count(*) FROM persons WHERE k IN (SELECT CAST(v AS VARCHAR) FROM {})",
    "SELECT count(*) + (SELECT typo FROM {}) FROM persons",
    "SELECT in_macro(k), sum(DISTINCT typo) FROM persons GROUP BY 1",
    "FROM explain_privacy('SELECT k FROM {}')",
    "FROM explain_privacy('SELECT in_macro(k) FROM lookup')",
    "WITH w AS (SELECT CAST(k AS DATE) AS d FROM {}) SELECT * FROM w",
    "SELECT * FROM mine_too",
    "EXPLAIN SELECT * FROM mine_too",
)


def test_nothing_shows_the_text_of_a_view_or_macro(tmp_path: Path) -> None:
    """Neither rows, errors, plans nor decisions: whatever a view reads, open tables or closed ones."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE lookup AS SELECT 'a' AS k, 'b' AS v")
        con.execute("CREATE TABLE hidden_table AS SELECT 1 AS x")
        for body in _BODIES.values():
            con.execute(body)
        con.execute("SELECT open_table('lookup'), open_table('open_view'), open_table('over_closed')").fetchall()
        con.execute("CREATE TABLE persons AS SELECT i AS id, 'a' AS k FROM range(9) r(i)")
        con.execute(
            "SELECT protect('persons', epsilon := 1, per_query := 0.1, public := ['k'], domains := {'k': ['a']})"
        ).fetchall()
    for view in ("open_view", "over_closed"):
        with duckanon.connect(path, role="analyst") as con:
            con.execute(f"CREATE TEMP VIEW mine_too AS SELECT CAST(k AS DATE) AS d FROM {view}")
            for statement in _STATEMENTS:
                sql = statement.format(view)
                seen = _seen(con, sql)
                assert "77123" not in seen, (sql, seen)
                assert "hidden_table" not in seen, (sql, seen)


def _seen(con: duckanon.analyst.Analyst, sql: str) -> str:
    """All that an analyst gets to see of a statement in Python."""
    seen = [str(con.explain(sql)), str(con.explain(sql).rows())]
    for run in (lambda: con.execute(sql).fetchall(), lambda: str(con.sql(sql)), lambda: con.sql(sql).to_arrow_table()):
        try:
            seen.append(str(run()))
        except Exception as error:
            seen.append(f"{error} {error.__cause__} {error.__context__}")
        seen.append(str(con.decision))
    return "\n".join(seen)
