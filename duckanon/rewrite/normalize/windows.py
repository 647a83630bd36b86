"""Windows over whole partitions with one row kept of each, rewritten as grouping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Arithmetic,
    Column,
    Comparison,
    Constant,
    DistinctOn,
    Expr,
    Star,
    Window,
    WindowFunction,
    is_windowed,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block, Output, Source


class _No(Exception):
    """The block is not equivalent to grouping."""


def collapsed(block: Block, number: Callable[[], int]) -> Block | None:
    """A block that keeps one row of each partition (DISTINCT, DISTINCT ON, QUALIFY row_number() = 1), as grouping."""
    first = [condition for condition in block.qualify if _first_of(condition) is not None]
    if len(first) == 1 and block.distinct is None:
        window = _first_of(first[0])
        assert window is not None
        keys, loose = tuple(in_order(window.partition)), set(window.order) <= window.partition
    elif (on := distinct_on(block)) is not None and not first:
        keys, loose = tuple(dict.fromkeys(on.keys)), set(on.order) <= set(on.keys)
    elif block.distinct is not None and not first and any(map(is_windowed, block.distinct)):
        keys = tuple(dict.fromkeys(expr for expr in block.distinct if not is_windowed(expr)))
        loose = False
    else:
        return None
    if any(isinstance(part, Star) for expr in block.expressions() for part in walk(expr)):
        return None
    bare = replace(block, qualify=block.qualify - frozenset(first), distinct=None)
    try:
        if block.keys is None:
            return _grouped(_numbered(bare, first), keys, loose=loose)
        lower, upper, lift = _split(bare, number)
        return _grouped(upper, tuple(lift(key) for key in keys), loose=loose) if lower else None
    except _No:
        return None


def distinct_on(block: Block) -> DistinctOn | None:
    """What DISTINCT ON keeps one row of each of; None if the block has none."""
    match block.distinct:
        case (DistinctOn() as on,):
            return on
    return None


def _first_of(condition: Expr) -> Window | None:
    """The window, if the condition is row_number() OVER it = 1."""
    match condition:
        case Comparison("=" | "<=", Window() as window, Constant("1", False)):
            pass
        case Comparison("=", Constant("1", False), Window() as window):
            pass
        case _:
            return None
    return window if window.call == WindowFunction("row_number") and not window.frame else None


def _numbered(block: Block, first: list[Expr]) -> Block:
    """The block with row_number() replaced by 1, its value in the rows that are kept."""
    numbers = {node for condition in first for node in walk(condition) if isinstance(node, Window)}
    return (
        block.rebuilt(lambda expr: rebuilt(expr, lambda expression: Constant("1") if expression in numbers else None))
        if numbers
        else block
    )


def _grouped(block: Block, keys: tuple[Expr, ...], *, loose: bool) -> Block:
    """The ungrouped block with windows, grouped by `keys`. loose: other columns come from any row of the group."""
    partition = frozenset(keys)

    def change(expr: Expr) -> Expr | None:
        if expr in partition:
            return expr
        if isinstance(expr, Window):
            return _aggregated(expr, partition)
        if isinstance(expr, Column):
            if not loose:
                raise _No
            return Aggregate("any_value", (expr,))
        return None

    outputs = tuple(Output(output.name, rebuilt(output.expr, change)) for output in block.outputs)
    having = frozenset(rebuilt(condition, change) for condition in block.qualify)
    return replace(block, outputs=outputs, keys=keys, having=having, qualify=frozenset(), order=())


def _aggregated(window: Window, partition: frozenset[Expr]) -> Expr:
    """The value of a window for a group: its aggregate, or a sum of aggregates over several groups."""
    call = window.call
    if window.order or window.frame or not isinstance(call, Aggregate):
        raise _No
    if window.partition == partition:
        return call
    if window.partition < partition and call.name in ("count", "sum") and not call.distinct:
        return Window(Aggregate("sum", (call,)), window.partition)
    raise _No


def _split(block: Block, number: Callable[[], int]) -> tuple[Block, Block, Callable[[Expr], Expr]]:
    """A grouping block with windows as two blocks: one that groups, and one above it with the windows."""
    above = number()
    below: dict[Expr, str] = {}

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Window):
            call = expr.call
            if not isinstance(call, Aggregate):
                raise _No
            return expr.over(call.with_parts(lift), lift)
        if isinstance(expr, Aggregate | Column) or expr in (block.keys or ()):
            return Column(above, below.setdefault(expr, f"_{len(below)}"))
        return None

    def lift(expr: Expr) -> Expr:
        return rebuilt(expr, change)

    outputs = tuple(Output(output.name, lift(output.expr)) for output in block.outputs)
    qualify = frozenset(map(lift, block.qualify))
    upper = Block((), outputs, qualify=qualify, limited=block.limited, node=block.node)
    named = tuple(Output(name, expr) for expr, name in below.items())
    lower = replace(block, outputs=named, qualify=frozenset(), order=(), limited=False)
    return lower, replace(upper, sources=(Source(above, lower),)), lift


def _only_partition(block: Block) -> frozenset[Expr]:
    """The expressions by which all windows of a block are partitioned; none where they differ."""
    windows = {part for output in block.outputs for part in walk(output.expr) if isinstance(part, Window)}
    partitions = {window.partition for window in windows}
    return next(iter(partitions)) if len(partitions) == 1 else frozenset()


def _outputs_of_groups(
    inner: Block, keys: tuple[Expr, ...], number: int
) -> tuple[list[Output], dict[Expr | None, Expr]]:
    """The outputs of a windowed source that are the same for all records of a group, and what each column means.

    keys: of the groups. number: of the source, under which its columns are read.
    """
    outputs: list[Output] = []
    meaning: dict[Expr | None, Expr] = {}
    for output in inner.outputs:
        try:
            lower = replace(inner, outputs=(output,), order=())
            outputs += _grouped(lower, keys, loose=False).outputs
            meaning[Column(number, output.name.lower())] = output.expr
        except _No:
            continue
    return outputs, meaning


def regrouped(block: Block, _: Callable[[], int]) -> Block | None:
    """Groups counted through the rows of a windowed source: count(DISTINCT unit), or count(*) / size."""
    if block.keys is None or len(block.sources) != 1 or not isinstance(inner := block.sources[0].relation, Block):
        return None
    if inner.keys is not None or inner.distinct is not None or inner.qualify or inner.limited:
        return None
    partition = _only_partition(inner)
    if not partition:
        return None
    number = block.sources[0].number
    keys = tuple(in_order(partition))
    outputs, meaning = _outputs_of_groups(inner, keys, number)
    fixed = {expr for key in block.keys for part in walk(key) if (expr := meaning.get(part)) is not None}

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Star | Window) or (
            isinstance(expr, Column) and expr.source == number and expr not in meaning
        ):
            raise _No
        if isinstance(expr, Arithmetic) and expr.operator in ("/", "//") and expr.left == Aggregate("count"):
            size = meaning.get(expr.right)
            if isinstance(size, Window) and size.call == Aggregate("count") and size in fixed:
                return Aggregate("count")
        if isinstance(expr, Aggregate):
            expression = meaning.get(expr.argument)
            counts_units = expr.name == "count" and expr.distinct and not expr.where
            if counts_units and expression in partition and partition <= fixed | {expression}:
                return Aggregate("count", expr.operands)
            raise _No
        return None

    try:
        changed = replace(block, sources=()).rebuilt(lambda expr: rebuilt(expr, change))
    except _No:
        return None
    lower = replace(inner, outputs=tuple(outputs), keys=keys)
    return replace(changed, sources=(replace(block.sources[0], relation=lower),))
