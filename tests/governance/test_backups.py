"""Copies of a file that is written meanwhile, and files made of copies."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from threading import Event, Thread

import duckdb
import pytest

from duckanon.errors import InvalidInput
from duckanon.governance.backups import back_up, restore
from duckanon.governance.journal import journal_path
from tests.governance.test_journal import charge, lines, path, spent

__all__ = ["path"]
ROOT = Path(__file__).parents[2]


def test_a_restored_file_has_the_charges_made_after_its_backup(path: Path) -> None:
    backup = path.with_name("backup")
    assert back_up(path, backup).lines == 2
    charge(path, 1, 2)
    whole = lines(path)
    path.unlink()
    made, lacks = restore(backup, path)
    assert made.lines == 4
    assert lacks.in_words() == "2 lines of the ledger, by which 0.2 of main.persons is spent"
    assert lines(path) == whole
    assert spent(path) == Fraction(3, 10)
    # Once more, of the restored one.
    path.unlink()
    charge_free, nothing = restore(backup, path)
    assert charge_free.lines == 4
    assert len(nothing.lines) == 2
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(".")] == []


def test_what_is_refused(path: Path, tmp_path: Path) -> None:
    backup, journal, away = tmp_path / "backup", journal_path(path), tmp_path / "away"
    back_up(path, backup)
    with pytest.raises(InvalidInput, match="backup is there already"):
        back_up(path, backup)
    with pytest.raises(InvalidInput, match="There is no database"):
        back_up(tmp_path / "none", away)
    with pytest.raises(InvalidInput, match=r"x\.duckdb is there already: move it away first"):
        restore(backup, path)
    charge(path, 1)
    path.unlink()
    entries = journal.read_bytes()
    with pytest.raises(InvalidInput, match=r"There is a journal, .*: leave --without-journal out, or move it away"):
        restore(backup, path, without_journal=True)
    whole = entries.splitlines(keepends=True)
    for cut in (entries[: len(entries) // 6], b"".join(whole[:2]), b"".join([*whole[:2], *whole[3:]])):
        journal.write_bytes(cut)
        with pytest.raises(InvalidInput, match=r"is older than .*, or damaged|is the journal of another database"):
            restore(backup, path)
    journal.write_bytes(b"duckanon journal 1\n")
    with pytest.raises(InvalidInput, match="is the journal of another database"):
        restore(backup, path)
    journal.unlink()
    with pytest.raises(InvalidInput, match="accept with --without-journal that those charges are lost"):
        restore(backup, path)
    restore(backup, path, without_journal=True)
    assert spent(path) == Fraction(1, 10)
    path.unlink()
    journal.write_bytes(entries)
    # Neither of these is a database.
    for wrong in (b"", b"no database" * 9_000):
        backup.write_bytes(wrong)
        with pytest.raises(InvalidInput):
            restore(backup, path)
        assert not path.exists()


def test_a_backup_of_before_the_first_policy_is_refused_beside_a_journal(tmp_path: Path) -> None:
    path, backup = tmp_path / "x.duckdb", tmp_path / "backup"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE persons (i INTEGER)")
    assert back_up(path, backup).lines is None
    charge(path, 1)
    path.unlink()
    with pytest.raises(InvalidInput, match="was made before its first policy"):
        restore(backup, path)


def test_without_a_journal_what_may_have_been_given_is_charged_again(path: Path) -> None:
    """The charge is in the backup, and its answer was stored later: nobody knows of it any more."""
    backup = path.with_name("backup")
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE duckanon.answers SET stored = false")
        con.execute("DELETE FROM duckanon.releases")
    back_up(path, backup)
    path.unlink()
    journal_path(path).unlink()
    restore(backup, path, without_journal=True)
    charge(path, 0)
    assert spent(path) == Fraction(2, 10)


def test_a_log_in_which_nothing_was_committed_is_left_out(path: Path) -> None:
    """It was copied while its first transaction was written, or its process ended there."""
    log = path.with_name(f"{path.name}.wal")
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE things AS SELECT range AS i FROM range(1000)")
        con.execute("CHECKPOINT")
        con.execute("INSERT INTO things FROM range(2000)")
        begun, before = log.read_bytes()[:-40], path.read_bytes()
    path.write_bytes(before)
    log.write_bytes(begun)
    backup = path.with_name("backup")
    assert back_up(path, backup).lines == 2
    assert not backup.with_name("backup.wal").exists()
    with duckdb.connect(str(backup)) as con:
        assert con.execute("SELECT count(*) FROM things").fetchall() == [(1000,)]


def test_a_file_is_copied_while_it_is_written(tmp_path: Path) -> None:
    """A process of its own charges, and makes tables, with checkpoints in between: each copy is of one moment."""
    path, stop = tmp_path / "x.duckdb", Event()
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
        done: list[int] = []
        reader = Thread(target=lambda: done.extend(int(one) for one in iter(writer.stdout.readline, "")))  # type: ignore[union-attr]
        reader.start()
        for number in range(6):
            while len(done) < 3 * number + 1:
                stop.wait(0.05)
            known, copy = len(done), tmp_path / f"copy{number}"
            made = back_up(path, copy)
            with duckdb.connect(str(copy)) as con:
                rows = con.execute("SELECT i, count(*), sum(j) FROM things GROUP BY i ORDER BY i").fetchall()
                assert [(one, size) for one, size, _ in rows] == [(i, 3_000) for i in range(len(rows))]
            # Each line was committed before the number was said.
            assert made.lines is not None
            assert made.lines >= known
        writer.stdin.close()
        assert writer.wait(60) == 0
        reader.join()


WRITER = """
import select, sys, duckdb
from fractions import Fraction
from tests.governance.without_sql import governance, seen, answer, CHARGE
con = duckdb.connect(sys.argv[1])
con.execute("SET checkpoint_threshold = '300KB'")
con.execute("CREATE TABLE things (i INTEGER, j INTEGER)")
made = governance(con)
print("ready", flush=True)
number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    made.stored_or_drawn("persons", seen("persons", database="x"), {"number": number}, CHARGE, lambda: answer(number))
    con.execute(f"INSERT INTO things SELECT {number}, j FROM range(3000) r(j)")
    if number % 7 == 0:
        con.execute("CHECKPOINT")
    number += 1
    print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("step", ["copied", "settled", "opened", "named"])
def test_a_restore_that_is_killed_leaves_no_file_or_a_whole_one(path: Path, step: str) -> None:
    backup = path.with_name("backup")
    back_up(path, backup)
    charge(path, 1)
    path.unlink()
    code = KILLED.format(step=step)
    done = subprocess.run([sys.executable, "-c", code, str(backup), str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.exists() == (step == "named")
    if step != "named":
        restore(backup, path)
    assert spent(path) == Fraction(2, 10)


KILLED = """
import os, signal, sys
from pathlib import Path
from duckanon.governance import backups
name = dict(copied="_is_copied", settled="_settled", opened="_opened", named="_put")["{step}"]
real = getattr(backups, name)
def killing(*given):
    real(*given)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(backups, name, killing)
backups.restore(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_a_copy_under_two_headers_is_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint comes between the log and the file: such a copy is not taken."""
    copied = shutil.copyfileobj
    count = Counter[str]()

    def copying(source: object, target: object, size: int = 0) -> None:
        count["copies"] += 1
        if count["copies"] == 1:
            # Another process's checkpoint, which this one may make, since nobody has the file open.
            code = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('CREATE TABLE t (i INTEGER); CHECKPOINT')"
            subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        copied(source, target, size)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copyfileobj", copying)
    back_up(path, path.with_name("backup"))
    assert count["copies"] >= 2
    with duckdb.connect(str(path.with_name("backup"))) as con:
        assert con.execute("FROM t").fetchall() == []


def test_the_commands(path: Path, tmp_path: Path) -> None:
    def said(*arguments: object) -> tuple[int, str]:
        command = [sys.executable, "-m", "duckanon.integrations.cli", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, re.sub(r"[\d.]+ MiB", "N MiB", done.stdout + done.stderr).replace(str(tmp_path), "")

    assert said("backup", path, tmp_path / "b") == (0, "/x.duckdb is copied to /b: N MiB, a ledger of 2 lines.\n")
    charge(path, 1)
    path.unlink()
    assert said("restore", tmp_path / "b", path) == (
        0,
        "/x.duckdb is restored from /b: N MiB, a ledger of 3 lines.\n"
        "The journal gave it 1 line of the ledger, by which 0.1 of main.persons is spent.\n",
    )
    path.unlink()
    journal_path(path).unlink()
    code, text = said("restore", tmp_path / "b", path)
    assert (code, text.count("\n")) == (1, 1)
    assert said("restore", tmp_path / "b", path, "--without-journal")[0] == 0
