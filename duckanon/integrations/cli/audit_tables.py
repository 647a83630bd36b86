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
    unsafe = sum(finding.verdict is Verdict.UNSAFE for finding in listed)
    check = sum(finding.verdict is Verdict.CHECK for finding in listed)
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
            "path": str(finding.path),
            "line": finding.line,
            "object": finding.object or None,
            "kind": finding.kind,
            "table": finding.table or None,
            "verdict": finding.verdict.value,
            "found": finding.found,
            "advice": finding.advice,
        }
        for finding in listed
    ]
    json.dump(records, out, indent=2, ensure_ascii=False)
    out.write("\n")
