"""Which noise a price buys, and what noise costs, in the unit of a population's ledger.

Without a delta that is an epsilon, and the noise is Laplace noise. With one it is a Rényi divergence, which pays for
Gaussian noise as well as for pure noise; then that is taken of the two which is nearer to the truth. What is taken
follows from the policy and the question alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from duckanon.accounting import written
from duckanon.engines.noise import Gaussian, Laplace, Noise
from duckanon.engines.noise_tails import least_width
from duckanon.renyi import Renyi


@dataclass(frozen=True)
class Moved:
    """How much one privacy unit changes numbers: in all (L1), and the squares of the changes added up (L2)."""

    distance: int
    squares: int


@dataclass(frozen=True)
class Spent:
    """What noise costs: a zero-concentrated rho, and the epsilon of what is pure.

    price: of both together, in the unit of the ledger.
    """

    rho: Fraction
    epsilon: Fraction
    price: Fraction

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.rho + other.rho, self.epsilon + other.epsilon, self.price + other.price)

    def __mul__(self, times: int) -> Spent:
        return Spent(self.rho * times, self.epsilon * times, self.price * times)

    @property
    def words(self) -> str:
        """As the ledger of a population with a delta says it."""
        found = [
            (f"gaussian, rho {written(self.rho)}", self.rho),
            (f"pure, epsilon {written(self.epsilon)}", self.epsilon),
        ]
        return "; ".join(text for text, amount in found if amount)


NO_NOISE = Spent(Fraction(0), Fraction(0), Fraction(0))


def bought(price: Fraction, moved: Moved, renyi: Renyi | None, *, parts: int = 1) -> Noise:
    """The noise of numbers for a price. parts: of how many each counted thing is made, in which the noise is drawn.

    The scale or the variance is that for whole things.
    """
    if renyi is None:
        return Laplace(moved.distance / price)
    gaussian = Gaussian(moved.squares / (2 * renyi.rho(price)))
    epsilon = renyi.pure(price)
    if epsilon == 0:
        return gaussian
    return min(gaussian, Laplace(moved.distance / epsilon), key=lambda item: _width(item.times(parts)))


def _width(noise: Noise) -> tuple[int, float]:
    """What decides which noise is nearer to the truth: its 95 % width, then its standard deviation."""
    return least_width(noise, 1), noise.deviation(1)


def spent(noise: Noise, moved: Moved, renyi: Renyi | None) -> Spent:
    """What the noise of numbers costs."""
    if isinstance(noise, Gaussian):
        return concentrated(noise.loss(moved.squares), renyi)
    assert isinstance(noise, Laplace)
    return pure(noise.loss(moved.distance), renyi)


def pure(epsilon: Fraction, renyi: Renyi | None) -> Spent:
    """What pure noise of an epsilon costs."""
    return Spent(Fraction(0), epsilon, epsilon if renyi is None else renyi.of_pure(epsilon))


def concentrated(rho: Fraction, renyi: Renyi | None) -> Spent:
    """What noise of a zero-concentrated rho costs."""
    assert renyi is not None, "A population without a delta has pure noise alone."
    return Spent(rho, Fraction(0), renyi.of_rho(rho))
