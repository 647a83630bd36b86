"""The keys of a question: columns with domains, conditions with constant values, and ranges that follow from bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from sqlglot import exp

from duckanon.catalog.names import fold, quoted, spelled
from duckanon.releases import layout
from duckanon.releases.histograms import histogram
from duckanon.releases.key_filters import Filtered, filtered, placed
from duckanon.releases.layout import Event
from duckanon.releases.noise import NotOffered, columns_of, conditions, not_dropped, offering, public_key
from duckanon.releases.numbers import Columns
from duckanon.releases.paid_questions import Key
from duckanon.releases.paid_questions import key as key_of
from duckanon.releases.statistics import answer_column
from duckanon.releases.within_units import Derived
from duckanon.rewrite.algebra.bounds import NotBounded
from duckanon.rewrite.algebra.constants import ZONED
from duckanon.rewrite.algebra.expressions import (
    FALSE,
    NULL,
    TRUE,
    Arithmetic,
    Boolean,
    Case,
    Cast,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    In,
    Is,
    Negative,
    Not,
    Null,
    Or,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal, scalar, written
from duckanon.rewrite.algebra.nodes import ROOT, Node, sql
from duckanon.rewrite.algebra.nullability import never_null, present_columns
from duckanon.rewrite.algebra.possible_values import or_null, possible_values
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.rows import is_condition
from duckanon.rewrite.normalize.grouped import Grouped
from duckanon.rewrite.recognize.findings import Aggregates, Statistic
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.relation import Relation

_OF_OTHERS = "of other columns a key has conditions with constants alone, as in"
_OF_TIMES = ("DATE", "TIMESTAMP", ZONED)
_COMPUTED_KEY = (
    "A key is computed by functions that have a value for every record: lower, upper, substring, length and the like; "
    "year, month, date_trunc and the like; + - * and // by constants; CASE, coalesce and comparisons with constants. "
    "This one is not among them: write it with these (width_bucket(age, 0, 100, 10) as age // 10 + 1), or count by the "
    "columns themselves in a subquery, and compute it around that."
)


@dataclass(frozen=True)
class Choice:
    """A key that an event tells: its value for each place, as SQL; or computed of the place, which is {} in it."""

    tests: Event
    values: tuple[str, ...] = ()
    computed: str = ""

    @property
    def most_alike(self) -> int:
        """How many places have one value, at most."""
        return max(map(self.values.count, self.values), default=1)

    def value(self, place: str) -> str:
        """The value for a place, as SQL."""
        if self.computed:
            return self.computed.format(place)
        cases = " ".join(f"WHEN {at} THEN {value}" for at, value in enumerate(self.values[:-1]))
        return f"(CASE {place} {cases} ELSE {self.values[-1]} END)"


class PlannedKeys:
    """The keys of a query, as the question has them, and over its answer."""

    # The query's aggregates without the conditions that all have, and the events into which records fall.
    _statistics: list[Statistic]
    _events: tuple[Event, ...]

    def __init__(
        self, context: RuleContext, found: Aggregates, grouped: Grouped, relation: Relation | None = None
    ) -> None:
        self._context, self._found, self._grouped, self._relation = context, found, grouped, relation
        self._table, self._protected = found.table, offering(context, found.table)
        self._policy, self._types = self._protected.policy, context.types(found.table)
        self._columns: list[tuple[Expr, str, tuple[Key, ...]]] = []
        self._choices: dict[Expr, Choice] = {}
        self._histograms: list[str] = []
        # The statement's names of the numbers of histograms, by their SQL.
        self._steps_called: dict[str, str] = {}
        for key in found.keys:
            self._add_key(key)

    @cached_property
    def _write(self) -> Renderer:
        return Renderer(self._found.sources)

    @cached_property
    def _texts(self) -> dict[Expr, str]:
        """How the statement has what is computed: keys, and what aggregates are of."""
        found = dict(zip(self._found.keys, self._grouped.keys, strict=False))
        for statistic, node in zip(self._found.statistics, self._grouped.aggregates, strict=False):
            call = node.find(exp.AggFunc)
            if statistic.operand is not None and call is not None and isinstance(call.this, ROOT):
                found.setdefault(statistic.operand, call.this)
        return {of: self._as_written(node) for of, node in found.items() if not isinstance(of, Column)}

    def _as_written(self, node: Node) -> str:
        """A key or an aggregate as the statement has it: nothing of the text of a view or macro."""
        if not self._context.bound.opened:
            return sql(node)
        part = self._context.bound.quote(node)
        return "a number" if part is None else part

    def _shown(self, expr: Expr) -> str:
        """An expression for people, with columns named as the table or the statement has them."""
        if expr in self._texts:
            return self._texts[expr]
        stored = {fold(name): name for name in self._context.columns(self._table)}
        if isinstance(self._policy, Derived):
            stored |= self._policy.names
        named = rebuilt(
            expr,
            lambda part: Column(part.source, stored.get(part.name, part.name)) if isinstance(part, Column) else None,
        )
        return self._write.text(named)

    def _add_key(self, expr: Expr) -> None:
        # Only a condition says of which constants a column is one.
        is_listed = isinstance(expr, Column) and bool(self._found.filter) and self._listed(expr) is not None
        listed = self._choice(expr) if is_listed else None
        if isinstance(expr, Column) and (listed is None or key_of(self._protected, expr.name) is not None):
            self._add_column(expr)
            return
        choice = self._choice(expr)
        if choice is not None:
            self._choices[expr] = choice
            return
        used = sorted({one for one in walk(expr) if isinstance(one, Column)}, key=lambda one: one.name)
        if not used and _is_constant(expr):
            self._choices[expr] = Choice((), (self._write.text(expr),))
            return
        if not used:
            raise NotOffered("A key must be computed from columns of the table.")
        try:
            self._columns.append((expr, "expression", self._keys_of(expr, used)))
        except NotOffered as no:
            self._choices[expr] = self._histogram(expr, no)

    def _keys_of(self, expr: Expr, used: Sequence[Column]) -> tuple[Key, ...]:
        """The keys from whose domains the values of an expression are computed. Raises NotOffered."""
        keys = tuple(map(self._key_within, used))
        try:
            scalar(expr, {fold(key.column): key.kind for key in keys}, self._context.today)
        except NotTotal:
            raise NotOffered(_COMPUTED_KEY) from None
        return keys

    def _add_column(self, column: Column) -> None:
        """A column as a key: by its domain, or by its bounds, between which all values of it are known."""
        try:
            self._columns.append((column, "", (public_key(self._context, self._table, column),)))
        except NotOffered as no:
            if self._relation is None and not self._bounded.is_exact(column.name):
                ways = self._by_bounds(column)
                raise NotOffered(f"{str(no).rstrip('.')}; {ways}." if ways else str(no)) from None
            self._choices[column] = self._histogram(column, no)

    def _histogram(self, expr: Expr, without_bounds: NotOffered) -> Choice:
        """A key whose values follow from bounds. Raises the given error where these are not known."""
        shown = self._shown(expr)
        not_dropped(self._context, self._table, columns_of(expr))
        try:
            found = histogram(self._bounded, expr, shown)
        except (NotBounded, NotTotal):
            raise without_bounds from None
        self._histograms.append(shown)
        if not len(found.event):
            # Its only value divides nothing.
            return Choice((), (found.value.format("0"),))
        self._steps_called[found.event.sql] = shown
        return Choice(found.event, computed=found.value)

    @cached_property
    def _bounded(self) -> Columns:
        """The columns of the records that WHERE leaves, with their bounds."""
        present = frozenset(column.name for column in self._present)
        columns = Columns(self._protected, self._types, self._context.today, present)
        return columns.meeting(self._found.filter)

    @property
    def _present(self) -> frozenset[Column]:
        """The columns of which no record that WHERE leaves has NULL."""
        stored, (source, *_) = self._protected.stored, self._found.sources
        declared = frozenset() if stored is None else stored.required
        return present_columns([*self._found.filter]) | {Column(source.number, name) for name in declared}

    def _key_within(self, column: Column) -> Key:
        """The key of a column within an expression. Raises NotOffered."""
        not_dropped(self._context, self._table, {column.name})
        try:
            return public_key(self._context, self._table, column)
        except NotOffered as no:
            stored = {fold(one): one for one in self._context.columns(self._table)}
            tested = _tested(stored.get(column.name, column.name), self._types.get(column.name, ""))
            ways = self._by_bounds(column) or f"{_OF_OTHERS} {tested}"
            computed = ", and by what is computed from these" if str(no).startswith("Counts") else ""
            raise NotOffered(f"{str(no).rstrip('.')}{computed}; {ways}.") from no

    def _by_bounds(self, column: Column) -> str:
        """What a key of a column may be by the column's bounds, in words; empty where it has none that are of use."""
        name = {fold(bound): bound for bound in self._policy.bounds}.get(column.name)
        kind = self._types.get(column.name, "")
        if name is None:
            return ""
        if kind in _OF_TIMES:
            return _told_of_times(spelled([name]))
        try:
            of = self._bounded.bounds(column.name)
            by = 10 ** max(1, len(str(int(of.high - of.low))) - 3)
            floored = Function("floor", (Arithmetic("/", column, Constant(str(by), is_text=False)),))
            histogram(self._bounded, floored, self._shown(floored))
        except (NotBounded, NotOffered, NotTotal):
            return ""
        return _told_of_numbers(spelled([name]), by, kind)

    def _choice(self, expr: Expr) -> Choice | None:
        """The key as conditions on records with constant values; None if it is something else."""
        if is_condition(expr, self._found.sources):
            tests: Sequence[Expr] = [expr, Not(expr)]
            values: Sequence[Expr] = [TRUE, FALSE, NULL]
            if never_null(expr, self._present):
                tests, values = tests[:1], values[:2]
        elif isinstance(expr, Case) and all(value == NULL or _is_constant(value) for value in expr.values):
            tests, values = [branch.condition for branch in expr.branches], expr.values
        elif (listed := self._listed(expr)) is not None:
            # WHERE leaves no other value than these, so the last is what is none of the others.
            tests, values = [Comparison("=", expr, one) for one in listed[:-1]], listed
        else:
            return None
        if not all(value == NULL or _is_constant(value) for value in values):
            return None
        try:
            written = conditions(self._context, self._table, tests)
        except NotTotal:
            return None
        return Choice(tuple(written), tuple(self._write.text(value) for value in values))

    def _listed(self, expr: Expr) -> Sequence[Expr] | None:
        """The constants of which an expression is one, NULL as the last; None where others are possible."""
        try:
            found = possible_values(expr, self._context.today, self._said)
        except NotTotal:
            return None
        return found or None

    def _said(self, expr: Expr) -> Sequence[Expr]:
        """The constants of which WHERE says that an expression is one; none where it does not."""
        for condition in self._found.filter:
            match condition:
                case Or(In(operand, values), Is(same, Null())) if operand == same == expr:
                    return or_null(values) if all(map(_is_constant, values)) else ()
                case In(operand, values) if operand == expr and all(map(_is_constant, values)):
                    return list(dict.fromkeys(values))
                case Comparison("=", left, right) if left == expr and self._has_type_of(right, expr):
                    return [right]
                case Comparison("=", left, right) if right == expr and self._has_type_of(left, expr):
                    return [left]
        return ()

    def _has_type_of(self, constant: Expr, expr: Expr) -> bool:
        """Whether it is a constant that can be shown in place of an expression: a date only for a date."""
        kind = self._types.get(expr.name) if isinstance(expr, Column) else None
        return _is_constant(constant) and (not isinstance(constant, Cast) or constant.type.upper() == kind)

    # --- as the question has them -------------------------------------------------------------------------------------

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
            found.append(scalar(over, types, self._context.today)[0] if kind else quoted([first]))
        return found

    def _is_of_keys(self, condition: Expr) -> bool:
        """Whether a condition of FILTER is known for each row of keys, so that it needs no noise of its own."""
        return columns_of(condition) <= {fold(key.column) for _, _, keys in self._columns for key in keys}

    @cached_property
    def _key_conditions(self) -> dict[Expr, str]:
        """The conditions of FILTER on keys alone, as SQL over k0, ...: over the columns with domains."""
        wheres = [where for statistic in self._statistics for where in (statistic.where, statistic.of)]
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

    @cached_property
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
            return choice.value(answer_column(layout.event(self._events.index(choice.tests))))
        (at,) = (at for at, (one, _, _) in enumerate(self._columns) if one == expr)
        if self._is_grouped:
            return answer_column(layout.key(self._cells_by.index(self._expressions[at])))
        return answer_column(layout.key(self._bases.index(self._columns[at][2][0])))


def _told_of_times(name: str) -> str:
    """What a key of a date or a time with bounds may be, in words."""
    return (
        f"by the bounds of {name} they are told by date_trunc('quarter', {name}), time_bucket, last_day, "
        f"strftime({name}, '%Y-%m'), and by year, quarter, month, day and the like"
    )


def _told_of_numbers(name: str, by: int, kind: str) -> str:
    """What a key of a number of a type with bounds may be, in words."""
    whole = "//, " if kind in WHOLE else ""
    return (
        f"by the bounds of {name} they are told by floor({name} / {by}), round, ceil, trunc, {whole}and arithmetic "
        "with constants"
    )


def _tested(column: str, kind: str) -> str:
    """A key that is made of a condition on a column of a type, as SQL."""
    name = spelled([column])
    is_number = kind in WHOLE or kind == "DOUBLE" or kind.startswith("DECIMAL(")
    condition = f"{name} < 18" if is_number else f"{name} IS NULL"
    return f"CASE WHEN {condition} THEN 'yes' ELSE 'no' END"


def _shown_key(at: int) -> str:
    """The column of the answer for a key."""
    return f"_dk_{layout.key(at)}"


def _is_constant(expr: Expr) -> bool:
    while isinstance(expr, Negative):
        expr = expr.operand
    if isinstance(expr, Cast) and expr.type.upper() in ("DATE", "TIMESTAMP"):
        expr = expr.operand
    return isinstance(expr, Constant | Boolean)
