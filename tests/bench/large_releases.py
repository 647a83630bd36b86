"""dp_group_sizes and metric_perturb over tables larger than memory, beside plain SQL over the same rows.

Run: python -m tests.bench.large_releases [--persons 1e8] [--riders 1e7] [--limit 4GB] [--folder /tmp]

Persons live in units of one to four, in 52 states and 3,144 counties, in no order. Riders start at one of 25 stops. The
tables are made once in a database file of the folder. Each measurement is a process of its own that writes into
another file, with the memory limit, two threads, and engines that are compiled already. Peak is the process's
resident memory.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import duckdb

import duckanon
from tests.bench.large import measured

# (The prime leaves no order; of 13 persons each live in six units.)
PERSONS = """
  SELECT unit, 'state ' || (county % 52) AS state, 'county ' || county AS county
  FROM (
    SELECT unit, (hash(unit) % 3144)::INTEGER AS county
    FROM (
      SELECT p // 13 * 6 + [0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5][p % 13 + 1] AS unit
      FROM (SELECT (i * 7368787) % {rows} AS p FROM range({rows}) AS t(i))
    )
  )
"""
RIDERS = """
  SELECT i AS rider, 'stop ' || (hash(i) % 25) AS stop, (hash(i + 3) % 1000)::INTEGER AS fare,
    'card ' || (hash(i + 5) % 1000000) AS card
  FROM range({rows}) AS t(i)
"""
STOPS = "SELECT 'stop ' || i AS stop, (i % 5)::DOUBLE AS x, (i // 5)::DOUBLE AS y FROM range(25) AS t(i)"
COUNTED = """
  SELECT state, county, size, count(*) AS groups
  FROM (
    SELECT unit, any_value(state) AS state, any_value(county) AS county, count(*) AS size FROM persons GROUP BY unit
  )
  GROUP BY ALL
"""
QUERIES = {
    "persons": {
        "group by": COUNTED,
        "group_sizes": "FROM group_sizes('persons', 'unit', ['state', 'county'])",
        "dp_group_sizes": "FROM dp_group_sizes('persons', 'unit', ['state', 'county'], epsilon := '1', max_size := 20)",
    },
    "riders": {
        "group by": "SELECT stop, count(*) AS riders FROM riders GROUP BY ALL",
        "copy": "FROM riders",
        "metric_perturb": "SELECT * EXCLUDE (stop) FROM metric_perturb('riders', 'stop', 'mechanism')",
    },
}


def made(table: str, rows: int, folder: Path) -> Path:
    """A database with the table, made unless it is there."""
    path = folder / f"{table}{rows}.duckdb"
    if not path.exists():
        with duckdb.connect(path.with_suffix(".part"), config={"memory_limit": "4GB", "threads": 2}) as con:
            query = (PERSONS if table == "persons" else RIDERS).format(rows=rows)
            con.execute(f"CREATE TABLE {table} AS {query}").fetchall()
        path.with_suffix(".part").rename(path)
    return path


def run(source: str, table: str, query: str, limit: str) -> None:
    """Runs the query on the table and prints what it took, as JSON. In a process of its own."""
    out = Path(source).with_suffix(".out")
    out.unlink(missing_ok=True)
    with duckanon.connect(out) as con:
        con.execute(f"ATTACH '{source}' AS source (READ_ONLY)").fetchall()
        con.execute(f"CREATE VIEW {table} AS FROM source.{table}; CREATE TABLE stops AS {STOPS}").fetchall()
        con.execute("CREATE TABLE mechanism AS FROM metric_mechanism('stops', 'stop', ['x', 'y'], epsilon := 2)")
        con.execute(f"CREATE TABLE few AS FROM {table} LIMIT 3000").fetchall()
        con.execute(f"CREATE TABLE warm AS {query.replace(table, 'few')}").fetchall()
        con.execute(f"SET threads = 2; SET memory_limit = '{limit}'").fetchall()
        wall, cpu = time.perf_counter(), time.process_time()
        con.execute(f"CREATE TABLE result AS {query}").fetchall()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    out.unlink()
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", default="1e8")
    parser.add_argument("--riders", default="1e7")
    parser.add_argument("--limit", default="4GB")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--run", nargs=4)
    asked = parser.parse_args()
    if asked.run:
        run(*asked.run)
        return
    print("| rows | what | wall s | of the group by | CPU s | peak GiB |\n|---|---|---|---|---|---|")
    for table, queries in QUERIES.items():
        rows = int(float(asked.persons if table == "persons" else asked.riders))
        source, plain = made(table, rows, asked.folder), 0.0
        for what, query in queries.items():
            found = measured("tests.bench.large_releases", str(source), table, query, asked.limit)
            if isinstance(found, str):
                print(f"| {rows:,} {table} | {what} | {found} | | | |", flush=True)
                continue
            plain = plain or found["wall"]
            print(
                f"| {rows:,} {table} | {what} | {found['wall']:.1f} | {found['wall'] / plain:.1f} "
                f"| {found['cpu']:.1f} | {found['peak']:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
