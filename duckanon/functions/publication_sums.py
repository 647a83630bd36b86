"""Whether sums with suppressed cells may be published: what readers learn about contributions, and about records.

About contributions: a cell of 1 to small - 1 contributors, or in which the second largest can estimate the largest to
within 10 % (the p% rule), must be suppressed, and its value must stay as open as `suppress` promises. So must what one
contributor alone gave to several cells of a total. An audit that knows nothing of how cells were chosen finds whole
tables for both ends of each interval.

About records: the sums tell no more than counts by the same columns with the same suppressed cells, and are audited as
such. For if other records have the same counts in all cells that are shown, and some in each that is not, they have a
record in every cell in which the true ones have: values can be put there that give the same sums. That holds for one
table of sums of a column, and for several linked ones of one release if the records have some in every combination of
all variables in which the true ones have. A second release is refused, and so are numbers by the column itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Earlier, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.publication_numbers import kind_of
from duckanon.functions.publication_totals import Totals
from duckanon.functions.schema import is_number
from duckanon.functions.sqltext import unit_of
from duckanon.functions.summed_systems import Cells
from duckanon.functions.suppressed_tables import Form, Margin, Place, place, weighted

if TYPE_CHECKING:
    from duckanon.engines.suppression.problem import Problem

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# To within so many percent nobody in a cell may be able to estimate another's contribution.
NARROWEST = 10.0
# The column of perturbed sums, as cell_key names it.
CHANGED = "value"
# Larger sums are not exact in the audit.
_MOST_UNITS = 2**45


def amount(candidate: Candidate) -> str:
    """What a record adds to its cell, as SQL: NULL where it has more decimals than the release.

    What is weighted is rounded to these.
    """
    terms = candidate.terms
    if terms.weight is not None:
        return weighted(terms.weight, terms.sum, digits_of(candidate))
    name = identifier(terms.sum or "")
    kept = f"TRY_CAST({name} AS DECIMAL(28, {digits_of(candidate)}))"
    return f"CASE WHEN TRY_CAST({name} AS DECIMAL(38, 18)) = {kept} THEN {kept} END"


def check_summed(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    """Raises InvalidInput for a column that cannot be summed, or whose values are not what sums are made of."""
    terms, label = candidate.terms, candidate.label
    for name in terms.summed:
        if fold(name) not in {fold(name) for name in candidate.source} or not is_number(kind_of(candidate, name)):
            way = "weight := 'w'" if name == terms.weight else "sum := 'turnover'"
            raise InvalidInput(
                f'{label} has no column "{name}" of numbers: name the column that is summed, as in {way}.'
            )
    ((flawed, total),) = con.execute(
        f"SELECT system.main.count(*) FILTER (WHERE (x >= 0) IS NOT true), coalesce(system.main.sum(x), 0) FROM "
        f"(SELECT {amount(candidate)} AS x FROM {candidate.of})"
    ).fetchall()
    if flawed:
        raise InvalidInput(
            f'Column "{" or ".join(terms.summed)}" holds NULL, negative numbers, or more decimals than the release: '
            "publish sums of a column that suppress takes, with the same digits."
        )
    if total * 10 ** digits_of(candidate) > _MOST_UNITS:
        raise InvalidInput("The values add up to more than 2^45 of their last digits: sum them in thousands.")


def check_values_unknown(candidate: Candidate) -> None:
    """Raises InvalidInput where sums of a column meet other publications about that column's values."""
    tables: list[Earlier | Terms] = [*candidate.earlier, candidate.terms]
    named = {fold(name) for table in tables for name in (*table.given, *table.variables)}
    if candidate.terms.summed:
        name = candidate.terms.summed[0]
        others = [
            publication.name
            for publication in candidate.earlier
            if publication.summed and fold(publication.summed[0]) == fold(name)
        ]
        if others:
            raise InvalidInput(
                f'{candidate.name} is not published: sums of "{name}" are published already ({", ".join(others)}), and '
                "two tables of sums of one column are not proven safe together. Protect both with one call of suppress."
            )
        copies = [publication.name for publication in candidate.earlier if publication.kind == "records"]
        if copies:
            raise InvalidInput(
                f"{candidate.name} is not published: a k-anonymous table is published ({', '.join(copies)}), and sums "
                "are not proven safe together with it."
            )
    for name in (name for table in tables for name in table.summed):
        if fold(name) in named:
            raise InvalidInput(
                f'{candidate.name} is not published: "{name}" would be summed in one table and identify the cells '
                "of another, from which sums follow. Leave it out of variables and given."
            )


@dataclass(frozen=True)
class _Cell:
    """What a cell of the release is made of. largest: of two contributors, in units. owner: one of them, or 0."""

    units: int
    contributors: int
    largest: tuple[int, int]
    owner: int
    hidden: bool


def check_sums(con: duckdb.DuckDBPyConnection, candidate: Candidate, form: Form) -> None:
    """Raises InvalidInput for true sums from which follows too much about contributions.

    form: of the release.
    """
    cell_at: dict[Place, _Cell] = {}
    for margin in form.margins:
        cell_at |= _cells(con, candidate, margin)
    if any(cell.hidden and not cell.units for cell in cell_at.values()):
        raise InvalidInput("A cell whose sum is zero is suppressed: publish what suppress gives, which shows zeros.")
    cells = Cells.of(form, list(cell_at))
    hidden = np.array([cell_at[number].hidden for number in cells.numbers])
    if candidate.totals:
        # Where noisy counts are sold, epsilon bounds what is paid for, and totals count as known.
        totals = Totals.of(form, candidate, candidate.terms)
        hidden &= [number not in totals for number in cells.numbers]
    joint = _joint(con, candidate, form, cells) if len(form.tables) > 1 else None
    _check_open(
        candidate, hidden, _problem(candidate.policy.small, cells, list(map(cell_at.__getitem__, cells.numbers)), joint)
    )


def _check_open(candidate: Candidate, shown_hidden: Bools, problem: Problem) -> None:
    """shown_hidden: of the cells of the release, whether readers do not know them."""
    from duckanon.engines.suppression.audit import Published, witnessed
    from duckanon.engines.suppression.suppress import under_protected

    hidden = problem.closed.copy()
    hidden[: len(shown_hidden)] = shown_hidden
    least = max(2, candidate.policy.small)
    way = "Suppress it anew with rule := ['p%', 'threshold'] and {n}" + (
        ", and so that no total is suppressed: totals count as known where counts are sold" * candidate.totals
    )
    shown = int((problem.primary & ~hidden).sum())
    if shown:
        raise InvalidInput(
            f"{candidate.name} is not published: {shown} of its sums are shown that tell too much of one contributor. "
            f"{way.format(n=f'n := {least} or more')}."
        )
    cells_at = np.flatnonzero(problem.primary)
    low, high = (problem.table.flat - problem.lower)[cells_at], (problem.table.flat + problem.upper)[cells_at]
    published = Published.of(problem.table, hidden, problem.least, problem.most)
    narrow = int(under_protected(problem, witnessed(published, problem.table.flat, (), cells_at, low, high)).sum())
    if narrow:
        raise InvalidInput(
            f"{candidate.name} is not published: {narrow} of its sensitive sums are known too narrowly, or not shown "
            f"to be open. {way.format(n=f'a larger n, {least} at least')}."
        )


def _problem(small: int, cells: Cells, release_cells: Sequence[_Cell], joint: Joint | None) -> Problem:
    """What must be open. Sums of what one contributor alone gave to several cells of a total come after all cells, and
    then the sums by all variables of linked tables.

    found: in the order of the cells.
    """
    from duckanon.engines.suppression.problem import problem
    from duckanon.engines.suppression.rules import Cells as Contributions
    from duckanon.engines.suppression.rules import Levels, PPercent, Rule, Threshold, levels
    from duckanon.engines.suppression.system import System, same_owner, with_parts, with_sums

    table = System.of(cells.layout, np.array([cell.units for cell in release_cells]))
    counts = np.array([cell.contributors for cell in release_cells])
    rules: list[Rule] = [PPercent(NARROWEST)] if small < 2 else [PPercent(NARROWEST), Threshold(small)]
    contributions = Contributions.of(table, counts, np.array([cell.largest for cell in release_cells]).T)
    primary = levels(contributions, rules).primary
    owners = np.array([cell.owner for cell in release_cells])
    more = with_sums(table, same_owner(table, np.where(primary & (counts == 1), owners, 0)))
    demanded = levels(contributions.with_own(more.flat), rules)
    if joint is not None:
        parts = (0, len(joint.units))
        more = with_parts(more, joint.units, joint.sums)
        lower, upper = (
            np.pad(level_of_cells, parts).astype(np.int64) for level_of_cells in (demanded.lower, demanded.upper)
        )
        demanded = Levels(upper > 0, lower, upper)
    return problem(more, demanded, hidden=np.arange(more.cells) >= table.cells)


@dataclass(frozen=True)
class Joint:
    """The sums by all variables of linked tables. units: shape (combinations,). sums: shape (tables, combinations), the
    cell of each table that a combination is in.
    """

    units: Ints
    sums: Ints


def _joint(con: duckdb.DuckDBPyConnection, candidate: Candidate, form: Form, cells: Cells) -> Joint:
    names = candidate.terms.variables
    shown = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in names)
    rows = con.execute(
        f"SELECT {shown}, {units_of('system.main.sum(x)', candidate)} FROM "
        f"(SELECT *, {amount(candidate)} AS x FROM {candidate.of}) GROUP BY {', '.join(map(identifier, names))}"
    ).fetchall()
    every = [dict(zip(names, row_values, strict=True)) for *row_values, _ in rows]
    sums = [[cells.numbers.get(place(table.nodes, combination), -1) for combination in every] for table in form.tables]
    units = np.array([int(row[-1]) for row in rows], dtype=np.int64)
    return Joint(units, np.array(sums, dtype=np.int64))


def _cells(con: duckdb.DuckDBPyConnection, candidate: Candidate, margin: Margin) -> dict[Place, _Cell]:
    """The cells of one margin of the release, by place, with what the records have in them."""
    keys = list(map(identifier, margin.variables))
    own = ", ".join(f"{key} AS v{at}" for at, key in enumerate(keys))
    names = [f"v{at}" for at in range(len(keys))]
    listed = ", ".join([own] * bool(keys) + [f"{identifier(candidate.terms.suppressed or '')} AS _dk_hidden"])
    same = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in names) or "true"
    unit = unit_of(candidate.policy.privacy_unit)
    # A row that stands for several records is one contribution here: the largest that one of them can have.
    records_of_row = "1" if candidate.count is None else identifier(candidate.count)
    measured = [f"{unit} AS u", f"{amount(candidate)} AS x", f"{records_of_row} AS c"]
    contributions = f"SELECT {', '.join([own] * bool(keys) + measured)} FROM {candidate.of}"
    if candidate.policy.privacy_unit is not None:
        by = ", ".join([*names, "u"])
        contributions = f"SELECT {by}, system.main.sum(x) AS x, 1 AS c FROM ({contributions}) GROUP BY {by}"
    measures = ", ".join(
        [
            *names,
            f"{units_of('system.main.sum(x)', candidate)} AS s",
            "system.main.sum(c) FILTER (WHERE x > 0) AS n",
            f"system.main.max({units_of('x', candidate)}, 2) AS top",
            # Not 0, as a hash may be, and 0 stands for nobody.
            f"coalesce(-1 - CAST(system.main.any_value(u) FILTER (WHERE x > 0) & {2**63 - 1} AS BIGINT), 0) AS owner",
        ]
    )
    records = f"SELECT {measures} FROM ({contributions})" + (f" GROUP BY {', '.join(names)}" if names else "")
    shown = ", ".join(
        [*(f"CAST(b.{name} AS VARCHAR)" for name in names), "b._dk_hidden", "a.s", "a.n", "a.top", "a.owner"]
    )
    rows = con.execute(
        f"SELECT {shown} FROM (SELECT {listed} FROM {candidate.release} WHERE {margin.levels}) AS b "
        f"LEFT JOIN ({records}) AS a ON {same}"
    ).fetchall()
    return {
        place(margin.nodes, dict(zip(margin.variables, row_values, strict=True))): _Cell(
            int(s or 0), int(n or 0), _two(top or []), int(owner or 0), bool(hidden)
        )
        for *row_values, hidden, s, n, top, owner in rows
    }


def units_of(expression: str, candidate: Candidate) -> str:
    """SQL: a sum in units of its last decimal."""
    return f"CAST({expression} * {10 ** digits_of(candidate)} AS HUGEINT)"


def _two(top: Sequence[int]) -> tuple[int, int]:
    first, second, *_ = [*map(int, top), 0, 0]
    return first, second


def digits_of(candidate: Candidate) -> int:
    """How many decimals the sums of a release have."""
    column = CHANGED if candidate.terms.perturbation is not None else fold(candidate.terms.value or "")
    kind = next(kind for name, kind in candidate.columns.items() if fold(name) == column)
    match = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", kind)
    return int(match[1]) if match else 0
