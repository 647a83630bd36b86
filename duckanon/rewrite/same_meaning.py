"""Whether two texts mean the same to DuckDB: their trees are equal, apart from spellings of one thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Keys that hold a position in the text, a spelling, or the same as another key.
_SPELLING = frozenset({"query_location", "query_location_length", "is_operator", "qualified_name", "syntax_type"})
# Functions and operators that are one function in DuckDB, and types that are one type.
_ONE_NAME = {"**": "^", "strpos": "position", "instr": "position"}
_ONE_TYPE = {"varchar": "text"}
# Words that DuckDB takes for calls where no column has their name.
_VALUES = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
# What an expression compares or computes with. In ORDER BY and GROUP BY, +1 is a number and 1 is a column.
_OPERANDS = frozenset(
    {"left", "right", "input", "lower", "upper", "children", "child", "when_expr", "then_expr", "else_expr"}
)
# A list that is written out, in place of what else DuckDB's trees have of it.
_LIST = "list"
# Where DuckDB has no position.
_NOWHERE = 2**64 - 1
# In bytes, of a part whose end is not known.
_LONGEST = 60


def difference(text: str, tree: Mapping[str, Any], other_tree: Mapping[str, Any]) -> str | None:
    """The first part of a text that another text gives another meaning; None if both mean the same.

    one: DuckDB's tree of the text (of `json_serialize_sql`). other: of the other text. The whole text is different
    where DuckDB takes one of them for no query.
    """
    if tree.get("error") or other_tree.get("error"):
        return text
    written = text.encode()
    whole = 0, len(written)
    pair = _different(tree["statements"], other_tree["statements"], whole)
    return None if pair is None else written[pair[0] : pair[0] + pair[1]].decode(errors="ignore").strip()


def _different(node: Any, other_node: Any, at: tuple[int, int]) -> tuple[int, int] | None:
    """The place of the first difference between two trees. at: the place of the part around them."""
    if isinstance(node, dict) and isinstance(other_node, dict):
        at = _place(node, at)
        node, other_node = _plain(node), _plain(other_node)
        if node.keys() != other_node.keys():
            return at
        parts = [(node[key], other_node[key]) for key in node]
    elif isinstance(node, list) and isinstance(other_node, list):
        if len(node) != len(other_node):
            return at
        parts = list(zip(node, other_node, strict=True))
    else:
        return None if node == other_node else at
    return next((pair for part, other_part in parts if (pair := _different(part, other_part, at)) is not None), None)


def _place(node: Mapping[str, Any], at: tuple[int, int]) -> tuple[int, int]:
    where = node.get("query_location")
    if not isinstance(where, int) or where == _NOWHERE:
        return at
    return where, node.get("query_location_length") or _LONGEST


def _plain(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node without positions, with one spelling for what has several."""
    plain = {
        key: _unsigned(entry) if key in _OPERANDS else entry for key, entry in node.items() if key not in _SPELLING
    }
    if plain.get("null_order") == "NULLS LAST":
        plain["null_order"] = "ORDER_DEFAULT"
    rewrite = _BY_CLASS.get(str(plain.get("class")))
    return plain if rewrite is None else rewrite(plain)


def _unsigned(operand: Any) -> Any:
    """An operand, or several, without a plus before a number: to DuckDB that is a call of the function +."""
    if isinstance(operand, list):
        return [_unsigned(one_of_several) for one_of_several in operand]
    if not isinstance(operand, dict) or operand.get("function_name") != "+":
        return operand
    operands = [
        argument.get("expression", argument) for argument in operand.get("arguments") or operand.get("children") or []
    ]
    literal = operands[0].get("literal") if len(operands) == 1 and operands[0].get("class") == "CONSTANT" else None
    is_number = isinstance(literal, dict) and literal.get("kind") != "STRING"
    return {**operands[0], "alias": operand.get("alias", "")} if is_number else operand


def _function(node: dict[str, Any]) -> dict[str, Any]:
    name = str(node.get("function_name")).lower()
    if name == "list_value" and node.get("schema") in ("", "main") and not node.get("filter"):
        parts = node.get("children", [argument.get("expression") for argument in node.get("arguments") or []])
        return {"class": "FUNCTION", _LIST: node.get("alias", ""), "children": parts}
    arguments = node.get("arguments")
    if isinstance(arguments, list):
        arguments = [
            {**argument, "expression": _unsigned(argument["expression"])} if "expression" in argument else argument
            for argument in arguments
        ]
        node = {**node, "arguments": arguments}
    return {**node, "function_name": _ONE_NAME.get(name, name)}


def _type(node: dict[str, Any]) -> dict[str, Any]:
    name = str(node.get("type_name")).lower()
    return {**node, "type_name": _ONE_TYPE.get(name, name)}


def _column(node: dict[str, Any]) -> dict[str, Any]:
    names = [str(name) for name in node.get("column_names") or []]
    is_value = len(names) == 1 and names[0].lower() in _VALUES
    return {**node, "column_names": [names[0].lower()]} if is_value else node


def _constant(node: dict[str, Any]) -> dict[str, Any]:
    literal = node.get("literal")
    if not isinstance(literal, dict) or literal.get("kind") == "STRING":
        return node
    digits = str(literal.get("text", "")).replace("_", "")
    return {**node, "literal": {**literal, "text": f"0{digits}" if digits.startswith(".") else digits}}


def _operator(node: dict[str, Any]) -> dict[str, Any]:
    """`x IS NOT NULL` as `NOT x IS NULL`, and `ARRAY[x, y]` as `[x, y]`, as far as DuckDB's versions have them."""
    if node.get("type") == "ARRAY_CONSTRUCTOR":
        return {"class": "FUNCTION", _LIST: node.get("alias", ""), "children": node.get("children")}
    if node.get("type") != "OPERATOR_IS_NOT_NULL":
        return node
    inner = {**node, "type": "OPERATOR_IS_NULL", "alias": ""}
    return {**node, "type": "OPERATOR_NOT", "children": [inner]}


_BY_CLASS = {
    "FUNCTION": _function,
    "TYPE": _type,
    "COLUMN_REF": _column,
    "CONSTANT": _constant,
    "OPERATOR": _operator,
}
