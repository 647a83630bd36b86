"""A database with a protected table, for the programs that open it."""

from pathlib import Path

import duckanon

TABLES = """
CREATE TYPE mood AS ENUM ('glad', 'a value of the data');
CREATE TABLE persons AS
  SELECT i AS id, i // 3 AS household, i % 7 AS age, 'name ' || i AS name,
    CASE WHEN i < 60 THEN 'm' ELSE 'f' END AS sex, 'glad'::mood AS mood
  FROM range(90) r(i);
CREATE TABLE payroll AS SELECT 7 AS salary;
CREATE TABLE cities AS SELECT 'c' || i AS city, i AS size FROM range(3) r(i)
"""
POLICY = """
SELECT protect('persons', unit := 'household', epsilon := 2, per_query := 0.5, max_size := 6, public := ['sex'],
  domains := {'sex': ['m', 'f']}, quasi_identifiers := ['age'], k := 5);
SELECT open_table('cities')
"""
COUNT = "SELECT sex, count(*) AS n FROM persons GROUP BY sex ORDER BY sex"
COPY = "FROM k_anonymize('persons', ['age'], k := 5, drop := ['id', 'household', 'name', 'sex', 'mood'])"
RECORDS = "SELECT name FROM persons"


def make(path: Path) -> Path:
    """Make the database there."""
    with duckanon.connect(path, role="steward") as con:
        con.execute(TABLES).fetchall()
        con.execute(POLICY).fetchall()
    return path
