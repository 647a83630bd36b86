"""`duckanon backup`, `restore` and `upgrade`: copies of a database, databases made of copies, and earlier ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform


def backup(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The DuckDB database.")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="A new file for the copy.")],
) -> None:
    """Copy a database, also while it is served or open elsewhere.

    The copy is opened and read before it gets its name. PATH.journal and PATH.users
    are not part of it: keep copies of these elsewhere.
    """
    with one_sentence():
        from duckanon.governance.backups import back_up

        made = back_up(path, to)
        inform(f"{path} is copied to {to}: {_size(made.size)}, {_ledger(made.lines)}.")


def restore(
    copy: Annotated[Path, typer.Argument(metavar="BACKUP", help="The copy that `duckanon backup` made.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Where the database was. Nothing may be there.")],
    without_journal: Annotated[
        bool, typer.Option("--without-journal", help="Accept that charges made after the copy are lost.")
    ] = False,
) -> None:
    """Make a database of a copy. It takes from PATH.journal what was charged, closed and withdrawn since.

    What the copy does not have, such as answers that were given since, is asked for
    and charged again.
    """
    with one_sentence():
        from duckanon.governance.backups import restore as restored

        made, lacks = restored(copy, path, without_journal=without_journal)
        inform(f"{path} is restored from {copy}: {_size(made.size)}, {_ledger(made.lines)}.")
        if without_journal:
            inform("What was charged after the copy was made is lost: budgets are larger than they should be.")
        elif lacks:
            inform(f"The journal gave it {lacks.in_words()}.")
            for sentence in lacks.closed_in_words():
                inform(sentence)
        else:
            inform("The journal holds nothing that the copy lacks.")


def _size(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _ledger(lines: int | None) -> str:
    return "without a ledger" if lines is None else f"a ledger of {lines:,} line{'' if lines == 1 else 's'}"


def upgrade(path: Annotated[Path, typer.Argument(metavar="PATH", help="The DuckDB database.")]) -> None:
    """Carry the ledger of an earlier version of duckanon over to this one. No other process may have the file open.

    The old ledger stays in the file, in a schema of its own.
    """
    with one_sentence():
        from duckanon.governance.upgrade import upgrade as upgraded

        found = upgraded(path)
        inform(f"{path}: {'there is nothing to do.' if found is None else found.in_words()}")
