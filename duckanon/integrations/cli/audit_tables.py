"""An audit's report as a table, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duckanon.integrations.audit.findings import AuditFinding, Verdict
from duckanon.integrations.terminal.output import printable

_STYLES = {Verdict.UNSAFE: "bold red", Verdict.CHECK: "yellow", Verdict.UNREAD: "dim"}


def listing(listed: Sequence[AuditFinding], read: int) -> RenderableType:
    """The report as a table, with a last line of counts. read: how many scripts were read."""
    unsafe = sum(one.verdict is Verdict.UNSAFE for one in listed)
    check = sum(one.verdict is Verdict.CHECK for one in listed)
    said = f"{read:,} read; {unsafe:,} unsafe, {check:,} to check"
    unread = len(listed) - unsafe - check
    if unread:
        said += f", {unread:,} not understood"
    if not listed:
        return Text(said, style="dim")
    table = Table(box=box.ROUNDED, header_style="bold")
    for name in ("where", "verdict", "what it asks", "instead"):
        table.add_column(name, overflow="fold")
    for one in listed:
        where = f"{one.path}:{one.line}" + (f" ({one.object})" if one.object else "")
        table.add_row(
            Text(printable(where)),
            Text(one.verdict.value, style=_STYLES[one.verdict]),
            Text(printable(one.found.partition(" | where ")[0])),
            Text(printable(one.advice.replace("\n", " "))),
        )
    return Group(table, Text(said, style="dim"))


def as_json(listed: Sequence[AuditFinding], out: TextIO) -> None:
    """One array, an object for each line of the report."""
    records = [
        {
            "path": str(one.path),
            "line": one.line,
            "object": one.object or None,
            "kind": one.kind,
            "table": one.table or None,
            "verdict": one.verdict.value,
            "found": one.found,
            "advice": one.advice,
        }
        for one in listed
    ]
    json.dump(records, out, indent=2, ensure_ascii=False)
    out.write("\n")
