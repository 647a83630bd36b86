"""From what a block reads to a unit-local relation: joins, subqueries in conditions, and groups within a unit.

Raises NotLocal where rows would depend on several units, or where that they do not is not proven. What is proven is
said at each kind of relation in `duckanon.units.relation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any, Protocol

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Catalog, Protected
from duckanon.governance.locations import Location
from duckanon.rewrite.algebra.constants import NUMBER, TEXT, WHOLE, digits, folded, type_name
from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    TRUE,
    Aggregate,
    And,
    Cast,
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
    Star,
    Unclear,
    conjuncts,
    has,
    is_windowed,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import scalar, written
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Output, Source, Table, is_protected
from duckanon.rewrite.algebra.relations import Relation as Read
from duckanon.rewrite.algebra.relations import Union as SetOperation
from duckanon.rewrite.algebra.rows import columns_in
from duckanon.rewrite.algebra.scalars import of_constant, together
from duckanon.units.fields import Field, Fixes, Made, Origin
from duckanon.units.grouping import aggregated
from duckanon.units.relation import Answered, Cut, Grouped, Joined, OpenRows, Part, Records, Shown, Step, United

_UNIT: Fixes = (TableName("", "", ""), ("unit",))
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "<>": "<>", "=": "="}
_ENDS = {"<": "min", "<=": "min", ">": "max", ">=": "max"}


class NotLocal(Exception):
    """Why what a query reads is not computed within each unit, in a sentence."""


class Public(Protocol):
    """What may be known of open tables while deciding: their contents are public."""

    def content(self, values: OpenRows) -> str:
        """A hash of the values that are read of an open table."""
        ...

    def value(self, query: str) -> Any:
        """The first row that a query over open tables alone gives, as a tuple."""
        ...


class Builder:
    """Makes relations of the parts of one statement.

    catalog: what may be seen. public: what is known of open tables. today: what `current_date` stands for. ask: makes
    a question of its own of a query for one value of all units, whose noisy answer stands in its place.
    """

    def __init__(self, catalog: Catalog, public: Public, today: date, ask: Callable[[Block], Answered]) -> None:
        self._catalog, self.public, self._today = catalog, public, today
        self.ask = ask
        # The columns of sources by the names that they have in relations, each of which occurs once.
        self._names: dict[tuple[int, str], str] = {}
        self._taken: set[str] = set()
        self.read: dict[TableName, Protected] = {}

    @property
    def protected(self) -> Mapping[TableName, Protected]:
        return self._catalog.protected

    def holds(self, query: str) -> bool:
        """The truth value that a query over open tables gives."""
        (found,) = self.public.value(query)
        return bool(found)

    # --- names --------------------------------------------------------------------------------------------------------

    def _name(self, wanted: str, table: str = "") -> str:
        """A new name for a column."""
        tried = [fold(wanted)] if not table else [fold(wanted), f"{fold(table)}.{fold(wanted)}"]
        number = 2
        while tried[-1] in self._taken:
            if len(tried) > 1 and tried[0] not in self._taken:
                break
            tried = [f"{tried[-1].partition('#')[0]}#{number}"] if len(tried) == 1 else tried[1:]
            number += 1 if len(tried) == 1 and "#" in tried[0] else 0
        found = next(one for one in tried if one not in self._taken)
        self._taken.add(found)
        return found

    def over(self, expr: Expr) -> Expr:
        """An expression over the names of relations. Raises NotLocal."""

        def change(one: Expr) -> Expr | None:
            if isinstance(one, Column) and one.source != SOMEWHERE:
                name = self._names.get((one.source, one.name))
                if name is None:
                    raise NotLocal(f"The column {one.name} is not one of what is joined here.")
                return Column(SOMEWHERE, name)
            if isinstance(one, Nested):
                raise NotLocal("A subquery stands where it is not followed: put it into WHERE by itself.")
            return None

        return rebuilt(expr, change)

    def _written(self, expr: Expr, fields: dict[str, Field]) -> str:
        return written(expr, {name: one.kind for name, one in fields.items()}, self._today)

    # --- leaves -------------------------------------------------------------------------------------------------------

    def _table(self, table: Table, number: int, used: Sequence[str], *, owned: bool) -> Made:
        """A table's rows. used: the folded names of the columns that are read. owned: whether they get their unit."""
        stored = self._catalog.stored(table.name)
        if stored is None or stored.temporary:
            raise NotLocal("A temporary table is seen by nobody else: join the answer with it.")
        names = {fold(one): one for one in stored.columns}
        missing = [one for one in used if one not in names]
        if missing:
            raise NotLocal(f"There is no column {missing[0]}.")
        if table.name in self._catalog.protected:
            return self._records(table, number, [names[one] for one in used], owned=owned)
        if table.name not in self._catalog.tables:
            raise NotLocal("What stands behind a view is not joined with protected records here.")
        return self._open_rows(table, number, [names[one] for one in used])

    def _records(self, table: Table, number: int, used: Sequence[str], *, owned: bool) -> Made:
        protected = self._catalog.protected[table.name]
        policy, stored = protected.policy, protected.stored
        assert stored is not None
        steps, last = self._steps(table.name)
        unit = self._catalog.protected[last].policy.privacy_unit
        if unit is None:
            raise NotLocal(
                f"Each record of {table.name.object} is a unit of its own, so nothing belongs together with it: a "
                "privacy unit in its policy says whose records they are."
            )
        types, shown, fields = stored.types, [], {}
        own_unit = fold(unit) if not steps else None
        for one in used:
            name = self._names[number, fold(one)] = self._name(one, table.name.object)
            kind = "VARCHAR" if types[fold(one)].startswith("ENUM(") else types[fold(one)]
            value = quoted(["duckanon.row", one])
            shown.append(Shown(name, value if kind == types[fold(one)] else f"CAST({value} AS VARCHAR)"))
            is_unit = fold(one) == own_unit
            fields[name] = Field(kind, Origin(number, table.name, fold(one)), is_unit=is_unit, never_null=is_unit)
        fixes: dict[Fixes, tuple[str, ...]] = {}
        unique = set()
        for key in (*stored.keys, *stored.unique):
            if all((number, one) in self._names for one in key):
                in_order_ = tuple(sorted(key))
                unique.add(frozenset(self._names[number, one] for one in key))
                fixes[table.name, in_order_] = tuple(self._names[number, one] for one in in_order_)
            elif own_unit is not None and key == {own_unit}:
                unique.add(frozenset())
        if own_unit is not None and frozenset([own_unit]) in (*stored.keys, *stored.unique):
            unique.add(frozenset())
        for step, link in zip(steps[:1], policy.links if steps else (), strict=False):
            pairs = sorted(zip(map(fold, step.parent_columns), map(fold, step.columns), strict=True))
            if all((number, mine) in self._names for _, mine in pairs):
                own = tuple(self._names[number, mine] for _, mine in pairs)
                fixes[link.parent, tuple(theirs for theirs, _ in pairs)] = own
                for name in own:
                    fields[name] = replace(fields[name], never_null=True)
        if own_unit is not None and (number, own_unit) in self._names:
            fixes[_UNIT] = (self._names[number, own_unit],)
        self.read[table.name] = protected
        last_stored = self._catalog.protected[last].stored
        assert last_stored is not None
        unit_kind = last_stored.types[fold(unit)]
        relation = Records(
            Location(*stored.path),
            protected.version,
            tuple(shown),
            unit if owned else None,
            unit_kind == "VARCHAR" or unit_kind.startswith("ENUM("),
            tuple(steps) if owned else (),
        )
        made = Made(relation, fields, True, policy.contributions, frozenset(unique), fixes, table.name)
        return replace(made, owned=owned)

    def _steps(self, name: TableName) -> tuple[list[Step], TableName]:
        """The links from a table up to the one that has the unit's column, and that one."""
        steps: list[Step] = []
        while True:
            protected = self._catalog.protected[name]
            if protected.policy.per_query is None or not protected.stands:
                raise NotLocal(f"The policy of {name.object} offers no counts with noise: ask the steward.")
            self.read[name] = protected
            links = protected.policy.links
            if not links:
                return steps, name
            (link,) = links
            parent = self._catalog.protected[link.parent]
            assert parent.stored is not None
            steps.append(Step(Location(*parent.stored.path), parent.version, link.columns, link.parent_columns))
            name = link.parent

    def _open_rows(self, table: Table, number: int, used: Sequence[str]) -> Made:
        stored = self._catalog.stored(table.name)
        assert stored is not None
        location = Location(*stored.path)
        bare = OpenRows(location, (), tuple(sorted(used)), "")
        rows = replace(bare, content=self.public.content(bare))
        shown, fields = [], {}
        for one in used:
            name = self._names[number, fold(one)] = self._name(one, table.name.object)
            kind = stored.types[fold(one)]
            value = quoted(["duckanon.row", one])
            if kind == "VARCHAR" or kind.startswith("ENUM("):
                # Without the collation that the column may have, under which several keys could be one.
                kind, value = "VARCHAR", f"system.main.decode(system.main.encode(CAST({value} AS VARCHAR)))"
            shown.append(Shown(name, value))
            fields[name] = Field(kind, Origin(number, table.name, fold(one), rows))
        unique = frozenset(
            frozenset(self._names[number, one] for one in key)
            for key in (*stored.keys, *stored.unique)
            if all((number, one) in self._names for one in key)
        )
        return Made(replace(rows, columns=tuple(shown)), fields, False, unique=unique)

    def _is_unique(self, made: Made, columns: frozenset[str]) -> bool:
        """Whether no two rows of a relation (with a unit: of one unit) share the values of some of its columns."""
        if any(one <= columns for one in made.unique):
            return True
        if not isinstance(made.relation, OpenRows) or not columns:
            return False
        by = ", ".join(quoted([one]) for one in sorted(columns))
        rows = made.relation.sql(lambda location: quoted(location.path))
        known = " AND ".join(f"{quoted([one])} IS NOT NULL" for one in sorted(columns))
        return self.holds(
            f"SELECT NOT EXISTS (SELECT 1 FROM ({rows}) AS r WHERE {known} GROUP BY {by} HAVING count(*) > 1)"
        )

    # --- blocks -------------------------------------------------------------------------------------------------------

    def relation(self, read: Read, number: int, used: Sequence[str], *, owned: bool = True) -> Made:
        """The relation of a source. number: the source's. used: the folded names of the columns that are read of it."""
        if isinstance(read, Table):
            return self._table(read, number, used, owned=owned)
        if isinstance(read, Block):
            made, names = self.block(read)
            return self._named(made, number, names, used)
        if isinstance(read, SetOperation):
            return self._united(read, number, used)
        raise NotLocal(f"What is read is not followed{': ' + read.reason if read.reason else ''}.")

    def _named(self, made: Made, number: int, names: dict[str, str], used: Sequence[str]) -> Made:
        """A block's relation as a source, whose columns are found by the block's output names."""
        for one in used:
            if one not in names:
                raise NotLocal(f"The column {one} is not one of what is joined here.")
            self._names[number, one] = names[one]
        return made

    def block(self, block: Block, *, owned: bool = True) -> tuple[Made, dict[str, str]]:
        """The relation of a block, and its columns by the names of its outputs.

        owned: whether its rows get the unit's column; else they are joined by what fixes their unit.
        """
        if block.limited or block.qualify or block.distinct or block.sets or block.spread:
            raise NotLocal("LIMIT, QUALIFY, DISTINCT ON and grouping sets are not followed within a unit.")
        if any(is_windowed(one) or has(one, Star | Unclear) for one in block.expressions()):
            raise NotLocal("Windows and stars are not followed within a unit.")
        made, where, over = self.joined(block, owned=owned)
        if block.keys is None:
            return self._projected(block, made, where, over)
        return self._grouped(block, made, where, over)

    def _projected(
        self, block: Block, made: Made, where: list[Expr], over: Callable[[Expr], Expr]
    ) -> tuple[Made, dict[str, str]]:
        fields, shown, names = dict(made.fields), [], {}
        kept: dict[str, str] = {}
        for output in block.outputs:
            expr = over(output.expr)
            if isinstance(expr, Column):
                names[fold(output.name)] = expr.name
                kept[expr.name] = expr.name
                continue
            name = names[fold(output.name)] = self._name(output.name)
            sql, fields[name] = self._computed(expr, made)
            shown.append(Shown(name, sql))
        keeps = set(kept)
        for columns in made.fixes.values():
            keeps |= set(columns)
        all_shown = [*(Shown(one, quoted([one])) for one in sorted(keeps)), *shown]
        relation = Joined(
            (Part(made.relation, unit=made.shows_unit),),
            tuple(sorted(self._written(one, dict(made.fields)) for one in where)),
            tuple(all_shown),
        )
        told = {one.name: fields[one.name] for one in all_shown}
        return replace(made, relation=relation, fields=told), names

    def _computed(self, expr: Expr, made: Made) -> tuple[str, Field]:
        """What is computed of each row, or a constant: its SQL, and what is known of it."""
        value = folded(expr, self._today)
        if value is None:
            sql, kind = scalar(expr, made.types, self._today)
            return sql, Field(kind)
        if value.value is None:
            return "NULL", Field("")
        number = value.value if isinstance(value.value, Fraction) else None
        kind = type_name(expr.type) if isinstance(expr, Cast) else _kind_of(value.kind, number)
        sql = of_constant(value, kind).sql
        bounds = None if number is None else (number, number, own_step(kind) or Fraction(1))
        return sql, Field(kind, bounds=bounds, listed=(expr,), never_null=True)

    def _grouped(
        self, block: Block, made: Made, where: list[Expr], over: Callable[[Expr], Expr], *, by_unit: bool = False
    ) -> tuple[Made, dict[str, str]]:
        """Groups of the rows of each unit. by_unit: whether the unit is a key though no column of it is."""
        assert block.keys is not None
        keys = [over(one) for one in block.keys]
        columns = {one.name for one in keys if isinstance(one, Column)}
        if made.shows_unit and not by_unit and not any(set(one) <= columns for one in made.fixes.values()):
            raise NotLocal(
                "Groups of records of several units are counted first, with noise: group by the unit's column too, to "
                "compute within each unit."
            )
        fields: dict[str, Field] = {}
        of_keys: list[Shown] = []
        places: dict[Expr, str] = {}
        for key in keys:
            if isinstance(key, Column):
                places[key] = key.name
                of_keys.append(Shown(key.name, quoted([key.name])))
                fields[key.name] = made.fields[key.name]
                continue
            places[key] = self._name("key")
            sql, kind = scalar(key, made.types, self._today)
            of_keys.append(Shown(places[key], sql))
            fields[places[key]] = Field(kind)
        of_aggregates: list[Shown] = []

        def above(expr: Expr) -> Expr | None:
            if expr in places:
                return Column(SOMEWHERE, places[expr])
            if isinstance(expr, Aggregate):
                found = aggregated(expr, made.types, self._today, made.rows, self._bounds(expr, made))
                name = places[expr] = self._name(expr.name)
                of_aggregates.append(Shown(name, found.sql))
                fields[name] = Field(found.kind, bounds=found.bounds, never_null=found.counts)
                return Column(SOMEWHERE, name)
            if isinstance(expr, Column):
                raise NotLocal("A column of the groups is neither a key nor an aggregate.")
            return None

        told = [(output.name, rebuilt(over(output.expr), above)) for output in block.outputs]
        having = [rebuilt(over(one), above) for one in in_order(block.having)]
        filtered = Joined(
            (Part(made.relation, unit=made.shows_unit),),
            tuple(sorted(self._written(one, dict(made.fields)) for one in where)),
            tuple(Shown(one, quoted([one])) for one in made.fields),
        )
        relation = Grouped(filtered if where else made.relation, tuple(of_keys), tuple(of_aggregates), made.shows_unit)
        unique = frozenset([frozenset(one.name for one in of_keys)])
        if made.has_unit:
            # The unit itself is always a key: columns that only say which unit it is make no further difference.
            alone = {one for columns_ in (made.fixes.get(_UNIT, ()),) for one in columns_}
            unique |= {frozenset(one.name for one in of_keys) - alone}
        fixes = {one: names for one, names in made.fixes.items() if set(names) <= {each.name for each in of_keys}}
        if block.keys == () and not by_unit:
            unique = frozenset([frozenset()])
        rows = made.rows if not (made.has_unit and frozenset() in unique) else 1
        grouped = Made(relation, fields, made.has_unit, rows, unique, fixes, made.counted if rows > 1 else None)
        above_block = Block((), tuple(Output(name, expr) for name, expr in told))
        return self._projected(above_block, grouped, having, lambda expr: expr)

    def _bounds(self, call: Aggregate, made: Made) -> tuple[Fraction, Fraction, Fraction] | None:
        """The bounds of a column that is aggregated, as the policy of its table has them."""
        match call.operands:
            case (Column(name=name),):
                return self.bounds(made.fields[name])
        return None

    def bounds(self, one: Field) -> tuple[Fraction, Fraction, Fraction] | None:
        """The bounds of a column: computed ones, or those of the policy."""
        if one.bounds is not None or one.origin is None:
            return one.bounds
        if one.origin.rows is not None:
            return self._open_bounds(one.kind, one.origin.column, one.origin.rows)
        policy = self._catalog.protected[one.origin.table].policy
        found = {fold(name): bounds for name, bounds in policy.bounds.items()}.get(one.origin.column)
        if found is None or one.kind in ("DATE", "TIMESTAMP"):
            return None
        low, high, *step = map(Fraction, found)
        return low, high, (step[0] if step else Fraction(1))

    def _open_bounds(self, kind: str, column: str, rows: OpenRows) -> tuple[Fraction, Fraction, Fraction] | None:
        """The least and the largest number in a column of an open table, which are public."""
        step = own_step(kind)
        if step is None:
            return None
        name = quoted([column])
        low, high = self.public.value(
            f"SELECT system.main.min({name}), system.main.max({name}) FROM {quoted(rows.location.path)} AS _dk_open"
        )
        return None if low is None else (Fraction(low), Fraction(high), step)

    def _united(self, union: SetOperation, number: int, used: Sequence[str]) -> Made:
        """The rows of several queries: a column is what its place holds in all of them."""
        members = [self._member(one) for one in union.members]
        if len({len(columns) for _, columns in members}) > 1:
            raise NotLocal("The queries of a UNION have different numbers of columns.")
        if not all(made.has_unit for made, _ in members):
            raise NotLocal("A UNION of protected records with rows of open tables has rows without a unit.")
        first, names = members[0]
        new: dict[str, str] = {}
        fields: dict[str, Field] = {}
        for at, name in enumerate(_output_names(union.members[0])):
            new[fold(name)] = own = self._name(name)
            told = [made.fields[columns[at]] for made, columns in members]
            fields[own] = replace(_common(told), bounds=_widest(list(map(self.bounds, told))))
        shown = list(fields)
        relations = []
        for made, columns in members:
            told = tuple(
                Shown(
                    own,
                    quoted([mine])
                    if made.fields[mine].kind == fields[own].kind
                    else f"CAST({quoted([mine])} AS {fields[own].kind})",
                )
                for own, mine in zip(shown, columns, strict=True)
            )
            relations.append(Joined((Part(made.relation),), (), told))
        fixes = {}
        for fix in first.fixes:
            places = [
                tuple(columns.index(one) if one in columns else -1 for one in made.fixes.get(fix, ("",)))
                for made, columns in members
            ]
            if len(set(places)) == 1 and -1 not in places[0]:
                fixes[fix] = tuple(shown[at] for at in places[0])
        if union.kind != "all" and not fixes:
            raise NotLocal(
                "UNION, INTERSECT and EXCEPT of what units have is computed within a unit only with its column."
            )
        unique = frozenset() if union.kind == "all" else frozenset([frozenset(shown)])
        made = Made(
            United(union.kind, tuple(relations)), fields, True, sum(one.rows for one, _ in members), unique, fixes
        )
        return self._named(made, number, new, used)

    def _member(self, read: Read) -> tuple[Made, list[str]]:
        """A query of a UNION, and its columns in order."""
        if isinstance(read, SetOperation):
            names = _output_names(read)
            number = -len(self._taken) - 1
            made = self._united(read, number, list(map(fold, names)))
            return made, [self._names[number, fold(one)] for one in names]
        if not isinstance(read, Block):
            raise NotLocal("A query of a UNION is not followed: write it as SELECT with its columns.")
        made, by_name = self.block(read)
        return made, [by_name[fold(one.name)] for one in read.outputs]

    # --- joins --------------------------------------------------------------------------------------------------------

    def joined(self, block: Block, *, owned: bool = True) -> tuple[Made, list[Expr], Callable[[Expr], Expr]]:
        """What a block reads, joined; its other conditions; and what writes its expressions over the joined columns.

        owned: as for `block`.
        """
        return _Join(self, block, owned=owned).made()


class _Join:
    """The join of a block's sources, and of the subqueries in its expressions."""

    def __init__(self, builder: Builder, block: Block, *, owned: bool = True) -> None:
        self._builder, self._block, self._owned = builder, block, owned
        self._probes: list[tuple[Part, Made]] = []
        self._nested: dict[Expr, Expr] = {}

    def made(self) -> tuple[Made, list[Expr], Callable[[Expr], Expr]]:
        block = self._block
        sources = [one for one in block.sources if one.join not in ("semi", "anti")]
        where = [one for each in in_order(block.where) for one in in_order(_factored(each))]
        for one in block.sources:
            if one.join in ("semi", "anti"):
                probe = Exists(Block((replace(one, join="inner", on=frozenset()),), (), frozenset(one.on)))
                where.append(probe if one.join == "semi" else Not(probe))
            elif one.join not in ("inner", "left"):
                raise NotLocal("FULL, RIGHT and LATERAL joins are not followed: write them as LEFT or inner joins.")
        if not sources:
            raise NotLocal("The query reads no table.")
        made = self._sources(sources, where)
        self._equal = equal([pair for one in where if (pair := _equal(one)) is not None], self._builder)
        joined, met = self._put_together(sources, made, where)
        over = lambda expr: self._over(expr, joined)  # noqa: E731
        rest = [over(one) for one in where if one not in met]
        # Probes are added while expressions are written, so all are before the relation is complete.
        for expr in block.expressions():
            over(expr)
        return self._with_probes(joined), rest, over

    def _sources(self, sources: Sequence[Source], where: Sequence[Expr]) -> dict[int, Made]:
        block = self._block
        asked: dict[int, dict[str, None]] = {one.number: {} for one in sources}
        exprs = [*block.expressions(), *where]
        for column in columns_in(exprs):
            if isinstance(column, Star):
                raise NotLocal("A whole record is no value here: name the columns.")
            if column.source in asked:
                asked[column.source][column.name] = None
        made = {}
        for one in sources:
            self._check_dropped(one, asked[one.number])
            names = self._with_keys(one, sorted(asked[one.number]))
            owned = self._owned and not self._has_parent(one, sources, where)
            made[one.number] = self._builder.relation(one.relation, one.number, names, owned=owned)
        return made

    def _has_parent(self, child: Source, sources: Sequence[Source], where: Sequence[Expr]) -> bool:
        """Whether each row of a linked table is joined with the record that it is linked to, which has its unit."""
        table = child.relation
        if child.join != "inner" or not isinstance(table, Table):
            return False
        protected = self._builder.protected.get(table.name)
        links = () if protected is None else protected.policy.links
        pairs = {pair for one in where if (pair := _equal(one)) is not None}
        return any(
            other.join == "inner"
            and isinstance(other.relation, Table)
            and other.relation.name == link.parent
            and all(
                {(mine, theirs), (theirs, mine)} & pairs
                for mine, theirs in zip(
                    (Column(child.number, fold(one)) for one in link.columns),
                    (Column(other.number, fold(one)) for one in link.parent_columns),
                    strict=True,
                )
            )
            for link in links
            for other in sources
        )

    def _check_dropped(self, source: Source, asked: Iterable[str]) -> None:
        table = source.relation
        if isinstance(table, Table) and table.name in self._builder.protected:
            drop = self._builder.protected[table.name].policy.drop
            if set(map(fold, drop)) & set(asked):
                raise NotLocal(f"The policy lets nothing out that depends on {', '.join(drop)}.")

    def _with_keys(self, source: Source, names: list[str]) -> list[str]:
        """The columns that are read of a source, and of a protected table the unit's, by which it is shown."""
        table = source.relation
        if not isinstance(table, Table) or table.name not in self._builder.protected:
            return names
        policy = self._builder.protected[table.name].policy
        if policy.privacy_unit is None or policy.links:
            return names
        return sorted({*names, fold(policy.privacy_unit)})

    def _put_together(
        self, sources: Sequence[Source], made: dict[int, Made], where: Sequence[Expr]
    ) -> tuple[Made, set[Expr]]:
        """The sources joined, the first with a unit first, and the conditions of WHERE that the join has."""
        builder = self._builder
        inner = [one for one in sources if one.join == "inner"]
        left = [one for one in sources if one.join == "left"]
        local = [one for one in inner if made[one.number].has_unit]
        if not local:
            if any(made[one.number].has_unit for one in left):
                raise NotLocal(
                    "A LEFT JOIN from an open table would show its rows without any unit: join the other way."
                )
        # Records that get their unit from what they are linked to come after it.
        local.sort(key=lambda one: not made[one.number].owned)
        group, waiting = local[:1], local[1:]
        while waiting:
            found = next(
                (
                    one
                    for one in waiting
                    if any(_share(made[one.number], made[other.number], self._equal) for other in group)
                ),
                None,
            )
            if found is None:
                raise NotLocal(_SUGGESTED.format(_names(waiting[0]), _names(group[0])))
            group.append(found)
            waiting.remove(found)
        order = [*group, *(one for one in inner if one not in group)]
        rows, counted, unique, cut = self._counted(order, made)
        where = list(where)
        parts: list[Part] = []
        fields: dict[str, Field] = {}
        fixes: dict[Fixes, tuple[str, ...]] = {}
        met: set[Expr] = set()
        for one in order:
            now = made[one.number]
            fields |= now.fields
            fixes |= {fix: names for fix, names in now.fixes.items() if fix not in fixes}
            on = []
            for condition in where:
                if condition not in met and _equal(condition) is not None:
                    over = builder.over(condition)
                    if all(each.name in fields for each in walk(over) if isinstance(each, Column)):
                        met.add(condition)
                        on.append(builder._written(over, fields))
            relation = self._cut(now, where, met) if one.number in cut else now.relation
            parts.append(Part(relation, "inner", tuple(sorted(on)), now.shows_unit))
        has_unit = bool(local)
        for one in left:
            now = made[one.number]
            of_left = equal([pair for each in one.on if (pair := _equal(each)) is not None], builder)
            if now.has_unit and not any(_share(now, made[each.number], of_left) for each in group):
                raise NotLocal(_SUGGESTED.format(_names(one), _names(order[0])))
            before = dict(fields)
            fields |= {
                name: replace(
                    each, never_null=False, origin=each.origin and replace(each.origin, optional=True), is_unit=False
                )
                for name, each in now.fields.items()
            }
            on = sorted(builder._written(self._over(each, None), fields) for each in one.on)
            parts.append(Part(now.relation, "left", tuple(on), now.shows_unit))
            columns = {
                name
                for each in one.on
                if (pair := _equal(each)) is not None
                for name in map(lambda column: builder._names.get((column.source, column.name)), pair)
            }
            mine = frozenset(name for name in columns if name in now.fields)
            if not builder._is_unique(now, mine):
                theirs = frozenset(name for name in columns if name in before)
                if now.has_unit and any(each <= theirs for each in unique):
                    rows, counted, unique = max(rows, now.rows), now.counted or counted, frozenset()
                elif now.has_unit:
                    raise NotLocal("A LEFT JOIN of several rows with several rows of a unit is not followed.")
                else:
                    raise NotLocal(_FAN_OUT.format(_names(one)))
        relation = Joined(tuple(parts), (), tuple(Shown(one, quoted([one])) for one in fields))
        return Made(relation, fields, has_unit, rows, unique, fixes, counted, self._owned), met

    def _counted(
        self, order: Sequence[Source], made: dict[int, Made]
    ) -> tuple[int, TableName | None, frozenset[frozenset[str]], set[int]]:
        """How many rows of a unit count, which records they are, and which columns no two of them share.

        They are those of a source by whose row at most one row of each other source is found. Where there is none,
        several rows of a unit meet several others: such sources are cut, and their numbers come last.
        """
        local = [one for one in order if made[one.number].has_unit]
        if not local:
            return 1, None, frozenset(), set()
        reached_by = {start.number: self._reached({start.number}, order, made) for start in local}
        first = max(local, key=lambda one: len(reached_by[one.number]))
        now, reached, cut = made[first.number], reached_by[first.number], [first.number]
        rows = now.rows
        while len(reached) < len(order):
            further = next((one for one in local if one.number not in reached), None)
            if further is None:
                lost = next(one for one in order if one.number not in reached)
                raise NotLocal(_FAN_OUT.format(_names(lost)))
            reached = self._reached(reached | {further.number}, order, made)
            cut.append(further.number)
            rows *= made[further.number].rows
        if len(cut) == 1:
            return rows, now.counted, now.unique, set()
        return rows, now.counted, frozenset(), set(cut)

    def _reached(self, reached: set[int], order: Sequence[Source], made: dict[int, Made]) -> set[int]:
        """The sources of which at most one row is found by a row of each of some, with these."""
        while True:
            known = {name for number in reached for name in made[number].fields}
            new = {
                one.number
                for one in order
                if one.number not in reached
                and self._builder._is_unique(
                    made[one.number],
                    frozenset(name for name in made[one.number].fields if self._equal.of(name) & known),
                )
            }
            if not new:
                return reached
            reached = reached | new

    def _cut(self, made: Made, where: Sequence[Expr], met: set[Expr]) -> Cut:
        """The rows of a source that meet the conditions on it alone, at most so many of each unit as count."""
        if not made.owned:
            raise NotLocal("Several rows of a unit meet several others in this join, and one is known by a link only.")
        own = []
        for one in where:
            if one in met or has(one, Nested):
                continue
            over = self._builder.over(one)
            if all(each.name in made.fields for each in walk(over) if isinstance(each, Column)):
                met.add(one)
                own.append(self._builder._written(over, dict(made.fields)))
        columns = tuple(sorted(made.fields))
        filtered = Joined(
            (Part(made.relation),), tuple(sorted(own)), tuple(Shown(one, quoted([one])) for one in columns)
        )
        return Cut(filtered, made.rows, columns)

    # --- subqueries ---------------------------------------------------------------------------------------------------

    def _over(self, expr: Expr, joined: Made | None) -> Expr:
        """An expression over the joined columns, with its subqueries looked up."""

        def change(one: Expr) -> Expr | None:
            if isinstance(one, Nested):
                if joined is None:
                    raise NotLocal("A subquery in a join's condition is not followed: put it into WHERE.")
                if one not in self._nested:
                    self._nested[one] = self._probed(one, joined)
                return self._nested[one]
            if isinstance(one, Column):
                return self._builder.over(one)
            return None

        return rebuilt(expr, change)

    def _probed(self, nested: Nested, joined: Made) -> Expr:
        """A subquery as an expression over columns of a relation that is looked up by unit and equal columns."""
        query = nested.query
        if not isinstance(query, Block):
            raise NotLocal("A subquery is put together in a way that is not followed.")
        if query.limited or query.qualify or query.sets or query.spread:
            raise NotLocal("LIMIT, QUALIFY and grouping sets in a subquery are not followed.")
        if isinstance(nested, ScalarQuery):
            return self._looked_up(query, joined)
        pairs: list[tuple[Expr, str, Expr]] = []
        if isinstance(nested, InQuery):
            if len(query.outputs) != 1:
                raise NotLocal("IN takes a subquery with one column.")
            pairs.append((query.outputs[0].expr, "=", nested.operand))
        own = {one.number for one in query.sources}
        inside, correlated = _apart(query, own)
        pairs += correlated
        if query.keys == () or (correlated and query.keys is not None and query.having):
            raise NotLocal("A subquery of EXISTS or IN that aggregates the records of its row is not followed.")
        others = [one for one in pairs if one[1] != "="]
        if len(others) > 1:
            raise NotLocal("A subquery that compares more than one column by something else than = is not followed.")
        bare = replace(
            query,
            where=frozenset(inside),
            outputs=tuple(Output(f"_dk_{at}", one) for at, (one, _, _) in enumerate(pairs)),
            order=(),
            distinct=None,
        )
        if query.keys is not None:
            # Groups are there or not: their keys are all that is asked of them.
            bare = replace(bare, outputs=bare.outputs)
        made, names = self._builder.block(bare, owned=not self._is_implied(query, pairs, joined))
        keys = [names[f"_dk_{at}"] for at, one in enumerate(pairs) if one[1] == "="]
        outer = [self._over(one[2], joined) for one in pairs if one[1] == "="]
        self._check_units(made, keys, outer, joined, nested)
        if isinstance(nested, InQuery) and not self._is_two_valued(made, keys[0], outer[0], joined, nested):
            raise NotLocal("NOT IN of columns that may be NULL is not followed: write NOT EXISTS, or add IS NOT NULL.")
        return self._attached(made, keys, outer, joined, others, names, pairs)

    def _attached(
        self,
        made: Made,
        keys: list[str],
        outer: list[Expr],
        joined: Made,
        others: list[tuple[Expr, str, Expr]],
        names: dict[str, str],
        pairs: list[tuple[Expr, str, Expr]],
    ) -> Expr:
        builder = self._builder
        new = [builder._name(one) for one in keys]
        counted = builder._name("found")
        aggregates = [Shown(counted, "system.main.count(*)")]
        fields = {one: made.fields[key] for one, key in zip(new, keys, strict=True)} | {counted: Field("BIGINT")}
        is_met: Expr = Not(Is(Column(SOMEWHERE, counted), NULL))
        for at, (_, operator, right) in enumerate(pairs):
            if operator == "=":
                continue
            name, right = names[f"_dk_{at}"], self._over(right, joined)
            ends = ("min", "max") if operator == "<>" else (_ENDS[operator],)
            met: list[Expr] = []
            for end in ends:
                column = builder._name(end)
                aggregates.append(Shown(column, f"system.main.{end}({quoted([name])})"))
                fields[column] = Field(made.fields[name].kind)
                met.append(Comparison(operator, Column(SOMEWHERE, column), right))  # type: ignore[arg-type]
            some = met[0] if len(met) == 1 else Or(met[0], met[1])
            is_met = And(is_met, Is(some, TRUE))
        relation = Grouped(
            made.relation,
            tuple(Shown(one, quoted([key])) for one, key in zip(new, keys, strict=True)),
            tuple(aggregates),
            made.shows_unit,
        )
        self._attach(relation, new, outer, joined, fields, has_unit=made.shows_unit)
        return is_met

    def _is_implied(self, query: Block, pairs: list[tuple[Expr, str, Expr]], joined: Made) -> bool:
        """Whether equal columns alone make the rows of a subquery those of the row's own unit.

        They are the columns by which the table is linked, and in the row those of the same record. Then the unit need
        not be looked up again.
        """
        table = query.sources[0].relation if len(query.sources) == 1 else None
        protected = self._builder.protected.get(table.name) if isinstance(table, Table) else None
        if protected is None or not protected.policy.links or any(has(one, Nested) for one in query.expressions()):
            return False
        same = {
            inner.name: self._builder._names.get((outer.source, outer.name), "")
            for inner, operator, outer in pairs
            if operator == "=" and isinstance(inner, Column) and isinstance(outer, Column)
        }
        (link,) = protected.policy.links
        linked = sorted(zip(map(fold, link.parent_columns), map(fold, link.columns), strict=True))
        theirs = joined.fixes.get((link.parent, tuple(one for one, _ in linked)))
        return theirs is not None and all(
            mine in same and same[mine] in self._equal.of(other)
            for (_, mine), other in zip(linked, theirs, strict=True)
        )

    def _attach(
        self,
        relation: Grouped,
        keys: list[str],
        outer: list[Expr],
        joined: Made,
        fields: dict[str, Field],
        *,
        has_unit: bool,
    ) -> None:
        all_fields = dict(joined.fields) | fields
        for _, probe in self._probes:
            all_fields |= probe.fields
        on = sorted(
            self._builder._written(Comparison("=", Column(SOMEWHERE, key), right), all_fields)
            for key, right in zip(keys, outer, strict=True)
        )
        made = Made(relation, fields, has_unit)
        self._probes.append((Part(relation, "left", tuple(on), has_unit), made))

    def _looked_up(self, query: Block, joined: Made) -> Expr:
        """A subquery for one value: of the records of the unit that have equal columns, or of open tables."""
        builder = self._builder
        own = {one.number for one in query.sources}
        inside, pairs = _apart(query, own)
        if len(query.outputs) == 1 and query.keys != () and not pairs and not is_protected(query):
            return self._only_value(query, joined)
        if len(query.outputs) != 1 or query.keys != () or query.having:
            raise NotLocal("A subquery for a value is followed where it is an aggregate of what it reads.")
        if any(one[1] != "=" for one in pairs):
            raise NotLocal("A subquery for a value is followed where it depends on its row by equal columns.")
        asked = (*query.outputs, *(Output(f"_dk_{at}", one) for at, (one, _, _) in enumerate(pairs)))
        made, where, over = builder.joined(replace(query, where=frozenset(inside), outputs=asked, order=()))
        keys = [over(one[0]) for one in pairs]
        outer = [self._over(one[2], joined) for one in pairs]
        if made.has_unit and not pairs:
            return self._bought(query, joined)
        columns = [one.name if isinstance(one, Column) else "" for one in keys]
        self._check_units(made, columns, outer, joined, None)
        fields: dict[str, Field] = {}
        shown: list[Shown] = []
        known: dict[Expr, Expr] = {}

        def above(expr: Expr) -> Expr | None:
            if isinstance(expr, Aggregate):
                if expr not in known:
                    found = aggregated(expr, made.types, builder._today, made.rows, builder._bounds(expr, made))
                    name = builder._name(expr.name)
                    shown.append(Shown(name, found.sql))
                    fields[name] = Field(found.kind, bounds=found.bounds)
                    column: Expr = Column(SOMEWHERE, name)
                    known[expr] = Coalesce((column, Constant("0"))) if found.counts else column
                return known[expr]
            if isinstance(expr, Column):
                raise NotLocal("A subquery for a value shows a column that it does not aggregate.")
            return None

        value = rebuilt(over(query.outputs[0].expr), above)
        of_keys = []
        for key in keys:
            name = builder._name("key")
            sql, kind = scalar(key, made.types, builder._today)
            of_keys.append(Shown(name, sql))
            fields[name] = Field(kind)
        filtered = Joined(
            (Part(made.relation, unit=made.shows_unit),),
            tuple(sorted(builder._written(one, dict(made.fields)) for one in where)),
            tuple(Shown(one, quoted([one])) for one in made.fields),
        )
        relation = Grouped(filtered, tuple(of_keys), tuple(shown), made.shows_unit)
        self._attach(relation, [one.name for one in of_keys], outer, joined, fields, has_unit=made.shows_unit)
        return value

    def _bought(self, query: Block, joined: Made) -> Expr:
        """A value of all records together: an answer with noise of its own."""
        builder = self._builder
        name = builder._name("value")
        relation = Grouped(
            replace(builder.ask(query), column=name), (), (Shown(name, f"system.main.max({quoted([name])})"),), False
        )
        self._attach(relation, [], [], joined, {name: Field("DOUBLE")}, has_unit=False)
        return Column(SOMEWHERE, name)

    def _only_value(self, query: Block, joined: Made) -> Expr:
        """The value of a query of open tables that has one row or none."""
        builder = self._builder
        made, names = builder.block(replace(query, order=()))
        if made.has_unit:
            raise NotLocal("A subquery for a value is followed where it is an aggregate of what it reads.")
        (name,) = names.values()
        rows = made.relation.sql(lambda location: quoted(location.path))
        if not builder.holds(f"SELECT count(*) <= 1 FROM ({rows}) AS r"):
            raise NotLocal("A subquery for a value has several rows: aggregate them.")
        new = builder._name(name)
        relation = Grouped(made.relation, (), (Shown(new, f"system.main.max({quoted([name])})"),), has_unit=False)
        self._attach(relation, [], [], joined, {new: replace(made.fields[name], never_null=False)}, has_unit=False)
        return Column(SOMEWHERE, new)

    def _check_units(self, made: Made, keys: list[str], outer: list[Expr], joined: Made, nested: Nested | None) -> None:
        """Raises NotLocal for a subquery of protected records where not only those of the row's own unit are asked."""
        if not made.has_unit:
            return
        if not joined.has_unit:
            raise NotLocal("A condition on rows of open tables cannot ask protected records.")
        same = {key: one.name for key, one in zip(keys, outer, strict=True) if isinstance(one, Column)}
        for fix, names in made.fixes.items():
            theirs = joined.fixes.get(fix)
            if theirs is not None and all(
                same.get(name) in self._equal.of(other) for name, other in zip(names, theirs, strict=True)
            ):
                return
        raise NotLocal(
            "A subquery asks records of other units than the one of its row: compare the units' columns too, as in "
            "`a.unit = b.unit`."
        )

    def _is_two_valued(self, made: Made, key: str, outer: Expr, joined: Made, nested: InQuery) -> bool:
        """Whether IN cannot be NULL, or NULL means what false does where it stands."""
        inner_null = not made.fields[key].never_null
        outer_null = not (isinstance(outer, Column) and joined.fields[outer.name].never_null)
        if not inner_null and not outer_null:
            return True
        return not any(_is_negated(one, nested) for one in self._block.expressions())

    def _with_probes(self, joined: Made) -> Made:
        if not self._probes:
            return joined
        assert isinstance(joined.relation, Joined)
        fields = dict(joined.fields)
        for _, made in self._probes:
            fields |= made.fields
        parts = (*joined.relation.joined, *(part for part, _ in self._probes))
        relation = Joined(parts, (), tuple(Shown(one, quoted([one])) for one in fields))
        return replace(joined, relation=relation, fields=fields)


_SUGGESTED = (
    "{} and {} are both protected, and nothing in the join says that their records are of one unit: add that the "
    "columns of the unit, or those of a declared link, are equal."
)
_FAN_OUT = (
    "{} has several rows for one record in this join, so a record would count several times: join by columns that are "
    "unique there."
)


def own_step(kind: str) -> Fraction | None:
    """The step in which a type holds numbers; None for others."""
    decimal = digits(kind)
    if decimal is not None:
        return Fraction(1, 10 ** decimal[1])
    return Fraction(1) if kind in WHOLE else None


def _output_names(read: Read) -> list[str]:
    if isinstance(read, SetOperation):
        return _output_names(read.members[0])
    return [one.name for one in read.outputs] if isinstance(read, Block) else []


def _common(fields: Sequence[Field]) -> Field:
    """What holds of a column in all queries of a UNION."""
    kind = _kind_together(sorted({one.kind for one in fields} - {""}))
    listed = [one.listed for one in fields]
    origins = {(one.origin.table, one.origin.column) if one.origin is not None else None for one in fields}
    return Field(
        kind,
        fields[0].origin if len(origins) == 1 else None,
        None,
        all(one.is_unit for one in fields),
        all(one.never_null for one in fields),
        tuple(dict.fromkeys(each for one in listed for each in one)) if all(listed) else (),
    )


def _kind_together(kinds: Sequence[str]) -> str:
    """The type that holds the values of several."""
    if not kinds:
        return "INTEGER"
    decimals = [digits(one) or ((19, 0) if one in WHOLE else None) for one in kinds]
    if len(kinds) > 1 and any(map(digits, kinds)) and None not in decimals:
        scale = max(one[1] for one in decimals if one is not None)
        width = scale + max(one[0] - one[1] for one in decimals if one is not None)
        return f"DECIMAL({min(width, 38)},{scale})"
    return together(kinds, [])


def _kind_of(kind: str, number: Fraction | None) -> str:
    """The type of a constant."""
    if number is None:
        return "VARCHAR" if kind == TEXT else kind
    if number.denominator == 1:
        return "INTEGER" if abs(number) < 2**31 else "HUGEINT"
    if kind != NUMBER:
        return kind
    scale = next(one for one in range(1, 39) if (number * 10**one).denominator == 1)
    return f"DECIMAL(38,{scale})"


def _widest(bounds: Sequence[tuple[Fraction, Fraction, Fraction] | None]) -> tuple[Fraction, Fraction, Fraction] | None:
    known = [one for one in bounds if one is not None]
    if len(known) < len(bounds):
        return None
    return min(one[0] for one in known), max(one[1] for one in known), min(one[2] for one in known)


def _names(source: Source) -> str:
    return source.relation.name.object if isinstance(source.relation, Table) else "a subquery"


def _factored(condition: Expr) -> frozenset[Expr]:
    """The conjuncts of a condition, with those that all branches of an OR have taken out of it."""
    if not isinstance(condition, Or):
        return conjuncts(condition)
    branches = [conjuncts(one) for one in _branches(condition)]
    common = frozenset.intersection(*branches)
    if not common:
        return frozenset([condition])
    rest = [one - common for one in branches]
    if not all(rest):
        return common
    either: Expr | None = None
    for one in rest:
        both: Expr | None = None
        for each in in_order(one):
            both = each if both is None else And(both, each)
        assert both is not None
        either = both if either is None else Or(either, both)
    assert either is not None
    return common | {either}


def _branches(condition: Expr) -> list[Expr]:
    if isinstance(condition, Or):
        return [*_branches(condition.left), *_branches(condition.right)]
    return [condition]


def _equal(condition: Expr) -> tuple[Column, Column] | None:
    """The columns of two sources that a condition says are equal."""
    match condition:
        case Comparison("=", Column() as one, Column() as other) if one.source != other.source:
            return one, other
    return None


def _apart(query: Block, own: set[int]) -> tuple[list[Expr], list[tuple[Expr, str, Expr]]]:
    """The conditions of a subquery on its own rows, and the comparisons of these with the row around it."""
    inside: list[Expr] = []
    pairs: list[tuple[Expr, str, Expr]] = []
    for condition in in_order(query.where):
        sides = _sides(condition, own)
        if sides == {True} or not sides:
            inside.append(condition)
            continue
        match condition:
            case Comparison(operator, left, right) if operator in _TURNED:
                if _sides(left, own) == {True} and _sides(right, own) == {False}:
                    pairs.append((left, operator, right))
                    continue
                if _sides(left, own) == {False} and _sides(right, own) == {True}:
                    pairs.append((right, _TURNED[operator], left))
                    continue
        raise NotLocal("A subquery depends on its row in a way that is not followed: by = of columns it may.")
    rest = [*query.having, *(query.keys or ()), *(one.expr for one in query.outputs)]
    if any(False in _sides(one, own) for one in rest if not isinstance(one, Star)):
        raise NotLocal("A subquery depends on its row in a way that is not followed: by = of columns it may.")
    return inside, pairs


def _sides(expr: Expr, own: set[int]) -> set[bool]:
    """Whether columns in it are of a subquery's own sources, of the row around it, or both."""
    return {one.source in own for one in columns_in([expr])}


def _is_negated(expr: Expr, nested: Nested) -> bool:
    """Whether a subquery stands in an expression where NULL and false make a difference."""
    if expr == nested:
        return False
    if isinstance(expr, And | Or):
        return _is_negated(expr.left, nested) or _is_negated(expr.right, nested)
    return any(one == nested for one in walk(expr))


class _Names:
    """Classes of equal columns, by their names in relations."""

    def __init__(self, classes: list[set[str]]) -> None:
        self._classes = classes

    def of(self, name: str) -> set[str]:
        """The columns that are equal to one, with itself."""
        return next((one for one in self._classes if name in one), {name})


def equal(pairs: Sequence[tuple[Column, Column]], builder: Builder) -> _Names:
    """The classes of columns that a join's conditions say are equal."""
    found: list[set[str]] = []
    for one, other in pairs:
        names = {builder._names.get((each.source, each.name), "") for each in (one, other)} - {""}
        if len(names) < 2:
            continue
        met = [each for each in found if each & names]
        found = [each for each in found if not each & names] + [set().union(names, *met)]
    return _Names(found)


def _share(one: Made, other: Made, classes: _Names) -> bool:
    """Whether two relations that are joined have one unit: they share a key that fixes it."""
    return any(
        theirs is not None and all(b in classes.of(a) for a, b in zip(names, theirs, strict=True))
        for fix, names in one.fixes.items()
        for theirs in (other.fixes.get(fix),)
    )
