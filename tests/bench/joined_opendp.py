"""Laplace noise of OpenDP on exact cells. It runs in OpenDP's own environment: the file of a job is its argument.

Job: cells, sensitivity (of all cells together, in whole steps), draws. Prints the errors of all draws as JSON.
"""

import json
import sys

import opendp.prelude as dp


def main(file):
    dp.enable_features("contrib")
    with open(file, encoding="utf-8") as read:
        job = json.load(read)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    noised = dp.m.make_laplace(*space, scale=float(job["sensitivity"]))
    assert noised.map(job["sensitivity"]) <= 1 + 1e-9
    draws = [noised(job["cells"]) for _ in range(job["draws"])]
    print(json.dumps([[one - cell for one, cell in zip(draw, job["cells"])] for draw in draws]))  # noqa: B905 # as many


if __name__ == "__main__":
    main(*sys.argv[1:])
