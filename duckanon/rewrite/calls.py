"""Calls of duckanon's own table functions, read from a statement: names, constants, and the tables that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Catalog, Home
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node, copied
from duckanon.rewrite.dialect import DIALECT
from duckanon.specification import functions


@dataclass(frozen=True)
class Call:
    """A call whose arguments are constants. tables: the tables it reads, by argument; arguments: all by folded name."""

    function: str
    node: Node
    arguments: Mapping[str, Node]
    tables: Mapping[str, TableName]

    def text(self, name: str) -> str | None:
        """A string argument; None where it is not given, NULL, or no string."""
        node = self.arguments.get(name)
        return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, or one string as a list; [] where it is not given, None where it is something else."""
        node = self.arguments.get(name)
        if node is None:
            return []
        parts = node.expressions if isinstance(node, exp.Array) else [node]
        if not all(isinstance(part, exp.Literal) and part.is_string for part in parts):
            return None
        return [str(part.this) for part in parts]

    def number(self, name: str) -> str | None:
        """A number as it was written; None where there is none."""
        node = self.arguments.get(name)
        return str(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def read(function: str, node: Node, parameters: Sequence[str], catalog: Catalog, home: Home | None = None) -> Call:
    """The call in a table node of the query.

    parameters: the function's, in order. home: of the steward's view or macro around it. Raises
    UnsupportedQuery where an argument is no constant, or names no table that can be read by its name.
    """
    known = functions().get(function)
    if known is None or not known.analysts:
        raise UnsupportedQuery(f"An analyst cannot call {function} here: ask the steward for a release.")
    arguments: dict[str, Node] = {}
    order = [fold(name) for name in parameters]
    for place, expression in enumerate(node.this.expressions):
        if isinstance(expression, exp.PropertyEQ | exp.Kwarg | exp.EQ) and isinstance(
            expression.this, exp.Identifier | exp.Column | exp.Var
        ):
            name, passed = fold(expression.this.name), expression.expression
        elif place < len(order):
            name, passed = order[place], expression
        else:
            name, passed = "", expression
        if name not in order or name in arguments or not is_constant(passed):
            raise UnsupportedQuery(
                f"{function} takes constants for its arguments, each once and under a name it knows: look at the call."
            )
        arguments[name] = passed
    for argument in known.arguments:
        if argument.sql and not isinstance(arguments.get(argument.name, exp.Null()), exp.Null):
            raise UnsupportedQuery(
                f"An analyst's call of {function} cannot give {argument.name}, which name tables: ask the steward for "
                "a release."
            )
    tables = {}
    for name in sorted(known.tables):
        passed = arguments.get(name)
        if passed is None or isinstance(passed, exp.Null):
            continue
        tables[name] = _table(function, passed, catalog, home)
    # What is refused of a protected table names the whole call that is answered.
    is_answered = catalog.protected.keys().isdisjoint(tables.values())
    if is_answered and any(parameter not in arguments for parameter in known.needed):
        raise UnsupportedQuery(known.usage)
    return Call(function, node, arguments, tables)


def is_constant(node: Node) -> bool:
    """Whether a value is written out: a number, a text, a truth value, NULL, or lists and structs of them."""
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
        return True
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal)
    if isinstance(node, exp.Array):
        return all(map(is_constant, node.expressions))
    if isinstance(node, exp.Struct):
        return all(
            isinstance(expression, exp.PropertyEQ) and is_constant(expression.expression)
            for expression in node.expressions
        )
    return False


def _table(function: str, argument: Node, catalog: Catalog, home: Home | None) -> TableName:
    try:
        written = TableName.of(argument.this) if isinstance(argument, exp.Literal) and argument.is_string else None
    except ValueError:
        written = None
    table_name = None if written is None else catalog.find(written, home)
    if table_name is None or not catalog.is_seen(table_name):
        raise UnsupportedQuery(
            f"{function} is called on something that is no table to be seen here: look at its name, or ask the steward "
            "to open it."
        )
    if table_name not in catalog.protected and table_name not in catalog.tables:
        raise UnsupportedQuery(
            f"{function} is called on a view, behind which the guard cannot look there: make a temporary table of it."
        )
    return table_name


def qualify(call: Call, paths: Mapping[TableName, tuple[str, str, str]]) -> str:
    """Write full names into the call's node, and return its SQL."""
    for name, table in call.tables.items():
        call.arguments[name].replace(exp.Literal.string(quoted(paths[table])))
    return written(call.node)


def written(node: Node) -> str:
    """A call in a table node, as SQL without its alias."""
    bare = copied(node)
    for part in ("alias", "joins"):
        bare.set(part, None)
    return str(bare.sql(DIALECT, comments=False, normalize_functions=False))
