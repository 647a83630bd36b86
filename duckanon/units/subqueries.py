"""Subqueries in conditions: each becomes columns that are looked up by the unit and equal columns.

`EXISTS (SELECT ... WHERE inner = outer)` is whether a group of the inner rows by unit and `inner` is found; a subquery
for a value is an aggregate of that group, with the value of the empty group where there is none. So a row meets one
group at most, and never one of another unit. A value of all units together is a question of its own, with noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from duckanon.catalog.names import fold, quoted
from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    TRUE,
    And,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Exists,
    Expr,
    InQuery,
    Is,
    Nested,
    Not,
    Or,
    ScalarQuery,
    has,
    is_windowed,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import scalar
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.possible_values import or_null
from duckanon.rewrite.algebra.relations import Block, Output, Source, Table, is_protected
from duckanon.rewrite.algebra.rows import columns_in, is_closed
from duckanon.rewrite.normalize.windows import distinct_on
from duckanon.units.conditions import (
    Equal,
    Pair,
    apart,
    is_looked_up,
    tells_apart,
    tells_null_from_false,
    within,
)
from duckanon.units.fields import Field, Made
from duckanon.units.grouping import Groups
from duckanon.units.listed_keys import keys_of, listed
from duckanon.units.relation import Cut, Grouped, Joined, Part, Shown
from duckanon.units.scope import NotLocal, NotToldApart, OtherUnits, of_open
from duckanon.units.uniqueness import no_two_share
from duckanon.units.windows import as_first_rows, first_rows

if TYPE_CHECKING:
    from duckanon.units.building import Builder

_ENDS = {"<": ("min",), "<=": ("min",), ">": ("max",), ">=": ("max",), "<>": ("min", "max")}
_OTHER_UNITS = (
    "A subquery asks records of other units than the one of its row: compare the units' columns too, as in "
    "`a.unit = b.unit`."
)
_ALL_UNITS = (
    "NOT IN of columns that may be NULL, or IN as a value, asks the records of all units: compare the units' columns "
    "too, as in `a.unit = b.unit`, or write NOT EXISTS or EXISTS."
)
_AGGREGATED = (
    "A subquery of EXISTS or IN that aggregates the records of its row is not followed: compare the aggregate itself, "
    "or group by the protected table's unit."
)
_NOT_FOLLOWED = (
    "A subquery with LIMIT, grouping sets or UNION is not followed here: write it as a condition, or as an aggregate "
    "such as max."
)
_SEVERAL_COMPARED = (
    "A subquery that compares more than one column by something else than = is not followed, but for one that lies "
    "between two values: leave one of the comparisons out."
)
_NO_VALUE = (
    "A subquery for a value is followed where it is an aggregate of what it reads, without GROUP BY: write max or min."
)


def _is_plain(query: Block) -> bool:
    """Whether all rows that meet its conditions are its rows, without windows and DISTINCT ON."""
    bounded = query.limited or query.sets or query.spread or query.qualify or distinct_on(query)
    return not bounded and not any(is_windowed(output.expr) for output in query.outputs)


def _equal_columns(condition: Expr, inner: set[str]) -> tuple[str, Expr] | None:
    """A subquery's column and what it is equal to in the row around it. inner: the names of the subquery's columns."""
    match condition:
        case Comparison("=", Column(name=name), other) if name in inner:
            return name, other
        case Comparison("=", other, Column(name=name)) if name in inner:
            return name, other
    return None


class Subqueries:
    """The subqueries of a block's expressions, looked up beside what it joins.

    block: whose expressions they are in. outer: what it joins. equal: the columns that its conditions call equal.
    """

    def __init__(self, builder: Builder, block: Block, outer: Made, equal: Equal) -> None:
        self._builder, self._scope, self._block, self._outer, self._equal = builder, builder.scope, block, outer, equal
        self._known: dict[Expr, Expr] = {}
        self._parts: list[Part] = []
        self._fields: dict[str, Field] = dict(outer.fields)

    def joined(self) -> Made:
        """What the block joins, with all that is looked up."""
        if not self._parts:
            return self._outer
        assert isinstance(self._outer.relation, Joined)
        shown = tuple(Shown(field, quoted([field])) for field in self._fields)
        relation = Joined((*self._outer.relation.joined, *self._parts), (), shown)
        return replace(self._outer, relation=relation, fields=self._fields)

    def over(self, expr: Expr) -> Expr:
        """An expression over the joined columns. Raises NotLocal."""

        def change(expression: Expr) -> Expr | None:
            if isinstance(expression, Nested):
                if expression not in self._known:
                    try:
                        self._known[expression] = self._looked_up(expression)
                    except NotLocal as no:
                        no.part = no.part or getattr(expression.query, "node", None)
                        raise
                return self._known[expression]
            return self._scope.over(expression) if isinstance(expression, Column) else None

        return rebuilt(expr, change)

    def _looked_up(self, nested: Nested) -> Expr:
        query = nested.query
        if isinstance(nested, InQuery) and isinstance(query, Block) and self._is_bought(query):
            query = self._read_of(query)
        if not isinstance(query, Block) or query.sets or query.spread or (query.limited and query.first is None):
            raise NotLocal(_NOT_FOLLOWED)
        if query.limited and not isinstance(nested, ScalarQuery):
            query = self._first_of_all(query)
        if distinct_on(query):
            query = as_first_rows(query)
        query = self._builder.flat(query)
        if isinstance(nested, ScalarQuery):
            if query.qualify or any(is_windowed(output.expr) for output in query.outputs):
                raise NotLocal(_NO_VALUE)
            return self._value(query)
        return self._found(nested, query)

    def _first_of_all(self, query: Block) -> Block:
        """The first rows of a query of open tables, which are the same whatever the row around it is."""
        if is_protected(query) or not is_closed(query):
            raise NotLocal(_NOT_FOLLOWED)
        return first_rows(query, ())

    def _is_bought(self, query: Block) -> bool:
        """Whether a query groups records of several units, without depending on the row around it."""
        return bool(query.keys) and self._builder.is_across(replace(query, limited=False))

    def _read_of(self, query: Block) -> Block:
        """A query that reads the rows of another."""
        number = self._scope.new_source()
        outputs = tuple(Output(output.name, Column(number, fold(output.name))) for output in query.outputs)
        return Block((Source(number, query),), outputs)

    # --- EXISTS and IN ------------------------------------------------------------------------------------------------

    def keeps(self, condition: Expr) -> bool:
        """Keep the rows that meet a condition of EXISTS or IN alone, by a semijoin or an antijoin.

        Returns whether it is such a condition; else nothing is done.
        """
        nested = condition.operand if isinstance(condition, Not) else condition
        is_exists = isinstance(nested, Exists)
        if not (is_exists or (isinstance(condition, InQuery))) or nested in self._known:
            return False
        assert isinstance(nested, Nested)
        query = nested.query
        if isinstance(query, Block) and not is_exists and self._is_bought(query):
            query = self._read_of(query)
        if not isinstance(query, Block) or not _is_plain(query):
            return False
        own = {source.number for source in query.sources}
        if is_exists and not isinstance(condition, Not) and not is_looked_up(query, own):
            self._parts.append(self._semijoined(query, own))
            return True
        _, pairs = apart(query, own)
        if any(pair.operator != "=" for pair in pairs) or (is_exists and not pairs):
            return False
        made, _, inner, outer = self._asked(nested, query)
        on = [Comparison("=", Column(SOMEWHERE, mine), theirs) for mine, theirs in zip(inner, outer, strict=True)]
        fields = {**self._fields, **made.fields}
        written = tuple(sorted(self._scope.written(condition, fields) for condition in on))
        how = "anti" if isinstance(condition, Not) else "semi"
        self._parts.append(Part(made.relation, how, written, made.shows_unit))
        if how == "semi" and len(outer) == 1 and isinstance(outer[0], Column):
            name = outer[0].name
            if name in keys_of(self._scope, self._block):
                self._fields[name] = listed(self._scope, self._fields[name], made, inner[0])
        return True

    def _semijoined(self, query: Block, own: set[int]) -> Part:
        """Whether some row of a subquery meets all conditions, whatever they compare.

        The rows of a unit are cut to as many as count, so that each row is compared with no more.
        """
        scope = self._scope
        if query.keys is not None:
            raise NotLocal(_AGGREGATED)
        asked = [
            expression
            for expression in in_order(query.where)
            if any(column.source not in own for column in columns_in([expression]))
        ]
        columns = {node for each in asked for node in walk(each) if isinstance(node, Column) and node.source in own}
        outputs = tuple(Output(f"_dk_{at}", column) for at, column in enumerate(sorted(columns, key=repr)))
        bare = replace(query, where=query.where - set(asked), outputs=outputs, order=(), distinct=None)
        made, names = self._builder.block(bare, repeats=True)
        inner: dict[Expr, Column] = {output.expr: Column(SOMEWHERE, names[output.name]) for output in outputs}
        over = [self.over(rebuilt(expression, inner.get)) for expression in asked]
        equal = [pair for expression in over if (pair := _equal_columns(expression, set(names.values()))) is not None]
        self._check_units(made, equal)
        if not made.shows_unit:
            raise NotLocal(_OTHER_UNITS)
        on = tuple(sorted(scope.written(expression, {**self._fields, **made.fields}) for expression in over))
        return Part(Cut(made.relation, made.rows, tuple(sorted(made.fields))), "semi", on, made.shows_unit)

    def _found(self, nested: Nested, query: Block) -> Expr:
        """Whether a row is found."""
        made, pairs, inner, outer = self._asked(nested, query)
        met = self._attached(made, pairs, inner, outer)
        if not isinstance(nested, InQuery) or self._is_two_valued(made, inner[0], outer[0], nested):
            return met
        if any(pair.operator != "=" for pair in pairs):
            raise NotLocal(
                "NOT IN of columns that may be NULL is followed where all other columns are compared by =: write NOT "
                "EXISTS."
            )
        if made.has_unit and not self._is_of_unit(made, list(zip(inner[1:], outer[1:], strict=True))):
            # With NULL on one side it is NULL because there are rows at all, or others with NULL, whosever they are.
            raise NotLocal(_ALL_UNITS)
        return Or(met, self._unknown(made, pairs[1:], inner, outer))

    def _asked(self, nested: Nested, query: Block) -> tuple[Made, list[Pair], list[str], list[Expr]]:
        """The rows of a subquery of EXISTS or IN, and what of them is compared with what of the row around it.

        Returns the relation, the comparisons, its columns in them, and the expressions over the row.
        """
        bare, pairs = self._apart(query)
        if query.keys == () or (pairs and query.keys is not None and query.having):
            raise NotLocal(_AGGREGATED)
        if isinstance(nested, InQuery):
            if len(query.outputs) != 1:
                raise NotLocal("IN takes a subquery with one column.")
            pairs.insert(0, Pair(query.outputs[0].expr, "=", nested.operand))
        if sum(pair.operator != "=" for pair in pairs) > 1 and within(pairs) is None:
            raise NotLocal(_SEVERAL_COMPARED)
        outputs = tuple(Output(f"_dk_{at}", pair.inner) for at, pair in enumerate(pairs))
        bare = replace(bare, outputs=outputs, order=(), distinct=None)
        made, names = self._builder.block(bare, owned=not self._is_implied(query, pairs), repeats=True)
        inner = [names[output.name] for output in outputs]
        outer = [self.over(pair.outer) for pair in pairs]
        equal = [(mine, theirs) for pair, mine, theirs in zip(pairs, inner, outer, strict=True) if pair.operator == "="]
        self._check_units(made, equal)
        return made, pairs, inner, outer

    def _unknown(self, made: Made, pairs: Sequence[Pair], inner: Sequence[str], outer: Sequence[Expr]) -> Expr:
        """NULL where IN is NULL if nothing is found, else false: there are rows, and they or the row around have NULL.

        pairs: the comparisons beside that of IN, whose columns are the first of `inner` and `outer`.
        """
        total, known, null = map(self._scope.new_name, ("rows", "known", "null"))
        shown = (
            Shown(total, "system.main.count(*)"),
            Shown(known, f"system.main.count({quoted([inner[0]])})"),
            Shown(null, "CAST(NULL AS BOOLEAN)"),
        )
        fields = {total: Field("BIGINT"), known: Field("BIGINT"), null: Field("BOOLEAN")}
        keys: dict[str, Expr] = {}
        of_keys = []
        for _, column, value in zip(pairs, inner[1:], outer[1:], strict=True):
            name = self._scope.new_name(column)
            of_keys.append(Shown(name, quoted([column])))
            fields[name], keys[name] = made.fields[column], value
        self._attach(Grouped(made.relation, tuple(of_keys), shown, made.shows_unit), keys, fields)
        rows = Column(SOMEWHERE, total)
        is_null = Or(Is(outer[0], NULL), Comparison("<", Column(SOMEWHERE, known), rows))
        is_asked = Comparison(">", Coalesce((rows, Constant("0"))), Constant("0"))
        return And(And(is_asked, is_null), Column(SOMEWHERE, null))

    def _apart(self, query: Block) -> tuple[Block, list[Pair]]:
        """A subquery without the conditions that compare it with the row around it, and these."""
        own = {source.number for source in query.sources}
        if not query.qualify and not any(is_windowed(output.expr) for output in query.outputs):
            inside, pairs = apart(query, own)
            return replace(query, where=frozenset(inside)), pairs
        if any(column.source not in own for column in columns_in(query.where)):
            raise NotLocal(
                "A window over the rows that a condition on the row around it leaves is not followed: compute it in a "
                "subquery in FROM, and compare around that."
            )
        # What windows are over is the same for all rows around it.
        inside, pairs = apart(replace(query, where=query.qualify), own)
        return replace(query, qualify=frozenset(inside)), pairs

    def _attached(self, made: Made, pairs: Sequence[Pair], inner: Sequence[str], outer: Sequence[Expr]) -> Expr:
        """Whether there is a group of the rows that meet all comparisons."""
        interval = within(pairs)
        if interval is not None:
            return self._nearest(made, [pairs.index(end) for end in interval], pairs, inner, outer)
        scope = self._scope
        counted = scope.new_name("found")
        shown, fields = [Shown(counted, "system.main.count(*)")], {counted: Field("BIGINT")}
        # Without a key and a unit there is one group, which may be of no rows.
        is_met: Expr = Comparison(">", Coalesce((Column(SOMEWHERE, counted), Constant("0"))), Constant("0"))
        keys: dict[str, Expr] = {}
        of_keys = []
        for pair, column, value in zip(pairs, inner, outer, strict=True):
            if pair.operator == "=":
                name = scope.new_name(column)
                of_keys.append(Shown(name, quoted([column])))
                fields[name], keys[name] = made.fields[column], value
                continue
            # Some row compares so if the least or the largest does.
            ends: list[Expr] = []
            for end in _ENDS[pair.operator]:
                name = scope.new_name(end)
                shown.append(Shown(name, f"system.main.{end}({quoted([column])})"))
                fields[name] = Field(made.fields[column].kind)
                ends.append(Comparison(pair.operator, Column(SOMEWHERE, name), value))
            is_met = And(is_met, Is(reduce(Or, ends), TRUE))
        self._attach(Grouped(made.relation, tuple(of_keys), tuple(shown), made.shows_unit), keys, fields)
        return is_met

    def _nearest(
        self, made: Made, ends: Sequence[int], pairs: Sequence[Pair], inner: Sequence[str], outer: Sequence[Expr]
    ) -> Expr:
        """Whether a column lies between two values: the least that is above the lower one is below the upper one.

        ends: the places of the lower and the upper comparison among all.
        """
        lower, upper = ends
        value = self._scope.new_name(inner[lower])
        shown, fields = [Shown(value, quoted([inner[lower]]))], {value: Field(made.fields[inner[lower]].kind)}
        keys: dict[str, Expr] = {}
        for at, column in enumerate(inner):
            if at not in ends:
                name = self._scope.new_name(column)
                shown.append(Shown(name, quoted([column])))
                fields[name], keys[name] = made.fields[column], outer[at]
        nearest = Comparison(pairs[lower].operator, Column(SOMEWHERE, value), outer[lower])
        self._attach(Grouped(made.relation, tuple(shown), (), made.shows_unit), keys, fields, nearest)
        return Is(Comparison(pairs[upper].operator, Column(SOMEWHERE, value), outer[upper]), TRUE)

    def _is_implied(self, query: Block, pairs: Sequence[Pair]) -> bool:
        """Whether equal columns alone make the rows of a subquery those of the row's own unit.

        They are the columns by which the table is linked, and in the row those of the same record. Then the unit need
        not be looked up again.
        """
        table = query.sources[0].relation if len(query.sources) == 1 else None
        protected = self._scope.protected.get(table.name) if isinstance(table, Table) else None
        if (
            protected is None
            or not protected.policy.links
            or any(has(expression, Nested) for expression in query.expressions())
        ):
            return False
        same = {
            pair.inner.name: self._scope.name(pair.outer)
            for pair in pairs
            if pair.operator == "=" and isinstance(pair.inner, Column) and isinstance(pair.outer, Column)
        }
        (link,) = protected.policy.links
        linked = sorted(zip(map(fold, link.parent_columns), map(fold, link.columns), strict=True))
        theirs = self._outer.fixes.get((link.parent, tuple(text for text, _ in linked)))
        return theirs is not None and all(
            same.get(mine) in self._equal.of(other) for (_, mine), other in zip(linked, theirs, strict=True)
        )

    def _is_two_valued(self, made: Made, inner: str, outer: Expr, nested: Nested) -> bool:
        """Whether IN cannot be NULL, or NULL means what false does where it stands."""
        is_known = isinstance(outer, Column) and self._fields[outer.name].never_null
        if is_known and made.fields[inner].never_null:
            return True
        return not tells_null_from_false(self._block, nested)

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, query: Block) -> Expr:
        """A value: of the records of the unit that have equal columns, of open tables, or of all units with noise."""
        inside, pairs = apart(query, {source.number for source in query.sources})
        if len(query.outputs) != 1:
            raise NotLocal(_NO_VALUE)
        if query.limited and not pairs:
            query = self._first_of_all(query)
        if query.keys != () and not pairs and not is_protected(query):
            return self._only_value(query)
        if query.keys is None and pairs and all(pair.operator == "=" for pair in pairs):
            whole = replace(query, where=frozenset(inside))
            if query.limited:
                whole = first_rows(whole, (pair.inner for pair in pairs))
            return self._value_by_keys(whole, pairs)
        if query.limited:
            raise NotLocal(_NOT_FOLLOWED)
        if query.keys != () or query.having:
            raise NotLocal(_NO_VALUE)
        if any(pair.operator != "=" for pair in pairs):
            raise NotLocal(
                "A subquery for a value is followed where it depends on its row by equal columns: compare them by =."
            )
        if is_protected(query) and not pairs:
            return self._bought(query)
        asked = (*query.outputs, *(Output(f"_dk_{at}", pair.inner) for at, pair in enumerate(pairs)))
        made, where, over = self._builder.joined(replace(query, where=frozenset(inside), outputs=asked, order=()))
        inner, outer = [over(pair.inner) for pair in pairs], [self.over(pair.outer) for pair in pairs]
        equal = [
            (column.name, theirs) for column, theirs in zip(inner, outer, strict=True) if isinstance(column, Column)
        ]
        self._check_units(made, equal)
        groups = Groups(self._scope, made)
        # Before there are keys, so that only aggregates are found in it.
        value = groups.over(over(query.outputs[0].expr), is_optional=True)
        keys = {groups.key(expression, is_new=True): other for expression, other in zip(inner, outer, strict=True)}
        self._attach(groups.relation(where), keys, groups.fields)
        return value

    def _only_value(self, query: Block) -> Expr:
        """The value of a query of open tables that has one row or none."""
        made, names = self._builder.block(replace(query, order=()))
        (name,) = names.values()
        if not self._scope.holds(f"SELECT system.main.count(*) <= 1 FROM ({of_open(made)}) AS r"):
            raise NotLocal("A subquery for a value has several rows: aggregate them.")
        new = self._scope.new_name(name)
        relation = Grouped(made.relation, (), (Shown(new, f"system.main.max({quoted([name])})"),), has_unit=False)
        self._attach(relation, {}, {new: replace(made.fields[name], never_null=False)})
        return Column(SOMEWHERE, new)

    def _value_by_keys(self, query: Block, pairs: Sequence[Pair]) -> Expr:
        """The value of the only row that has equal columns: of the unit, of open tables, or of numbers with noise."""
        columns = [f"_dk_{at}" for at in range(len(pairs))]
        keyed = tuple(Output(name, pair.inner) for name, pair in zip(columns, pairs, strict=True))
        made, names = self._builder.block(replace(query, outputs=(*query.outputs, *keyed), order=()))
        value, keys = names[fold(query.outputs[0].name)], [names[column] for column in columns]
        if not self._is_only(made, keys):
            raise NotLocal(_NO_VALUE)
        self._check_units(made, [(name, self.over(pair.outer)) for name, pair in zip(keys, pairs, strict=True)])
        new = self._scope.new_name(value)
        known = made.fields[value]
        fields = {new: replace(known, origin=known.origin and replace(known.origin, optional=True))}
        shown, equal = [], {}
        for name, pair in zip(keys, pairs, strict=True):
            key = self._scope.new_name(name)
            shown.append(Shown(key, quoted([name])))
            fields[key], equal[key] = made.fields[name], self.over(pair.outer)
        only = Shown(new, f"system.main.max({quoted([value])})")
        self._attach(Grouped(made.relation, tuple(shown), (only,), made.shows_unit), equal, fields)
        return Column(SOMEWHERE, new)

    def _is_only(self, made: Made, keys: Sequence[str]) -> bool:
        """Whether no two rows of a relation (with a unit: of one unit) have equal keys."""
        if any(texts <= set(keys) for texts in made.unique):
            return True
        if not made.is_open:
            return False
        return self._scope.holds(no_two_share(f"({of_open(made)})", keys))

    def _bought(self, query: Block) -> Expr:
        """A value of all units together: the answer to a question of its own, which has noise and is paid for."""
        name = self._scope.new_name("value")
        answer = replace(self._scope.ask(query), columns=((name, "DOUBLE"),))
        relation = Grouped(answer, (), (Shown(name, f"system.main.max({quoted([name])})"),), has_unit=False)
        self._attach(relation, {}, {name: Field("DOUBLE")})
        return Column(SOMEWHERE, name)

    # --- both ---------------------------------------------------------------------------------------------------------

    def _attach(
        self, relation: Grouped, keys: dict[str, Expr], fields: dict[str, Field], nearest: Expr | None = None
    ) -> None:
        """Join groups, of which each row finds one at most. keys: what their keys are equal to.

        nearest: a comparison that several groups may meet, of which the nearest one is found. Raises NotLocal.
        """
        kinds = {name: field.kind for name, field in self._fields.items()}
        for name, value in keys.items():
            kind = scalar(value, kinds, self._scope.today)[1]
            if not tells_apart(fields[name].kind, kind):
                raise NotToldApart("A subquery", fields[name].kind, kind)
        # Where no group is found they are NULL, even the unit.
        self._fields |= {
            name: replace(
                field,
                origin=field.origin and replace(field.origin, optional=True),
                is_unit=False,
                never_null=False,
                listed=or_null(field.listed),
                numbers=None,
            )
            for name, field in fields.items()
        }
        on = sorted(
            self._scope.written(Comparison("=", Column(SOMEWHERE, name), value), self._fields)
            for name, value in keys.items()
        )
        if nearest is not None:
            on.append(self._scope.written(nearest, self._fields))
        how = "left" if nearest is None else "nearest"
        self._parts.append(Part(relation, how, tuple(on), relation.has_unit))

    def _check_units(self, made: Made, equal: Sequence[tuple[str, Expr]]) -> None:
        """Raises NotLocal for a subquery of protected records where not only those of the row's own unit are asked.

        equal: its columns, and what each must be equal to in the row around it.
        """
        if not made.has_unit:
            return
        if not self._outer.has_unit:
            raise NotLocal(
                "A condition on rows of open tables cannot ask protected records: count the records, which has an "
                "answer with noise, and compare that."
            )
        if not self._is_of_unit(made, equal):
            raise OtherUnits(_OTHER_UNITS)

    def _is_of_unit(self, made: Made, equal: Sequence[tuple[str, Expr]]) -> bool:
        """Whether equal columns make the rows of a subquery those of the row's own unit."""
        same = {name: column.name for name, column in equal if isinstance(column, Column)}
        return any(
            bool(theirs := self._outer.fixes.get(fixed, ()))
            and all(same.get(mine) in self._equal.of(other) for mine, other in zip(names, theirs, strict=True))
            for fixed, names in made.fixes.items()
        )
