"""Four lanes of tests, and a second end of versions: `python -m tests.lanes` lists what each leaves out, and why.

`python -m pytest`, the README's command, runs all tests but those that are marked `ci` or `long`. `python -m
tests.lanes LANE` runs another lane: `quick` after each change; `ci` the tests that are marked so, with more examples
in random searches; `long` those that run before a version is released; `oldest` what the oldest supported versions
can change. Further arguments go to pytest.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What the oldest and the newest versions differ in, as far as duckanon's own code goes.
LIBRARIES = frozenset({"duckdb", "numba", "pyarrow", "sqlglot"})

_LONG = "searches that take longer than the rest of the engine's tests"
_MANY_CALLS = "many calls over databases of their own; the room's other files stay"
_DATABASES = "most tests open a database of their own"
_SHOWN = "what a program shows; what it asks of duckanon is tried without it"
_QUESTIONS = "the questions of tests/noninterference/test_noninterference.py are asked there"
_ENGINES = "numpy decides its results; tests/functions calls the engine, whose kernels numba compiles there"
_SEARCHES = "many searches of the engine, which tests/functions/test_k_anonymize.py calls there"
# By folder or file: why `quick` does without it.
NOT_QUICK: Mapping[str, str] = {
    "duckanon": "examples in docstrings, which take reading all modules",
    "tests/answers": "each statement is answered and then asked of DuckDB twice",
    "tests/engines/cells": _LONG,
    "tests/engines/groups/test_auto.py": _LONG,
    "tests/engines/groups/test_confidence_intervals.py": _LONG,
    "tests/engines/groups/test_intervals.py": _LONG,
    "tests/engines/groups/test_mechanisms.py": _LONG,
    "tests/engines/groups/test_neighbours.py": "all neighbours of a table are compared",
    "tests/engines/groups/test_published.py": _LONG,
    "tests/engines/kanon/certificate": _LONG,
    "tests/engines/kanon/fidelity": _LONG,
    "tests/engines/kanon/methods": _LONG,
    "tests/engines/kanon/test_blocks.py": _LONG,
    "tests/engines/kanon/test_bounds.py": _LONG,
    "tests/engines/kanon/test_certificate_check.py": _LONG,
    "tests/engines/kanon/test_coarsening.py": _LONG,
    "tests/engines/kanon/test_full_domain.py": _LONG,
    "tests/engines/kanon/test_key_subsets.py": _LONG,
    "tests/engines/kanon/test_private_classes.py": _LONG,
    "tests/engines/kanon/test_published.py": _LONG,
    "tests/engines/kanon/test_ties.py": _LONG,
    "tests/engines/metric": _LONG,
    "tests/engines/suppression": _LONG,
    "tests/engines/tables": _LONG,
    "tests/engines/test_compiled.py": "it compiles kernels anew",
    "tests/functions/test_bad_input.py": _MANY_CALLS,
    "tests/functions/test_generalisation.py": _MANY_CALLS,
    "tests/functions/test_k_certificate.py": _MANY_CALLS,
    "tests/functions/test_k_conditions.py": _MANY_CALLS,
    "tests/functions/test_k_units.py": _MANY_CALLS,
    "tests/functions/test_k_utility.py": _MANY_CALLS,
    "tests/functions/test_k_within.py": _MANY_CALLS,
    "tests/functions/test_methods.py": _MANY_CALLS,
    "tests/functions/test_publication_audit.py": _MANY_CALLS,
    "tests/functions/test_publication_unions.py": _MANY_CALLS,
    "tests/functions/test_publish.py": _DATABASES,
    "tests/functions/test_record_risk.py": _MANY_CALLS,
    "tests/functions/test_release_audit.py": _MANY_CALLS,
    "tests/functions/test_suppress.py": _MANY_CALLS,
    "tests/functions/test_suppress_cells.py": _MANY_CALLS,
    "tests/functions/test_suppress_linked.py": _MANY_CALLS,
    "tests/functions/test_table_bounds.py": _MANY_CALLS,
    "tests/functions/test_users_names.py": _MANY_CALLS,
    "tests/functions/test_worker_threads.py": "threads that wait",
    "tests/governance": _DATABASES,
    "tests/guard": _DATABASES,
    "tests/integrations": "the programs around duckanon, which are started",
    "tests/noninterference": "two databases with each question's twin",
    "tests/releases/test_paid.py": _DATABASES,
    "tests/units/test_twins.py": "what mistakes the searches see",
    "tests/releases/test_size_mechanisms.py": "all neighbours of tables are compared",
    "tests/rewrite/test_closed_list.py": "each function of the list with the extreme values of each type",
    "tests/server": "servers, and clients that speak with them",
    "tests/test_docs.py": "every example of the pages is run",
    "tests/test_examples.py": "the examples' scripts are run",
    "tests/test_lanes.py": "pytest runs pytest",
    "tests/test_packaging.py": "a wheel is built, and every module imported first",
    "tests/test_silence.py": "processes are started",
    "tests/test_site.py": "Sphinx writes the whole site",
    "tests/test_walks.py": "every command of a page is a process",
}
# By folder or file that reaches some of LIBRARIES: why it need not run with their oldest versions.
NOT_OLDEST: Mapping[str, str] = {
    "tests/engines/cells": _ENGINES,
    "tests/engines/kanon": _ENGINES,
    "tests/engines/marginals": _ENGINES,
    "tests/engines/metric": _ENGINES,
    "tests/functions/test_generalisation.py": _SEARCHES,
    "tests/functions/test_k_certificate.py": _SEARCHES,
    "tests/functions/test_k_conditions.py": _SEARCHES,
    "tests/functions/test_k_units.py": _SEARCHES,
    "tests/functions/test_k_utility.py": _SEARCHES,
    "tests/functions/test_k_within.py": _SEARCHES,
    "tests/functions/test_suppress_cells.py": _SEARCHES,
    "tests/engines/groups": "of numba only the sampler, which tests/engines/test_randomness.py tries",
    "tests/integrations/cli/test_commands.py": _SHOWN,
    "tests/integrations/cli/test_console.py": _SHOWN,
    "tests/integrations/cli/test_k_anonymize.py": _SHOWN,
    "tests/integrations/cli/test_office_files.py": "what pandas, openpyxl and pyreadstat write",
    "tests/integrations/explore": _SHOWN,
    "tests/integrations/plots": _SHOWN,
    "tests/integrations/dbt/test_exposures.py": "tests/releases/test_preparations.py prepares the tables there",
    "tests/integrations/record": _SHOWN,
    "tests/integrations/report": _SHOWN,
    "tests/integrations/test_harlequin.py": _SHOWN,
    "tests/integrations/test_jupyter.py": _SHOWN,
    "tests/integrations/cli/test_discharges.py": _SHOWN,
    "tests/integrations/cli/test_text_files.py": _SHOWN,
    "tests/integrations/cli/test_risk_commands.py": _SHOWN,
    "tests/integrations/spark": "Spark's own session, on the newest versions",
    "tests/integrations/test_team_of_one.py": "tests/integrations/dbt builds a project with dbt there",
    "tests/integrations/test_warm.py": "CI runs `duckanon warm` there",
    "tests/noninterference/test_grown.py": _QUESTIONS,
    "tests/noninterference/test_found_keys.py": _QUESTIONS,
    "tests/test_docs.py": "the examples call what tests/functions tries there",
    "tests/test_names.py": "pages name the newest DuckDB's functions; 1.4 lists no window functions",
    "tests/test_walks.py": "the commands of the pages, which tests/integrations/cli tries there",
    "tests/server/clients": "the clients speak with a server, whose own tests run there",
    "tests/server/test_concurrency.py": "threads and kills, which no library's version decides",
}


_UNMARKED = "not ci and not long"


@dataclass(frozen=True)
class Lane:
    """What pytest is run with. profile: Hypothesis's, of tests/conftest.py; marks: as for pytest's option -m."""

    profile: str
    marks: str
    left_out: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        return ["-m", self.marks, *(f"--ignore={path}" for path in self.left_out)]


def lanes() -> dict[str, Lane]:
    untouched = {path: "it reaches none of " + ", ".join(sorted(LIBRARIES)) for path in untouched_files()}
    return {
        "quick": Lane("quick", _UNMARKED, NOT_QUICK),
        "ci": Lane("ci", "ci and not long"),
        "long": Lane("ci", "long"),
        "oldest": Lane("oldest", _UNMARKED, {**NOT_OLDEST, **untouched}),
    }


# --- which libraries a test reaches -----------------------------------------------------------------------------------


def untouched_files() -> list[str]:
    """The test files whose imports, and theirs, lead to none of LIBRARIES."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in files if not reached(path)]


def reached(path: Path) -> set[str]:
    """The libraries to which the imports of a file lead, also those inside of functions."""
    rest, seen = [path], {path}
    libraries: set[str] = set()
    while rest:
        found, own = _imported(rest.pop())
        libraries |= found
        rest.extend(own - seen)
        seen |= own
    return libraries


@cache
def _imported(path: Path) -> tuple[frozenset[str], frozenset[Path]]:
    """Which of LIBRARIES a file imports, and which files of the repository."""
    names: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = (f"{node.module}.{alias.name}" for alias in node.names)
            names.update(name if _file(name) else node.module for name in inside)
    ours = {name for name in names if name.split(".")[0] in ("duckanon", "tests")}
    files = (_file(name) for name in ours)
    libraries = {name.split(".")[0] for name in names - ours} & LIBRARIES
    return frozenset(libraries), frozenset(one for one in files if one is not None)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a node. No expression holds one, and there are many more of them."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, name, ())
        for one in inside if isinstance(inside, list) else ():
            yield one
            yield from _statements(one)


@cache
def _file(name: str) -> Path | None:
    place = ROOT.joinpath(*name.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


# --- what is left out -------------------------------------------------------------------------------------------------


class _Collected:
    """A pytest plugin that keeps what was collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


def marked() -> dict[str, dict[tuple[str, str], int]]:
    """How many tests are marked `ci`, and how many `long`, by test function and reason. `long` counts before `ci`."""
    collected = _Collected()
    with redirect_stdout(StringIO()):
        options = ["--collect-only", "-q", "-n", "0", "-m", "ci or long"]
        failed = pytest.main([*options, str(ROOT / "tests")], [collected])
    if failed:
        raise SystemExit("The tests cannot be collected: run python -m pytest --collect-only.")
    counts: dict[str, dict[tuple[str, str], int]] = {"ci": {}, "long": {}}
    for item in collected.items:
        mark = item.get_closest_marker("long") or item.get_closest_marker("ci")
        key = item.nodeid.split("[")[0], mark.args[0]  # type: ignore[union-attr]
        of_lane = counts[mark.name]  # type: ignore[union-attr]
        of_lane[key] = of_lane.get(key, 0) + 1
    return counts


def listing(left_out: Mapping[str, Mapping[tuple[str, str], int]]) -> Iterator[str]:
    all_lanes = lanes()
    numbers = {name: sum(counts.values()) for name, counts in left_out.items()}
    yield f"The README's command leaves out {sum(numbers.values())} tests. CI adds {numbers['ci']}:"
    yield from _by_reason({f"{test} ({count})": reason for (test, reason), count in left_out["ci"].items()})
    yield f"\n`long`, before a version is released, adds {numbers['long']}:"
    yield from _by_reason({f"{test} ({count})": reason for (test, reason), count in left_out["long"].items()})
    yield "\n`quick` leaves out these too, tries fewer examples, and leaves out:"
    yield from _by_reason(all_lanes["quick"].left_out)
    few = "as few examples as `quick`, parts of long lists and each second test of a file"
    yield f"\n`oldest` leaves out what is marked, tries {few}, and leaves out:"
    yield from _by_reason(all_lanes["oldest"].left_out)


def _by_reason(left_out: Mapping[str, str]) -> Iterator[str]:
    for reason in dict.fromkeys(left_out.values()):
        yield f"  {reason}:"
        yield from (f"    {path}" for path, why in left_out.items() if why == reason)


def main(arguments: list[str]) -> None:
    if not arguments:
        print("\n".join(listing(marked())))
        return
    name, *rest = arguments
    if name not in lanes():
        raise SystemExit(f"There is no lane {name}: say one of {', '.join(lanes())}, or nothing for the list.")
    lane = lanes()[name]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": lane.profile}
    # Examples in docstrings of duckanon/ are the README's command's.
    paths = [] if any(Path(each.split("::")[0]).exists() for each in rest) else ["tests"]
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *lane.arguments(), *paths, *rest], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
