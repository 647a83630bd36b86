"""The queries of a dbt exposure, such as a dashboard: the compiled SQL of the models that it depends on.

Analysts ask protected and open tables, and no other models of the project. So where a query reads another model, that
model's own query stands in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import TableName
from duckanon.errors import InvalidInput
from duckanon.integrations.dbt_manifest import Node, compiled, read_manifest, relation
from duckanon.integrations.dbt_meta import declared
from duckanon.rewrite.bind import named
from duckanon.rewrite.dialect import DIALECT

# What dbt builds by a query.
_KINDS = ("model", "snapshot")


def queries(project: Path, exposure: str, asked: Collection[TableName] = ()) -> list[str]:
    """The queries of an exposure over tables that analysts may ask.

    project: its folder, compiled. asked: tables that are protected or open in the database, besides those that the
    project declares. Raises InvalidInput where there is no such project or exposure, or it has no query.
    """
    manifest = project / "target" / "manifest.json"
    if not manifest.is_file():
        raise InvalidInput(f"{project} is no dbt project that was compiled: run dbt compile in it first.")
    content = read_manifest(manifest)
    found = [one for one in content["exposures"].values() if one.get("name") == exposure]
    if not found:
        known = ", ".join(sorted(str(one.get("name")) for one in content["exposures"].values()))
        raise InvalidInput(f"The project has no exposure {exposure}: it has {known or 'none'}.")
    nodes = {**content["nodes"], **content["sources"]}
    models = _Models.of(content["nodes"], asked)
    told = [nodes[value] for value in (found[0].get("depends_on") or {}).get("nodes", ()) if value in nodes]
    read = [models.expanded(relation(one)) for one in told if relation(one) in models.nodes]
    if not read:
        raise InvalidInput(
            f"The exposure {exposure} depends on no model with a query of its own: dbt knows tables that it reads, and "
            "not what it asks of them. Give its queries in a file."
        )
    return read


@dataclass(frozen=True)
class _Models:
    """nodes: of each model that stands for its query, by the name of its table."""

    nodes: Mapping[TableName, Node]

    @staticmethod
    def of(nodes: Mapping[str, Node], asked: Collection[TableName]) -> _Models:
        found = {}
        for node in nodes.values():
            name = relation(node)
            if node.get("resource_type") not in _KINDS or node.get("language", "sql") != "sql":
                continue
            said = declared(node)
            if not said.protected and not said.open and not any(name.may_be(table_name) for table_name in asked):
                found[name] = node
        return _Models(found)

    def expanded(self, name: TableName, within: frozenset[TableName] = frozenset()) -> str:
        """The query of a model, over tables alone. within: the models in whose queries it stands.

        dbt allows no cycles, but a model that is built in steps reads its own table.
        """
        within |= {name}
        code = compiled(self.nodes[name])
        try:
            tree = sqlglot.parse_one(code, read=DIALECT)
        except (SqlglotError, RecursionError):
            # What reads it says what is wrong with it.
            return code
        for table in list(tree.find_all(exp.Table)):
            inner = named(table)
            if inner in self.nodes and inner not in within:
                query = sqlglot.parse_one(self.expanded(inner, within), read=DIALECT)
                alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
                table.replace(exp.Subquery(this=query, alias=alias))
        return str(tree.sql(DIALECT, comments=False, normalize_functions=False))
