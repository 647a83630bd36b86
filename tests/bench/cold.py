"""What the first call of each kind takes on a new machine, and later: `python -m tests.bench.cold [name ...]`.

Each call runs in a process of its own: with an empty cache of compiled engines, then with the cache that this left. CPU
seconds of the whole process, so of importing, of the query and of compiling; the median of the runs.
"""

import os
import resource
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

from duckanon.specification import sql_root

RUNS = 3
VOTERS = f"FROM read_csv('{sql_root() / 'examples' / 'voters.csv'}')"
PERSONS = "SELECT i // 3 AS unit, 's' || (i // 600) AS state, 'c' || (i // 60) AS county FROM range(2400) r(i)"
CLINIC = "SELECT 'w' || i % 6 AS ward, 'o' || i * i % 5 AS outcome FROM range(300) r(i)"
STOPS = "SELECT i AS stop, i % 5 AS x, i // 5 AS y FROM range(25) r(i)"
ANONYMIZE = "k_anonymize('t', ['age', 'education', 'income'], k := 5, categorical := ['education'], {})"
SIZES = "dp_group_sizes('t', 'unit', ['state', 'county'], epsilon := 1, max_size := 6, mechanism := '{}')"

CALLS = {
    "k_anonymize, auto": (VOTERS, ANONYMIZE.format("method := 'auto'")),
    "k_anonymize, auto, l = 2": (VOTERS, ANONYMIZE.format("sensitive := ['vote'], l := 2")),
    "k_anonymize, order": (VOTERS, ANONYMIZE.format("method := 'order'")),
    "k_anonymize, exact": (VOTERS + " LIMIT 60", ANONYMIZE.format("method := 'exact'")),
    "dp_group_sizes, auto": (PERSONS, SIZES.format("auto")),
    "dp_group_sizes, h_dp": (PERSONS, SIZES.format("h_dp")),
    "cell_bounds": (CLINIC, "cell_bounds('t', ['ward'], ['outcome'])"),
    "metric_mechanism": (STOPS, "metric_mechanism('t', 'stop', ['x', 'y'], epsilon := 2)"),
}
PROGRAM = """
import sys, duckanon
con = duckanon.connect()
con.execute("CREATE TABLE t AS " + sys.argv[1]).fetchall()
con.execute("FROM " + sys.argv[2]).fetchall()
"""
COMMANDS = {name: [sys.executable, "-c", PROGRAM, *call] for name, call in CALLS.items()}
COMMANDS["duckanon demo"] = [sys.executable, "-m", "duckanon.integrations.cli", "demo"]


def main(names: list[str]) -> None:
    print("| first call | cold, s | warm, s | compiling, s |\n|---|---|---|---|")
    for name in names or COMMANDS:
        runs = [cold_and_warm(COMMANDS[name]) for _ in range(RUNS)]
        cold, warm = (median(column) for column in zip(*runs, strict=True))
        print(f"| {name} | {cold:.1f} | {warm:.1f} | {cold - warm:.1f} |", flush=True)


def cold_and_warm(command: list[str]) -> tuple[float, float]:
    """CPU seconds of the command with an empty cache, and with the cache that it left."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        return used(command, environment), used(command, environment)


def used(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])
