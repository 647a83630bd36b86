"""Full-domain generalisation against all nodes of small lattices, and an example by hand."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon import full_domain as module
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.full_domain import Levels, full_domain
from duckanon.engines.kanon.hierarchy import hierarchy
from duckanon.engines.kanon.risk import Sensitive
from duckanon.errors import InvalidInput


@st.composite
def columns(draw: st.DrawFn, n: int, weight: float) -> Levels:
    leaves = draw(st.integers(1, 6))
    nodes, losses = [np.arange(leaves)], [np.full(leaves, draw(st.sampled_from([0.0, 0.1])))]
    for _ in range(draw(st.integers(0, 3))):
        into = np.array(draw(st.lists(st.integers(0, leaves - 1), min_size=leaves, max_size=leaves)))
        nodes.append(into[nodes[-1]])
        more = draw(st.sampled_from([0.0, 0.3, 0.5]))
        losses.append(np.minimum(losses[-1] + more, 1.0))
    codes = draw(st.lists(st.integers(0, leaves - 1), min_size=n, max_size=n))
    return Levels(np.array(codes, np.int32), np.stack(nodes), np.stack(losses), weight)


def by_hand(
    attributes: list[Levels],
    node: tuple[int, ...],
    k: int,
    suppress: int,
    subjects: list[int] | None = None,
    meets: Callable[[list[int]], bool] = lambda _: True,
) -> float:
    """The mean loss of a node; infinity if it drops too many records, or all. meets: what is asked of a class too."""
    n = len(attributes[0].codes)
    shown = [
        tuple(int(a.nodes[level][a.codes[i]]) for a, level in zip(attributes, node, strict=True)) for i in range(n)
    ]
    whose = range(n) if subjects is None else subjects
    units = {one: {u for other, u in zip(shown, whose, strict=True) if other == one and u >= 0} for one in shown}
    good = {one: meets([i for i, other in enumerate(shown) if other == one]) for one in units}
    dropped = [len(units[one]) < k or not good[one] for one in shown]
    if sum(dropped) > suppress or all(dropped):
        return float("inf")
    lost = [
        sum(a.weight * a.losses[level][a.codes[i]] for a, level in zip(attributes, node, strict=True)) for i in range(n)
    ]
    return sum(1.0 if gone else loss for gone, loss in zip(dropped, lost, strict=True)) / n


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_it_is_the_best_of_all_nodes(data: st.DataObject) -> None:
    n, m = data.draw(st.integers(2, 14)), data.draw(st.integers(1, 4))
    weights = data.draw(st.lists(st.integers(1, 4), min_size=m, max_size=m))
    attributes = [data.draw(columns(n, weight / sum(weights))) for weight in weights]
    k, suppress = data.draw(st.integers(2, n)), data.draw(st.sampled_from([0, 0, n // 4, n // 2]))
    nodes = list(product(*(range(len(a.nodes)) for a in attributes)))
    subjects = data.draw(st.none() | st.lists(st.integers(-1, n), min_size=n, max_size=n))
    whose = None if subjects is None else np.array(subjects, np.int32)
    least = min(by_hand(attributes, node, k, suppress, subjects) for node in nodes)
    if least == float("inf"):
        with pytest.raises(InvalidInput, match="Even on the highest level"):
            full_domain(attributes, k, suppress, subjects=whose)
        return
    found = full_domain(attributes, k, suppress, subjects=whose)
    assert found.loss == pytest.approx(least, abs=1e-9)
    assert by_hand(attributes, found.levels, k, suppress, subjects) == pytest.approx(least, abs=1e-9)
    assert (found.nodes, found.tested <= found.nodes) == (len(nodes), True)
    kept = found.labels[found.labels >= 0]
    assert n - len(kept) <= suppress
    assert all(
        len({u for u, label in zip(subjects or range(n), found.labels, strict=True) if label == one and u >= 0}) >= k
        for one in set(kept.tolist())
    )
    shown = [
        (int(label), *(int(a.nodes[level][a.codes[i]]) for a, level in zip(attributes, found.levels, strict=True)))
        for i, label in enumerate(found.labels)
        if label >= 0
    ]
    assert len(set(shown)) == len({row[0] for row in shown}) == len({row[1:] for row in shown})


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_criteria_are_part_of_the_search(data: st.DataObject) -> None:
    """Against all nodes: l in three kinds and t of a column with values and NULLs, and different values with drops."""
    n, m = data.draw(st.integers(3, 12)), data.draw(st.integers(1, 3))
    attributes = [data.draw(columns(n, 1 / m)) for _ in range(m)]
    values = data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    k, kind = data.draw(st.integers(2, 3)), data.draw(st.sampled_from(["distinct", "entropy", "recursive", "t"]))
    suppress = data.draw(st.sampled_from([0, n // 3])) if kind == "distinct" else 0
    least_values: dict[str, int | Fraction | None] = {
        "distinct": 2,
        "entropy": Fraction(3, 2),
        "recursive": 2,
        "t": None,
    }
    asked = least_values[kind]
    close = Fraction(1, 3) if kind == "t" else None
    c = Fraction(2) if kind == "recursive" else None
    wanted = PrivacyCriteria(k, asked, close, diversity="distinct" if kind == "t" else kind, c=c)
    column = Sensitive(np.array(values, np.int32), 3, False)
    known = [value for value in values if value >= 0]

    def meets(members: list[int]) -> bool:
        counts = Counter(values[i] for i in members if values[i] >= 0)
        size = counts.total()
        if kind == "t":
            apart = (abs(Fraction(counts[v], size) - Fraction(known.count(v), len(known))) for v in set(known))
            return size == 0 or sum(apart) / 2 <= Fraction(1, 3)
        if kind == "distinct":
            return len(counts) >= 2
        if kind == "entropy":
            return size > 0 and -sum(x / size * log(x / size) for x in counts.values()) >= log(1.5) - 1e-12
        ordered = sorted(counts.values(), reverse=True)
        return len(ordered) >= 2 and ordered[0] < 2 * sum(ordered[1:])

    nodes = list(product(*(range(len(a.nodes)) for a in attributes)))
    least = min(by_hand(attributes, node, k, suppress, None, meets) for node in nodes)
    if least == float("inf"):
        with pytest.raises(InvalidInput):
            full_domain(attributes, k, suppress, sensitive=([column], wanted))
        return
    found = full_domain(attributes, k, suppress, sensitive=([column], wanted))
    assert found.loss == pytest.approx(least, abs=1e-9)
    assert by_hand(attributes, found.levels, k, suppress, None, meets) == pytest.approx(least, abs=1e-9)
    for label in set(found.labels.tolist()) - {-1}:
        assert meets(np.flatnonzero(found.labels == label).tolist())


def test_criteria_that_a_coarser_node_may_fail_are_refused_where_records_may_be_dropped() -> None:
    one = levels("zip", [["a", "*"], ["b", "*"]], ["a", "b", "a", "b"])
    column = Sensitive(np.array([0, 1, 0, 1], np.int32), 2, False)
    for wanted in (PrivacyCriteria(2, None, Fraction(1, 3)), PrivacyCriteria(2, Fraction(3, 2), diversity="entropy")):
        for suppress, subjects in ((1, None), (0, np.arange(4, dtype=np.int32))):
            with pytest.raises(InvalidInput, match="number of distinct values alone"):
                full_domain([one], 2, suppress, subjects=subjects, sensitive=([column], wanted))
        assert full_domain([one], 2, sensitive=([column], wanted)).levels == (1,)


def levels(name: str, rows: list[list[str]], values: list[str]) -> Levels:
    rows = sorted(rows, key=lambda row: row[::-1])
    tree, number = hierarchy(name, rows), {row[0]: code for code, row in enumerate(rows)}
    losses = np.stack([tree.losses(level) for level in range(len(tree.nodes))])
    return Levels(np.array([number[value] for value in values], np.int32), tree.nodes.astype(np.int64), losses, 0.5)


def test_races_and_zip_codes() -> None:
    """A table in the manner of Samarati 2001: with k = 2 and two records dropped, two nodes have none below them."""
    people = [
        *[("asian", zip_code) for zip_code in ("94142", "94141", "94139", "94139", "94139")],
        *[("black", "94138"), ("black", "94139"), ("white", "94139"), ("white", "94141")],
    ]
    race = levels("race", [[one, "person"] for one in ("asian", "black", "white")], [one for one, _ in people])
    codes = ("94138", "94139", "94141", "94142")
    place = levels("zip", [[one, one[:4], one[:3]] for one in codes], [one for _, one in people])
    losses = {node: by_hand([race, place], node, 2, 2) for node in product(range(2), range(3))}
    assert losses[0, 0] == float("inf")
    # Races untouched, four digits of ZIP codes: the two whites are dropped, the others lose a third of a half.
    assert losses[0, 1] == pytest.approx((2 + 7 / 6) / 9)
    # Persons, ZIP codes untouched: 94138 and 94142 are dropped, and the others lose half.
    assert losses[1, 0] == pytest.approx((2 + 7 / 2) / 9)
    found = full_domain([race, place], 2, 2)
    assert found.levels == (0, 1)
    assert found.loss == pytest.approx(losses[0, 1])
    assert np.flatnonzero(found.labels < 0).tolist() == [7, 8]
    assert full_domain([race, place], 2).levels == (0, 2)


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_NODES", 3)
    one = levels("zip", [["a", "x", "*"], ["b", "x", "*"]], ["a", "b"])
    with pytest.raises(InvalidInput, match="more than 3 combinations of levels"):
        full_domain([one, one], 2)
