"""Reads dbt's manifest, in which the nodes of a compiled project stand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duckanon.catalog.names import TableName, fold
from duckanon.errors import InvalidInput

Node = Mapping[str, Any]


def read_manifest(manifest: Path) -> dict[str, dict[str, Node]]:
    """The nodes, sources and exposures of a manifest, by their ids. Raises InvalidInput for what is none."""
    try:
        content = json.loads(manifest.read_text(encoding="utf-8-sig"))
        return {
            "nodes": dict(content["nodes"].items()),
            "sources": dict(content.get("sources", {}).items()),
            "exposures": dict(content.get("exposures", {}).items()),
        }
    except UnicodeDecodeError:
        raise InvalidInput(f"{manifest} is not UTF-8 text: save it as UTF-8.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{manifest} is no manifest of dbt: run dbt compile to make it again.") from None


def relation(node: Node) -> TableName:
    """The name of a node's table."""
    name = node.get("alias") or node.get("identifier") or node.get("name") or ""
    return TableName(*(fold(str(part or "")) for part in (node.get("database"), node.get("schema"), name)))


def compiled(node: Node) -> str:
    """The compiled SQL of a node. Raises InvalidInput where there is none."""
    code = node.get("compiled_code") or node.get("compiled_sql")
    if not code:
        raise InvalidInput(f"The dbt model {node.get('name')} is not compiled: run dbt compile first.")
    return str(code)
