"""Joins of what a block reads: records of one unit with each other, and with rows of open tables.

Protected tables are joined where their units are the same: the join says so, by the units' columns or by the columns
of declared links. That is never added by itself: it would make another question of "pairs of customers who ordered on
one day". Where each row meets at most one row of every other source, the join has no more rows than that source.
Where several rows of a unit meet several others, each side is cut first, to as many rows of a unit as count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.rewrite.algebra.expressions import (
    SOMEWHERE,
    Column,
    Comparison,
    Exists,
    Expr,
    Nested,
    Not,
    Star,
    has,
    walk,
)
from duckanon.rewrite.algebra.filters import scalar
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.possible_values import or_null
from duckanon.rewrite.algebra.relations import Block, Source, Table
from duckanon.rewrite.algebra.rows import columns_in
from duckanon.units.conditions import Equal, are_told_apart, equated, factored
from duckanon.units.fields import Field, Fixes, Made
from duckanon.units.listed_keys import keys_of, listed
from duckanon.units.open_rows import computed_of, connected, together
from duckanon.units.relation import Cut, Joined, OneRow, Part, Shown
from duckanon.units.scope import NotLocal, NotToldApart, of_open
from duckanon.units.subqueries import Subqueries
from duckanon.units.uniqueness import most_alike
from duckanon.units.values import computed, meeting
from duckanon.units.windows import numbered

if TYPE_CHECKING:
    from duckanon.units.building import Builder

_NOT_THE_SAME = (
    "{}, and nothing in the join says that their records are of one unit: add that the columns of the unit, or those "
    "of a declared link, are equal."
)
_FAN_OUT = (
    "{} has several rows for one record in this join, so a record would count several times: join by columns that are "
    "unique there."
)
_FROM_OPEN = "A LEFT JOIN from an open table would show its rows without any unit: join the other way."


# Where a row may meet several rows of open tables, it meets no more than these.
_MOST_MET = 1000
_NO_TABLE = Made(Joined((Part(OneRow(), unit=False),)), {}, has_unit=False, unique=frozenset([frozenset()]))


class Join:
    """The join of a block's sources, and of the subqueries in its expressions.

    owned: whether its rows get the unit's column; else they are joined by what fixes their unit. repeats: whether a row
    may meet several rows of open tables, as where it is only asked whether there are any.
    """

    def __init__(self, builder: Builder, block: Block, *, owned: bool = True, repeats: bool = False) -> None:
        self._builder, self._scope, self._block, self._owned = builder, builder.scope, block, owned
        self._repeats = repeats
        self._sources = [source for source in block.sources if source.join not in ("semi", "anti")]
        self._where = _conditions(block)
        self._made = self._read()
        self._where = [self._by_columns(condition) for condition in self._where]
        self._sources = [replace(source, on=frozenset(map(self._by_columns, source.on))) for source in self._sources]
        inner = {source.number for source in self._sources if source.join == "inner"}
        # What a LEFT JOIN finds is equal to nothing before WHERE.
        expressions = (condition for condition in self._where if _sources_in(condition) <= inner)
        known = [names for number in sorted(inner) for names in self._made[number].equal]
        fields = _together(*(one.fields for one in self._made.values()))
        self._equal = Equal(self._scope, expressions, fields, known)
        # The conditions of WHERE that the join has.
        self._met: set[Expr] = set()
        self._made = {source.number: self._numbered(source) for source in self._sources}

    def made(self) -> tuple[Made, list[Expr], Callable[[Expr], Expr]]:
        """The relation, the conditions that are left, and what writes expressions over its columns. Raises NotLocal."""
        joined = self._with_listed_keys(self._put_together())
        subqueries = Subqueries(self._builder, self._block, joined, self._equal)
        rest = [
            subqueries.over(condition)
            for condition in self._where
            if condition not in self._met and not subqueries.keeps(condition)
        ]
        block = self._block
        for expr in (
            *(output.expr for output in block.outputs),
            *(block.keys or ()),
            *block.having,
            *in_order(block.qualify),
        ):
            # So all subqueries are known before the relation is complete.
            subqueries.over(expr)
        return subqueries.joined(), rest, subqueries.over

    # --- sources ------------------------------------------------------------------------------------------------------

    def _read(self) -> dict[int, Made]:
        """The relation of each source, by its number."""
        asked: dict[int, set[str]] = {source.number: set() for source in self._sources}
        # Conditions stand in sets, whose order differs from process to process.
        for column in sorted(columns_in([*self._block.expressions(), *self._where]), key=repr):
            if isinstance(column, Star):
                raise NotLocal("A whole record is no value here: name the columns.")
            if column.source == SOMEWHERE:
                # (The columns of relations have no source, too: a name that no table has could be one of theirs.)
                raise NotLocal(f"There is no column {column.name}.")
            if column.source in asked:
                asked[column.source].add(column.name)
        return {source.number: self._relation(source, asked[source.number]) for source in self._sources}

    def _relation(self, source: Source, asked: set[str]) -> Made:
        table = source.relation
        protected = self._scope.protected.get(table.name) if isinstance(table, Table) else None
        if protected is not None:
            policy = protected.policy
            if asked & set(map(fold, policy.drop)):
                raise NotLocal(f"The policy lets nothing out that depends on {', '.join(policy.drop)}.")
            if policy.privacy_unit is not None and not policy.links:
                # The unit is shown by its own column.
                asked = asked | {fold(policy.privacy_unit)}
        owned = self._owned and not self._has_parent(source)
        try:
            return self._builder.relation(table, source.number, sorted(asked), owned=owned)
        except NotLocal as no:
            no.part = no.part or source.node
            raise

    def _by_columns(self, condition: Expr) -> Expr:
        """A condition that columns are equal, where it compares what is computed of a unit's records with a column."""
        match condition:
            case Comparison("=", Column() as column, other) | Comparison("=", other, Column() as column):
                own = set() if isinstance(other, Column) or has(other, Nested) else _sources_in(other)
                if len(own) == 1 and own <= self._made.keys() - {column.source}:
                    (number,) = own
                    if self._made[number].has_unit:
                        return Comparison("=", self._computed(number, other), column)
        return condition

    def _computed(self, number: int, expr: Expr) -> Column:
        """A column of a source that is computed of its others. number: the source's."""
        made, over = self._made[number], self._scope.over(expr)
        sql, kind = scalar(over, made.types, self._scope.today)
        name = self._scope.new_name("key")
        shown = (*_columns(made.fields), Shown(name, sql))
        fields = {**made.fields, name: computed(self._scope, over, made.fields, kind)}
        relation = Joined((Part(made.relation, unit=made.shows_unit),), (), shown)
        self._made[number] = replace(made, relation=relation, fields=fields)
        self._scope.call(number, name, name)
        return Column(number, name)

    def _has_parent(self, child: Source) -> bool:
        """Whether each row of a linked table is joined with the record that it is linked to, which has its unit."""
        table = child.relation
        protected = self._scope.protected.get(table.name) if isinstance(table, Table) else None
        if child.join != "inner" or protected is None:
            return False
        pairs = {
            each for condition in self._where if (pair := equated(condition)) is not None for each in (pair, pair[::-1])
        }

        def is_parent(other: Source, parent: TableName, columns: Iterable[tuple[str, str]]) -> bool:
            joined = all(
                (Column(child.number, fold(mine)), Column(other.number, fold(theirs))) in pairs
                for mine, theirs in columns
            )
            is_it = isinstance(other.relation, Table) and other.relation.name == parent
            return joined and is_it and other.join == "inner"

        return any(
            is_parent(other, link.parent, list(zip(link.columns, link.parent_columns, strict=True)))
            for link in protected.policy.links
            for other in self._sources
        )

    def _numbered(self, source: Source) -> Made:
        """A source, of which conditions on its row numbers have left few rows."""
        made = self._of(source)
        numbers = {name for name, field in made.fields.items() if field.numbers is not None}
        if source.join == "inner":
            own = [
                condition
                for condition in self._where
                if self._reads(condition, numbers) and self._is_over(condition, made.fields)
            ]
            if own:
                self._met.update(own)
                tests = tuple(
                    sorted(self._scope.written(self._scope.over(expression), made.fields) for expression in own)
                )
                relation = Joined((Part(made.relation, unit=made.shows_unit),), tests, _columns(made.fields))
                made = numbered(replace(made, relation=relation), map(self._scope.over, own))
                made = replace(made, fields=self._meeting(own, made.fields))
        if len(self._sources) == 1:
            return made
        # In a join a row may stand several times, and its number with it.
        return replace(made, fields={name: replace(field, numbers=None) for name, field in made.fields.items()})

    def _reads(self, condition: Expr, names: set[str]) -> bool:
        columns = {self._scope.name(node) for node in walk(condition) if isinstance(node, Column)}
        return bool(columns & names) and not has(condition, Nested)

    # --- the join -----------------------------------------------------------------------------------------------------

    def _put_together(self) -> Made:
        """The sources joined, one that has the unit's column first."""
        inner = [source for source in self._sources if source.join == "inner"]
        left = [source for source in self._sources if source.join == "left"]
        local = self._of_one_unit([source for source in inner if self._of(source).has_unit])
        if not local and any(self._of(source).has_unit for source in left):
            raise NotLocal(_FROM_OPEN, next(source.node for source in left if self._of(source).has_unit))
        joined = self._inner([*local, *(source for source in inner if source not in local)]) if inner else _NO_TABLE
        same = list(local)
        for one in left:
            joined = self._with_left(joined, one, same)
            if self._of(one).has_unit:
                # A row of it that is found has the unit, so what is equal to its unit's column has, too.
                same.append(one)
        return joined

    def _of(self, source: Source) -> Made:
        return self._made[source.number]

    def _of_one_unit(self, sources: list[Source]) -> list[Source]:
        """Sources of protected records, each after one that has the same unit by the join's conditions."""
        # Records that get their unit from what they are linked to come after it.
        waiting = sorted(sources, key=lambda source: not self._of(source).owned)
        ordered, waiting = waiting[:1], waiting[1:]
        while waiting:
            following = next((source for source in waiting if self._is_same(source, ordered, self._equal)), None)
            if following is None:
                raise NotLocal(_not_the_same(waiting[0], ordered[0]), waiting[0].node)
            ordered.append(following)
            waiting.remove(following)
        return ordered

    def _is_same(self, source: Source, others: Iterable[Source], equal: Equal) -> bool:
        """Whether a source has the unit of one of others: they share columns that fix it."""
        return any(
            all(theirs in equal.of(mine) for mine, theirs in zip(names, self._of(other).fixes[fixed], strict=True))
            for fixed, names in self._of(source).fixes.items()
            for other in others
            if fixed in self._of(other).fixes
        )

    def _inner(self, order: Sequence[Source]) -> Made:
        rows, counted, unique, cut = self._counted(order)
        parts: list[Part] = []
        fields: dict[str, Field] = {}
        fixes: dict[Fixes, tuple[str, ...]] = {}
        for one in order:
            now = self._of(one)
            if one.number in cut:
                # Its conditions stay in WHERE, too, where they say which keys there are.
                now = self._cut(now, self._where)
            fields |= now.fields
            fixes = {**now.fixes, **fixes}
            parts.append(Part(now.relation, "inner", self._conditions_on(fields), now.shows_unit))
        local = [source for source in order if self._of(source).has_unit]
        has_unit = bool(local)
        fields |= {name: replace(fields[name], is_unit=True, never_null=True) for name in self._units(fields)}
        relation = Joined(tuple(parts), (), _columns(fields))
        met = frozenset((frozenset(self._of(source).fields), self._of(source).rows) for source in local)
        known = (fields, has_unit, rows, unique, fixes, counted, self._owned, self._equal.classes)
        return Made(relation, *known, met if len(cut) > 1 else frozenset())

    def _units(self, fields: Mapping[str, Field]) -> set[str]:
        """The columns that are the unit, as the join's conditions say."""
        return {
            other for name, field in fields.items() if field.is_unit for other in self._equal.of(name)
        } & fields.keys()

    def _conditions_on(self, fields: dict[str, Field]) -> tuple[str, ...]:
        """The equations of columns that are not met yet and can be now."""
        values = []
        for condition in self._where:
            if condition not in self._met and equated(condition) is not None and self._is_over(condition, fields):
                self._met.add(condition)
                values.append(self._scope.written(self._scope.over(condition), fields))
        return tuple(sorted(values))

    def _is_over(self, condition: Expr, fields: Mapping[str, Field]) -> bool:
        """Whether a condition reads columns of a relation alone."""
        return all(self._scope.name(node) in fields for node in walk(condition) if isinstance(node, Column))

    def _counted(
        self, order: Sequence[Source]
    ) -> tuple[int, TableName | None, frozenset[frozenset[str]], frozenset[int]]:
        """How many rows of a unit count, which records they are, which columns no two share, and what is to be cut.

        They are rows of a source by whose row at most one row of each other source is found. Where there is none,
        several rows of a unit meet several others, and such sources are cut, by their numbers.
        """
        local = [source for source in order if self._of(source).has_unit]
        if not local:
            return 1, None, self._of(order[0]).unique if len(order) == 1 else frozenset(), frozenset()
        reached = {source.number: self._reached({source.number}, order) for source in local}
        first = max(local, key=lambda item: len(reached[item.number]))
        all_reached, several, times = reached[first.number], [first], 1
        while len(all_reached) < len(order):
            further = next((source for source in local if source.number not in all_reached), None)
            if further is None:
                repeated = next(source for source in order if source.number not in all_reached)
                times *= self._most_met(repeated, all_reached)
                all_reached = self._reached(all_reached | {repeated.number}, order)
                continue
            all_reached = self._reached(all_reached | {further.number}, order)
            several.append(further)
        now, rows = self._of(first), times
        for one in several:
            rows *= self._of(one).rows
        if len(several) == 1:
            return rows, now.counted, now.unique if times == 1 else frozenset(), frozenset()
        return rows, now.counted, frozenset(), frozenset(source.number for source in several)

    def _reached(self, numbers: set[int], order: Sequence[Source]) -> set[int]:
        """The sources of which at most one row is found by a row of each of some, with these."""
        while True:
            known = {name for number in numbers for name in self._made[number].fields}
            new = {
                source.number
                for source in order
                if source.number not in numbers and self._is_found(self._of(source), known)
            }
            new = new or self._found_together([source for source in order if source.number not in numbers], known)
            if not new:
                return numbers
            numbers = numbers | new

    def _most_met(self, source: Source, numbers: set[int]) -> int:
        """How many rows of an open source a row of others meets at most. numbers: of these. Raises NotLocal."""
        made = self._of(source)
        known = {name for number in numbers for name in self._made[number].fields}
        most = 0
        if self._repeats and made.is_open:
            by = {name for name in made.fields if self._equal.of(name) & known}
            (most,) = self._scope.public.value(most_alike(of_open(together(self._scope, [made], self._where)), by))
        if not 0 < most <= _MOST_MET:
            raise self._fans_out(source)
        return int(most)

    def _found_together(self, sources: Sequence[Source], known: set[str]) -> set[int]:
        """Sources of open rows of which at most one row together is found by known columns, of those that are left."""
        opened = [source for source in sources if self._of(source).is_open]
        fields = _together(*(made.fields for made in self._made.values()))
        for group in connected(opened, self._where):
            made = together(self._scope, [self._made[number] for number in sorted(group)], self._where)
            by = {name for name in made.fields if self._equal.of(name) & known}
            by |= computed_of(self._scope, self._where, made.fields, {name: fields[name] for name in known})
            if self._scope.is_unique(made, frozenset(by)):
                return set(group)
        return set()

    def _fans_out(self, source: Source) -> NotLocal:
        """Why a source is not followed of which a row may meet several."""
        return self._of_two_types(source) or NotLocal(_FAN_OUT.format(_named(source)), source.node)

    def _of_two_types(self, source: Source) -> NotToldApart | None:
        """Why a row may meet several of a source, if that is for the types by which it is joined."""
        fields = _together(*(one.fields for one in self._made.values()))
        own = self._of(source).fields
        for pair in filter(None, map(equated, [*self._where, *source.on])):
            names = [self._scope.name(column) for column in pair]
            if set(names) <= fields.keys() and own.keys() & set(names):
                field, other = (fields[name] for name in names)
                if not are_told_apart(field, other):
                    return NotToldApart(_named(source), field.kind, other.kind, source.node)
        return None

    def _told_apart(self, condition: Expr, fields: Mapping[str, Field]) -> set[str]:
        """The names of columns that a condition says are one value."""
        names = {self._scope.name(column) for column in equated(condition) or ()} & fields.keys()
        return names if len(names) == 2 and are_told_apart(*(fields[name] for name in names)) else set()

    def _is_found(self, made: Made, known: set[str]) -> bool:
        columns = frozenset(name for name in made.fields if self._equal.of(name) & known)
        return self._scope.is_unique(made, columns)

    def _cut(self, made: Made, conditions: Iterable[Expr]) -> Made:
        """The rows of a source that meet the conditions on it alone, at most so many of each unit as count."""
        if not made.owned:
            raise NotLocal("Several rows of a unit meet several others in this join, and one is known by a link only.")
        own = self._on(conditions, made.fields)
        tests = tuple(sorted(self._scope.written(self._scope.over(condition), made.fields) for condition in own))
        filtered = Joined((Part(made.relation),), tests, _columns(made.fields))
        cut = Cut(filtered, made.rows, tuple(sorted(made.fields)))
        return replace(made, relation=cut, fields=self._meeting(own, made.fields))

    def _meeting(self, conditions: Iterable[Expr], fields: Mapping[str, Field]) -> dict[str, Field]:
        """What is known of a source's columns in the rows that meet conditions."""
        return meeting(self._scope, fields, map(self._scope.over, self._on(conditions, fields)))

    def _on(self, conditions: Iterable[Expr], fields: Mapping[str, Field]) -> list[Expr]:
        """The conditions on a source's columns alone."""
        return [each for each in conditions if not has(each, Nested) and self._is_over(each, fields)]

    def _with_listed_keys(self, joined: Made) -> Made:
        """What is joined, where a key is equal to a column of an open table of which conditions leave some rows."""
        fields = dict(joined.fields)
        keys = [name for name in sorted(keys_of(self._scope, self._block) & fields.keys()) if not fields[name].is_open]
        inner = (self._of(source) for source in self._sources if source.join == "inner") if keys else ()
        for made in filter(None, (self._some_of(each) for each in inner if not each.has_unit)):
            for name in keys:
                for column in sorted(self._equal.of(name) & made.fields.keys())[:1]:
                    fields[name] = listed(self._scope, fields[name], made, column)
        return replace(joined, fields=fields)

    def _some_of(self, made: Made) -> Made | None:
        """The rows of an open table that meet the conditions on it alone; None where there are no such conditions."""
        own = [
            condition
            for condition in self._where
            if self._reads(condition, {*made.fields}) and self._is_over(condition, made.fields)
        ]
        tests = tuple(sorted(self._scope.written(self._scope.over(condition), made.fields) for condition in own))
        relation = Joined((Part(made.relation, unit=False),), tests, _columns(made.fields))
        return replace(made, relation=relation) if tests else None

    # --- LEFT JOIN ----------------------------------------------------------------------------------------------------

    def _with_left(self, joined: Made, source: Source, same: Sequence[Source]) -> Made:
        """The relation with a source whose columns are NULL where none of its rows meets the conditions.

        same: the sources so far of which each row that is found has the unit.
        """
        now = self._of(source)
        equal = Equal(self._scope, source.on, _together(joined.fields, now.fields))
        if now.has_unit and not self._is_same(source, same, equal):
            raise NotLocal(_not_the_same(source, same[0]), source.node)
        if any(has(condition, Nested) for condition in source.on):
            raise NotLocal("A subquery in a join's condition is not followed: put it into WHERE.", source.node)
        new = {
            name: replace(
                field,
                never_null=False,
                is_unit=False,
                is_unit_or_null=now.has_unit and (field.is_unit or field.is_unit_or_null),
                listed=or_null(field.listed),
                origin=field.origin and replace(field.origin, optional=True),
                among=tuple(replace(each, optional=True) for each in field.among),
            )
            for name, field in self._meeting(source.on, now.fields).items()
        }
        fields = {**joined.fields, **new}
        on = sorted(self._scope.written(self._scope.over(condition), fields) for condition in source.on)
        few = self._left_counted(joined, source)
        if few is None:
            counted = joined.parts | {(frozenset(joined.fields), joined.rows)}
            few = replace(self._cut(joined, ()), rows=joined.rows * now.rows, unique=frozenset(), parts=counted)
            now = self._cut(now, source.on)
        parts = few.relation.joined if isinstance(few.relation, Joined) else (Part(few.relation),)
        relation = Joined((*parts, Part(now.relation, "left", tuple(on), now.shows_unit)), (), _columns(fields))
        return replace(few, relation=relation, fields=fields)

    def _left_counted(self, joined: Made, source: Source) -> Made | None:
        """As `_counted`, with a LEFT JOIN: its rows are those so far, or more where one meets several.

        None where several rows of a unit meet several others, and both sides are to be cut.
        """
        now = self._of(source)
        fields = _together(joined.fields, now.fields)
        columns = {name for each in source.on for name in self._told_apart(each, fields)}
        met = together(self._scope, [now], source.on) if now.is_open else now
        if any(self._scope.is_unique(made, frozenset(columns & now.fields.keys())) for made in (now, met)):
            return joined
        if not now.has_unit:
            raise self._fans_out(source)
        if any(texts <= columns & joined.fields.keys() for texts in joined.unique):
            # Each of its rows meets one row at most, so there are as many rows as it has, and those that meet none.
            rows = now.rows if joined.rows == 1 else joined.rows + now.rows
            return replace(joined, rows=rows, counted=now.counted, unique=frozenset())
        why = self._of_two_types(source)
        if why is not None:
            raise why
        return None


def _conditions(block: Block) -> list[Expr]:
    """The conditions on a block's rows, those of SEMI and ANTI joins among them. Raises NotLocal for other joins."""
    expressions = [expression for each in in_order(block.where) for expression in in_order(factored(each))]
    for source in block.sources:
        if source.join in ("semi", "anti"):
            probe = Exists(Block((replace(source, join="inner", on=frozenset()),), (), frozenset(source.on)))
            expressions.append(probe if source.join == "semi" else Not(probe))
        elif source.join not in ("inner", "left"):
            raise NotLocal(
                "LATERAL is not followed within a unit: join a subquery that numbers the rows by row_number() with the "
                "unit's column in PARTITION BY, and keep those up to a number."
                if source.join == "lateral"
                else "FULL and RIGHT joins are not followed: write them as LEFT or inner joins.",
                source.node,
            )
    return expressions


def _together(*several: Mapping[str, Field]) -> dict[str, Field]:
    """What is known of the columns of several relations, by name."""
    return {name: field for fields in several for name, field in fields.items()}


def _sources_in(condition: Expr) -> set[int]:
    return {node.source for node in walk(condition) if isinstance(node, Column)}


def _not_the_same(source: Source, other: Source) -> str:
    first, second = _named(source), _named(other)
    of_one = f"{first} is joined with itself"
    return _NOT_THE_SAME.format(of_one if first == second else f"{first} and {second} are both protected")


def _columns(fields: Iterable[str]) -> tuple[Shown, ...]:
    return tuple(Shown(field, quoted([field])) for field in fields)


def _named(source: Source) -> str:
    return source.relation.name.object if isinstance(source.relation, Table) else "A subquery"
