"""The certificate: below every partition, near the best one, and refused where a price is too high."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.certificate.certificate import LARGEST_K, Certificate, certificate
from duckanon.engines.kanon.certificate.points import GRAINS
from duckanon.engines.kanon.certificate_check import check
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.methods.exact import exact
from duckanon.engines.kanon.methods.refine import Budget, refine
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Records
from tests.engines.kanon import plain
from tests.engines.kanon.box_bounds import box_bound
from tests.engines.kanon.certificate.classes import ROUNDING, classes, worst
from tests.engines.kanon.methods.test_refine import dealt, with_nulls
from tests.engines.kanon.strategies import tables


def certified(table: Records, k: int, labels: Labels, seconds: float | None = None, work: int = 10**7) -> Certificate:
    return certificate(table, k, box_losses(table, k), labels, Control(seconds=seconds), work)


@given(tables(min_size=4, max_size=9), st.integers(2, 4), st.sampled_from([1, 2 * 10**4, 10**7]))
def test_no_partition_is_below_it(table: Records, k: int, work: int) -> None:
    labels = dealt(len(table), k, 0)
    found = certified(table, k, labels, work=work)
    loss = plain.optimum(table, k) / len(table)
    assert box_bound(table, k) - 1e-8 <= found.bound <= loss + table.floor + ROUNDING
    assert worst(classes(table, k), found.prices) <= ROUNDING
    verdict = check(table, k, found.prices)
    assert verdict.valid
    assert verdict.claimed == verdict.proven == found.bound
    assert verdict.too_high == verdict.undecided == 0


@pytest.mark.parametrize("k", [3, 5])
def test_it_comes_near_a_good_partition(k: int) -> None:
    table = with_nulls(300)
    labels = refine(table, dealt(len(table), k, 0), k, Budget(200.0))
    found = certified(table, k, labels)
    loss = plain.total_loss(table, plain.classes_of(labels)) / len(table)
    assert box_bound(table, k) < found.bound <= loss
    assert found.bound > 0.9 * loss
    assert check(table, k, found.prices).valid


@pytest.mark.long("the best partition of 300 records is searched for; the test above compares with a good one")
@pytest.mark.parametrize("k", [3, 5])
def test_it_comes_near_the_best_partition(k: int) -> None:
    table = with_nulls(300)
    labels = refine(table, dealt(len(table), k, 0), k, Budget(200.0))
    found = certified(table, k, labels)
    solved = exact(table, k, labels, Control(), steps=10**7)
    assert found.bound <= solved.loss / len(table)
    assert found.bound > 0.97 * solved.bound / len(table)


def test_it_does_not_depend_on_the_order_of_records() -> None:
    table = with_nulls(200)
    labels = dealt(len(table), 3, 0)
    turned = np.random.default_rng(1).permutation(200).astype(np.int32)
    one = certified(table, 3, labels)
    box = box_losses(table, 3)
    other = certificate(table.take(turned), 3, box[turned], labels[turned], work=10**7)
    assert other.bound == one.bound
    assert (other.prices == one.prices[turned]).all()


def test_a_price_that_is_a_little_too_high_is_noticed() -> None:
    table = with_nulls(200)
    labels = refine(table, dealt(len(table), 3, 0), 3, Budget(100.0))
    found = certified(table, 3, labels)
    # Some class of the partition has no room for a percent more.
    higher = found.prices + GRAINS // 100
    verdict = check(table, 3, higher)
    assert not verdict.valid
    assert verdict.too_high > 0
    assert verdict.proven < verdict.claimed


def test_it_keeps_to_the_time() -> None:
    table = with_nulls(3000)
    labels, box = dealt(len(table), 8, 0), box_losses(table, 8)
    certificate(table, 8, box, labels, Control(seconds=0.2))
    began = time.process_time()
    found = certificate(table, 8, box, labels, Control(seconds=1.0))
    assert time.process_time() - began < 2.0
    assert found.bound >= box.mean() - 1e-8


def test_for_a_large_k_it_is_the_box_bound() -> None:
    k = LARGEST_K + 1
    table = with_nulls(3 * k)
    found = certified(table, k, dealt(len(table), k, 0))
    assert found.bound == pytest.approx(box_bound(table, k), abs=1e-8)
    assert found.bound <= box_bound(table, k)


def test_prices_of_records_that_are_all_equal_are_zero() -> None:
    table = with_nulls(40)
    table = table.take(np.zeros(40, np.int32))
    table = table.take(canonical(table))
    assert certified(table, 4, np.arange(40, dtype=np.int32) // 4).bound == 0.0
