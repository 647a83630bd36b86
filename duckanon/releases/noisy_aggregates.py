"""Counts, sums, means, variances and quantiles with noise, by keys.

All statistics of a query are one question, with one charge. The SELECT stays as it is: its keys and aggregates are
written over the answer, so HAVING, windows, ROLLUP and arithmetic work on noisy numbers. There are numbers for every
combination of the keys' domains, so which rows come out does not depend on the records. Discrete Laplace noise hides
what one privacy unit adds (Dwork, McSherry, Nissim and Smith 2006; Ghosh, Roughgarden and Sundararajan 2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, floor, log10

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.errors import InvalidInput
from duckanon.releases.intervals import Noisy, Quotient
from duckanon.releases.key_filters import Filtered, filtered, placed
from duckanon.releases.measures import Different, Measure, Quantiles, Records, Sums, Units, shared
from duckanon.releases.noise import (
    NotOffered,
    all_of,
    check,
    conditions,
    not_dropped,
    offering,
    public_key,
    settle,
)
from duckanon.releases.numbers import of_column, own_step, rounding
from duckanon.releases.paid_questions import AggregatesQuestion, Key, basis
from duckanon.rewrite.algebra.expressions import NULL, Call, Column, Constant, Expr, rebuilt, walk
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.nodes import Node, sql
from duckanon.rewrite.algebra.nullability import never_null, present_columns
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.rows import is_condition
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.eager_aggregation import sources
from duckanon.rewrite.normalize.grouped import Grouped, NotFollowed, Over, aggregates_of
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize.aggregates import SEVERAL, present_column
from duckanon.rewrite.recognize.findings import Aggregates, Counts, Statistic
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.rule_context import RuleContext, type_of_count, within

# More cells than that for one combination of keys are too many.
_MOST_OUTCOMES = 64
_UNGROUPED = "The counts are put together in a way that is not followed: write them with GROUP BY."
_SPREADING = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
# Statistics that count, and the measures of those that count different values.
_OF_DIFFERENT: dict[str, type[Measure]] = {"units": Units, "different": Different}
_COUNTS = ("records", *_OF_DIFFERENT)
_ANSWER = "_dk_answer"
_OTHER_SIDE = {"low": "high", "high": "low"}


def of_counts(context: RuleContext, found: Counts, node: Node) -> str | None:
    """As `of_query`, for counts without a GROUP BY, such as those over windows: they are written with one first."""
    if found.sets or found.kept or any(role.what == "derived" for role in found.columns):
        return _UNGROUPED
    write = Renderer(found.sources)
    counted = "count(*)" if found.unit is None else f"count(DISTINCT {write.text(found.unit)})"
    shown = []
    for role, name in zip(found.columns, context.names(found.table, node, found.columns), strict=True):
        where = write.all_of(role.where)
        count = counted + (f" FILTER (WHERE {where})" if where else "")
        told = count if role.expr is None else write.text(role.expr)
        shown.append(f"{told} AS {quoted([name])}")
    where = write.all_of(found.filter)
    keys = ", ".join(map(write.text, found.keys))
    text = f"SELECT {', '.join(shown)} FROM {write.tables()}{f' WHERE {where}' if where else ''}"
    new = sqlglot.parse_one(text + (f" GROUP BY {keys}" if keys else ""), read=DIALECT)
    bare = node.copy()
    for part in ("qualify", "distinct", "windows"):
        bare.set(part, None)
    if not isinstance(node, exp.Select) or not order_limit(bare, new):
        return _UNGROUPED
    return of_query(context, node, new)


def of_query(context: RuleContext, node: Node, written: Node | None = None) -> str | None:
    """Replace a SELECT by the same over noisy numbers. Returns why that cannot be done, else None.

    written: what the SELECT means, if that is written in another way.
    """
    query = written or node
    try:
        new, table, plan = _planned(context, query, node)
    except _REFUSALS as no:
        return context.not_answered(getattr(no, "part", None) or _refused_part(context, query, node, str(no)), str(no))
    noisy = plan.noisy if node is context.bound.query else ()
    context.replace(node, new)
    settle(context, table, plan.question, plan.kind, plan.told, plan.counted, noisy)
    return None


_REFUSALS = (NotFollowed, NotOffered, NotTotal, InvalidInput)


def _planned(context: RuleContext, query: Node, place: Node) -> tuple[Node, TableName, _Plan]:
    """The query over noisy numbers, its protected table, and the question. place: where the query stands."""
    grouped = Grouped(query, lambda column: context.reads_column(column, place))
    found = context.aggregates(grouped, place)
    plan = _Plan(context, found, grouped)
    check(plan.question, context.catalog.protected[found.table])
    stored = {fold(one): one for one in context.columns(found.table)}
    return grouped.over(plan.over, lambda name: stored.get(fold(name), name)), found.table, plan


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


def _read(context: RuleContext, query: Node) -> Node:
    """What a query reads that cannot be counted beside the rest: the last protected table."""
    reads = [node for _, node in context.reads if within(node, query)]
    if len(reads) > 1:
        return reads[-1]
    found = [one for one in sources(query) if any(within(node, one) for node in reads)]
    part = found[-1] if found else sources(query)[-1]
    ctes = [] if part.args.get("db") else list(context.bound.query.find_all(exp.CTE))
    return next((one for one in ctes if fold(one.alias) == fold(part.name)), part)


def _alone(context: RuleContext, query: Node, place: Node) -> Iterator[tuple[Node, Node]]:
    """The parts of a query, each with the query that has it alone: conditions on records, keys, then aggregates.

    Before them is the query of a count without any part, which stands for what is read.
    """
    if not isinstance(query, exp.Select) or not sources(query):
        return
    bare = query.copy()
    for clause in ("expressions", "where", "group", "having", "qualify", "order", "limit", "offset", "windows"):
        bare.set(clause, None)
    counted = bare.copy().select(exp.Count(this=exp.Star()), copy=False)
    parts = [*query.expressions, *(query.args.get(one) for one in ("having", "qualify", "order"))]
    aggregates = list(dict.fromkeys(one for part in parts if part is not None for one in aggregates_of(part)))
    where = query.args.get("where")
    conditions = [where.this] if where is not None else []
    conditions += [one.expression.this for one in aggregates if isinstance(one, exp.Filter)]
    for source in sources(query):
        # A subquery in FROM that shows records has conditions of its own.
        if isinstance(source, exp.Subquery):
            yield from _alone(context, source.this, place)
    yield _read(context, query), counted
    for whole in conditions:
        for one in list(whole.flatten()) if isinstance(whole, exp.And) else [whole]:
            yield one, counted.copy().where(one.copy(), copy=False)
    for one in _keys(context, query, place):
        yield one, counted.copy().group_by(one.copy(), copy=False)
    for one in aggregates:
        yield one, bare.copy().select(one.copy(), copy=False)


def _keys(context: RuleContext, query: Node, place: Node) -> list[Node]:
    """What a query groups by; nothing if that is not followed."""
    try:
        return Grouped(query, lambda column: context.reads_column(column, place)).keys
    except NotFollowed:
        return []


@dataclass(frozen=True)
class _Choice:
    """A key made of conditions: the value for the place of the first that holds, the last if none does."""

    tests: tuple[str, ...]
    values: tuple[str, ...]


class _Plan:
    """The question behind a query, and how its keys and aggregates follow from the answer."""

    def __init__(self, context: RuleContext, found: Aggregates, grouped: Grouped) -> None:
        self._context, self._found, self._grouped = context, found, grouped
        self._table, self._protected = found.table, offering(context, found.table)
        self._write = Renderer(found.sources)
        self._policy, self._types = self._protected.policy, context.types(found.table)
        wheres = (one.where & one.of if one.name == "share" else one.where for one in found.statistics)
        self._common = frozenset.intersection(*wheres)
        self._statistics = [self._without(one) for one in found.statistics]
        self._columns: list[tuple[Expr, str, tuple[Key, ...]]] = []
        self._choices: dict[Expr, _Choice] = {}
        for one in found.keys:
            self._add_key(one)
        self._events = self._families()

    def _without(self, one: Statistic) -> Statistic:
        """The statistic without the conditions that all have; they become the question's filter."""
        unit = self._policy.privacy_unit
        name = one.name
        if name == "units":
            if unit is None or one.column != fold(unit):
                name = "different"
            elif self._policy.contributions == 1:
                # With one record of each unit there are as many records as units.
                name = "records"
        return Statistic(name, one.column, one.where - self._common, one.of - self._common, one.place, one.factor)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _add_key(self, expr: Expr) -> None:
        if isinstance(expr, Column):
            key = public_key(self._context, self._table, expr)
            self._columns.append((expr, "", (key,)))
            return
        choice = self._choice(expr)
        if choice is not None:
            self._choices[expr] = choice
            return
        used = sorted({one for one in walk(expr) if isinstance(one, Column)}, key=lambda one: one.name)
        if not used:
            raise NotOffered("A key must be computed from columns of the table.")
        keys = tuple(public_key(self._context, self._table, one) for one in used)
        self._columns.append((expr, "expression", keys))

    def _choice(self, expr: Expr) -> _Choice | None:
        """The key as conditions on records with constant values; None if it is something else."""
        if is_condition(expr, self._found.sources):
            tests: Sequence[Expr] = [expr, Call("Not", (expr,), (("this", "part"),))]
            values: list[Expr] = [Call("Boolean", (), (("this", True),)), Call("Boolean"), NULL]
            if never_null(expr, present_columns([*self._found.filter, *self._common])):
                tests, values = tests[:1], values[:2]
        elif isinstance(expr, Call) and expr.kind == "Case":
            tests, values = expr.operands[0:-1:2], [*expr.operands[1:-1:2], expr.operands[-1]]
        else:
            return None
        if not all(one == NULL or _is_constant(one) for one in values):
            return None
        try:
            written = conditions(self._context, self._table, tests)
        except NotTotal:
            return None
        return _Choice(tuple(written), tuple(self._write.text(one) for one in values))

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
            types = {f"k{places[fold(key.column)]}": key.kind for key in keys}
            over = rebuilt(expr, partial(placed, places))
            found.append(
                scalar(over, types, self._context.today)[0] if kind else quoted([f"k{places[fold(keys[0].column)]}"])
            )
        return found

    @property
    def _is_grouped(self) -> bool:
        """Whether cells are made by something else than the keys: by expressions, or by some of the keys only."""
        shown = {key for _, _, keys in self._columns for key in keys}
        return any(kind for _, kind, _ in self._columns) or shown != set(self._bases)

    @cached_property
    def _cells_by(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._expressions))) if self._is_grouped else ()

    def _key(self, expr: Expr) -> str:
        """A key over the answer."""
        if expr in self._choices:
            choice = self._choices[expr]
            at = self._events.index(choice.tests)
            cases = " ".join(f"WHEN {place} THEN {value}" for place, value in enumerate(choice.values[:-1]))
            return f"(CASE {_name(f'e{at}')} {cases} ELSE {choice.values[-1]} END)"
        (at,) = (at for at, (one, _, _) in enumerate(self._columns) if one == expr)
        if self._is_grouped:
            return _name(f"k{self._cells_by.index(self._expressions[at])}")
        return _name(f"k{self._bases.index(self._columns[at][2][0])}")

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _families(self) -> tuple[tuple[str, ...], ...]:
        """The events: of the keys, and of the aggregates' conditions; those that exclude each other are one event."""
        families: list[list[frozenset[Expr]]] = []
        # The order of a set differs from process to process, and the question must not.
        for where in sorted(self._wheres, key=lambda one: sorted(map(repr, one))):
            fitting = (one for one in families if all(_exclude(where, other, self._types) for other in one))
            family = next(fitting, None)
            if family is None:
                families.append([where])
            else:
                family.append(where)
        told = [tuple(all_of(self._context, self._table, one) for one in family) for family in families]
        self._places = {where: (at, place) for at, family in enumerate(families) for place, where in enumerate(family)}
        self._told = told
        events = tuple(dict.fromkeys([*told, *(one.tests for one in self._choices.values())]))
        outcomes = 1
        for one in events:
            outcomes *= len(one) + 1
        if outcomes > _MOST_OUTCOMES:
            raise NotOffered("These are too many conditions for one question: ask for fewer numbers at once.")
        return events

    @property
    def _wheres(self) -> set[frozenset[Expr]]:
        found = {one.where for one in self._statistics if not self._is_of_values(one)}
        return {one for one in found | {one.of for one in self._statistics} if one}

    def _filtered(self, *wheres: frozenset[Expr]) -> str:
        """The FILTER of an aggregate over the answer: the cells where all of several conditions hold."""
        met = [self._places[one] for one in dict.fromkeys(wheres) if one]
        events = [f"{_name(f'e{self._events.index(self._told[at])}')} = {place}" for at, place in met]
        return f" FILTER (WHERE {' AND '.join(events)})" if events else ""

    def _is_of_values(self, one: Statistic) -> bool:
        """Whether it counts the values of a column that is summed, so that this count is there already."""
        column = present_column(one.where) if one.name == "records" else None
        return column is not None and column in self._summed

    # --- measures -----------------------------------------------------------------------------------------------------

    @property
    def _summed(self) -> dict[str, bool]:
        """The columns that are summed, and whether their squares are needed."""
        found: dict[str, bool] = {}
        for one in self._statistics:
            if one.column is not None and one.name in ("sum", "avg", *_SPREADING):
                found[one.column] = found.get(one.column, False) or one.name in _SPREADING
        return found

    @cached_property
    def _measures(self) -> list[Measure]:
        counted = any(one.name in ("records", "share") and not self._is_of_values(one) for one in self._statistics)
        found: list[Measure] = []
        if any(one.name == "units" for one in self._statistics):
            found.append(Units())
        different = {one.column or "" for one in self._statistics if one.name == "different"}
        found += map(self._different, sorted(different))
        for column, squares in sorted(self._summed.items()):
            number = of_column(self._protected, self._types, column, squares=squares)
            missing = counted and not any(isinstance(one, Sums) for one in found)
            found.append(Sums(number, squares, missing))
        if counted and not self._summed:
            found.insert(0, Records())
        places: dict[str, set[Fraction]] = {}
        for one in self._statistics:
            if one.name == "quantile" and one.column is not None and one.place is not None:
                places.setdefault(one.column, set()).add(one.place)
        for column, at in sorted(places.items()):
            number = of_column(self._protected, self._types, column, quantiles=True)
            found.append(Quantiles(number, tuple(str(one) for one in sorted(at))))
        if any(isinstance(one, Units | Different | Quantiles) for one in found):
            self._check_single()
        return found

    def _different(self, column: str) -> Different:
        """The measure of a column's different values. Raises NotTotal for types that are not compared."""
        scalar(Column(0, column), self._types, self._context.today)
        stored = {fold(one): one for one in self._context.columns(self._table)}
        return Different(stored[column])

    def _check_single(self) -> None:
        """Raises NotOffered where numbers that do not add up would have to."""
        repeated = any(len(set(one.values)) < len(one.values) for one in self._choices.values())
        if self._grouped.has_sets or self._told or repeated:
            raise NotOffered(
                "Different values and quantiles do not add up: ask for them without ROLLUP, and without FILTER or CASE "
                "beside other numbers."
            )

    @cached_property
    def question(self) -> AggregatesQuestion:
        for one in self._statistics:
            not_dropped(self._context, self._table, {one.column} - {None} if one.name != "units" else set())  # type: ignore[arg-type]
        filters = [*self._where.filters, *conditions(self._context, self._table, list(self._common))]
        assert self._policy.per_query is not None
        return AggregatesQuestion(
            **basis(self._protected, self._policy.per_query, filters),
            keys=self._bases,
            domain_filters=self._where.domain_filters,
            grouped=self._cells_by,
            events=self._events,
            measures=shared(self._measures, self._policy.contributions, is_alone=not self._bases and not self._events),
        )

    # --- the query over the answer ------------------------------------------------------------------------------------

    @property
    def over(self) -> Over:
        names = ", ".join(_name(one) for one in self.question.columns)
        source = f"{quoted(self.question.path)} AS {quoted([_ANSWER])}({names})"
        written = [
            self._aggregate(one, node) for one, node in zip(self._statistics, self._grouped.aggregates, strict=True)
        ]
        return Over(source, [self._key(one) for one in self._found.keys], written, self._end)

    def _at(self, kind: type, column: str | None = None) -> tuple[int, Measure]:
        return next(
            (at, one)
            for at, one in enumerate(self._measures)
            if isinstance(one, kind) and (column is None or one.source == column)
        )

    def _sum(self, letter: str, at: int, *wheres: frozenset[Expr]) -> str:
        return f"coalesce(sum({_name(f'{letter}{at}')}){self._filtered(*wheres)}, 0)"

    def _records(self, *wheres: frozenset[Expr]) -> str:
        """The number of records that meet all of several conditions."""
        if not self._summed:
            at, _ = self._at(Records)
            return self._sum("n", at, *wheres)
        at, _ = self._counting
        return f"({self._sum('n', at, *wheres)} + {self._sum('z', at, *wheres)})"

    def _share(self, one: Statistic) -> tuple[str, str]:
        """The two numbers of a share.

        The cells of the part are among those of the whole. Others would add noise alone, and more of it than intervals
        count.
        """
        return self._records(one.where, one.of), self._records(one.of)

    @property
    def _counting(self) -> tuple[int, Sums]:
        return next((at, one) for at, one in enumerate(self._measures) if isinstance(one, Sums) and one.missing)

    def _aggregate(self, one: Statistic, node: Node) -> str:
        """A statistic over the answer. node: as it is written, which decides its type."""
        if one.name == "records":
            return self._count(one, type_of_count(node.this if isinstance(node, exp.Filter) else node))
        if one.name in _OF_DIFFERENT:
            at, _ = self._at(_OF_DIFFERENT[one.name], one.column if one.name == "different" else None)
            return f"CAST({self._sum('n', at, frozenset())} AS BIGINT)"
        if one.name == "share":
            part, of = self._share(one)
            share = f"least(greatest({part} / {of}, 0), 1)"
            return f"(CASE WHEN {of} >= 1 THEN {_times(share, one.factor)} END)"
        assert one.column is not None
        if one.name == "quantile":
            at, measure = self._at(Quantiles, one.column)
            assert isinstance(measure, Quantiles)
            place = _name(f"m{at}_{measure.at.index(str(one.place))}")
            return f"CAST(max({place}) AS {self._type_of_quantile(one.column, node)})"
        at, measure = self._at(Sums, one.column)
        n, s = self._sum("n", at, one.where), self._sum("s", at, one.where)
        if one.name == "sum":
            return f"CAST({_times(s, one.factor)} AS {self._type_of_sum(one, node)})"
        if one.name == "avg":
            return f"(CASE WHEN {n} >= 1 THEN {self._clamped(f'{s} / {n}', measure)} END)"
        squares = f"greatest({self._sum('q', at, one.where)} / {n} - ({s} / {n}) ** 2, 0)"
        least, scaled = (1, squares) if one.name.endswith("pop") else (2, f"{squares} * {n} / ({n} - 1)")
        shown = f"sqrt({scaled})" if one.name.startswith("stddev") else scaled
        return f"(CASE WHEN {n} >= {least} THEN {shown} END)"

    def _count(self, one: Statistic, kind: str) -> str:
        if self._is_of_values(one):
            at, _ = self._at(Sums, present_column(one.where))
            found = self._sum("n", at, frozenset())
        else:
            found = self._records(one.where)
        whole = found if not self._summed else f"round({found})"
        return f"CAST({_times(whole, one.factor)} AS {kind if one.factor.denominator == 1 else 'DOUBLE'})"

    def _clamped(self, value: str, measure: Measure) -> str:
        assert isinstance(measure, Sums)
        return f"least(greatest({value}, {_double(Fraction(measure.number.low))}), {_double(measure.number.high)})"

    def _type_of_sum(self, one: Statistic, node: Node) -> str:
        kind = self._types[one.column or ""]
        if node.find(exp.Cast) is not None or one.factor.denominator != 1:
            return "DOUBLE"
        if kind.startswith("DECIMAL("):
            return f"DECIMAL(38,{kind.rstrip(')').split(',')[1].strip()})"
        return "HUGEINT" if kind in WHOLE else "DOUBLE"

    def _type_of_quantile(self, column: str, node: Node) -> str:
        kind = self._types[column]
        discrete = isinstance(node, exp.PercentileDisc | exp.ApproxQuantile) or "quantile_disc" in sql(node).lower()
        return kind if discrete or not (kind in WHOLE or kind == "DOUBLE") else "DOUBLE"

    # --- intervals ----------------------------------------------------------------------------------------------------

    def _end(self, place: int, side: str) -> str:
        """An end of the 95 % interval of an aggregate over the answer."""
        one, node = self._statistics[place], self._grouped.aggregates[place]
        if one.name in _COUNTS:
            return self._end_of_count(one, node, side)
        if one.name == "share":
            return self._end_of_share(one, side)
        if one.name == "sum":
            return self._end_of_sum(one, side)
        if one.name == "avg":
            return self._end_of_mean(one, side)
        raise NotFollowed(
            "low and high are the ends of counts, sums, means and shares: of others there are none.", node
        )

    def _end_of_count(self, one: Statistic, node: Node, side: str) -> str:
        """No count is below zero, so neither is an end of its interval."""
        cells = f"count(*){self._filtered(self._met(one))}"
        # A count is rounded, so noise of less than half a record more does not show.
        records = f"CAST(floor({self._noisy_count(one).width_sql(cells)} + 0.5) AS BIGINT)"
        kind = type_of_count(node.this if isinstance(node, exp.Filter) else node)
        kind = kind if one.factor.denominator == 1 else "DOUBLE"
        end = f"{self._aggregate(one, node)} {_sign(side)} {_times(records, abs(one.factor))}"
        return f"CAST({'greatest' if one.factor > 0 else 'least'}({end}, 0) AS {kind})"

    def _end_of_sum(self, one: Statistic, side: str) -> str:
        at, measure = self._at_sums(one)
        s, n = self._sum("s", at, one.where), self._sum("n", at, one.where)
        cells, kind = f"count(*){self._filtered(one.where)}", self._types[one.column or ""]
        # A negative factor turns the interval around.
        turned = side if one.factor > 0 else _OTHER_SIDE[side]
        widths = [noisy.width_sql(cells) for noisy in self._noisy_sums(one)]
        width = widths[0] if len(widths) == 1 else f"greatest({', '.join(widths)})"
        step, error = own_step(kind), float(rounding(measure.number, kind))
        end = f"{s} {_sign(turned)} {width}"
        if error or step is None:
            # Each value was rounded by no more than that.
            return _times(f"({end} {_sign(turned)} {error!r} * greatest({n}, 0))", one.factor)
        # The true sum is a whole number of steps, and the noisy one is that only as far as floats are exact.
        near = f"(0.000001 + 1e-12 * abs({s}) * {step.denominator})"
        outermost, inwards = ("least", "ceil") if turned == "low" else ("greatest", "floor")
        steps = f"{inwards}(({end}) * {step.denominator} {_sign(turned)} {near})"
        # If no whole number of steps is so near, it is the nearest one.
        found = f"{outermost}({steps}, round({s} * {step.denominator})) + 0.0"
        return _times(f"(({found}) / {step.denominator})", one.factor)

    def _end_of_mean(self, one: Statistic, side: str) -> str:
        at, measure = self._at_sums(one)
        s, n = self._sum("s", at, one.where), self._sum("n", at, one.where)
        least, reach = Fraction(measure.number.low), measure.number.high - Fraction(measure.number.low)
        quotient = self._mean(measure)
        counts = [f"count(*){self._filtered(one.where)}"] * len(quotient.values)
        way = quotient.end_sql(side, f"(({s} - {_double(least)} * {n}) / {_double(reach)})", n, counts)
        error = float(rounding(measure.number, self._types[one.column or ""]))
        return self._clamped(f"({_double(least)} + {_double(reach)} * {way} {_sign(side)} {error!r})", measure)

    def _end_of_share(self, one: Statistic, side: str) -> str:
        part, whole = f"count(*){self._filtered(one.where, one.of)}", f"count(*){self._filtered(one.of)}"
        found, of = self._share(one)
        noisy = self._noisy_count(one)
        each = len(noisy.weights)
        quotient = Quotient(noisy.scale, noisy.weights[0], (Fraction(1), Fraction(0)))
        turned = side if one.factor > 0 else _OTHER_SIDE[side]
        end = quotient.end_sql(turned, found, of, [f"{each} * {part}", f"{each} * ({whole} - {part})"])
        return _times(end, one.factor)

    def _met(self, one: Statistic) -> frozenset[Expr]:
        return frozenset() if self._is_of_values(one) else one.where

    def _at_sums(self, one: Statistic) -> tuple[int, Sums]:
        at, measure = self._at(Sums, one.column)
        assert isinstance(measure, Sums)
        return at, measure

    # --- the noise of numbers -----------------------------------------------------------------------------------------

    def _noisy_count(self, one: Statistic) -> Noisy:
        """The noise of a count, or of both counts of a share."""
        if one.name in _OF_DIFFERENT or not self._summed:
            kind = _OF_DIFFERENT.get(one.name, Records)
            _, measure = self._at(kind, one.column if one.name == "different" else None)
            return Noisy(self.question.noise(measure), (Fraction(1),))
        _, measure = self._at(Sums, present_column(one.where)) if self._is_of_values(one) else self._counting
        assert isinstance(measure, Sums)
        totals = measure.degree + 1 + (not self._is_of_values(one))
        return Noisy(self.question.noise(measure) * measure.whole, (Fraction(1, measure.whole),) * totals)

    def _noisy_sums(self, one: Statistic) -> list[Noisy]:
        """The noise of a sum. The width of each of them is enough, beside the rounding of each counted value.

        A sum is told by s, and the values that were rounded by at most e each by n: for N true values an interval
        s -+ (w + e max(n, 0)) misses the true sum if the noise of s is more than w + e (n - N), to one side, so its
        weights change by e; and to the other side.
        """
        _, measure = self._at_sums(one)
        scale = self.question.noise(measure) * measure.whole
        error = rounding(measure.number, self._types[one.column or ""])
        return [
            Noisy(scale, tuple((value + moved) / measure.whole for value in _ends(measure)))
            for moved in dict.fromkeys((-error, error))
        ]

    def _mean(self, measure: Sums) -> Quotient:
        """The noise of a mean, as a share of the way from the least value to the largest."""
        values = tuple(Fraction(at, measure.degree) for at in range(measure.degree + 1))
        return Quotient(self.question.noise(measure) * measure.whole, Fraction(1, measure.whole), values)

    def _half(self, one: Statistic) -> float:
        """How far 95 % are from the truth at most in a row of all keys; of a mean, times the number of its values."""
        if one.name in _COUNTS:
            cells = self._cells_of_row(self._met(one))
            return self._noisy_count(one).records(cells) * abs(float(one.factor))
        if one.name == "share":
            part, whole = self._cells_of_row(one.where, one.of), self._cells_of_row(one.of)
            noisy = self._noisy_count(one)
            each = len(noisy.weights)
            quotient = Quotient(noisy.scale, noisy.weights[0], (Fraction(1), Fraction(0)))
            return quotient.width([each * part, each * (whole - part)]) * abs(float(one.factor))
        _, measure = self._at_sums(one)
        cells = self._cells_of_row(one.where)
        if one.name == "sum":
            width, step = max(noisy.width(cells) for noisy in self._noisy_sums(one)), self._step_of_sum(one)
            shown = width if step is None else floor(width / step + Fraction(1, 2)) * step
            return float(shown * abs(one.factor))
        reach = float(measure.number.high - Fraction(measure.number.low))
        return self._mean(measure).width([cells] * (measure.degree + 1)) * reach

    @property
    def counted(self) -> list[tuple[Noisy, int]]:
        """The noise of each count, and how many cells it adds up; where no count is told, of those behind the rest."""
        found = [
            (self._noisy_count(one), self._cells_of_row(self._met(one)))
            for one in self._statistics
            if one.name in _COUNTS
        ]
        for measure, _ in self.question.measures if not found else ():
            if isinstance(measure, Sums):
                found.append((self._mean(measure).divisor, self._cells_of_row()))
            elif not isinstance(measure, Quantiles):
                found.append((Noisy(self.question.noise(measure), (Fraction(1),)), self._cells_of_row()))
        return found

    def _step_of_sum(self, one: Statistic) -> Fraction | None:
        """The step to which a sum is rounded by its type; None for floats."""
        node = self._grouped.aggregates[self._statistics.index(one)]
        kind = self._type_of_sum(one, node)
        return own_step("BIGINT" if kind == "HUGEINT" else kind)

    @property
    def noisy(self) -> list[tuple[int, float]]:
        """The query's columns that are counts and sums as they stand, and how wide the intervals in a row are.

        Totals of rows have wider ones, so there are none of a query with totals.
        """
        shown = [] if self._grouped.has_sets else self._grouped.query.expressions
        by_node = dict(zip(self._grouped.aggregates, self._statistics, strict=True))
        found = [(at, by_node.get(one.unalias())) for at, one in enumerate(shown)]
        return [(at, 2 * self._half(one)) for at, one in found if one is not None and one.name in (*_COUNTS, "sum")]

    def _cells_of_row(self, *wheres: frozenset[Expr]) -> int:
        """How many cells are added up in a row of all keys, of those where all of several conditions hold."""
        met = {self._told[self._places[one][0]] for one in wheres if one}
        own = {one.tests: max(map(one.values.count, one.values)) for one in self._choices.values()}
        cells = 1
        for event in self._events:
            cells *= 1 if event in met else own.get(event, len(event) + 1)
        return cells

    @property
    def kind(self) -> str:
        """What is asked, for people."""
        return "count" if all(one.name in _COUNTS for one in self._statistics) else "statistics"

    @property
    def told(self) -> str:
        """The margins of error of the numbers, in words."""
        if (
            self.kind == "count"
            and len(self.question.measures) == 1
            and not self._events
            and not self._grouped.has_sets
        ):
            near = f"95 % are within {_rounded(max(map(self._half, self._statistics)))} of the truth"
            return f"The counts have noise, and may be negative: {near}."
        found = []
        for one, node in dict(zip(self._statistics, self._grouped.aggregates, strict=True)).items():
            shown = sql(node)
            if one.name in (*_COUNTS, "sum"):
                found.append(f"{shown} within {_rounded(self._half(one))}")
            elif one.name in ("avg", "share"):
                found.append(f"{shown} within {_rounded(self._half(one))} / the number of its values")
        wider = ", and those of totals within more" if self._grouped.has_sets else ""
        within = f"95 % are within what is said for one row: {', '.join(found)}{wider}."
        measured = f"The numbers have noise, and may be negative; {within}"
        others = {one.name for one in self._statistics} & {"quantile", *_SPREADING}
        rest = " Variances and quantiles have no interval." if others else ""
        return (measured if found else "The numbers have noise.") + rest + self._rounded_told + self._split_told

    @property
    def _rounded_told(self) -> str:
        """Which numbers are rounded, and how."""
        numbers = [one.number for one, _ in self.question.measures if isinstance(one, Sums)]
        rounded = [one for one in numbers if rounding(one, self._types[fold(one.column)])]
        told = ", ".join(f"{one.column} to steps of {float(Fraction(one.step)):.6g}" for one in rounded)
        return f" Values are rounded: {told}." if told else ""

    @property
    def _split_told(self) -> str:
        shares = [share for _, share in self.question.measures]
        if len(shares) == 1:
            return ""
        parts = ", ".join(f"{one.kind} {float(share):.0%}" for one, share in self.question.measures)
        return f" Epsilon is split by how much noise each part needs: {parts}."


def _is_constant(expr: Expr) -> bool:
    if isinstance(expr, Call) and expr.kind == "Neg":
        return _is_constant(expr.operands[0])
    return isinstance(expr, Constant) or (isinstance(expr, Call) and expr.kind == "Boolean")


def _exclude(one: frozenset[Expr], other: frozenset[Expr], types: Mapping[str, str]) -> bool:
    """Whether no record meets both: they require different texts of a column, or a condition and its opposite."""
    wanted = {left: right for left, right in (_equal(each, types) for each in one) if left is not None}
    for condition in other:
        left, right = _equal(condition, types)
        if left is not None and left in wanted and wanted[left] != right:
            return True
        if isinstance(condition, Call) and condition.kind == "Not" and condition.operands[0] in one:
            return True
    return any(isinstance(each, Call) and each.kind == "Not" and each.operands[0] in other for each in one)


def _equal(condition: Expr, types: Mapping[str, str]) -> tuple[Column | None, Constant | None]:
    """The column of text and the constant that a condition calls equal; None for another condition.

    Of numbers and dates several texts can mean one value.
    """
    if isinstance(condition, Call) and condition.kind == "EQ":
        columns = [one for one in condition.operands if isinstance(one, Column) and _is_text(types.get(one.name, ""))]
        values = [one for one in condition.operands if isinstance(one, Constant) and one.is_text]
        if len(columns) == 1 and len(values) == 1:
            return columns[0], values[0]
    return None, None


def _is_text(kind: str) -> bool:
    return kind == "VARCHAR" or kind.startswith("ENUM(")


def _ends(measure: Sums) -> list[Fraction]:
    """What a whole record in each of the totals of a sum adds to it."""
    low, high = Fraction(measure.number.low), measure.number.high
    return [low, (low + high) / 2, high] if measure.squares else [low, high]


def _name(column: str) -> str:
    """A column of the answer, under a name that is not the analyst's."""
    return f'"_dk_{column}"'


def _times(value: str, factor: Fraction) -> str:
    if factor == 1:
        return value
    return f"({value} * {factor.numerator})" if factor.denominator == 1 else f"({value} * {_double(factor)})"


def _double(number: Fraction) -> str:
    return f"CAST('{float(number)!r}' AS DOUBLE)"


def _rounded(width: float) -> str:
    """A width in words, with two digits at least: never less than it is."""
    if width >= 10:
        return f"{ceil(width):,}"
    digits = 1 - floor(log10(width)) if width > 0 else 0
    return f"{ceil(width * 10**digits - 1e-9) / 10**digits:.6g}"


def _sign(side: str) -> str:
    return "-" if side == "low" else "+"
