"""What the views of a database ask of its tables: found by reading them, as `duckanon audit` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from duckanon.errors import InvalidInput
from duckanon.integrations.audit.corpus import corpus
from duckanon.integrations.audit.findings import Listed, Verdict, audit

_CALL = "FROM disclosure_report("


@dataclass(frozen=True)
class Views:
    """Lines of an audit; shares: for views that publish shares, the arguments of disclosure_report, by view."""

    unsafe: Sequence[Listed] = ()
    shares: Sequence[tuple[str, str]] = ()
    problem: str = ""


def views(path: Path) -> Views:
    """What is found in the views and table macros of the database, which is opened for reading only."""
    try:
        read = corpus([path])
        found = audit(read)
        # Shares may be published of tables that nobody protected, too.
        everywhere = audit(replace(read, protected=frozenset()))
    except InvalidInput as error:
        return Views(problem=str(error))
    unsafe = [one for one in found if one.verdict is Verdict.UNSAFE]
    shares = [
        (one.object, one.advice.removeprefix(_CALL).removesuffix(")"))
        for one in everywhere
        if one.advice.startswith(_CALL)
    ]
    return Views(unsafe, list(dict.fromkeys(shares)))
