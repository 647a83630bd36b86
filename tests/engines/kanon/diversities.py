"""l-diversity by its definitions, in whole numbers of any size, and what may be asked of small classes."""

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from hypothesis import strategies as st


def diverse(counts: Sequence[int], kind: str, l: int | Fraction, c: Fraction | None) -> bool:  # noqa: E741
    """Whether a class is l-diverse that has each of its values so often (Machanavajjhala et al. 2007, section 4).

    One without values is not.
    """
    size = sum(counts)
    if not size:
        return False
    if kind == "distinct":
        return len(counts) >= l
    if kind == "entropy":
        # - sum of r / s log(r / s) >= log l, times s, as powers.
        return Fraction(size) ** size >= Fraction(l) ** size * prod(count**count for count in counts)
    assert c is not None
    return max(counts) < c * sum(sorted(counts, reverse=True)[int(l) - 1 :])


DIVERSITIES = (
    st.tuples(st.just("distinct"), st.integers(1, 5), st.none())
    | st.tuples(st.just("entropy"), st.fractions(1, 5, max_denominator=6), st.none())
    | st.tuples(st.just("recursive"), st.integers(1, 4), st.fractions(Fraction(1, 4), 12, max_denominator=4))
)
