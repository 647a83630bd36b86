"""Numbers of all units together within a query: a question of its own, whose noisy answer is joined like an open table.

`JOIN (SELECT product, avg(price) AS mean FROM items GROUP BY product) USING (product)` is the answer to that query, by
keys with public domains. It is paid for with the query around it, and drawn first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from duckanon.catalog.names import fold
from duckanon.catalog.types import WHOLE, digits
from duckanon.governance.locations import Location
from duckanon.rewrite.algebra.constants import NUMBER, folded, type_name
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Expr,
    Negative,
    Nullif,
    Round,
    Window,
    WindowFunction,
    walk,
)
from duckanon.rewrite.algebra.relations import Block
from duckanon.units.fields import Field, Made
from duckanon.units.relation import Answered
from duckanon.units.scope import NotLocal, Scope

_ACROSS = (
    "Groups of records of several units are counted first, with noise: group by the unit's column too, to compute "
    "within each unit."
)
# Window functions of which equal numbers have equal values.
_TOTAL = frozenset({"rank", "dense_rank", "rank_dense", "percent_rank", "cume_dist"})


class AcrossUnits(NotLocal):
    """A block groups records of several units.

    keys: what is known of what it groups by. outputs: its columns, as expressions over these.
    """

    def __init__(self, keys: Mapping[Expr, Field], outputs: Sequence[Expr]) -> None:
        super().__init__(_ACROSS)
        self.keys, self.outputs = keys, outputs


def unasked(_: Block) -> Answered:
    """Stands for the answer to a question that is not asked, while it is looked whether a block needs one."""
    return Answered((), Location("", "", ""))


def bought(scope: Scope, block: Block, across: AcrossUnits) -> tuple[Made, dict[str, str]]:
    """The noisy answer to a block that groups records of several units, and its columns by their folded names.

    Raises NotLocal for columns that are neither keys nor numbers, and what `scope.ask` raises.
    """
    if not block.having and not block.limited and all(output in across.keys for output in across.outputs):
        raise NotLocal(
            "Which keys records have is not told, but how many records each has: keep those with HAVING count(*) > 10.",
            block.node,
        )
    if any(
        isinstance(node, WindowFunction) and node.name not in _TOTAL for each in block.qualify for node in walk(each)
    ):
        raise NotLocal("Which of equal numbers row_number comes to is left to chance: write rank.", block.node)
    fields, names = {}, {}
    for output, expr in zip(block.outputs, across.outputs, strict=True):
        if expr not in across.keys and not _is_number(scope, expr):
            raise NotLocal(
                f"The column {output.name} of groups of several units is neither a key nor a number: compute it around "
                "them.",
                block.node,
            )
        name = names[fold(output.name)] = scope.new_name(output.name)
        known = across.keys.get(expr, Field("DOUBLE"))
        fields[name] = replace(known, origin=known.origin and replace(known.origin, source=scope.new_source()))
    columns = tuple((name, field.kind) for name, field in fields.items())
    if len(columns) != len(block.outputs) or len(names) != len(columns):
        raise NotLocal("Two columns of a subquery have one name: give them different ones.", block.node)
    shown = [name for name, expr in zip(fields, across.outputs, strict=True) if expr in across.keys]
    is_whole = {expr for expr in across.outputs if expr in across.keys} == across.keys.keys()
    unique = frozenset([frozenset(shown)]) if is_whole else frozenset[frozenset[str]]()
    return Made(replace(scope.ask(block), columns=columns), fields, has_unit=False, unique=unique), names


def _is_number(scope: Scope, expr: Expr) -> bool:
    """Whether a column computed of noisy numbers is one of numbers."""
    value = folded(expr, scope.today)
    if value is not None:
        return value.value is None or value.kind == NUMBER
    match expr:
        case Aggregate() | Window(call=Aggregate()):
            return True
        case Arithmetic() | Negative() | Coalesce() | Nullif() | Round():
            parts = expr.parts
        case Case():
            parts = expr.values
        case Cast(operand, kind):
            if type_name(kind) not in (*WHOLE, "DOUBLE") and digits(type_name(kind)) is None:
                return False
            parts = (operand,)
        case _:
            return False
    return all(_is_number(scope, part) for part in parts)
