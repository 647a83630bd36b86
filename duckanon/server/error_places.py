"""Where in a statement's text an error is: PostgreSQL's clients point at that place."""

from __future__ import annotations

import re

# What the guard quotes stands first, in backticks. DuckDB's errors have names in quotes.
_QUOTED = re.compile(r"`(.+?)`( \.\.\.)? ", re.DOTALL)
_READ_OTHERWISE = re.compile(
    r"The guard does not read this part as DuckDB does, so it does not run it: (.+?)( \.\.\.)? Write "
)
_NAMED = re.compile(
    r'(?:column|column named|name|function|schema|type|near) "([^"]+)"|with name (\S+?) does not exist', re.IGNORECASE
)


def place(text: str, sentence: str, start: int = 0) -> int | None:
    """The number of the character in a text, from 1, at which the part begins that an error names; None if none does.

    start: where the statement begins in the text. What is quoted may be broken into lines otherwise.
    """
    part = _QUOTED.match(sentence) or _READ_OTHERWISE.match(sentence)
    words = part[1].split() if part is not None else []
    if not words:
        named = _NAMED.search(sentence)
        if named is None:
            return None
        words = [named[1] or named[2]]
    pattern = r"\s+".join(map(re.escape, words))
    whole = re.compile(
        rf"(?<!\w){pattern}(?!\w)" if words == [words[0]] and words[0].isidentifier() else pattern, re.IGNORECASE
    )
    match = whole.search(text, start) or re.compile(pattern, re.IGNORECASE).search(text, start)
    return None if match is None else match.start() + 1
