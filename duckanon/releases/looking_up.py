"""A query that joins a protected table with look-ups, read as one of that table alone with further columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from duckanon.catalog.links import is_key, met
from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Protected, Stored
from duckanon.governance.locations import Location
from duckanon.releases.looked_up import LookedUp, LookUp, Place
from duckanon.releases.looked_up_table import declared_bounds, found_in, spelled_in, table_of, with_looked_up
from duckanon.releases.noise import NotOffered, check_stands, not_dropped
from duckanon.releases.same_unit import is_of_unit
from duckanon.releases.whether import as_conditions, whether
from duckanon.rewrite.algebra.expressions import SOMEWHERE, Column, Comparison, Expr, Star, has, rebuilt, walk
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Source, Table, nested
from duckanon.rewrite.algebra.rows import columns_in
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.conditions import equated
from duckanon.units.relation import OpenRows
from duckanon.units.uniqueness import no_two_share


@dataclass
class LookingUp:
    """A block over the records of one protected table, whose columns that are looked up are columns of it.

    block: over that table alone. table: the protected one. name: of the table with these columns, in the context.
    columns: those that are looked up, by folded name. needed: the look-ups of which records that find nothing do not
    count, with the joins' nodes.
    """

    block: Block
    table: TableName
    name: TableName
    columns: Mapping[str, LookedUp] = field(default_factory=dict)
    needed: Mapping[LookUp, Node] = field(default_factory=dict)

    def check_found(self, keys: Iterable[str], number: str | None) -> None:
        """Raises NotOffered where a join leaves out records, and neither a key nor the number says which.

        keys, number: the columns by which, and of which, something is told.
        """
        check_found(
            self.needed, (self.columns[text] for text in map(fold, (*keys, number or "")) if text in self.columns)
        )


def check_found(needed: Mapping[LookUp, Node], columns: Iterable[LookedUp]) -> None:
    """Raises NotOffered where a join leaves out records, and none of some columns says which."""
    known = {step for column in columns for step in column.look_up.chain}
    for step, node in needed.items():
        if step not in known:
            raise NotOffered(
                f"The join with {step.label} leaves out records that find nothing there, and shows no column of it: "
                "leave the join out, or show one.",
                node,
            )


def looking_up(context: RuleContext, block: Block, first: Source) -> LookingUp:
    """A block with its joins as columns of one of its sources, the protected table whose records are counted.

    Raises NotOffered where another source is no look-up, or the protected table is not as its policy needs it.
    """
    assert isinstance(first.relation, Table)
    check_stands(context.protected(first.relation.name))
    if any(has(expression, Star) for expression in block.expressions()):
        raise NotOffered("A whole record is no column of what is prepared: name its columns.")
    return Reading(context, as_conditions(block), first).made()


class Reading:
    """The look-ups of one block. first: the source whose records are counted."""

    def __init__(self, context: RuleContext, block: Block, first: Source) -> None:
        assert isinstance(first.relation, Table)
        self.context, self._block, self._first, self.name = context, block, first, first.relation.name
        self._protected = context.catalog.protected[self.name]
        self._reached: dict[int, LookUp] = {}
        self._met: set[Expr] = set()
        self._needed: dict[LookUp, Node] = {}
        # Of columns that a join makes equal, that which stands for both.
        self._equal: dict[tuple[int, str], Column] = {}

    def made(self) -> LookingUp:
        waiting = [source for source in self._block.sources if source is not self._first]
        while waiting:
            reached = next((source for source in waiting if self._reach(source)), None)
            if reached is None:
                raise NotOffered(self._why_not(waiting[0]), waiting[0].node)
            waiting.remove(reached)
        rest = frozenset(condition for condition in self._block.where if condition not in self._met)
        block = replace(self._block, sources=(replace(self._first),), where=rest)
        number = self._first.number
        asked = {one: whether(self, self._block, one) for one in nested(block.expressions())}
        truths: dict[Expr, Expr] = {one: Column(number, fold(lookup.name)) for one, lookup in asked.items()}
        block = block.rebuilt(lambda expression: rebuilt(expression, lambda part: truths.get(part)))
        columns = self._columns(block)

        def change(expression: Expr) -> Expr | None:
            if not isinstance(expression, Column) or expression.source == number:
                return None
            if expression.source == SOMEWHERE:
                raise NotOffered(
                    f'No table of the join has a column "{expression.name}": look at its names in '
                    "information_schema.columns."
                )
            return self._equal.get((expression.source, expression.name)) or Column(
                number, fold(columns[expression.source, expression.name].name)
            )

        lookups = {fold(column.name): column for column in (*columns.values(), *asked.values())}
        check_found(self._needed, lookups.values())
        name, table = with_looked_up(self.context, self.name, lookups)
        changed = block.rebuilt(lambda expression: rebuilt(expression, change))
        block = replace(changed, sources=(Source(number, table, node=self._first.node),))
        return LookingUp(block, self.name, name, lookups, self._needed)

    def _why_not(self, source: Source) -> str:
        """Why a source is no look-up."""
        compared = [
            condition
            for condition in (*source.on, *self._block.where)
            if isinstance(condition, Comparison) and condition.operator == "="
        ]
        for expression, other in (
            pair for each in compared for pair in ((each.left, each.right), (each.right, each.left))
        ):
            by = {part.source for part in walk(other) if isinstance(part, Column)} - {source.number}
            if (
                isinstance(expression, Column)
                and expression.source == source.number
                and by
                and not isinstance(other, Column)
            ):
                return (
                    f"{_named(source)} is looked up by what is computed from a record, and what is prepared looks rows "
                    "up by columns as they are stored: ask this by itself, or let the steward store what is computed."
                )
        return (
            f"{_named(source)} is no look-up: a record must find one row there at most, by columns that are unique in "
            "it, of an open table or by a link of the same unit."
        )

    # --- sources ------------------------------------------------------------------------------------------------------

    def _reach(self, source: Source) -> bool:
        """Whether a source is a look-up from what is reached. Raises NotOffered for tables that never are."""
        if source.join not in ("inner", "left") or not isinstance(source.relation, Table):
            raise NotOffered(
                f"{_named(source)} is no look-up: what is prepared follows JOIN and LEFT JOIN of tables.", source.node
            )
        optional = source.join == "left"
        conditions = in_order(source.on if optional else self._block.where)
        pairs = [
            (condition, pair) for condition in conditions if (pair := self._pair(condition, source.number)) is not None
        ]
        if not pairs or (optional and len(pairs) < len(conditions)):
            return False
        stored = self.stored(source)
        places = [self.placed(source, stored, own, theirs) for _, (own, theirs) in pairs]
        keys = tuple(dict.fromkeys(fold(theirs) for _, theirs, _ in places))
        name = source.relation.name
        protected = self.context.catalog.protected.get(name)
        is_link = False
        if protected is None:
            if not self._is_unique(stored, keys):
                return False
        else:
            not_dropped(self.context, name, set(keys))
            is_link = self._is_link(protected, name, places)
            if not is_key(stored, keys) or not self.is_of_unit(name, places):
                return False
        self._reached[source.number] = LookUp(
            Location(*stored.path),
            self.context.label(name),
            None if protected is None else protected.version,
            tuple(places),
            optional,
            is_link and not optional,
        )
        if not optional:
            self._met.update(expression for expression, _ in pairs)
            if not is_link:
                self._needed[self._reached[source.number]] = source.node
            for _, (own, theirs) in pairs:
                known = self._equal.get((own.source, own.name), own)
                if known.source == self._first.number:
                    self._equal.setdefault((theirs.source, theirs.name), known)
        return True

    def _pair(self, condition: Expr, number: int) -> tuple[Column, Column] | None:
        """A column that is reached, and that of a source which is equal to it; None for another condition."""
        pair = equated(condition)
        if pair is None:
            return None
        for own, theirs in (pair, pair[::-1]):
            if theirs.source == number and (own.source == self._first.number or own.source in self._reached):
                return own, theirs
        return None

    def stored(self, source: Source) -> Stored:
        """What is known of a source's table. Raises NotOffered for those in which nothing is looked up."""
        assert isinstance(source.relation, Table)
        name = source.relation.name
        stored = self.context.catalog.stored(name)
        is_seen = name in self.context.catalog.tables or name in self.context.catalog.protected
        if stored is None or stored.temporary or not is_seen:
            raise NotOffered(
                f"{_named(source)} is temporary or stands behind a view: what is prepared looks up in tables that are "
                "open themselves.",
                source.node,
            )
        if stored.collates:
            raise NotOffered(
                f"{_named(source)} has a column with COLLATE, under which different texts are equal.", source.node
            )
        return stored

    def placed(self, source: Source, stored: Stored, own: Column, theirs: Column) -> tuple[Place, str, str]:
        """A pair of columns that are compared by a look-up."""
        of = self._reached.get(own.source)
        mine, kind = self._column(own)
        name, their_kind = spelled_in(stored, theirs.name)
        if met("a", kind, "b", their_kind) is None:
            raise NotOffered(
                f"{_named(source)} is looked up by columns of different types, {kind} and {their_kind}: give both one.",
                source.node,
            )
        return Place(of, mine, kind), name, their_kind

    def _column(self, column: Column) -> tuple[str, str]:
        """The name of a column that is reached, and its type. Raises NotOffered for dropped ones."""
        of = self._reached.get(column.source)
        name = self.name if of is None else table_of(of)
        if name in self.context.catalog.protected:
            not_dropped(self.context, name, {column.name})
        stored = self.context.catalog.stored(name)
        assert stored is not None
        return spelled_in(stored, column.name)

    def _is_unique(self, stored: Stored, keys: Sequence[str]) -> bool:
        """Whether no two rows of an open table have the same values in these columns."""
        if any(key <= set(keys) for key in (*stored.keys, *stored.unique)):
            return True
        (holds,) = self.context.releases.value(no_two_share(quoted(stored.path), keys))
        return bool(holds)

    def _is_link(self, protected: Protected, name: TableName, places: Sequence[tuple[Place, str, str]]) -> bool:
        """Whether the pairs are those of a declared link, by which each record has one row."""
        of = places[0][0].of
        if any(own.of != of for own, _, _ in places) or (of is not None and not of.is_certain):
            return False
        child = self._protected if of is None else self.context.catalog.protected.get(table_of(of))
        if child is None or not protected.stands or protected.policy.population != child.policy.population:
            return False
        pairs = {(fold(own.column), fold(theirs)) for own, theirs, _ in places}
        return any(
            link.parent == name
            and pairs == set(zip(map(fold, link.columns), map(fold, link.parent_columns), strict=True))
            for link in child.policy.links
        )

    def is_of_unit(self, name: TableName, places: Sequence[tuple[Place, str, str]]) -> bool:
        """Whether records of a protected table that meet pairs of columns are all of the record's own unit."""
        return is_of_unit(self.context.catalog.protected, self.name, name, places)

    def is_required(self, column: str) -> bool:
        """Whether no record has NULL in a column of its own."""
        stored = self._protected.stored
        return stored is not None and fold(column) in stored.required

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self, block: Block) -> dict[tuple[int, str], LookedUp]:
        """The columns of other sources that a block uses, in a fixed order."""
        used = {
            (column.source, column.name)
            for column in columns_in([*block.expressions(), *block.where])
            if isinstance(column, Column) and column.source in self._reached
        }
        return {
            (number, column): self._looked_up(self._reached[number], column)
            for number, column in sorted(used)
            if (number, column) not in self._equal
        }

    def _looked_up(self, step: LookUp, column: str) -> LookedUp:
        shown, _ = spelled_in(found_in(self.context, step), column)
        declared: tuple[str, ...] = ()
        if step.version is not None:
            not_dropped(self.context, table_of(step), {column})
            domain = self.context.catalog.protected[table_of(step)].domains.get(column)
            declared = ("" if domain is None else domain.table, *(declared_bounds(self.context, step, column) or ()))
        table, _, rest = step.name.partition(" by ")
        return LookedUp(f"{table}.{shown} by {rest}", step, shown, self.contents(step, shown), declared)

    def contents(self, step: LookUp, *columns: str) -> tuple[OpenRows, ...]:
        """What the open tables on the way to a look-up hold, where it reads some columns."""
        read = {step: {*columns}}
        for each in step.chain:
            for own, theirs, _ in each.pairs:
                read.setdefault(each, set()).add(theirs)
                if own.of is not None:
                    read.setdefault(own.of, set()).add(own.column)
        bare = [
            OpenRows(each.location, (), tuple(sorted(read[each])), "") for each in step.chain if each.version is None
        ]
        return tuple(replace(open_rows, content=self.context.releases.content(open_rows)) for open_rows in bare)


def _named(source: Source) -> str:
    return source.relation.name.object if isinstance(source.relation, Table) else "A subquery"


def counted_sources(context: RuleContext, block: Block) -> Iterator[Source]:
    """The protected tables of a block whose records may be counted."""
    for source in block.sources:
        if (
            source.join == "inner"
            and isinstance(source.relation, Table)
            and source.relation.name in context.catalog.protected
        ):
            yield source
