"""What the views of a database read from its tables, found by parsing their SQL, as `duckanon audit` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from duckanon.errors import InvalidInput
from duckanon.integrations.audit.corpus import corpus
from duckanon.integrations.audit.findings import AuditFinding, Verdict, audit

_CALL = "FROM disclosure_report("


@dataclass(frozen=True)
class Views:
    """What an audit of the views found. unsafe: its findings. shares: each view of shares, with arguments of
    disclosure_report. problem: why the views could not be read, or nothing.
    """

    unsafe: Sequence[AuditFinding] = ()
    shares: Sequence[tuple[str, str]] = ()
    problem: str = ""


def views(path: Path) -> Views:
    """Audit the views and table macros of the database, which is opened for reading only."""
    try:
        read = corpus([path])
        audit_findings = audit(read)
        # Shares of unprotected tables are of interest, too.
        everywhere = audit(replace(read, protected=frozenset()))
    except InvalidInput as error:
        return Views(problem=str(error))
    unsafe = [finding for finding in audit_findings if finding.verdict is Verdict.UNSAFE]
    shares = [
        (finding.object, finding.advice.removeprefix(_CALL).removesuffix(")"))
        for finding in everywhere
        if finding.advice.startswith(_CALL)
    ]
    return Views(unsafe, list(dict.fromkeys(shares)))
