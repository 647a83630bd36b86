"""What the statistics of numbers in a query are of: columns with bounds, and what is computed of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TypeVar

from duckanon.releases.noise import columns_of, not_dropped
from duckanon.releases.numbers import CentredProduct, Columns, Quantity, product, quantity
from duckanon.releases.plan_keys import PlannedKeys
from duckanon.releases.statistics import Mean, Spread, Sum
from duckanon.rewrite.algebra.bounds import NotBounded
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.rewrite.normalize.grouped import NotFollowed
from duckanon.rewrite.recognize.findings import Statistic, Unanswered

SPREADING = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
COVARIANCE = "covar_pop"
# The statistics that are computed from sums.
SUMMED: dict[str, type[Sum | Mean | Spread]] = {"sum": Sum, "avg": Mean, **dict.fromkeys(SPREADING, Spread)}
N = TypeVar("N", Quantity, CentredProduct)


class PlannedQuantities(PlannedKeys):
    """The numbers of a query."""

    @cached_property
    def _quantities(self) -> dict[Expr, Quantity]:
        """What statistics of numbers are of."""
        columns = Columns(self._protected, self._types, self._context.today)
        asked = [one for one in self._statistics if one.name in (*SUMMED, COVARIANCE, "quantile")]
        operands = [(one, of) for one in asked for of in (one.operand, one.other) if of is not None]
        return {of: self._made(one, of, partial(quantity, columns, of, self._shown(of))) for one, of in operands}

    @cached_property
    def _products(self) -> dict[tuple[Expr, Expr], CentredProduct]:
        """What covariances are of, beside both numbers."""
        columns, found = Columns(self._protected, self._types, self._context.today), {}
        for one in self._statistics:
            if one.name == COVARIANCE and one.operand is not None and one.other is not None:
                shown = self._shown(one.operand), self._shown(one.other)
                made = partial(product, columns, one.operand, one.other, shown)
                found[one.operand, one.other] = self._made(one, one.operand, made)
        return found

    @property
    def _measured_quantities(self) -> list[Quantity]:
        return [*self._quantities.values(), *(one.quantity for one in self._products.values())]

    def _made(self, one: Statistic, operand: Expr, make: Callable[[], N]) -> N:
        """What is made of an operand. Raises NotOffered, NotFollowed and NotTotal."""
        not_dropped(self._context, self._table, columns_of(operand))
        try:
            return make()
        except NotBounded as no:
            told = {"quantile": "quantile_cont", COVARIANCE: "avg"}.get(one.name, one.name)
            further = "" if one.place is None else f", {float(one.place):g}"
            why = Unanswered(
                str(no),
                tuple(sorted(columns_of(operand))),
                (f"{told}({{}}{further})",),
                otherwise="ask the steward for a column with bounds that holds it",
            )
            raise NotFollowed(why.reason, why=why) from no

    def _of(self, one: Statistic) -> Quantity:
        assert one.operand is not None
        return self._quantities[one.operand]

    def _of_covariance(self, one: Statistic) -> tuple[Quantity, Quantity, Quantity]:
        """Both numbers that a covariance is of, and their product."""
        assert one.operand is not None
        assert one.other is not None
        left, right = self._quantities[one.operand], self._quantities[one.other]
        return left, right, self._products[one.operand, one.other].quantity

    @cached_property
    def _summed(self) -> dict[tuple[bool, str], bool]:
        """What is summed, and whether its squares are needed."""
        found: dict[tuple[bool, str], bool] = {}
        for one in self._statistics:
            if one.name in SUMMED:
                summed = self._of(one).identity
                found[summed] = found.get(summed, False) or one.name in SPREADING
            elif one.name == COVARIANCE:
                for each in self._of_covariance(one):
                    found.setdefault(each.identity, False)
        return found
