"""Tables that a text names without being SQL that is followed."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.spot.names import fold
from duckanon.rewrite.spot.relations import Opaque, Relation, Table
from duckanon.rewrite.spot.schema import Schema
from duckanon.rewrite.spot.trees import Node


def mentioned(schema: Schema, text: str) -> list[Relation]:
    """The protected tables that a text could name."""
    if schema.protected is None:
        return []
    lowered = fold(text)
    return [Table(name, None, True) for name in sorted(schema.protected) if name.object in lowered]


def aliased(schema: Schema, node: Node, relation: Relation) -> Relation:
    """The relation of an item of FROM, unless its alias is no name.

    sqlglot 26 reads DuckDB's `FROM alias: persons` as a table `alias` with a placeholder behind it.
    """
    alias = node.args.get("alias")
    said = alias.this if isinstance(alias, exp.TableAlias) else None
    if said is None or isinstance(said, exp.Identifier):
        return relation
    return Opaque("an alias that is no name", (relation, *mentioned(schema, str(said.name))))
