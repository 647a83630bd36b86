"""Full disks: one sentence, nothing half written, nothing charged twice."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="no limits of a process on Windows")

from tests.amounts import sampled
from tests.governance import full_disk

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("way", sampled(full_disk.WAYS, every=4))
def test_a_full_disk(way: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.governance.full_disk", str(tmp_path), way]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
