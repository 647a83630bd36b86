"""SIGKILL at random moments: no charge is lost, none is doubled, and the next start works."""

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import duckanon
from tests.amounts import LONG
from tests.governance.without_sql import governance

ROOT = Path(__file__).parents[2]


def numbers(journal: Path, word: str) -> list[int]:
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]


def run(database: Path, journal: Path, charges: int, way: str, alive: float | None) -> int:
    """A process that charges, killed after `alive` seconds of charging. Its exit status."""
    starts = len(numbers(journal, "started"))
    arguments = [str(database), str(journal), str(charges), way]
    with subprocess.Popen([sys.executable, "-m", "tests.governance.charger", *arguments], cwd=ROOT) as child:
        while alive is not None and child.poll() is None and len(numbers(journal, "started")) == starts:
            time.sleep(0.005)
        if alive is not None:
            time.sleep(alive)
            child.send_signal(signal.SIGKILL)
        return child.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize(
    ("way", "charges", "kills"),
    [("calls", 1000, 60), ("sql", 300, 30)] if LONG else [("calls", 80, 3), ("sql", 12, 1)],
)
def test_kill(tmp_path: Path, way: str, charges: int, kills: int) -> None:
    database, journal = tmp_path / "ledger.duckdb", tmp_path / "journal"
    moments = random.Random(0)
    killed = 0
    for _ in range(kills):
        killed += run(database, journal, charges, way, moments.uniform(0, 0.3)) == -signal.SIGKILL
    assert killed >= kills // 2
    assert run(database, journal, charges, way, None) == 0

    with duckdb.connect(str(database)) as con:
        duckanon.register(con)
        found = con.execute("SELECT number, what, epsilon_exact FROM privacy_ledger() ORDER BY number").fetchall()
        stored = con.execute("SELECT number FROM ledger.duckanon.releases").fetchall()
    # Each call says its number.
    charged = Counter(int(re.findall(r"call (\d+)|max_size := (\d+)", what)[0][way == "sql"]) for _, what, _ in found)
    if way == "sql":
        charged = Counter({number - 1: count for number, count in charged.items()})
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    assert {epsilon for _, _, epsilon in found} == {"0.1"}
    assert max(charged.values()) == 1
    assert set(numbers(journal, "done")) <= set(numbers(journal, "noise")) <= set(charged)
    assert set(charged) <= set(numbers(journal, "try")) == set(range(1, charges + 1))
    assert {number for (number,) in stored} <= {number for number, _, _ in found}
    assert len(stored) >= len(numbers(journal, "done"))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_policy_has_its_domains_or_is_not_there(tmp_path: Path) -> None:
    database, journal = tmp_path / "ledger.duckdb", tmp_path / "journal"
    moments = random.Random(1)
    for _ in range(40 if LONG else 3):
        run(database, journal, 10_000, "decisions", moments.uniform(0, 0.3))
    assert run(database, journal, 3 + max(numbers(journal, "try"), default=0), "decisions", None) == 0
    with duckdb.connect(str(database)) as con:
        state = governance(con).ledger.state("ledger")
        lines = [line for line in governance(con).ledger.lines("ledger") if line.action == "protect"]
        assert [line.number for line in lines] == list(range(1, 2 * len(lines), 2))
        assert len(lines) >= len(numbers(journal, "done"))
        copies = con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, 'domain_') ORDER BY ALL"
        ).fetchall()
        assert copies == sorted((f"domain_{line.number}_{at}",) for line in lines for at in (0, 1))
        for line in lines:
            (number,) = line.details["policy"]["domains"]["b"]
            for at, values in enumerate([[(-number,), (number,)], [(number,)]]):
                assert con.execute(f"FROM duckanon.domain_{line.number}_{at} ORDER BY ALL").fetchall() == values
        assert set(state.tables) == {("main", "persons")}
