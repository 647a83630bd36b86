"""The rules, in the order in which they are applied to a statement.

Each settles the parts that it understands; no rule depends on another. The last one refuses what is left, so leaving
out a rule makes the guard stricter, never weaker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.types import is_exact
from duckanon.rewrite import metadata
from duckanon.rewrite.algebra.expressions import Column
from duckanon.rewrite.algebra.nodes import ROOT, Node, copied, given, nodes_of, queries_in, sources, within
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.bind import named
from duckanon.rewrite.calls import qualify
from duckanon.rewrite.instead import is_like_an_aggregate, not_called
from duckanon.rewrite.normalize.eager_aggregation import SourceColumns, aggregated_first
from duckanon.rewrite.normalize.grouped import NotFollowed, aggregates_itself, aggregates_of
from duckanon.rewrite.normalize.split import split
from duckanon.rewrite.recognize import Aggregates, Conditional, GroupSizes, RecordReads
from duckanon.rewrite.rule_context import RuleContext

Rule = Callable[[RuleContext], None]


def open_calls(context: RuleContext) -> None:
    """Settle calls that use no protected table: they run, with the tables' full names in them."""
    for call in list(context.calls):
        if not any(name in context.catalog.protected for name in call.tables.values()):
            paths = {name: context.path(name) for name in call.tables.values()}
            context.approved.append(qualify(call, paths))
            context.calls.remove(call)
            if call.function == "privacy_ledger":
                _narrow(context, call.node)
                context.changed()


def _narrow(context: RuleContext, node: Node) -> None:
    """Replace a call of privacy_ledger by a query for the lines about visible tables."""
    alias, joins = node.args.get("alias"), node.args.get("joins")
    whole = copied(node)
    for part in ("alias", "joins"):
        whole.set(part, None)
    labels = [exp.Literal.string(label) for label in metadata.labels(context.catalog)]
    of_visible = exp.In(this=exp.column("tbl"), expressions=labels or [exp.Null()])
    holder = exp.Subquery(this=exp.select("*").from_(whole).where(of_visible))
    holder.set("alias", alias or exp.TableAlias(this=exp.to_identifier("privacy_ledger")))
    holder.set("joins", joins)
    node.replace(holder)


def calls_on_protected(context: RuleContext) -> None:
    """Settle calls of duckanon's functions on protected tables: a release answers them.

    Raises Refused for a call that the policy does not allow.
    """
    for call in list(context.calls):
        name = next((name for name in call.tables.values() if name in context.catalog.protected), None)
        if name is not None:
            context.releases.call(context, call, name)
            context.calls.remove(call)
            context.changed()


def group_size_queries(context: RuleContext) -> None:
    """Answer group-size queries in ordinary SQL by the release of group sizes, or note why one is not answered.

    Where there is no such release, `aggregate_queries` says why groups that are privacy units have no answer.
    """
    for group_sizes in context.found(GroupSizes):
        policy = context.policy(group_sizes.table)
        if None not in (policy.unit, policy.max_size) or not _are_units(context, group_sizes):
            context.settle([group_sizes], group_sizes.node)


def _are_units(context: RuleContext, group_sizes: GroupSizes) -> bool:
    """Whether groups are of one privacy unit each."""
    tables = {
        source.number: source.relation.name for source in group_sizes.sources if isinstance(source.relation, Table)
    }
    columns = [(tables.get(column.source), column.name) for column in group_sizes.unit if isinstance(column, Column)]
    units = {name: fold(protected.policy.privacy_unit or "") for name, protected in context.catalog.protected.items()}
    return any(name is not None and units.get(name) == column for name, column in columns)


def conditional_tables(context: RuleContext) -> None:
    """Answer conditional tables: shares within rows, those of one SELECT together. Note why one is not answered.

    They are of numbers of records. Those of sums are quotients of statistics: `aggregate_queries` says why not.
    """
    together: dict[int, list[Conditional]] = {}
    for conditional in context.found(Conditional):
        together.setdefault(id(conditional.node), []).append(conditional)
    for shares in together.values():
        if all(share.weight is None for share in shares):
            context.settle(shares, shares[0].node)


def inner_parts(context: RuleContext) -> None:
    """Answer the subqueries that can be released by themselves, the outermost first.

    The query around them is then computed from the release. That needs no check: it sees nothing but the release.
    Values with which protected records are compared or joined are asked for with the query around them.
    """
    for part in context.parts():
        if _is_compared_with_records(context, part) or _is_joined_with_records(context, part):
            continue
        about = [finding for finding in context.alone(part) if finding.table in context.catalog.protected]
        if about:
            context.releases.answer(context, about, part)


def _is_compared_with_records(context: RuleContext, part: Node) -> bool:
    """Whether a query stands in WHERE of one that reads a protected table itself."""
    where = part.find_ancestor(exp.Where, exp.Select)
    if not isinstance(where, exp.Where):
        return False
    read = {id(node) for _, node in context.reads}
    return any(id(source) in read for source in sources(where.parent))


def _is_joined_with_records(context: RuleContext, part: Node) -> bool:
    """Whether a query stands in FROM, or in WITH, and records that are joined with it are compared with its numbers."""
    read = {id(node) for _, node in context.reads}
    numbers = {
        fold(expression.alias_or_name)
        for expression in part.expressions
        if any(True for _ in aggregates_of(expression))
    }
    if isinstance(part.parent, exp.CTE):
        name = fold(part.parent.alias)
        places = [node for node in nodes_of(context.bound.query, exp.Table) if not node.db and fold(node.name) == name]
    else:
        places = [part.parent] if isinstance(part.parent, exp.Subquery) else []
    around = [
        (place, place.find_ancestor(exp.Select)) for place in places if isinstance(place.parent, exp.From | exp.Join)
    ]
    return any(
        query is not None
        and any(id(other) in read for other in sources(query) if other is not place)
        and numbers & {fold(column.name) for column in _compared(query)}
        for place, query in around
    )


def _compared(query: Node) -> Iterator[Node]:
    """The columns in what a SELECT asks of each row that it joins: its conditions, and what its aggregates are of."""
    clauses = [query.args.get("where"), *(join.args.get("on") for join in query.args.get("joins") or [])]
    clauses += [aggregate for expression in query.expressions for aggregate in aggregates_of(expression)]
    for clause in clauses:
        if clause is not None:
            yield from nodes_of(clause, exp.Column)


def parts_of_queries(context: RuleContext) -> None:
    """Answer HAVING, windows and arithmetic on group sizes and published counts: the rest is computed from these."""
    for part in context.parts():
        parts = split(part)
        if parts is None:
            continue
        around, core = parts
        # DuckDB takes `current_date AS "current_date"` for a column that refers to itself.
        for day in nodes_of(around, exp.CurrentDate):
            day.replace(exp.cast(exp.Literal.string(context.today.isoformat()), "DATE"))
        take_back = context.tried(part, around)
        about = [finding for finding in context.alone(core) if finding.table in context.catalog.protected]
        sizes = len(about) == 1 and isinstance(about[0], GroupSizes)
        answered = sizes and context.releases.answer(context, about, core) is None
        if not answered and not context.releases.follows(context, core):
            take_back()


def aggregate_queries(context: RuleContext) -> None:
    """Answer counts, sums, means and quantiles by keys, whatever is computed from them: published, or with noise.

    They are of records of one protected table. Notes why a SELECT of them is not answered.
    """
    for part in nodes_of(context.bound.query, exp.Select):
        read = [name for name, node in context.reads if within(node, part)]
        if read and within(part, context.bound.query) and not context.releases.follows(context, part):
            reason = context.releases.with_noise(context, part) if _is_asked(part) else None
            if reason is not None and aggregates_itself(part):
                outer = context.outer_column(part)
                if outer is not None:
                    reason = _looked_up(context, part, outer)
                if reason is None:
                    continue
                context.reasons += [(Aggregates.shown, name, reason) for name in dict.fromkeys(read)]


def _is_asked(query: Node) -> bool:
    """Whether a SELECT itself groups, or computes an aggregate or a window anywhere."""
    rest = [part for part in (query.args.get(clause) for clause in ("having", "qualify", "order")) if part is not None]
    computed = any(True for part in rest for _ in aggregates_of(part))
    return aggregates_itself(query) or computed or bool(nodes_of(query, exp.Window))


def _looked_up(context: RuleContext, part: Node, outer: Node) -> str | None:
    """Replace a subquery that depends on a row of open tables by a lookup in noisy numbers by keys.

    outer: a column of that row in it. Returns why there are none, else None.
    """
    pair = context.decorrelated(part)
    if pair is None:
        return context.not_answered(_comparison(outer), _CORRELATED)
    lookup, grouped = pair
    take_back = context.tried(part, lookup)
    if context.releases.follows(context, grouped):
        return None
    reason = context.releases.with_noise(context, grouped)
    if reason is None:
        return None
    take_back()
    return context.not_answered(_comparison(outer), reason.rpartition("` cannot be answered. ")[2])


_CORRELATED = (
    "It makes the subquery depend on the row around it, so there is no one answer: ask for the statistic by the "
    "columns of the condition, with GROUP BY, and join the answer."
)


def _comparison(column: Node) -> Node:
    """The comparison in which a column stands; the column itself if it stands in none."""
    predicate = column.find_ancestor(exp.Predicate, exp.Select)
    return predicate if isinstance(predicate, exp.Predicate) else column


_ADDED = (
    " The query adds these numbers up over what it joins, and their noise with them. Records whose values there are "
    "outside of the columns' domains do not count."
)


def aggregates_over_joins(context: RuleContext) -> None:
    """Answer counts, sums and means of protected records that are joined with what may be seen: they are counted first.

    Notes why one is not answered.
    """
    for part in nodes_of(context.bound.query, exp.Select):
        if within(part, context.bound.query) and aggregates_itself(part):
            read = [(name, node) for name, node in context.reads if within(node, part)]
            places = [at for at, source in enumerate(sources(part)) if any(within(node, source) for _, node in read)]
            if len(read) == 1 and len(places) == 1 and (len(sources(part)) > 1 or queries_in(part)):
                _count_first(context, part, read[0][0], places[0])


def _count_first(context: RuleContext, part: Node, name: TableName, place: int) -> None:
    try:
        columns = _columns_of(context, sources(part)[place], name)
        around, inner = aggregated_first(part, place, columns, _others(context, part, place))
    except NotFollowed as no:
        if len(sources(part)) == 1 and any(reason[0] == Aggregates.shown for reason in context.reasons):
            return
        reason = context.not_answered(no.part or part, str(no))
    else:
        take_back = context.tried(part, around)
        if context.releases.follows(context, inner):
            return
        refused = context.releases.with_noise(context, inner)
        if refused is None:
            context.steps[-1] = replace(context.steps[-1], reason=context.steps[-1].reason + _ADDED)
            return
        take_back()
        quoted = refused if refused.startswith("`") else context.not_answered(part, refused)
        reason = _about_subquery(context, part, refused) or quoted
    if any(kind == Aggregates.shown and why in context.last_reasons for kind, _, why in context.reasons):
        return
    # This reason replaces the earlier one, which only says that there are several sources.
    context.reasons = [reason for reason in context.reasons if reason[0] != Aggregates.shown]
    context.reasons.append((Aggregates.shown, name, reason))


def _about_subquery(context: RuleContext, part: Node, reason: str) -> str | None:
    """What is said where the column that a reason quotes stands in a condition with a subquery; None if in no such."""
    where = part.args.get("where")
    quoted = reason.partition("`")[2].partition("`")[0]
    conditions = [] if where is None else [where.this] if not isinstance(where.this, exp.And) else where.this.flatten()
    for condition in conditions:
        inside = {id(column) for query in queries_in(condition) for column in nodes_of(query, exp.Column)}
        names = [fold(column.name) for column in nodes_of(condition, exp.Column) if id(column) not in inside]
        if inside and fold(quoted) in names:
            return context.not_answered(condition, _WITH_QUERY)
    return None


_WITH_QUERY = (
    "A condition with a subquery is followed for columns that the policy calls public and has domains for: ask for the "
    "subquery by itself, and write its value out."
)


def _shows_all(query: Node) -> bool:
    """Whether it is SELECT * of one table, perhaps with conditions, as staging models write it."""
    if not isinstance(query, exp.Select) or len(sources(query)) != 1 or not isinstance(sources(query)[0], exp.Table):
        return False
    shown = query.expressions
    return len(shown) == 1 and isinstance(shown[0], exp.Star) and not any(shown[0].args.values())


def _columns_of(context: RuleContext, source: Node, name: TableName) -> dict[str, str]:
    """The columns of a source that reads a protected table, as stored, by folded name. Raises NotFollowed."""
    query = source.this if isinstance(source, exp.Subquery) else None
    if isinstance(source, exp.Table) or (query is not None and _shows_all(query)):
        return {fold(column): column for column in context.columns(name)}
    if (
        not isinstance(query, exp.Select)
        or query.is_star
        or any(not expression.alias_or_name for expression in query.expressions)
    ):
        raise NotFollowed("Write the columns out that the query in FROM shows, with names.", source)
    return {fold(expression.alias_or_name): expression.alias_or_name for expression in query.expressions}


def _others(context: RuleContext, part: Node, place: int) -> dict[str, bool]:
    """The folded names of the columns that the other sources of a SELECT show, as far as its text has them.

    With each, whether its type is known to have finite numbers alone. What is on the right of a SEMI or ANTI JOIN is
    seen in its condition alone.
    """
    hidden = {id(join.this) for join in part.args.get("joins") or [] if join.args.get("kind") in ("SEMI", "ANTI")}
    finite_names: dict[str, bool] = {}
    for at, source in enumerate(sources(part)):
        if at != place and id(source) not in hidden:
            shown: dict[str, bool] = {}
            if isinstance(source, exp.Table):
                types = context.types(named(source))
                shown = {
                    fold(column): is_exact(types.get(fold(column), "")) for column in context.columns(named(source))
                }
            elif isinstance(source.this, exp.Select):
                shown = {fold(expression.alias_or_name): False for expression in source.this.expressions}
            # Two sources may have a column of one name.
            finite_names |= {name: finite and finite_names.get(name, True) for name, finite in shown.items()}
    return finite_names


def listed_values(context: RuleContext) -> None:
    """Answer queries for the different values of public columns: the policy lists them, so no record is read.

    A query around such a query, which counts its rows, say, is computed from these values.
    """
    for query in list(context.parts()):
        reads = [table_names for table_names in context.reads if within(table_names[1], query)]
        if len(reads) == 1 and _is_read_as_rows(context, query) and _shows_values(query):
            ((name, node),) = reads
            reader = next(
                (reading for reading in (query, *map(_projection, sources(query))) if _is_source(reading, node)), None
            )
            if reader is not None:
                try:
                    columns = SourceColumns(
                        reader, node, {fold(column): column for column in context.columns(name)}
                    ).used()
                except NotFollowed:
                    continue
                context.releases.listed(context, name, columns, node, around=query is not context.bound.query)


def _is_read_as_rows(context: RuleContext, query: Node) -> bool:
    """Whether a query is the statement, or stands in FROM or WITH.

    It stands in no EXISTS or IN either, however deep: these ask which values records have.
    """
    above = query.parent
    if query.find_ancestor(exp.In, exp.SubqueryPredicate) is not None:
        return False
    if query is context.bound.query or isinstance(above, exp.CTE | exp.SetOperation):
        return True
    return isinstance(above, exp.Subquery) and isinstance(above.parent, exp.From | exp.Join)


def _is_source(query: Node | None, node: Node) -> bool:
    return query is not None and any(node is source for source in sources(query))


def _projection(source: Node) -> Node | None:
    """The SELECT in a source of FROM, if it shows columns of each of its rows and nothing else."""
    query = source.this if isinstance(source, exp.Subquery) else None
    plain = isinstance(query, exp.Select) and all(
        isinstance(expression.unalias(), exp.Column) for expression in query.expressions
    )
    return (
        query
        if plain and {argument for argument, _ in given(query)} <= {"expressions", "from", "from_", "where"}
        else None
    )


def _shows_values(query: Node) -> bool:
    """Whether each combination of values comes out once, without a statistic of its records."""
    if not isinstance(query, exp.Select):
        return False
    distinct, group = query.args.get("distinct"), query.args.get("group")
    once = group is not None or (distinct is not None and not distinct.args.get("on"))
    if not once or nodes_of(query, exp.Window):
        return False
    if any(
        queries_in(argument)
        for name, argument in given(query)
        if name not in ("from", "from_") and isinstance(argument, ROOT)
    ):
        return False
    parts = [*query.expressions, *(query.args.get(clause) for clause in ("having", "order"))]
    return not any(True for part in parts if part is not None for _ in aggregates_of(part))


def record_reads(context: RuleContext) -> None:
    """Refuse reads of a protected table's records, with a published k-anonymous table or what else may be asked."""
    for finding in context.found(RecordReads):
        if any(name == finding.table for name, _ in context.reads):
            # The table of `persons AS p(a)` is no part of the text by itself.
            part = _part_that_shows(context, finding.node or context.bound.query)
            typos = [fold(node.name) for node in nodes_of(part, exp.Anonymous) if is_like_an_aggregate(fold(node.name))]
            protected = f"Records of {context.label(finding.table)} are protected."
            plain = context.not_answered(part, not_called(typos[0]) if typos else protected)
            said = (why for kind, table, why in context.reasons if table == finding.table and kind == Aggregates.shown)
            offers = context.releases.offers(context, finding.table, finding.shown)
            context.refuse(finding.shown, finding.table, f"{next(said, plain)} {offers}")


def _part_that_shows(context: RuleContext, node: Node) -> Node:
    """The first column of a SELECT that shows protected records; all of the SELECT if none does by itself."""
    for expression in node.expressions if isinstance(node, exp.Select) else ():
        alone = copied(node)
        for clause in ("having", "qualify", "order", "group", "distinct"):
            alone.set(clause, None)
        alone.set("expressions", [copied(expression)])
        reads = context.recognised(alone, node)
        if any(isinstance(finding, RecordReads) and finding.columns for finding in reads):
            return expression.unalias()
    return node


def anything_else(context: RuleContext) -> None:
    """Refuse the statement if anything of it is still open, with the nearest release."""
    for call in context.calls:
        sentence = f"{call.function} cannot be called here: ask the steward."
        context.refuse(f"call of {call.function}", None, context.not_answered(call.node, sentence))
    for name, node in context.reads:
        reasons = [(kind, reason) for kind, table, reason in context.reasons if table == name]
        kind, reason = _shortest(reasons) if reasons else ("other use", _unknown(context, name, node))
        context.refuse(kind, name, f"{reason} {context.releases.offers(context, name, kind)}")


def _shortest(reasons: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The first reason; of several rules with the same sentence, the one that quotes the smallest part.

    What is said of shares as a whole is left to the rule that computes them otherwise, if it quotes a part.
    """
    of_parts = (reason for reason in reasons if reason[1].startswith("`"))
    kind, reason = next(of_parts, reasons[0]) if reasons[0][0] == Conditional.shown else reasons[0]
    same = [sentence for _, sentence in reasons if sentence.rpartition("` ")[2] == reason.rpartition("` ")[2]]
    return kind, min(same, key=len)


def _unknown(context: RuleContext, name: TableName, read: Node) -> str:
    """Why a read of a protected table that no rule knows is refused."""
    query = read.find_ancestor(exp.Select) or read
    above = query.parent.parent if isinstance(query.parent, exp.Subquery) else query.parent
    if isinstance(query.parent, exp.Exists | exp.In) or isinstance(above, exp.Exists | exp.In):
        part = query.parent if isinstance(query.parent, exp.Exists | exp.In) else above
        return context.not_answered(
            part,
            f"It tells whether {context.label(name)} has a certain record: count the records, which has an answer with "
            "noise, and compare that.",
        )
    sentence = f"{context.label(name)} is protected, and this query is none of those that can be released."
    return context.not_answered(query, sentence)


RULES: tuple[Rule, ...] = (
    open_calls,
    calls_on_protected,
    group_size_queries,
    conditional_tables,
    inner_parts,
    parts_of_queries,
    aggregate_queries,
    aggregates_over_joins,
    listed_values,
    record_reads,
    anything_else,
)
