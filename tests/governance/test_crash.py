"""SIGKILL at random moments: no charge is lost, none is doubled, and the next start works."""

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.accounting import written
from duckanon.renyi import holds
from tests.amounts import LONG, sampled
from tests.governance.charger import KNOWN, NOISE
from tests.governance.preparer import STEPS
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
    # A call that was killed between the journal's entry and the commit is charged again, until it is done.
    assert sum(charged.values()) - len(charged) <= killed
    said = journal.read_text(encoding="utf-8").splitlines()
    assert not any(_is_drawn_after(said, "done", one) for one in numbers(journal, "done"))
    assert set(numbers(journal, "done")) <= set(numbers(journal, "noise")) <= set(charged)
    assert set(charged) <= set(numbers(journal, "try")) == set(range(1, charges + 1))
    assert {number for (number,) in stored} <= {number for number, _, _ in found}
    assert len(stored) >= len(numbers(journal, "done"))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize(
    ("way", "kills", "seed"),
    [
        ("few", 3, 2),
        # HYPOTHESIS_PROFILE=long: 1,000 kills, a hundred over each of ten databases, in some ten minutes.
        *(
            pytest.param("many", 100 if LONG else 5, seed, marks=pytest.mark.ci("many processes are killed"))
            for seed in range(10 if LONG else 1)
        ),
    ],
)
def test_two_users_whose_processes_are_killed_share_one_promise(
    tmp_path: Path, way: str, kills: int, seed: int
) -> None:
    """32 threads of two users charge a population with a delta, by both kinds of noise, until nothing is left."""
    database, journal = tmp_path / "ledger.duckdb", tmp_path / "journal"
    arguments = [str(database), str(journal), way, str(kills), str(seed)]
    killer = [sys.executable, "-m", "tests.governance.killer", *arguments]
    assert subprocess.run(killer, cwd=ROOT, check=False).returncode == 0
    assert len(numbers(journal, "started")) == kills
    # The last process takes what is left: nobody is refused before it is less than one more charge.
    first = 1 + max(numbers(journal, "done"), default=0)
    assert run(database, journal, first + (10 if way == "few" else 90), way, None) == 0

    with duckdb.connect(str(database)) as con:
        made = governance(con)
        lines = [line for line in made.ledger.lines("ledger") if line.action == "charge"]
        (budget,) = made.budgets()
        stored = con.execute("SELECT number FROM duckanon.releases").fetchall()
    charged = Counter(int(re.findall(r"call (\d+)", line.what)[0]) for line in lines)
    # A process that ends between the journal's entry of an answer and its commit may have given it, so it is charged
    # again: by a kill, and never after it was given.
    again = {number: times - 1 for number, times in charged.items() if times > 1}
    print(f"{len(lines)} charges, {kills} kills, {sum(again.values())} charged again")
    assert sum(again.values()) <= kills
    said = journal.read_text(encoding="utf-8").splitlines()
    assert not any(_is_drawn_after(said, "given", one) for one in numbers(journal, "given"))
    assert set(numbers(journal, "given")) <= set(numbers(journal, "noise")) <= set(charged)
    assert {number for (number,) in stored} <= {line.number for line in lines}
    assert {line.who for line in lines} == {"ann", "bob"}
    pure, rho = NOISE[way]
    prices = {f"pure, epsilon {written(pure)}": KNOWN.of_pure(pure), f"gaussian, rho {written(rho)}": KNOWN.of_rho(rho)}
    assert {line.noise for line in lines} == set(prices)
    assert all(line.charge == prices[line.noise or ""] for line in lines)
    spent = sum((line.charge for line in lines), Fraction(0))
    assert written(spent) == budget["spent_exact"]
    assert KNOWN.capacity - max(prices.values()) < spent <= KNOWN.capacity
    assert holds(KNOWN)
    assert numbers(journal, "refused")


def _is_drawn_after(said: list[str], word: str, number: int) -> bool:
    """Whether noise was drawn for a call after its answer was given, which the word says."""
    return f"noise {number}" in said[said.index(f"{word} {number}") :]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("step", sampled(STEPS))
def test_what_is_prepared_survives_a_kill_at_each_step(tmp_path: Path, step: str) -> None:
    """It is charged once or not at all; and after a charge the same call makes it, for free."""
    database = tmp_path / "ledger.duckdb"

    def prepare(until: str) -> int:
        arguments = [sys.executable, "-m", "tests.governance.preparer", str(database), until]
        return subprocess.run(arguments, cwd=ROOT, check=False).returncode

    def told() -> tuple[list[str], list[int]]:
        with duckanon.connect(database, role="steward") as con:
            lines = con.execute("SELECT epsilon_exact FROM privacy_ledger() WHERE action = 'charge'").fetchall()
            tables = con.execute("SELECT cells FROM prepared()").fetchall()
        return [price for (price,) in lines], [cells for (cells,) in tables]

    assert prepare(step) == -signal.SIGKILL
    charged, made = told()
    assert len(charged) == STEPS[step][-1]
    assert made == ([2] if step == "stored" else [])
    assert prepare("none") == 0
    again, made = told()
    assert made == [2]
    assert len(again) == 1
    assert again == charged or not charged
    with duckanon.connect(database, role="analyst") as analyst:
        sql = "SELECT state, count(*) FROM persons GROUP BY state"
        assert analyst.explain(sql).steps[0].reason.startswith("Free: it follows from what was prepared")
        assert len(analyst.execute(sql).fetchall()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_policy_has_its_domains_or_is_not_there(tmp_path: Path) -> None:
    database, journal = tmp_path / "ledger.duckdb", tmp_path / "journal"
    moments, kills = random.Random(1), 40 if LONG else 3
    for _ in range(kills):
        run(database, journal, 10_000, "decisions", moments.uniform(0, 0.3))
    assert run(database, journal, 3 + max(numbers(journal, "try"), default=0), "decisions", None) == 0
    with duckdb.connect(str(database)) as con:
        state = governance(con).ledger.state("ledger")
        every = governance(con).ledger.lines("ledger")
        lines = [line for line in every if line.action == "protect"]
        # A process that ends between the journal's entry and the commit leaves a policy without its domains, which the
        # next one closes.
        lost = {line.number - 1 for line in every if line.action == "unprotect" and line.who == "duckanon"}
        assert len(lost) <= kills
        assert [line.number for line in lines] == list(range(1, 2 * len(lines), 2))
        assert len(lines) >= len(numbers(journal, "done"))
        copies = con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, 'domain_') ORDER BY ALL"
        ).fetchall()
        kept = [line.number for line in lines if line.number not in lost]
        assert copies == sorted((f"domain_{number}_{at}",) for number in kept for at in (0, 1))
        for line in lines:
            (number,) = line.details["policy"]["domains"]["b"]
            for at, values in enumerate([[(-number,), (number,)], [(number,)]]):
                assert con.execute(f"FROM duckanon.domain_{line.number}_{at} ORDER BY ALL").fetchall() == values
        assert set(state.tables) == {("main", "persons")}
