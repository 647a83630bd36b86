"""No call writes anything to standard output or standard error, where the answer goes to.

Seen where a library of C++ writes, at the file descriptors, and in a process of its own: HiGHS prints its version once
in a process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.cli.commandline import VOTERS, process

ROOT = Path(__file__).parents[1]


def loud(out: Path, *twin: str) -> list[str]:
    """The calls that write, with that defect put in."""
    command = [sys.executable, "-m", "tests.loud_calls", str(out), *twin]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, capture_output=True, timeout=900, cwd=ROOT, env=environment)
    return out.read_text(encoding="utf-8").splitlines()


@pytest.mark.long("every example and method is called again; the commands below run HiGHS, whose output it was")
def test_no_call_of_a_sql_function_or_a_method_writes(tmp_path: Path) -> None:
    assert loud(tmp_path / "names") == []


@pytest.mark.long("that the test above hears a solver: a test of the test")
@pytest.mark.parametrize("twin", ["option", "constructor"])
def test_a_solver_that_writes_is_noticed(tmp_path: Path, twin: str) -> None:
    """With HiGHS's output left on; and made as it was, where the installed HiGHS prints when it is made so."""
    made = [sys.executable, "-c", "import highspy; highspy.Highs()"]
    if twin == "constructor" and not subprocess.run(made, check=True, capture_output=True).stdout:
        pytest.skip("this version of HiGHS prints nothing in its constructor")
    assert loud(tmp_path / "names", twin) == ["suppress"]


@pytest.mark.ci("each command is a process of its own")
def test_on_the_command_line_standard_output_holds_the_answer_alone(tmp_path: Path) -> None:
    with process("sql", "--format", "csv", "-c", f"FROM suppress('{VOTERS}', ['party'], ['tv_news'])") as done:
        written, _ = done.communicate(timeout=300)
    assert done.returncode == 0
    lines = written.splitlines()
    assert lines[0] == "party,tv_news,row_level,col_level,value,suppressed"
    assert len(lines) == 73
    with process("suppress", VOTERS, str(tmp_path / "x.csv"), "--rows", "party", "--cols", "tv_news") as quiet:
        assert quiet.communicate(timeout=300)[0] == ""
    assert quiet.returncode == 0
