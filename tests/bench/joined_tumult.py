"""Geometric noise of Tumult Core on exact cells. It runs in Tumult's own environment, with a job's file as argument.

Job: cells, sensitivity (of all cells together, in whole steps), draws. Prints the errors of all draws as JSON.
"""

import json
import sys

from tmlt.core.measurements.noise_mechanisms import AddGeometricNoise  # type: ignore[import-not-found]


def main(file):
    with open(file, encoding="utf-8") as read:
        job = json.load(read)
    noised = AddGeometricNoise(alpha=job["sensitivity"])
    assert noised.privacy_function(job["sensitivity"]) <= 1
    draws = [[int(noised(cell)) for cell in job["cells"]] for _ in range(job["draws"])]
    print(json.dumps([[one - cell for one, cell in zip(draw, job["cells"])] for draw in draws]))  # noqa: B905 # as many


if __name__ == "__main__":
    main(*sys.argv[1:])
