"""Databases that the pages are made about."""

from pathlib import Path

import duckdb

import duckanon

NASTY = "<script>alert(1)</script>&\"' \u202e"


def made(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as con:
        duckanon.register(con)
        for one in statements:
            con.execute(one).fetchall()
    return path


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def shop(path: Path) -> Path:
    """A database with everything: policies, charges, releases of each kind, a view that publishes shares, bad names."""
    nasty = quoted(NASTY.replace('"', ""))  # DuckDB 1.4 cannot find double quotes inside a name
    return made(
        path,
        "CREATE TABLE persons AS SELECT i // 3 AS household, 's' || (i // 60) AS state FROM range(240) r(i)",
        "SELECT protect('persons', population := 'all', privacy_unit := 'household', rows_per_unit := 3, "
        "unit := 'household', epsilon := 1, per_query := '1/3', max_size := 5, public := ['state'])",
        "CREATE TABLE by_state AS SELECT state, count(*) AS n FROM persons GROUP BY state",
        "SELECT publish('by_state', of := 'persons', variables := ['state'], value := 'n')",
        "SELECT new_edition('persons')",
        "CREATE TABLE places AS SELECT 'ward 1' AS ward",
        "SELECT open_table('places')",
        "CREATE TABLE people AS SELECT 20 + i % 40 AS age, i % 7 AS zip, 'secret value ' || i AS bill, "
        "i % 3 AS vote FROM range(200) r(i)",
        "CREATE TABLE released AS FROM k_anonymize('people', ['age', 'zip'], k := 4, drop := ['bill'])",
        f'CREATE TABLE {nasty} AS SELECT class_id, age_lo AS "<b>_lo", age_hi AS "<b>_hi" FROM released',
        "SELECT protect('people', epsilon := 1)",
        "CREATE TABLE sizes AS FROM dp_group_sizes('people', 'zip', epsilon := '1/3', max_size := 5)",
        "SELECT unprotect('people')",
        "CREATE TABLE visits AS SELECT 'ward ' || (i % 4) AS ward, i % 3 = 0 AS better FROM range(31) r(i)",
        "CREATE TABLE free AS FROM dp_group_sizes('visits', 'ward', epsilon := 0.1, max_size := 40)",
        "CREATE VIEW shares AS SELECT ward, better, count(*) / sum(count(*)) OVER (PARTITION BY ward) AS share "
        "FROM visits GROUP BY ward, better",
        "CREATE TABLE stops AS FROM (VALUES ('a', 0, 1), ('b', 1, 0)) t(stop, x, y)",
        "CREATE TABLE mechanism AS FROM metric_mechanism('stops', 'stop', ['x', 'y'], epsilon := 1)",
    )
