"""The first check: a single statement of a kind that an analyst may run, made of known parts.

Everything that is not listed is refused. Functions are checked later, by `verify`, in DuckDB's own tree of the text
that will run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import fold
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import ROOT, Node, kinds_of, nodes_of
from duckanon.rewrite.allowed import NO_TRY, OWN
from duckanon.rewrite.dialect import DIALECT, Reading, reading
from duckanon.rewrite.normalize.desugar import PIVOTS, ordered_around, pivots
from duckanon.rewrite.quote import let_quote, of_part, quote

# In characters. A longer statement would take seconds to parse.
_LONGEST = 100_000
_DEEPEST = 200
# Versions of sqlglot parse these differently, so they are recognised by their first word.
_ABOUT = re.compile(r"\s*(DESCRIBE|DESC|SHOW|SUMMARIZE|EXPLAIN|PRAGMA)\b\s*(.*?)\s*;?\s*", re.ASCII | re.I | re.DOTALL)
_AS_JSON = re.compile(r"\(\s*FORMAT\s+JSON\s*\)\s*", re.ASCII | re.IGNORECASE)
_QUERY = re.compile(r"(SELECT|WITH|FROM|VALUES|PIVOT|TABLE\s+SELECT)\b|\(", re.ASCII | re.IGNORECASE)
_TABLE_INFO = re.compile(r"table_info\s*\((.*)\)", re.ASCII | re.IGNORECASE | re.DOTALL)
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*([A-Za-z_]+)", re.ASCII | re.DOTALL)
# The first words of DuckDB's other statements.
_OTHERS = frozenset(
    """
    ALTER ANALYZE ATTACH CALL CHECKPOINT COMMENT COPY DEALLOCATE DELETE DETACH EXECUTE EXPORT FORCE IMPORT INSTALL LOAD
    MERGE PREPARE REINDEX RESET SET TRUNCATE UPDATE USE VACUUM
    """.split()
)
_TRANSACTIONS = frozenset({"ABORT", "BEGIN", "COMMIT", "END", "ROLLBACK", "START"})

# sqlglot logs what it cannot parse; the guard refuses that with an error of its own.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class Kind(Enum):
    """The kinds of statements that an analyst may run."""

    QUERY = "query"
    CREATE = "create a temporary table"
    INSERT = "insert into a temporary table"
    DROP = "drop a temporary table"
    TRANSACTION = "transaction"
    VIEW = "create a temporary view"
    DROP_VIEW = "drop a temporary view"
    TABLES = "list tables"
    DESCRIBE = "describe a table or a query"
    SUMMARIZE = "summarize a table or a query"
    EXPLAIN = "explain a query"


@dataclass(frozen=True)
class Statement:
    """An admitted statement. tree: of the whole statement. query: the query in it, if there is one.

    listed: what a statement that lists tables lists: TABLES, ALL TABLES or DATABASES. text: as it was written, to be
    quoted. readings: of the query. form: JSON, of an EXPLAIN that shows its plan so.
    """

    kind: Kind
    tree: Node
    query: Node | None = None
    listed: str = ""
    text: str = ""
    readings: tuple[Reading, ...] = ()
    form: str = ""


# sqlglot's classes for parts of queries other than functions. Some exist in later versions only.
_PARTS = frozenset(
    """
    Select From Where Group Having Qualify Order Ordered Limit Offset Distinct Join With CTE Subquery Table
    TableAlias Alias Aliases Column Identifier Star Literal Boolean Null Paren Tuple Values Union Except Intersect
    Cube Rollup GroupingSets Window WindowSpec Windows Filter WithinGroup IgnoreNulls RespectNulls HavingMax
    Lateral Unnest Placeholder Parameter Var Between In Exists Any All Is Not Neg BitwiseNot And Or Xor EQ NEQ
    NullSafeEQ NullSafeNEQ GT GTE LT LTE Add Sub Mul Div IntDiv Mod Pow DPipe BitwiseAnd BitwiseOr BitwiseXor
    BitwiseLeftShift BitwiseRightShift Like ILike SimilarTo RegexpLike RegexpILike Glob Escape Collate Case If
    Cast TryCast DataType DataTypeParam Interval IntervalSpan Bracket Slice Dot Lambda Kwarg PropertyEQ KeyValue
    Struct Array Map ToMap Columns Comprehension AtTimeZone Extract ColumnDef RowColumnExpand JSONPath
    TableSample JSONPathRoot JSONPathKey JSONPathSubscript JSONPathWildcard JSONPathSlice
    """.split()
)
_QUERIES = (exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.Values)


def admit(sql: str) -> Statement:
    """The one statement in `sql`. Raises UnsupportedQuery, with the reason and what to do instead."""
    if len(sql) > _LONGEST:
        raise UnsupportedQuery(f"The statement is longer than {_LONGEST:,} characters: split it with temporary tables.")
    if "\0" in sql or not _is_unicode(sql):
        raise UnsupportedQuery("The statement holds characters that are no text: write it in plain Unicode.")
    about = _ABOUT.fullmatch(sql)
    statement = _parsed(sql) if about is None else _about(about[1].upper(), about[2])
    return replace(statement, text=sql)


# A query comes after these words, or, but for EXPLAIN, the name of a table.
_WRAPS = {
    "SHOW": Kind.DESCRIBE,
    "DESCRIBE": Kind.DESCRIBE,
    "DESC": Kind.DESCRIBE,
    "SUMMARIZE": Kind.SUMMARIZE,
    "EXPLAIN": Kind.EXPLAIN,
}


def _about(word: str, rest: str) -> Statement:
    """A statement about tables and queries: DESCRIBE, SHOW, SUMMARIZE, EXPLAIN or PRAGMA, and what comes after it."""
    listed, kind = " ".join(rest.upper().split()), _WRAPS.get(word)
    as_json = _AS_JSON.match(rest) if kind is Kind.EXPLAIN else None
    if as_json is not None:
        return replace(_about(word, rest[as_json.end() :]), form="JSON")
    if kind is Kind.DESCRIBE and listed in ("", "TABLES", "ALL TABLES", "DATABASES"):
        return Statement(Kind.TABLES, exp.Null(), listed=listed or "ALL TABLES")
    if kind is not None and (kind is not Kind.EXPLAIN or _QUERY.match(rest)):
        statement = _parsed(rest if _QUERY.match(rest) else f"FROM {rest}")
        if statement.kind is Kind.QUERY:
            return Statement(kind, exp.Null(), statement.query, readings=statement.readings)
    table_info = _TABLE_INFO.fullmatch(rest)
    if word == "PRAGMA" and table_info is not None:
        return _parsed(f"FROM pragma_table_info({table_info[1]})")
    if word == "PRAGMA" and listed == "SHOW_TABLES":
        return Statement(Kind.TABLES, exp.Null(), listed="TABLES")
    raise UnsupportedQuery(
        f"An analyst's connection does not run this {word}: it knows DESCRIBE, SHOW TABLES, SHOW ALL TABLES, "
        "SUMMARIZE, EXPLAIN of a query, and PRAGMA table_info('name')."
    )


def _parsed(sql: str) -> Statement:
    """The one statement in a text, with its question marks numbered."""
    written, sql = sql, numbered(sql)
    try:
        if "PIVOT" in sql.upper():
            sql = ordered_around(sql)
        trees = sqlglot.parse(sql, read=DIALECT)
        trees = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
        if not trees:
            raise UnsupportedQuery("There is no statement in the text: send a query.")
        if len(trees) != 1:
            raise UnsupportedQuery("An analyst runs one statement at a time: send each of them alone.")
        tree: Node = trees[0]
        readings = _readings(sql, tree)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        _refuse(sql)
    try:
        kinds = kinds_of(tree)
        for node in nodes_of(tree, exp.Fetch) if exp.Fetch in kinds else ():
            _as_limit(node)
        statement = _kind(tree if kinds.isdisjoint(PIVOTS) else pivots(tree))
    except UnsupportedQuery as no:
        let_quote(no, quote(written, no.about, ()))
        raise
    if statement is None:
        _refuse(sql, tree)
    return replace(statement, readings=readings)


def _refuse(sql: str, tree: Node | None = None) -> NoReturn:
    """Raises UnsupportedQuery for a text that is neither a query nor another statement that is admitted.

    tree: of the text, if it could be parsed. sqlglot reads a word alone as a column, and two as a column with a name.
    The parser's own message, which would quote the statement, is left out.
    """
    first = _FIRST_WORD.match(sql)
    word = first[1].upper() if first is not None else ""
    if word in _TRANSACTIONS:
        raise UnsupportedQuery(
            "A transaction begins with BEGIN and ends with COMMIT or ROLLBACK: leave out what else is written there."
        ) from None
    if word not in _OTHERS and isinstance(tree, exp.DML):  # after WITH
        word = tree.key.upper()
    elif word not in _OTHERS and not isinstance(tree, exp.Command):
        if word == "PIVOT":
            raise UnsupportedQuery(
                "This PIVOT cannot be understood: write it as in PIVOT t ON sex USING count(*) GROUP BY state ORDER BY "
                "state, and put anything else around it, in FROM (PIVOT ...)."
            ) from None
        raise UnsupportedQuery(
            "The statement cannot be understood, so it cannot be checked: look for a mistake, or write it more plainly."
        ) from None
    raise UnsupportedQuery(
        f"An analyst's connection does not run {word[:20]} statements: it answers queries, and keeps results in "
        "temporary tables (CREATE TEMP TABLE name AS query)."
    ) from None


def numbered(sql: str) -> str:
    """The text with $1, $2, ... in place of its question marks, in their order.

    Text that cannot be read stays as it is.
    """
    if "?" not in sql:
        return sql
    try:
        tokens = sqlglot.tokenize(sql, read=DIALECT)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        return sql
    marks = [
        token for token in tokens if token.token_type.name == "PLACEHOLDER" and sql[token.start : token.end + 1] == "?"
    ]
    for number, mark in reversed(list(enumerate(marks, 1))):
        sql = f"{sql[: mark.start]}${number}{sql[mark.end + 1 :]}"
    return sql


def _readings(sql: str, tree: Node) -> tuple[Reading, ...]:
    """The reading of the query in a statement, if it has one."""
    if isinstance(tree, _QUERIES):
        return (reading(sql, tree),)
    query = tree.args.get("expression") if isinstance(tree, exp.Create | exp.Insert) else None
    return (reading(sql, query, is_within=True),) if isinstance(query, _QUERIES) else ()


def _as_limit(fetch: Node) -> None:
    """Write FETCH FIRST 3 ROWS ONLY as LIMIT 3. Raises UnsupportedQuery."""
    options = fetch.args.get("limit_options")
    ties = fetch.args.get("with_ties") or fetch.args.get("percent") or (options and options.args.get("with_ties"))
    count = fetch.args.get("count")
    if ties or (options and options.args.get("percent")) or count is None:
        raise of_part(
            UnsupportedQuery("FETCH is followed as in FETCH FIRST 10 ROWS ONLY: use LIMIT for anything else."), fetch
        )
    fetch.replace(exp.Limit(expression=count.copy()))


def _is_unicode(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(tree: Node) -> Statement | None:
    if isinstance(tree, _QUERIES):
        return Statement(Kind.QUERY, tree, known(tree))
    if isinstance(tree, exp.Create):
        return _create(tree)
    if isinstance(tree, exp.Insert):
        return _insert(tree)
    if isinstance(tree, exp.Drop):
        return _drop(tree)
    if isinstance(tree, exp.Transaction | exp.Commit | exp.Rollback) and not any(tree.args.values()):
        return Statement(Kind.TRANSACTION, tree)
    return None


def known(query: Node) -> Node:
    """The query, if it is made of known parts and not nested too deeply. Raises UnsupportedQuery."""
    level = {id(query): 1}
    for node in nodes_of(query, ROOT):
        above = node.parent
        level[id(node)] = 1 + (level.get(id(above), 0) if above is not None else 0)
        if level[id(node)] > _DEEPEST:
            raise UnsupportedQuery("The statement is nested too deeply: split it with temporary tables.")
        name = type(node).__name__
        if isinstance(node, exp.Anonymous) and str(node.this).upper() == "TRY":
            raise of_part(UnsupportedQuery(NO_TRY), node)
        if isinstance(node, exp.Anonymous) and fold(node.name) in OWN:
            raise of_part(
                UnsupportedQuery("The ends of intervals are low(...) and high(...) of a number with noise."), node
            )
        if name not in _PARTS and not isinstance(node, exp.Func):
            raise of_part(
                UnsupportedQuery(f"The statement holds what the guard does not know ({name}): write it another way."),
                node,
            )
        if isinstance(node, exp.Select | exp.Table | exp.Subquery):
            _without(node)
    return query


# Parts of a query that the guard does not know.
_UNKNOWN: Mapping[type, Sequence[str]] = {
    exp.Select: ("into", "locks", "hint", "operation_modifiers", "pivots", "match"),
    exp.Table: ("pivots", "version", "when", "changes", "hints", "partition", "only", "rows_from"),
    exp.Subquery: ("pivots",),
}
# What stands in the text for some parts of the tree.
_CLAUSES = {"locks": "FOR UPDATE", "when": "AT", "rows_from": "ROWS FROM", "match": "MATCH_RECOGNIZE"}


def _without(node: Node) -> None:
    """Raises UnsupportedQuery for a part of a query that the guard does not know."""
    arguments = {name.rstrip("_"): argument for name, argument in node.args.items() if argument}
    unknown = (parts for kind, parts in _UNKNOWN.items() if isinstance(node, kind))
    for part in (part for parts in unknown for part in parts if part in arguments):
        unknown_part = arguments[part][0] if isinstance(arguments[part], list) else arguments[part]
        # (sqlglot does not write FOR UPDATE in DuckDB's dialect.)
        quoted = None if part == "locks" else unknown_part if isinstance(unknown_part, ROOT) else node
        clause = _CLAUSES.get(part, part.upper())
        raise of_part(UnsupportedQuery(f"The guard does not know {clause} here: write the query without it."), quoted)


def _only(node: Node, *names: str) -> bool:
    """Whether a node has no other arguments than these."""
    return all(
        name in names or argument is None or argument is False or argument == [] for name, argument in node.args.items()
    )


def _create(tree: Node) -> Statement:
    properties = [type(entry).__name__ for entry in getattr(tree.args.get("properties"), "expressions", [])]
    query, kind = tree.args.get("expression"), tree.args.get("kind")
    # A view may name its columns.
    named = kind == "VIEW" and isinstance(tree.this, exp.Schema)
    columns = tree.this.expressions if named else []
    plain = (
        kind in ("TABLE", "VIEW")
        and properties == ["TemporaryProperty"]
        and isinstance(tree.this.this if named else tree.this, exp.Table)
        and all(isinstance(column, exp.Identifier) for column in columns)
        and isinstance(query, _QUERIES)
        and _only(tree, "this", "kind", "replace", "exists", "properties", "expression")
    )
    if not plain:
        raise UnsupportedQuery(
            "An analyst creates nothing but temporary views, and temporary tables with a result in them: CREATE TEMP "
            "TABLE name AS query."
        )
    return Statement(Kind.VIEW if kind == "VIEW" else Kind.CREATE, tree, known(query))


def _insert(tree: Node) -> Statement:
    target, query = tree.this, tree.args.get("expression")
    if isinstance(target, exp.Schema):
        columns, target = target.expressions, target.this
    else:
        columns = []
    plain = (
        isinstance(target, exp.Table)
        and not target.args.get("alias")
        and all(isinstance(column, exp.Identifier) for column in columns)
        and isinstance(query, _QUERIES)
        and _only(tree, "this", "expression", "by_name")
    )
    if not plain:
        raise UnsupportedQuery("An analyst inserts into temporary tables, as in INSERT INTO name query: nothing else.")
    return Statement(Kind.INSERT, tree, known(query))


def _drop(tree: Node) -> Statement:
    targets = tree.args.get("tables") or [tree.this]
    kind = tree.args.get("kind")
    plain = kind in ("TABLE", "VIEW") and len(targets) == 1 and isinstance(targets[0], exp.Table)
    if not plain or not _only(tree, "this", "tables", "kind", "exists"):
        raise UnsupportedQuery(
            "An analyst drops nothing but temporary tables and views, one at a time: DROP TABLE name."
        )
    return Statement(Kind.DROP_VIEW if kind == "VIEW" else Kind.DROP, tree)
