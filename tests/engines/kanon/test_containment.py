"""Which records agree where NULL agrees with every value, beside a comparison of each with each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon import containment
from duckanon.engines.kanon.containment import agreeing
from duckanon.errors import InvalidInput


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.dictionaries(
            st.tuples(*[st.integers(-1, 2)] * width), st.integers(1, 5), min_size=1, max_size=20
        )
    )
)
def test_each_class_with_each(table: dict[tuple[int, ...], int]) -> None:
    found = agreeing(np.array(list(table), np.int32), np.array(list(table.values())))
    for own, many in zip(table, found.tolist(), strict=True):
        agree = [all(x == y or -1 in (x, y) for x, y in zip(own, other, strict=True)) for other in table]
        assert many == sum(size for size, same in zip(table.values(), agree, strict=True) if same)


def test_too_many_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containment, "_MOST_STEPS", 4_000)
    with pytest.raises(InvalidInput, match=r"^NULLs stand in 2 combinations of the columns qi, too many"):
        agreeing(np.array([[0, 1], [0, -1]], np.int32), np.ones(2, np.int64))
