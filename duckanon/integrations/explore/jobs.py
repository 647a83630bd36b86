"""Work that the page asks for: one job a lane at a time, each cancellable, and nothing computed twice."""

from __future__ import annotations

import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from duckanon.integrations.error_sentences import is_told, sentence
from duckanon.integrations.explore.plain import plain

if TYPE_CHECKING:
    from duckanon.connection import Connection

Work = Callable[["Running"], object]

# Results that are kept: so many, and so many bytes in all.
_MOST_KEPT = 100
_MOST_BYTES = 64 << 20
_BUG = "Something went wrong inside duckanon explore; the terminal has the details."


class State(StrEnum):
    """Where a job stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Stopped(Exception):
    """The job was cancelled while an engine ran."""


class Running:
    """A lane's connection while a job has it: between statements a cancelled job stops."""

    def __init__(self, con: Connection, stop: Event) -> None:
        self.con, self._stop = con, stop

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """All rows of a statement. Raises duckdb.Error, and Stopped once the job is cancelled."""
        if self._stop.is_set():
            raise Stopped
        return list(self.con.execute(query).fetchall())

    def records(self, query: str) -> list[dict[str, Any]]:
        """All rows of a statement, each by column name."""
        rows = self.rows(query)
        columns = [value[0] for value in self.con.description or []]
        return [dict(zip(columns, row, strict=True)) for row in rows]


class Job:
    """One piece of work. result: as JSON. step, share: what runs and how far it is, 0 to 1, if known.

    is_final: it cannot be cancelled, because what it does is not undone.
    """

    def __init__(self, work: Work, *, is_final: bool = False) -> None:
        self.id = secrets.token_urlsafe(12)
        self.is_final = is_final
        self.work = work
        self.state = State.WAITING
        self.step, self.share = "", None  # type: str, float | None
        self.result, self.error = "null", ""
        self.began: float | None = None
        self.ended: float | None = None
        self.stop, self.done = Event(), Event()

    def end(self, state: State) -> None:
        """Note how it ended; the first ending counts."""
        if not self.done.is_set():
            self.state, self.ended = state, monotonic()
            self.done.set()

    def abandon(self) -> None:
        """Let it end unseen: an engine that tells no progress stops only when it is done."""
        self.end(State.CANCELLED)

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return 0.0 if self.began is None else round((self.ended or monotonic()) - self.began, 2)

    def told(self) -> str:
        """Where it stands, as JSON; with the result once it is done."""
        head = {"job": self.id, "state": self.state, "step": self.step, "share": self.share, "seconds": self.seconds}
        if self.error:
            head["error"] = self.error
        text = json.dumps(head, allow_nan=False)
        return f'{text[:-1]}, "result": {self.result}}}' if self.state is State.DONE else text


class Lane:
    """A thread with a connection of its own, which runs one job after another. opened: opens the connection.

    Engines tell their progress to the database that they run in, not to a job. So all work that tells any runs on
    one lane of each database.
    """

    def __init__(self, name: str, opened: Callable[[], Connection]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"explore-{name}")
        self._opened = opened
        self._con: Connection | None = None
        self._lock = Lock()
        self.job: Job | None = None

    def tell(self, step: str, share: float) -> None:
        """Note an engine's progress. An engine cannot be interrupted; once its job is cancelled this call stops it."""
        job = self.job
        if job is not None:
            if job.stop.is_set():
                raise Stopped
            job.step, job.share = step, share

    def submit(self, job: Job) -> None:
        self._pool.submit(self._run, job)

    def cancel(self, job: Job) -> None:
        """Stop the job, whether it runs or waits."""
        job.stop.set()
        with self._lock:
            if self.job is job and self._con is not None:
                self._con.interrupt()
            elif self.job is not job and not job.done.is_set():
                job.end(State.CANCELLED)

    def rest(self) -> None:
        """Close the connection; the next job opens another. For the lane's own thread."""
        with self._lock:
            if self._con is not None:
                self._con.close()
            self._con = None

    def held(self, until: Event) -> Event:
        """Let the lane wait, its connection closed, after the job that runs. Returns what is set once it waits."""
        waits = Event()

        def hold() -> None:
            self.rest()
            waits.set()
            until.wait()

        self._pool.submit(hold)
        return waits

    def close(self) -> None:
        self._pool.submit(self.rest)
        self._pool.shutdown(wait=True)

    def _run(self, job: Job) -> None:
        with self._lock:
            if job.done.is_set():
                return
            self.job, job.state, job.began = job, State.RUNNING, monotonic()
        try:
            con = self._connection()
            if job.stop.is_set():
                raise Stopped
            job.result = json.dumps(plain(job.work(Running(con, job.stop))), allow_nan=False, ensure_ascii=False)
            state = State.DONE
        except Exception as error:  # the page shows it
            state = State.CANCELLED if job.stop.is_set() else State.FAILED
            job.error = "" if job.stop.is_set() else _sentence(error)
        with self._lock:
            self.job = None
            job.end(state)

    def _connection(self) -> Connection:
        if self._con is None:
            con = self._opened()
            with self._lock:
                self._con = con
        return self._con


def _sentence(error: Exception) -> str:
    if is_told(error):
        return sentence(error)
    logging.getLogger("duckanon.explore").error("A question failed.", exc_info=error)
    return _BUG


class Jobs:
    """All jobs by their numbers, and those whose results are kept by their questions."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self._lanes = lanes
        self._jobs: OrderedDict[str, tuple[Job, Lane, Hashable | None]] = OrderedDict()
        self._asked: dict[Hashable, Job] = {}
        self._lock = Lock()

    def ask(self, lane: str, work: Work, key: Hashable | None = None, *, is_final: bool = False) -> Job:
        """The job that does the work: one that is under way or has done it, if the key is the same, or a new one."""
        with self._lock:
            found = self._asked.get(key) if key is not None else None
            if found is not None and not found.stop.is_set() and found.state is not State.FAILED:
                self._jobs.move_to_end(found.id)
                return found
            job = Job(work, is_final=is_final)
            self._jobs[job.id] = job, self._lanes[lane], key
            if key is not None:
                self._asked[key] = job
            self._forget()
        self._lanes[lane].submit(job)
        return job

    def find(self, number: object) -> Job | None:
        """The job of this number, if it is still known. Nothing starts."""
        jobs = self._jobs.get(number) if isinstance(number, str) else None
        return jobs[0] if jobs else None

    def cancel(self, number: object) -> Job | None:
        """Cancel the job of this number, unless it is final; None if it is not known."""
        jobs = self._jobs.get(number) if isinstance(number, str) else None
        if jobs is None:
            return None
        job, lane, _ = jobs
        if not job.is_final:
            lane.cancel(job)
        return job

    def stop_all(self) -> None:
        """Cancel whatever runs or waits."""
        for job, lane, _ in list(self._jobs.values()):
            if not (job.done.is_set() or job.is_final):
                lane.cancel(job)

    @property
    def is_busy(self) -> bool:
        return any(not job.done.is_set() for job, _, _ in list(self._jobs.values()))

    def _forget(self) -> None:
        """Let go of the oldest results, beyond what may be kept."""
        ended = [job for job in self._jobs.values() if job[0].done.is_set()]
        size = sum(len(job.result) for job, _, _ in ended)
        for job, _, key in ended:
            if len(self._jobs) <= _MOST_KEPT and size <= _MOST_BYTES:
                return
            size -= len(job.result)
            del self._jobs[job.id]
            if key is not None and self._asked.get(key) is job:
                del self._asked[key]
