"""The check of prices: to the grain as all classes of small tables say, without the prover's code, and broken twins."""

from functools import cache
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon import certificate_check
from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.certificate import points as provers
from duckanon.engines.kanon.certificate.certificate import certificate
from duckanon.engines.kanon.certificate.points import Whole, distinct
from duckanon.engines.kanon.certificate.pricing import Effort
from duckanon.engines.kanon.certificate_check import GRAINS, MOST_K, check
from duckanon.engines.kanon.records import Attribute, Records, attribute, banded_attribute, records
from duckanon.errors import InvalidInput
from duckanon.functions import k_certificate
from tests.engines.kanon import plain
from tests.engines.kanon.certificate.classes import ROUNDING, classes, worst
from tests.engines.kanon.certificate.interpreted import interpreted
from tests.engines.kanon.certificate.test_pricing import hard
from tests.engines.kanon.methods.test_refine import dealt
from tests.engines.kanon.strategies import tables

SOURCE = Path(str(certificate_check.__file__)).read_text()
# A class, and what each of its records loses in grains.
Classes = list[tuple[tuple[int, ...], int]]


def grains(loss: float) -> int:
    return int(np.floor(loss * GRAINS))


def in_grains(a: Attribute, codes: list[int]) -> int:
    """What a class loses on an attribute: positions and all else that is compared are rounded down.

    Two positions are each rounded down, so a class that reaches from one to another may lose a grain less.
    """
    if a.measured:
        places = [grains(2.0 * a.scale if c == a.distinct else a.positions[c] * a.scale) for c in codes]
        return min(max(max(places) - min(places) - 1, 0), grains(a.scale))
    values = [c for c in codes if c != a.distinct]
    if not values:
        return 0
    if len(values) < len(codes):
        return grains(a.scale)
    if a.joins is not None:
        return max(map(grains, a.joins[min(values) : max(values)] * a.scale), default=0)
    further = max(a.distinct - 1, 1)
    return (len(set(values)) - 1) * min(grains(a.weight / further), grains(a.weight) // further)


def all_classes(table: Records, k: int) -> Classes:
    """Every class of k .. 2k - 1 records with its loss."""
    kept = [a for a in table.attributes if a.scale > 0]
    return [
        (members, sum(in_grains(a, [int(a.codes[i]) for i in members]) for a in kept))
        for size in range(k, min(2 * k, len(table) + 1))
        for members in combinations(range(len(table)), size)
    ]


def excess(found: Classes, prices: Whole) -> int:
    """How much the prices of a class are above what it loses, at most."""
    return max(sum(int(prices[i]) for i in members) - len(members) * loss for members, loss in found)


def tight(table: Records, found: Classes, prices: Whole) -> tuple[Whole, int]:
    """Valid prices, lowered where they must be and then raised as far as possible; a record whose price is so high."""
    of, prices = distinct(table).of, prices.copy()
    held = np.array([np.bincount(of[list(members)], minlength=of.max() + 1) for members, _ in found])
    cost = np.array([len(members) * loss for members, loss in found])
    each = np.array([prices[of == point][0] for point in range(of.max() + 1)])
    for more in (np.minimum, lambda now, highest: highest):
        for point in range(of.max() + 1):
            mine = held[:, point] > 0
            others = (held @ each)[mine] - held[mine, point] * each[point]
            each[point] = more(each[point], ((cost[mine] - others) // held[mine, point]).min())
    return each[of], int(np.flatnonzero(of == of.max())[0])


def random_prices(table: Records, seed: int, height: float) -> Whole:
    """Prices up to `height`, a few below zero, equal ones for equal records."""
    rng, of = np.random.default_rng(seed), distinct(table).of
    return ((rng.random(of.max() + 1) - 0.05) * rng.random() * height * GRAINS).astype(np.int64)[of]


@given(tables(min_size=4, max_size=9), st.integers(2, 4), st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 2.0]))
def test_it_judges_as_all_classes_do(table: Records, k: int, seed: int, height: float) -> None:
    prices = random_prices(table, seed, height)
    verdict = check(table, k, prices)
    assert verdict.valid == (excess(all_classes(table, k), prices) <= 0)
    assert (verdict.too_high == 0) == verdict.valid
    assert verdict.undecided == 0
    assert verdict.proven <= plain.optimum(table, k) / len(table) + table.floor + ROUNDING
    if verdict.valid:
        assert worst(classes(table, k), prices) <= ROUNDING


@given(tables(min_size=4, max_size=9), st.integers(2, 4), st.integers(0, 10**6))
def test_one_grain_more_than_a_class_loses_is_refused(table: Records, k: int, seed: int) -> None:
    found = all_classes(table, k)
    prices, record = tight(table, found, random_prices(table, seed, 1.0))
    assert excess(found, prices) <= 0
    assert check(table, k, prices).valid
    of = distinct(table).of
    higher = prices + (of == of[record])
    assert excess(found, higher) > 0
    assert not check(table, k, higher).valid


@given(tables(min_size=4, max_size=9), st.integers(2, 4), st.permutations(range(9)), st.integers(0, 10**6))
def test_the_order_of_records_does_not_matter(table: Records, k: int, turn: list[int], seed: int) -> None:
    turned = np.array([i for i in turn if i < len(table)], np.int32)
    prices = random_prices(table, seed, 0.5)
    assert check(table.take(turned), k, prices[turned]) == check(table, k, prices)


def test_zero_is_proven_by_nothing() -> None:
    """Also where classes lose nothing: of equal records, and where bands leave nothing to be lost."""
    equal = records([attribute("a", [1, 1, 1, 2]), attribute("b", [3, 3, 3, 3])])
    one_band = records([banded_attribute("a", np.zeros(4, np.int64), np.zeros(4, np.bool_), 1.0)])
    assert one_band.floor == 1
    for table in (equal, one_band):
        assert check(table, 2, np.zeros(4, np.int64)).valid
        assert not check(table, 2, np.ones(4, np.int64)).valid


def test_of_equal_records_the_least_price_counts() -> None:
    table = records([attribute("a", [0, 0, 0, 1, 1, 1, 5, 5])])
    low = np.zeros(8, np.int64) - 1
    high = low.copy()
    high[[1, 4, 7]] = GRAINS
    assert check(table, 2, high) == check(table, 2, low)
    assert check(table, 2, low).points == 3


def test_what_is_refused() -> None:
    table = records([attribute("a", range(4))])
    for k, sentence in [(1, "k must be 2 or more"), (5, "fewer than k = 5"), (3, "")]:
        if sentence:
            with pytest.raises(InvalidInput, match=sentence):
                check(table, k, np.zeros(4, np.int64))
    many = records([attribute("a", range(MOST_K + 1))])
    with pytest.raises(InvalidInput, match="k up to 1,000"):
        check(many, MOST_K + 1, np.zeros(MOST_K + 1, np.int64))


# --- independence -----------------------------------------------------------------------------------------------------


def test_all_count_losses_in_the_same_grains() -> None:
    assert GRAINS == provers.GRAINS == k_certificate._GRAINS


def test_it_can_be_read_at_one_sitting() -> None:
    assert len(SOURCE.splitlines()) <= 250


def test_a_rule_of_the_prover_that_skips_classes_is_caught() -> None:
    """A check by the prover's own search would call these prices valid: it skips the same classes."""
    faulty = interpreted("search", "done = loss <= at or", "done = True or")
    caught = 0
    for seed in range(12):
        table, effort = hard(seed), Effort(10**9, 0)
        found = distinct(table)
        raw = np.random.default_rng(seed).integers(0, GRAINS, len(found))
        claimed = raw
        while (claimed != (accepted := faulty.valid_prices(found, claimed, 3, effort).prices)).any():
            claimed = accepted
        prices = (claimed - found.slack)[found.of]
        wrong = excess(all_classes(table, 3), prices) > 0
        assert check(table, 3, prices).valid != wrong
        caught += wrong
    assert caught > 6


@given(tables(min_size=4, max_size=9), st.integers(2, 4))
def test_what_the_prover_proves_is_valid(table: Records, k: int) -> None:
    proof = certificate(table, k, box_losses(table, k), dealt(len(table), k, 0), work=10**6)
    verdict = check(table, k, proof.prices)
    assert verdict.valid
    assert verdict.proven == verdict.claimed == proof.bound


# --- broken twins -----------------------------------------------------------------------------------------------------


def twin(before: str = "", after: str = "") -> ModuleType:
    """The check as plain Python, with a piece of its source changed."""
    source = SOURCE
    if before:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    for decorator in ("inlined", "inner", "compiled"):
        source = source.replace(f"@{decorator}\n", "")
    module = ModuleType("twin")
    exec(compile(source, "twin", "exec"), module.__dict__)
    vars(module)["sort"] = lambda keys, count: keys[:count].sort()
    # Enough for all cases without a fault; with one a search may go in circles.
    vars(module)["_STEPS"] = 3000
    return module


FAULTS = {
    "one of the others": ("state.prices, state.k - 1, state.nodes", "state.prices, state.k - 2, state.nodes"),
    "what is left when the farther classes are done": (
        "source, node[7] = node[0], 1\n", "source, node[7], node[1] = node[0], 1, node[0]\n"
    ),
    "what was split off": ("off < node[5]):", "off < 0):"),
    "that a split makes the box wider": ("state.reach[node[4]] = node[5]\n", "state.reach[node[4]] = node[6]\n"),
    "other records of the same point": ("state.copies[a] = copies[a] - 1", "state.copies[a] = 0"),
    "candidates that are far": ("v ^ leaves, most) < most", "v ^ leaves, most) < most // 3"),
    "what the prices of cheaper points add": ("together += prices[t] - (", "together += min(prices[t], 0) - ("),
}  # fmt: skip


@cache
def cases() -> list[tuple[Records, Whole, bool]]:
    """Tables with repeated records, prices that are tight, or a grain or more above, and whether they are valid."""
    found = []
    for seed in range(10):
        table = hard(seed)
        if seed % 2:
            table = table.take(np.array([0, 0, 0, 0, 4, 4, 6, 7, 8, 9, 10, 11], np.int32))
        classes = all_classes(table, 3)
        tightest, record = tight(table, classes, random_prices(table, seed, 1.0))
        of = distinct(table).of
        for more in (0, 1, GRAINS // 50):
            prices = tightest + more * (of == of[record])
            found.append((table, prices, bool(excess(classes, prices) <= 0)))
    return found


def is_ever_wrong(module: ModuleType) -> bool:
    return any(module.check(table, 3, prices).valid != valid for table, prices, valid in cases())


def test_without_a_fault_no_verdict_is_wrong() -> None:
    assert not is_ever_wrong(twin())


@pytest.mark.parametrize("forgotten", FAULTS)
def test_a_fault_is_noticed(forgotten: str) -> None:
    assert is_ever_wrong(twin(*FAULTS[forgotten]))


def lowered(module: ModuleType) -> tuple[int, float]:
    """How many prices a check leaves undecided, and by how much what it proves is above the optimum, at most."""
    undecided, above = 0, []
    for seed in range(8):
        table = hard(seed).take(np.arange(9, dtype=np.int32))
        verdict = module.check(table, 3, random_prices(table, seed, 2.0))
        undecided += verdict.undecided
        above.append(verdict.proven - plain.optimum(table, 3) / len(table))
    return undecided, max(above)


def test_what_a_search_has_not_looked_at_is_not_proven() -> None:
    hasty = twin()
    vars(hasty)["_STEPS"] = 12
    undecided, above = lowered(hasty)
    assert undecided > 0
    assert above <= ROUNDING


def test_a_check_that_forgets_it_is_noticed() -> None:
    forgetful = twin("max(best, above * is_short), is_short", "best, is_short")
    vars(forgetful)["_STEPS"] = 12
    assert lowered(forgetful)[1] > 1e-3
