"""What is computed within units, over random statements and records. `python -m tests.units` is the long run."""

from __future__ import annotations

import pytest

from tests.amounts import many
from tests.units.checks import search, shown

# Each search in parts, which run side by side.
AS_WELL = pytest.mark.ci("as the first, from another seed")
OTHERS = pytest.mark.long("as the first, from other seeds")


@pytest.mark.parametrize(
    ("statements", "seed"),
    [(100, 7), pytest.param(100, 8, marks=AS_WELL), *(pytest.param(100, seed, marks=OTHERS) for seed in (1, 2, 5, 9))],
)
def test_no_unit_moves_another_ones_rows_nor_totals_further_than_the_noise_is_made_for(
    statements: int, seed: int
) -> None:
    found = search("neighbours", many(statements), seed)
    assert not found.wrong, shown(found)
    # Enough of what grows must be answered within units for the search to mean something.
    assert found.asked > found.tried / 5


@pytest.mark.parametrize(
    ("statements", "seed"),
    [(100, 3), pytest.param(100, 10, marks=AS_WELL), *(pytest.param(75, seed, marks=OTHERS) for seed in (4, 6, 11))],
)
def test_without_noise_answers_are_duckdbs_own_over_records_with_an_owner(statements: int, seed: int) -> None:
    found = search("equality", many(statements), seed)
    assert not found.wrong, shown(found)
    assert found.asked > found.tried / 5
