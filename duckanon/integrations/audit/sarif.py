"""Findings of an audit in SARIF 2.1.0, the format that code hosts and editors read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from duckanon import __version__
from duckanon.integrations.audit.findings import AuditFinding, Verdict

_RULES = {
    "group-size": "Exact numbers of groups by their size leave the table.",
    "conditional": "Proportions leave the table, from which counts may be worked out.",
    "count": "Exact counts leave the table.",
    "row-level": "Values of single records leave the table.",
    "unknown": "What leaves the table is not proven to be safe.",
}
_LEVELS = {Verdict.UNSAFE: "error", Verdict.CHECK: "warning", Verdict.UNREAD: "note"}


def as_sarif(listed: Sequence[AuditFinding], out: TextIO) -> None:
    """Write one run with a result for each line of the report."""
    names = list(_RULES)
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()]
    run = {
        "tool": {"driver": {"name": "duckanon", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, names.index(finding.kind)) for finding in listed],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    json.dump(log, out, indent=2, ensure_ascii=False)
    out.write("\n")


def _result(finding: AuditFinding, rule: int) -> dict[str, Any]:
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(finding.path)}, "region": {"startLine": finding.line}}
    }
    if finding.object:
        place["logicalLocations"] = [{"name": finding.object}]
    return {
        "ruleId": finding.kind,
        "ruleIndex": rule,
        "level": _LEVELS[finding.verdict],
        "message": {"text": f"{finding.found}. {finding.advice}"},
        "locations": [place],
    }


def _uri(path: Path) -> str:
    """The path as a reference from the working folder, or as a file URI if it lies elsewhere."""
    full = path.resolve()
    if full.is_relative_to(Path.cwd()):
        return quote(full.relative_to(Path.cwd()).as_posix())
    return full.as_uri()
