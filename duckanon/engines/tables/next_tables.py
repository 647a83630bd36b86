"""Which table of counts may be released next: each candidate audited together with what is released already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from duckanon.engines.tables.audit import audit
from duckanon.engines.tables.clique import TooLargeError
from duckanon.engines.tables.released import Released, Releases, counts
from duckanon.engines.tables.truth import Records

# Seconds for each candidate.
TIME_LIMIT = 10.0


@dataclass(frozen=True)
class Candidate:
    """A table of counts that might be released, and what the target's small cells would then be.

    variables: of the table. cells: how many of its cells hold a record. own_small: how many of these hold fewer than
    `small`, which the table itself discloses. disclosed, narrow, undecided, safe: numbers of small cells of the target;
    narrow ones are not disclosed, but told more closely than is allowed; undecided ones could not be settled.
    """

    variables: tuple[int, ...]
    cells: int
    own_small: int
    disclosed: int
    narrow: int
    undecided: int
    safe: int

    @property
    def harmless(self) -> bool:
        """Whether it is proven to disclose nothing small, neither by itself nor with what is released."""
        return not (self.own_small or self.disclosed or self.narrow or self.undecided)


def table_of_counts(records: Records, variables: Sequence[int], name: str) -> Released:
    """The exact counts of some variables, as they would be released."""
    return counts(name, variables, *records.margin(variables))


def next_tables(
    released: Releases | None,
    records: Records,
    candidates: Iterable[Sequence[int]],
    target: Sequence[int],
    *,
    small: int = 5,
    width: int = 1,
    time_limit: float = TIME_LIMIT,
) -> tuple[Candidate, ...]:
    """The candidates, safest first, and of equally safe ones the most detailed first.

    released: what is released already; None for nothing. records: behind all tables. candidates: sets of variables.
    target, small, width: as in `audit`; the target may have variables that only the candidate tells.
    time_limit: seconds for each candidate.
    Raises InvalidInput as `audit` does for what is released.
    """
    found = [_judged(released, records, tuple(variables), target, small, width, time_limit) for variables in candidates]
    return tuple(sorted(found, key=_rank))


def _rank(one: Candidate) -> tuple[int, int, int, int, int, tuple[int, ...]]:
    return one.disclosed, one.narrow, one.undecided, one.own_small, -one.cells, one.variables


def _judged(
    released: Releases | None,
    records: Records,
    variables: tuple[int, ...],
    target: Sequence[int],
    small: int,
    width: int,
    time_limit: float,
) -> Candidate:
    new = table_of_counts(records, variables, "the candidate")
    if released is None:
        together = Releases(records.levels, (new,), records.total)
    else:
        together = replace(released, tables=(*released.tables, new))
    covered = {v for table in together.tables for v in table.scope}
    inside = [v for v in target if v in covered]
    _, sizes = records.margin(variables)
    own = int((sizes < small).sum())
    if not inside:
        return Candidate(variables, len(sizes), own, 0, 0, 0, 0)
    _, at_risk = records.margin(inside)
    many = int((at_risk < small).sum())
    try:
        found = audit(together, records, inside, small=small, width=width, time_limit=time_limit)
    except TooLargeError:
        return Candidate(variables, len(sizes), own, 0, 0, many, 0)
    disclosed, safe = int(found.disclosed.sum()), int(found.safe.sum())
    narrow = int((found.narrow & ~found.disclosed).sum())
    return Candidate(variables, len(sizes), own, disclosed, narrow, many - disclosed - narrow - safe, safe)
