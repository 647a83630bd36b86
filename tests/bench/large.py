"""k_anonymize over tables that are larger than memory, beside DuckDB's own sort of the same columns.

Run: python -m tests.bench.large [--rows 1e6,1e7] [--method order] [--limit 4GB] [--folder /tmp]

The table has the eight quasi-identifiers of the synthetic census and eight other columns, two of them text; it is
made once in a database file of the folder. Each measurement is a process of its own: CREATE TABLE AS into another
file, with the memory limit, two threads, and engines that are compiled already. Peak is the process's resident memory.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import duckanon
from tests.bench.census import ATTRIBUTES

CHUNK = 1_000_000
QI = [name for name, *_ in ATTRIBUTES]
OTHERS = """
  (hash(i) % 1000000)::BIGINT AS account, (hash(i + 1) % 100)::INTEGER AS score,
  (hash(i * 3 + 7) % 100000) / 7.0::DOUBLE AS income, DATE '2000-01-01' + (hash(i + 5) % 9000)::INTEGER AS seen,
  (hash(i + 9) % 2000)::SMALLINT AS visits, (hash(i + 11) % 1000000007)::BIGINT AS ref,
  'diag-' || (hash(i + 13) % 1000) AS diagnosis, 'street ' || substr(md5(i::VARCHAR), 1, 18) AS street
"""


def made(rows: int, folder: Path) -> Path:
    """A database with the table `people`, made unless it is there."""
    path = folder / f"people{rows}.duckdb"
    if path.exists():
        return path
    random, laws = np.random.default_rng(1), []
    for name, distinct, low, high in ATTRIBUTES:
        inner = random.choice(np.arange(low + 1, high), max(distinct - 2, 0), replace=False)
        values = np.sort(np.concatenate(([low], inner, [high]))).astype(np.int32)
        laws.append((name, values, np.cumsum(random.dirichlet(np.full(distinct, 2.0)))[:-1]))
    con = duckdb.connect(path.with_suffix(".part"), config={"memory_limit": "2GB", "threads": 2})
    for start in range(0, rows, CHUNK):
        draw = np.random.default_rng(1000 + start // CHUNK)
        some = min(CHUNK, rows - start)
        frame = pa.table(
            {name: values[np.searchsorted(law, draw.random(some))] for name, values, law in laws}
            | {"i": np.arange(start, start + some)}
        )
        con.register("frame", frame)
        query = f"SELECT * EXCLUDE (i), {OTHERS} FROM frame"
        con.execute(f"INSERT INTO people {query}" if start else f"CREATE TABLE people AS {query}").fetchall()
    con.close()
    path.with_suffix(".part").rename(path)
    return path


def run(source: str, query: str, limit: str) -> None:
    """Runs the query on the table and prints what it took, as JSON. In a process of its own."""
    out = Path(source).with_suffix(".out")
    out.unlink(missing_ok=True)
    with duckanon.connect(out) as con:
        con.execute(f"ATTACH '{source}' AS source (READ_ONLY)").fetchall()
        con.execute("CREATE VIEW people AS FROM source.people; CREATE TABLE few AS FROM people LIMIT 3000").fetchall()
        con.execute(f"CREATE TABLE warm AS {query.replace('people', 'few')}").fetchall()
        con.execute(f"SET threads = 2; SET memory_limit = '{limit}'").fetchall()
        wall, cpu = time.perf_counter(), time.process_time()
        con.execute(f"CREATE TABLE result AS {query}").fetchall()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        loss = None
        if "_lo" in {c[:] and c[-3:] for (c, *_) in con.execute("DESCRIBE result").fetchall()}:
            con.execute("SET memory_limit = '12GB'").fetchall()
            spans = ", ".join(f"(max({q}) - min({q}))::DOUBLE AS {q}" for q in QI)
            ((loss,),) = con.execute(
                f"SELECT avg(({' + '.join(f'(r.{q}_hi - r.{q}_lo) / s.{q}' for q in QI)}) / {len(QI)}) "
                f"FROM result AS r, (SELECT {spans} FROM people) AS s"
            ).fetchall()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    out.unlink()
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "loss": loss}))


def measured(module: str, *arguments: str) -> dict[str, float] | str:
    """What `run` of a module says, in a process of its own, or the end of its error."""
    command = [sys.executable, "-m", module, "--run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][-120:]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1e6")
    parser.add_argument("--method", default="order")
    parser.add_argument("--limit", default="4GB")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--run", nargs=3)
    asked = parser.parse_args()
    if asked.run:
        run(*asked.run)
        return
    ordered, named = ", ".join(QI), ", ".join(f"'{name}'" for name in QI)
    print("| rows | what | wall s | of the sort | CPU s | peak GiB | loss |\n|---|---|---|---|---|---|---|")
    for rows in (int(float(one)) for one in asked.rows.split(",")):
        source = made(rows, asked.folder)
        queries = {"sort": f"FROM people ORDER BY {ordered}"}
        for method in asked.method.split(","):
            queries[method] = f"FROM k_anonymize('people', [{named}], k := 5, method := '{method}')"
        sort = 0.0
        for what, query in queries.items():
            found = measured("tests.bench.large", str(source), query, asked.limit)
            if isinstance(found, str):
                print(f"| {rows:,} | {what} | {found} | | | | |", flush=True)
                continue
            sort = sort or found["wall"]
            loss = "" if found["loss"] is None else f"{found['loss']:.5f}"
            print(
                f"| {rows:,} | {what} | {found['wall']:.1f} | {found['wall'] / sort:.1f} | {found['cpu']:.1f} "
                f"| {found['peak']:.2f} | {loss} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
