"""Copies of a database's file, also while another process has it open, and files made of such copies.

DuckDB changes what the header of a file refers to in one step alone, a checkpoint, which writes the header last.
Between two checkpoints it adds to the file and to the log of changes beside it. So the log and the file, read in this
order under one header, are what a crash at that moment would have left, and DuckDB opens them as it does after a crash.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import duckdb

from duckanon.errors import InvalidInput
from duckanon.governance.journal import Journal, sync_folder
from duckanon.governance.ledger_tables import has_ledger, identity_of, lines_after, one_moment
from duckanon.governance.recovery import Lacking, give_up_waiting, settle

# In bytes: the three headers at the beginning of a file.
_HEADERS = 3 * 4096
# How often a file is copied again because of a checkpoint meanwhile.
_TRIES = 20
_PIECE = 1 << 22


@dataclass(frozen=True)
class Copy:
    """A copy that was opened and read. size: in bytes. lines: of its ledger, None if it has none."""

    size: int
    lines: int | None


def back_up(path: Path, to: Path) -> Copy:
    """Copy a database to a new file. Whoever has it open goes on meanwhile.

    What is committed when this begins is in the copy, and of what is committed meanwhile a first part. Raises
    InvalidInput where there is no database, where `to` is there already, and where it cannot be copied.
    """
    _check_there(path)
    _check_free(to, "name a file that is not there yet")
    with _beside(to, path.name) as new:
        for _ in range(_TRIES):
            if _is_copied(path, new):
                found = _opened(new, path)
                if found is not None:
                    _put(new, to)
                    return found
        raise InvalidInput(
            f"{path} changes faster than it can be copied: try again when less is written, or stop what has it open."
        )


def restore(backup: Path, path: Path, *, without_journal: bool = False) -> tuple[Copy, Lacking]:
    """Make a database of a copy, with what the journal of its path holds and the copy lacks.

    without_journal: there is none, so what was charged after the copy was made is lost. The file is there when it is
    whole, or not at all. Raises InvalidInput where a file is there already, where the journal is missing or belongs to
    another database, and where it is not accepted that there is none.
    """
    _check_there(backup)
    for one in (path, _log(path)):
        _check_free(one, "move it away first")
    journal = Journal(path)
    is_there = journal.path.exists()
    if is_there == without_journal:
        raise InvalidInput(
            f"There is a journal, {journal.path}: leave --without-journal out, or move it away."
            if is_there
            else f"There is no journal {journal.path}, so nobody knows what was charged since {backup} was made: put "
            "it there, or accept with --without-journal that those charges are lost."
        )
    with _beside(path, path.name) as new:
        if not _is_copied(backup, new):
            raise InvalidInput(f"{backup} changes while it is copied: name a copy that nobody has open.")
        with _connected(new, backup) as con:
            lacks = _settled(con, backup, None if without_journal else journal)
        found = _opened(new, backup)
        if found is None:
            raise InvalidInput(f"{backup} is damaged, or was cut off: take a copy that is whole.")
        _put(new, path)
    return found, lacks


def _settled(con: duckdb.DuckDBPyConnection, backup: Path, journal: Journal | None) -> Lacking:
    """Give a copy what it lacks of its journal, and return that."""
    ((name,),) = con.execute("SELECT current_database()").fetchall()
    if not has_ledger(con, name):
        if journal is not None:
            raise InvalidInput(
                f"{backup} was made before its first policy, and {journal.path} holds charges since: move that away "
                "to go on without them."
            )
        return Lacking()
    if journal is None:
        with one_moment(con):
            give_up_waiting(con, name)
        return Lacking()
    ledger, last = identity_of(con, name), len(lines_after(con, name, 0))
    kept = journal.read(ledger)
    if not kept.lines:
        raise InvalidInput(
            f"{journal.path} is the journal of another database than {backup}: put the right one there, or move it "
            "away and accept with --without-journal that charges are lost."
        )
    if kept.last < last or not kept.is_whole:
        raise InvalidInput(
            f"{journal.path} is older than {backup}, or damaged, so nobody knows what was charged since: put the right "
            "one there, or move it away and accept with --without-journal that charges are lost."
        )
    return settle(con, name, journal)


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise InvalidInput(f"There is no database {path}: name a DuckDB file that is there.")


def _check_free(path: Path, way_out: str) -> None:
    if path.exists():
        raise InvalidInput(f"{path} is there already: {way_out}.")


@contextmanager
def _beside(path: Path, name: str) -> Iterator[Path]:
    """A file of a name in a folder beside a path, which is removed at the end, with all that is in it."""
    try:
        folder = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be made: {error.strerror}.") from error
    try:
        yield folder / name
    except OSError as error:
        raise InvalidInput(f"{path} cannot be made: {error.strerror}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_copied(path: Path, new: Path) -> bool:
    """Copy a file and its log of changes. False if a checkpoint came between, so that they do not belong together."""
    log, new_log = _log(path), _log(new)
    for one in (new, new_log):
        one.unlink(missing_ok=True)
    # (Without a buffer, so that the headers are read again. The process that has the database open must not do this:
    # to close the file would end DuckDB's lock.)
    with path.open("rb", buffering=0) as file:
        before = file.read(_HEADERS)
        # The log first: what it refers to in the file is written there before it is.
        with suppress(FileNotFoundError), log.open("rb") as source, new_log.open("wb") as target:
            shutil.copyfileobj(source, target, _PIECE)
        file.seek(0)
        with new.open("wb") as target:
            shutil.copyfileobj(file, target, _PIECE)
        file.seek(0)
        return file.read(_HEADERS) == before


def _log(path: Path) -> Path:
    """DuckDB's log of what was changed in a file since its last checkpoint."""
    return path.with_name(f"{path.name}.wal")


@contextmanager
def _connected(new: Path, source: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a copy, which has all that its log held at the end."""
    try:
        with duckdb.connect(str(new)) as con:
            yield con
            con.execute("CHECKPOINT")
        # All that was committed is in the file now. DuckDB 2.0 leaves a log there in which nothing was.
        _log(new).unlink(missing_ok=True)
    except duckdb.Error as error:
        raise InvalidInput(
            f"{source} cannot be copied: it is no DuckDB database, it is damaged or encrypted, or another version of "
            "DuckDB wrote it."
        ) from error


def _opened(new: Path, source: Path) -> Copy | None:
    """What a copy is; None if it cannot be opened, since its log was copied while it was written."""
    try:
        with _connected(new, source) as con:
            ((name,),) = con.execute("SELECT current_database()").fetchall()
            lines = len(lines_after(con, name, 0)) if has_ledger(con, name) else None
    except InvalidInput as error:
        if isinstance(error.__cause__, duckdb.Error):
            return None
        raise
    return Copy(new.stat().st_size, lines)


def _put(new: Path, to: Path) -> None:
    """Give a file that is whole its name, once it is on the disk."""
    with new.open("rb") as file:
        os.fsync(file.fileno())
    _check_free(to, "name a file that is not there yet")
    new.rename(to)
    sync_folder(to.parent)
