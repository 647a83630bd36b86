"""The engine's calls inside a query of suppress: cells and dimensions in, what becomes of each cell out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.arrow import integers, lists, one_list, struct
from duckanon.functions.crossed import tree

if TYPE_CHECKING:
    from duckanon.engines.suppression.problem import Problem
    from duckanon.engines.suppression.rules import Rule, Sliding
    from duckanon.engines.suppression.suppress import Suppression
    from duckanon.engines.suppression.system import Layout
    from duckanon.engines.suppression.table import Dimension
    from duckanon.functions.suppress import Suppress
    from duckanon.functions.udf import Progress

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# The equations of larger tables exceed what a search for a pattern can handle.
_MOST_CELLS = 1_000_000
# How far a cell that apriori suppresses is open to both sides, in percent of it, if widths does not say.
_REQUESTED = 10.0


def codes_above(request: Suppress, place: pa.Scalar, codes: pa.Scalar, used: pa.Scalar) -> pa.Array:
    """The nodes above each code of a dimension."""
    columns = tree(request.crossed[place.as_py()].columns[0], codes.as_py() or [], used.as_py() or [])
    as_text = {"below", "label"}
    return lists(list(columns), [pa.array(v, pa.string() if k in as_text else pa.int64()) for k, v in columns.items()])


def answer(
    progress: Progress, request: Suppress, cells: pa.Scalar, dimensions: pa.Scalar, apriori: pa.Scalar
) -> pa.Array:
    """What becomes of each cell of all tables. progress: called with the name of the step, and its share done."""
    from duckanon.engines.suppression.problem import counted
    from duckanon.engines.suppression.suppress import suppress

    layout = _layout(request, dimensions)
    problem = _problem(request, layout, cells.values, apriori.as_py() if apriori.is_valid else [])
    suppression = suppress(problem, progress=partial(progress, "suppress"))
    there = len(layout.places)
    if suppression.undecided.any():
        raise DuckanonError(
            f"{counted(int(suppression.undecided.sum()), 'sensitive cell')} could not be shown to be protected, so "
            "nothing is published: name fewer columns, or smaller tables in tables."
        )
    suppressed = suppression.primary | suppression.secondary | problem.closed
    status = np.full(there, "published", dtype=object)
    status[suppressed[:there]] = "secondary"
    status[suppression.primary[:there]] = "primary"
    lower, upper = _ends(problem, suppressed, suppression, there, request.digits) if request.audit else _no_ends(there)
    ends = {"status": pa.array(status, pa.string()), "lower": lower, "upper": upper}
    return struct(
        {name: one_list(column) for name, column in ends.items()}
        | {"places": pa.array([layout.places.T.tolist()], pa.list_(pa.list_(pa.int64())))}
    )


def _layout(request: Suppress, dimensions: pa.Scalar) -> Layout:
    """The cells of all tables and their equations. Raises InvalidInput."""
    from duckanon.engines.suppression.system import Layout

    hierarchies, kept = [], []
    for crossed, dimension in zip(request.crossed, dimensions.values, strict=True):
        nodes = integers(dimension["tables"].values.field("node"))
        has = np.array(dimension["tables"].values.field("has").to_pylist(), dtype=bool)
        hierarchies.append(_dimension(crossed.lists[0][-1], dimension["chains"].values, int(nodes.max()) + 1))
        kept.append([np.unique(nodes[has[:, t]]) for t in range(has.shape[1])])
    tables = list(zip(*kept, strict=True))
    if sum(float(np.prod([float(len(nodes)) for nodes in table])) for table in tables) > _MOST_CELLS:
        raise InvalidInput(
            "The tables would have more than 1,000,000 cells: name fewer columns, or smaller tables in tables."
        )
    return Layout.of(hierarchies, tables)


def _dimension(column: str, chains: pa.StructArray, nodes: int) -> Dimension:
    """The hierarchies of a dimension, from the nodes above each leaf."""
    from duckanon.engines.suppression.table import Dimension

    leaf, node, hierarchy, level = (integers(chains.field(name)) for name in ("leaf", "node", "list", "level"))
    total = node[level == 0]
    parents_of = []
    for at in range(int(hierarchy.max()) + 1):
        own = (hierarchy == at) & (level > 0)
        order = np.lexsort((level[own], leaf[own]))
        leaves, steps, below = leaf[own][order], level[own][order], node[own][order]
        first = np.r_[True, leaves[1:] != leaves[:-1]]
        above = np.where(first, total[0] if len(total) else -1, np.r_[-1, below[:-1]])
        parents = np.full(nodes, -1, dtype=np.int64)
        parents[below] = above
        if (parents[below] != above).any() or (~first & (steps == np.r_[0, steps[:-1]])).any():
            raise InvalidInput(
                f'A value of "{column}" is in two parts of one level, so that its hierarchy does not add up: '
                "name columns of which each value is part of one of the next wider column."
            )
        parents[parents == np.arange(nodes)] = -1
        parents_of.append(parents)
    return Dimension.of(nodes, *parents_of)


def _problem(request: Suppress, layout: Layout, cells: pa.StructArray, apriori: Sequence[Mapping[str, Any]]) -> Problem:
    """The tables with their totals, what their rules demand, and what attackers know. Raises InvalidInput."""
    from duckanon.engines.suppression.problem import problem
    from duckanon.engines.suppression.requested import attainable, with_requested
    from duckanon.engines.suppression.rules import Cells as Contributions
    from duckanon.engines.suppression.rules import levels
    from duckanon.engines.suppression.system import System, same_owner, with_sums

    at = _numbers(layout, np.array(cells.field("places").to_pylist(), dtype=np.int64))

    def placed(numbers: npt.ArrayLike) -> Ints:
        column = np.zeros(len(layout.places), dtype=np.int64)
        column[at] = numbers
        return column

    table = System.of(layout, placed(_units(cells.field("amount").to_pylist(), request.digits)))
    counts, largest = None, None
    if not request.counted:
        counts = placed(integers(cells.field("contributors")))
    if request.largest:
        tops = [top + [0] * (request.largest - len(top)) for top in cells.field("largest").to_pylist()]
        largest = np.array([placed(_units(kth, request.digits)) for kth in zip(*tops, strict=True)])
    contributions = Contributions.of(table, counts, largest, records=request.counts_records)
    keep, gone, cost = _decided(layout, table.flat, apriori)
    demanded = levels(contributions, _rules(request))
    requested, percent = gone & ~demanded.primary, max(request.widths.values(), default=_REQUESTED)
    if counts is None or request.unit is None:
        demanded = with_requested(demanded, table.flat, requested, percent)
        return attainable(problem(table, demanded, cost=cost, keep=keep), requested)
    owners = placed(integers(cells.field("owner")))
    sums = same_owner(table, np.where(demanded.primary & (counts == 1), owners, 0))
    more = with_sums(table, sums)
    longer = (0, len(sums))
    requested, added = np.pad(requested, longer), np.arange(more.cells) >= table.cells
    demanded = levels(contributions.with_own(more.flat), _rules(request))
    demanded = with_requested(demanded, more.flat, requested, percent)
    return attainable(
        problem(more, demanded, (None, None), np.pad(cost, longer), np.pad(keep, longer), added), requested
    )


def _numbers(layout: Layout, places: Ints) -> Ints:
    """The numbers of the cells at those places, shape (k, dimensions); -1 where there is none."""
    sizes = layout.places.max(axis=0) + 1
    inside = ((places >= 0) & (places < sizes)).all(axis=1)
    known = np.ravel_multi_index(tuple(layout.places.T), tuple(sizes))
    sought = np.ravel_multi_index(tuple(np.where(inside[:, None], places, 0).T), tuple(sizes))
    positions = np.minimum(np.searchsorted(known, sought), len(known) - 1)
    return np.where(inside & (known[positions] == sought), positions, -1)


def _decided(layout: Layout, units: Ints, apriori: Sequence[Mapping[str, Any]]) -> tuple[Bools, Bools, Floats]:
    """Cells that must be published, cells that must not be, and costs."""
    from duckanon.engines.suppression.problem import counted

    keep, gone, cost = np.zeros(len(units), dtype=bool), np.zeros(len(units), dtype=bool), np.log1p(units)
    if not apriori:
        return keep, gone, cost
    places = np.array([[-1 if node is None else node for node in line["places"]] for line in apriori], dtype=np.int64)
    at = _numbers(layout, places)
    if (at < 0).any():
        raise InvalidInput(
            "apriori has a line about a cell that no table has: correct its columns and levels, or name its table in "
            "tables."
        )
    for cell, line in zip(at.tolist(), apriori, strict=True):
        keep[cell] |= line["suppressed"] is False
        gone[cell] |= line["suppressed"] is True
        if line["cost"] is not None:
            cost[cell] = line["cost"]
    if (keep & gone).any():
        raise InvalidInput("apriori says both of a cell that it is suppressed and that it is not: leave one line out.")
    if (gone & (units == 0)).any():
        zeros = counted(int((gone & (units == 0)).sum()), "cell")
        raise InvalidInput(
            f"apriori suppresses {zeros} of zero: zeros are published, so say NULL for suppressed there."
        )
    if not (np.isfinite(cost).all() and (cost >= 0).all()):
        raise InvalidInput("Costs in apriori are numbers that are zero or more.")
    return keep, gone, cost


def _rules(request: Suppress) -> list[Rule | Sliding]:
    from duckanon.engines.suppression.rules import Dominance, OfWidth, PPercent, Sliding, Threshold

    rules: dict[str, Rule] = {}
    if request.n is not None:
        rules["threshold"] = Threshold(request.n)
    if request.p is not None and request.q is not None:
        rules["p%"] = PPercent(request.p, request.q)
    if request.contributors is not None and request.percent is not None:
        rules["dominance"] = Dominance(request.contributors, request.percent)
    fixed = [
        OfWidth(rule, request.widths[name]) if name in request.widths else rule
        for name, rule in rules.items()
        if name in request.widths or name not in request.sliding
    ]
    return [*fixed, *(Sliding(rules[name], percent) for name, percent in request.sliding.items())]


def _units(values: Sequence[Decimal | int], digits: int) -> list[int]:
    """Values in units of their last digit. Raises InvalidInput where they are too many to add up exactly."""
    from duckanon.engines.suppression.table import MOST_UNITS

    units = [Decimal(amount).scaleb(digits) for amount in values]
    if any(amount > MOST_UNITS for amount in units):
        raise InvalidInput("The values add up to more than 2^45 of their last digits: sum them in thousands.")
    return [int(amount) for amount in units]


def _ends(
    problem: Problem, suppressed: Bools, suppression: Suppression, there: int, digits: int
) -> tuple[pa.Array, pa.Array]:
    """The intervals of the suppressed cells that the published table leaves; NULL for the others.

    In large systems they are what was attained, and NULL too for cells that are not sensitive.
    """
    from duckanon.engines.suppression.audit import Published, intervals

    cells, low, high = suppression.cells, suppression.lower, suppression.upper
    if suppression.exact.any() or not len(cells):
        all_ = intervals(
            Published.of(problem.table, suppressed, problem.least, problem.most), np.flatnonzero(suppressed).tolist()
        )
        cells, low, high = all_.cells, all_.lower, all_.upper
    ends, none = np.zeros((2, len(suppressed))), np.ones(len(suppressed), dtype=bool)
    ends[:, cells], none[cells] = np.array([low, high]) / 10**digits, False
    lower, upper = (pa.array(end[:there], mask=none[:there]) for end in ends)
    return lower, upper


def _no_ends(cells: int) -> tuple[pa.Array, pa.Array]:
    none = pa.nulls(cells, pa.float64())
    return none, none
