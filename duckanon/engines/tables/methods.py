"""The methods of bounds from several tables by name. `bounds` takes the first that applies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from duckanon.engines import registry
from duckanon.engines.tables.bounds import TIME_LIMIT, TargetBounds, by_closed_form, by_programs
from duckanon.engines.tables.cells import Ints
from duckanon.engines.tables.decomposable import decomposable
from duckanon.engines.tables.part import Part
from duckanon.engines.tables.released import Releases
from duckanon.engines.tables.single import single_conditional


class Method(registry.Method[Callable[[Releases, Part, Sequence[int], Ints | None], TargetBounds | None]]):
    """A method of bounds from several tables: None where it does not apply."""


def _programs(releases: Releases, part: Part, target: Sequence[int], listed: Ints | None) -> TargetBounds:
    return by_programs(releases, part, target, listed, TIME_LIMIT)


METHODS = registry.by_name(
    Method(
        name="frechet",
        help="closed forms for exact counts whose variables form a decomposable graph",
        source="Dobra and Fienberg 2000, Theorem 4",
        limits="a few passes over the target's cells",
        run=partial(by_closed_form, decomposable),
    ),
    Method(
        name="conditional",
        help="one table of shares and nothing else: the methods of the family cells",
        source="Wright and Smucker 2014, section 2, for exact shares; our own for rounded ones",
        limits="as those of the family cells",
        run=partial(by_closed_form, single_conditional),
    ),
    Method(
        name="programs",
        help="any set of tables: linear and integer programs on the cliques of a triangulation",
        source="Lauritzen 1996, sections 2.1 and 4.4, for the reduction; HiGHS",
        limits="up to 3,000,000 cells of a clique; bounds that a time limit leaves unproven are wider",
        run=_programs,
    ),
)
