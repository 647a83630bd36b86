"""Why queries are refused, with what is particular to each query left out, so that reasons can be counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_QUOTED_PART = re.compile(r"^`.*?` cannot be answered\. ", re.DOTALL)
_PROPOSAL = re.compile(r" What may be asked: .*", re.DOTALL)
_NAME = re.compile(r'"[^"]*"|`[^`]*`|\b\w+\.\w+\b')
_NUMBER = re.compile(r"\b\d[\d,.]*\b")


def reason(sentence: str) -> str:
    """The rule that a refusal states, without the part of the query, the way out, names and numbers."""
    rule = _PROPOSAL.sub("", _QUOTED_PART.sub("", sentence))
    rule = re.split(r": |\. ", rule, maxsplit=1)[0].rstrip(".")
    return _NUMBER.sub("N", _NAME.sub("...", rule))


def tally(sentences: Iterable[str]) -> list[tuple[str, int]]:
    """The reasons, the most frequent first."""
    return Counter(map(reason, sentences)).most_common()
