"""Charges of two users in processes that are killed one after the other, at random moments.

python -m tests.governance.killer DATABASE JOURNAL (few | many) KILLS SEED

Each process is forked from this one, which has imported all it needs and opens no database: so a kill takes less than
a second, where a process of its own would take some for Python's start.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.governance.charger import main as charge

# More batches than any budget is enough for.
CHARGES = 10_000
# Seconds in which some thirty charges are made, after some tenths in which 32 threads open their connections.
LONGEST = 0.8


def killed(database: str, journal: str, way: str, alive: float) -> bool:
    """Whether a process that charges was killed, `alive` seconds after it began to."""
    starts = _starts(journal)
    child = os.fork()
    if child == 0:
        try:
            charge(database, journal, CHARGES, way)
        finally:
            os._exit(1)
    while _starts(journal) == starts and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.005)
    time.sleep(alive)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _starts(journal: str) -> int:
    path = Path(journal)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return sum(line.startswith("started ") for line in lines)


def main(database: str, journal: str, way: str, kills: int, seed: int) -> int:
    moments = random.Random(seed)
    for _ in range(kills):
        if not killed(database, journal, way, moments.uniform(0, LONGEST)):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
