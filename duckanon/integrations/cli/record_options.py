"""What a signed record of the files that leave says of their release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from duckanon.errors import InvalidInput
from duckanon.integrations.cli.options import Columns


@dataclass(frozen=True)
class RecordOptions:
    """Where a record is written, with which key, why the files leave, to whom, who decided it, and what made them."""

    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="RECORD", help="Write a signed record (.json) of the files that leave, with:"),
    ] = None
    sign: Annotated[Path | None, typer.Option("--sign", metavar="KEY", help="the office's key,")] = None
    purpose: Annotated[str | None, typer.Option("--purpose", metavar="TEXT", help="why they leave,")] = None
    recipient: Annotated[str | None, typer.Option("--recipient", metavar="TEXT", help="to whom,")] = None
    decided_by: Annotated[str | None, typer.Option("--decided-by", metavar="TEXT", help="who decided it,")] = None
    calls: Annotated[
        Columns,
        typer.Option(
            "--call",
            metavar="CALL",
            help="and calls of suppress, k_anonymize or cell_key that made them, to be kept inside.",
        ),
    ] = None

    def written(self, source: Path, files: Sequence[Path], *, force: bool) -> Mapping[str, Any] | None:
        """Write the record of some files, if one is asked for. Raises InvalidInput where options are missing."""
        if self.record is None:
            if any(astuple(self)):
                raise InvalidInput(
                    "--sign, --purpose, --recipient, --decided-by and --call belong to a record: name it with --record."
                )
            return None
        if not files or self.sign is None or not self.purpose or not self.recipient or not self.decided_by:
            raise InvalidInput(
                "A record says which files leave, why, to whom and who decided it, and is signed: give --file, "
                "--purpose, --recipient, --decided-by and --sign."
            )
        from duckanon.integrations.record import internal_path, write_record
        from duckanon.integrations.record.contents import Decision
        from duckanon.integrations.terminal.output import say

        decision = Decision(self.purpose, self.recipient, self.decided_by, self.calls or [])
        record = write_record(source, self.record, files, decision, self.sign, force=force)
        say(f"Wrote {self.record}, which goes with the files, and {internal_path(self.record)}, which stays.")
        return record
