"""Random visits of random patients, protected so that no visit is left out: exact answers equal DuckDB's own."""

from __future__ import annotations

from pathlib import Path

import duckdb

import duckanon

# Every value lies in its domain or bounds and on a step, and each patient has at most five visits. So bounding
# contributions changes nothing.
_TYPES = "CREATE TYPE kind AS ENUM ('first', 'control', 'emergency')"
_VISITS = """
  SELECT i // 5 AS patient, i AS visit,
    CASE WHEN random() < {known} THEN ['CA', 'GA', 'NY', 'TX', 'wa'][1 + floor(random() * 5)::INT] END AS state,
    ['f', 'm', NULL][1 + floor(random() * 3)::INT] AS sex,
    CASE WHEN random() < {known} THEN (['first', 'control', 'emergency'][1 + floor(random() * 3)::INT])::kind END
      AS kind,
    CASE WHEN random() < {known} THEN random() < 0.3 END AS urgent,
    CASE WHEN random() < {known} THEN floor(random() * 91)::INTEGER END AS age,
    CASE WHEN random() < 0.9 THEN floor(random() * 2001) / 4 END AS score,
    CASE WHEN random() < {known} THEN (floor(random() * 100001) / 100)::DECIMAL(8, 2) END AS cost,
    CASE WHEN random() < 0.8 THEN floor(random() * 31)::SMALLINT END AS days,
    DATE '2023-01-01' + floor(random() * 730)::INTEGER AS seen,
    CASE WHEN random() < 0.9 THEN ['flu', 'Flu ', 'asthma', 'fracture', 'a_b%c', ''][1 + floor(random() * 6)::INT] END
      AS diagnosis
  FROM range({rows}) r(i)
"""
# Each household lives in one county.
_PERSONS = """
  SELECT i AS person, home AS household, ['GA', 'GA', 'NY', 'NY', 'TX'][1 + home % 5] AS state,
    ['g1', 'g2', 'n1', 'n2', 't1'][1 + home % 5] AS county, floor(random() * 91)::INTEGER AS age,
    ['f', 'm'][1 + floor(random() * 2)::INT] AS sex
  FROM (SELECT i, floor(random() * {rows} / 12)::INTEGER AS home FROM range({rows} // 4) r(i)) ORDER BY person
"""
# For each county, sex and age group a household of each size from 1 to 12.
_ALL_SIZES = """
  SELECT 0 AS person, hash(size, county, sex, age) AS household, state, county, age, sex
  FROM range(1, 13) s(size), range(size) m(member), counties, (VALUES ('f'), ('m')) g(sex), (VALUES (5), (40)) a(age)
"""
_OPEN = """
  CREATE TABLE counties AS SELECT * FROM (VALUES ('GA', 'g1'), ('GA', 'g2'), ('NY', 'n1'), ('NY', 'n2'), ('TX', 't1'))
    v(state, county);
  CREATE TABLE states AS SELECT * FROM (VALUES ('CA', 'west', 39), ('GA', 'south', 11), ('NY', 'east', 20),
    ('TX', 'south', 30), ('wa', 'west', 8), ('ZZ', 'none', 0)) v(state, region, people);
  CREATE TABLE kinds AS SELECT * FROM (VALUES ('first'::kind, 'new'), ('control'::kind, 'known'),
    ('emergency'::kind, 'known')) v(kind, patient_is)
"""
_CALLS = """
  SELECT open_table('states'), open_table('kinds'), open_table('counties');
  SELECT protect('visits', population := 'patients', privacy_unit := 'patient', rows_per_unit := {contributions},
    epsilon := 100000, per_query := 10, public := ['state', 'sex', 'kind', 'urgent', 'age', 'seen'],
    domains := {{'state': ['CA', 'GA', 'NY', 'TX', 'wa'], 'sex': ['f', 'm', NULL], 'kind': 'ENUM',
      'urgent': [true, false], 'age': {{'from': 0, 'to': 90}},
      'seen': {{'from': DATE '2023-01-01', 'to': DATE '2024-12-31'}}}},
    bounds := {{'age': [0, 90], 'score': [0, 500, 0.25], 'cost': [0, 1000, 0.01], 'days': [0, 30]}});
  SELECT protect('persons', population := 'residents', privacy_unit := 'person', rows_per_unit := 1, epsilon := 100000,
    per_query := 10, unit := 'household', hierarchy := ['state', 'county'], max_size := 12, public := ['sex'],
    domains := {{'state': 'counties', 'county': 'counties', 'sex': ['f', 'm']}}, bounds := {{'age': [0, 90]}})
"""
WIDTHS = {"age": 90.0, "score": 500.0, "cost": 1000.0, "days": 30.0}
STEPS = {"age": 1.0, "score": 0.5, "cost": 1.0, "days": 1.0}


def make(path: Path, seed: float, rows: int = 4000, contributions: int = 5) -> Path:
    """A database of random visits. seed: from -1 to 1, of DuckDB's random numbers."""
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        for one in (f"SELECT setseed({seed})", _TYPES, *_OPEN.split(";")):
            con.execute(one).fetchall()
        con.execute(f"CREATE TABLE visits AS {_VISITS.format(rows=rows, known=1)}").fetchall()
        con.execute(f"CREATE TABLE persons AS {_PERSONS.format(rows=rows)}").fetchall()
        for one in _CALLS.format(contributions=contributions).split(";"):
            con.execute(one).fetchall()
    return path


def all_kinds() -> duckdb.DuckDBPyConnection:
    """Tables of the same names with records of all kinds that there can be, NULL in all columns included."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("SELECT setseed(0.5)")
    con.execute(_TYPES)
    con.execute(_OPEN)
    con.execute(f"CREATE TABLE visits AS {_VISITS.format(rows=60_000, known=0.9)}")
    # Nobody's visit is in this state of the open table.
    con.execute("INSERT INTO visits SELECT * REPLACE ('ZZ' AS state) FROM visits WHERE visit % 5 = 0")
    con.execute(f"CREATE TABLE persons AS {_ALL_SIZES}")
    return con
