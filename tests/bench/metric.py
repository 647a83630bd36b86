"""Metric privacy: every method on the paper's kinds of data, in the layout of its Tables 1 to 4 and Figure 7.

Run: python -m tests.bench.metric FOLDER [--part solve|sizes|loss] [--data grid road ...] [--sizes 100 500 ...]
     [--epsilons 10 2 ...] [--methods columns lp ...] [--limit 600] [--gap 0.0001]

FOLDER holds rome_nodes.parquet and word2vec_1000x300.parquet; without them the grid and the synthetic data are measured
alone (give any folder). Each instance is solved once, on two threads, after a small one that compiles. A method that
was not done within the limit is not run on more records of the same kind.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import duckdb
import numpy as np

from duckanon.engines.metric.certificate import certify
from duckanon.engines.metric.distances import METRICS, pairwise
from duckanon.engines.metric.domain import Domain, travel_loss, uniform
from duckanon.engines.metric.graph import mdp_graph
from duckanon.engines.metric.mechanism import Options, optimise
from duckanon.engines.metric.methods import METHODS, named
from duckanon.engines.metric.partitions import PARTITIONS
from duckanon.engines.metric.partitions import named as partition_named
from duckanon.engines.metric.problem import Program, Step
from duckanon.errors import InvalidInput

SHAPES = {100: (10, 10), 200: (10, 20), 500: (20, 25), 1000: (25, 40), 2000: (40, 50), 5000: (50, 100)}
DESTINATIONS = 100


def by_paths(distances: np.ndarray, neighbours: int = 4) -> np.ndarray:
    """Path lengths over each record's nearest neighbours and a spanning tree, in place of roads."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

    n = len(distances)
    roads = np.zeros((n, n))
    nearest = np.argsort(distances, axis=1, kind="stable")[:, 1 : neighbours + 1]
    rows = np.repeat(np.arange(n), neighbours)
    roads[rows, nearest.ravel()] = distances[rows, nearest.ravel()]
    tree = minimum_spanning_tree(csr_array(distances)).toarray()
    roads = np.maximum.reduce([roads, roads.T, tree, tree.T])
    return np.asarray(shortest_path(csr_array(roads), directed=False))


def domain(data: str, records: int, epsilon: float, folder: Path) -> Domain:
    rng = np.random.default_rng(2024)
    if data == "grid":
        # Cells of 1 km; travel by Manhattan distance.
        across, down = SHAPES[records]
        points = np.array([(x, y) for x in range(across) for y in range(down)], dtype=float)
        metric, radius = METRICS["euclidean"], 2.0
        travel = METRICS["manhattan"].between(points, points)
    elif data == "road":
        con = duckdb.connect()
        found = con.execute(f"SELECT lat, lon FROM '{folder / 'rome_nodes.parquet'}' ORDER BY osmid").fetchnumpy()
        every = np.stack([found["lat"], found["lon"]], axis=1)
        points = every[np.sort(rng.choice(len(every), records, replace=False))]
        metric, radius = METRICS["haversine"], 2.0
    elif data == "words":
        con = duckdb.connect()
        table = con.execute(f"SELECT * EXCLUDE (word) FROM '{folder / 'word2vec_1000x300.parquet'}'").fetchnumpy()
        points = np.stack(list(table.values()), axis=1).astype(float)[:records]
        metric, radius = METRICS["euclidean"], 2.0
    else:
        points = rng.normal(size=(records, 3))
        metric, radius = METRICS["euclidean"], 2.0
    distances = pairwise(points, metric)
    loss = distances
    if data in ("grid", "road"):
        if data == "road":
            travel = by_paths(distances)
        places = rng.integers(0, records, DESTINATIONS)
        loss = travel_loss(travel[:, places], np.full(DESTINATIONS, 1 / DESTINATIONS))
    return Domain(distances, epsilon, radius, True, uniform(records), np.arange(records), loss, points)


def solve(arguments: argparse.Namespace) -> None:
    print(f"Limit {arguments.limit:g} s, relative gap {arguments.gap:g} for each part.\n")
    print(
        "| data | N | epsilon | method | seconds | iterations | loss | lower bound | gap | worst log ratio "
        "| exponential |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    given_up = set()
    for data in arguments.data:
        for records in arguments.sizes:
            for epsilon in arguments.epsilons:
                given = domain(data, records, epsilon, arguments.folder)
                options = Options(arguments.gap, arguments.limit, "keep", 2)
                plain = optimise(given, METHODS["exponential"], options).loss
                for name in arguments.methods:
                    if (data, epsilon, name) not in given_up and not solve_one(data, given, name, options, plain):
                        given_up.add((data, epsilon, name))


def solve_one(data: str, given: Domain, name: str, options: Options, plain: float) -> bool:
    """Print a row; whether the method was done in time."""
    steps: dict[str, int] = {}

    def tell(part: str, step: Step) -> None:
        steps[part] = step.iteration

    method, _, partition = name.partition(":")
    line = f"| {data} | {len(given.distances):,} | {given.epsilon:g} | {name} |"
    start = time.perf_counter()
    try:
        found = optimise(given, named(method, partition or "k-m-dv"), options, tell)
    except InvalidInput:
        took = time.perf_counter() - start
        print(
            f"{line} {took:.2f} | {max(steps.values(), default=0)} | no mechanism | - | - | - | {plain:.6g} |",
            flush=True,
        )
        return False
    took = time.perf_counter() - start
    checked = certify(found.matrix, given.distances, given.epsilon, given.radius, 2)
    bound = f"{found.lower:.6g} | {found.gap:.1e}" if np.isfinite(found.lower) else "- | -"
    print(
        f"{line} {took:.2f} | {max(steps.values(), default=0)} | {found.loss:.6g} | {bound} | "
        f"{checked.max_violation:.1e} | {plain:.6g} |",
        flush=True,
    )
    # Without a bound there is nothing to be done: the exponential mechanism.
    return not np.isfinite(found.lower) or found.gap <= options.gap or found.loss == 0


def sizes(arguments: argparse.Namespace) -> None:
    """Tables 1 and 2: what the partitions leave for subproblems and for the master's components."""
    print("| data | N | parts | partition | boundary | subproblem, mean | largest | master component, mean | largest |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for data in arguments.data:
        for records in arguments.sizes:
            given = domain(data, records, 10.0, arguments.folder)
            graph = mdp_graph(given.distances, given.epsilon, given.radius, 2)
            largest = max(graph.components, key=lambda part: len(part.nodes))
            order = np.argsort(graph.node, kind="stable")
            members = order[np.searchsorted(graph.node[order], largest.nodes)]
            program = Program(
                largest,
                given.expected[members],
                lambda: np.zeros(0),
                None if given.points is None else given.points[members],
            )
            for name in PARTITIONS:
                found = partition_named(name, 25)(program)
                inside = [len(part) for part in found.internal]
                master = [len(part) for part in found.master_components(program.edges)] or [0]
                print(
                    f"| {data} | {len(members)} | 25 | {name} | {int(found.boundary.sum())} | {np.mean(inside):.1f} | "
                    f"{max(inside)} | {np.mean(master):.1f} | {max(master)} |",
                    flush=True,
                )


def loss(arguments: argparse.Namespace) -> None:
    """Figure 7: the loss beside the exponential mechanism's."""
    print("| data | N | epsilon | loss | lower bound | exponential | less by | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for data in arguments.data:
        for records in arguments.sizes:
            for epsilon in arguments.epsilons:
                given = domain(data, records, epsilon, arguments.folder)
                options = Options(arguments.gap, arguments.limit, "keep", 2)
                plain = optimise(given, METHODS["exponential"], options).loss
                start = time.perf_counter()
                found = optimise(given, METHODS["columns"], options)
                took = time.perf_counter() - start
                print(
                    f"| {data} | {records} | {epsilon:g} | {found.loss:.6g} | {found.lower:.6g} | {plain:.6g} | "
                    f"{1 - found.loss / plain:.1%} | {took:.2f} |",
                    flush=True,
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=("solve", "sizes", "loss"), default="solve")
    parser.add_argument("--data", nargs="+", default=["grid", "gauss", "road", "words"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 200, 500, 1000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[10.0])
    parser.add_argument("--methods", nargs="+", default=["columns", "exponential"])
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--gap", type=float, default=1e-4)
    arguments = parser.parse_args()
    if not (arguments.folder / "rome_nodes.parquet").exists():
        arguments.data = [data for data in arguments.data if data in ("grid", "gauss")]
    optimise(domain("grid", 100, 1.0, arguments.folder), METHODS["columns"], Options(isolated="keep", threads=2))
    {"solve": solve, "sizes": sizes, "loss": loss}[arguments.part](arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
