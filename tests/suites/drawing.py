"""Time and memory of drawing a suite's answers, beside DuckDB's exact queries on the same tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import duckanon
from tests.suites.policies import Suite

EXACT_RUNS = 3


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
        ratio, cpu = self.drawn.seconds / self.exact.seconds, self.drawn.cpu / self.exact.cpu
        return (
            f"{self.query:3} exact {self.exact.seconds:7.3f} s {self.exact.peak:6.0f} MiB, drawn {self.drawn.seconds:7.3f} s "
            f"{self.drawn.peak:6.0f} MiB, ratio {ratio:5.1f} (CPU {cpu:5.1f}, without 0.2 s "
            f"{max(self.drawn.seconds - 0.2, 0) / self.exact.seconds:5.1f})"
        )


def draws(path: Path, _data: Path, suite: Suite, _scale: str, queries: Mapping[int, str]) -> Iterator[Drawn]:
    """The answered queries alone. path: the guarded database, which is charged."""
    with duckanon.connect(path, role="analyst") as con, con._con.cursor() as plain:
        for number, sql in queries.items():
            if con.explain(sql).query is None:
                continue
            runs = [_used(lambda sql=sql: plain.execute(sql).fetchall()) for _ in range(EXACT_RUNS)]
            exact = Use(*(median(getattr(one, name) for one in runs) for name in ("seconds", "cpu", "peak")))
            yield Drawn(suite.name, number, exact, _used(lambda sql=sql: con.execute(sql).fetchall()))


def _used(run: Callable[[], Any]) -> Use:
    before = _resident()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # The highest so far is forgotten.
    wall, cpu = perf_counter(), process_time()
    run()
    return Use(perf_counter() - wall, process_time() - cpu, _status("VmHWM") - before)


def _resident() -> float:
    return _status("VmRSS")


def _status(name: str) -> float:
    """A size of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))
