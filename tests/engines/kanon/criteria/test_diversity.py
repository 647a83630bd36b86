"""l-diversity against its definitions in whole numbers of any size."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.criteria import diversity as engine
from duckanon.engines.kanon.criteria.diversity import check_diverse, diversity
from duckanon.engines.kanon.risk import Sensitive, report
from duckanon.errors import InvalidInput
from tests.engines.kanon.diversities import DIVERSITIES, diverse

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def judged(counts: Sequence[int], kind: str, l: int | Fraction, c: Fraction | None = None) -> bool:  # noqa: E741
    return engine.are_diverse(diversity(kind, l, c), np.array(counts, np.int64), sum(counts))


@settings(max_examples=settings().max_examples // 2)
@given(COUNTS, DIVERSITIES)
def test_a_class_is_judged_by_the_definition(counts: list[int], asked: tuple) -> None:
    assert judged(counts, *asked) == diverse(counts, *asked)


@pytest.mark.parametrize(
    ("counts", "l"),
    [([2, 2], 2), ([7] * 11, 11), ([4, 1, 1, 1, 1], 4), ([40, 10, 10, 10, 10], 4), ([33_333_333] * 3, 3), ([3], 1)],
)
def test_entropies_of_exactly_log_l(counts: list[int], l: int) -> None:  # noqa: E741
    assert judged(counts, "entropy", l)
    assert not judged(counts, "entropy", l + Fraction(1, 10**6))
    codes = np.repeat(np.arange(len(counts), dtype=np.int32), np.array(counts) if sum(counts) < 10**6 else 1)
    assert report(np.array([len(codes)]), [Sensitive(codes, len(counts), False)]).entropy_l == l


def test_an_entropy_that_rounding_would_take_for_log_l() -> None:
    # One record of 10^8 away from thirds: 10^-16 below log 3.
    assert not judged([33_333_333, 33_333_333, 33_333_334], "entropy", 3)


def test_the_3_diverse_table_of_the_paper() -> None:
    # Inpatients in classes of four: heart disease, cancer and viral infection, one of them twice. 2.8 = sqrt(8).
    assert judged([2, 1, 1], "distinct", 3)
    assert judged([2, 1, 1], "entropy", Fraction("2.8"))
    assert not judged([2, 1, 1], "entropy", Fraction("2.83"))
    assert judged([2, 1, 1], "recursive", 3, Fraction("2.1"))
    assert not judged([2, 1, 1], "recursive", 3, Fraction(2))
    codes = np.array([0, 0, 1, 2] * 3, np.int32)
    found = report(np.array([4, 4, 4]), [Sensitive(codes, 3, False)], least=3)
    assert (found.l, found.recursive_c) == (3, 2.0)
    assert found.entropy_l == pytest.approx(8**0.5)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6).filter(
        lambda pairs: all(map(any, zip(*pairs, strict=True)))
    ),
    DIVERSITIES,
)
def test_what_joins_classes_that_are_diverse_is_diverse(pairs: list[tuple[int, int]], asked: tuple) -> None:
    one, other = ([count for count in counts if count] for counts in zip(*pairs, strict=True))
    both = [a + b for a, b in pairs if a + b]
    assert judged(both, *asked) or not (judged(one, *asked) and judged(other, *asked))


def test_all_small_classes_with_all_others() -> None:
    classes = [counts for counts in product(range(4), repeat=3) if any(counts)]
    for asked in (("entropy", Fraction(9, 5), None), ("entropy", 2, None), ("recursive", 2, Fraction(3, 2))):
        good = [counts for counts in classes if judged([count for count in counts if count], *asked)]
        assert 0 < len(good) < len(classes)
        for one, other in product(good, repeat=2):
            assert judged([a + b for a, b in zip(one, other, strict=True) if a + b], *asked)


@given(st.lists(COUNTS, min_size=1, max_size=4), st.integers(2, 4))
def test_recursive_c_is_what_c_must_exceed(classes: list[list[int]], least: int) -> None:
    codes = [np.repeat(np.arange(len(counts)), counts) for counts in classes]
    column = Sensitive(np.concatenate(codes).astype(np.int32), 6, False)
    found = report(np.array([len(part) for part in codes]), [column], least=least).recursive_c
    assert found is not None
    if found == np.inf:
        assert min(map(len, classes)) < least
        return
    ratio = Fraction(found).limit_denominator(100)  # a class has at most 54 records
    for c, good in ((ratio, False), (ratio + Fraction(1, 1000), True)):
        assert all(judged(counts, "recursive", least, c) for counts in classes) == good


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("distinct", 4, None), "l is 4, but a sensitive column has fewer distinct values among the records"),
        (("recursive", 4, Fraction(2)), "l is 4, but a sensitive column has fewer distinct values among the records"),
        (("recursive", 2, Fraction(3, 2)), "Not even all records together are recursively"),
        (("recursive", 2, Fraction(10**30)), "c is too large"),
        (("entropy", Fraction(5, 2), None), "Not even all records together have as much entropy"),
        (("entropy", Fraction(10**30), None), "Not even all records together have as much entropy"),
    ],
)
def test_what_no_partition_can_reach(asked: tuple, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        check_diverse(diversity(*asked), np.array([6, 0, 3, 1]))
