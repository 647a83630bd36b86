"""Large tables in blocks: which records a block has, and that classes depend on nothing else."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon import anonymize as module
from duckanon.engines.kanon import blocks as cutting
from duckanon.engines.kanon.anonymize import anonymize, check_memory
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.methods.refine import effort
from duckanon.engines.kanon.orders import canonical, hilbert_keys
from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.errors import InvalidInput
from tests.amounts import sampled
from tests.engines.kanon.strategies import tables

BY_BLOCKS = sorted(name for name, method in METHODS.items() if method.blocks)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "BLOCK", 100)
    monkeypatch.setattr(cutting, "_CLASSES", 4)


def table(n: int, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    return records(
        [
            attribute("age", rng.integers(0, 90, n).tolist()),
            attribute("income", (rng.random(n) ** 8 * 1e6).tolist()),
            attribute("job", rng.integers(0, 7, n).tolist(), categorical=True),
        ]
    )


def slowly(found: Records, content: list[int], number: int) -> list[list[int]]:
    """The same blocks: all records sorted, and the list cut."""
    keys, _ = hilbert_keys(found)
    place = {int(i): at for at, i in enumerate(canonical(found))}
    codes = [tuple(int(a.codes[i]) for a in found.attributes) for i in range(len(found))]
    rank = {code: at for at, code in enumerate(sorted(set(codes), key=lambda c: place[codes.index(c)]))}
    order = sorted(range(len(found)), key=lambda i: (int(keys[i]), rank[codes[i]], content[i]))
    cuts = [len(found) * b // number for b in range(number + 1)]
    return [sorted(order[a:b]) for a, b in pairwise(cuts)]


@given(tables(min_size=4, max_size=60), st.integers(2, 9), st.data())
def test_blocks_are_stretches_of_the_sorted_records(found: Records, number: int, data: st.DataObject) -> None:
    n = len(found)
    content = data.draw(st.lists(st.integers(0, 2**63), min_size=n, max_size=n, unique=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "block_count", lambda _n, _k: number)
        patch.setattr(cutting, "_SHARE", 7)
        parts = cutting.blocks(found, 2, np.array(content, np.uint64))
    assert [sorted(part.tolist()) for part in parts] == slowly(found, content, number)


def test_a_block_never_has_more_records_than_it_may() -> None:
    for n in (1, 131_071, 131_072, 131_073, 262_145, 10**8):
        number = cutting.block_count(n, 5)
        assert -(-n // number) <= cutting.BLOCK
    assert cutting.block_count(10**6, 10**5) == 1


@pytest.mark.parametrize("name", sampled(BY_BLOCKS))
@pytest.mark.usefixtures("small")
def test_classes_depend_on_neither_threads_nor_order(name: str) -> None:
    found, content = table(700), np.random.default_rng(1).integers(0, 2**60, 700).astype(np.uint64)
    first = anonymize(found, 5, name, content=content)
    assert (anonymize(found, 5, name, content=content, control=Control(3)) == first).all()
    turned = np.random.default_rng(2).permutation(700).astype(np.int32)
    second = anonymize(found.take(turned), 5, name, content=content[turned], control=Control(2))
    pairs = {(int(a), int(b)) for a, b in zip(first[turned], second, strict=True)}
    assert len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))
    assert np.bincount(first).min() >= 5
    assert set(first.tolist()) == set(range(first.max() + 1))


@pytest.mark.usefixtures("small")
def test_all_records_alike() -> None:
    alike = records([attribute("x", [1] * 950)])
    labels = anonymize(alike, 5, "order", content=np.arange(950).astype(np.uint64))
    assert np.bincount(labels).min() >= 5


@pytest.mark.usefixtures("small")
def test_progress_and_time_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    given: list[Control] = []
    honest = module._partition

    def listening(*asked: object) -> object:
        given.append(asked[-1])  # type: ignore[arg-type]
        return honest(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_partition", listening)
    anonymize(table(500), 5, "refine", control=Control(2, told.append, seconds=1.0))
    assert len(given) == 5
    assert {one.seconds for one in given} == {0.4}
    assert {one.table for one in given} == {500}
    # (Of two threads each tells in its own time, so the last word need not be the largest.)
    assert max(told) == pytest.approx(1.0)
    assert min(told) >= 0.0


def test_narrow_codes_give_the_same_classes() -> None:
    wide = table(300)
    narrow = Records(tuple(replace(a, codes=a.codes.astype(np.uint16)) for a in wide.attributes))
    assert (anonymize(wide, 4, "order") == anonymize(narrow, 4, "order")).all()


def test_effort_falls_without_a_jump() -> None:
    assert effort(3_000) == effort(100_000) == (8, 12, 24)
    assert effort(1_000_000) == effort(10**8) == (6, 8, 16)
    near = [effort(n).near for n in range(100_000, 1_100_000, 10_000)]
    assert all(0 <= before - after <= 1 for before, after in pairwise(near))


def test_what_does_not_fit_is_refused_before_it_starts() -> None:
    check_memory("It", 10_000_000, 8, 2, 4 * 10**9, blocks=True)
    check_memory("It", 100_000_000, 8, 2, 8 * 10**9, blocks=True)
    with pytest.raises(
        InvalidInput, match=r"It would need about [\d,]+ MiB beside DuckDB for 100,000,000 rows"
    ) as told:
        check_memory("It", 100_000_000, 8, 2, 4 * 10**9, blocks=True)
    assert "in blocks" not in str(told.value)
    with pytest.raises(InvalidInput, match="'auto' work in blocks and need less"):
        check_memory("It", 10_000_000, 8, 2, 4 * 10**9, blocks=False)
    with pytest.raises(InvalidInput, match="at most 2,147,483,647 rows"):
        check_memory("It", 2**31, 8, 2, 2**50, blocks=True)
