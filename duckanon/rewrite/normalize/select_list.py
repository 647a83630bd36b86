"""The outputs of a SELECT: names, expanded stars, and aliases that later expressions can use."""

from __future__ import annotations

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.rewrite.algebra.nodes import Node, arg, sql
from duckanon.rewrite.algebra.relations import Output
from duckanon.rewrite.algebra.scope import Scope
from duckanon.rewrite.algebra.translate import translate


def outputs(node: Node, scope: Scope) -> list[Output]:
    """The outputs of a SELECT with stars expanded. Each alias is added to the scope for what follows."""
    found: list[Output] = []
    for one in node.expressions:
        bare = one.this if isinstance(one, exp.Alias) else one
        stars: list[Output] | None = None
        if isinstance(bare, exp.Star):
            stars = scope.expanded(None, *_star_changes(bare, scope))
        elif isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star):
            stars = scope.expanded(fold(bare.table), *_star_changes(bare.this, scope))
        if stars is not None:
            found += stars
            continue
        expr = translate(one, scope)
        told = one.alias or (bare.name if isinstance(bare, exp.Column) else "")
        name = told or unnamed(bare)
        found.append(Output(name, expr))
        scope.aliases.setdefault(fold(name), expr)
    return found


def unnamed(node: Node) -> str:
    """The name that DuckDB gives to a column without an alias."""
    rows = isinstance(node, exp.Count) and (node.this is None or isinstance(node.this, exp.Star))
    return "count_star()" if rows else sql(node).lower().replace("(distinct ", "(DISTINCT ")


def _star_changes(star: Node, scope: Scope) -> tuple[frozenset[str], dict[str, Expr]]:
    excluded = arg(star, "except") or []
    without = frozenset(fold(one.name) for one in (excluded if isinstance(excluded, list) else [excluded]))
    replaced = {fold(one.alias): translate(one.this, scope) for one in star.args.get("replace") or []}
    # A renamed column keeps its value. Its new name is found only if the columns are known.
    for one in star.args.get("rename") or []:
        without |= {fold(one.this.name)}
        replaced[fold(one.alias)] = translate(one.this, scope)
    return without, replaced
