"""Why queries are refused, with what is particular to each query left out, so that reasons can be counted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar

Asked = TypeVar("Asked", bound=Hashable)
_QUOTED_PART = re.compile(r"^`.*?`(?: \.\.\.)? cannot be answered\. ", re.DOTALL)
_AFTER_THE_RULE = re.compile(r"(?:: |\. |\.$).*", re.DOTALL)
_LIST = re.compile(r" \([^)]*\)")


def reason(sentence: str, tables: Collection[str]) -> str:
    """The rule that a refusal states, without the part of the query, the way out, lists, and the tables' names."""
    rule = _AFTER_THE_RULE.sub("", _QUOTED_PART.sub("", sentence))
    return re.sub(rf"\b(?:{'|'.join(tables)})\b", "TABLE", _LIST.sub("", rule))


def by_reason(refused: Iterable[tuple[Asked, str]], tables: Collection[str]) -> list[tuple[str, list[Asked]]]:
    """What was refused for each reason, the most frequent first. refused: what was asked, with the sentence."""
    found: dict[str, list[Asked]] = defaultdict(list)
    for asked, sentence in refused:
        found[reason(sentence, tables)].append(asked)
    return sorted(found.items(), key=lambda one: -len(one[1]))
