"""What the pieces of split_carry and bubble_carry take, by k and number of quasi-identifiers, and what is predicted.

    python -m tests.bench.kanon_carry [--rows 100] [--columns 2,4] [--k 2,3,4]

CPU seconds for a table of random values. With k = 5 and four columns a piece of `split_carry` may take minutes.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.records import Records, attribute, records

_VALUES = (60, 2, 40, 8, 12, 5)


def table(rows: int, columns: int) -> Records:
    """Random records: an age, a sex, an area and the like."""
    draw = np.random.default_rng(1)
    return records(attribute(f"c{i}", draw.integers(0, _VALUES[i], rows)) for i in range(columns))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=100)
    asked.add_argument("--columns", default="2,4")
    asked.add_argument("--k", default="2,3,4")
    given = asked.parse_args()
    print("| method | columns | k | rows | CPU seconds | predicted |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in ("split_carry", "bubble_carry"):
        takes = METHODS[name].takes
        if takes is None:
            raise LookupError(name)
        # Compiled beforehand, so that no row counts it.
        anonymize(table(20, 2), 2, name)
        for columns in map(int, given.columns.split(",")):
            for k in map(int, given.k.split(",")):
                began = process_time()
                anonymize(table(given.rows, columns), k, name)
                took, about = process_time() - began, takes(given.rows, columns, k, {})
                print(f"| {name} | {columns} | {k} | {given.rows} | {took:.1f} | {about:.1f} |", flush=True)


if __name__ == "__main__":
    main()
