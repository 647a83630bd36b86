"""`duckanon warm`: what it compiles is there for the next process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duckanon.engines.registry import families
from duckanon.integrations.warm import groups, warm


def test_every_method_of_every_family_is_called() -> None:
    called = " ".join(statement for statements in groups().values() for statement in statements)
    for family in ("kanon", "groups", "metric"):
        for name in families()[family]:
            assert f"'{name}'" in called


@pytest.mark.ci("it compiles kernels anew")
def test_what_it_compiles_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    told: list[str] = []
    warm(["cells"], told.append)
    assert told == ["cells"]
    program = (
        "import duckanon; con = duckanon.connect()\n"
        "con.execute('CREATE TABLE t AS SELECT i % 3 AS a, i % 2 AS b FROM range(9) r(i)')\n"
        "con.execute(\"FROM cell_bounds('t', ['a'], ['b'])\").fetchall()"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=os.environ)
    assert "compiling" not in said.stderr
