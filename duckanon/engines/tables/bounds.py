"""Bounds on the cells of a target cross-classification, given a set of released tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.tables.cells import Bools, Ints, keys
from duckanon.engines.tables.consistency import check_consistency, contradiction
from duckanon.engines.tables.decomposable import decomposable
from duckanon.engines.tables.model import Model, Unions, build, check_variables
from duckanon.engines.tables.part import Part, part_around
from duckanon.engines.tables.released import Releases
from duckanon.engines.tables.search import Ends, NoSolutionError, Search
from duckanon.engines.tables.single import single_conditional
from duckanon.engines.tables.truth import Records
from duckanon.errors import DuckanonError, InvalidInput

# From releases, the part that matters, the target and its cells, if listed: cells, least and largest counts.
ClosedForm = Callable[[Releases, Part, Sequence[int], Ints | None], tuple[Ints, Ints, Ints] | None]
# Seconds that the programs may take.
TIME_LIMIT = 60.0


@dataclass(frozen=True, eq=False)
class TargetBounds:
    """The bounds that the released tables imply for each cell of a target.

    codes: int64 of shape (cells, target variables). All others have int64 or bool of shape (cells,).
    lower, upper: no table of whole counts that agrees with what was released has a count outside: proven.
    least, largest: counts that some such tables have; least > largest where none was found.
    """

    codes: Ints
    lower: Ints
    upper: Ints
    least: Ints
    largest: Ints

    def ordered(self) -> TargetBounds:
        """The same cells in the order of their levels."""
        order = np.lexsort(self.codes.T[::-1])
        parts = (self.codes, self.lower, self.upper, self.least, self.largest)
        return TargetBounds(*(part[order] for part in parts))

    @property
    def exact(self) -> Bools:
        """Whether both bounds are reached."""
        return np.asarray((self.lower == self.least) & (self.upper == self.largest))

    @property
    def disclosed(self) -> Bools:
        """Whether the count follows from the tables."""
        return np.asarray(self.lower == self.upper)


def table_bounds(
    releases: Releases,
    target: Sequence[int],
    codes: npt.ArrayLike | None = None,
    *,
    time_limit: float = TIME_LIMIT,
) -> TargetBounds:
    """Bound the cells of a target, in whole numbers.

    target: different variables. codes: shape (cells, target variables), the cells to bound; without it, all that may
    hold a record (cells that a released zero empties are left out). time_limit: seconds; bounds are valid whenever it
    ends.
    Raises InvalidInput for tables that contradict each other, variables in no table, an unknown number of records, and
    targets whose cliques are too large.
    Source: Dobra and Fienberg 2000, "Bounds for cell entries in contingency tables given marginal totals and
    decomposable graphs"; Wright and Smucker 2014 for shares.
    """
    check_variables(releases, target)
    check_consistency(releases)
    listed = None if codes is None else wanted_cells(releases, target, codes)
    bounds = bounds_around(releases, part_around(releases, frozenset(target)), target, listed, time_limit)
    return bounds if codes is not None else bounds.ordered()


def bounds_around(
    releases: Releases,
    part: Part,
    target: Sequence[int],
    listed: Ints | None,
    time_limit: float,
    truth: Records | None = None,
    width: int | None = None,
) -> TargetBounds:
    """As `table_bounds`, of tables that were checked.

    truth: the true records, which are a witness. width: only whether each cell's ends are so far apart is of interest.
    """
    try:
        for form in (decomposable, single_conditional):
            bounds = by_closed_form(form, releases, part, target, listed)
            if bounds is not None:
                return bounds
        return by_programs(releases, part, target, listed, time_limit, truth, width)
    except NoSolutionError:
        raise contradiction(releases, target) from None


def by_closed_form(
    form: ClosedForm, releases: Releases, part: Part, target: Sequence[int], listed: Ints | None
) -> TargetBounds | None:
    """The bounds of a closed form; None where it does not apply. Raises NoSolutionError if no records fit."""
    ends = form(releases, part, target, listed)
    if ends is None:
        return None
    cells, least, largest = ends
    return checked(TargetBounds(cells, least, largest, least, largest))


def by_programs(
    releases: Releases,
    part: Part,
    target: Sequence[int],
    listed: Ints | None,
    time_limit: float,
    truth: Records | None = None,
    width: int | None = None,
    unions: Unions | None = None,
) -> TargetBounds:
    """The bounds that programs find, arguments as in `bounds_around`. Raises NoSolutionError if no records fit.

    unions: of the listed cells; they are bounded, and not the cells.
    """
    model = build(releases, part, target, listed, unions)
    search = Search(model.system, time_limit)
    if truth is not None:
        solution = model.solution(truth.codes, truth.counts, releases.levels)
        if solution is None or not search.witness(solution):
            raise DuckanonError("The true records do not solve the equations of their tables: please report it.")
    columns, first = np.unique(model.column[model.column >= 0], return_index=True)
    scale = model.scale[model.column >= 0][first]
    return checked(_of_cells(model, search.run(columns, None if width is None else -(-width // scale))))


def wanted_cells(releases: Releases, target: Sequence[int], codes: npt.ArrayLike) -> Ints:
    """Target cells as asked for. Raises InvalidInput for levels that are not, and for cells listed twice."""
    listed = np.asarray(codes, dtype=np.int64).reshape(-1, len(target))
    sizes = [releases.levels[v] for v in target]
    if (listed < 0).any() or (listed >= np.array(sizes)).any():
        raise InvalidInput("A target cell has a level outside the levels given.")
    if len(np.unique(keys(listed, sizes))) < len(listed):
        raise InvalidInput("A target cell is listed twice.")
    return listed


def _of_cells(model: Model, ends: Ends) -> TargetBounds:
    """From columns to cells; a cell without a column is zero."""
    some = model.column >= 0
    nothing = np.zeros(len(model.column), dtype=np.int64)
    columns = [nothing.copy() for _ in range(4)]
    for into, of in zip(columns, (ends.lower, ends.upper, ends.least, ends.largest), strict=True):
        column = model.column[some]
        # Where there is no witness, least > largest whatever the scale.
        there_is = ends.least[column] <= ends.largest[column]
        proven = of is ends.lower or of is ends.upper
        missing = 1 if of is ends.least else 0
        into[some] = np.where(
            there_is | proven, model.scale[some] * np.where(there_is | proven, of[column], 0), missing
        )
    return TargetBounds(model.codes, *columns)


def checked(bounds: TargetBounds) -> TargetBounds:
    """Witnesses lie within the bounds, or the engine is wrong and says so instead of answering."""
    there_is = bounds.least <= bounds.largest
    inside = (bounds.lower <= bounds.least) & (bounds.largest <= bounds.upper)
    if not (inside | ~there_is).all() or (bounds.lower > bounds.upper).any():
        raise DuckanonError("The bounds of a set of tables failed their own check: please report it.")
    return bounds
