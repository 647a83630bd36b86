"""Databases for tests of what analysts pay for, and what they did pay."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckanon

# Places of a hierarchy, and persons in households there. The domains are public; the records differ by `seed`.
PUBLIC = """
CREATE TABLE places AS SELECT 'S' || i // 3 AS state, 'C' || i AS county FROM range(6) r(i);
CREATE TABLE units AS SELECT i AS hid FROM range(60) r(i);
SELECT open_table('places'), open_table('units')
"""
RECORDS = """
CREATE OR REPLACE TABLE persons AS
SELECT i AS pid, (i * {seed}) % 53 AS hid, 'S' || (i * {seed}) % 6 // 3 AS state, 'C' || (i * {seed}) % 6 AS county,
  ['f', 'm', 'x', NULL][1 + (i * i + {seed}) % 4] AS sex, (i * {seed} % 9)::INTEGER AS age, i % 3 = {seed} % 3 AS sick,
  'name ' || i AS name
FROM range({size}) r(i)
"""
POLICY = """
SELECT protect('persons', privacy_unit := 'pid', rows_per_unit := 1, unit := 'hid', hierarchy := ['state', 'county'],
  epsilon := {epsilon}, per_query := {per_query}, max_size := 8, public := ['sex', 'sick'],
  domains := {{'state': 'places', 'county': 'places', 'sex': ['f', 'm'], 'sick': ['true', 'false']}})
"""


def made(path: Path, seed: int = 7, size: int = 150, epsilon: str = "100", per_query: str = "0.5") -> Path:
    """A database with one protected table."""
    with duckanon.connect(path, role="steward") as con:
        con.execute(PUBLIC).fetchall()
        con.execute(RECORDS.format(seed=seed, size=size)).fetchall()
        con.execute(POLICY.format(epsilon=epsilon, per_query=per_query)).fetchall()
    return path


def spent(con: duckanon.Analyst) -> tuple[Fraction, int]:
    """What was spent, and in how many charges."""
    ((exact, charges),) = con.execute("SELECT spent_exact, charges FROM privacy_budget()").fetchall()
    return Fraction(exact), charges
