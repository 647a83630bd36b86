"""A process that prepares tables and is killed at a step: python -m tests.governance.preparer DATABASE STEP.

Each step is a place in the work where the process ends itself by SIGKILL; `none` goes to the end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import duckanon
from duckanon.governance import answers
from duckanon.releases.mechanisms import marginals

TABLE = "CREATE TABLE IF NOT EXISTS persons AS SELECT i AS pid, ['GA', 'NY'][1 + i % 2] AS state FROM range(200) r(i)"
POLICY = (
    "SELECT protect('persons', privacy_unit := 'pid', rows_per_unit := 1, epsilon := 4, delta := 1e-9, "
    "per_query := 0.01, public := ['state'], domains := {'state': ['GA', 'NY']})"
)
PREPARE = "FROM prepare('persons', by := [['state']], epsilon := 0.5, buy := true)"


def killed(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("It is not alive.")


def before(work: Callable[..., Any]) -> Callable[..., Any]:  # as `after`
    return killed


def after(work: Callable[..., Any]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        work(*given, **named)
        killed()

    return run


def within(work: Callable[..., Any]) -> Callable[..., Any]:  # as `after`
    """In place of what makes the last part of a transaction."""
    return lambda *_: killed


# What of the work is replaced, by what, and whether the charge is in the ledger by then.
STEPS: dict[str, tuple[Any, str, Callable[..., Any], bool]] = {
    "before the charge": (answers.Answers, "_charge", before, False),
    "within the charge": (answers, "not_stored", within, False),
    "charged": (answers.Answers, "_charge", after, True),
    "before records are read": (marginals, "marginals", before, True),
    "records are read": (marginals, "marginals", after, True),
    "noise is drawn": (marginals, "discrete_gaussian", after, True),
    "before it is stored": (answers.Answers, "_store", before, True),
    "stored": (answers.Answers, "_store", after, True),
}


def main(database: str, step: str) -> None:
    con = duckanon.connect(database, role="steward")
    con.execute(TABLE).fetchall()
    if not con.execute("SELECT count(*) FROM policies()").fetchall()[0][0]:
        con.execute(POLICY).fetchall()
    if step in STEPS:
        owner, name, how, _ = STEPS[step]
        setattr(owner, name, how(getattr(owner, name)))
    con.execute(PREPARE).fetchall()
    con.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
