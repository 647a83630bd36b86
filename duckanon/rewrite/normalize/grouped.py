"""A grouping query apart from the records: its keys and aggregates, and the same query over a table that has them.

HAVING, QUALIFY, windows, ROLLUP, ORDER BY and arithmetic stay where they are. Only the keys, the aggregates and what is
read are replaced, so the new query means the same if its aggregates do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.aggregates import AGGREGATES
from duckanon.rewrite.algebra.nodes import ROOT, Node, arg, name_of, nodes_of
from duckanon.rewrite.column_names import default_name
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.instead import is_like_an_aggregate, not_called
from duckanon.rewrite.normalize.quotients import Quotient, guarded, inner, quotient
from duckanon.rewrite.normalize.split import is_same, may_be

# Functions around a number for the ends of its interval.
ENDS = ("low", "high")
_OTHER_END = {"low": "high", "high": "low"}
_NO_END = (
    "low and high are the ends of the interval of a count, a sum, a mean, a share or odds, also rounded or beside "
    "constants; a share is a count by another of the same records and more, as in count(*) FILTER (WHERE age < 18) / "
    "count(*), and odds are one by a count of other records. Of other quotients no interval is known: ask for low and "
    "high of both numbers."
)
NOT_GROUPED = "The query shows a column by which it does not group"
ALL_OTHERS = "PIVOT without GROUP BY, like a star beside aggregates, groups by all other columns"
_TOTAL_OF_TOTALS = (
    "With ROLLUP, CUBE or GROUPING SETS this total adds up totals too, so it is no share: ask for the shares without "
    "these."
)
_GROUPING = ("grouping", "grouping_id")
# Of more grouping sets a query is not taken apart.
_MOST_SETS = 64
_CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)
_SETS = (exp.Cube, exp.Rollup, exp.GroupingSets, exp.Tuple, exp.Paren)


class NotFollowed(Exception):
    """Why a part of the query cannot be written over another table, in a sentence. part: its node, if it is known.

    why: the same with what may be asked instead, if that is known.
    """

    def __init__(self, reason: str, part: Node | None = None, why: object = None) -> None:
        super().__init__(reason)
        self.part, self.why = part, why


class Interval(Protocol):
    """A number over the other table, and the ends of its interval."""

    @property
    def value(self) -> str:
        """It, as SQL."""

    def end(self, side: str) -> str:
        """As SQL. side: `low` or `high`. Raises NotFollowed if it is not known."""


@dataclass(frozen=True)
class Rows:
    """A quotient of two aggregates. above, below: their places. windows: what adds each of them up, None for one row.

    The windows are written over the other table.
    """

    quotient: Quotient
    above: int
    below: int
    windows: tuple[Node | None, Node | None]

    def added(self, side: int, number: str) -> str:
        """A number of each row, as SQL, added up over the rows of a side: 0 for above, 1 for below."""
        window = self.windows[side]
        if window is None:
            return number
        copy = window.copy()
        copy.this.set("this", sqlglot.parse_one(number, read=DIALECT))
        return str(copy.sql(DIALECT))


@dataclass(frozen=True)
class Over:
    """What stands for keys and aggregates in the new query: SQL, by their places.

    ends: gives the ends of an aggregate's interval: its place, and `low` or `high`. Raises NotFollowed. quotient: one
    of two aggregates as a number with an interval; None if it is none. by_set: where the table has a row's grouping set
    in a column, its name and the sets, as of `Grouped.sets`.
    """

    source: str
    keys: Sequence[str]
    aggregates: Sequence[str]
    ends: Callable[[int, str], str]
    quotient: Callable[[Rows], Interval | None]
    by_set: tuple[str, Sequence[tuple[int, ...]]] | None = None


class Grouped:
    """A SELECT that groups or aggregates. Raises NotFollowed for another query.

    is_column: whether a bare name is one of the columns that it reads. is_apart: whether a subquery in it reads neither
    records nor the row around it, so that it stays as it is.
    """

    def __init__(
        self, query: Node, is_column: Callable[[Node], bool], is_apart: Callable[[Node], bool] = lambda _: False
    ) -> None:
        self.query, self._is_column, self.is_apart = query, is_column, is_apart
        if isinstance(query, exp.Select) and query.is_star and _counts_by_all(query):
            raise NotFollowed(ALL_OTHERS)
        if not isinstance(query, exp.Select) or query.is_star or arg(query, "from") is None:
            raise NotFollowed("The query is no count, sum or other statistic by keys that is followed.")
        # A constant groups nothing: it stays where it is.
        self.keys = [key for key in dict.fromkeys(self._keys()) if not isinstance(key, _CONSTANTS)]
        parts = [*query.expressions, *(query.args.get(text) for text in ("having", "qualify", "order"))]
        values = [aggregate for part in parts if part is not None for aggregate in aggregates_of(part)]
        self.aggregates: list[Node] = list(dict.fromkeys(values))
        if not self.aggregates:
            for call in nodes_of(query, exp.Anonymous):
                if is_like_an_aggregate(fold(call.name)):
                    raise NotFollowed(not_called(fold(call.name)), call)
            raise NotFollowed("The query shows values and tells no count, sum or other statistic of them.")
        order = query.args.get("order")
        for term in order.expressions if order is not None else ():
            if isinstance(term.this, exp.Literal) and not self._is_place(term.this):
                raise NotFollowed("ORDER BY has the number of a column that is not there.", term)

    def part(self, places: Sequence[int]) -> Grouped:
        """The same query of which some aggregates alone are looked at."""
        found = shallow_copy(self)
        found.aggregates = [self.aggregates[at] for at in places]
        return found

    @cached_property
    def divided(self) -> list[tuple[int, ...]]:
        """The places of the aggregates: of those that are divided by each other together, of each other one alone."""
        groups = [{at} for at in range(len(self.aggregates))]
        parts = [*self.query.expressions, *(self.query.args.get(text) for text in ("having", "qualify", "order"))]
        for node in (node for part in parts if part is not None for node in part.walk()):
            found = quotient(node, self.aggregates) if isinstance(node, exp.Div) else None
            if found is not None:
                both = {self.aggregates.index(one.aggregate) for one in (found.above, found.below)}
                joined = set().union(*(group for group in groups if group & both))
                groups = [*(group for group in groups if not group & both), joined]
        return sorted(tuple(sorted(group)) for group in groups)

    @cached_property
    def has_sets(self) -> bool:
        """Whether rows of the result add up others: ROLLUP, CUBE, GROUPING SETS."""
        return any(isinstance(term, _SETS[:3]) for term in self._terms())

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        """The grouping sets, each as the places of its keys, as many times as the query has it.

        None of a query without any, and of one with too many.
        """
        if not self.has_sets:
            return []
        found: list[frozenset[int]] = [frozenset()]
        for term in self._terms():
            found = [numbers | other for numbers in found for other in self._sets(term)]
            if len(found) > _MOST_SETS:
                return []
        return [tuple(sorted(numbers)) for numbers in found]

    def _sets(self, term: Node) -> list[frozenset[int]]:
        """The grouping sets of a term of GROUP BY."""
        if isinstance(term, exp.GroupingSets):
            return [each for expression in term.expressions for each in self._sets(expression)]
        places = [frozenset(self._places(expression)) for expression in term.expressions]
        none = frozenset[int]()
        if isinstance(term, exp.Rollup):
            return [none.union(*places[:many]) for many in range(len(places), -1, -1)]
        if isinstance(term, exp.Cube) and 2 ** len(places) <= _MOST_SETS:
            subsets = (
                [place for at, place in enumerate(places) if which >> at & 1] for which in range(2 ** len(places))
            )
            return [none.union(*subset) for subset in subsets]
        if isinstance(term, exp.Cube):
            return [none] * (_MOST_SETS + 1)
        return [frozenset(self._places(term))]

    def _places(self, term: Node) -> Iterator[int]:
        """Of the keys of a term of GROUP BY. A constant is none of them."""
        return (self.keys.index(value) for value in self._key(term) if value in self.keys)

    def in_set(self, places: Sequence[int]) -> Grouped:
        """The same query of which the rows of one grouping set alone are looked at. places: of its keys."""
        found = shallow_copy(self)
        found.keys, found.has_sets = [self.keys[at] for at in places], False
        return found

    def over(self, over: Over, stored: Callable[[str], str]) -> Node:
        """The query over another table. stored: a column's name as the table has it. Raises NotFollowed."""
        write = _Writer(self, over)
        by_set = [] if over.by_set is None else [over.by_set[0]]
        new = exp.Select(
            expressions=[
                self._named(write(expression.unalias()), expression, stored) for expression in self.query.expressions
            ]
        ).from_(over.source, dialect=DIALECT)
        for part in ("group", "having", "qualify", "order", "windows", "distinct", "limit", "offset"):
            given = self.query.args.get(part)
            if isinstance(given, list):
                new.set(part, [write(value) for value in given])
            elif part == "group" and by_set:
                new = new.group_by(*by_set, *over.keys, dialect=DIALECT)
            elif part == "group" and self._group("all") and any(True for _ in nodes_of(new, exp.Window)):
                # DuckDB refuses GROUP BY ALL beside a window over aggregates.
                new = new.group_by(*over.keys, dialect=DIALECT)
            elif given is not None:
                new.set(part, write(given, aliased=part == "order"))
        if self.query.args.get("order") is None and self.query.args.get("distinct") is None and self.keys:
            # Without it the order of the rows would be left to threads. A total is NULL where a key may be NULL, too.
            total = by_set or ([f"grouping({', '.join(over.keys)})"] if self.has_sets else [])
            by = [sqlglot.parse_one(key, read=DIALECT) for key in (*over.keys, *total)]
            new = new.order_by(*(exp.Ordered(this=expression, nulls_first=True) for expression in by))
        return new

    def intervals(self, over: Over, widths: Sequence[str | None]) -> list[tuple[int, str]]:
        """The columns that are numbers with an interval, as they stand: their places, and SQL for how wide it is.

        widths: of the aggregates; None for those without.
        """
        write = _Writer(self, over)
        values = []
        for at, expression in enumerate(self.query.expressions):
            node = expression.unalias()
            width = widths[self.aggregates.index(node)] if node in self.aggregates else None
            shown = None if width is not None else write.quotient(node)
            if shown is not None:
                width = _width(shown)
            if width is not None:
                values.append((at, width))
        return values

    def _group(self, name: str) -> object:
        group = self.query.args.get("group")
        return None if group is None else group.args.get(name)

    def _terms(self) -> list[Node]:
        terms = (self._group(name) for name in ("expressions", "rollup", "cube", "grouping_sets"))
        return [value for term in terms if isinstance(term, list) for value in term]

    def _keys(self) -> Iterator[Node]:
        shown = self.query.expressions
        group = self.query.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            yield from (one.unalias() for one in shown if not self._is_aggregated(one))
        for term in self._terms():
            yield from self._key(term)

    def _is_aggregated(self, node: Node) -> bool:
        """Whether an expression is computed from aggregates, also by an alias that stands for one."""
        names: set[str] = set()
        # An alias is known to the expressions after it.
        for name, one in [*self.aliases.items(), ("", node)]:
            by_alias = (part for part in nodes_of(one, exp.Column) if not part.table and fold(part.name) in names)
            if any(True for _ in aggregates_of(one)) or not all(map(self._is_column, by_alias)):
                names.add(name)
        return "" in names

    def _key(self, term: Node) -> Iterator[Node]:
        if isinstance(term, _SETS):
            for expression in [*term.expressions, *([term.this] if isinstance(term.this, ROOT) else [])]:
                yield from self._key(expression)
        elif isinstance(term, exp.Literal):
            if not self._is_place(term):
                raise NotFollowed("GROUP BY has the number of a column that is not there.", term)
            yield self.query.expressions[int(term.this) - 1].unalias()
        else:
            alias = self.aliases.get(fold(term.name)) if isinstance(term, exp.Column) and not term.table else None
            if alias is None or any(True for _ in aggregates_of(alias)) or may_be(term, alias):
                yield term
            else:
                # DuckDB takes a column of that name first.
                yield term if self._is_column(term) else alias

    def _is_place(self, literal: Node) -> bool:
        """Whether a literal is the number of a column."""
        number = str(literal.this)
        return not literal.is_string and number.isdigit() and 1 <= int(number) <= len(self.query.expressions)

    @cached_property
    def aliases(self) -> dict[str, Node]:
        """The expressions that have an alias, by its folded name."""
        return {
            fold(expression.alias): expression.this
            for expression in self.query.expressions
            if isinstance(expression, exp.Alias)
        }

    def _named(self, node: Node, given: Node, stored: Callable[[str], str]) -> Node:
        if isinstance(given, exp.Alias):
            name = given.alias
        else:
            name = stored(given.name) if isinstance(given, exp.Column) else default_name(given)
        return exp.alias_(node, name, quoted=True)


def _counts_by_all(query: Node) -> bool:
    """Whether aggregates stand beside a star, by whose columns they are grouped."""
    group = query.args.get("group")
    return group is not None and bool(group.args.get("all")) and aggregates_itself(query)


def aggregates_itself(query: Node) -> bool:
    """Whether a SELECT groups or aggregates, not only a query in it."""
    return query.args.get("group") is not None or any(
        True for expression in query.expressions for _ in aggregates_of(expression)
    )


class _Writer:
    """Rewrites the parts of a query."""

    def __init__(self, grouped: Grouped, over: Over) -> None:
        self._grouped, self._over = grouped, over

    def __call__(self, node: Node, *, aliased: bool = False) -> Node:
        """The part over the other table. aliased: whether an alias stays, even if a key has its name.

        Raises NotFollowed.
        """
        grouped = self._grouped
        if isinstance(node, exp.Column) and not node.table and aliased and fold(node.name) in grouped.aliases:
            return node.copy()
        place = self._key(node)
        if place is not None:
            return self._sql(self._over.keys[place])
        if node in grouped.aggregates and not isinstance(node.parent, exp.Window):
            return self._sql(self._over.aggregates[grouped.aggregates.index(node)])
        if isinstance(node, exp.Column):
            return self._column(node)
        found = self._called(node)
        if found is not None:
            return found
        if isinstance(node, exp.Query) and grouped.is_apart(node):
            return node.copy()
        if isinstance(node, exp.Query | exp.Star):
            total = ", or write a total of all rows as sum(count(*)) OVER ()" if isinstance(node, exp.Query) else ""
            raise NotFollowed(
                f"A subquery or a star beside statistics is not followed: ask for it by itself{total}.", node
            )
        copy = node.copy()
        for key, value in node.args.items():
            if isinstance(value, list):
                copy.set(key, [self(one, aliased=aliased) if isinstance(one, ROOT) else one for one in value])
            elif isinstance(value, ROOT):
                copy.set(key, self(value, aliased=aliased))
        return copy

    def _sql(self, text: str) -> Node:
        return sqlglot.parse_one(text, read=DIALECT)

    def _key(self, node: Node) -> int | None:
        """The place of the key that an expression is, also where its columns are written in another way."""
        keys = self._grouped.keys
        if node in keys:
            return keys.index(node)
        same = [] if isinstance(node, exp.Column) else [at for at, key in enumerate(keys) if is_same(node, key)]
        return same[0] if len(same) == 1 else None

    def _place(self, node: Node) -> int:
        """Of the key that a column is. Raises NotFollowed."""
        same = [at for at, key in enumerate(self._grouped.keys) if may_be(node, key)]
        if len(same) != 1:
            raise NotFollowed(NOT_GROUPED, node)
        return same[0]

    def _column(self, node: Node) -> Node:
        same = [at for at, key in enumerate(self._grouped.keys) if may_be(node, key)]
        if len(same) == 1:
            return self._sql(self._over.keys[same[0]])
        if not same and not node.table and fold(node.name) in self._grouped.aliases:
            return node.copy()
        raise NotFollowed(NOT_GROUPED, node)

    def _called(self, node: Node) -> Node | None:
        """What has a meaning of its own over the other table: ends of intervals and quotients; None for others."""
        if name_of(node) in _GROUPING and self._over.by_set is not None:
            return self._grouping(node, *self._over.by_set)
        if name_of(node) in ENDS and isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            return self._end(node, node.expressions[0], name_of(node))
        shown = self.quotient(node)
        return None if shown is None else self._sql(shown.value)

    def _grouping(self, call: Node, name: str, sets: Sequence[tuple[int, ...]]) -> Node:
        """grouping(keys): of each key a bit, the last one's the lowest, that says that the row's set is without it."""
        keys = self._grouped.keys
        places = [
            keys.index(expression) if expression in keys else self._place(expression) for expression in call.expressions
        ]
        masks = [sum((at not in own) << bit for bit, at in enumerate(reversed(places))) for own in sets]
        cases = " ".join(f"WHEN {at} THEN {mask}" for at, mask in enumerate(masks))
        return self._sql(f"CAST(CASE {name} {cases} END AS BIGINT)")

    def quotient(self, node: Node) -> Interval | None:
        """A quotient of two aggregates as a number with an interval; None for something else."""
        found = quotient(node, self._grouped.aggregates) if isinstance(node, exp.Div) else None
        if found is None or self._adds_totals(found):
            return None
        above, below = (self._grouped.aggregates.index(one.aggregate) for one in (found.above, found.below))
        of_above, of_below = (None if one.window is None else self(one.window) for one in (found.above, found.below))
        return self._over.quotient(Rows(found, above, below, (of_above, of_below)))

    def _adds_totals(self, found: Quotient) -> bool:
        """Whether a total of rows is added to the rows that it adds up."""
        return self._grouped.has_sets and found.below.window is not None

    def _end(self, call: Node, node: Node, side: str, named: frozenset[str] = frozenset()) -> Node:
        """An end of the interval of a number. call: of `low` or `high`. named: aliases that stand for this number.

        Raises NotFollowed.
        """
        grouped = self._grouped
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in grouped.aliases.keys() - named:
            return self._end(call, grouped.aliases[fold(node.name)], side, named | {fold(node.name)})
        if node in grouped.aggregates:
            try:
                return self._sql(self._over.ends(grouped.aggregates.index(node), side))
            except NotFollowed as no:
                raise NotFollowed(str(no), call) from None
        shown = self.quotient(node)
        if shown is not None:
            try:
                return self._sql(shown.end(side))
            except NotFollowed as no:
                raise NotFollowed(str(no), call) from None
        only = guarded(node)
        if only is not None:
            return self._end(call, only, side, named)
        computed = inner(node)
        if computed is None:
            divided = quotient(node, grouped.aggregates) if isinstance(node, exp.Div) else None
            raise NotFollowed(_NO_END if divided is None or not self._adds_totals(divided) else _TOTAL_OF_TOTALS, call)
        part, falls = computed
        copy = node.copy()
        (place,) = (other for value, other in zip(node.walk(), copy.walk(), strict=True) if value is part)
        end = self._end(call, part, _OTHER_END[side] if falls else side, named)
        place.replace(exp.Paren(this=end))
        return copy


def _width(shown: Interval) -> str | None:
    """How wide an interval is, as SQL; None where it is not known."""
    try:
        return f"({shown.end('high')} - {shown.end('low')})"
    except NotFollowed:
        return None


def _is_aggregate(node: Node) -> bool:
    """Whether a node is a call of an aggregate. Versions of sqlglot know different ones as such."""
    name = name_of(node)
    return name not in _GROUPING and (isinstance(node, exp.AggFunc) or name in AGGREGATES)


def aggregates_of(node: Node) -> Iterator[Node]:
    """The aggregates of the query itself: those inside a window's arguments, but not the window's own function."""
    if isinstance(node, exp.Query):
        return
    if (_is_aggregate(node) or isinstance(node, exp.Filter | exp.WithinGroup)) and not isinstance(
        node.parent, exp.Window
    ):
        yield node
        return
    for value in node.args.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ROOT):
                yield from aggregates_of(one)
