"""The journal beside the file: what it holds is on the disk first, and an older file takes in what it lacks."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.errors import InvalidInput
from duckanon.governance.backups import restore
from duckanon.governance.instance import Governance
from duckanon.governance.journal import Journal, failed_entry, journal_path, line_entry, stored_entry
from duckanon.governance.ledger_state import Line
from duckanon.governance.ledger_tables import identity_of
from duckanon.integrations.cli.backup_commands import restore as restore_command
from tests.amounts import sampled
from tests.governance.killed_at import STEPS
from tests.governance.without_sql import CHARGE, answer, governance, protect, seen

ROOT = Path(__file__).parents[2]


def sees(path: Path) -> dict[str, Any]:
    return seen("persons", database=path.stem)


def ask(made: Governance, path: Path, number: int) -> Any:
    return made.stored_or_drawn("persons", sees(path), {"number": number}, CHARGE, lambda: answer(number))


def opened(path: Path, do: Callable[[Governance], Any], *, read_only: bool = False) -> Any:
    with duckdb.connect(str(path), read_only=read_only) as con:
        return do(governance(con))


def spent(path: Path) -> Fraction:
    (budget,) = opened(path, lambda made: made.budgets())
    return Fraction(budget["spent_exact"])


def lines(path: Path) -> list[Line]:
    found: list[Line] = opened(path, lambda made: made.ledger.lines(path.stem))
    return found


def identity(path: Path) -> str:
    with duckdb.connect(str(path)) as con:
        return identity_of(con, path.stem)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a budget of 1, of which .1 is spent."""
    made = tmp_path / "x.duckdb"
    opened(made, lambda one: (protect(one, sees=sees(made)), ask(one, made, 0)))
    return made


def charge(path: Path, *numbers: int) -> None:
    opened(path, lambda made: [ask(made, path, number) for number in numbers])


def test_it_holds_what_the_ledger_holds(path: Path) -> None:
    charge(path, 1)
    kept = Journal(path).read(identity(path))
    assert list(kept.lines.values()) == lines(path)
    assert sorted(number for _, number in kept.stored) == [2, 3]
    assert stat.S_IMODE(journal_path(path).stat().st_mode) == stat.S_IMODE(path.stat().st_mode)


def test_a_line_that_may_still_fail_is_seen_by_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers with no lock in common but the journal's: one asks before and after the other one's line is added."""
    with duckdb.connect(str(path)) as con, duckdb.connect(str(path)) as other, ThreadPoolExecutor(1) as pool:
        first, second = governance(con), governance(other)
        ask(first, path, 0), ask(second, path, 0)
        real, asked = Journal.add, list[Future[Any]]()

        def add(journal: Journal, ledger: str, entries: Sequence[Mapping[str, Any]]) -> Any:
            if asked or "line" not in entries[0]:
                return real(journal, ledger, entries)
            asked.append(pool.submit(ask, second, path, 2))
            wait(asked, 0.3)
            added = real(journal, ledger, entries)
            asked.append(pool.submit(ask, second, path, 3))
            wait(asked, 0.3)
            return added

        monkeypatch.setattr(Journal, "add", add)
        ask(first, path, 1)
        wait(asked)
        monkeypatch.undo()
    assert [line.number for line in lines(path)] == [1, 2, 3, 4, 5]
    assert list(Journal(path).read(identity(path)).lines.values()) == lines(path)


def test_an_older_copy_takes_in_what_was_charged_since(path: Path) -> None:
    shutil.copyfile(path, path.with_name("old"))
    charge(path, 1, 2)
    whole = lines(path)
    shutil.copyfile(path.with_name("old"), path)
    assert spent(path) == Fraction(3, 10)
    assert lines(path) == whole
    # The answers are not there any more. They may have been given, so they are charged again.
    charge(path, 0, 1)
    assert spent(path) == Fraction(4, 10)


def test_without_its_journal_an_older_copy_does_not_know(path: Path) -> None:
    """What the journal is for: this twin of the test above has none."""
    shutil.copyfile(path, path.with_name("old"))
    charge(path, 1, 2)
    shutil.copyfile(path.with_name("old"), path)
    journal_path(path).unlink()
    assert spent(path) == Fraction(1, 10)


def test_an_answer_that_was_given_is_not_drawn_again_for_its_charge_in_an_older_copy(path: Path) -> None:
    def fails() -> Any:
        raise ZeroDivisionError

    def begins(made: Governance) -> None:
        with pytest.raises(ZeroDivisionError):
            made.stored_or_drawn("persons", sees(path), {"number": 1}, CHARGE, fails)

    opened(path, begins)
    shutil.copyfile(path, path.with_name("old"))
    charge(path, 1)
    assert spent(path) == Fraction(2, 10)
    shutil.copyfile(path.with_name("old"), path)
    charge(path, 1)
    assert spent(path) == Fraction(3, 10)


def test_a_missing_or_cut_journal_gets_what_it_lacks(path: Path) -> None:
    journal = journal_path(path)
    whole = journal.read_bytes()
    for before in (b"", whole[:-1], whole[: len(whole) // 2], whole[:30], whole[:3], whole + b"torn"):
        journal.write_bytes(before)
        # As if it were deleted or cut while the process runs, too.
        with duckdb.connect(str(path)) as con:
            made = governance(con)
            journal.write_bytes(before)
            made.decisions.new_edition("persons", sees(path))
        old = path.with_name("old")
        shutil.copyfile(path, old)
        known = lines(path)
        with duckdb.connect(str(path)) as con:
            con.execute("DELETE FROM duckanon.ledger WHERE number > 1")
        assert lines(path) == known


def test_a_gap_and_another_history_are_refused(path: Path) -> None:
    old, journal = path.with_name("old"), journal_path(path)
    shutil.copyfile(path, old)
    charge(path, 1, 2, 3)
    newest, entries = path.read_bytes(), journal.read_bytes().splitlines(keepends=True)
    shutil.copyfile(old, path)
    journal.write_bytes(b"".join(one for one in entries if b'"number": 4, "rec' not in one))
    with pytest.raises(InvalidInput, match="The journal beside the file of x is damaged"):
        lines(path)
    # The file has them, so nothing is missed.
    path.write_bytes(newest)
    assert len(lines(path)) == 5
    # A copy that spent separately.
    journal.write_bytes(b"".join(entries))
    other = path.with_name("other.duckdb")
    shutil.copyfile(old, other)
    charge(other, 7)
    shutil.copyfile(other, path)
    with pytest.raises(InvalidInput, match="differ from line 3 on, so they are of two copies of the database"):
        lines(path)
    journal.unlink()
    assert len(lines(path)) == 3


def test_an_older_copy_that_is_opened_for_reading_only_answers_nothing(path: Path) -> None:
    shutil.copyfile(path, path.with_name("old"))
    charge(path, 1)
    shutil.copyfile(path.with_name("old"), path)
    with pytest.raises(InvalidInput) as raised:
        opened(path, lambda made: made.budgets(), read_only=True)
    assert str(raised.value) == (
        "The file of database x is older than the journal beside it: open it for writing once, which takes in what was "
        "recorded since."
    )
    assert spent(path) == Fraction(2, 10)
    assert opened(path, lambda made: made.budgets(), read_only=True)


def test_what_cannot_stand_in_an_older_copy_is_closed(tmp_path: Path) -> None:
    import duckanon

    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        for one in (
            "CREATE TABLE persons AS SELECT i AS id, i % 2 AS sex FROM range(40) r(i)",
            "CREATE TABLE places AS SELECT 1 AS place",
            "CREATE TABLE sexes AS SELECT i::BIGINT AS sex FROM range(2) r(i)",
            "SELECT open_table('sexes')",
            "CREATE TABLE counted AS SELECT sex, count(*) AS n FROM persons GROUP BY sex",
            "SELECT protect('persons', epsilon := 1, public := ['sex'])",
            "SELECT open_table('places')",
            "CHECKPOINT",
        ):
            con.execute(one).fetchall()
    shutil.copyfile(path, path.with_name("old"))
    with duckanon.connect(path, role="steward") as con:
        for one in (
            "SELECT publish('counted', variables := ['sex'], value := 'n')",
            "SELECT unprotect('persons')",
            "SELECT protect('persons', epsilon := 1, public := ['sex'], domains := {'sex': 'sexes'})",
            "SELECT close_table('places')",
        ):
            con.execute(one).fetchall()
    shutil.copyfile(path.with_name("old"), path)
    with duckanon.connect(path, role="steward") as con:
        assert con.execute("FROM policies()").fetchall() == []
        assert con.execute("SELECT name, withdrawn FROM publications()").fetchall() == [("counted", True)]
        actions = con.execute("SELECT action, who FROM privacy_ledger() ORDER BY number").fetchall()
        assert [one for one, _ in actions[3:6]] == ["publish", "unprotect", "protect"]
        assert [one for one, _ in actions[6:]] == ["close", "unpublish", "unprotect"]
        assert [who for _, who in actions[-2:]] == ["duckanon", "duckanon"]
    with duckanon.connect(path, role="analyst") as analyst:
        for closed in ("FROM places", "FROM counted", "SELECT sex, count(*) FROM persons GROUP BY sex"):
            with pytest.raises(duckanon.errors.DuckanonError):
                analyst.execute(closed).fetchall()
    # The lines that closed are in the journal, too.
    shutil.copyfile(path.with_name("old"), path)
    with duckanon.connect(path, role="steward") as con:
        assert len(con.execute("FROM privacy_ledger()").fetchall()) == 9


def test_domains_that_a_policy_lists_are_copied_again_in_an_older_copy(tmp_path: Path) -> None:
    import duckanon

    path, old = tmp_path / "x.duckdb", tmp_path / "old"
    terms = "population := 'people', privacy_unit := 'who', rows_per_unit := 1, per_query := 0.1, epsilon := 4"

    def protected(more: str, last: int) -> str:
        domains = f"{{'s t': ['new', 'paid'{more}], 'n': {{'from': 0, 'to': {last}, 'nulls': true}}, 'code': 'codes'}}"
        return f"SELECT protect('m.orders', {terms}, public := ['s t', 'n', 'code'], domains := {domains})"

    counts = 'SELECT "s t", n, count(*) FROM m.orders GROUP BY ALL'
    with duckanon.connect(path, role="steward") as con:
        for sql in (
            "CREATE SCHEMA m",
            "CREATE TABLE m.orders AS SELECT i AS id, i % 9 AS who, 'new' AS \"s t\", 1::TINYINT AS n, 'a' AS code "
            "FROM range(40) r(i)",
            "CREATE TABLE m.lines AS SELECT i AS id FROM range(40) r(i)",
            "ALTER TABLE m.orders ADD PRIMARY KEY (id)",
            "CREATE TABLE codes AS SELECT 'a' AS code",
            "SELECT open_table('codes')",
            protected("", 3),
            "SELECT protect('m.lines', population := 'people', link := {'id': 'orders.id'}, rows_per_unit := 1)",
            "CHECKPOINT",
        ):
            con.execute(sql).fetchall()
    shutil.copyfile(path, old)
    with duckanon.connect(path, role="steward") as con:
        con.execute(protected(", 'lost', NULL", 4)).fetchall()
        con.execute("SELECT new_edition('m.orders')").fetchall()
        copies = "FROM duckanon.domain_{0}_0, duckanon.domain_{0}_1 ORDER BY ALL"
        number = con.execute("SELECT max(number) FROM privacy_ledger() WHERE action = 'protect'").fetchall()[0][0]
        whole = con.execute(copies.format(number)).fetchall()
        assert len(whole) == 4 * 6
        policies = con.execute("FROM policies()").fetchall()
    path.unlink()
    made, lacks = restore(old, path)
    assert (made.lines, len(lacks.lines), lacks.closed_in_words()) == (number + 1, 2, [])
    with duckanon.connect(path, role="steward") as con:
        assert con.execute("FROM policies()").fetchall() == policies
        assert con.execute(copies.format(number)).fetchall() == whole
    with duckanon.connect(path, role="analyst") as analyst:
        assert len(analyst.execute(counts).fetchall()) == 4 * 6


def test_a_restore_names_the_policy_that_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the column's type in the copy does not hold the values, or they come from another table."""
    import duckanon

    path, old = tmp_path / "x.duckdb", tmp_path / "old"
    with duckanon.connect(path, role="steward") as con:
        for sql in (
            "CREATE TABLE a AS SELECT 1::TINYINT AS n, 'x' AS code",
            "CREATE TABLE b AS FROM a",
            "CREATE TABLE codes AS SELECT 'x' AS code",
            "SELECT open_table('codes')",
            "CHECKPOINT",
        ):
            con.execute(sql).fetchall()
    shutil.copyfile(path, old)
    with duckanon.connect(path, role="steward") as con:
        for sql in (
            "ALTER TABLE a ALTER n TYPE INTEGER",
            "SELECT protect('a', epsilon := 1, public := ['n'], domains := {'n': [1, 1000]})",
            "SELECT protect('b', epsilon := 1, public := ['code'], domains := {'code': 'codes'})",
        ):
            con.execute(sql).fetchall()
    path.unlink()
    restore_command(old, path)
    said = "".join(capsys.readouterr())
    assert said.splitlines()[2:] == [
        f'main.{table}: unprotect, as the copy of the domain of "{column}" is not in the file, which is an older copy. '
        "Protect it again."
        for table, column in (("a", "n"), ("b", "code"))
    ]


def test_a_failed_draw_stays_final_in_an_older_copy(path: Path) -> None:
    def fails(made: Governance) -> None:
        with made.ledger.transaction("x") as cursor:
            made.ledger.note_failed(cursor, "x", "a key")

    opened(path, fails)
    lines(path)
    with duckdb.connect(str(path)) as con:
        assert con.execute("SELECT key FROM duckanon.failures").fetchall() == [("a key",)]


def test_another_ledger_at_the_same_path_begins_anew(path: Path) -> None:
    path.unlink()
    opened(path, lambda one: (protect(one, sees=sees(path)), ask(one, path, 5)))
    assert spent(path) == Fraction(1, 10)
    assert len(lines(path)) == 2


def test_there_is_none_in_memory_and_for_a_copy_elsewhere_another_one(path: Path) -> None:
    other = path.with_name("other.duckdb")
    shutil.copyfile(path, other)
    charge(other, 1)
    assert journal_path(other).read_bytes().count(b'"line"') == 3
    assert journal_path(path).read_bytes().count(b'"line"') == 2
    with duckdb.connect() as con:
        made = governance(con)
        made.stored_or_drawn("persons", seen("persons"), {"number": 1}, CHARGE, lambda: answer(1))
    assert sorted(one.name for one in path.parent.glob("*.journal")) == ["other.duckdb.journal", "x.duckdb.journal"]


def test_a_charge_is_refused_where_the_journal_cannot_be_written(path: Path) -> None:
    journal_path(path).unlink()
    journal_path(path).mkdir()
    with pytest.raises(InvalidInput):
        charge(path, 1)
    journal_path(path).rmdir()
    assert spent(path) == Fraction(1, 10)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("step", sampled(STEPS))
def test_killed_at_each_step_no_noise_is_without_its_charge(path: Path, step: str) -> None:
    old = path.with_name("old")
    shutil.copyfile(path, old)
    command = [sys.executable, "-m", "tests.governance.killed_at", str(path), step]
    # (The key of the first charge is another one: this is a new question.)
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM duckanon.releases")
        con.execute("DELETE FROM duckanon.answers")
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert said == ["drawn"] * (STEPS.index(step) >= 4) + ["given"] * (step == "end")
    # What was not committed and is in the journal costs budget.
    recorded = Fraction(1 if STEPS.index(step) < 2 else 2, 10)
    killed, journal = path.read_bytes(), journal_path(path).read_bytes()
    log = path.with_name("x.duckdb.wal")
    logged = log.read_bytes() if log.exists() else b""
    assert spent(path) == recorded
    # The same question is free if its answer is stored, or may be drawn for its charge: that is, if it was never given.
    charge(path, 1)
    again = step in ("sync", "commit", "stored")
    assert spent(path) == (recorded if not again and recorded > Fraction(1, 10) else recorded + Fraction(1, 10))
    # An older copy has the same charges, and draws nothing for them that may have been given.
    log.unlink(missing_ok=True)
    shutil.copyfile(old, path)
    journal_path(path).write_bytes(journal)
    assert spent(path) == recorded
    assert killed
    assert logged or step != "end"


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 6), st.text(max_size=5), st.booleans()), max_size=12
    ),
    cut=st.integers(0, 40),
)
def test_it_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, int, str, bool]], cut: int
) -> None:
    """Of several lines with a number the last counts; what was cut off at the end is not read."""
    path = tmp_path_factory.mktemp("journal") / "x.duckdb"
    path.touch()
    journal, expected = Journal(path), {"a": dict[int, Line](), "b": dict[int, Line]()}
    first = Line.of({"number": 1, "recorded_at": duckdb_now(), "who": "w", "table_name": "t", "action": "open"})
    for ledger, number, text, takes_back in parts:
        line = replace(first, number=number, what=text)
        take_back = journal.add(ledger, [line_entry(line), stored_entry(text, number), failed_entry(text)])
        if takes_back:
            take_back()
        else:
            expected[ledger][number] = line
    for ledger, known in expected.items():
        assert journal.read(ledger).lines == known == Journal(path).read(ledger).lines
        reached = next(at for at in range(20) if at + 1 not in known)
        assert journal.reaches(ledger) == reached
    if parts and not parts[-1][3]:
        journal.path.write_bytes(journal.path.read_bytes()[: -1 - cut])
        journal.add("a", [line_entry(replace(first, number=9))])
        assert 9 in journal.read("a").lines


def duckdb_now() -> Any:
    return duckdb.execute("SELECT now()::TIMESTAMP").fetchall()[0][0]
