"""Conditions of WHERE on keys alone: they decide which cells an answer has, before any record is read.

`WHERE k = 'b' GROUP BY k` has the row of b and no others. Values of a key outside its domain are in no cell, so such a
condition is tried on the domain's values only, and is no condition on records. A condition that also reads another
column stays one on records. One that reads no column at all, such as `1 = 0`, leaves all cells or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from duckanon.catalog.names import TableName, fold
from duckanon.releases import layout
from duckanon.releases.noise import NotOffered, columns_of, conditions, public_key, sorted_keys
from duckanon.releases.paid_questions import DomainFilter, Key
from duckanon.rewrite.algebra.expressions import Column, Expr, rebuilt
from duckanon.rewrite.algebra.filters import written
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.rule_context import RuleContext


@dataclass(frozen=True)
class Filtered:
    """The keys and conditions of a question.

    keys: in a fixed order; among them may be columns that the answer does not show, such as the states in which the
    counties lie that it shows. domain_filters: on the keys' values. filters: on records, as SQL that cannot fail.
    of_keys: the domain filters as conditions on records: those that do not meet them are in no cell. on_keys: the
    conditions that became domain filters, as they are asked.
    """

    keys: tuple[Key, ...]
    domain_filters: tuple[DomainFilter, ...]
    filters: list[str]
    of_keys: tuple[str, ...] = ()
    on_keys: tuple[Expr, ...] = ()


def filtered(context: RuleContext, name: TableName, keys: Sequence[Key], where: Sequence[Expr]) -> Filtered:
    """Apart: the conditions on the keys' values, and those on records. keys: by which the question groups.

    Raises NotOffered for dropped columns, and NotTotal for what could fail on a record.
    """
    if not where:
        return Filtered(sorted_keys(keys), (), [])
    known = {fold(key.column): key for key in keys}
    above = _above(context, name, keys)
    on_keys = [expression for expression in in_order(where) if columns_of(expression) <= known.keys() | above.keys()]
    used = {column for expression in on_keys for column in columns_of(expression)}
    all_keys = sorted_keys([*keys, *(key for column, key in above.items() if column in used)])
    places = {fold(key.column): at for at, key in enumerate(all_keys)}
    types = context.types(name)
    shown = {f"k{at}": types[column] for column, at in places.items()}
    of_keys = tuple(sorted(conditions(context, name, on_keys)))
    domain_filters = {
        DomainFilter(
            written(rebuilt(expression, partial(placed, places)), shown, context.today),
            tuple(sorted(places[column] for column in columns_of(expression))),
        )
        for expression in on_keys
    }
    rest = conditions(context, name, [condition for condition in where if condition not in on_keys])
    return Filtered(
        all_keys,
        tuple(sorted(domain_filters, key=lambda domain_filter: domain_filter.sql)),
        rest,
        of_keys,
        tuple(on_keys),
    )


def placed(places: Mapping[str, int], expr: Expr, name: Callable[[int], str] = layout.key) -> Expr | None:
    """A column as the value of a key. places: of the keys, by folded column. name: of a key's column."""
    return Column(0, name(places[expr.name])) if isinstance(expr, Column) else None


def _above(context: RuleContext, name: TableName, keys: Sequence[Key]) -> dict[str, Key]:
    """Public columns that the domains of the keys list beside these, as a domain of counties lists their states."""
    own = {fold(key.column) for key in keys}
    keys_above = {}
    for column in sorted({column for key in keys for column in key.columns} - own):
        try:
            keys_above[column] = public_key(context, name, Column(0, column))
        except NotOffered:
            continue
    return keys_above
