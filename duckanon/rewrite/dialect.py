"""How the guard reads and writes SQL: DuckDB's dialect of sqlglot, with everything kept as it was written.

sqlglot translates between many databases, so it turns functions into others that it takes for equal: it drops arguments
and options, and knows functions that DuckDB does not have. Here a function that analysts may not call, or that sqlglot
would change, keeps its name and all its arguments; a function that sqlglot knows keeps its name; types, intervals,
numbers and units keep their text. Whether all that is written means the same is checked in DuckDB's own trees, by
`duckanon.rewrite.same_meaning`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB

from duckanon.errors import DuckanonError
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.allowed import FUNCTIONS

if not str(sqlglot.parser.__file__).endswith(".py"):
    # No class of it can be extended: the first statement would fail, and be taken for one that cannot be understood.
    raise DuckanonError(
        "The compiled build of sqlglot is installed here, in which duckanon cannot read statements: "
        "pip uninstall sqlglotc."
    )

# Functions that sqlglot writes in another way than they were written, for some arguments.
_CHANGED = frozenset(
    """
    array_append array_cat array_concat array_contains array_has array_has_all array_has_any array_intersect
    array_length array_prepend array_slice array_to_string bool_and bool_or contains current_date
    current_localtimestamp current_time current_timestamp date_add decode generate_series get_current_time
    group_concat jaro_winkler_similarity json_extract json_extract_path json_extract_path_text json_extract_string
    json_object list_append list_concat list_contains list_has list_has_all list_has_any list_prepend listagg log
    log10 log2 make_time make_timestamp range reduce regexp_extract regexp_extract_all regexp_matches regexp_replace
    strftime string_agg stringagg struct_pack time_bucket to_days to_timestamp today
    """.split()
)
# Functions whose arguments have a syntax of their own.
_SYNTAX = frozenset("cast columns extract position substring trim try_cast".split())
# What DuckDB's parser calls by another name.
_PARSED = frozenset({"percentile_cont", "percentile_disc"})
# Where the text stands with which a function's name, a unit, or a whole node was written.
_NAME, _UNIT, _WHOLE = "duckanon_name", "duckanon_unit", "duckanon_whole"
_CALL = re.compile(r"\w+(?=\()", re.ASCII)
_FIRST = re.compile(r"(?<=\()('\w+'|\w+(?= FROM ))", re.ASCII)
_FUNCTIONS = (exp.Func, exp.Mod)
_WORDS = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtime, exp.Localtimestamp)


def _is_kept(name: str) -> bool:
    """Whether sqlglot's own reading of a function is used."""
    return (name in FUNCTIONS or name in _SYNTAX or name in _PARSED) and name not in _CHANGED


def _written(node: Any, name: str, unit: str) -> Any:
    """A function that remembers how it was written. unit: the first argument, if it may be a unit of time."""
    if isinstance(node, _FUNCTIONS) and not isinstance(node, exp.Anonymous):
        if name not in _SYNTAX:
            node.meta[_NAME] = name
        if unit:
            node.meta[_UNIT] = unit
    return node


def _built(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
    """A builder of sqlglot's for a function, which remembers how it was written."""

    def named(args: Any, dialect: Any) -> Any:
        first = args[0] if args else None
        unit = f"'{first.this}'" if isinstance(first, exp.Literal) and first.is_string else ""
        try:
            found = build(args)
        except TypeError:
            found = build(args, dialect=dialect)
        return _written(found, name, unit if _has_unit(found) else "")

    return named


def _has_unit(node: Any) -> bool:
    return isinstance(node, exp.Func) and "unit" in node.arg_types


def _parsed(name: str, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A parser of sqlglot's for a function, which remembers how it was written."""

    def named(parser: Any) -> Any:
        unit = _source(parser, parser._index, parser._index + 1) if name == "extract" else ""
        return _written(parse(parser), name, unit)

    return named


def _source(parser: Any, start: int, end: int) -> str:
    """The text from one token to before another."""
    tokens = parser._tokens[start:end]
    return str(parser.sql[tokens[0].start : tokens[-1].end + 1]) if tokens else ""


def _keep_whole(interval: Any, words: Sequence[str]) -> None:
    """Give an interval all of its text back: of '1 day 02:03:04' and '3 days ago' sqlglot keeps the first two words.

    words: the tokens of the interval.
    """
    written = next((word for word in words if word[: len(interval.this.name)] == interval.this.name), "")
    if interval.this.is_string and interval.args.get("unit") is not None and len(written.split()) > 2:
        interval.set("this", exp.Literal.string(written))
        interval.set("unit", None)


def written_name(node: Node) -> str:
    """The name with which a function was called, where sqlglot has another one for it; else nothing."""
    return str(node.meta.get(_NAME, "")) if isinstance(node, _FUNCTIONS) else ""


_QUOTED: Callable[[Any, Any], Any] = DuckDB.Parser.STRING_PARSERS[TokenType.STRING]


class _Parser(DuckDB.Parser):  # type: ignore[misc,valid-type]
    FUNCTIONS: ClassVar = {
        name: _built(name.lower(), build) for name, build in DuckDB.Parser.FUNCTIONS.items() if _is_kept(name.lower())
    }
    FUNCTION_PARSERS: ClassVar = {
        name: _parsed(name.lower(), parse)
        for name, parse in DuckDB.Parser.FUNCTION_PARSERS.items()
        if _is_kept(name.lower())
    }

    # A text between dollars is a constant as one between quotes is, and is written so.
    STRING_PARSERS: ClassVar = {**DuckDB.Parser.STRING_PARSERS, TokenType.HEREDOC_STRING: _QUOTED}
    PRIMARY_PARSERS: ClassVar = {**DuckDB.Parser.PRIMARY_PARSERS, TokenType.HEREDOC_STRING: _QUOTED}

    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        **DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS,
        "IF": _parsed("if", DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS["IF"]),
    }

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        start, types = self._index, super()._parse_types(*args, **kwargs)
        if isinstance(types, exp.DataType):
            types.meta[_WHOLE] = _source(self, start, self._index)
        return types

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        start, interval = self._index, super()._parse_interval(*args, **kwargs)
        if isinstance(interval, exp.Interval) and isinstance(interval.this, exp.Literal):
            text = _source(self, start, self._index)
            if text[:8].upper() == "INTERVAL":
                interval.meta[_WHOLE] = text
            _keep_whole(interval, [token.text for token in self._tokens[start : self._index]])
        return interval

    def _parse_lambda(self, *args: Any, **kwargs: Any) -> Any:
        start, found = self._index, super()._parse_lambda(*args, **kwargs)
        if isinstance(found, exp.Lambda):
            found.meta[_NAME] = "lambda" if self._tokens[start].text.lower() == "lambda" else "->"
        return found


class _Generator(DuckDB.Generator):  # type: ignore[misc,valid-type]
    MULTI_ARG_DISTINCT = True

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        """The text of a node as it was written, as far as it is remembered."""
        if key or not isinstance(expression, exp.Expression):
            return str(super().sql(expression, key, comment))
        whole = expression.meta.get(_WHOLE)
        return str(whole or self._named(expression, str(super().sql(expression, key, comment))))

    def _named(self, node: Any, text: str) -> str:
        """A function under the name and with the unit with which it was written."""
        name, unit = (node.meta.get(text) if isinstance(node, _FUNCTIONS) else None for text in (_NAME, _UNIT))
        if unit:
            text = _FIRST.sub(lambda _: str(unit), text, count=1)
        if isinstance(node, _WORDS):
            return text.lower() if node.this is None else text
        if not name:
            return text
        match = _CALL.match(text)
        if isinstance(node, exp.If | exp.Mod):
            parts = (node.args.get(text) for text in ("this", "expression", "true", "false"))
            return f"{name}({', '.join(self.sql(part) for part in parts if part is not None)})"
        return text if match is None else f"{name}{text[match.end() :]}"

    def lambda_sql(self, expression: Any, arrow_sep: str = "->", wrap: bool = True) -> str:
        if expression.meta.get(_NAME) != "->":
            return str(super().lambda_sql(expression, arrow_sep, wrap))
        names = ", ".join(self.sql(value) for value in expression.expressions)
        return f"{f'({names})' if len(expression.expressions) != 1 else names} -> {self.sql(expression, 'this')}"

    def pow_sql(self, expression: Any) -> str:
        return (
            self.func("power", expression.this, expression.expression)
            if _NAME in expression.meta
            else str(self.binary(expression, "^"))
        )

    def startswith_sql(self, expression: Any) -> str:
        if _NAME in expression.meta:
            return str(self.func("starts_with", expression.this, expression.expression))
        return str(self.binary(expression, "^@"))

    def regexplike_sql(self, expression: Any) -> str:
        """The operator ~, which is another function in later versions of DuckDB: its functions keep their names."""
        return str(self.binary(expression, "~"))

    def between_sql(self, expression: Any) -> str:
        parts = (self.sql(expression, text) for text in ("this", "low", "high"))
        word = " SYMMETRIC" if expression.args.get("symmetric") else ""
        this, low, high = parts
        return f"{this} BETWEEN{word} {low} AND {high}"

    def withingroup_sql(self, expression: Any) -> str:
        return f"{self.sql(expression, 'this')} WITHIN GROUP ({self.sql(expression, 'expression').strip()})"

    def not_sql(self, expression: Any) -> str:
        """`x IS NOT NULL` and `x NOT IN (...)`, as DuckDB names them."""
        inner = expression.this
        if isinstance(inner, exp.Is):
            return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
        return str(super().not_sql(expression))

    TRANSFORMS: ClassVar = {
        kind: write
        for kind, write in DuckDB.Generator.TRANSFORMS.items()
        if kind not in (exp.Pow, exp.StartsWith, exp.Between, exp.Not, exp.Lambda, exp.WithinGroup, exp.RegexpLike)
    }


class Guarded(DuckDB):
    """DuckDB's dialect as the guard reads and writes it."""

    Parser = _Parser
    Generator = _Generator

    def to_json_path(self, path: Any) -> Any:
        """A path stays as it was written."""
        return path


DIALECT = Guarded


class _Separate(_Generator):
    """Writes parentheses around each operation."""

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        text = super().sql(expression, key, comment)
        apart = not key and isinstance(expression, _OPERATIONS) and not isinstance(expression.parent, _HOLDING)
        return f"({text})" if apart and text else text


_OPERATIONS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.DPipe, exp.EQ, exp.NEQ, exp.GT, exp.GTE,
    exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Or, exp.Neg, exp.Not, exp.BitwiseAnd,
    exp.BitwiseOr, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.BitwiseNot, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.SimilarTo, exp.RegexpLike, exp.Glob,
)  # fmt: skip

# What is written without parentheses in these is one with them.
_HOLDING = (exp.Escape, exp.Pivot)


class Separated(Guarded):
    """As `Guarded`, with parentheses around each operation: so that the order of operations in the tree is seen."""

    Generator = _Separate


# --- what was read ----------------------------------------------------------------------------------------------------

# The text of a query, and the text of what the guard understood by it. DuckDB parses both, and `same_meaning` compares
# the trees, so that nothing is answered that was not asked.
Reading: TypeAlias = tuple[str, str]
_BEGINS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "PIVOT", "TABLE"})


def reading(text: str, query: Node, *, is_within: bool = False) -> Reading:
    """A query's text, and what was understood by it. is_within: whether more than the query stands in the text."""
    understood = str(query.sql(Separated, comments=False, normalize_functions=False))
    return (_query_in(text) if is_within else text), understood


def _query_in(text: str) -> str:
    """The query in a statement that creates something from it, or inserts it."""
    depth, opened = 0, len(text)
    words = [(token.text.upper(), token) for token in sqlglot.tokenize(text, read=DIALECT)]
    is_create = bool(words) and words[0][0] == "CREATE"
    for word, token in words:
        is_name = token.token_type.name == "IDENTIFIER"
        if depth == 0 and not is_name and is_create and word == "AS":
            return text[token.end + 1 :]
        if depth == 0 and not is_name and not is_create and word in _BEGINS:
            return text[token.start :]
        if token.token_type.name == "L_PAREN":
            opened = token.start if depth == 0 else opened
            depth += 1
        elif token.token_type.name == "R_PAREN":
            depth -= 1
    return text[opened:]
