"""Group-size queries: groups of a unit, counted again by their size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from duckanon.rewrite.algebra.expressions import (
    NULL,
    Aggregate,
    Column,
    Comparison,
    Constant,
    Expr,
    Nested,
    Star,
    Unclear,
    Window,
    conjuncts,
    is_aggregated,
    is_windowed,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Source, Union, is_protected
from duckanon.rewrite.algebra.rows import by_key, is_clean, is_closed, present, records, watched, whose
from duckanon.rewrite.recognize.findings import GroupSizes, Role
from duckanon.rewrite.recognize.measures import measure

# Aggregates that show a column's value for a whole unit. Minima and maxima are statistics.
_SHOWING = ("any_value",)
# Quantiles by the names that sqlglot or DuckDB gives them, with DuckDB's.
QUANTILES = {
    **{name: name for name in ("median", "quantile", "quantile_cont", "quantile_disc")},
    "percentile_cont": "quantile_cont",
    "percentile_disc": "quantile_disc",
}


@dataclass(frozen=True)
class _Groups:
    """The inner grouping. number: of the source. block: the grouping itself. frame: sources joined with it."""

    number: int
    block: Block
    frame: tuple[Source, ...]

    def expanded(self, expr: Expr) -> Expr | None:
        """The expression with the groups' columns written out; None if a column is unknown."""
        missing = False

        def change(expression: Expr) -> Expr | None:
            nonlocal missing
            if isinstance(expression, Column) and expression.source == self.number:
                output = self.block.output(expression.name)
                missing |= output is None
                return output
            missing |= isinstance(expression, Star)
            return None

        expression = rebuilt(expr, change)
        return None if missing else expression


def group_sizes(block: Block) -> GroupSizes | None:
    """The group sizes for which a block asks; None if it asks for something else."""
    groups = _groups(block)
    if groups is None or not is_closed(block):
        return None
    inner = groups.block
    assert inner.keys is not None
    keys = [groups.expanded(key) for key in block.keys or ()]
    where = [groups.expanded(condition) for condition in block.where if not _joins(condition, groups)]
    if any(key is None for key in (*keys, *where)):
        return None
    size = _size([key for key in (*keys, *where, *_asked(block, groups)) if key is not None], inner)
    if size is None or any(key is None or isinstance(key, Star | Window | Nested | Unclear) for key in keys):
        return None
    roles = _roles(dict(zip(block.keys or (), keys, strict=True)), size, groups)
    if roles is None:
        return None
    regions = list(dict.fromkeys(role.expr for role in roles.values() if role.what == "region" and role.expr))
    unit = tuple(key for key in inner.keys if key not in regions)
    if not unit or any(isinstance(key, Constant) for key in unit):
        return None
    columns = _columns(block, groups, roles, size, unit, tuple(regions))
    if columns is None:
        return None
    kept = frozenset(part for part in where if part is not None and is_aggregated(part)) | inner.having
    filters = frozenset(part for part in where if part is not None and not is_aggregated(part)) | inner.where
    met = {
        condition
        for condition in (*block.where, *(condition for source in block.sources for condition in source.on))
        if _joins(condition, groups)
    }
    joins = frozenset(expression for condition in met if (expression := groups.expanded(condition)) is not None)
    table = whose(inner.sources, size, filters)
    if table is None or not records(inner.sources) or not records(groups.frame):
        return None
    if not all(map(is_clean, (*filters, *kept, *unit, *regions, size))):
        return None
    owner = next((source for source in inner.sources if getattr(source.relation, "name", None) == table), None)
    outer = owner is not None and owner.join == "left"
    if outer and not size.operands:
        return None  # count(*) over a LEFT JOIN gives a unit without records the size of one
    return GroupSizes(
        table=table,
        tables=watched(block),
        sources=inner.sources,
        filter=filters,
        node=block.node,
        unit=unit,
        size=size,
        regions=tuple(regions),
        keys=tuple(key for key in keys if key is not None),
        sets=tuple(tuple(sorted(numbers)) for numbers in block.sets or [frozenset(range(len(keys)))]),
        kept=kept,
        zeros=outer
        or bool(size.where)
        or any(source.join == "left" for source in block.sources if source.number == groups.number),
        frame=groups.frame,
        joins=joins,
        columns=columns,
        whole=not block.having and not block.qualify and block.distinct is None,
    )


def _roles(keys: dict[Expr, Expr | None], size: Aggregate, groups: _Groups) -> dict[Expr, Role] | None:
    """What each key of the outer block is, a size or a region; None if one is neither.

    keys: as written, and with the groups' columns written out.
    """
    roles: dict[Expr, Role] = {}
    for written, key in keys.items():
        if key is not None and _is_of(key, size):
            roles[written] = Role(name="", what="size", expr=key)
        elif key is not None and _is_region(key, groups):
            roles[written] = Role(name="", what="region", expr=key)
        else:
            return None
    return roles


def levels_in_union(union: Union, members: list[GroupSizes]) -> GroupSizes | None:
    """A UNION ALL of group-size queries for several levels of a hierarchy, as one; None if they differ otherwise."""
    if union.kind != "all" or len(members) != len(union.members):
        return None
    longest = max(members, key=lambda member: len(member.regions))
    names = _names(longest)
    same = _comparable(longest, names)
    if any(_comparable(member, names) != same or len(member.sets) != 1 for member in members) or any(
        set(_names(member)) - set(names) for member in members
    ):
        return None
    keys = [_anonymous(key) for key in longest.keys]
    sets = tuple(
        tuple(at for at, key in enumerate(keys) if key not in names or key in _names(member)) for member in members
    )
    return replace(longest, sets=sets, node=union.node) if len(set(sets)) == len(sets) else None


def _anonymous(expr: Expr) -> Expr:
    return rebuilt(expr, lambda column: Column(1, column.name) if isinstance(column, Column) else None)


def _names(sizes: GroupSizes) -> list[Expr]:
    return [_anonymous(region) for region in sizes.regions]


def _comparable(sizes: GroupSizes, names: list[Expr]) -> object:
    """What must not differ between levels. One table is read, so the numbers of sources do not matter."""
    if len(sizes.sources) != 1:
        return object()
    return (
        sizes.table,
        frozenset(_anonymous(region) for region in (*sizes.unit, *sizes.regions)) - frozenset(names),
        _anonymous(sizes.size),
        frozenset(map(_anonymous, sizes.filter)),
        frozenset(map(_anonymous, sizes.kept)),
    )


def _groups(block: Block) -> _Groups | None:
    if block.keys is None or block.spread:
        return None
    grouped = [
        source
        for source in block.sources
        if isinstance(source.relation, Block) and source.relation.keys and source.join in ("inner", "left")
    ]
    if len(grouped) != 1 or not isinstance(inner := grouped[0].relation, Block):
        return None
    if inner.sets is not None or inner.limited or inner.distinct is not None or inner.qualify or not is_closed(inner):
        return None
    if any(is_windowed(output.expr) for output in inner.outputs):
        return None
    frame = tuple(source for source in block.sources if source is not grouped[0])
    groups = _Groups(grouped[0].number, inner, frame)
    # Each key of the groups must be equal to a column of the frame, so that the frame only adds columns to the groups.
    matched = {_matched(condition, groups) for source in block.sources for condition in source.on} | {
        _matched(condition, groups) for condition in block.where
    }
    if frame and not set(inner.keys or ()) <= matched:
        return None
    # With a protected table, or one with several rows for a group, pairs would be counted.
    if any(is_protected(source.relation) or not by_key(source, block.sources, block.where) for source in frame):
        return None
    return groups


def _matched(condition: Expr, groups: _Groups) -> Expr | None:
    """The key of the groups that a condition equates with a column of the frame; None if it does not."""
    if not isinstance(condition, Comparison) or condition.operator != "=":
        return None
    left, right = condition.left, condition.right
    for expression, other in ((left, right), (right, left)):
        if (
            isinstance(expression, Column)
            and isinstance(other, Column)
            and expression.source == groups.number != other.source
        ):
            return groups.block.output(expression.name)
    return None


def _joins(condition: Expr, groups: _Groups) -> bool:
    return bool(groups.frame) and _matched(condition, groups) is not None


def _size(exprs: list[Expr], inner: Block) -> Aggregate | None:
    """The only aggregate in keys, conditions and statistics, if it is the size of a group.

    Where none of them has one, groups are counted whatever their sizes are, or kept by them.
    """
    aggregates = _aggregates(exprs) or _aggregates(inner.having) or {Aggregate("count")}
    sizes = {aggregate for aggregate in aggregates if aggregate.name in ("count", "sum") and not is_windowed(aggregate)}
    if len(sizes) != 1 or any(size.name not in _SHOWING for size in aggregates - sizes):
        return None
    size = next(iter(sizes))
    if size.name == "sum" and (size.distinct or size.argument is None):
        return None
    return None if any(map(is_aggregated, size.parts)) else size


def _aggregates(exprs: Iterable[Expr]) -> set[Aggregate]:
    return {node for expr in exprs for node in walk(expr) if isinstance(node, Aggregate)}


def _asked(block: Block, groups: _Groups) -> list[Expr]:
    """Conditions on sizes inside the outer aggregates, count(*) FILTER (WHERE size = 1), and what statistics are of."""
    expressions: list[Expr] = []
    for output in block.outputs:
        for node in walk(output.expr):
            if not isinstance(node, Aggregate) or not _is_own(node):
                continue
            meant = measure(node, block.sources)
            conditions = [*node.where, *(meant.where if meant is not None else ())]
            conditions += (*node.operands, *node.order) if meant is None or meant.weight is not None else ()
            expressions += [
                expr
                for condition in conditions
                if (expr := groups.expanded(condition)) is not None and is_aggregated(expr)
            ]
    return expressions


def _is_of(expr: Expr, size: Aggregate) -> bool:
    """Whether an expression is computed from the size alone, and does depend on it."""
    inside = list(walk(expr, into=lambda expression: expression != size))
    return size in inside and not any(
        isinstance(expression, Column | Star | Aggregate | Nested) and expression != size for expression in inside
    )


def _is_computed(expr: Expr, known: tuple[Expr, ...]) -> bool:
    """Whether an expression is computed from known ones alone."""
    inside = walk(expr, into=lambda expression: expression not in known)
    return all(
        expression in known or not isinstance(expression, Column | Star | Aggregate | Nested) for expression in inside
    )


def _is_region(expr: Expr, groups: _Groups) -> bool:
    """Whether an expression is computed from keys of the groups, their shown columns, and columns of the frame."""
    keys = groups.block.keys or ()
    framed = {source.number for source in groups.frame}

    def stop(expression: Expr) -> bool:
        return expression in keys or (
            isinstance(expression, Aggregate) and expression.name in _SHOWING and expression.argument is not None
        )

    inside = list(walk(expr, into=lambda expression: not stop(expression)))
    return all(
        stop(expression)
        or not isinstance(expression, Column | Star | Aggregate | Nested)
        or (isinstance(expression, Column) and expression.source in framed)
        for expression in inside
    )


def _columns(
    block: Block,
    groups: _Groups,
    roles: dict[Expr, Role],
    size: Aggregate,
    unit: tuple[Expr, ...],
    regions: tuple[Expr, ...],
) -> tuple[Role, ...] | None:
    """What each column shows; None if one shows something else, or none shows how many groups there are."""
    columns: list[Role] = []
    counted = False
    for expr in (*(output.expr for output in block.outputs), *block.having, *block.qualify, *block.order):
        for node in walk(expr, into=lambda part: part not in roles and not _is_own(part)):
            if node in roles:
                continue
            if isinstance(node, Column | Star | Nested):
                return None
            if _is_own(node):
                if (
                    _counts_groups(node, block, groups, size, unit, regions) is None
                    and _statistic(node, groups, size, regions) is None
                ):
                    return None
                counted = True
    for output in block.outputs:
        role = roles.get(output.expr)
        if role is not None:
            columns.append(replace(role, name=output.name))
            continue
        where = _counts_groups(output.expr, block, groups, size, unit, regions)
        statistic = _statistic(output.expr, groups, size, regions) if where is None else None
        if where is not None:
            columns.append(Role(name=output.name, what="groups", where=where))
        elif statistic is not None:
            columns.append(Role(name=output.name, what="statistic", expr=statistic))
        else:
            columns.append(Role(name=output.name, what="derived"))
    return tuple(columns) if counted else None


def _is_own(expr: Expr) -> bool:
    """Whether it is an aggregate of the block itself, not a window's over such aggregates."""
    return isinstance(expr, Aggregate) and not expr.is_of_aggregates


def _counts_groups(
    expr: Expr, block: Block, groups: _Groups, size: Aggregate, unit: tuple[Expr, ...], regions: tuple[Expr, ...]
) -> frozenset[Expr] | None:
    """The conditions on groups under which an aggregate counts them; None if it counts something else."""
    if not isinstance(expr, Aggregate):
        return None
    where: frozenset[Expr] = frozenset()
    if expr.name == "count" and expr.argument is not None:
        expression = groups.expanded(expr.argument)
        if expression is None:
            return None
        if expr.distinct and not (block.sets is None and unit == (expression,)):
            return None
        if not expr.distinct and expression in (groups.block.keys or ()):
            where |= {present(expression)}
        elif isinstance(expression, Aggregate) and expression.name == "count":
            pass
        elif not expr.distinct:
            return _plain(expr, block, groups, size, regions)
        elif expression in unit:
            where |= {present(expression)}
        return where | _expanded(expr.where, groups)
    return _plain(expr, block, groups, size, regions)


def _plain(
    expr: Aggregate, block: Block, groups: _Groups, size: Aggregate, regions: tuple[Expr, ...]
) -> frozenset[Expr] | None:
    meant = measure(expr, block.sources)
    if meant is None or meant.weight is not None or meant.scale != 1:
        return None
    where = _expanded(meant.where, groups)
    follows = all(_is_of(condition, size) or _is_computed(condition, (size, *regions)) for condition in where)
    return where if follows else None


def _expanded(exprs: Iterable[Expr], groups: _Groups) -> frozenset[Expr]:
    return frozenset().union(*(conjuncts(groups.expanded(expr) or NULL) for expr in exprs))


def _statistic(expr: Expr, groups: _Groups, size: Aggregate, regions: tuple[Expr, ...]) -> Aggregate | None:
    """An outer aggregate that follows from how many groups there are of each size, over the groups' own columns."""
    if not isinstance(expr, Aggregate) or not expr.operands or expr.order:
        return None
    operands = [groups.expanded(operand) for operand in expr.operands]
    where = _expanded(expr.where, groups)
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    of, *more = known
    if not all(_is_computed(condition, (size, *regions)) for condition in (of, *where)):
        return None
    of_sizes = _is_computed(of, (size,))
    if expr.name in QUANTILES:
        place = not more if expr.name == "median" else len(more) == 1 and isinstance(more[0], Constant)
        follows = of_sizes and place and not expr.distinct
    elif expr.name in ("sum", "avg"):
        follows = of_sizes and not more and not expr.distinct
    else:
        follows = not more and (expr.name in ("min", "max") or (expr.name == "count" and expr.distinct))
    return Aggregate(QUANTILES.get(expr.name, expr.name), (of, *more), expr.distinct, where) if follows else None
