"""From what a query reads to a relation of which each row has one unit. Raises NotLocal where that is not proven."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from duckanon.catalog.names import fold, quoted
from duckanon.catalog.types import own_step
from duckanon.rewrite.algebra.constants import NUMBER, TEXT, decimal_type, folded, type_name
from duckanon.rewrite.algebra.expressions import Cast, Column, Expr, Star, Unclear, has, is_windowed, walk
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Relation, Table, Union, is_protected
from duckanon.rewrite.algebra.scalars import of_constant
from duckanon.units import laterals
from duckanon.units.bought import AcrossUnits, bought, unasked
from duckanon.units.fields import UNIT_ITSELF, Field, Made
from duckanon.units.grouping import Groups
from duckanon.units.joins import Join
from duckanon.units.leaves import rows_of
from duckanon.units.lifting import lifted
from duckanon.units.relation import Joined, Part, Shown
from duckanon.units.scope import NotLocal, Scope
from duckanon.units.unions import output_names, united
from duckanon.units.values import computed, meeting
from duckanon.units.windows import Windows, as_first_rows, as_grouped, first_rows, numbered

Over = Callable[[Expr], Expr]
_LIMITED = (
    "LIMIT is not followed within a unit: number the rows by row_number() with the unit's column in PARTITION BY, and "
    "keep those up to a number."
)


def _is_named_by_table(name: str, field: Field) -> bool:
    """Whether a column is one of a table, such as `size`, `orders.size` or `orders.size#2`, not a maximum of one."""
    return field.origin is not None and name.partition("#")[0].rpartition(".")[2] == fold(field.origin.column)


class Builder:
    """Makes relations of the parts of one statement."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def relation(self, read: Relation, number: int, used: Sequence[str], *, owned: bool = True) -> Made:
        """The relation of a source. number: the source's. used: the folded names of the columns that are read of it.

        owned: whether its rows get the unit's column; else they are joined by what fixes their unit.
        """
        if isinstance(read, Table):
            return rows_of(self.scope, read, number, used, owned=owned)
        if isinstance(read, Block):
            made, names = self._own_or_bought(read)
        elif isinstance(read, Union):
            made, columns = united(self, read)
            names = dict(zip(map(fold, output_names(read)), columns, strict=True))
        else:
            why = f" ({read.reason})" if read.reason else ""
            raise NotLocal(f"What is read is not computed within each unit{why}: write it as SELECTs of tables.")
        for text in used:
            if text not in names:
                raise NotLocal(f"The column {text} is not one of what is joined here.")
            self.scope.call(number, text, names[text])
        return made

    def _own_or_bought(self, block: Block) -> tuple[Made, dict[str, str]]:
        """The relation of a block: what each unit has, or numbers of all units together, which have noise."""
        whole = block if block.keys is None else replace(block, limited=False)
        across = self._across(whole)
        if across is not None:
            return bought(self.scope, block, across)
        if block.limited:
            raise NotLocal(_LIMITED)
        return self.block(whole)

    def flat(self, block: Block) -> Block:
        """The block whose sources neither depend on each other nor compute of their groups. Raises NotLocal."""
        return lifted(laterals.joined(block), self.is_across)

    def is_across(self, block: Block) -> bool:
        """Whether a block groups records of several units."""
        return self._across(block) is not None

    def _across(self, block: Block) -> AcrossUnits | None:
        """What is known of a block that groups records of several units; None for others.

        It is found out once, so that the work does not double with each query around it.
        """
        scope, known = self.scope, self.scope.across
        if block not in known:
            known[block] = None
            try:
                Builder(Scope(scope.catalog, scope.public, scope.today, unasked, known)).block(block)
            except AcrossUnits as across:
                known[block] = across
            except (NotLocal, NotTotal):
                pass
        found = known[block]
        assert found is None or isinstance(found, AcrossUnits)
        return found

    def joined(self, block: Block, *, owned: bool = True, repeats: bool = False) -> tuple[Made, list[Expr], Over]:
        """What a block reads, joined; its other conditions; and what writes its expressions over the joined columns."""
        return Join(self, block, owned=owned, repeats=repeats).made()

    def block(self, block: Block, *, owned: bool = True, repeats: bool = False) -> tuple[Made, dict[str, str]]:
        """The relation of a block, and its columns by the folded names of its outputs.

        repeats: whether its records may meet several rows of open tables each.
        """
        if block.limited and is_protected(block):
            raise NotLocal(_LIMITED)
        if block.limited:
            block = first_rows(block, ())
        if block.sets or block.spread:
            raise NotLocal("Grouping sets and PIVOT are not followed within a unit: group by the columns themselves.")
        if any(has(expression, (Star, Unclear)) for expression in block.expressions()):
            raise NotLocal("A star, a macro or a whole record is not followed within a unit: name the columns.")
        block = self.flat(as_first_rows(as_grouped(block, self.scope.new_source())))
        windowed = any(map(is_windowed, block.expressions()))
        made, where, over = self.joined(block, owned=owned or windowed, repeats=repeats)
        if block.keys is None:
            qualify = [over(expression) for expression in in_order(block.qualify)]
            return self._windowed(made, where, [(output.name, over(output.expr)) for output in block.outputs], qualify)
        return self._grouped(block, made, where, over)

    def _windowed(
        self, made: Made, where: Sequence[Expr], outputs: Sequence[tuple[str, Expr]], qualify: Sequence[Expr]
    ) -> tuple[Made, dict[str, str]]:
        """The rows that meet conditions, with what windows over them compute. qualify: conditions on that."""
        if not any(map(is_windowed, (*(expression for _, expression in outputs), *qualify))):
            return self._projected(made, [*where, *qualify], outputs)
        shown = tuple(Shown(field, quoted([field])) for field in made.fields)
        tests = tuple(sorted(self.scope.written(condition, made.fields) for condition in where))
        rows = Joined((Part(made.relation, unit=made.shows_unit),), tests, shown)
        fields = meeting(self.scope, made.fields, where)
        windows = Windows(self.scope, replace(made, relation=rows, fields=fields))
        computed = [(name, windows.over(expression)) for name, expression in outputs]
        kept = [windows.over(condition) for condition in qualify]
        return self._projected(numbered(windows.made(), kept), kept, computed)

    def _projected(
        self, made: Made, where: Sequence[Expr], outputs: Sequence[tuple[str, Expr]]
    ) -> tuple[Made, dict[str, str]]:
        """The rows that meet conditions, with columns that are computed of each. outputs: by their names."""
        made = replace(made, fields=meeting(self.scope, made.fields, where))
        # Columns that fix the unit stay, though nobody asks for them.
        fields = {name: made.fields[name] for names in made.fixes.values() for name in names}
        shown = {name: Shown(name, quoted([name])) for name in fields}
        names: dict[str, str] = {}
        for output, expr in outputs:
            if isinstance(expr, Column):
                name = expr.name
                shown[name], field = Shown(name, quoted([name])), made.fields[name]
                fields[name] = field if _is_named_by_table(name, field) else replace(field, called=output)
            else:
                name = self.scope.new_name(output)
                sql, field = self._computed(expr, made)
                fields[name] = replace(field, called=output)
                shown[name] = Shown(name, sql)
            names[fold(output)] = name
        tests = tuple(sorted(self.scope.written(condition, made.fields) for condition in where))
        relation = Joined((Part(made.relation, unit=made.shows_unit),), tests, tuple(shown.values()))
        for name, one in fields.items():
            if one.numbers is not None and not one.numbers <= fields.keys():
                fields[name] = replace(one, numbers=None)
        return replace(made, relation=relation, fields=fields), names

    def _computed(self, expr: Expr, made: Made) -> tuple[str, Field]:
        """What is computed of each row, or a constant: its SQL, and what is known of it."""
        value = folded(expr, self.scope.today)
        if value is None:
            sql, kind = scalar(expr, made.types, self.scope.today)
            return sql, computed(self.scope, expr, made.fields, kind)
        if value.value is None:
            return "NULL", Field("")
        number = value.value if isinstance(value.value, Fraction) else None
        kind = type_name(expr.type) if isinstance(expr, Cast) else _kind_of(value.kind, number)
        bounds = None if number is None else (number, number, own_step(kind) or abs(number) or Fraction(1))
        return of_constant(value, kind).sql, Field(kind, bounds=bounds, listed=(expr,), never_null=True)

    def _field(self, key: Expr, made: Made) -> Field:
        """What is known of a key of all units together."""
        if not isinstance(key, Column):
            return Field(scalar(key, made.types, self.scope.today)[1])
        known = made.fields[key.name]
        origin = known.origin and replace(known.origin, source=self.scope.new_source())
        return Field(known.kind, origin, known.bounds)

    def _grouped(self, block: Block, made: Made, where: Sequence[Expr], over: Over) -> tuple[Made, dict[str, str]]:
        """Groups of the rows of each unit."""
        keys = [over(key) for key in block.keys or ()]
        # A constant, such as DISTINCT has, makes no further groups.
        keys = [key for key in keys if folded(key, self.scope.today) is None] or keys
        columns = {key.name for key in keys if isinstance(key, Column)}
        fixes = {fixed: found for fixed in made.fixes if (found := made.fixing(fixed, columns)) is not None}
        if made.shows_unit and not fixes:
            raise AcrossUnits(
                {key: self._field(key, made) for key in keys}, [over(output.expr) for output in block.outputs]
            )
        made = replace(made, fields=meeting(self.scope, made.fields, where))
        groups = Groups(self.scope, made)
        names = frozenset(groups.key(key) for key in keys)
        outputs = [(output.name, groups.over(over(output.expr))) for output in block.outputs]
        having = [groups.over(over(expression)) for expression in in_order(block.having)]
        qualify = [groups.over(over(expression)) for expression in in_order(block.qualify)]
        # The unit is always a key, so columns that only say which unit it is make no further difference.
        unique = names - set(fixes.get(UNIT_ITSELF, ())) if made.has_unit else names
        grouped = Made(
            replace(groups.relation(where), of_units=made.shows_unit and not unique),
            groups.fields,
            made.has_unit,
            made.rows_by(_names_in(keys) - set(fixes.get(UNIT_ITSELF, ()))) if unique else 1,
            frozenset([unique]),
            {fixed: columns for fixed, columns in fixes.items() if set(columns) <= names},
            made.counted if unique else None,
            made.owned,
            frozenset(both for each in made.equal if len(both := each & names) > 1),
        )
        return self._windowed(grouped, having, outputs, qualify)


def _names_in(exprs: Iterable[Expr]) -> set[str]:
    """The names of the columns in expressions over a relation."""
    return {node.name for expr in exprs for node in walk(expr) if isinstance(node, Column)}


def _kind_of(kind: str, number: Fraction | None) -> str:
    """The type of a constant."""
    if number is None:
        return "VARCHAR" if kind == TEXT else kind
    if number.denominator == 1:
        return "INTEGER" if abs(number) < 2**31 else "BIGINT" if abs(number) < 2**63 else "HUGEINT"
    if kind != NUMBER:
        return kind
    text = decimal_type(number)
    if text is None:
        raise NotLocal("A constant has more digits than a DECIMAL holds: round it.")
    return text
