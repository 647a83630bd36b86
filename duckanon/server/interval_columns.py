"""SELECT with the ends of intervals beside its noisy numbers: for `count(*) AS n` also `n_low` and `n_high`.

The query is written anew as text, and asked like any other: the guard decides whether an end is known. So what is not
an aggregate, or has no interval, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import quoted
from duckanon.server.catalog_names import column_name
from duckanon.server.lexer import Token, tokens

_ENDS = ("low", "high")
# The words behind the columns of a SELECT.
_BEHIND = {"from", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "using"}
_SETS = {"union", "intersect", "except"}
# The most numbers that are looked at: each may need a decision of its own.
_MOST = 30


@dataclass(frozen=True)
class _Item:
    """A column of a SELECT. start, end: its place in the text. ends: what is added behind it; '' where nothing is."""

    start: int
    end: int
    ends: str


def with_intervals(text: str, is_answered: Callable[[str], bool]) -> str:
    """A query with the ends of the intervals of its noisy numbers.

    is_answered: whether a query would be answered with noise; it must not run it.
    """
    outer = _outer(list(tokens(text)))
    items = _items(text, outer)
    asked = [at for at, item in enumerate(items) if item.ends]
    if not asked or len(asked) > _MOST or not is_answered(text):
        return text
    whole = _written(text, items, outer, asked)
    if is_answered(whole):
        return whole
    known = [at for at in asked if is_answered(_written(text, items, outer, [at]))]
    found = _written(text, items, outer, known)
    return found if known and is_answered(found) else text


def _outer(found: Sequence[Token]) -> list[Token]:
    """The tokens that stand in no parentheses, with these."""
    kept, depth = [], 0
    for token in found:
        depth -= token.kind == "mark" and token.text in ")]}"
        if depth <= 0:
            kept.append(token)
        depth += token.kind == "mark" and token.text in "([{"
    return kept


def _items(text: str, outer: Sequence[Token]) -> list[_Item]:
    """The columns of the only SELECT of a query; none where there are several, or its rows are to be different ones."""
    words = [one.word for one in outer]
    if words.count("select") != 1 or _SETS & set(words):
        return []
    first = words.index("select") + 1
    if words[first : first + 1] == ["distinct"]:
        return []
    first += words[first : first + 1] == ["all"]
    last = next((at for at in range(first, len(outer)) if words[at] in _BEHIND), len(outer))
    values, part = [], list[Token]()
    for token in [*outer[first:last], None]:
        if token is not None and not (token.kind == "mark" and token.text in ",;"):
            part.append(token)
        elif part:
            values.append(_item(text, part))
            part = []
    return values


def _item(text: str, part: Sequence[Token]) -> _Item:
    start, end = part[0].start, part[-1].end
    nothing = _Item(start, end, "")
    try:
        tree = sqlglot.parse_one(f"SELECT {text[start:end]}", read="duckdb").expressions[0]
    except (SqlglotError, RecursionError, IndexError):
        return nothing
    number = tree.unalias()
    if number.find(exp.AggFunc) is None or any(
        anonymou.name.lower() in _ENDS for anonymou in number.find_all(exp.Anonymous)
    ):
        return nothing
    if isinstance(tree, exp.Alias):
        behind = part[-3] if len(part) > 2 and part[-2].word == "as" else part[-2]
        end_of_number = behind.end
    else:
        end_of_number = end
    name = str(tree.alias) if isinstance(tree, exp.Alias) else column_name(number) or "number"
    of = text[start:end_of_number]
    return _Item(start, end, "".join(f", {one}({of}) AS {quoted([f'{name}_{one}'])}" for one in _ENDS))


def _written(text: str, items: Sequence[_Item], outer: Sequence[Token], places: Sequence[int]) -> str:
    """The query with the ends beside some of its columns. Columns that are named by number get their new number."""
    inserted = [(items[at].end, items[at].end, items[at].ends) for at in places]
    inserted += [
        (number.start, number.end, str(at + sum(place < at - 1 for place in places) * len(_ENDS)))
        for number in _numbers(outer)
        if 0 < (at := int(number.text)) <= len(items)
    ]
    parts, at = [], 0
    for start, end, new in sorted(inserted):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _numbers(outer: Sequence[Token]) -> list[Token]:
    """The numbers of columns in GROUP BY and ORDER BY."""
    values, within, before = [], False, ""
    for token in outer:
        if token.word == "by":
            within = before in ("group", "order")
        elif token.word in _BEHIND:
            within = False
        elif within and token.kind == "number" and token.text.isdecimal() and before in ("by", ","):
            values.append(token)
        before = token.word or token.text
    return values
