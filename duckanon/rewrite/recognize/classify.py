"""The findings about a query: each use of a protected table once, as the kind that it is proven to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Arithmetic,
    Column,
    Expr,
    InQuery,
    Nested,
    ScalarQuery,
    Star,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Opaque, Relation, Table, Union, is_protected, nested, tables
from duckanon.rewrite.algebra.rows import is_closed
from duckanon.rewrite.recognize.conditional import conditionals
from duckanon.rewrite.recognize.counts import counts
from duckanon.rewrite.recognize.findings import Finding, GroupSizes, RecordReads, Unknown
from duckanon.rewrite.recognize.group_size import group_sizes, levels_in_union
from duckanon.rewrite.recognize.record_reads import record_reads


def findings(relation: Relation) -> tuple[Finding, ...]:
    """What a query asks of protected tables; empty if it uses none."""
    return tuple(_once(_relation(relation)))


def _relation(relation: Relation) -> Iterator[Finding]:
    if not is_protected(relation):
        return
    if isinstance(relation, Block):
        yield from _block(relation)
    elif isinstance(relation, Union):
        members = [list(_relation(member)) for member in relation.members]
        sizes = [member[0] for member in members if len(member) == 1 and isinstance(member[0], GroupSizes)]
        whole = levels_in_union(relation, [size for size in sizes if isinstance(size, GroupSizes)])
        if whole is not None:
            yield whole
        else:
            for of_member in members:
                yield from of_member
    elif isinstance(relation, Table):
        yield RecordReads(table=relation.name, tables=(relation.name,))
    else:
        yield from _unknown(relation, relation.reason or "what reads it is not followed")


def _block(block: Block) -> Iterator[Finding]:
    sizes = group_sizes(block) if _may_count_groups(block) else None
    if sizes is not None:
        yield sizes
        return
    shares = conditionals(block) if _may_have_shares(block) else ()
    if shares:
        yield from shares
        shown = {share.name for share in shares}
        rest = tuple(output for output in block.outputs if output.name not in shown)
        counted = counts(_only(block, rest))
        keys = block.keys or ()
        plain = all(_is_of(output.expr, keys) for output in rest)
        if counted is not None and not plain:
            yield counted
        elif not plain:
            yield from _rest(block, "beside proportions it shows something else")
        return
    counted = counts(block)
    if counted is not None:
        yield counted
        return
    yield from _rest(block, "it computes something else than counts")


def _may_count_groups(block: Block) -> bool:
    """Whether a block reads another one: groups whose sizes are asked for are such a one."""
    return any(isinstance(source.relation, Block) for source in block.sources)


def _may_have_shares(block: Block) -> bool:
    """Whether a block shows a quotient or an average: every share is one."""
    parts = (node for output in block.outputs for node in walk(output.expr))
    return any(
        (isinstance(part, Arithmetic) and part.operator == "/") or (isinstance(part, Aggregate) and part.name == "avg")
        for part in parts
    )


def _is_of(expr: Expr, keys: tuple[Expr, ...]) -> bool:
    """Whether an expression is computed from keys alone."""
    inside = walk(expr, into=lambda expression: expression not in keys)
    return all(
        expression in keys or not isinstance(expression, Column | Star | Aggregate | Nested) for expression in inside
    )


def _only(block: Block, outputs: tuple[object, ...]) -> Block:
    return replace(block, outputs=outputs)  # type: ignore[arg-type]


def _rest(block: Block, reason: str) -> Iterator[Finding]:
    """Findings about a block of no known kind: the records that it shows, or else findings about its sources."""
    own = [
        source.relation for source in block.sources if isinstance(source.relation, Table) and source.relation.protected
    ]
    read = record_reads(block) if own else None
    if read is not None:
        yield read
    elif own:
        yield Unknown(
            table=own[0].name,
            tables=tuple(dict.fromkeys(table.name for table in tables(block) if table.protected)),
            sources=block.sources,
            filter=block.where,
            node=block.node,
            reason=reason,
        )
    for source in block.sources:
        if not isinstance(source.relation, Table):
            yield from _relation(source.relation)
    for subquery in nested(block.expressions()):
        if is_protected(subquery.query):
            yield from _nested(subquery)


def _nested(subquery: Nested) -> Iterator[Finding]:
    """Findings about a subquery in an expression: about itself, unless it depends on the outer row."""
    query = subquery.query
    if isinstance(query, Block) and isinstance(subquery, ScalarQuery) and is_closed(query):
        yield from _relation(query)
        return
    reason = "a subquery looks at it for each row"
    if not isinstance(subquery, ScalarQuery):
        reason = f"a subquery in {'IN' if isinstance(subquery, InQuery) else 'EXISTS'} probes it"
    yield from _unknown(query, reason)


def _unknown(relation: Relation, reason: str) -> Iterator[Finding]:
    node = relation.node if isinstance(relation, Block | Union | Opaque) else None
    for name in dict.fromkeys(table.name for table in tables(relation) if table.protected):
        yield Unknown(table=name, tables=(name,), node=node, reason=reason)


def _once(repeated: Iterator[Finding]) -> Iterator[Finding]:
    """Each finding once: the same CTE may be read several times."""
    keys: set[object] = set()
    for finding in repeated:
        key = (
            finding.kind,
            finding.table,
            id(finding.node),
            getattr(finding, "name", None),
            getattr(finding, "reason", None),
        )
        if key not in keys:
            keys.add(key)
            yield finding
