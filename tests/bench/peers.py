"""Noisy answers beside OpenDP, SmartNoise SQL, Qrlew and Tumult Analytics: errors, seconds, and which SQL they accept.

Run: python -m tests.bench.peers [NAME ...]

It makes an environment for each program in build/peers, with pip, and keeps it; Tumult needs Java too. What cannot be
installed is said with pip's reason. Outside CI: it installs some gigabytes. All programs get the same data, bounds and
keys, and epsilon 1 an answer: Adult's hours_per_week by education, where the unit is one record, and the customers who
ordered, by status, where a customer has up to ROWS orders and up to three statuses. Qrlew has Gaussian noise only, with
delta 1e-6; a mean gets half of epsilon for each of its two parts where the program does not divide by itself.

Seconds are of the fastest answer: of the others what their own functions take, of duckanon a new question from the
analyst's SQL to the rows, charged and stored. The statements are those of fixtures/ordinary: duckanon's are answered,
by the others accepted, that is rewritten or given a price, which is less than an answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

import duckanon
from duckanon.errors import DuckanonError
from tests.bench.ordinary import DATA, Draws, decided, make
from tests.guard.test_ordinary import METADATA, QUERIES, parameters

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "peers"
# What pip installs for each.
PACKAGES = {
    "opendp": ("opendp[polars]==0.16.0",),
    "smartnoise": ("smartnoise-sql==1.0.10",),
    "qrlew": ("pyqrlew==0.9.27", "duckdb"),
    "tumult": ("tmlt.analytics==0.21.0",),
}
NAMES = {"opendp": "OpenDP", "smartnoise": "SmartNoise SQL", "qrlew": "Qrlew", "tumult": "Tumult Analytics"}
DRAWS, SECONDS, ROWS = 20, 30, 16
ADULT = {"count": "count(*)", "sum": "sum(hours_per_week)", "mean": "avg(hours_per_week)"}
UNITS = "SELECT o_orderstatus, count(DISTINCT o_custkey) AS x FROM orders {} GROUP BY o_orderstatus"
QUESTIONS = {
    **{name: f"SELECT education, {number} AS x FROM adult {{}} GROUP BY education" for name, number in ADULT.items()},
    "units": UNITS,
}
# Two filters that keep everything and make a new question.
FILTERS = {"adult": ("WHERE age < 200", "WHERE age < 201"), "orders": ("WHERE 1 = 1", "WHERE 2 = 2")}
Rows = Iterable[tuple[str, float]]


def environment(name: str) -> Path | str:
    """The interpreter of a program's own environment, or why there is none."""
    folder = ENVIRONMENTS / name
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        asked = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]]
        run = subprocess.run(asked, capture_output=True, text=True, check=False)
        if run.returncode:
            errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR")]
            return errors[-1] if errors else "pip failed"
        done.touch()
    return python


def ours(path: Path) -> dict[str, Any]:
    """Seconds of new questions, and many draws of the same ones."""
    found: dict[str, Any] = {}
    with duckanon.connect(path, role="analyst") as con:
        for name, sql in QUESTIONS.items():
            taken = []
            for rest in FILTERS["orders" if name == "units" else "adult"]:
                started = time.perf_counter()
                con.execute(sql.format(rest)).fetchall()
                taken.append(time.perf_counter() - started)
            found[name] = {"seconds": min(taken)}
    with decided(path, {name: sql.format("") for name, sql in QUESTIONS.items()}) as (con, questions):
        for name, one in questions.items():
            draws = Draws(con, *one)
            found[name]["rows"] = [draws.rows() for _ in range(5 * DRAWS)]
    with duckanon.connect(path, role="analyst") as con:
        found["accepted"] = [title for title in statements() if _decides(con, title)]
    return found


def statements() -> dict[str, str]:
    """The statements that ask for data."""
    return {title: one.sql for title, one in QUERIES.items() if not METADATA.search(one.sql)}


def _decides(con: duckanon.Analyst, title: str) -> bool:
    given: Any = parameters(QUERIES[title])
    try:
        return con._guard.decide(QUERIES[title].sql, given).query is not None
    except DuckanonError:
        return False


def job(plain: duckdb.DuckDBPyConnection, folder: Path) -> Path:
    """Data and statements for the others, in a file."""
    files = {"adult": folder / "adult.csv", "orders": folder / "orders.csv"}
    plain.execute(f"COPY (SELECT education AS key, hours_per_week AS x FROM adult) TO '{files['adult']}'").fetchall()
    plain.execute(
        f"COPY (SELECT o_custkey AS unit, o_orderstatus AS key FROM orders) TO '{files['orders']}'"
    ).fetchall()
    tables: dict[str, list[dict[str, Any]]] = {}
    columns = "SELECT table_name, column_name, data_type FROM information_schema.columns"
    asked = f"{columns} WHERE table_schema = 'main' ORDER BY ALL"
    for table, name, kind in plain.execute(asked).fetchall():
        kind = "FLOAT" if kind.startswith("DECIMAL") else "INTEGER" if "INT" in kind else kind
        span, values = None, None
        if kind in ("INTEGER", "FLOAT"):
            low, high = plain.execute(f'SELECT min("{name}"), max("{name}") FROM "{table}"').fetchall()[0]
            span = (float(low), float(high)) if kind == "FLOAT" else (int(low), int(high))
        elif kind == "VARCHAR":
            rows = plain.execute(f'SELECT DISTINCT "{name}" FROM "{table}" ORDER BY 1 LIMIT 51').fetchall()
            values = [row[0] for row in rows] if len(rows) < 51 else None
        tables.setdefault(table, []).append({"name": name, "type": kind, "range": span, "list": values})
    file = folder / "job.json"
    told = {name: str(each) for name, each in files.items()} | {"rows": ROWS, "draws": DRAWS, "seconds": SECONDS}
    units = {"persons": "pid", "customer": "c_custkey", "orders": "o_custkey", "adult": "fnlwgt"}
    file.write_text(json.dumps(told | {"tables": tables, "units": units, "queries": statements()}), encoding="utf-8")
    return file


def theirs(name: str, file: Path) -> dict[str, Any] | str:
    """What a program finds, or why it does not."""
    python = environment(name)
    if isinstance(python, str):
        return python
    script = Path(__file__).parent / "peer.py"
    run = subprocess.run([str(python), str(script), name, str(file)], capture_output=True, text=True, check=False)
    if run.returncode:
        return (run.stderr.strip().splitlines() or ["it ended"])[-1][:200]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def lines(exact: dict[str, dict[str, float]], found: dict[str, dict[str, Any]]) -> Iterable[str]:
    """The rows of the table: for each question, each program."""
    for question, true in exact.items():
        for name, answers in found.items():
            one = answers[question]
            if "failed" in one:
                yield f"| {question} | {name} | failed: {one['failed']} | | | |"
                continue
            wrong = [abs(float(value) - true[key]) for rows in one["rows"] for key, value in rows]
            median, mean = np.median(wrong), np.mean(wrong)
            yield f"| {question} | {name} | {median:.3g} | {mean:.3g} | {one['seconds']:.2f} | {len(one['rows'])} |"


def main(names: list[str]) -> None:
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ordinary.duckdb"
        make(path, adult=DATA)
        with duckdb.connect(str(path), read_only=True) as plain:
            file = job(plain, Path(folder))
            exact = {
                name: {key: float(value) for key, value in plain.execute(sql.format("")).fetchall()}
                for name, sql in QUESTIONS.items()
            }
        found: dict[str, dict[str, Any]] = {"duckanon": ours(path)}
        for name in names or list(PACKAGES):
            one = theirs(name, file)
            if isinstance(one, str):
                print(f"{NAMES[name]} is missing: {one}")
            else:
                found[NAMES[name]] = one
    print("| question | program | median error | mean error | seconds | answers |\n|---|---|---:|---:|---:|---:|")
    print("\n".join(lines(exact, found)))
    print("\n| program | statements | accepted |\n|---|---:|---:|")
    for name, one in found.items():
        print(f"| {name} | {len(statements())} | {len(one['accepted']) if 'accepted' in one else 'reads no SQL'} |")


if __name__ == "__main__":
    main(sys.argv[1:])
