"""`duckanon key new` and `duckanon verify`: keys of an office, and the check of a record that it signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform, printable, say

key = typer.Typer(help="Make the key with which an office signs records.", no_args_is_help=True)


@key.callback()
def _key() -> None:
    """Make the key with which an office signs records."""


@key.command("new")
def new(path: Annotated[Path, typer.Argument(metavar="KEY", help="A new file, as in office.key.")]) -> None:
    """Make a key of the kind Ed25519: KEY, which only you can read, and KEY.pub, which everybody may have.

    Who gets records compares the fingerprint of KEY.pub with what you say it is.
    """
    with one_sentence():
        from duckanon.integrations.record.signatures import new_key

        print_of = new_key(path)
        inform(f"Wrote {path} and {path.with_suffix('.pub')}. Fingerprint: {print_of}")


def verify(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="The .json of duckanon report --record.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="All files that it is about, and in the office its internal part."),
    ],
    office: Annotated[
        Path | None, typer.Option("--key", metavar="KEY.pub", help="The key that must have signed it.")
    ] = None,
) -> None:
    """Check a record: its signature, the hashes of its files, and what it proves of suppressed cells.

    It shows when the record was made, why the files leave, to whom and who decided it. No database is needed. Leaves
    with status 1 if anything is wrong.
    """
    with one_sentence():
        from duckanon.integrations.record.verification import verify as verified

        found = verified(record, files, office)
        for problem in found.problems:
            say(problem)
        if found.problems:
            raise typer.Exit(1)
        whose = "" if office is not None else ": compare it with what the office says"
        count = len(found.told["files"])
        parts = f"its {count} file{'' if count == 1 else 's'}"
        text = f"{record}, {parts} and its internal part" if found.internal else f"{record} and {parts}"
        inform(f"{text} are as they were signed, and its proofs hold. Signed by {found.signed_by}{whose}.")
        for line in found.lines():
            inform(printable(line))
