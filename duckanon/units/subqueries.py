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
    SOMEWHERE,
    TRUE,
    And,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    InQuery,
    Is,
    Nested,
    Or,
    ScalarQuery,
    has,
    rebuilt,
)
from duckanon.rewrite.algebra.relations import Block, Output, Table, is_protected
from duckanon.units.conditions import Equal, Pair, apart, is_negated
from duckanon.units.fields import Field, Made
from duckanon.units.grouping import Groups
from duckanon.units.relation import Grouped, Joined, Part, Shown
from duckanon.units.scope import NotLocal, of_open

if TYPE_CHECKING:
    from duckanon.units.building import Builder

_ENDS = {"<": ("min",), "<=": ("min",), ">": ("max",), ">=": ("max",), "<>": ("min", "max")}
_OTHER_UNITS = (
    "A subquery asks records of other units than the one of its row: compare the units' columns too, as in "
    "`a.unit = b.unit`."
)
_NO_VALUE = (
    "A subquery for a value is followed where it is an aggregate of what it reads, without GROUP BY: write max or min."
)


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
        shown = tuple(Shown(one, quoted([one])) for one in self._fields)
        relation = Joined((*self._outer.relation.joined, *self._parts), (), shown)
        return replace(self._outer, relation=relation, fields=self._fields)

    def over(self, expr: Expr) -> Expr:
        """An expression over the joined columns. Raises NotLocal."""

        def change(one: Expr) -> Expr | None:
            if isinstance(one, Nested):
                if one not in self._known:
                    try:
                        self._known[one] = self._looked_up(one)
                    except NotLocal as no:
                        no.part = no.part or getattr(one.query, "node", None)
                        raise
                return self._known[one]
            return self._scope.over(one) if isinstance(one, Column) else None

        return rebuilt(expr, change)

    def _looked_up(self, nested: Nested) -> Expr:
        query = nested.query
        if not isinstance(query, Block) or query.limited or query.qualify or query.sets or query.spread:
            raise NotLocal(
                "A subquery with LIMIT, QUALIFY, grouping sets or UNION is not followed here: write it as a condition, "
                "or as an aggregate such as max."
            )
        if isinstance(nested, ScalarQuery):
            return self._value(query)
        return self._found(nested, query)

    # --- EXISTS and IN ------------------------------------------------------------------------------------------------

    def _found(self, nested: Nested, query: Block) -> Expr:
        """Whether a row is found."""
        inside, pairs = apart(query, {one.number for one in query.sources})
        if query.keys == () or (pairs and query.keys is not None and query.having):
            raise NotLocal(
                "A subquery of EXISTS or IN that aggregates the records of its row is not followed: compare the "
                "aggregate itself, or group by the protected table's unit."
            )
        if isinstance(nested, InQuery):
            if len(query.outputs) != 1:
                raise NotLocal("IN takes a subquery with one column.")
            pairs.insert(0, Pair(query.outputs[0].expr, "=", nested.operand))
        if sum(one.operator != "=" for one in pairs) > 1:
            raise NotLocal(
                "A subquery that compares more than one column by something else than = is not followed: leave one of "
                "the comparisons out."
            )
        outputs = tuple(Output(f"_dk_{at}", one.inner) for at, one in enumerate(pairs))
        bare = replace(query, where=frozenset(inside), outputs=outputs, order=(), distinct=None)
        made, names = self._builder.block(bare, owned=not self._is_implied(query, pairs))
        inner = [names[one.name] for one in outputs]
        outer = [self.over(one.outer) for one in pairs]
        equal = [(mine, theirs) for pair, mine, theirs in zip(pairs, inner, outer, strict=True) if pair.operator == "="]
        self._check_units(made, equal)
        if isinstance(nested, InQuery) and not self._is_two_valued(made, inner[0], outer[0], nested):
            raise NotLocal("NOT IN of columns that may be NULL is not followed: write NOT EXISTS.")
        return self._attached(made, pairs, inner, outer)

    def _attached(self, made: Made, pairs: Sequence[Pair], inner: Sequence[str], outer: Sequence[Expr]) -> Expr:
        """Whether there is a group of the rows that meet all comparisons."""
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

    def _is_implied(self, query: Block, pairs: Sequence[Pair]) -> bool:
        """Whether equal columns alone make the rows of a subquery those of the row's own unit.

        They are the columns by which the table is linked, and in the row those of the same record. Then the unit need
        not be looked up again.
        """
        table = query.sources[0].relation if len(query.sources) == 1 else None
        protected = self._scope.protected.get(table.name) if isinstance(table, Table) else None
        if protected is None or not protected.policy.links or any(has(one, Nested) for one in query.expressions()):
            return False
        same = {
            one.inner.name: self._scope.name(one.outer)
            for one in pairs
            if one.operator == "=" and isinstance(one.inner, Column) and isinstance(one.outer, Column)
        }
        (link,) = protected.policy.links
        linked = sorted(zip(map(fold, link.parent_columns), map(fold, link.columns), strict=True))
        theirs = self._outer.fixes.get((link.parent, tuple(one for one, _ in linked)))
        return theirs is not None and all(
            same.get(mine) in self._equal.of(other) for (_, mine), other in zip(linked, theirs, strict=True)
        )

    def _is_two_valued(self, made: Made, inner: str, outer: Expr, nested: Nested) -> bool:
        """Whether IN cannot be NULL, or NULL means what false does where it stands."""
        is_known = isinstance(outer, Column) and self._fields[outer.name].never_null
        if is_known and made.fields[inner].never_null:
            return True
        return not any(is_negated(one, nested) for one in self._block.expressions())

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, query: Block) -> Expr:
        """A value: of the records of the unit that have equal columns, of open tables, or of all units with noise."""
        inside, pairs = apart(query, {one.number for one in query.sources})
        if len(query.outputs) != 1:
            raise NotLocal(_NO_VALUE)
        if query.keys != () and not pairs and not is_protected(query):
            return self._only_value(query)
        if query.keys != () or query.having:
            raise NotLocal(_NO_VALUE)
        if any(one.operator != "=" for one in pairs):
            raise NotLocal(
                "A subquery for a value is followed where it depends on its row by equal columns: compare them by =."
            )
        if is_protected(query) and not pairs:
            return self._bought(query)
        asked = (*query.outputs, *(Output(f"_dk_{at}", one.inner) for at, one in enumerate(pairs)))
        made, where, over = self._builder.joined(replace(query, where=frozenset(inside), outputs=asked, order=()))
        inner, outer = [over(one.inner) for one in pairs], [self.over(one.outer) for one in pairs]
        equal = [(one.name, theirs) for one, theirs in zip(inner, outer, strict=True) if isinstance(one, Column)]
        self._check_units(made, equal)
        groups = Groups(self._scope, made)
        # Before there are keys, so that only aggregates are found in it.
        value = groups.over(over(query.outputs[0].expr), is_optional=True)
        keys = {groups.key(one, is_new=True): other for one, other in zip(inner, outer, strict=True)}
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

    def _bought(self, query: Block) -> Expr:
        """A value of all units together: the answer to a question of its own, which has noise and is paid for."""
        name = self._scope.new_name("value")
        answer = replace(self._scope.ask(query), column=name)
        relation = Grouped(answer, (), (Shown(name, f"system.main.max({quoted([name])})"),), has_unit=False)
        self._attach(relation, {}, {name: Field("DOUBLE")})
        return Column(SOMEWHERE, name)

    # --- both ---------------------------------------------------------------------------------------------------------

    def _attach(self, relation: Grouped, keys: dict[str, Expr], fields: dict[str, Field]) -> None:
        """Join groups, of which each row finds one at most. keys: what their keys are equal to."""
        # Where no group is found they are NULL, even the unit.
        self._fields |= {name: replace(one, is_unit=False, never_null=False, listed=()) for name, one in fields.items()}
        on = sorted(
            self._scope.written(Comparison("=", Column(SOMEWHERE, name), value), self._fields)
            for name, value in keys.items()
        )
        self._parts.append(Part(relation, "left", tuple(on), relation.has_unit))

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
        same = {name: one.name for name, one in equal if isinstance(one, Column)}
        for fixed, names in made.fixes.items():
            theirs = self._outer.fixes.get(fixed, ())
            if theirs and all(
                same.get(mine) in self._equal.of(other) for mine, other in zip(names, theirs, strict=True)
            ):
                return
        raise NotLocal(_OTHER_UNITS)
