"""Spellings that are written as others before anything looks for a meaning: PIVOT, lists of quantiles, WITH.

Each becomes the plain SQL that it stands for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import product

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import fold
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.rewrite.algebra.nodes import FROM, ROOT, WITH, Node, arg, copied, name_of, nodes_of, sources
from duckanon.rewrite.column_names import default_name
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.column_sources import Named, named_around, shown_by, values_at_source
from duckanon.rewrite.normalize.grouped import aggregates_itself
from duckanon.rewrite.quote import takes_over

# The most columns: nobody reads a wider table.
_MOST_VALUES = 1_000
# The nodes that `pivots` is about.
PIVOTS = (exp.Pivot,)
_UNLISTED = (
    "PIVOT is followed with its values written out, as in PIVOT t ON sex IN ('f', 'm') USING count(*) GROUP BY state: "
    "write them out, or use GROUP BY."
)
# What may stand at the end of a PIVOT, and is about its rows.
_AROUND = ("ORDER_BY", "LIMIT", "OFFSET")
_UNPIVOTED = "UNPIVOT is not followed: write a UNION ALL of the columns."


def ordered_around(text: str) -> str:
    """A PIVOT in FROM, with its ORDER BY and LIMIT around it, as sqlglot does not read them at its end.

    Other text stays as it is. Raises sqlglot's TokenError.
    """
    tokens = [(token.token_type.name, token.start) for token in sqlglot.tokenize(text, read=DIALECT)]
    depth = 0
    for kind, start in tokens if tokens and tokens[0][0] == "PIVOT" else ():
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0 and kind in _AROUND:
            return f"FROM ({text[:start]}) {text[start:]}"
    return text


def pivots(tree: Node) -> Node:
    """The statement with its PIVOTs written as GROUP BY; it is changed in place. Raises UnsupportedQuery.

    PIVOT t ON sex IN ('f', 'm') USING count(*) GROUP BY state becomes
    SELECT state, count(*) FILTER (WHERE sex = 'f') AS f, count(*) FILTER (WHERE sex = 'm') AS m FROM t GROUP BY state.
    """
    for node in nodes_of(tree, *PIVOTS):
        holder = node.parent
        if holder is None:
            tree = _select(node, node.this)
            given = arg(node, "with")
            if given is not None:
                tree.set(WITH, given)
        elif node.arg_key == "pivots":
            _replace_source(holder, node)
        else:
            node.replace(_select(node, node.this))
    return tree


def _replace_source(source: Node, pivot: Node) -> None:
    """Replace a source of FROM with a PIVOT behind it by a subquery."""
    if len(source.args["pivots"]) != 1:
        raise UnsupportedQuery("One PIVOT is followed at a time: use a subquery.")
    bare = copied(source)
    bare.set("pivots", None)
    bare.set("joins", None)
    alias = pivot.args.get("alias")
    source.replace(exp.Subquery(this=_select(pivot, bare), alias=alias, joins=source.args.get("joins")))


def _select(pivot: Node, source: Node) -> Node:
    """The grouping query of a PIVOT of a source."""
    if pivot.args.get("unpivot"):
        raise UnsupportedQuery(_UNPIVOTED)
    fields = list(pivot.args.get("fields") or [])
    field = pivot.args.get("field")
    fields += [] if field is None else [field]
    using = list(pivot.args.get("using") or [])
    axes, aggregates = (fields, list(pivot.expressions)) if fields else (list(pivot.expressions), using)
    aggregates = aggregates or [exp.Count(this=exp.Star())]
    if not axes or not all(map(_is_listed, axes)) or pivot.args.get("include_nulls"):
        raise UnsupportedQuery(_UNLISTED)
    group = pivot.args.get("group")
    keys = (
        [copied(expression) for expression in group.expressions]
        if group is not None
        else _others(source, [*axes, *aggregates], named_around(pivot))
    )
    query = exp.Select(expressions=[*keys, *_columns(axes, aggregates)])
    query.set(FROM, exp.From(this=copied(source)))
    query.set("group", exp.Group(all=True))
    return query


def with_values(text: str, ask: Callable[[str], Sequence[object]], explained: Callable[[str], Sequence[object]]) -> str:
    """The statement with the values of its PIVOTs written out, where it leaves them out.

    ask: gives the values of a query of one column. As DuckDB does, each column's values are asked for first. explained:
    as ask, for a statement that explain_privacy is called with. A text that is not one statement stays as it is. Raises
    UnsupportedQuery for too many values.
    """
    try:
        trees = sqlglot.parse(ordered_around(text), read=DIALECT)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        return text
    if len(trees) != 1 or trees[0] is None:
        return text
    tree = trees[0]
    pivots = [
        node for node in nodes_of(tree, exp.Pivot) if not node.args.get("unpivot") and not node.args.get("fields")
    ]
    # Inside out: the source of a PIVOT may have another one.
    for pivot in reversed(pivots):
        for axis in [
            expression
            for expression in pivot.expressions
            if isinstance(expression, exp.Column) and pivot.args.get("using")
        ]:
            found = _asked(axis, pivot, ask)
            if len(found) > _MOST_VALUES:
                raise UnsupportedQuery(f"PIVOT would make more than {_MOST_VALUES:,} columns: write out which.")
            axis.replace(exp.In(this=copied(axis), expressions=list(map(_literal, found))))
    called = [
        text for call in nodes_of(tree, exp.Anonymous) if name_of(call) == "explain_privacy" for text in _texts(call)
    ]
    for one in called:
        # What has no listed values is explained as it stands.
        with suppress(UnsupportedQuery):
            one.set("this", with_values(one.this, explained, explained))
    return str(tree.sql(DIALECT)) if pivots or called else text


def _asked(axis: Node, pivot: Node, ask: Callable[[str], Sequence[object]]) -> Sequence[object]:
    """The values of a PIVOT's column: in what it reads, else in the table from which that has the column.

    Raises UnsupportedQuery where they are not listed.
    """
    further = values_at_source(axis, pivot.this, named_around(pivot)) if pivot.this is not None else iter(())
    for query in (_values_of(axis, pivot), *(str(one.sql(DIALECT)) for one in further)):
        with suppress(PolicyRefusal):
            return ask(query)
    name = str(axis.sql(DIALECT))
    raise UnsupportedQuery(
        f"The values of {name} are not listed in what this PIVOT reads: write them out, as in ON {name} IN ('a', 'b')."
    )


def _texts(call: Node) -> list[Node]:
    """The constant texts among the arguments of a call."""
    expressions = [
        expression.expression if isinstance(expression, exp.PropertyEQ | exp.EQ) else expression
        for expression in call.expressions
    ]
    return [literal for literal in expressions if isinstance(literal, exp.Literal) and literal.is_string]


def _values_of(axis: Node, pivot: Node) -> str:
    """The query for the values of a PIVOT's column, with the common table expressions that can be seen there."""
    query = exp.Select(expressions=[copied(axis)], distinct=exp.Distinct())
    query.set(FROM, exp.From(this=copied(pivot.this)))
    query = query.where(exp.Not(this=exp.Is(this=copied(axis), expression=exp.Null()))).order_by("1")
    above: list[Node] = []
    holder: Node | None = pivot
    while holder is not None:
        given = arg(holder, "with")
        expressions = given.expressions if given is not None else []
        above = [
            copied(expression) for expression in expressions if all(part is not pivot for part in expression.walk())
        ] + above
        holder = holder.parent
    if above:
        query.set(WITH, exp.With(expressions=above))
    return str(query.sql(DIALECT))


def _literal(value: object) -> Node:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | Decimal):
        return exp.Literal.number(str(value))
    return exp.Literal.string(str(value))


def _is_listed(axis: Node) -> bool:
    values = axis.expressions if isinstance(axis, exp.In) and isinstance(axis.this, exp.Column) else []
    return bool(values) and all(isinstance(value, exp.Literal | exp.Boolean) for value in values)


def _columns(axes: Sequence[Node], aggregates: Sequence[Node]) -> list[Node]:
    """An aggregate of each combination of values, under DuckDB's name for it."""
    columns = []
    for values in product(*(ax.expressions for ax in axes)):
        pairs = zip(axes, values, strict=True)
        where = exp.and_(
            *(exp.EQ(this=copied(axis.this), expression=copied(value)) for axis, value in pairs), copy=False
        )
        label = "_".join(
            str(value.this).lower() if isinstance(value, exp.Boolean) else str(value.this) for value in values
        )
        for aggregate in aggregates:
            name = aggregate.alias or (default_name(aggregate) if len(aggregates) > 1 else "")
            told = exp.Filter(this=copied(aggregate.unalias()), expression=exp.Where(this=copied(where)))
            columns.append(exp.alias_(told, f"{label}_{name}" if name else label, quoted=True))
    return columns


def _others(source: Node, used: Sequence[Node], named: Named) -> list[Node]:
    """The columns of the source that a PIVOT without GROUP BY groups by: all that are not used otherwise."""
    names = {column.name.lower() for value in used for column in nodes_of(value, exp.Column)}
    shown = shown_by(source, named)
    if shown is not None:
        return [exp.column(exp.to_identifier(one, quoted=True)) for one in shown if one.lower() not in names]
    key = "except_" if "except_" in exp.Star.arg_types else "except"
    return [exp.Star(**{key: [exp.to_identifier(name, quoted=True) for name in sorted(names)]})]


# --- lists of quantiles -----------------------------------------------------------------------------------------------

QUANTILES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)


def quantile_lists(query: Node) -> None:
    """Write each quantile at a list of positions as a list of quantiles, in place; columns keep their names.

    quantile_cont(pay, [0.25, 0.5]) becomes [quantile_cont(pay, 0.25), quantile_cont(pay, 0.5)].
    """
    for node in nodes_of(query, *QUANTILES):
        key = next((name for name in ("expression", "quantile") if isinstance(node.args.get(name), exp.Array)), None)
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        if key is None or isinstance(whole.parent, exp.Window | exp.WithinGroup):
            continue
        quantiles = [_quantile_at(whole, node, key, place) for place in node.args[key].expressions]
        new: Node = exp.Array(expressions=quantiles)
        if isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions":
            new = exp.alias_(new, default_name(whole), quoted=True)
        whole.replace(new)


def _quantile_at(whole: Node, quantile: Node, key: str, place: Node) -> Node:
    """One of the quantiles, with the filter of them all."""
    single = copied(quantile)
    single.set(key, copied(place))
    if whole is quantile:
        return single
    filtered = copied(whole)
    filtered.set("this", single)
    return filtered


# --- WITH -------------------------------------------------------------------------------------------------------------

STAGES = (exp.With,)
# What may leave out rows by chance, or names queries of its own.
_UNMOVED = ("limit", "offset", "sample", "with", "with_")


def staging(query: Node, is_read: Callable[[Node], bool], units: Collection[str]) -> None:
    """Move the expressions of a query's WITH that show records into the queries that read them.

    So each query holds what it reads: WITH a AS (SELECT x FROM t), b AS (SELECT x, count(*) FROM a GROUP BY x) FROM b
    becomes WITH b AS (SELECT x, count(*) FROM (SELECT x FROM t) AS a GROUP BY x) FROM b, in which b can be answered.
    One that groups records is moved if it is read once, or if it groups them by their units: then it may be the groups
    whose sizes are asked for, and else numbers that are asked for once. is_read: whether a node reads a protected
    table. units: the folded names of columns that identify units. Calls of table functions stay where they are.
    """
    given = arg(query, "with")
    if given is None or given.args.get("recursive") or _shadowed(query):
        return
    for expression in list(given.expressions):
        if not _is_moved(expression, is_read):
            continue
        reads = [node for node in nodes_of(query, exp.Table) if _names(node, expression.alias)]
        if _aggregates(expression.this) and len(reads) != 1 and not _groups_units(expression.this, units):
            continue
        for node in reads:
            if node is not _single(query) and _is_plain(node):
                _move(expression, node)
        if not any(_names(node, expression.alias) for node in nodes_of(query, exp.Table)):
            given.set("expressions", [other for other in given.expressions if other is not expression])
    if not given.expressions:
        query.set(given.arg_key, None)


def _move(one: Node, node: Node) -> None:
    """Put what an expression of WITH means in the place of its name."""
    alias = (
        copied(node.args["alias"]) if node.args.get("alias") else exp.TableAlias(this=copied(one.args["alias"].this))
    )
    if not alias.columns:
        alias.set("columns", [copied(column) for column in one.args["alias"].columns])
    moved = exp.Subquery(this=copied(one.this), alias=alias)
    takes_over(moved, node)
    node.replace(moved)


def _single(query: Node) -> Node | None:
    """The only source of a query, which is looked at together with its WITH."""
    values = sources(query) if isinstance(query, exp.Select) else []
    return values[0] if len(values) == 1 else None


def _aggregates(query: Node) -> bool:
    return any(map(aggregates_itself, [query, *nodes_of(query, exp.Select)]))


def _groups_units(query: Node, units: Collection[str]) -> bool:
    """Whether all groups that a query makes are of one unit, as far as the names of their keys say."""
    grouping = [node for node in [query, *nodes_of(query, exp.Select)] if aggregates_itself(node)]
    return all(any(fold(key.name) in units for key in _keys(value)) for value in grouping)


def _keys(query: Node) -> list[Node]:
    """What a SELECT groups by, as far as that is columns or the places of columns."""
    group = query.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [
            expression.unalias() for expression in query.expressions if isinstance(expression.unalias(), exp.Column)
        ]
    places = [
        int(expression.name)
        for expression in group.expressions
        if isinstance(expression, exp.Literal) and expression.name.isdigit()
    ]
    shown = [query.expressions[at - 1].unalias() for at in places if at <= len(query.expressions)]
    return [expression for expression in [*group.expressions, *shown] if isinstance(expression, exp.Column)]


def _shadowed(query: Node) -> bool:
    """Whether two common table expressions have the same name, so that a name may mean another one elsewhere."""
    names = Counter(fold(node.alias) for node in nodes_of(query, exp.CTE))
    return any(count > 1 for count in names.values())


def _is_moved(node: Node, is_read: Callable[[Node], bool]) -> bool:
    """Whether an expression of WITH shows the same rows wherever it stands, of a protected table."""
    body = node.this
    if any(part.args.get(name) for part in nodes_of(body, ROOT) for name in _UNMOVED):
        return False
    tables = nodes_of(body, exp.Table)
    plain = all(isinstance(table.this, exp.Identifier) for table in tables)
    return plain and not node.args.get("materialized") and any(map(is_read, tables))


def _names(node: Node, name: str) -> bool:
    return isinstance(node.this, exp.Identifier) and not node.db and fold(node.name) == fold(name)


def _is_plain(node: Node) -> bool:
    """Whether a node of a table has nothing but its name and an alias."""
    return not any(value for key, value in node.args.items() if key not in ("this", "alias"))
