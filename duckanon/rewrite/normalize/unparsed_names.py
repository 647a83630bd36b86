"""Tables that are named in text which is not analysed as SQL."""

from __future__ import annotations

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import Node, nodes_of
from duckanon.rewrite.algebra.relations import Opaque, Relation, Table
from duckanon.rewrite.algebra.schema import Schema


def mentioned(schema: Schema, text: str) -> list[Relation]:
    """The protected tables whose names occur in a text."""
    if schema.protected is None:
        return []
    lowered = fold(text)
    return [Table(name, None, True) for name in sorted(schema.protected) if name.object in lowered]


def released(schema: Schema, node: Node) -> Opaque:
    """The protected tables that a release shows unchanged: those named in `within`, as earlier releases."""
    names = [
        part
        for one in nodes_of(node, exp.PropertyEQ, exp.Kwarg)
        if fold(one.this.name) == "within"
        for part in nodes_of(one.expression, exp.Literal, exp.Column)
    ]
    reads = [read for name in names for read in mentioned(schema, name.name)]
    return Opaque("an earlier release is shown as it is" if reads else "", tuple(reads))


def aliased(schema: Schema, node: Node, relation: Relation) -> Relation:
    """The relation of an item of FROM; not analysed if its alias is no plain name.

    sqlglot 26 reads DuckDB's `FROM alias: persons` as a table `alias` with a placeholder behind it.
    """
    alias = node.args.get("alias")
    said = alias.this if isinstance(alias, exp.TableAlias) else None
    if said is None or isinstance(said, exp.Identifier):
        return relation
    return Opaque("an alias that is no name", (relation, *mentioned(schema, str(said.name))))
