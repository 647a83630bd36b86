"""Which of several equal records goes into which class."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.records import attribute, records
from duckanon.engines.kanon.ties import shuffled


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=4, max_size=24),
    st.integers(2, 4),
    st.randoms(use_true_random=False),
)
def test_classes_depend_on_content_alone(rows: list[tuple[int, int]], k: int, random: object) -> None:
    def classes(rows: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        labels = anonymize(
            records([attribute("q", [q for q, _ in rows])]),
            k,
            content=np.array([hash((7, row)) % 2**64 for row in rows], dtype=np.uint64),
        )
        groups: dict[int, list[tuple[int, int]]] = {}
        for row, label in zip(rows, labels, strict=True):
            groups.setdefault(int(label), []).append(row)
        return sorted(sorted(members) for members in groups.values())

    again = list(rows)
    random.shuffle(again)  # type: ignore[attr-defined]
    assert classes(rows) == classes(again)


def test_tied_records_are_not_dealt_out_by_their_content() -> None:
    # 600 equal records, half with each sensitive value. Dealt out in sorted order nearly every class would hold one
    # value only; dealt out by chance a class of five does so once in sixteen.
    sick = np.repeat([0, 1], 300)
    labels = anonymize(records([attribute("q", [1] * 600)]), 5, "initial", content=sick.astype(np.uint64))
    uniform = [len(set(sick[labels == label])) == 1 for label in np.unique(labels)]
    assert np.mean(uniform) < 0.2


def test_the_shuffle_is_a_bijection_without_order() -> None:
    x = shuffled(np.arange(100_000))
    assert len(np.unique(x)) == 100_000
    assert abs(np.corrcoef(np.arange(100_000), np.argsort(x))[0, 1]) < 0.01
