"""Keys whose values open tables list: by IN (SELECT ...), EXISTS or a join with those rows that meet conditions.

Then the answer has rows for these values alone, as DuckDB's own. What open tables hold is public. The values become a
condition of the question, so with another content it is another question.
"""

from __future__ import annotations

from dataclasses import replace

from duckanon.catalog.names import quoted
from duckanon.catalog.types import WHOLE
from duckanon.rewrite.algebra.expressions import NULL, Boolean, Cast, Column, Constant, Expr
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.algebra.rows import columns_in
from duckanon.units.fields import Field, Made
from duckanon.units.scope import Scope, of_open

# So many values are written into a question, of types of which each value is written as a constant.
_MOST = 1000
_TYPES = frozenset({*WHOLE, "VARCHAR", "BOOLEAN", "DATE"})


def keys_of(scope: Scope, block: Block) -> frozenset[str]:
    """The columns from which a block's keys are computed, by their names in relations."""
    return frozenset(scope.name(part) for part in columns_in(block.keys or ()) if isinstance(part, Column))


def listed(scope: Scope, field: Field, made: Made, column: str) -> Field:
    """What is known of a key's column that has no other values than a column of open tables' rows.

    made: these rows; of other rows nothing more is known. column: in them.
    """
    kinds = {made.fields[column].kind, field.kind}
    is_of_type = kinds <= _TYPES and (len(kinds) == 1 or kinds <= WHOLE.keys())
    if field.listed or not made.is_open or not is_of_type:
        return field
    name = quoted([column])
    # As texts, since Python has neither infinite dates nor those after its last year.
    rows = f"SELECT DISTINCT {name} AS v FROM ({of_open(made)}) AS r WHERE {name} IS NOT NULL LIMIT {_MOST + 1}"
    (values,) = scope.public.value(f"SELECT system.main.list(CAST(v AS VARCHAR) ORDER BY v) FROM ({rows}) AS l")
    if values is None:
        # There are no rows: not even for NULL.
        return replace(field, listed=(NULL,))
    if len(values) > _MOST:
        return field
    kind = made.fields[column].kind
    return replace(field, listed=tuple(_constant(value, kind) for value in values), never_null=True)


def _constant(value: str, kind: str) -> Expr:
    """A value of a type, from its text, as it is written in a statement."""
    if kind == "BOOLEAN":
        return Boolean(value == "true")
    if kind == "DATE":
        return Cast(Constant(value, is_text=True), kind)
    return Constant(value, is_text=kind == "VARCHAR")
