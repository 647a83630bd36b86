"""Random populations, and sets of publications of every kind: what is let out, and is anything of it broken?

Run: python -m tests.bench.publications_enumerated [POPULATIONS]
"""

from __future__ import annotations

import sys
from collections import Counter

import duckdb
import numpy as np

import duckanon
from tests.functions.publication_worlds import broken, chosen, filled, let_out, perturbation, population

# Publications that are tried of each population.
TRIED = 8


def main(populations: int = 60) -> None:
    kinds: Counter[str] = Counter()
    sets: Counter[int] = Counter()
    found = 0
    with duckdb.connect() as con:
        duckanon.register(con)
        for seed in range(populations):
            random = np.random.default_rng(seed)
            counts = population(random)
            filled(con, counts, random)
            by = perturbation(random)
            out = let_out(con, [chosen(random, by) for _ in range(TRIED)], random)
            kinds.update(one.terms.kind for one in out)
            sets[len(out)] += 1
            if out:
                found += len(list(broken(counts, out)))
    print(f"{populations} populations, {TRIED} publications tried of each")
    print("let out: " + ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())))
    print("sets by size: " + ", ".join(f"{number} of {size}" for size, number in sorted(sets.items())))
    print(f"cells and unions broken: {found}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
