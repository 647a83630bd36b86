"""Time and memory of drawing a suite's answers, beside DuckDB's exact queries on the same tables.

Both run on one thread: the processor's seconds of more threads depend on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import duckanon
from tests.suites.policies import Suite

EXACT_RUNS = 3
HEADER = (
    "| query | exact, s | drawn, s | goal, s | exact, CPU s | drawn, CPU s | goal, CPU s | exact, peak MiB "
    "| drawn, peak MiB |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Use:
    """Seconds by the clock and of the processor, and by how much the process grew at most, in MiB."""

    seconds: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Drawn:
    """exact: DuckDB's own query, the median of its runs. drawn: the answer, from the text to its rows."""

    suite: str
    query: int
    exact: Use
    drawn: Use

    @property
    def line(self) -> str:
        exact, drawn = self.exact, self.drawn
        pairs = (exact.seconds, drawn.seconds), (exact.cpu, drawn.cpu)
        times = " | ".join(f"{mine:.3f} | {ours:.3f} | {_goal(mine):.3f}" for mine, ours in pairs)
        return f"| {self.query} | {times} | {exact.peak:.0f} | {drawn.peak:.0f} |"


def _goal(exact: float) -> float:
    """Four times the exact query, and a fifth of a second."""
    return 4 * exact + 0.2


def draws(path: Path, _data: Path, suite: Suite, _scale: str, queries: Mapping[int, str]) -> Iterator[Drawn]:
    """The queries whose answers are charged: not those of stored answers. path: the guarded database."""
    with duckanon.connect(path, role="analyst", config={"threads": 1}) as con, con._con.cursor() as plain:
        for number, sql in queries.items():
            decision = con.explain(sql)
            if decision.query is None or all(step.epsilon is None or step.drawn for step in decision.steps):
                continue
            runs = [_used(plain, sql) for _ in range(EXACT_RUNS)]
            exact = Use(*(median(getattr(one, name) for one in runs) for name in ("seconds", "cpu", "peak")))
            yield Drawn(suite.name, number, exact, _used(con, sql))


def _used(con: Any, sql: str) -> Use:
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # The highest so far is forgotten.
    wall, cpu = perf_counter(), process_time()
    con.execute(sql).fetchall()
    return Use(perf_counter() - wall, process_time() - cpu, _status("VmHWM") - before)


def _status(name: str) -> float:
    """A size of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))
