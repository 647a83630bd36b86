"""A database of visits with dates and times: protected, and open with the same records."""

from __future__ import annotations

from pathlib import Path

import duckanon

_VISITS = """
SELECT i AS person, TIMESTAMP '2024-01-01' + to_minutes(i * 97) AS ts, DATE '2024-01-01' + (i % 200)::INT AS day,
  ['a', 'b', 'c'][1 + i % 3] AS kind, (i % 50)::INTEGER AS n
FROM range(3000) r(i)
"""
_PROTECT = """
SELECT protect('visits', privacy_unit := 'person', rows_per_unit := 1, epsilon := 10000, per_query := 10,
  public := ['kind'], domains := {'kind': ['a', 'b', 'c']})
"""


def make(path: Path) -> Path:
    with duckanon.connect(path, role="steward") as con:
        for one in (f"CREATE TABLE visits AS {_VISITS}", "CREATE TABLE open_visits AS FROM visits"):
            con.execute(one)
        con.execute("CREATE TABLE forever AS SELECT DATE 'infinity' AS d, TIMESTAMP '-infinity' AS t, 1 AS n")
        con.execute(_PROTECT).fetchall()
        con.execute("SELECT open_table('open_visits'), open_table('forever')").fetchall()
    return path
