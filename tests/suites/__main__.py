"""What an analyst gets of four public suites: python -m tests.suites [--suite NAME] [--query NUMBER].

Each query that reads a protected table is asked as it is written. It is answered, or refused with the sentence shown.
An answer is drawn without noise, and compared with DuckDB's own over the records that have an owner, to the step that
values are rounded to; rows of zeros, which DuckDB omits, are equal to none. `ms` is the CPU time of deciding, the
median of three. The policies are in fixtures/suites; `python -m tests.suites.data` makes the data.

--draw times the answers with noise beside DuckDB's exact queries on the same tables, those of TPC-H at scale factor 1.
--json prints one object a query.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.suites import database, drawing, policies
from tests.suites.asking import Outcome, ask
from tests.suites.data import DATA
from tests.suites.refusals import by_reason

SUITES = ("tpch", "tpcds", "clickbench", "ssb", "omop")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--data", type=Path, default=DATA, help="the folder that tests.suites.data made")
    parser.add_argument("--suite", choices=SUITES, action="append", help="leave out for all")
    parser.add_argument("--query", type=int, action="append", help="its number; leave out for all")
    parser.add_argument("--scale", help="the scale of the data, as in its folder's name")
    parser.add_argument("--json", action="store_true", help="one object a query, in place of tables")
    parser.add_argument("--draw", action="store_true", help="time and memory of the draws")
    chosen = parser.parse_args(arguments)
    if not chosen.data.exists():
        sys.exit(f"{chosen.data} is not there: python -m tests.suites.data makes it.")
    suites = [policies.read(name) for name in chosen.suite or SUITES]
    with TemporaryDirectory() as folder:
        outcomes: list[Outcome | drawing.Drawn] = []
        for suite in suites:
            scale = chosen.scale or (suite.draw_scale if chosen.draw else suite.scale)
            if not (chosen.data / f"{suite.name}-{scale}").exists():
                maker = "omop" if suite.name == "omop" else "data"
                sys.exit(f"The data of {suite.name} are not there: python -m tests.suites.{maker} makes them.")
            run = drawing.draws if chosen.draw else ask
            path = Path(folder) / f"{suite.name}.duckdb"
            protected, said = database.make(path, chosen.data, suite, scale)
            queries = database.queries(chosen.data, suite, chosen.query)
            header = [drawing.HEADER] if chosen.draw else []
            for line in [] if chosen.json else [f"## {suite.name}, scale {scale}", "", *said, "", *header]:
                print(line)
            for outcome in run(path, chosen.data, protected, scale, queries):
                print(json.dumps(asdict(outcome)) if chosen.json else outcome.line, flush=True)
                outcomes.append(outcome)
            if not chosen.json:
                print()
    if not chosen.json and not chosen.draw:
        summary(suites, [one for one in outcomes if isinstance(one, Outcome)])


def summary(suites: Sequence[policies.Suite], outcomes: Sequence[Outcome]) -> None:
    print("| suite | queries | answered | equal | equal, with rows | refused | deciding, median ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for suite in suites:
        own = [one for one in outcomes if one.suite == suite.name]
        answered, equal = [one for one in own if one.answered], [one for one in own if one.equal]
        print(
            f"| {suite.name} | {len(own)} | {len(answered)} | {len(equal)} | {sum(one.rows > 0 for one in equal)} "
            f"| {len(own) - len(answered)} | {sorted(one.ms for one in own)[len(own) // 2]:.0f} |"
        )
    refused = [((one.suite, one.query), one.why) for one in outcomes if not one.answered]
    print("\n| refused because | queries | which |\n|---|---:|---|")
    for reason, asked in by_reason(refused, [table for suite in suites for table in suite.protected]):
        listed = {name: [str(number) for of, number in asked if of == name] for name, _ in asked}
        which = "; ".join(f"{name} {', '.join(numbers)}" for name, numbers in listed.items())
        print(f"| {reason} | {len(asked)} | {which} |")


if __name__ == "__main__":
    main(sys.argv[1:])
