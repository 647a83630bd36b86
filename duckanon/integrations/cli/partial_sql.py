"""SQL while it is being typed: whether a statement is complete, and whether the cursor stands inside quotes."""

from __future__ import annotations

import re

# A string, a quoted name, a dollar-quoted string or a comment: closed if `end` matched, else open to the text's end.
_PART = re.compile(
    r"""
      '(?:[^']|'')*(?P<string>'|\Z)
    | "(?:[^"]|"")*(?P<name>"|\Z)
    | (?P<tag>\$\w*\$).*?(?P<dollar>(?P=tag)|\Z)
    | --[^\n]*
    | /\*.*?(?P<comment>\*/|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS = {"'": "string", '"': "name", "$": "dollar", "/": "comment"}


def _is_open(part: re.Match[str]) -> bool:
    end = _ENDS.get(part.group()[0])
    return end is not None and not part.group(end)


def open_quote(text: str) -> str:
    """The quote that is open at the end of the text: ' or ", or nothing."""
    last = max(_PART.finditer(text), key=re.Match.start, default=None)
    return last.group()[0] if last and last.group()[0] in "'\"" and _is_open(last) else ""


def is_complete(text: str) -> bool:
    """Whether Enter should run the text: it is empty, a dot-command, or ends with a semicolon that ends a statement."""
    if not text.strip() or text.lstrip().startswith("."):
        return True
    if any(_is_open(part) for part in _PART.finditer(text)):
        return False
    code = _PART.sub(lambda part: "" if part.group()[0] in "-/" else "x", text)
    return code.rstrip().endswith(";")
