"""Queries whose conditions on public columns are taken for conditions on keys: they say which cells are added up.

Answers by those columns that are there already answer them: what was prepared, and what was asked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import NoReturn

from duckanon.catalog.names import fold
from duckanon.releases.aggregates_plan import Plan
from duckanon.releases.exclusions import excludes
from duckanon.releases.key_domains import numbered
from duckanon.releases.key_filters import Filtered, filtered, placed
from duckanon.releases.noise import NotOffered, columns_of, public_key
from duckanon.releases.noisy_aggregates import REFUSALS
from duckanon.releases.paid_questions import Key
from duckanon.releases.within_units import local
from duckanon.rewrite.algebra.expressions import NULL, Column, Comparison, Expr, In, Is, Or, rebuilt, walk
from duckanon.rewrite.algebra.filters import written
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.normalize.grouped import Grouped
from duckanon.rewrite.recognize.findings import Aggregates, Statistic
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.relation import Relation

OTHERWISE = "It does not follow from an answer that is there already."


def asked_of(context: RuleContext, node: Node) -> tuple[Grouped, Aggregates, Relation | None] | None:
    """What a SELECT asks of a protected table, or of what is computed within each unit, which is then the relation.

    None for any other, or where the table is not as its policy needs it.
    """
    try:
        grouped = context.grouped(node, node)
        core, relation = local(context, context.shown(grouped, node), asks_nothing)
        aggregates = context.aggregates(core)
    except REFUSALS:
        return None
    protected = context.catalog.protected.get(aggregates.table)
    if relation is None and (protected is None or not protected.stands):
        return None
    return grouped, aggregates, relation


def asks_nothing(_: object) -> NoReturn:
    """What a query within the query computes from all units does not follow."""
    raise NotOffered(OTHERWISE)


class ByKeys(Plan):
    """How a query follows from an answer by more keys than it shows. Raises NotOffered where it does not.

    keyed: the folded columns of which conditions are conditions on keys, besides the keys that are shown.
    """

    def __init__(
        self,
        context: RuleContext,
        aggregates: Aggregates,
        grouped: Grouped,
        keyed: frozenset[str],
        relation: Relation | None = None,
    ) -> None:
        self._keyed = keyed
        super().__init__(context, aggregates, grouped, relation)

    def _add_key(self, expr: Expr) -> None:
        used = sorted({node for node in walk(expr) if isinstance(node, Column)}, key=lambda one: one.name)
        if not used:
            raise NotOffered(OTHERWISE)
        keys = tuple(public_key(self._context, self._table, one) for one in used)
        self._columns.append((expr, "" if isinstance(expr, Column) else "expression", keys))

    def _of_all(self, statistics: Sequence[Statistic]) -> frozenset[Expr]:  # noqa: ARG002 # as of all plans
        """None: the answer is there, so each statistic keeps all conditions that say which of its cells are meant."""
        return frozenset()

    def _of_any(self, statistics: Sequence[Statistic]) -> frozenset[Expr]:  # noqa: ARG002 # as of all plans
        """None, as `_of_all`."""
        return frozenset()

    def _is_of_keys(self, condition: Expr) -> bool:
        return columns_of(condition) <= self._keyed or super()._is_of_keys(condition)

    @cached_property
    def _where(self) -> Filtered:
        return filtered(self._context, self._table, self._asked_keys, list(self._found.filter))

    @property
    def _of_cells(self) -> frozenset[Expr]:
        """Without those that say which of the answer's cells are meant: it has the others, too."""
        return self._found.filter.difference(self._where.on_keys)

    @property
    def _asked_keys(self) -> list[Key]:
        """Those that are shown, and those of all conditions, which say what is added up."""
        asked = [
            *self._found.filter,
            *(condition for statistic in self._statistics for condition in (*statistic.where, *statistic.of)),
        ]
        columns = {column for one in asked if self._is_of_keys(one) for column in columns_of(one)} | self._added_up
        keys = [key for _, _, keys in self._columns for key in keys]
        keys += [public_key(self._context, self._table, Column(0, column)) for column in sorted(columns)]
        return list(dict.fromkeys(keys))

    def _check_named(self, hidden: Mapping[str, Key], database: str) -> None:
        """Raises NotOffered where a condition on a hidden key asks for values that its domain does not have.

        That is where it names such a value, or no value of the domain meets it. Their records are in no cell, so they
        would not count. hidden: by folded columns, keys that no row shows and whose columns may have values outside of
        the domain. database: where the domains are kept.
        """
        asked = {
            *self._where.on_keys,
            *(condition for statistic in self._statistics for condition in (*statistic.where, *statistic.of)),
        }
        for condition in in_order(asked):
            used = columns_of(condition)
            if len(used) != 1 or not used <= hidden.keys():
                continue
            (column,) = used
            met, named = self._values_met(condition, hidden[column], database), _named(condition)
            if met < (named or 1):
                raise NotOffered(
                    f"The domain of {hidden[column].column} has not all values that a condition asks for, so it is "
                    "asked by itself."
                )

    def _values_met(self, condition: Expr, key: Key, database: str) -> int:
        """How many values of a key meet a condition on it alone."""
        test = written(
            rebuilt(condition, partial(placed, {fold(key.column): 0})), {"k0": key.kind}, self._context.today
        )
        listed = numbered(database, key)
        (met,) = self._context.releases.value(f"SELECT system.main.count(*) FROM {listed} AS _dk_found WHERE {test}")
        return int(met)

    @property
    def _added_up(self) -> frozenset[str]:
        """The folded columns of keys whose values are added up."""
        return frozenset()

    def _of_records(self, where: frozenset[Expr]) -> frozenset[Expr]:
        return frozenset(condition for condition in where if not self._is_of_keys(condition))

    def _filtered(self, *wheres: frozenset[Expr]) -> str:
        return super()._filtered(*(where - self._of_records(where) for where in wheres))

    def in_row(self, *wheres: frozenset[Expr]) -> int:  # noqa: ARG002 # a row's cells are not independent
        return 1

    def are_apart(self, expressions: frozenset[Expr], other: frozenset[Expr]) -> bool:
        return excludes(expressions, other, self._types)


def is_named(condition: Expr) -> bool:
    """Whether a condition on one column names the values that meet it one by one."""
    return bool(_named(condition))


def _named(condition: Expr) -> int | None:
    """How many values a condition on one column names one by one; None where it says something else."""
    match condition:
        case In(Column(), values):
            return len({*values} - {NULL})
        case Comparison("=", Column(), other) | Comparison("=", other, Column()) | Is(Column(), other):
            return None if columns_of(other) else 1
        case Or(one, other):
            named = [_named(each) for each in (one, other)]
            return None if None in named else sum(each or 0 for each in named)
    return None
