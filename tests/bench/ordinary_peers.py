"""Counts, sums and means by group beside OpenDP and SmartNoise SQL.

Run: python -m tests.bench.ordinary_peers [NAME=PYTHON ...]

As in opendp=/venv/bin/python smartnoise=/other/bin/python: interpreters that have the packages (opendp[polars],
smartnoise-sql). Adult's hours_per_week by education; each answer costs epsilon 1, the unit is one record, the bounds
are 1 and 99 for all, and the keys are known. Mean absolute error over all groups of DRAWS answers, and the seconds of
one answer, the least of all: of the others what their own functions take, of duckanon a new question from the
analyst's SQL to the rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np

import duckanon
from tests.bench.ordinary import DATA, Draws, decided, make

DRAWS = 20
TOLD = {"count": "count(*)", "sum": "sum(hours_per_week)", "avg": "avg(hours_per_week)"}
Rows = Iterable[tuple[str, float]]


def query(number: str, more: str = "") -> str:
    return f"SELECT education, {number} AS x FROM adult {more} GROUP BY education"


def ours(path: Path) -> dict[str, tuple[float, list[Rows]]]:
    seconds: dict[str, list[float]] = {}
    with duckanon.connect(path, role="analyst") as con:
        for age in (200, 201):
            for name, number in TOLD.items():
                started = time.perf_counter()
                con.execute(query(number, f"WHERE age < {age}")).fetchall()
                seconds.setdefault(name, []).append(time.perf_counter() - started)
    with decided(path, {name: query(number) for name, number in TOLD.items()}) as (con, found):
        draws = {name: Draws(con, *one) for name, one in found.items()}
        return {name: (min(seconds[name]), [one.rows() for _ in range(5 * DRAWS)]) for name, one in draws.items()}


def theirs(program: str, python: str, file: Path) -> dict[str, tuple[float, list[Rows]]]:
    script = Path(__file__).parent / "ordinary_peer.py"
    run = subprocess.run(
        [python, str(script), program, str(file), str(DRAWS)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(f"{program} failed: {run.stderr[-500:]}")
    found = json.loads(run.stdout.splitlines()[-1])
    return {name: (one["seconds"], one["rows"]) for name, one in found.items()}


def main(arguments: list[str]) -> None:
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return
    with TemporaryDirectory() as folder, duckdb.connect() as plain:
        path, file = Path(folder) / "ordinary.duckdb", Path(folder) / "adult.csv"
        plain.execute(f"CREATE TABLE adult AS FROM '{DATA}'").fetchall()
        plain.execute(f"COPY (SELECT education AS key, hours_per_week AS x FROM adult) TO '{file}'").fetchall()
        make(path, adult=DATA)
        found = {"duckanon": ours(path)}
        found |= {name: theirs(name, python, file) for name, python in (one.split("=", 1) for one in arguments)}
        print("| told | program | mean error | seconds |\n|---|---|---:|---:|")
        for told, number in TOLD.items():
            exact = dict(plain.execute(query(number)).fetchall())
            for program, answers in found.items():
                seconds, draws = answers[told]
                error = np.mean([abs(float(value) - float(exact[key])) for rows in draws for key, value in rows])
                print(f"| {told} | {program} | {error:.4g} | {seconds:.3f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
