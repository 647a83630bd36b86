"""What is computed within units, over random statements and records. `python -m tests.units` is the long run."""

from __future__ import annotations

import pytest

from tests.amounts import many
from tests.units.checks import search, shown


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.ci("as the first, from another seed"))])
def test_no_unit_moves_another_ones_rows_nor_totals_further_than_the_noise_is_made_for(seed: int) -> None:
    found = search("neighbours", many(400), seed)
    assert not found.wrong, shown(found)
    # Enough of what grows must be answered within units for the search to mean something.
    assert found.asked > found.tried / 5


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.ci("as the first, from another seed"))])
def test_without_noise_answers_are_duckdbs_own_over_records_with_an_owner(seed: int) -> None:
    found = search("equality", many(300), seed)
    assert not found.wrong, shown(found)
    assert found.asked > found.tried / 5
