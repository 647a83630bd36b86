"""Tables that a text names without being SQL that is followed."""

from __future__ import annotations

from duckanon.rewrite.spot.names import fold
from duckanon.rewrite.spot.relations import Relation, Table
from duckanon.rewrite.spot.schema import Schema


def mentioned(schema: Schema, text: str) -> list[Relation]:
    """The protected tables that a text could name."""
    if schema.protected is None:
        return []
    lowered = fold(text)
    return [Table(name, None, True) for name in sorted(schema.protected) if name.object in lowered]
