"""The outputs of a SELECT: names, stars with what they leave out or replace, and aliases seen by what follows."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.spot.expressions import Aggregate, Expr
from duckanon.rewrite.spot.names import fold
from duckanon.rewrite.spot.relations import Output
from duckanon.rewrite.spot.scope import Scope
from duckanon.rewrite.spot.translate import translate
from duckanon.rewrite.spot.trees import Node, arg, sql


def outputs(node: Node, scope: Scope) -> list[Output]:
    """What a SELECT lets out, stars written out; each name is known to those after it."""
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
        name = told or ("count_star()" if expr == Aggregate("count") and _counts_rows(bare) else sql(bare).lower())
        found.append(Output(name, expr))
        scope.aliases.setdefault(fold(name), expr)
    return found


def _counts_rows(node: Node) -> bool:
    """Whether it is written as a count of rows: DuckDB calls count(1) and sum(1) what they are."""
    if isinstance(node, exp.Count):
        return node.this is None or isinstance(node.this, exp.Star)
    return isinstance(node, exp.Anonymous)


def _star_changes(star: Node, scope: Scope) -> tuple[frozenset[str], dict[str, Expr]]:
    excluded = arg(star, "except") or []
    without = frozenset(fold(one.name) for one in (excluded if isinstance(excluded, list) else [excluded]))
    replaced = {fold(one.alias): translate(one.this, scope) for one in star.args.get("replace") or []}
    # A renamed column keeps its value; under its new name it is found only where columns are known.
    for one in star.args.get("rename") or []:
        without |= {fold(one.this.name)}
        replaced[fold(one.alias)] = translate(one.this, scope)
    return without, replaced
