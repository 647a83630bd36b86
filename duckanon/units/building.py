"""From what a query reads to a relation of which each row has one unit. Raises NotLocal where that is not proven."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from duckanon.catalog.names import fold, quoted
from duckanon.rewrite.algebra.constants import NUMBER, TEXT, decimal_type, folded, own_step, type_name
from duckanon.rewrite.algebra.expressions import Cast, Column, Expr, Star, Unclear, has, is_windowed
from duckanon.rewrite.algebra.filters import scalar
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Relation, Table, Union
from duckanon.rewrite.algebra.scalars import of_constant
from duckanon.units.fields import UNIT_ITSELF, Field, Made
from duckanon.units.grouping import Groups
from duckanon.units.joins import Join
from duckanon.units.leaves import rows_of
from duckanon.units.relation import Joined, Part, Shown
from duckanon.units.scope import NotLocal, Scope
from duckanon.units.unions import output_names, united

Over = Callable[[Expr], Expr]
_ACROSS = (
    "Groups of records of several units are counted first, with noise: group by the unit's column too, to compute "
    "within each unit."
)


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
            made, names = self.block(read)
        elif isinstance(read, Union):
            made, columns = united(self, read)
            names = dict(zip(map(fold, output_names(read)), columns, strict=True))
        else:
            why = f" ({read.reason})" if read.reason else ""
            raise NotLocal(f"What is read is not computed within each unit{why}: write it as SELECTs of tables.")
        for one in used:
            if one not in names:
                raise NotLocal(f"The column {one} is not one of what is joined here.")
            self.scope.call(number, one, names[one])
        return made

    def joined(self, block: Block, *, owned: bool = True) -> tuple[Made, list[Expr], Over]:
        """What a block reads, joined; its other conditions; and what writes its expressions over the joined columns."""
        return Join(self, block, owned=owned).made()

    def block(self, block: Block, *, owned: bool = True) -> tuple[Made, dict[str, str]]:
        """The relation of a block, and its columns by the folded names of its outputs."""
        if block.limited or block.qualify or block.distinct or block.sets or block.spread:
            raise NotLocal(
                "LIMIT, QUALIFY, windows, DISTINCT ON and grouping sets are not followed within a unit: leave them "
                "out, or ask for the least or the largest value with min, max and GROUP BY."
            )
        if any(is_windowed(one) or has(one, (Star, Unclear)) for one in block.expressions()):
            raise NotLocal("Windows and stars are not followed within a unit: name the columns, and group by the unit.")
        made, where, over = self.joined(block, owned=owned)
        if block.keys is None:
            return self._projected(made, where, [(one.name, over(one.expr)) for one in block.outputs])
        return self._grouped(block, made, where, over)

    def _projected(
        self, made: Made, where: Sequence[Expr], outputs: Sequence[tuple[str, Expr]]
    ) -> tuple[Made, dict[str, str]]:
        """The rows that meet conditions, with columns that are computed of each. outputs: by their names."""
        # Columns that fix the unit stay, though nobody asks for them.
        fields = {name: made.fields[name] for names in made.fixes.values() for name in names}
        shown = {name: Shown(name, quoted([name])) for name in fields}
        names: dict[str, str] = {}
        for output, expr in outputs:
            if isinstance(expr, Column):
                name = expr.name
                shown[name], fields[name] = Shown(name, quoted([name])), made.fields[name]
            else:
                name = self.scope.new_name(output)
                sql, fields[name] = self._computed(expr, made)
                shown[name] = Shown(name, sql)
            names[fold(output)] = name
        tests = tuple(sorted(self.scope.written(one, made.fields) for one in where))
        relation = Joined((Part(made.relation, unit=made.shows_unit),), tests, tuple(shown.values()))
        return replace(made, relation=relation, fields=fields), names

    def _computed(self, expr: Expr, made: Made) -> tuple[str, Field]:
        """What is computed of each row, or a constant: its SQL, and what is known of it."""
        value = folded(expr, self.scope.today)
        if value is None:
            sql, kind = scalar(expr, made.types, self.scope.today)
            return sql, Field(kind)
        if value.value is None:
            return "NULL", Field("")
        number = value.value if isinstance(value.value, Fraction) else None
        kind = type_name(expr.type) if isinstance(expr, Cast) else _kind_of(value.kind, number)
        bounds = None if number is None else (number, number, own_step(kind) or Fraction(1))
        return of_constant(value, kind).sql, Field(kind, bounds=bounds, listed=(expr,), never_null=True)

    def _grouped(self, block: Block, made: Made, where: Sequence[Expr], over: Over) -> tuple[Made, dict[str, str]]:
        """Groups of the rows of each unit."""
        keys = [over(one) for one in block.keys or ()]
        columns = {one.name for one in keys if isinstance(one, Column)}
        if made.shows_unit and not any(set(names) <= columns for names in made.fixes.values()):
            raise NotLocal(_ACROSS)
        groups = Groups(self.scope, made)
        names = frozenset(groups.key(one) for one in keys)
        outputs = [(one.name, groups.over(over(one.expr))) for one in block.outputs]
        having = [groups.over(over(one)) for one in in_order(block.having)]
        # The unit is always a key, so columns that only say which unit it is make no further difference.
        unique = names - set(made.fixes.get(UNIT_ITSELF, ())) if made.has_unit else names
        grouped = Made(
            groups.relation(where),
            groups.fields,
            made.has_unit,
            made.rows if unique else 1,
            frozenset([unique]),
            {fixed: columns for fixed, columns in made.fixes.items() if set(columns) <= names},
            made.counted if unique else None,
            made.owned,
        )
        return self._projected(grouped, having, outputs)


def _kind_of(kind: str, number: Fraction | None) -> str:
    """The type of a constant."""
    if number is None:
        return "VARCHAR" if kind == TEXT else kind
    if number.denominator == 1:
        return "INTEGER" if abs(number) < 2**31 else "BIGINT" if abs(number) < 2**63 else "HUGEINT"
    if kind != NUMBER:
        return kind
    found = decimal_type(number)
    if found is None:
        raise NotLocal("A constant has more digits than a DECIMAL holds: round it.")
    return found
