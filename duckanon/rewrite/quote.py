"""Quotes a part of a statement in a refusal, as the analyst wrote it.

The guard works on a tree with resolved names. Where a name was resolved, the node remembers the node that was written
there, so that the part can be written as it was and found in the text. Only text of the statement is quoted: nothing of
views' and macros' definitions, and no values of parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.errors import DuckanonError
from duckanon.rewrite.algebra.nodes import ROOT, Node, copied, nodes_of
from duckanon.rewrite.dialect import DIALECT

# In characters. Of a longer part the beginning is quoted.
_LONGEST = 160
# The most pieces of text that are parsed to find a part that is written in another way than sqlglot writes it.
_MOST_TRIED = 300
_ORIGIN, _PLACE = "_dk_origin", "_dk_parameter"
_RESOLVED = (exp.Table, exp.CTE, exp.Anonymous, exp.Select)
_BROKEN = (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError)
# A token for comparison: its kind, and its text where that makes a difference.
_Token = tuple[str, str]
_PARAMETER: _Token = ("VALUE", "")


E = TypeVar("E", bound=DuckanonError)


def of_part(error: E, part: Node | str | None) -> E:
    """An error about a part of a statement: its node in the tree of the text, or its name."""
    error.about = part
    return error


def let_quote(error: DuckanonError, part: str | None) -> None:
    """Let the message of an error begin with the part of the statement that it is about."""
    error.args, error.about = (not_answered(part, str(error)),), None


def not_answered(part: str | None, reason: str) -> str:
    """A reason after the part of the statement that it is about."""
    return reason if part is None else f"{part} cannot be answered. {reason}"


def remember(written: Node, copy: Node) -> list[Node]:
    """Mark the nodes of a copied query that the guard may change. Returns what was written there, by mark."""
    origins: list[Node] = []
    for node, other in zip(nodes_of(written, *_RESOLVED), nodes_of(copy, *_RESOLVED), strict=True):
        other.meta[_ORIGIN] = len(origins)
        origins.append(node)
    return origins


def stands_for(node: Node, written: Node) -> None:
    """Let a constant stand for the parameter that was written."""
    node.meta[_PLACE] = written.sql(DIALECT)


def takes_over(node: Node, other: Node) -> None:
    """Let a node that replaces another stand for what was written there."""
    if _ORIGIN in other.meta:
        node.meta[_ORIGIN] = other.meta[_ORIGIN]


def quote(sql: str, node: Node | None, origins: Sequence[Node]) -> str | None:
    """The part of the statement that a node stands for, in backticks; None if none is found.

    If a node itself was not written by the analyst, it is the least part around it that was.
    """
    tokens = _tokens(sql)
    while node is not None and tokens:
        written = _as_written(node, origins)
        piece = _written_as(sql, tokens, written)
        if piece is None and isinstance(written, exp.Column):
            # Names of columns are written out with their tables.
            piece = _written_as(sql, tokens, written.this)
        if piece is not None:
            return in_one_line(piece)
        node = node.parent
    return None


def in_one_line(text: str) -> str:
    """A text in backticks, in one line; of a longer one the beginning."""
    part = " ".join(text.split())
    return f"`{part}`" if len(part) <= _LONGEST else f"`{part[:_LONGEST].rstrip()}` ..."


def _as_written(node: Node, origins: Sequence[Node]) -> Node:
    """A copy of a node in which no name is resolved."""
    copy = copied(origins[node.meta[_ORIGIN]] if _ORIGIN in node.meta else node)
    for descendant in _outermost(copy):
        descendant.replace(copied(origins[descendant.meta[_ORIGIN]]))
    for descendant in nodes_of(copy, ROOT):
        if _PLACE in descendant.meta:
            descendant.replace(sqlglot.parse_one(descendant.meta[_PLACE], read=DIALECT))
    return copy


def _outermost(node: Node) -> list[Node]:
    """The nodes below a node that remember what was written, without those inside of others."""
    nodes: list[Node] = []
    for argument in node.args.values():
        for child in argument if isinstance(argument, list) else [argument]:
            if isinstance(child, ROOT):
                nodes += [child] if _ORIGIN in child.meta else _outermost(child)
    return nodes


# --- the text ---------------------------------------------------------------------------------------------------------


def _written_as(sql: str, tokens: Sequence[tuple[_Token, int, int]], node: Node) -> str | None:
    """The text of a node: as sqlglot writes it, or else the least piece that it reads as this node."""
    sought = [pair for pair, _, _ in _tokens(node.sql(DIALECT, comments=False))]
    known = [pair for pair, _, _ in tokens]
    for at in range(len(known) - len(sought) + 1):
        if sought and known[at : at + len(sought)] == sought:
            return sql[tokens[at][1] : tokens[at + len(sought) - 1][2]]
    return next((piece for piece in _pieces(sql, tokens, node) if _parsed(piece, node) == node), None)


def _pieces(sql: str, tokens: Sequence[tuple[_Token, int, int]], node: Node) -> Iterator[str]:
    """Pieces of the text with the names and literals of a node, the shortest first."""
    needed = Counter(_leaves(node))
    if not needed:
        return
    spans: list[tuple[int, int, int]] = []
    for start in range(len(tokens)):
        missing, left, depth = needed.copy(), needed.total(), 0
        for end in range(start, len(tokens)):
            (kind, word), _, _ = tokens[end]
            depth += (kind in ("L_PAREN", "L_BRACKET", "L_BRACE")) - (kind in ("R_PAREN", "R_BRACKET", "R_BRACE"))
            if depth < 0:
                break
            name = word.casefold()
            if name in needed:
                missing[name] -= 1
                left -= 1
            if depth == 0 and left == 0:
                spans.append((end - start, start, end))
            if missing[name] < 0 and name in needed:
                break
    for _, start, end in sorted(spans)[:_MOST_TRIED]:
        yield sql[tokens[start][1] : tokens[end][2]]


def _leaves(node: Node) -> Iterator[str]:
    for leaf in nodes_of(node, exp.Identifier, exp.Literal):
        yield str(leaf.this).casefold()


def _parsed(piece: str, node: Node) -> Node | None:
    """A piece of text as a tree of the node's kind."""
    try:
        if isinstance(node, exp.Query):
            return sqlglot.parse_one(piece, read=DIALECT)
        if isinstance(node, exp.Table | exp.TableSample):
            # It is only parsed.
            return sqlglot.parse_one(f"SELECT 1 FROM {piece}", read=DIALECT).find(type(node))  # noqa: S608
        if isinstance(node, exp.Ordered):
            return sqlglot.parse_one(f"SELECT 1 ORDER BY {piece}", read=DIALECT).find(exp.Ordered)
        return sqlglot.parse_one(f"SELECT {piece}", read=DIALECT).expressions[0]
    except _BROKEN:
        return None


@lru_cache(8)
def _tokens(sql: str) -> list[tuple[_Token, int, int]]:
    """The tokens of a text for comparison, with the places where they begin and end; none if it cannot be read."""
    try:
        tokens = sqlglot.tokenize(sql, read=DIALECT)
    except _BROKEN:
        return []
    compared: list[tuple[_Token, int, int]] = []
    for token in tokens:
        if compared and compared[-1][0] == ("PARAMETER", ""):
            # $1 and $name, like ?, stand for one value.
            compared[-1] = (_PARAMETER, compared[-1][1], token.end + 1)
        else:
            compared.append((_compared(token), token.start, token.end + 1))
    return compared


def _compared(token: object) -> _Token:
    """Names are equal in upper and lower case, with and without quotes; keywords and operators by their kind."""
    kind, word = token.token_type.name, str(token.text)  # type: ignore[attr-defined]
    if kind in ("STRING", "NUMBER"):
        return kind, word.casefold() if kind == "NUMBER" else word
    if kind in ("VAR", "IDENTIFIER") or word.replace("_", "").isalnum():
        return "", word.casefold()
    return (kind, "") if kind != "PLACEHOLDER" else _PARAMETER
