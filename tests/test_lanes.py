"""The lanes of tests leave out what exists, with a reason, and no test that the oldest versions can change."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests import lanes
from tests.amounts import not_with_oldest, seldom
from tests.lanes import NOT_OLDEST, NOT_QUICK, ROOT, reached, untouched_files


def test_what_is_left_out_exists_and_is_said_once() -> None:
    for left_out in (NOT_QUICK, NOT_OLDEST):
        assert [path for path in left_out if not (ROOT / path).exists()] == []
        inside = [(path, other) for path in left_out for other in left_out if path.startswith(f"{other}/")]
        assert inside == []


def test_each_mark_says_why() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    marks = [
        (path.name, mark)
        for path in files
        for mark in re.findall(r"mark\.(?:ci|long)\b.*", path.read_text(encoding="utf-8"))
    ]
    assert len(marks) > 5
    assert [each for each in marks if not re.match(r'mark\.(ci|long)\(("|_[A-Z]+\)|$)', each[1])] == []


@pytest.mark.ci("all test files are read for what they import")
def test_what_the_oldest_versions_need_not_try() -> None:
    """Files that reach DuckDB, numba, Arrow or sqlglot run there, but for those that are named with a reason."""
    untouched = untouched_files()
    assert "tests/test_accounting.py" in untouched
    assert "tests/engines/suppression/test_rules.py" in untouched
    for reaches, path in (
        ({"duckdb", "numba", "pyarrow", "sqlglot"}, "tests/guard/test_closed.py"),
        ({"numba"}, "tests/engines/kanon/methods/test_exact.py"),
        ({"sqlglot"}, "tests/rewrite/test_nodes.py"),
    ):
        assert reached(ROOT / path) >= reaches
    # A folder that reaches nothing needs no reason of its own.
    for path in NOT_OLDEST:
        files = [ROOT / path] if path.endswith(".py") else list((ROOT / path).rglob("test_*.py"))
        assert any(map(reached, files)), path


@pytest.mark.ci("pytest runs pytest")
def test_a_lane_is_run_with_its_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[tuple[list[str], str]] = []
    monkeypatch.setattr("os.execve", lambda _, command, names: run.append((command, names["HYPOTHESIS_PROFILE"])))
    lanes.main(["ci", "tests/guard"])
    assert run == [([sys.executable, "-m", "pytest", "-m", "ci and not long", "tests/guard"], "ci")]
    with pytest.raises(SystemExit, match=r"^There is no lane slow: say one of quick, ci, long, oldest, or nothing"):
        lanes.main(["slow"])


def test_the_oldest_versions_try_an_eighth_of_a_list_and_each_second_test_of_a_file() -> None:
    class Case:
        def __init__(self, nodeid: str) -> None:
            self.nodeid = nodeid

    sizes = {"one.py::test_a": 60, "one.py::test_b": 2, "one.py::test_c": 2, "two.py::test_d": 2}
    cases = [Case(f"{name}[{at}]") for name, size in sizes.items() for at in range(size)]
    left_out = {one.nodeid for one in not_with_oldest(cases)}  # type: ignore[arg-type]
    kept = [f"one.py::test_a[{at}]" for at in range(0, 60, 8)]
    kept += ["one.py::test_c[0]", "one.py::test_c[1]", "two.py::test_d[0]", "two.py::test_d[1]"]
    assert [one.nodeid for one in cases if one.nodeid not in left_out] == kept


def test_most_cases_of_a_long_list_run_before_a_release_only() -> None:
    class Case:
        def __init__(self, nodeid: str, *marks: str) -> None:
            self.nodeid, self.marks = nodeid, marks

        def get_closest_marker(self, name: str) -> str | None:
            return name if name in self.marks else None

    sizes = {"tests/guard/a.py::test_a": 6, "tests/guard/a.py::test_b": 2, "tests/rewrite/b.py::test_c": 9}
    sizes["tests/units/c.py::test_d"] = 9
    cases = [Case(f"{name}[{at}]") for name, size in sizes.items() for at in range(size)]
    sampled = (["ci"] if at % 2 else [] for at in range(9))
    cases += [Case(f"tests/guard/a.py::test_e[{at}]", *marks) for at, marks in enumerate(sampled)]
    left_out = seldom(cases)  # type: ignore[arg-type]
    of_six = [f"tests/guard/a.py::test_a[{at}]" for at in (1, 3, 5)]
    of_nine = [f"tests/units/c.py::test_d[{at}]" for at in (1, 2, 4, 5, 7, 8)]
    assert [case.nodeid for case in left_out] == of_six + of_nine


@pytest.mark.ci("pytest runs pytest")
def test_a_marked_test_is_left_to_ci() -> None:
    test = "tests/test_lanes.py::test_for_ci"
    for lane, outcome in (([], "1 deselected"), (["-m", "ci"], "1 passed")):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "0",
            "-q",
            "-o",
            "addopts=-m 'not ci and not long'",
            *lane,
            test,
        ]
        assert outcome in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.ci("a test of the mark itself")
def test_for_ci() -> None:
    pass
