"""Quantiles at a list of positions, written as a list of quantiles.

quantile_cont(pay, [0.25, 0.5]) becomes [quantile_cont(pay, 0.25), quantile_cont(pay, 0.5)].
"""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node, copied, nodes_of
from duckanon.rewrite.normalize.select_list import unnamed

_QUANTILES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)


def split(query: Node) -> None:
    """Write each quantile at a list of positions as a list of quantiles, in place; columns keep their names."""
    for one in nodes_of(query, *_QUANTILES):
        key = next((name for name in ("expression", "quantile") if isinstance(one.args.get(name), exp.Array)), None)
        whole = one.parent if isinstance(one.parent, exp.Filter) else one
        if key is None or isinstance(whole.parent, exp.Window | exp.WithinGroup):
            continue
        found = [_at(whole, one, key, place) for place in one.args[key].expressions]
        new: Node = exp.Array(expressions=found)
        if isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions":
            new = exp.alias_(new, unnamed(whole), quoted=True)
        whole.replace(new)


def _at(whole: Node, quantile: Node, key: str, place: Node) -> Node:
    """One of the quantiles, with the filter of them all."""
    single = copied(quantile)
    single.set(key, copied(place))
    if whole is quantile:
        return single
    filtered = copied(whole)
    filtered.set("this", single)
    return filtered
