"""Mixed load on a served database: `python -m tests.server.load --minutes 120 --kills 240`.

Clients ask new and stored questions, cancel, leave in the middle, send half frames and read slowly, while a steward
writes, the disk is full for a second now and then, backups are made, the log rotates, and the server is killed. In the
end every charge is there once, every answer that a client saw is given again, and no lock, thread or memory is left
behind. No test runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import duckdb
import psutil  # type: ignore[import-untyped, unused-ignore] # its types are a package of their own
import psycopg

import duckanon
from duckanon.governance.backups import back_up
from tests.server.served import add_users, password

T = TypeVar("T")
ROWS = "SELECT r AS a, r * 1.5::float8 AS b, 'x' || r AS c FROM range(300000) t(r)"


@dataclass
class Load:
    """What runs, and what was seen. answers: by statement, what a client got of it, the first time."""

    path: Path
    chance: random.Random
    port: int = 0
    process: Any = None
    stop: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)
    # Held while the server is killed and started, or gets a signal.
    life: Lock = field(default_factory=Lock)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    asked: int = 0

    def dsn(self, user: str) -> str:
        return f"host=127.0.0.1 port={self.port} user={user} password='{password(user)}' dbname={self.path.stem}"

    @contextmanager
    def login(self, user: str) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.dsn(user), autocommit=True, connect_timeout=10) as con:
            yield con

    def start(self) -> None:
        command = [sys.executable, "-m", "duckanon.integrations.cli", "serve", str(self.path), "--port", str(self.port)]
        log = self.path.with_suffix(".log")
        self.process = subprocess.Popen(
            [*command, "--log", str(log), "--statement-seconds", "20"], stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line.startswith("Serving"), line
        self.port = int(line.split(":")[1].split(",")[0])

    def rounds(self, of: Iterable[T]) -> Iterator[T]:
        """What a client asks in turn, until the load ends."""
        for one in of:
            if self.stop.is_set():
                return
            yield one

    def question(self) -> str:
        """A new question."""
        with self.lock:
            self.asked += 1
            return f"SELECT sick, count(*) AS n FROM persons WHERE place <> {self.asked} GROUP BY sick ORDER BY sick"

    def seen(self, text: str, rows: list[Any]) -> None:
        with self.lock:
            if self.answers.setdefault(text, rows) != rows:
                self.wrong.append(f"another answer to {text}")


def new_questions(load: Load) -> None:
    with load.login("ana") as con:
        for _ in load.rounds(range(5)):
            text = load.question()
            load.seen(text, con.execute(text).fetchall())
            load.counts["new questions"] += 1


def stored_questions(load: Load) -> None:
    with load.lock:
        known = list(load.answers)[-50:]
    with load.login("bob") as con:
        for text in load.rounds(known):
            load.seen(text, con.execute(text).fetchall())
            load.counts["stored questions"] += 1


def cancels(load: Load) -> None:
    with load.login("cyd") as con:
        Thread(target=cancelled, args=(con, load.chance.random() / 5)).start()
        with suppress(psycopg.errors.QueryCanceled):
            con.execute("SELECT count(*) FROM range(3000000) a(x), range(3000000) b(y) WHERE x * x + y = 3 * y - x")
        load.counts["cancels"] += 1


def cancelled(con: psycopg.Connection[Any], seconds: float) -> None:
    time.sleep(seconds)
    with suppress(psycopg.Error):
        con.cancel_safe()


def leaves(load: Load) -> None:
    with load.login("ana") as con:
        con.pgconn.send_query(load.question().encode())
        with socket.socket(fileno=os.dup(con.pgconn.socket)) as own:
            own.shutdown(socket.SHUT_RDWR)
        load.counts["left in the middle"] += 1


def half_frames(load: Load) -> None:
    with socket.create_connection(("127.0.0.1", load.port), 10) as con:
        con.sendall(load.chance.randbytes(load.chance.randrange(1, 40)))
        time.sleep(load.chance.random())
        load.counts["half frames"] += 1


def slow_reader(load: Load) -> None:
    with load.login("dan") as con, con.cursor().copy(f"COPY ({ROWS}) TO STDOUT") as copy:
        for number, _ in enumerate(copy):
            if number % 30_000 == 0:
                time.sleep(0.1)
        load.counts["slow reads"] += 1


def steward(load: Load) -> None:
    with load.login("stu") as con:
        con.execute("CREATE OR REPLACE TABLE things AS SELECT i, i * i AS j FROM range(20000) r(i)")
        con.execute("CREATE OR REPLACE VIEW few AS FROM things WHERE i < 5")
        con.execute("CHECKPOINT")
        load.counts["steward's changes"] += 1


def operations(load: Load) -> None:
    log, copy = load.path.with_suffix(".log"), load.path.with_name("backup.duckdb")
    log.replace(log.with_suffix(".log.1"))
    with load.life:
        load.process.send_signal(signal.SIGHUP)
    copy.unlink(missing_ok=True)
    back_up(load.path, copy)
    load.counts["backups"] += 1


def full_disk(load: Load) -> None:
    size = load.path.with_name(f"{load.path.name}.wal")
    most = size.stat().st_size if size.exists() else 0
    with load.life:
        process = load.process.pid
        _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (most + 2_000, hard))
        time.sleep(1)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (hard, hard))
    load.counts["full disks"] += 1
    time.sleep(5)


CLIENTS: tuple[Callable[[Load], None], ...] = (
    new_questions,
    new_questions,
    stored_questions,
    cancels,
    leaves,
    half_frames,
    slow_reader,
    steward,
    operations,
    full_disk,
)
# What a client may hear while the server is killed, its disk is full, or others change what it reads.
EXPECTED = (psycopg.Error, ConnectionError, TimeoutError, OSError, duckanon.errors.InvalidInput)


def goes_on(load: Load, client: Callable[[Load], None]) -> None:
    while not load.stop.is_set():
        try:
            client(load)
        except EXPECTED as error:
            load.counts[f"{client.__name__}: {type(error).__name__}"] += 1
            time.sleep(0.3)


def state(process: int) -> tuple[int, float]:
    """The threads of a process, and its memory in MiB."""
    found = psutil.Process(process)
    return found.num_threads(), found.memory_info().rss / (1 << 20)


def made(path: Path) -> None:
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i AS id, i % 997 AS place, i % 5 = 0 AS sick FROM range(5000) r(i)"
        ).fetchall()
        con.execute(
            "SELECT protect('persons', epsilon := 100000, privacy_unit := 'id', rows_per_unit := 1, per_query := 10, "
            "public := ['sick', 'place'], domains := {'sick': [true, false]})"
        ).fetchall()
    add_users(path)


def checked(load: Load) -> list[str]:
    """What is wrong in the end."""
    with duckanon.connect(load.path, role="steward") as con:
        lines = con.execute("SELECT number, action, what FROM privacy_ledger() ORDER BY number").fetchall()
        (budget,) = con.execute("SELECT charges, spent_exact FROM privacy_budget()").fetchall()
    wrong = list(load.wrong)
    charges = Counter(what for _, action, what in lines if action == "charge")
    if [number for number, _, _ in lines] != list(range(1, len(lines) + 1)):
        wrong.append("lines are missing")
    if budget[0] != charges.total() or budget[1] != str(10 * charges.total()):
        wrong.append(f"{budget} is not what {charges.total()} charges cost")
    # A charge that the journal alone had when the server was killed is paid for again by who asks again.
    twice = sum(count - 1 for count in charges.values())
    if twice > load.counts["kills"] + load.counts["full disks"]:
        wrong.append(f"{twice} questions were charged twice")
    with duckanon.connect(load.path, role="analyst") as analyst:
        for text, rows in load.answers.items():
            if analyst.execute(text).fetchall() != rows:
                wrong.append(f"another answer to {text} in the end")
    with duckdb.connect(str(load.path.with_name("backup.duckdb")), read_only=True) as con:
        con.execute("SELECT count(*) FROM duckanon.ledger").fetchall()
    print(
        f"{charges.total():,} charges, {twice} twice, {len(load.answers):,} answers seen, "
        f"{load.path.stat().st_size >> 20} MiB"
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server.load", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--kills", type=int, default=240)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        load = Load(Path(folder) / "people.duckdb", random.Random(asked.seed))
        made(load.path)
        load.start()
        threads = [Thread(target=goes_on, args=(load, client), daemon=True, name=client.__name__) for client in CLIENTS]
        for one in threads:
            one.start()
        until, between = time.monotonic() + 60 * asked.minutes, 60 * asked.minutes / (asked.kills + 2)
        while time.monotonic() < until - 2 * between:
            load.stop.wait(between * load.chance.uniform(0.5, 1.5))
            with load.life:
                load.process.kill()
                load.process.wait()
                load.start()
            load.counts["kills"] += 1
        # Its last life: as much load once more before the clients leave.
        time.sleep(min(between, 30))
        before = state(load.process.pid)
        time.sleep(max(until - time.monotonic(), 10))
        busy = state(load.process.pid)
        load.stop.set()
        for one in threads:
            one.join(60)
        load.wrong += [f"a client still waits: {one.name}" for one in threads if one.is_alive()]
        time.sleep(5)
        after = state(load.process.pid)
        load.process.terminate()
        if load.process.wait(60) != 0:
            load.wrong.append("it did not stop by itself")
        print(f"seed {asked.seed}; {json.dumps(dict(sorted(load.counts.items())))}")
        print(
            f"threads {before[0]} early, {busy[0]} in the end, {after[0]} after all left; memory {before[1]:.0f}, "
            f"{busy[1]:.0f} and {after[1]:.0f} MiB"
        )
        wrong = checked(load)
        for said in wrong[:20]:
            print(f"WRONG: {said}")
        return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
