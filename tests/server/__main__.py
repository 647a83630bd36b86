"""`python -m tests.server --statements 2000 --pairs 5 --seed 1`: non-interference through the wire, at length."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from tests.noninterference.harness import injecting
from tests.noninterference.worlds import Facts, make
from tests.server.two_servers import compared, servers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server", description=__doc__)
    parser.add_argument("--statements", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    asked = parser.parse_args()
    begun, chance = time.monotonic(), random.Random(asked.seed)
    sent = ran = differences = 0
    for number in range(asked.pairs):
        with TemporaryDirectory() as folder, injecting():
            facts = Facts.of(chance.randrange(10**9))
            make(Path(folder) / "pair", facts)
            with servers(Path(folder) / "pair") as pair:
                found = compared(pair, -(-(asked.statements - sent) // (asked.pairs - number)), chance)
        for one in found.differences:
            print(f"DIFFERENCE with {facts}\n{one}", flush=True)
        sent, ran, differences = sent + found.sent, ran + found.ran, differences + len(found.differences)
        print(f"{number + 1} of {asked.pairs} pairs, {sent} statements, {time.monotonic() - begun:.0f} s", flush=True)
    print(
        f"DuckDB {duckdb.__version__}, seed {asked.seed}: {sent:,} statements through the wire over {asked.pairs} "
        f"pairs, {ran:,} ran, {differences} differences; {time.monotonic() - begun:.0f} s"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
