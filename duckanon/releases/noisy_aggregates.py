"""Counts, sums, means, variances and quantiles with noise, by keys.

All statistics of a query are one question, with one charge. The SELECT stays as it is: its keys and aggregates are
written over the answer, so HAVING, windows, ROLLUP and arithmetic work on noisy numbers. There are numbers for every
combination of the keys' domains, so which rows come out does not depend on the records. Discrete Laplace noise hides
what one privacy unit adds (Dwork, McSherry, Nissim and Smith 2006; Ghosh, Roughgarden and Sundararajan 2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted, spelled
from duckanon.errors import InvalidInput
from duckanon.governance.locations import Location
from duckanon.releases import layout
from duckanon.releases.divided import divided
from duckanon.releases.histograms import histogram
from duckanon.releases.intervals import Noisy
from duckanon.releases.key_filters import Filtered, filtered, placed
from duckanon.releases.measures import Different, Measure, Quantiles, Records, Sums, Units, shared
from duckanon.releases.noise import (
    NotOffered,
    all_of,
    check,
    columns_of,
    conditions,
    not_dropped,
    offering,
    public_key,
    settle,
)
from duckanon.releases.numbers import Columns, Quantity, quantity, rounding
from duckanon.releases.paid_questions import AggregatesQuestion, Key, basis
from duckanon.releases.paid_questions import key as key_of
from duckanon.releases.statistics import (
    Count,
    Counted,
    CountOfDifferent,
    M,
    Mean,
    Measured,
    Quantile,
    Share,
    Spread,
    Sum,
    Told,
    answer_column,
    in_words,
)
from duckanon.releases.within_units import local
from duckanon.rewrite import margins
from duckanon.rewrite.algebra.bounds import NotBounded
from duckanon.rewrite.algebra.expressions import (
    FALSE,
    NULL,
    TRUE,
    Boolean,
    Case,
    Column,
    Comparison,
    Constant,
    Expr,
    In,
    Negative,
    Not,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal, scalar, written
from duckanon.rewrite.algebra.nodes import Node, copied, nodes_of, queries_in, sources, sql, within
from duckanon.rewrite.algebra.nullability import never_null, present_columns
from duckanon.rewrite.algebra.order import sort_key
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.rows import is_condition
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.grouped import ALL_OTHERS, NOT_GROUPED, Grouped, NotFollowed, Over, aggregates_of
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize.aggregates import ASKS_OTHERS, SEVERAL, present_operand
from duckanon.rewrite.recognize.findings import Aggregates, Counts, Statistic, Unanswered
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.relation import Answered, Relation

# More cells than that for one combination of keys are too many.
_MOST_OUTCOMES = 64
# So many columns are named in a sentence.
_MOST_NAMED = 10
_UNGROUPED = "The counts are put together in a way that is not followed: write them with GROUP BY."
_SPREADING = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
# The statistics that are computed from sums.
_SUMMED: dict[str, type[Sum | Mean | Spread]] = {"sum": Sum, "avg": Mean, **dict.fromkeys(_SPREADING, Spread)}
_ANSWER = "_dk_answer"
_OF_OTHERS = "of other columns a key has conditions with constants alone, as in"
_COMPUTED_KEY = (
    "A key is computed by functions that have a value for every record: lower, upper, substring, length and the like; "
    "year, month, date_trunc and the like; + - * and // by constants; CASE, coalesce and comparisons with constants. "
    "This one is not among them: write it with these (width_bucket(age, 0, 100, 10) as age // 10 + 1), or count by the "
    "columns themselves in a subquery, and compute it around that."
)


def of_counts(context: RuleContext, found: Counts, node: Node) -> str | None:
    """As `of_query`, for counts over windows of which one row of each partition is kept: they are written as groups."""
    if found.sets or found.kept or any(role.what == "derived" for role in found.columns):
        return _UNGROUPED
    keys = [copied(one) for one in _partition(nodes_of(node, exp.Window)[0], node) if not isinstance(one, exp.Literal)]
    if len(set(keys)) != len(found.keys) or len(node.expressions) != len(found.columns):
        return _UNGROUPED
    new = copied(node, ("expressions", "qualify", "distinct", "windows", "order", "limit", "offset"))
    names = context.names(found.table, node, found.columns)
    for role, name, one in zip(found.columns, names, node.expressions, strict=True):
        shown = one.unalias().unnest()
        if role.what == "count" and not isinstance(shown, exp.Window):
            return _UNGROUPED
        told = copied(shown.this if role.what == "count" else shown)
        new.append("expressions", exp.alias_(told, name, quoted=True, copy=False))
    if keys:
        new.set("group", exp.Group(expressions=keys))
    bare = copied(node, ("qualify", "distinct", "windows"))
    return of_query(context, node, new) if order_limit(bare, new) else _UNGROUPED


def _partition(window: Node, query: Node) -> list[Node]:
    """What a window of a query is partitioned by, also where that is named in WINDOW."""
    named = window.args.get("alias")
    base = [one for one in query.args.get("windows") or [] if named is not None and fold(one.name) == fold(named.name)]
    inherited = _partition(base[0], query) if base else []
    return [*inherited, *(window.args.get("partition_by") or [])]


def of_query(context: RuleContext, node: Node, written: Node | None = None) -> str | None:
    """Replace a SELECT by the same over noisy numbers. Returns why that cannot be done, else None.

    written: what the SELECT means, if that is written in another way.
    """
    query = written or node
    try:
        new, table, plan = _planned(context, query, node)
    except _REFUSALS as no:
        part, why = refused_part(context, query, node, no)
        return context.not_answered(part, f"{why}{_way_out(context, query, node, part, why)}")
    for other, earlier in plan.before:
        settle(context, other, earlier.question, earlier.kind, earlier.words, earlier.counted)
    is_result = node is context.bound.query
    noisy, note = (plan.noisy, plan.note(new)) if is_result else ((), None)
    context.replace(node, new)
    settle(context, table, plan.question, plan.kind, plan.words, plan.counted, noisy, note)
    return None


_REFUSALS = (NotFollowed, NotOffered, NotTotal, InvalidInput)


def _planned(context: RuleContext, query: Node, place: Node) -> tuple[Node, TableName, _Plan]:
    """The query over noisy numbers, its protected table, and the question. place: where the query stands."""
    grouped = context.grouped(query, place)
    before: list[tuple[TableName, _Plan]] = []

    def ask(block: Block) -> Answered:
        """The answer to a query for one value of all units, which is asked before the query around it."""
        try:
            value, table, plan = _planned(context, block.node, place)
        except _REFUSALS as no:
            part, why = refused_part(context, block.node, place, no)
            raise NotOffered(str(why), part) from None
        before.extend([*plan.before, (table, plan)])
        answer = Location(*plan.question.path)
        pieces = tuple(sql(value).split(quoted(answer.path)))
        assert len(pieces) == 2, "The number follows from one stored answer."
        return Answered("", pieces, answer)

    core, relation = local(context, context.shown(grouped, place), ask)
    found = context.aggregates(core)
    plan = _Plan(context, found, grouped, relation)
    plan.before = before
    check(plan.question, context.protected(found.table))
    stored = {fold(one): one for one in context.columns(found.table)}
    return grouped.over(plan.over, lambda name: stored.get(fold(name), name)), found.table, plan


def refused_part(context: RuleContext, query: Node, place: Node, no: Exception) -> tuple[Node, Exception]:
    """The part of a query that is refused, and why: of several conditions the first in the text."""
    part = getattr(no, "part", None) or _refused_part(context, query, place, str(no))
    part = _as_part(context, part, query)
    return _first_refused(context, query, place, part, no)


def _refused_part(context: RuleContext, query: Node, place: Node, reason: str) -> Node:
    """The part of a query that is refused for a reason: alone beside a count it is refused for the same, else all."""
    if reason == SEVERAL:
        return _read(context, query)
    for part, alone in _alone(context, query, place):
        try:
            _planned(context, alone, place)
        except _REFUSALS as no:
            if str(no) == reason:
                return getattr(no, "part", None) or part
    return query


def _first_refused(context: RuleContext, query: Node, place: Node, part: Node, no: Exception) -> tuple[Node, Exception]:
    """Of several conditions that are refused, the first in the text, with its own reason. part: one that is refused."""
    if not _is_condition(part):
        return part, no
    for one, alone in _alone(context, query, place):
        if within(part, one):
            break
        if _is_condition(one):
            try:
                _planned(context, alone, place)
            except (NotOffered, NotTotal) as first:
                return getattr(first, "part", None) or one, first
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
        asked = [one.unnest() for one in queries_in(part)]
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
    stored = {fold(one): one for name, _ in context.reads for one in context.columns(name)}
    columns = [] if context.bound.opened else [spelled([stored[one]]) for one in why.columns if one in stored]
    bare = copied(query, _CLAUSES)
    ways = [one.format(column) for one in why.instead for column in columns]
    answered = [one for one in ways if _is_answered(context, copied(bare).select(one, dialect=DIALECT), place)]
    if not answered and why.keys:
        by = [
            (one, copied(bare).select(one, "count(*)", dialect=DIALECT).group_by(one, dialect=DIALECT))
            for one in columns
        ]
        answered = [f"count(*) with GROUP BY {one}" for one, each in by if _is_answered(context, each, place)]
    if answered:
        return f": ask for {' or '.join(answered)}."
    return f": {why.otherwise}." if why.otherwise else "."


def _others(context: RuleContext, query: Node) -> str:
    """The columns of the star of a query over one table, after a reason; empty where they are not to be named."""
    named = [name for name, node in context.reads if node is sources(query)[0]]
    if context.bound.opened or len(sources(query)) != 1 or not named:
        return ""
    left_out = {fold(one.name) for star in nodes_of(query, exp.Star) for one in nodes_of(star, exp.Identifier)}
    shown = [spelled([one]) for one in context.columns(named[0]) if fold(one) not in left_out]
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    return f" ({', '.join(shown[:_MOST_NAMED])}{more})"


def _is_answered(context: RuleContext, query: Node, place: Node) -> bool:
    try:
        _planned(context, query, place)
    except _REFUSALS:
        return False
    return True


def _read(context: RuleContext, query: Node) -> Node:
    """What a query reads that cannot be counted beside the rest: the last protected table."""
    reads = [node for _, node in context.reads if within(node, query)]
    if len(reads) > 1:
        return reads[-1]
    found = [one for one in sources(query) if any(within(node, one) for node in reads)]
    return _as_part(context, found[-1] if found else sources(query)[-1], query)


def _as_part(context: RuleContext, part: Node, query: Node) -> Node:
    """What is quoted for a part: for a subquery the condition that it stands in, for a name of WITH what it means."""
    if isinstance(part, exp.Query) and part is not query:
        while isinstance(part.parent, exp.Condition | exp.Subquery) and not isinstance(part.parent, exp.And):
            part = part.parent
        return part
    if isinstance(part, exp.Table) and not part.args.get("db"):
        ctes = nodes_of(context.bound.query, exp.CTE)
        return next((one for one in ctes if fold(one.alias) == fold(part.name)), part)
    return part


def _aggregates_within(counted: Node, place: int, inner: Node) -> Iterator[tuple[Node, Node]]:
    """The columns with aggregates that a subquery in FROM shows, each with the query that has it alone.

    counted: the query around it. place: that of the subquery among its sources.
    """
    computed = [one for one in inner.expressions if any(True for _ in aggregates_of(one))]
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
        one
        for one in conditions
        if isinstance(one, exp.EQ) and isinstance(one.this, exp.Column) and isinstance(one.expression, exp.Column)
    ]


_CLAUSES = ("expressions", "where", "group", "having", "qualify", "order", "limit", "offset", "windows")


def _alone(context: RuleContext, query: Node, place: Node) -> Iterator[tuple[Node, Node]]:
    """The parts of a query, each with the query that has it alone: conditions on records, keys, then aggregates.

    Before them is the query of a count without any part, which stands for what is read.
    """
    if not isinstance(query, exp.Select) or not sources(query):
        return
    bare = copied(query, _CLAUSES)
    for one in _equations(query):
        # Without them the tables are not joined.
        bare = bare.where(copied(one), copy=False)
    counted = copied(bare).select(exp.Count(this=exp.Star()), copy=False)
    parts = [*query.expressions, *(query.args.get(one) for one in ("having", "qualify", "order"))]
    aggregates = list(dict.fromkeys(one for part in parts if part is not None for one in aggregates_of(part)))
    where = query.args.get("where")
    conditions = [where.this] if where is not None else []
    conditions += [one.expression.this for one in aggregates if isinstance(one, exp.Filter)]
    for source in sources(query):
        # A subquery in FROM that shows records has conditions of its own.
        if isinstance(source, exp.Subquery):
            yield from _alone(context, source.this, place)
            yield from _aggregates_within(counted, sources(query).index(source), source.this)
    yield _read(context, query), counted
    for whole in conditions:
        for one in list(whole.flatten()) if isinstance(whole, exp.And) else [whole]:
            yield one, copied(counted).where(copied(one), copy=False)
    for one in _keys(context, query, place):
        yield one, copied(counted).group_by(copied(one), copy=False)
    for one in aggregates:
        yield one, copied(bare).select(copied(one), copy=False)


def _keys(context: RuleContext, query: Node, place: Node) -> list[Node]:
    """What a query groups by; nothing if that is not followed."""
    try:
        return context.grouped(query, place).keys
    except NotFollowed:
        return []


@dataclass(frozen=True)
class _Choice:
    """A key made of conditions: the value for the place of the first that holds, the last if none does."""

    tests: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class _Measures:
    """The measures of a question, by the folded columns that they are of, or the identities of what they are of."""

    records: Records | None
    units: Units | None
    different: Mapping[str, Different]
    sums: Mapping[tuple[bool, str], Sums]
    quantiles: Mapping[tuple[bool, str], Quantiles]

    @property
    def all(self) -> list[Measure]:
        """In the order in which the question has them."""
        single = [one for one in (self.records, self.units) if one is not None]
        return [*single, *self.different.values(), *self.sums.values(), *self.quantiles.values()]


class _Plan:
    """The question behind a query, and how its keys and aggregates follow from the answer."""

    def __init__(
        self, context: RuleContext, found: Aggregates, grouped: Grouped, relation: Relation | None = None
    ) -> None:
        self._context, self._found, self._grouped, self._relation = context, found, grouped, relation
        self._table, self._protected = found.table, offering(context, found.table)
        self._policy, self._types = self._protected.policy, context.types(found.table)
        # Questions whose answers this one needs, in order.
        self.before: list[tuple[TableName, _Plan]] = []
        self._columns: list[tuple[Expr, str, tuple[Key, ...]]] = []
        self._choices: dict[Expr, _Choice] = {}
        self._histograms: list[str] = []
        for one in found.keys:
            self._add_key(one)
        wheres = (one.where & one.of if one.name == "share" else one.where for one in found.statistics)
        # A condition on keys alone leaves rows in the answer, with exact zeros.
        self._common = frozenset(one for one in frozenset.intersection(*wheres) if not self._is_of_keys(one))
        self._statistics = [self._without(one) for one in found.statistics]
        self._events = self._families()

    @cached_property
    def _write(self) -> Renderer:
        return Renderer(self._found.sources)

    def _without(self, one: Statistic) -> Statistic:
        """The statistic without the conditions that all have; they become the question's filter."""
        unit = self._policy.privacy_unit
        name = one.name
        if name == "units":
            # A linked table has no column of its owners.
            if unit is None or self._policy.is_linked or one.column != fold(unit):
                name = "different"
            elif self._policy.contributions == 1:
                # With one record of each unit there are as many records as units.
                name = "records"
        return replace(one, name=name, where=one.where - self._common, of=one.of - self._common)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _add_key(self, expr: Expr) -> None:
        listed = self._choice(expr) if isinstance(expr, Column) and self._listed(expr) is not None else None
        if isinstance(expr, Column) and (listed is None or key_of(self._protected, expr.name) is not None):
            self._add_column(expr)
            return
        choice = self._choice(expr)
        if choice is not None:
            self._choices[expr] = choice
            return
        used = sorted({one for one in walk(expr) if isinstance(one, Column)}, key=lambda one: one.name)
        if not used:
            raise NotOffered("A key must be computed from columns of the table.")
        try:
            self._columns.append((expr, "expression", tuple(map(self._key_within, used))))
        except NotOffered as no:
            self._choices[expr] = self._histogram(expr, no)

    def _add_column(self, column: Column) -> None:
        """A column as a key: by its domain, or if it is computed within a unit by its bounds."""
        try:
            self._columns.append((column, "", (public_key(self._context, self._table, column),)))
        except NotOffered as no:
            if self._relation is None:
                raise
            self._choices[column] = self._histogram(column, no)

    def _histogram(self, expr: Expr, without_bounds: NotOffered) -> _Choice:
        """A key whose values follow from bounds. Raises the given error where these are not known."""
        shown = self._shown(expr)
        not_dropped(self._context, self._table, columns_of(expr))
        present = frozenset(one.name for one in present_columns([*self._found.filter]))
        columns = Columns(self._protected, self._types, self._context.today, present)
        try:
            found = histogram(columns, expr, shown)
        except (NotBounded, NotTotal):
            raise without_bounds from None
        self._histograms.append(shown)
        if found.nullable or len(found.values) == 1:
            return _Choice(found.tests, (*found.values, "NULL"))
        return _Choice(found.tests[:-1], found.values)

    def _key_within(self, column: Column) -> Key:
        """The key of a column within an expression. Raises NotOffered."""
        not_dropped(self._context, self._table, {column.name})
        try:
            return public_key(self._context, self._table, column)
        except NotOffered as no:
            stored = {fold(one): one for one in self._context.columns(self._table)}
            tested = _tested(stored.get(column.name, column.name), self._types.get(column.name, ""))
            raise NotOffered(
                f"{str(no).rstrip('.')}, and by what is computed from these; {_OF_OTHERS} {tested}."
            ) from no

    def _choice(self, expr: Expr) -> _Choice | None:
        """The key as conditions on records with constant values; None if it is something else."""
        if is_condition(expr, self._found.sources):
            tests: Sequence[Expr] = [expr, Not(expr)]
            values: Sequence[Expr] = [TRUE, FALSE, NULL]
            if never_null(expr, present_columns([*self._found.filter])):
                tests, values = tests[:1], values[:2]
        elif isinstance(expr, Case):
            tests, values = [branch.condition for branch in expr.branches], expr.values
        elif (listed := self._listed(expr)) is not None:
            # WHERE leaves no other value than these, so the last is what is none of the others.
            tests, values = [Comparison("=", expr, one) for one in listed[:-1]], listed
        else:
            return None
        if not all(one == NULL or _is_constant(one) for one in values):
            return None
        try:
            written = conditions(self._context, self._table, tests)
        except NotTotal:
            return None
        return _Choice(tuple(written), tuple(self._write.text(one) for one in values))

    def _listed(self, expr: Expr) -> Sequence[Expr] | None:
        """The constants of which WHERE says that an expression is one; None where it does not."""
        for condition in self._found.filter:
            match condition:
                case In(operand, values) if operand == expr and all(map(_is_constant, values)):
                    return list(dict.fromkeys(values))
                case Comparison("=", left, right) if left == expr and _is_constant(right):
                    return [right]
        return None

    @cached_property
    def _where(self) -> Filtered:
        """The keys, and the conditions of WHERE on them and on records.

        A condition that all aggregates have in FILTER leaves no row out, so it is one on records.
        """
        keys = list(dict.fromkeys(key for _, _, keys in self._columns for key in keys))
        return filtered(self._context, self._table, keys, list(self._found.filter))

    @property
    def _bases(self) -> tuple[Key, ...]:
        return self._where.keys

    @cached_property
    def _expressions(self) -> list[str]:
        """Each key of columns as SQL over the values k0, ... of the columns with domains."""
        found = []
        for expr, kind, keys in self._columns:
            places = {fold(key.column): self._bases.index(key) for key in keys}
            first = layout.key(places[fold(keys[0].column)])
            types = {layout.key(places[fold(key.column)]): key.kind for key in keys}
            over = rebuilt(expr, partial(placed, places))
            try:
                found.append(scalar(over, types, self._context.today)[0] if kind else quoted([first]))
            except NotTotal:
                raise NotOffered(_COMPUTED_KEY) from None
        return found

    def _is_of_keys(self, condition: Expr) -> bool:
        """Whether a condition of FILTER is known for each row of keys, so that it needs no noise of its own."""
        return columns_of(condition) <= {fold(key.column) for _, _, keys in self._columns for key in keys}

    @cached_property
    def _key_conditions(self) -> dict[Expr, str]:
        """The conditions of FILTER on keys alone, as SQL over k0, ...: over the columns with domains."""
        wheres = [where for one in self._statistics for where in (one.where, one.of)]
        asked = sorted({one for where in wheres for one in where if self._is_of_keys(one)}, key=repr)
        conditions(self._context, self._table, asked)
        places = {fold(key.column): at for at, key in enumerate(self._bases)}
        types = {layout.key(at): self._types[column] for column, at in places.items()}
        found = {}
        for one in asked:
            over = rebuilt(one, partial(placed, places, name=layout.key if self._is_grouped else _shown_key))
            kinds = types if self._is_grouped else {_shown_key(at): types[layout.key(at)] for at in places.values()}
            found[one] = written(over, kinds, self._context.today)
        return found

    @property
    def _is_grouped(self) -> bool:
        """Whether cells are made by something else than the keys: by expressions, or by some of the keys only."""
        shown = {key for _, _, keys in self._columns for key in keys}
        return any(kind for _, kind, _ in self._columns) or shown != set(self._bases)

    @cached_property
    def _cells_by(self) -> tuple[str, ...]:
        if not self._is_grouped:
            return ()
        return tuple(sorted({*self._expressions, *self._key_conditions.values()}))

    def _key(self, expr: Expr) -> str:
        """A key over the answer."""
        if expr in self._choices:
            choice = self._choices[expr]
            if not choice.tests:
                # A bare number would stand for a column's place in GROUP BY.
                return f"(CASE WHEN true THEN {choice.values[-1]} END)"
            at = self._events.index(choice.tests)
            cases = " ".join(f"WHEN {place} THEN {value}" for place, value in enumerate(choice.values[:-1]))
            return f"(CASE {answer_column(layout.event(at))} {cases} ELSE {choice.values[-1]} END)"
        (at,) = (at for at, (one, _, _) in enumerate(self._columns) if one == expr)
        if self._is_grouped:
            return answer_column(layout.key(self._cells_by.index(self._expressions[at])))
        return answer_column(layout.key(self._bases.index(self._columns[at][2][0])))

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _families(self) -> tuple[tuple[str, ...], ...]:
        """The events: of the keys, and of the aggregates' conditions; those that exclude each other are one event."""
        families: list[list[frozenset[Expr]]] = []
        # The order of a set differs from process to process, and the question must not.
        for where in sorted(self._wheres, key=lambda one: sorted(map(sort_key, one))):
            fitting = (one for one in families if all(_exclude(where, other, self._types) for other in one))
            family = next(fitting, None)
            if family is None:
                families.append([where])
            else:
                family.append(where)
        told = [tuple(all_of(self._context, self._table, one) for one in family) for family in families]
        self._places = {where: (at, place) for at, family in enumerate(families) for place, where in enumerate(family)}
        self._told = told
        # A key that WHERE leaves one value needs no condition.
        events = tuple(dict.fromkeys([*told, *(one.tests for one in self._choices.values() if one.tests)]))
        outcomes = 1
        for one in events:
            outcomes *= len(one) + 1
        if outcomes > _MOST_OUTCOMES:
            raise NotOffered("These are too many conditions for one question: ask for fewer numbers at once.")
        return events

    @property
    def _wheres(self) -> set[frozenset[Expr]]:
        found = {self._of_records(one.where) for one in self._statistics if not self._is_of_values(one)}
        return {one for one in found | {self._of_records(one.of) for one in self._statistics} if one}

    def _of_records(self, where: frozenset[Expr]) -> frozenset[Expr]:
        """The conditions that are not of keys alone."""
        return frozenset(one for one in where if not self._is_of_keys(one))

    def _filtered(self, *wheres: frozenset[Expr]) -> str:
        """The FILTER of an aggregate over the answer: the cells where all of several conditions hold."""
        met = [self._places[one] for one in dict.fromkeys(map(self._of_records, wheres)) if one]
        events = [f"{answer_column(layout.event(self._events.index(self._told[at])))} = {place}" for at, place in met]
        of_keys = sorted({self._key_conditions[one] for where in wheres for one in where if self._is_of_keys(one)})
        if self._is_grouped:
            of_keys = [answer_column(layout.key(self._cells_by.index(one))) for one in of_keys]
        met_all = [*(f"({one})" for one in of_keys), *events]
        return f" FILTER (WHERE {' AND '.join(met_all)})" if met_all else ""

    def _is_of_values(self, one: Statistic) -> bool:
        """Whether it counts the values of a column that is summed, so that this count is there already."""
        return one.name == "records" and self._counted_beside(one) is not None

    def _counted_beside(self, one: Statistic) -> tuple[bool, str] | None:
        """Of a count of the values of what is summed, what that is."""
        operand = present_operand(self._of_records(one.where))
        found = None if operand is None else self._quantities.get(operand)
        return found.identity if found is not None and found.identity in self._summed else None

    # --- measures -----------------------------------------------------------------------------------------------------

    @cached_property
    def _quantities(self) -> dict[Expr, Quantity]:
        """What statistics of numbers are of."""
        columns = Columns(self._protected, self._types, self._context.today)
        asked = [(one, one.operand) for one in self._statistics if one.name in (*_SUMMED, "quantile")]
        return {operand: self._quantity(columns, one, operand) for one, operand in asked if operand is not None}

    def _quantity(self, columns: Columns, one: Statistic, operand: Expr) -> Quantity:
        """Raises NotOffered, NotFollowed and NotTotal."""
        not_dropped(self._context, self._table, columns_of(operand))
        try:
            return quantity(columns, operand, self._shown(operand))
        except NotBounded as no:
            told = {"quantile": "quantile_cont"}.get(one.name, one.name)
            further = "" if one.place is None else f", {float(one.place):g}"
            why = Unanswered(
                str(no),
                tuple(sorted(columns_of(operand))),
                (f"{told}({{}}{further})",),
                otherwise="ask the steward for a column with bounds that holds it",
            )
            raise NotFollowed(why.reason, why=why) from no

    def _shown(self, expr: Expr) -> str:
        """An expression for people, with columns named as the table has them."""
        stored = {fold(name): name for name in self._context.columns(self._table)}
        named = rebuilt(
            expr,
            lambda part: Column(part.source, stored.get(part.name, part.name)) if isinstance(part, Column) else None,
        )
        return self._write.text(named)

    def _of(self, one: Statistic) -> Quantity:
        assert one.operand is not None
        return self._quantities[one.operand]

    @cached_property
    def _summed(self) -> dict[tuple[bool, str], bool]:
        """What is summed, and whether its squares are needed."""
        found: dict[tuple[bool, str], bool] = {}
        for one in self._statistics:
            if one.name in _SUMMED:
                summed = self._of(one).identity
                found[summed] = found.get(summed, False) or one.name in _SPREADING
        return found

    @cached_property
    def _measures(self) -> _Measures:
        asked = {one.name for one in self._statistics}
        counted = any(one.name in ("records", "share") and not self._is_of_values(one) for one in self._statistics)
        different = sorted({one.column or "" for one in self._statistics if one.name == "different"})
        places: dict[tuple[bool, str], set[Fraction]] = {}
        for one in self._statistics:
            if one.name == "quantile" and one.place is not None:
                places.setdefault(self._of(one).identity, set()).add(one.place)
        known = {one.identity: one for one in self._quantities.values()}
        found = _Measures(
            records=Records() if counted and not self._summed else None,
            units=Units(self._few_cells) if "units" in asked else None,
            different={one: self._different(one) for one in different},
            # The first sum counts records beside, those without a value too.
            sums={
                of: Sums(known[of].number(squares=squares), squares, counted and at == 0)
                for at, (of, squares) in enumerate(sorted(self._summed.items()))
            },
            quantiles={
                of: Quantiles(known[of].number(quantiles=True), tuple(str(one) for one in sorted(at)))
                for of, at in sorted(places.items())
            },
        )
        if not all(one.adds_up for one in found.all):
            self._check_single()
        return found

    @property
    def _few_cells(self) -> int | None:
        """The number of cells, if it is less than that of the records of a unit that count."""
        if self._policy.contributions == 1 or self._is_alone:
            return None
        cells = self._context.releases.cells(self._asked(((Records(), Fraction(1)),)))
        return cells if cells and cells < self._policy.contributions else None

    def _different(self, column: str) -> Different:
        """The measure of a column's different values. Raises NotTotal for types that are not compared."""
        scalar(Column(0, column), self._types, self._context.today)
        stored = {fold(one): one for one in self._context.columns(self._table)}
        return Different(stored[column])

    def _check_single(self) -> None:
        """Raises NotOffered where numbers that do not add up would have to."""
        repeated = any(len(set(one.values)) < len(one.values) for one in self._choices.values())
        of_parts = self._is_grouped and self._key_conditions
        if self._grouped.has_sets or self._told or repeated or of_parts:
            raise NotOffered(
                "Different values and quantiles do not add up: ask for them without ROLLUP, CUBE and GROUPING SETS, "
                "and without FILTER or CASE beside other numbers.",
                self._first_that_does_not_add_up,
            )

    @property
    def _first_that_does_not_add_up(self) -> Node:
        """Of the aggregates as they are written."""
        both = zip(self._statistics, self._grouped.aggregates, strict=True)
        return next(node for one, node in both if one.name in ("units", "different", "quantile"))

    @cached_property
    def question(self) -> AggregatesQuestion:
        for one in self._statistics:
            if one.name == "different" and one.column is not None:
                not_dropped(self._context, self._table, {one.column})
        measures = shared(self._measures.all, self._policy.contributions, is_alone=self._is_alone)
        return self._asked(measures)

    @property
    def _is_alone(self) -> bool:
        """Whether there is a single cell."""
        return not self._bases and not self._events

    def _asked(self, measures: tuple[tuple[Measure, Fraction], ...]) -> AggregatesQuestion:
        """A question for measures, in the cells of this one."""
        filters = [*self._where.filters, *conditions(self._context, self._table, list(self._common))]
        assert self._policy.per_query is not None
        return AggregatesQuestion(
            **basis(self._protected, self._policy.per_query, filters),
            keys=self._bases,
            domain_filters=self._where.domain_filters,
            grouped=self._cells_by,
            events=self._events,
            measures=measures,
            relation=self._relation,
            of_keys=self._where.of_keys,
        )

    # --- the query over the answer ------------------------------------------------------------------------------------

    @property
    def over(self) -> Over:
        names = ", ".join(map(answer_column, self.question.columns))
        source = f"{quoted(self.question.path)} AS {quoted([_ANSWER])}({names})"
        keys = [self._key(one) for one in self._found.keys]
        told = self.told
        return Over(
            source,
            keys,
            [one.value for one in told],
            ends=lambda at, side: told[at].end(side),
            quotient=lambda rows: divided(told[rows.above], told[rows.below], rows),
        )

    @cached_property
    def told(self) -> list[Told]:
        """The statistics as they follow from the answer, in order."""
        return [self._follows(one, node) for one, node in zip(self._statistics, self._grouped.aggregates, strict=True)]

    def _follows(self, one: Statistic, node: Node) -> Told:
        """A statistic as it follows from the answer. node: as it is written."""
        measures, column = self._measures, one.column or ""
        beside = self._counted_beside(one) if one.name == "records" else None
        if beside is not None:
            of_values = Counted.by(self._measured(measures.sums[beside]))
            return Count(one, node, self, of_values, one.where - self._of_records(one.where))
        if one.name == "records":
            return Count(one, node, self, self._records, one.where)
        if one.name == "share":
            return Share(one, node, self, self._records)
        if one.name == "units":
            assert measures.units is not None
            return CountOfDifferent(one, node, self, Counted.by(self._measured(measures.units)), one.where)
        if one.name == "different":
            of_column = Counted.by(self._measured(measures.different[column]))
            return CountOfDifferent(one, node, self, of_column, one.where)
        if one.name == "quantile":
            of = self._of(one)
            return Quantile(one, node, self, self._measured(measures.quantiles[of.identity]), of.type)
        of = self._of(one)
        return _SUMMED[one.name](one, node, self, self._measured(measures.sums[of.identity]), of.type)

    def _measured(self, measure: M) -> Measured[M]:
        return Measured(measure, self._measures.all.index(measure), self.question.noise(measure))

    @property
    def _records(self) -> Counted:
        """What counts records."""
        if self._measures.records is not None:
            return Counted.by(self._measured(self._measures.records))
        return Counted.beside(self._measured(next(one for one in self._measures.sums.values() if one.missing)))

    def sum(self, column: str, *wheres: frozenset[Expr]) -> str:
        return f"coalesce(sum({answer_column(column)}){self._filtered(*wheres)}, 0)"

    def count(self, *wheres: frozenset[Expr]) -> str:
        return f"count(*){self._filtered(*wheres)}"

    def in_row(self, *wheres: frozenset[Expr]) -> int:
        met = {self._told[self._places[one][0]] for one in map(self._of_records, wheres) if one}
        own = {one.tests: max(map(one.values.count, one.values)) for one in self._choices.values()}
        cells = 1
        for event in self._events:
            cells *= 1 if event in met else own.get(event, len(event) + 1)
        if self._is_grouped:
            # Cells are apart by conditions on keys too.
            cells *= 2 ** len(self._key_conditions.keys() - {one for where in wheres for one in where})
        return cells

    def are_apart(self, one: frozenset[Expr], other: frozenset[Expr]) -> bool:
        records = [self._of_records(where) for where in (one, other)]
        if all(records):
            (event, place), (other_event, other_place) = (self._places[where] for where in records)
            if event == other_event and place != other_place:
                return True
        return _exclude(one - records[0], other - records[1], self._types)

    def only(self, *wheres: frozenset[Expr]) -> str:
        return self._filtered(*wheres)

    # --- what is said of it -------------------------------------------------------------------------------------------

    @property
    def counted(self) -> list[tuple[Noisy, int]]:
        """The noise of each count, and how many cells it adds up; where no count is told, of those behind the rest."""
        found = [one.noise for one in self.told if one.noise is not None]
        if found:
            return found
        behind = [one.counted(self.question.noise(one)) for one in self._measures.all]
        return [(one, self.in_row()) for one in behind if one is not None]

    @property
    def noisy(self) -> list[tuple[int, float]]:
        """The query's columns that are counts and sums as they stand, and how wide the intervals in a row are.

        Totals of rows have wider ones, so there are none of a query with totals. Where a condition on keys does not
        hold there is no noise.
        """
        shown = [] if self._grouped.has_sets else self._grouped.query.expressions
        by_node = dict(zip(self._grouped.aggregates, self.told, strict=True))
        found = [(at, by_node.get(one.unalias())) for at, one in enumerate(shown)]
        same = [(at, one) for at, one in found if one is not None and one.is_shown and not self._is_in_part(one)]
        return [(at, 2 * one.half) for at, one in same if one.half is not None]

    def _is_in_part(self, told: Told) -> bool:
        """Whether a condition on keys says that there is nothing to be told in some rows."""
        return any(map(self._is_of_keys, told.asked.where))

    def note(self, new: Node) -> str | None:
        """As of the step, of the query over the answer; None where all widths are the same, or there are none."""
        if new.args.get("distinct") is not None:
            return None
        found = self._grouped.intervals(self.over, [_width(one) for one in self.told])
        if not found or {at for at, _ in found} == {at for at, _ in self.noisy}:
            return None
        return margins.query(new, found)

    @property
    def kind(self) -> str:
        """What is asked, for people."""
        return "count" if all(one.counts for one in self.told) else "statistics"

    @property
    def words(self) -> str:
        """The margins of error of the numbers, in words."""
        is_plain = len(self._measures.all) == 1 and not self._events and not self._grouped.has_sets
        if self.kind == "count" and is_plain:
            near = f"95 % are within {margins.rounded(max(one.half or 0 for one in self.told))} of the truth"
            return f"The counts have noise, and may be negative: {near}."
        told = in_words(self.told, self._as_written, has_totals=self._grouped.has_sets)
        return told + self._outside_told + self._bounds_told + self._rounded_told + self._split_told

    def _as_written(self, node: Node) -> str:
        """An aggregate as the statement has it: nothing of the text of a view or macro."""
        if not self._context.bound.opened:
            return sql(node)
        part = self._context.bound.quote(node)
        return "a number" if part is None else part

    @property
    def _outside_told(self) -> str:
        """Where records count that lie outside of the bounds from which a key is computed."""
        if not self._histograms:
            return ""
        named = "a key" if self._context.bound.opened else " and ".join(self._histograms)
        return f" Values outside of the bounds from which {named} is computed count in the first or the last row of it."

    @property
    def _bounds_told(self) -> str:
        """The bounds and the steps of what is computed; nothing of the text of a view or macro."""
        if self._context.bound.opened:
            return ""
        found = dict.fromkeys(one.words for one in self._quantities.values() if one.words)
        return f" Bounds and step of what is computed follow from its columns: {', '.join(found)}." if found else ""

    @property
    def _rounded_told(self) -> str:
        """Which numbers are rounded, and how."""
        types = {one.identity: one.type for one in self._quantities.values()}
        numbers = [(one.number, types[of]) for of, one in self._measures.sums.items()]
        found = [one for one, kind in numbers if rounding(one, kind)]
        told = ", ".join(f"{one.column} to steps of {float(Fraction(one.step)):.6g}" for one in found)
        return f" Values are rounded: {told}." if told else ""

    @property
    def _split_told(self) -> str:
        shares = [share for _, share in self.question.measures]
        if len(shares) == 1:
            return ""
        parts = ", ".join(f"{one.kind} {float(share):.0%}" for one, share in self.question.measures)
        return f" Epsilon is split by how much noise each part needs: {parts}."


def _tested(column: str, kind: str) -> str:
    """A key that is made of a condition on a column of a type, as SQL."""
    name = spelled([column])
    is_number = kind in WHOLE or kind == "DOUBLE" or kind.startswith("DECIMAL(")
    condition = f"{name} < 18" if is_number else f"{name} IS NULL"
    return f"CASE WHEN {condition} THEN 'yes' ELSE 'no' END"


def _width(told: Told) -> str | None:
    """How wide a number's interval is, as SQL; None if it has none."""
    try:
        return told.width
    except NotFollowed:
        return None


def _shown_key(at: int) -> str:
    """The column of the answer for a key."""
    return f"_dk_{layout.key(at)}"


def _is_constant(expr: Expr) -> bool:
    while isinstance(expr, Negative):
        expr = expr.operand
    return isinstance(expr, Constant | Boolean)


def _exclude(one: frozenset[Expr], other: frozenset[Expr], types: Mapping[str, str]) -> bool:
    """Whether no record meets both: they require different texts of a column, or a condition and its opposite."""
    wanted = {left: right for left, right in (_equal(each, types) for each in one) if left is not None}
    for condition in other:
        left, right = _equal(condition, types)
        if left is not None and left in wanted and wanted[left] != right:
            return True
        if isinstance(condition, Not) and condition.operand in one:
            return True
    return any(isinstance(each, Not) and each.operand in other for each in one)


def _equal(condition: Expr, types: Mapping[str, str]) -> tuple[Column | None, Constant | None]:
    """The column of text and the constant that a condition calls equal; None for another condition.

    Of numbers and dates several texts can mean one value.
    """
    match condition:
        case Comparison("=", Column() as column, Constant(_, True) as value):
            pass
        case Comparison("=", Constant(_, True) as value, Column() as column):
            pass
        case _:
            return None, None
    return (column, value) if _is_text(types.get(column.name, "")) else (None, None)


def _is_text(kind: str) -> bool:
    return kind == "VARCHAR" or kind.startswith("ENUM(")
