"""sqlglot's nodes: what differs between its versions stands here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from sqlglot import ErrorLevel, exp

Node: TypeAlias = Any  # sqlglot's root class has another name in each major version
ROOT: Any = getattr(exp, "Expr", exp.Expression)
# The names of the arguments FROM and WITH of a query: Python's own words, behind which later versions write a mark.
FROM, WITH = (f"{argument}_" if f"{argument}_" in exp.Select.arg_types else argument for argument in ("from", "with"))


def arg(node: Node, name: str) -> Any:
    """An argument whose name is a Python keyword (`from`, `with`, `except`): later versions write `from_`."""
    argument = node.args.get(name)
    return argument if argument is not None else node.args.get(f"{name}_")


_NAMED = (exp.Anonymous, exp.AnonymousAggFunc)


def name_of(node: Node) -> str:
    """The lower-case name of a function, as written or as sqlglot names it."""
    if isinstance(node, _NAMED):
        return str(node.this).lower()
    kind: Any = type(node)
    return _name_of_kind(kind)


@cache
def _name_of_kind(kind: Any) -> str:
    return str(kind.sql_name()).lower() if issubclass(kind, exp.Func) else str(kind.key)


def given(node: Node) -> Iterator[tuple[str, Any]]:
    """The arguments that are set: `this` first, then the others by name."""
    for name in sorted(node.args, key=lambda name: (name != "this", name)):
        argument = node.args[name]
        if argument is not None and argument is not False and argument != []:
            yield name, argument


def parsed_type(kind: str) -> Node:
    """The type that DuckDB writes so."""
    return exp.DataType.build(kind, dialect="duckdb", udt=True)


def sql(node: Node) -> str:
    """The node as SQL in DuckDB's dialect, without sqlglot's warnings about other dialects."""
    return str(node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE))


def nodes_of(node: Node, *kinds: Any) -> list[Node]:
    """The nodes of some kinds in a tree, itself too, level by level: as sqlglot's `find_all`, and faster."""
    matching, level = [], [node]
    for current in level:  # it grows meanwhile
        if isinstance(current, kinds):
            matching.append(current)
        for argument in current.args.values():
            if isinstance(argument, ROOT):
                level.append(argument)
            elif isinstance(argument, list):
                level += [child for child in argument if isinstance(child, ROOT)]
    return matching


def kinds_of(node: Node) -> set[Any]:
    """The classes of the nodes in a tree, and all that these derive from: `nodes_of` finds nothing of any other."""
    kinds = {type(descendant) for descendant in nodes_of(node, ROOT)}
    return kinds.union(*(kind.__mro__ for kind in kinds))


def copied(node: Node, without: Sequence[str] = ()) -> Node:
    """A copy of a tree, as sqlglot's own `copy`, and faster. without: arguments of its root that are left out."""
    root = _bare(node)
    stack = [(node, root)]
    while stack:
        old, new = stack.pop()
        for name, argument in old.args.items():
            if old is node and name in without:
                continue
            if isinstance(argument, ROOT):
                child = new.args[name] = _bare(argument)
                child.parent, child.arg_key = new, name
                stack.append((argument, child))
            elif isinstance(argument, list):
                held = new.args[name] = [_bare(part) if isinstance(part, ROOT) else part for part in argument]
                for at, (part, child) in enumerate(zip(argument, held, strict=True)):
                    if isinstance(part, ROOT):
                        child.parent, child.arg_key, child.index = new, name, at
                        stack.append((part, child))
            else:
                new.args[name] = argument
    return root


def _bare(node: Node) -> Node:
    """A node without its arguments."""
    new = node.__class__()
    if node.comments is not None:
        new.comments = list(node.comments)
    if node._type is not None:
        new._type = node._type
    if node._meta is not None:
        new._meta = dict(node._meta)
    return new


def queries_in(node: Node) -> list[Node]:
    """The outermost queries in a node."""
    nodes: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, exp.Query) and current is not node:
            nodes.append(current)
            continue
        for argument in current.args.values():
            stack += [
                part for part in (argument if isinstance(argument, list) else [argument]) if isinstance(part, ROOT)
            ]
    return nodes


def sources(query: Node) -> list[Node]:
    """What stands in FROM, each source without the condition by which it is joined."""
    from_clause = arg(query, "from")
    return [] if from_clause is None else [from_clause.this, *(join.this for join in query.args.get("joins") or [])]


def within(node: Node, whole: Node) -> bool:
    """Whether a node is part of a tree."""
    parent = node
    while parent is not None:
        if parent is whole:
            return True
        parent = parent.parent
    return False


def reads_itself(cte: Node) -> bool:
    name = str(cte.alias).lower()
    return any(str(table.name).lower() == name and not table.db for table in nodes_of(cte.this, exp.Table))
