"""`python -m tests.units --statements 2000 --seed 1`: the searches of this room, at length."""

from __future__ import annotations

import argparse
import random
import sys
import time

import duckdb

from tests.units.checks import search

SEARCHES = ("neighbours", "equality")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.units", description=__doc__)
    parser.add_argument("--statements", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", choices=SEARCHES)
    asked = parser.parse_args()
    is_wrong = False
    for what in [asked.only] if asked.only else SEARCHES:
        begun = time.process_time()
        found = search(what, asked.statements, asked.seed)
        for wrong in found.wrong:
            print(f"WRONG {wrong}", flush=True)
        print(
            f"DuckDB {duckdb.__version__}, {what}, seed {asked.seed}: {found.asked:,} statements of {found.tried:,} "
            f"are answered within units, {len(found.wrong)} wrong; {time.process_time() - begun:.0f} s of CPU",
            flush=True,
        )
        is_wrong = is_wrong or bool(found.wrong)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
