"""A process that makes one charge and is killed at a step of it: `python -m tests.governance.killed_at DATABASE STEP`.

It prints `drawn` when noise is drawn, and `given` when the answer is stored.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import duckdb

from duckanon.governance.journal import Journal
from tests.governance.without_sql import CHARGE, answer, governance, seen

STEPS = ("write", "half", "sync", "commit", "draw", "store", "half of stored", "stored", "end")
# What of the journal's additions a step is about: that of the charge is the first.
_ADDITIONS = {"write": 1, "half": 1, "sync": 1, "commit": 1, "store": 2, "half of stored": 2, "stored": 2}


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killing(step: str) -> None:
    """Have the process end at a step of the journal's."""
    append, write, sync, count = Journal._append, os.write, os.fsync, [0]

    def appended(self: Journal, written: bytes) -> tuple[int, int]:
        count[0] += 1
        if count[0] == _ADDITIONS[step] and step in ("write", "store"):
            kill()
        found = append(self, written)
        if count[0] == _ADDITIONS[step] and step in ("commit", "stored"):
            kill()
        return found

    def half(descriptor: int, data: bytes) -> int:
        if count[0] == _ADDITIONS[step] and step.startswith("half"):
            write(descriptor, data[: len(data) // 2])
            kill()
        return write(descriptor, data)

    def synced(descriptor: int) -> None:
        if step == "sync" and count[0] == 1:
            kill()
        sync(descriptor)

    Journal._append = appended  # type: ignore[method-assign] # it ends the process
    os.write, os.fsync = half, synced  # type: ignore[assignment] # likewise


def main(database: str, step: str) -> None:
    with duckdb.connect(database) as con:
        made = governance(con)
        ((name,),) = con.execute("SELECT current_database()").fetchall()
        made.ledger.state(name)
        if step in _ADDITIONS:
            killing(step)
        made.stored_or_drawn("persons", seen("persons", database=name), {"number": 1}, CHARGE, drawing(step))
        print("given", flush=True)
        kill()


def drawing(step: str) -> Callable[[], Any]:
    def draw() -> Any:
        print("drawn", flush=True)
        if step == "draw":
            kill()
        return answer(1)

    return draw


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
