"""Counts, sums, means, variances and quantiles with noise, by keys.

All statistics of a query are one question, with one charge. The SELECT stays as it is: its keys and aggregates are
written over the answer, so HAVING, windows, ROLLUP and arithmetic work on noisy numbers. There are numbers for every
combination of the keys' domains, so which rows come out does not depend on the records. Discrete Laplace noise hides
what one privacy unit adds (Dwork, McSherry, Nissim and Smith 2006; Ghosh, Roughgarden and Sundararajan 2009), or in a
population with a delta discrete Gaussian noise (Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted, spelled
from duckanon.errors import InvalidInput
from duckanon.governance.locations import Location
from duckanon.releases.aggregates_plan import Plan
from duckanon.releases.noise import (
    AddsUpNothing,
    NotOffered,
    check,
    settle,
)
from duckanon.releases.set_by_set import SetBySet
from duckanon.releases.side_by_side import Part, SideBySide
from duckanon.releases.within_units import AsksOtherUnits, local
from duckanon.rewrite.algebra.expressions import Aggregate, Comparison, Constant, Expr
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.rewrite.algebra.nodes import Node, copied, nodes_of, queries_in, sources, sql, within
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.grouped import ALL_OTHERS, NOT_GROUPED, Grouped, NotFollowed, aggregates_of
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.quote import takes_over
from duckanon.rewrite.recognize.aggregates import ASKS_OTHERS, SEVERAL
from duckanon.rewrite.recognize.findings import Aggregates, Conditional, Counts, Role, Unanswered
from duckanon.rewrite.rule_context import RuleContext, type_of_count, written_columns
from duckanon.units.relation import Answered, Relation

# So many columns are named in a sentence.
_MOST_NAMED = 10
UNGROUPED = "The numbers are put together in a way that is not followed: write them with GROUP BY."


def with_groups(context: RuleContext, counts: Counts | Sequence[Conditional], node: Node) -> Node | None:
    """The SELECT with GROUP BY that a query for counts or shares means; None where it cannot be written."""
    first = counts if isinstance(counts, Counts) else counts[0]
    is_one_table = len(first.sources) == 1 and isinstance(first.sources[0].relation, Table)
    if not is_one_table or (isinstance(first, Counts) and first.sets):
        return None
    write = Renderer(first.sources)
    names = context.names(first.table, node, first.columns)
    shown = map(_of_its_type, first.columns, written_columns(node, first.columns))
    columns = [f"{write.text(one)} AS {quoted([name])}" for one, name in zip(shown, names, strict=True)]
    keys = first.keys if isinstance(first, Counts) else (*first.rows, *first.cols)
    read = f"{quoted(context.path(first.table))} AS _dk_read"
    new = exp.select(*columns, dialect=DIALECT).from_(read, dialect=DIALECT)
    for part, conditions in (
        ("where", first.filter),
        ("having", [expression for expression in first.kept if not _is_presence(expression)]),
    ):
        for text in map(write.text, in_order(conditions)):
            new = new.where(text, dialect=DIALECT) if part == "where" else new.having(text, dialect=DIALECT)
    if keys:
        new = new.group_by(*map(write.text, keys), dialect=DIALECT)
    takes_over(new, node)
    return new if order_limit(copied(node, ("having", "qualify", "distinct", "windows")), new) else None


def _of_its_type(role: Role, written: Node | None) -> Expr:
    """A column of counts or shares as an expression; sum(1), which counts too, has another type than count(*)."""
    assert role.expr is not None
    if isinstance(role.expr, Aggregate) and role.expr.name == "count" and type_of_count(written) == "HUGEINT":
        return replace(role.expr, name="sum", operands=(Constant("1"),))
    return role.expr


def _is_presence(condition: Expr) -> bool:
    """Whether a condition on groups only says that they have records: every group of the domains is shown."""
    match condition:
        case Comparison(">", Aggregate("count", ()), Constant("0", False)):
            return True
    return False


def of_query(context: RuleContext, node: Node, written: Node | None = None) -> str | None:
    """Replace a SELECT by the same over noisy numbers. Returns why that cannot be done, else None.

    written: what the SELECT means, if that is written in another way.
    """
    query = written or node
    try:
        new, table, plan = _planned(context, query, node)
    except REFUSALS as no:
        part, why = refused_part(context, query, node, no)
        reason = context.not_answered(part, f"{why}{_way_out(context, query, node, part, why)}")
        if isinstance(why, NotOffered) and why.is_last:
            context.last_reasons.add(reason)
        return reason
    for other, earlier in plan.before:
        settle(context, other, earlier.question, earlier.kind, earlier.words, earlier.counted)
    is_result = node is context.bound.query
    words = plan.words + ("" if plan.together is None else _EACH_SET)
    words += _ROWS_OF_ZEROS if _aggregated_again(node) else ""
    told = plan.together or plan
    noisy, note = (told.noisy, told.note(new)) if is_result else ((), None)
    context.replace(node, new)
    settle(context, table, plan.question, plan.kind, words, plan.counted, noisy, note)
    return None


_EACH_SET = " Numbers that do not add up are asked for each grouping set by itself, each for its own charge."
_ROWS_OF_ZEROS = (
    " The query around it sees a row for every value of the keys' domains, also where there are no records: count, "
    "avg, min, max and ranks are of all these rows. HAVING with a count above its margin of error leaves most out."
)


def _aggregated_again(node: Node) -> bool:
    """Whether the rows of a SELECT with GROUP BY are counted, averaged or ranked by a query around it.

    Sums are not: rows of zeros add nothing but noise. With a condition on its numbers, in HAVING or in the WHERE around
    it, the query says itself which rows it means.
    """
    if node.args.get("group") is None or node.args.get("having") is not None:
        return False
    numbers = {
        fold(expression.alias_or_name) for expression in node.expressions if expression.find(exp.AggFunc) is not None
    }
    around = node.find_ancestor(exp.Select)
    while around is not None:
        where = around.args.get("where")
        if where is not None and any(fold(column.name) in numbers for column in where.find_all(exp.Column)):
            return False
        expressions = [node for part in around.expressions for node in part.find_all(exp.AggFunc, exp.Window)]
        if any(not isinstance(value, exp.Sum) for value in expressions):
            return True
        around = around.find_ancestor(exp.Select)
    return False


_LATERAL = (
    "A subquery in FROM that depends on the row before it is computed within each unit, and this one asks for numbers "
    "of all units: group it by the columns that it compares, and join it by these."
)
_BESIDE = (
    "A subquery beside statistics is followed where these are the result, not where records are compared with them: "
    "write its value out."
)
_SETS_BEFORE = (
    "Different values and quantiles by ROLLUP, CUBE and GROUPING SETS are told where they are the result: group by the "
    "keys themselves."
)
# Of more grouping sets not each is asked by itself.
_MOST_SETS = 16
REFUSALS = (NotFollowed, NotOffered, NotTotal, InvalidInput)


def _planned(context: RuleContext, query: Node, place: Node) -> tuple[Node, TableName, Plan]:
    """The query over noisy numbers, its protected table, and the question. place: where the query stands.

    A subquery about other units than that of its row becomes a lookup in noisy numbers by keys.
    """
    try:
        return _planned_as_written(context, query, place)
    except AsksOtherUnits as other:
        looked_up = None if other.part is None else context.decorrelated(other.part)
        if looked_up is None:
            raise NotOffered(str(other), other.part) from None
        take_back = context.tried(other.part, looked_up[0])
        try:
            return _planned(context, query, place)
        except REFUSALS as no:
            # What is refused is quoted as it was written.
            raise NotOffered(str(no), other.part) from None
        finally:
            take_back()


def _planned_as_written(context: RuleContext, query: Node, place: Node) -> tuple[Node, TableName, Plan]:
    """As `_planned`. Raises AsksOtherUnits."""
    grouped = context.grouped(query, place)
    before: list[tuple[TableName, Plan]] = []

    def ask(block: Block) -> Answered:
        """The answer to a query for numbers of all units, which is asked before the query around it."""
        if block.node is None:
            raise NotOffered(_LATERAL)
        beside = [query for part in _computed(block.node) for query in queries_in(part)]
        if beside:
            # What it reads would be no part of the question around it, though that question's answer depends on it.
            raise NotOffered(_BESIDE, beside[0], is_last=True)
        try:
            # There it sees what WITH has, also that of the query around it.
            inside = within(block.node, context.bound.query) or within(block.node, query)
            value, table, plan = _planned(context, block.node, block.node if inside else place)
        except REFUSALS as no:
            part, why = refused_part(context, block.node, place, no)
            raise NotOffered(str(why), part) from None
        if plan.together is not None:
            raise NotOffered(_SETS_BEFORE, block.node)
        before.extend([*plan.before, (table, plan)])
        if value.args.get("limit") is not None:
            # Which rows are the first must not be left to threads.
            value = value.order_by(*plan.over.keys, dialect=DIALECT)
        answer = Location(*plan.question.path)
        pieces = tuple(sql(value).split(quoted(answer.path)))
        assert len(pieces) == 2, "The numbers follow from one stored answer."
        return Answered(pieces, answer)

    core, relation = local(context, context.shown(grouped, place), ask)
    aggregates = context.aggregates(core)
    plan = _plan(context, aggregates, grouped, relation)
    plan.before = [*before, *plan.before]
    for table, each in (*plan.before, (aggregates.table, plan)):
        check(each.question, context.protected(table))
    stored = {fold(column): column for column in context.columns(aggregates.table)}
    over = plan.over if plan.together is None else plan.together.over
    return grouped.over(over, lambda name: stored.get(fold(name), name)), aggregates.table, plan


def _plan(context: RuleContext, aggregates: Aggregates, grouped: Grouped, relation: Relation | None) -> Plan:
    """The question behind a query; of one with grouping sets whose numbers do not add up, a question for each set."""
    plan = Plan(context, aggregates, grouped, relation)
    try:
        plan.question  # noqa: B018 # it says whether the numbers add up
    except AddsUpNothing:
        if not 0 < len(grouped.sets) <= _MOST_SETS:
            raise
    else:
        return plan
    plans = [
        Plan(
            context,
            replace(aggregates, keys=tuple(aggregates.keys[at] for at in keys)),
            grouped.in_set(keys),
            relation,
        )
        for keys in grouped.sets
    ]
    places = tuple(range(len(grouped.aggregates)))
    answers = [SideBySide(grouped, [Part(at, each, places)]) for at, each in enumerate(plans)]
    *others, last = {each.question: each for each in plans}.values()
    last.before, last.together = [(aggregates.table, each) for each in others], SetBySet(grouped, answers)
    return last


def _computed(query: Node) -> list[Node]:
    """The parts of a SELECT that are computed of its groups."""
    late = (query.args.get(text) for text in ("having", "qualify", "order", "limit", "offset"))
    return [*query.expressions, *(value for value in late if value is not None)]


def refused_part(context: RuleContext, query: Node, place: Node, no: Exception) -> tuple[Node, Exception]:
    """The part of a query that is refused, and why: of several conditions the first in the text."""
    part = getattr(no, "part", None) or _refused_part(context, query, place, str(no))
    part = _as_part(context, part, query)
    return _first_refused(context, query, place, part, no)


def _refused_part(context: RuleContext, query: Node, place: Node, reason: str) -> Node:
    """The part of a query that is refused for a reason: alone beside a count it is refused for the same, else all."""
    if reason == SEVERAL:
        return _read(context, query)
    for part, alone in parts_alone(context, query, place):
        try:
            _planned(context, alone, place)
        except REFUSALS as no:
            if str(no) == reason:
                return getattr(no, "part", None) or part
    return query


def _first_refused(context: RuleContext, query: Node, place: Node, part: Node, no: Exception) -> tuple[Node, Exception]:
    """Of several conditions that are refused, the first in the text, with its own reason. part: one that is refused."""
    if not _is_condition(part):
        return part, no
    for value, alone in parts_alone(context, query, place):
        if within(part, value):
            break
        if _is_condition(value):
            try:
                _planned(context, alone, place)
            except (NotOffered, NotTotal) as first:
                return getattr(first, "part", None) or value, first
            except (NotFollowed, InvalidInput):
                continue  # for what is read, or how the conditions are put together
    return part, no


def _is_condition(part: Node) -> bool:
    """Whether a part stands in WHERE, also in that of FILTER."""
    return isinstance(part.find_ancestor(exp.Where, exp.Query), exp.Where)


def _way_out(context: RuleContext, query: Node, place: Node, part: Node, no: Exception) -> str:
    """What may be asked instead of a part, after a reason without its full stop; empty after a whole sentence.

    Proposals are tried: only what is answered is named. Of views and macros nothing is named.
    """
    if str(no) == ASKS_OTHERS:
        asked = [query.unnest() for query in queries_in(part)]
        if len(asked) == 1 and not isinstance(part, exp.In | exp.Exists) and _is_answered(context, asked[0], place):
            return ": ask for the query in it by itself, and write its value out."
        return ": leave it out, or write values out that are known otherwise."
    if str(no) == NOT_GROUPED:
        grouped = copied(query).group_by(copied(part), copy=False)
        named = not query.args.get("group") or not query.args["group"].args.get("all")
        return f": {'name it in GROUP BY' if named and _is_answered(context, grouped, place) else 'leave it out'}."
    if str(no) == ALL_OTHERS:
        return f"{_others(context, query)}: name those that are wanted in GROUP BY."
    why = getattr(no, "why", None)
    if not isinstance(why, Unanswered):
        return "" if str(no).endswith(".") else "."
    stored = {fold(column): column for name, _ in context.reads for column in context.columns(name)}
    of_part = dict.fromkeys(spelled([node.name]) for node in nodes_of(part, exp.Column) if not _is_star(node))
    of_tables = [spelled([stored[column]]) for column in why.columns if column in stored]
    columns = [] if context.bound.opened else of_tables or [*of_part]
    bare = copied(query, _CLAUSES)
    ways = [text.format(column) for text in why.instead for column in columns]
    answered = [way for way in ways if _is_answered(context, copied(bare).select(way, dialect=DIALECT), place)]
    if not answered and why.keys:
        keys = [key.format(column) for column in columns for key in why.keys]
        by = [
            (key, copied(bare).select(key, "count(*)", dialect=DIALECT).group_by(key, dialect=DIALECT)) for key in keys
        ]
        answered = [f"count(*) with GROUP BY {one}" for one, each in by if _is_answered(context, each, place)]
    if answered:
        return f": ask for {' or '.join(answered)}."
    return f": {why.otherwise}." if why.otherwise else "."


def _is_star(column: Node) -> bool:
    return isinstance(column.this, exp.Star)


def _others(context: RuleContext, query: Node) -> str:
    """The columns of the star of a query over one table, after a reason; empty where they are not to be named."""
    named = [name for name, node in context.reads if node is sources(query)[0]]
    if context.bound.opened or len(sources(query)) != 1 or not named:
        return ""
    left_out = {fold(node.name) for star in nodes_of(query, exp.Star) for node in nodes_of(star, exp.Identifier)}
    shown = [spelled([column]) for column in context.columns(named[0]) if fold(column) not in left_out]
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    return f" ({', '.join(shown[:_MOST_NAMED])}{more})"


def _is_answered(context: RuleContext, query: Node, place: Node) -> bool:
    try:
        _planned(context, query, place)
    except REFUSALS:
        return False
    return True


def _read(context: RuleContext, query: Node) -> Node:
    """What a query reads that cannot be counted beside the rest: the last protected table."""
    reads = [node for _, node in context.reads if within(node, query)]
    if len(reads) > 1:
        return reads[-1]
    values = [source for source in sources(query) if any(within(node, source) for node in reads)]
    return _as_part(context, values[-1] if values else sources(query)[-1], query)


def _as_part(context: RuleContext, part: Node, query: Node) -> Node:
    """What is quoted for a part: for a subquery the condition that it stands in, for a name of WITH what it means."""
    if isinstance(part, exp.Query) and part is not query:
        while isinstance(part.parent, exp.Condition | exp.Subquery) and not isinstance(part.parent, exp.And):
            part = part.parent
        return part
    if isinstance(part, exp.Table) and not part.args.get("db"):
        ctes = nodes_of(context.bound.query, exp.CTE)
        return next((cte for cte in ctes if fold(cte.alias) == fold(part.name)), part)
    return part


def _aggregates_within(counted: Node, place: int, inner: Node) -> Iterator[tuple[Node, Node]]:
    """The columns with aggregates that a subquery in FROM shows, each with the query that has it alone.

    counted: the query around it. place: that of the subquery among its sources.
    """
    computed = [expression for expression in inner.expressions if any(True for _ in aggregates_of(expression))]
    for one in computed if isinstance(inner, exp.Select) else ():
        alone = copied(counted)
        kept = [copied(other) for other in inner.expressions if other is one or other not in computed]
        sources(alone)[place].this.set("expressions", kept)
        yield one.unalias(), alone


def _equations(query: Node) -> list[Node]:
    """The conditions in WHERE by which a query joins what it reads: columns that are equal."""
    where = query.args.get("where")
    if where is None or len(sources(query)) == 1:
        return []
    conditions = [one.unnest() for one in (where.this.flatten() if isinstance(where.this, exp.And) else [where.this])]
    return [
        condition
        for condition in conditions
        if isinstance(condition, exp.EQ)
        and isinstance(condition.this, exp.Column)
        and isinstance(condition.expression, exp.Column)
    ]


_CLAUSES = ("expressions", "where", "group", "having", "qualify", "order", "limit", "offset", "windows")


def parts_alone(context: RuleContext, query: Node, place: Node) -> Iterator[tuple[Node, Node]]:
    """The parts of a query, each with the query that has it alone: conditions on records, keys, then aggregates.

    Before them is the query of a count without any part, which stands for what is read.
    """
    if not isinstance(query, exp.Select) or not sources(query):
        return
    bare = copied(query, _CLAUSES)
    for equation in _equations(query):
        # Without them the tables are not joined.
        bare = bare.where(copied(equation), copy=False)
    counted = copied(bare).select(exp.Count(this=exp.Star()), copy=False)
    parts = [*query.expressions, *(query.args.get(text) for text in ("having", "qualify", "order"))]
    aggregates = list(
        dict.fromkeys(aggregate for part in parts if part is not None for aggregate in aggregates_of(part))
    )
    where = query.args.get("where")
    conditions = [where.this] if where is not None else []
    conditions += [aggregate.expression.this for aggregate in aggregates if isinstance(aggregate, exp.Filter)]
    for source in sources(query):
        # A subquery in FROM that shows records has conditions of its own.
        if isinstance(source, exp.Subquery):
            yield from parts_alone(context, source.this, place)
            yield from _aggregates_within(counted, sources(query).index(source), source.this)
    yield _read(context, query), counted
    for whole in conditions:
        for equation in list(whole.flatten()) if isinstance(whole, exp.And) else [whole]:
            yield equation, copied(counted).where(copied(equation), copy=False)
    for equation in _keys(context, query, place):
        yield equation, copied(counted).group_by(copied(equation), copy=False)
    for equation in aggregates:
        yield equation, copied(bare).select(copied(equation), copy=False)


def _keys(context: RuleContext, query: Node, place: Node) -> list[Node]:
    """What a query groups by; nothing if that is not followed."""
    try:
        return context.grouped(query, place).keys
    except NotFollowed:
        return []
