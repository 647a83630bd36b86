"""Patterns of texts that DuckDB certainly takes, so that a condition with one cannot fail.

DuckDB says that a pattern is wrong only when it compares a text with it, so the error would say that there is one.
"""

from __future__ import annotations

import re

# RE2 takes at most so many repetitions, and refuses what becomes too large a program.
_MOST_REPEATED, _LARGEST, _DEEPEST = 1000, 5000, 20
_PUNCTUATION = r"[!-/:-@\[-^`{-~]"
_IN_CLASS = rf"(?:\\(?:[dDwWsS]|{_PUNCTUATION})|[^\\\[\]^\x00-\x1f-])"
_TOKEN = re.compile(
    rf"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<apart>[|^$]|\\[bB])"
    rf"|(?P<repeat>[*+?]\??|\{{(?P<least>\d{{1,4}})(?:,(?P<most>\d{{0,4}}))?\}}\??)"
    rf"|(?P<one>\\(?:[dDwWsS]|{_PUNCTUATION})|\[\^?(?P<listed>(?:{_IN_CLASS}(?:-{_IN_CLASS})?)+)\]"
    rf"|[^\\\[\](){{}}|*+?^$\x00-\x1f])"
)
_RANGE = re.compile(rf"({_IN_CLASS})-({_IN_CLASS})")


def is_regular(pattern: str) -> bool:
    r"""Whether RE2 certainly takes a regular expression.

    It takes characters, `.`, classes such as [a-z] and \d, groups, alternatives, anchors and repetitions of what can
    be repeated, if the program is small. It takes others, too.
    """
    at, depth, repeated, is_repeatable = 0, 0, 1, False
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None or (token["repeat"] and not is_repeatable) or not _ascends(token["listed"] or ""):
            return False
        at = token.end()
        depth += bool(token["open"]) - bool(token["close"])
        repeated *= _times(token)
        if not 0 <= depth <= _DEEPEST or repeated > _MOST_REPEATED:
            return False
        is_repeatable = bool(token["close"] or token["one"])
    return depth == 0 and len(pattern) * repeated <= _LARGEST


def _times(token: re.Match[str]) -> int:
    """How often a repetition with numbers repeats at most, at least 1; too often where they are the wrong way round."""
    least, most = int(token["least"] or 1), int(token["most"] or token["least"] or 1)
    return max(1, most) if least <= most or not token["least"] else _MOST_REPEATED + 1


def _ascends(listed: str) -> bool:
    """Whether the ranges in a class run from single characters to later ones."""
    ends = [(low, high) for low, high in _RANGE.findall(listed)]
    return all(len(low) == len(high) == 1 and low <= high for low, high in ends)


def is_escaped(pattern: str, escape: str) -> bool:
    """Whether LIKE takes a pattern with an escape character: after each one there is the character that it is for."""
    return len(escape) == 1 and escape.isascii() and pattern.replace(escape * 2, "")[-1:] != escape
