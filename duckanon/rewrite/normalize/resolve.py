"""From queries with resolved names to relations: CTEs and subqueries are followed, and columns found in sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, combinations, product

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.expressions import (
    NULL,
    Column,
    Comparison,
    Constant,
    Direction,
    DistinctOn,
    Expr,
    Star,
    TooComplex,
    Unclear,
    conjuncts,
    is_aggregated,
)
from duckanon.rewrite.algebra.nodes import ROOT, Node, arg, given, nodes_of, queries_in, reads_itself, within
from duckanon.rewrite.algebra.relations import Block, Opaque, Output, Relation, Source, Union, columns, groups
from duckanon.rewrite.algebra.translate import Scope, Tables, Visible, directions, translate
from duckanon.rewrite.column_names import default_name
from duckanon.rewrite.normalize.pivots import pivoted
from duckanon.rewrite.normalize.simplify import simplified

# More than any query written by hand. A chain of views that each read the last one twice would have more.
_MOST_SOURCES = 1000
Keys = tuple[Expr, ...]
Sets = tuple[frozenset[int], ...] | None
_MOST_SETS = 4096
_LIMITS = ("limit", "offset", "sample")
# What ORDER BY ALL sorts by, which is not followed.
_BY_ALL = Unclear("ORDER BY ALL", 0)
# Clauses of other dialects.
_FOREIGN = ("into", "match", "connect", "distribute", "cluster", "sort", "kind")
_JOINS = {"": "inner", "INNER": "inner", "CROSS": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


class Resolver:
    """Resolves a query and its parts; what a part reads is resolved once. The query stays as it is meanwhile.

    Raises TooComplex for a part with too many sources.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._number = self._most = 0
        # What SELECTs taken by themselves read, by the identity of their nodes, which are kept alive.
        self._opened: dict[int, tuple[Node, Scope, frozenset[Expr] | None]] = {}

    def number(self) -> int:
        self._number += 1
        if self._number > self._most:
            raise TooComplex
        return self._number

    def scope(self, outer: Scope | None = None) -> Scope:
        return Scope(self.query, self.number, self._tables.macros, outer)

    def alone(self, node: Node, place: Node) -> Relation:
        """The relation of a query taken by itself, which sees the CTEs that can be seen at a place."""
        if not isinstance(node, exp.Select):
            self._most = self._number + 20 * _MOST_SOURCES
            return self.query(node, self._around(place))
        scope, where = self.opened(node, place)
        return simplified(self._select(node, scope, where), self.number)

    def opened(self, node: Node, place: Node) -> tuple[Scope, frozenset[Expr] | None]:
        """What names mean in a SELECT at a place, and the conditions of its joins; None for joins of other kinds."""
        self._most = self._number + 20 * _MOST_SOURCES
        if id(node) not in self._opened:
            scope = self.scope(self._around(place))
            self._ctes(node, scope)
            self._opened[id(node)] = node, scope, self._from(node, scope)
        _, scope, where = self._opened[id(node)]
        return scope.without_aliases(), where

    def _around(self, place: Node) -> Scope:
        """The scope of a SELECT taken by itself: it sees the CTEs that can be seen at a place in the query."""
        scope, clauses = self.scope(), []
        holder = place.parent
        while holder is not None:
            clause = arg(holder, "with")
            if clause is not None and not clause.args.get("recursive"):
                clauses.append(
                    (clause, [expression for expression in clause.expressions if not within(place, expression)])
                )
            holder = holder.parent
        for clause, ctes in reversed(clauses):
            self._common(clause, ctes, scope)
        return scope

    def shown(self, node: Node, place: Node, keys: Sequence[Node], others: Sequence[Node]) -> Block | Opaque:
        """The relation of a SELECT that shows keys, by which it groups, and then other expressions.

        node: what it reads and filters. place: where it stands.
        """
        scope, where = self.opened(node, place)
        if where is None:
            return self._opaque(_joins_in_words(node), node, scope)
        if any(node.args.get(name) for name in _FOREIGN):
            return self._opaque("a clause is not DuckDB's", node, scope)
        exprs = [translate(key, scope) for key in (*keys, *others)]
        block = Block(
            tuple(visible.source for visible in scope.visible),
            tuple(Output(f"_dk_{at}", expr) for at, expr in enumerate(exprs)),
            self._filtered(node, scope, where),
            tuple(exprs[: len(keys)]) or None,
            limited=bool(node.args.get("sample")),
            node=node,
        )
        return simplified(replace(block, keys=()) if block.keys is None and groups(block) else block, self.number)

    def query(self, node: Node, around: Scope) -> Relation:
        """The relation of a query inside the scope `around`."""
        scope = self.scope(around)
        self._ctes(node, scope)
        if isinstance(node, exp.Subquery):
            return self._subquery(node, scope)
        if isinstance(node, exp.Select):
            return simplified(self._select(node, scope, self._from(node, scope)), self.number)
        if isinstance(node, exp.SetOperation):
            return self._union(node, scope)
        if isinstance(node, exp.Pivot):
            return self._pivot(node, self._item(node.this, scope).source.relation, scope)
        if isinstance(node, exp.Values):
            return self._values(node, scope)
        if isinstance(node, exp.Table):
            return self._item(node, scope).source.relation
        return self._opaque(f"{node.key} is not followed", node, scope)

    def _ctes(self, node: Node, scope: Scope) -> None:
        clause = arg(node, "with")
        if clause is not None:
            self._common(clause, clause.expressions, scope)

    def _common(self, clause: Node, ctes: Sequence[Node], scope: Scope) -> None:
        """Let a scope see CTEs of a WITH."""
        for cte in ctes:
            # Each CTE can read those before it. A recursive one that reads itself is not analysed.
            cte_scope = self.scope(scope.outer)
            cte_scope.ctes = dict(scope.ctes)
            name = fold(cte.alias)
            if clause.args.get("recursive"):
                cte_scope.ctes[name] = (None, cte_scope)
            scope.ctes[name] = (cte, cte_scope)

    def _subquery(self, node: Node, scope: Scope) -> Relation:
        inner = self.query(node.this, scope)
        if node.args.get("joins"):
            return self._opaque("a join in brackets is not followed", node, scope)
        for pivot in node.args.get("pivots") or []:
            inner = self._pivot(pivot, inner, scope)
        if any(node.args.get(name) for name in _LIMITS):
            inner = self._limited(inner, node)
        return inner

    def _limited(self, inner: Relation, node: Node) -> Relation:
        if isinstance(inner, Block):
            return replace(inner, limited=True, first=None)
        number = self.number()
        return Block((Source(number, inner),), (Output("*", Star(number)),), limited=True, node=node)

    def _union(self, node: Node, scope: Scope) -> Relation:
        kind = type(node).__name__.lower()
        if kind == "union":
            kind = "distinct" if node.args.get("distinct") else "all"
        elif not node.args.get("distinct"):
            kind = f"{kind} all"
        members: list[Relation] = []
        for side in (node.this, node.expression):
            query = self.query(side, scope)
            if isinstance(query, Union) and query.kind == kind and kind in ("all", "distinct"):
                members += query.members
            else:
                members.append(query)
        union = Union(kind, tuple(members), node)
        return self._limited(union, node) if any(node.args.get(name) for name in _LIMITS) else union

    def _values(self, node: Node, scope: Scope) -> Relation:
        reads = tuple(self.query(query, scope) for query in queries_in(node))
        first = node.expressions[0].expressions if node.expressions else []
        return Opaque("", reads, tuple(f"col{at}" for at in range(len(first))), node)

    def _opaque(self, reason: str, node: Node, scope: Scope) -> Opaque:
        """Something that is not analysed, with all tables that it names."""
        reads = tuple(self._item(table, scope).source.relation for table in nodes_of(node, exp.Table) if table.this)
        return Opaque(reason, reads, None, node)

    # FROM

    def _item(self, node: Node, scope: Scope) -> Visible:
        """One item of FROM, as a source with a number."""
        if isinstance(node, exp.Paren):
            return self._item(node.this, scope)
        alias = node.args.get("alias")
        names = (
            tuple(fold(column.name) for column in (alias.args.get("columns") or []))
            if isinstance(alias, exp.TableAlias)
            else ()
        )
        called = fold(node.alias_or_name)
        relation: Relation
        if isinstance(node, exp.Table):
            relation = self._table(node, scope)
            for pivot in node.args.get("pivots") or []:
                relation = self._pivot(pivot, relation, scope)
                called = fold(pivot.alias) or called
            if node.args.get("sample"):
                relation = self._limited(relation, node)
        elif isinstance(node, exp.Lateral):
            inner = node.this
            relation = (
                self.query(inner, scope)
                if isinstance(inner, exp.Subquery | exp.Query)
                else self._opaque("a lateral function is not followed", node, scope)
            )
        elif isinstance(node, exp.Subquery | exp.Query | exp.Values):
            if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
                relation = self._opaque("a join in brackets is not followed", node, scope)
                if not (node.args.get("joins") or node.this.args.get("joins")):
                    relation = self._item(node.this, scope).source.relation
                    called = fold(node.alias) or fold(node.this.alias_or_name)
            else:
                relation = self.query(node, scope)
        else:
            relation = self._function(node, scope)
        relation, number = self._aliased(node, relation), self.number()
        if names:
            relation = self.renamed(relation, names)
        return Visible(called, Source(number, relation, node=node), columns(relation))

    def renamed(self, relation: Relation, names: tuple[str, ...]) -> Relation:
        """A relation whose first columns have other names."""
        old = columns(relation)
        if old is None or len(old) < len(names):
            return Opaque("its columns get new names, and nobody told how many it has", (relation,), None)
        number = self.number()
        new = [*names, *old[len(names) :]]
        outputs = tuple(Output(name, Column(number, was)) for name, was in zip(new, old, strict=True))
        return simplified(Block((Source(number, relation),), outputs), self.number)

    def _table(self, node: Node, scope: Scope) -> Relation:
        if not isinstance(node.this, exp.Identifier):
            return self._function(node.this, scope)
        known = self._tables.relation(node)
        if known is not None:
            return known
        cte = scope.cte(node.name)
        return self._cte(*cte) if cte is not None else self._unresolved(node)

    def _unresolved(self, node: Node) -> Opaque:
        return Opaque("a name that is not resolved", tuple(self._tables.mentioned(node.name)), None, node)

    def _cte(self, cte: Node | None, written: Scope) -> Relation:
        if cte is None:
            return Opaque("a recursive query is not followed")
        if not isinstance(cte.this, exp.Query | exp.Values | exp.Table | exp.Pivot):
            return self._opaque("a statement in WITH is not followed", cte, written)
        relation = self.query(cte.this, written)
        alias = cte.args.get("alias")
        names = tuple(fold(column.name) for column in (alias.args.get("columns") or []))
        if any(known_cte is None for known_cte, _ in written.ctes.values()) and reads_itself(cte):
            return Opaque("a recursive query is not followed", (relation,), names or columns(relation), cte)
        return self.renamed(relation, names) if names else relation

    def _function(self, node: Node, scope: Scope) -> Relation:
        return self._tables.function_reads(node, [self.query(query, scope) for query in queries_in(node)])

    def _aliased(self, node: Node, relation: Relation) -> Relation:
        """The relation of an item of FROM; not analysed if its alias is no plain name.

        sqlglot 26 reads DuckDB's `FROM alias: persons` as a table `alias` with a placeholder behind it.
        """
        alias = node.args.get("alias")
        written = alias.this if isinstance(alias, exp.TableAlias) else None
        if written is None or isinstance(written, exp.Identifier):
            return relation
        return Opaque("an alias that is no name", (relation, *self._tables.mentioned(str(written.name))))

    def _pivot(self, pivot: Node, inner: Relation, scope: Scope) -> Relation:
        number = self.number()
        source = Source(number, inner)
        own = self.scope(scope)
        own.visible = [Visible("", source, columns(inner))]
        block = pivoted(pivot, source, own, columns(inner))
        if block is None:
            return Opaque("this PIVOT is not followed", (inner,), None, pivot)
        return simplified(block, self.number)

    # SELECT

    def _select(self, node: Node, scope: Scope, where: frozenset[Expr] | None) -> Block | Opaque:
        """The relation of a SELECT. where: the conditions of its joins, see `opened`."""
        scope.windows = {fold(window.name): window for window in node.args.get("windows") or []}
        if where is None:
            return self._opaque(_joins_in_words(node), node, scope)
        if any(node.args.get(name) for name in _FOREIGN):
            return self._opaque("a clause is not DuckDB's", node, scope)
        outputs = _outputs(node, scope)
        for output in outputs:
            scope.aliases.setdefault(fold(output.name), output.expr)
        where = self._filtered(node, scope, where)
        keys, sets = self._keys(node, scope, outputs)
        having = node.args.get("having")
        scope.keys = keys
        kept = conjuncts(translate(having.this, scope)) if having is not None else frozenset()
        scope.keys = None
        qualify = node.args.get("qualify")
        block = Block(
            tuple(visible.source for visible in scope.visible),
            tuple(outputs),
            where,
            keys,
            sets,
            kept,
            conjuncts(translate(qualify.this, scope)) if qualify is not None else frozenset(),
            self._distinct(node, scope, outputs),
            self._order(node, scope, outputs),
            any(bool(node.args.get(name)) for name in _LIMITS),
            first=self._first(node, scope, outputs),
            node=node,
        )
        return replace(block, keys=()) if keys is None and groups(block) else block

    def _filtered(self, node: Node, scope: Scope, where: frozenset[Expr]) -> frozenset[Expr]:
        clause = node.args.get("where")
        return where if clause is None else where | conjuncts(translate(clause.this, scope))

    def _from(self, node: Node, scope: Scope) -> frozenset[Expr] | None:
        """Add the sources to the scope. Returns the conditions of inner joins; None for a join that is not analysed."""
        where: frozenset[Expr] = frozenset()
        clause = arg(node, "from")
        if clause is None:
            return where
        first = clause.this
        joins = [*(first.args.get("joins") or []), *(node.args.get("joins") or [])]
        scope.visible.append(self._item(first, scope))
        for lateral in [*(first.args.get("laterals") or []), *(node.args.get("laterals") or [])]:
            scope.visible.append(self._item(lateral, scope))
        for join in joins:
            expressions = self._join(join, scope)
            if expressions is None:
                return None
            where |= expressions
        return where

    def _join(self, join: Node, scope: Scope) -> frozenset[Expr] | None:
        side = (join.args.get("side") or "").upper()
        kind = (join.args.get("kind") or "").upper()
        method = (join.args.get("method") or "").upper()
        if method not in ("", "NATURAL") or join.this.args.get("joins"):
            return None
        how = kind.lower() if kind in ("SEMI", "ANTI") else _JOINS.get(side or ("" if kind == "OUTER" else kind))
        if how is None:
            return None
        left = list(scope.visible)
        new = self._item(join.this, scope)
        scope.visible.append(new)
        using = [fold(column.name) for column in join.args.get("using") or []]
        if method == "NATURAL":
            if new.columns is None or any(visible.columns is None for visible in left):
                return None
            using = [name for name in new.columns if any(name in (visible.columns or ()) for visible in left)]
        on: frozenset[Expr] = frozenset()
        for name in using:
            scope.visible.pop()
            own_column = scope.column(name)
            scope.visible.append(new)
            on |= {Comparison("=", own_column, Column(new.source.number, name))}
        if join.args.get("on") is not None:
            on |= conjuncts(translate(join.args["on"], scope))
        new.hidden, new.semi = frozenset(using), how in ("semi", "anti")
        if how == "inner":
            return on
        if how == "right" and len(left) == 1 and left[0].source.join == "inner":
            # A RIGHT JOIN of two is a LEFT JOIN in the other order; then USING shows the right source's column.
            old = left[0]
            old.source = replace(old.source, join="left", on=on)
            old.hidden, new.hidden = frozenset(using), frozenset()
            scope.visible[:] = [new, old]
            return frozenset()
        new.source = replace(new.source, join=how, on=on)
        return frozenset()

    def _keys(
        self, node: Node, scope: Scope, outputs: list[Output]
    ) -> tuple[tuple[Expr, ...] | None, tuple[frozenset[int], ...] | None]:
        group = node.args.get("group")
        if group is None:
            return None, None
        if group.args.get("all"):
            expressions: list[Expr] = []
            for output in outputs:
                if (
                    not is_aggregated(output.expr)
                    and not isinstance(output.expr, Constant)
                    and output.expr not in expressions
                ):
                    expressions.append(output.expr)
            return tuple(expressions), None
        return _grouping(group, lambda term: self._positioned(term, scope, outputs))

    def _positioned(self, node: Node, scope: Scope, outputs: list[Output]) -> Expr:
        if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
            at = int(node.this) - 1
            return outputs[at].expr if 0 <= at < len(outputs) else NULL
        return translate(node, scope)

    def _distinct(self, node: Node, scope: Scope, outputs: list[Output]) -> tuple[Expr, ...] | None:
        distinct = node.args.get("distinct")
        if distinct is None:
            return None
        on = distinct.args.get("on")
        if on is None:
            return tuple(output.expr for output in outputs)
        chosen = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
        order, terms = self._sorted(node, scope, outputs), node.args.get("order")
        ways = directions(terms.expressions) if terms is not None else ()
        return (DistinctOn(tuple(self._positioned(term, scope, outputs) for term in chosen), order, ways),)

    def _order(self, node: Node, scope: Scope, outputs: list[Output]) -> tuple[Expr, ...]:
        """The expressions of ORDER BY, and subqueries in LIMIT and OFFSET."""
        limits = [node.args[name] for name in _LIMITS if isinstance(node.args.get(name), ROOT)]
        subqueries = (translate(query, scope) for limit in limits for query in queries_in(limit))
        return (
            *subqueries,
            *(expression for expression in self._sorted(node, scope, outputs) if expression != _BY_ALL),
        )

    def _first(self, node: Node, scope: Scope, outputs: list[Output]) -> tuple[int, tuple[Direction, ...]] | None:
        """How many rows LIMIT keeps, and how ORDER BY sorts; None where rows are left out in another way, or none."""
        limit, order = node.args.get("limit"), node.args.get("order")
        if not isinstance(limit, exp.Limit) or any(node.args.get(name) for name in ("offset", "sample")):
            return None
        most = limit.expression
        if not isinstance(most, exp.Literal) or not str(most.this).isdigit():
            return None
        if _BY_ALL in self._sorted(node, scope, outputs) or {name for name, _ in given(limit)} != {"expression"}:
            return None
        return int(most.this), directions(order.expressions) if order is not None else ()

    def _sorted(self, node: Node, scope: Scope, outputs: list[Output]) -> tuple[Expr, ...]:
        """The expressions of ORDER BY."""
        order = node.args.get("order")
        expressions: list[Expr] = []
        for expression in order.expressions if order is not None else ():
            inner = expression.this if isinstance(expression, exp.Ordered) else expression
            alias = scope.aliases.get(fold(inner.name)) if isinstance(inner, exp.Column) and not inner.table else None
            if isinstance(inner, exp.Var | exp.Star):
                expressions.append(_BY_ALL)
                continue
            expressions.append(alias if alias is not None else self._positioned(inner, scope, outputs))
        return tuple(expressions)


def _outputs(node: Node, scope: Scope) -> list[Output]:
    """The outputs of a SELECT with stars expanded. Each alias is added to the scope for what follows."""
    outputs: list[Output] = []
    for expression in node.expressions:
        bare = expression.this if isinstance(expression, exp.Alias) else expression
        stars: list[Output] | None = None
        if isinstance(bare, exp.Star):
            stars = scope.expanded(None, *_star_changes(bare, scope))
        elif isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star):
            stars = scope.expanded(fold(bare.table), *_star_changes(bare.this, scope))
        if stars is not None:
            outputs += stars
            continue
        expr = translate(expression, scope)
        alias = expression.alias or (bare.name if isinstance(bare, exp.Column) else "")
        name = alias or default_name(bare)
        outputs.append(Output(name, expr))
        scope.aliases.setdefault(fold(name), expr)
    return outputs


def _star_changes(star: Node, scope: Scope) -> tuple[frozenset[str], dict[str, Expr]]:
    excluded = arg(star, "except") or []
    without = frozenset(fold(column.name) for column in (excluded if isinstance(excluded, list) else [excluded]))
    replaced = {fold(column.alias): translate(column.this, scope) for column in star.args.get("replace") or []}
    # A renamed column keeps its value. Its new name is found only if the columns are known.
    for column in star.args.get("rename") or []:
        without |= {fold(column.this.name)}
        replaced[fold(column.alias)] = translate(column.this, scope)
    return without, replaced


def _grouping(group: Node, translate: Callable[[Node], Expr]) -> tuple[Keys, Sets]:
    """The keys, each once, and the grouping sets as positions in them; None if there is only the set of all.

    Raises TooComplex for more than 4096 sets.
    """
    elements = list(group.expressions)
    for name in ("grouping_sets", "rollup", "cube"):  # versions of sqlglot keep them in different arguments
        argument = group.args.get(name)
        elements += [element for element in argument if element is not None] if isinstance(argument, list) else []
    factors = [_sets(element) for element in elements]
    total = 1
    for factor in factors:
        total *= len(factor)
        if total > _MOST_SETS:
            raise TooComplex
    keys: list[Expr] = []

    def place(node: Node) -> int:
        key = translate(node)
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    sets = [frozenset(place(node) for node in chain.from_iterable(choice)) for choice in product(*factors)]
    if len(sets) == 1 and len(sets[0]) == len(keys):
        return tuple(keys), None
    return tuple(keys), tuple(sets)


def _sets(element: Node) -> list[list[Node]]:
    """The sets of expressions that one element of GROUP BY stands for."""
    if isinstance(element, exp.Rollup):
        items = [_items(expression) for expression in element.expressions]
        return [list(chain.from_iterable(items[:end])) for end in range(len(items), -1, -1)]
    if isinstance(element, exp.Cube):
        items = [_items(expression) for expression in element.expressions]
        if len(items) > 12:
            raise TooComplex
        return [
            list(chain.from_iterable(chosen))
            for size in range(len(items), -1, -1)
            for chosen in combinations(items, size)
        ]
    if isinstance(element, exp.GroupingSets):
        return list(chain.from_iterable(_sets(expression) for expression in element.expressions))
    return [_items(element)]


def _items(node: Node) -> list[Node]:
    if isinstance(node, exp.Paren):
        return _items(node.this)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _joins_in_words(node: Node) -> str:
    """Why the joins of a SELECT are not analysed."""
    methods = {(join.args.get("method") or "").upper() for join in node.args.get("joins") or []}
    if "ASOF" in methods:
        return (
            "ASOF JOIN is not followed: write JOIN with its conditions, number the rows by row_number() with the "
            "unit's column and the key of the first table in PARTITION BY and the nearest row first, and keep those "
            "with 1"
        )
    return "this kind of join is not followed"
