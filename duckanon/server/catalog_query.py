"""Which statements are queries about PostgreSQL's catalogs, what they read, and the types of their parameters.

A query is about catalogs if every relation that it reads is one of PostgreSQL's, and it reads at least one or calls one
of PostgreSQL's functions about them. What sqlglot cannot parse is removed from its text (catalog_text). The rest is
parsed as PostgreSQL, checked here, rewritten as a tree (catalog_rewrite), and written as PostgreSQL again, which DuckDB
can run: functions that DuckDB lacks are macros in sql/server/functions.sql.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import ROOT, Node
from duckanon.server import types
from duckanon.server.catalog_facts import INFORMATION, NO_ROWS, PG, ROWS_OF, relations, scalars, type_numbers
from duckanon.server.catalog_text import plain
from duckanon.server.types import PgType

# In characters. A longer statement would take seconds to parse; of those that are kept, each takes up to 10 MB.
_LONGEST, _LONGEST_KEPT = 100_000, 30_000
# A quick check: a text without any of these is not about catalogs.
MENTIONS = re.compile(
    r"pg_|information_schema|regclass|regtype|current_|session_user|version|to_reg|format_type"
    r"|\buser\b|has_\w+_privilege|_description|set_config|quote_|generate_subscripts|inet_|txid_|acl|getdatabaseencoding",
    re.IGNORECASE,
)
_UNREADABLE = (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError)

# Functions of DuckDB that mean the same in PostgreSQL, by the name that a query gives them.
_SHARED = frozenset(
    """
    abs all any array_agg array_length array_position array_to_string avg bool_and bool_or btrim ceil chr coalesce
    concat count date_trunc every floor format generate_series greatest initcap jsonb_agg json_agg json_build_object
    jsonb_build_object least left length lower lpad ltrim max min mod now nullif octet_length position rank dense_rank
    regexp_replace repeat replace right round row_number row_to_json rpad rtrim split_part starts_with string_agg
    string_to_array strpos substr substring sum to_char to_json trim unnest upper
    """.split()
)
# The same, by sqlglot's classes: how a name is parsed differs between its versions. Some are operators.
_SHARED_CLASSES = frozenset(
    """
    Abs All And Any Array ArrayAgg ArrayConcat ArrayLength ArrayRemove ArraySize ArrayToString Avg Case Cast Ceil
    Coalesce Concat Count CurrentDate CurrentTimestamp Exists Explode ExplodingGenerateSeries Extract Floor
    GenerateSeries Greatest Localtimestamp
    GroupConcat If JSONExtract JSONExtractScalar JSONBuildObject JSONObject Least Left Length LogicalAnd LogicalOr Lower
    Max Min Mod Nullif Or Pad RegexpILike RegexpLike RegexpReplace Repeat Replace Right Round RowNumber Rank DenseRank
    SplitPart StartsWith StrPosition StringToArray Substring Sum TimeToStr TimestampTrunc ToChar Trim TryCast Unnest
    Upper Xor Chr Initcap Not Cardinality Format Lead Lag
    """.split()
)
_TABLE_LIKE = "pg_partition_ancestors pg_partition_tree generate_subscripts _pg_expandarray pg_get_keywords"
_SETS = frozenset(_TABLE_LIKE.split()) | frozenset(NO_ROWS) | frozenset(ROWS_OF)
# For each type of object numbers, the macro that gives an object's name.
NAMED_BY = {"regclass": "dk_class_name", "regtype": "dk_type_name", "regnamespace": "dk_namespace_name"}


@dataclass(frozen=True)
class CatalogQuery:
    """A query about catalogs as it was parsed. reads: the catalogs, by schema and name."""

    tree: Node
    reads: frozenset[tuple[str, str]]

    @property
    def parameters(self) -> Sequence[PgType]:
        """The types of $1, $2 and so on, by what they are cast to or compared with; text where neither is known."""
        pg_types: dict[int, PgType] = {}
        for node in self.tree.find_all(exp.Parameter):
            at, parameter_type = place(node), _parameter_type(node)
            if parameter_type is not None or at not in pg_types:
                pg_types[at] = parameter_type or types.TEXT
        return [pg_types.get(at, types.TEXT) for at in range(1, max(pg_types, default=0) + 1)]


def parsed(text: str) -> CatalogQuery | None:
    """The query in a text, if it is a single one about catalogs alone; else None."""
    if len(text) > _LONGEST or not MENTIONS.search(text):
        return None
    return _kept(text) if len(text) <= _LONGEST_KEPT else _parsed(text)


def known(text: str) -> CatalogQuery:
    """As `parsed`. Raises UnsupportedQuery if the text is not a single query about catalogs alone."""
    query = parsed(text)
    if query is None:
        raise UnsupportedQuery("This is no query about catalogs alone.")
    return query


def _parsed(text: str) -> CatalogQuery | None:
    try:
        trees = [tree for tree in sqlglot.parse(plain(text), read="postgres") if tree is not None]
    except _UNREADABLE:
        return None
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        return None
    tree = trees[0]
    reads = _reads(tree)
    if reads is None or not (reads or _calls(tree) & _emulated() or _names_objects(tree)):
        return None
    return CatalogQuery(tree, reads)


_kept = lru_cache(maxsize=32)(_parsed)


def _reads(tree: Node) -> frozenset[tuple[str, str]] | None:
    """The catalogs that a query reads, or None if it reads anything else."""
    own = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    found = set()
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):  # a function
            continue
        name, schema = table.name.lower(), table.db.lower()
        if name in own and not schema:
            continue
        where = INFORMATION if schema == INFORMATION else PG
        if (where, name) not in relations() or schema not in ("", INFORMATION):
            return None
        found.add((where, name))
    return frozenset(found)


@cache
def _emulated() -> frozenset[str]:
    """The emulated functions, by name."""
    return scalars() | _SETS | {"to_regclass", "to_regtype"}


def _calls(tree: Node) -> set[str]:
    """The names of the functions that a query calls, as far as they are not sqlglot's own classes."""
    return {str(node.name).lower() for node in tree.find_all(exp.Anonymous)} | {
        node.sql_name().lower() for node in tree.find_all(exp.Func) if not isinstance(node, exp.Anonymous)
    }


def _names_objects(tree: Node) -> bool:
    return any(cast_to(node) in NAMED_BY for node in tree.find_all(exp.Cast))


def check(tree: Node) -> None:
    """Refuse functions that are not listed, with UnsupportedQuery.

    A catalog query can reach only names and types anyway: the list limits its work, and makes its errors clear.
    """
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            name = str(node.name).lower()
            if name not in _emulated() and name not in _SHARED:
                raise UnsupportedQuery(f"The catalog does not know the function {name[:60]}.")
        elif isinstance(node, exp.Func) and type(node).__name__ not in _SHARED_CLASSES:
            name = node.sql_name().lower()
            if name not in _emulated() and name not in _SHARED:
                raise UnsupportedQuery(f"The catalog does not know the function {name[:60]}.")
        elif isinstance(node, exp.Select) and node.args.get("into"):
            raise UnsupportedQuery("Catalog queries do not write tables.")


def cast_to(node: Node) -> str:
    """The type that a cast names, in lower case and without its length: oid, text[] and so on."""
    kind = node.args.get("to")
    written = kind.sql(dialect="postgres") if isinstance(kind, ROOT) else str(kind)
    return re.sub(r"\(.*?\)", "", written).replace('"', "").lower()


def place(node: Node) -> int:
    """The number of a parameter, from 1; 0 if it has none."""
    said = str(node.name or node.this)
    return int(said) if said.isdigit() else 0


def _parameter_type(node: Node) -> PgType | None:
    """The type of a parameter by how it is used, if the type follows from that."""
    above = node.parent
    while isinstance(above, exp.Paren):
        node, above = above, above.parent
    if isinstance(above, exp.Cast):
        return _type_of(cast_to(above))
    if isinstance(above, exp.Limit | exp.Offset):
        return types.INT8
    if isinstance(above, exp.Anonymous) and str(above.name).lower().startswith("pg_get_"):
        return types.BOOL if above.expressions[0] is not node else types.OID
    in_array = isinstance(above, exp.Any | exp.Array)
    compared = above
    while isinstance(compared, exp.Any | exp.Array | exp.Paren | exp.Tuple):
        compared = compared.parent
    if isinstance(compared, exp.In | exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.All):
        for column in compared.find_all(exp.Column):
            pg_type = column_type(str(column.name).lower(), frozenset(relations()))
            if pg_type is not None:
                return types.array_of(pg_type) if in_array and isinstance(above, exp.Any) else pg_type
    return types.array_of(types.TEXT) if isinstance(above, exp.Any) else None


def _type_of(spelled: str) -> PgType | None:
    spelled = spelled.replace("_list", "[]")
    if spelled.rstrip("[]") in (*NAMED_BY, "regproc", "regprocedure"):
        return types.TEXT
    if spelled == "char":
        return types.BPCHAR
    number = type_numbers().get(spelled.rstrip("[]"))
    known = types.BY_OID.get(number) if number is not None else None
    return types.array_of(known) if known is not None and spelled.endswith("[]") else known


def column_type(name: str, reads: frozenset[tuple[str, str]]) -> PgType | None:
    """The type of a catalog's column, if all catalogs that have one of this name agree."""
    kinds = {relations()[pair].columns[name] for pair in reads if name in relations()[pair].columns}
    if len(kinds) != 1:
        return None
    return types.BY_OID.get(type_numbers().get(next(iter(kinds)), 0))
