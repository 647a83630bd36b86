"""Released tables as data: which variables each one tabulates, and what its cells imply for the counts behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt

from duckanon.engines.tables.cells import Bools, Ints, group
from duckanon.errors import InvalidInput

Exact = int | str | Fraction | Decimal

# An upper bound that is none.
UNBOUNDED = 2**62
# How a half was rounded: unknown, up, to the even digit, or down.
TIES = ("any", "up", "even", "down", "none")
# The largest number of records.
_LARGEST = 10**18


@dataclass(frozen=True, eq=False)
class Counts:
    """lower, upper: int64 of shape (cells,), what each count lies between; UNBOUNDED where nothing bounds it."""

    lower: Ints
    upper: Ints

    @property
    def exact(self) -> bool:
        return bool((self.lower == self.upper).all())

    @property
    def possible(self) -> Bools:
        """Which cells may hold a record."""
        return np.asarray(self.upper > 0)


@dataclass(frozen=True, eq=False)
class ExactShares:
    """Shares in lowest terms, row by row: a row's counts are whole multiples of its reduced counts.

    row: int64 of shape (cells,), each cell's row, that is its levels of the given variables, numbered from 0.
    reduced: int64 of shape (cells,), reduced counts; -1 for a suppressed cell.
    whole: int64 of shape (rows,), what the reduced counts of all cells of a row add up to.
    """

    row: Ints
    reduced: Ints
    whole: Ints

    @property
    def possible(self) -> Bools:
        return np.asarray(self.reduced != 0)


@dataclass(frozen=True, eq=False)
class RoundedShares:
    """Shares rounded to digits.

    row: as in ExactShares. published: int64 of shape (cells,), share times `scale`; -1 for a suppressed cell.
    scale: 10^digits. ties: position in TIES.
    """

    row: Ints
    published: Ints
    scale: int
    ties: int

    @property
    def possible(self) -> Bools:
        return np.ones(len(self.published), dtype=bool)


@dataclass(frozen=True, eq=False)
class Released:
    """One released table.

    name: its name in errors. variables: what it tabulates. given: what its shares are conditioned on.
    codes: int64 of shape (cells, given + variables), the levels of each cell that is listed.
    complete: whether a cell that is not listed holds no record; if not, nothing is known of it.
    shown: whether each listed cell is known to hold a record.
    """

    name: str
    variables: tuple[int, ...]
    given: tuple[int, ...]
    codes: Ints
    content: Counts | ExactShares | RoundedShares
    complete: bool = True
    shown: bool = False

    @property
    def scope(self) -> tuple[int, ...]:
        """All its variables, in the order of the columns of `codes`."""
        return self.given + self.variables

    @property
    def known_counts(self) -> bool:
        """Whether it gives every count of its cross-classification exactly."""
        return self.complete and isinstance(self.content, Counts) and self.content.exact


@dataclass(frozen=True)
class Releases:
    """A set of released tables of the same records.

    levels: number of levels of each variable; variables are their positions here.
    n: number of records if known. names: the variables' names, for errors.
    """

    levels: tuple[int, ...]
    tables: tuple[Released, ...]
    n: int | None = None
    names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.tables:
            raise InvalidInput("There is no table: give one released table at least.")
        if self.n is not None and self.n < 0:
            raise InvalidInput("n is below zero: it is the number of records.")
        for table in self.tables:
            for variable, column in zip(table.scope, table.codes.T, strict=True):
                if not 0 <= variable < len(self.levels):
                    raise InvalidInput(f"The table {table.name} has a variable that has no levels: give them.")
                if len(column) and not (int(column.min()) >= 0 and int(column.max()) < self.levels[variable]):
                    raise InvalidInput(
                        f"The table {table.name} has a level of {self.variable(variable)} outside the levels given."
                    )

    def variable(self, position: int) -> str:
        return self.names[position] if self.names else f"variable {position}"

    def total(self) -> tuple[int, int]:
        """What the number of records lies between. Raises InvalidInput if nothing bounds it, or it contradicts n."""
        lower, upper = (0, UNBOUNDED) if self.n is None else (self.n, self.n)
        for table in self.tables:
            if not table.complete or not isinstance(table.content, Counts):
                continue
            least, most = int(table.content.lower.sum()), bounded_sum(table.content.upper)
            if least > upper or most < lower:
                other = "another table" if self.n is None else "n"
                raise InvalidInput(
                    f"The counts of the table {table.name} add up to another number of records than {other}: correct "
                    "one of them."
                )
            lower, upper = max(lower, least), min(upper, most)
        if upper == UNBOUNDED:
            raise InvalidInput("No table tells how many records there are: give n.")
        return lower, upper


def bounded_sum(upper: Ints) -> int:
    """The sum, UNBOUNDED if one of the terms is."""
    return UNBOUNDED if (upper == UNBOUNDED).any() else int(upper.sum())


def counts(
    name: str,
    variables: Sequence[int],
    codes: npt.ArrayLike,
    values: Sequence[Exact | None] | Ints,
    *,
    base: int | None = None,
    suppressed: npt.ArrayLike | None = None,
    within: tuple[int, int] | None = None,
    complete: bool = True,
    shown: bool = False,
) -> Released:
    """A table of counts.

    codes: shape (cells, variables). values: shape (cells,), whole numbers; None is a suppressed cell.
    base: values were rounded to a multiple of it, halves in either direction; None for exact counts.
    suppressed: shape (cells,), which values are not to be read. within: what suppressed cells are known to lie
        between, both ends included. complete, shown: as in Released.
    Raises InvalidInput for values that are no counts or no multiples of base, and for cells listed twice.
    """
    cells, hidden = _listed(name, variables, codes, values, suppressed)
    lower, upper = np.zeros(len(cells), dtype=np.int64), np.full(len(cells), UNBOUNDED, dtype=np.int64)
    if base is not None and base < 1:
        raise InvalidInput(f"The base of the table {name} must be a whole number above zero.")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        known = _below_limit(name, values[~hidden])
    else:
        known = _whole(name, _known(name, values, hidden), "counts are whole numbers")
    if base is not None and (known % base).any():
        raise InvalidInput(f"A value of the table {name} is no multiple of its base.")
    half = 0 if base is None else base // 2
    lower[~hidden], upper[~hidden] = np.maximum(known - half, 0), known + half
    if within is not None:
        if not 0 <= within[0] <= within[1]:
            raise InvalidInput(f"What suppressed cells of the table {name} lie between must be an interval of counts.")
        lower[hidden], upper[hidden] = within
    if shown:
        lower = np.maximum(lower, 1)
        if (lower > upper).any():
            raise InvalidInput(f"The table {name} lists a cell without records, and is said to list none.")
    return Released(name, tuple(variables), (), cells, Counts(lower, upper), complete, shown)


def support(name: str, variables: Sequence[int], codes: npt.ArrayLike) -> Released:
    """Known structure: no record has any other combination of levels than these, of shape (cells, variables)."""
    cells = np.asarray(codes, dtype=np.int64).reshape(-1, len(variables))
    return counts(name, variables, cells, [None] * len(cells))


def shares(
    name: str,
    variables: Sequence[int],
    given: Sequence[int],
    codes: npt.ArrayLike,
    values: Sequence[Exact | None],
    *,
    digits: int | None = None,
    ties: str = "any",
    suppressed: npt.ArrayLike | None = None,
    complete: bool = True,
    shown: bool = False,
) -> Released:
    """A table of shares of `variables` among the records of each combination of `given`.

    Each combination of given levels that is listed holds a record at least.
    codes: shape (cells, given + variables). values: shape (cells,), exact numbers from 0 to 1; None: suppressed.
    digits: values were rounded to so many digits, halves as `ties` says (one of TIES); None for exact shares.
    suppressed, complete, shown: as in `counts`.
    Raises InvalidInput for values that are no shares, or have more digits, and rows that cannot add up to 1.
    """
    cells, hidden = _listed(name, tuple(given) + tuple(variables), codes, values, suppressed)
    known = _known(name, values, hidden)
    if any(not 0 <= share <= 1 for share in known):
        raise InvalidInput(f"A share of the table {name} is below 0 or above 1.")
    row, rows = group(cells[:, : len(given)])
    closed = complete & (np.bincount(row[hidden], minlength=rows) == 0)
    content = (
        _exact_shares(name, row, rows, hidden, known, closed, shown)
        if digits is None
        else _rounded_shares(name, row, hidden, known, digits, ties)
    )
    return Released(name, tuple(variables), tuple(given), cells, content, complete, shown)


def _exact_shares(
    name: str, row: Ints, rows: int, hidden: Bools, known: list[Fraction], closed: Bools, shown: bool
) -> ExactShares:
    whole, total = [1] * rows, [Fraction(0)] * rows
    of = row[~hidden].tolist()
    for r, share in zip(of, known, strict=True):
        whole[r] = lcm(whole[r], share.denominator)
        total[r] += share
    if any(row_total > 1 or (ends and row_total != 1) for row_total, ends in zip(total, closed.tolist(), strict=True)):
        raise InvalidInput(
            f"The shares of a row of the table {name} do not add up to 1: if they were rounded, say to how many "
            "digits, as in digits := 3."
        )
    if max(whole, default=1) >= 2**31:
        raise InvalidInput(f"The shares of a row of the table {name} have a common denominator above 2^31.")
    if shown and 0 in known:
        raise InvalidInput(f"The table {name} lists a cell without records, and is said to list none.")
    reduced = np.full(len(row), -1, dtype=np.int64)
    reduced[~hidden] = [int(share * whole[r]) for r, share in zip(of, known, strict=True)]
    return ExactShares(row, reduced, np.array(whole, dtype=np.int64))


def _rounded_shares(
    name: str, row: Ints, hidden: Bools, known: list[Fraction], digits: int, ties: str
) -> RoundedShares:
    if not 0 <= digits <= 9:
        raise InvalidInput(f"The digits of the table {name} must be from 0 to 9.")
    if ties not in TIES:
        raise InvalidInput("ties is one of " + ", ".join(f"'{rule}'" for rule in TIES) + ".")
    scaled = [share * 10**digits for share in known]
    published = np.full(len(row), -1, dtype=np.int64)
    published[~hidden] = _whole(name, scaled, "shares have the digits that digits says")
    return RoundedShares(row, published, 10**digits, TIES.index(ties))


def _listed(
    name: str,
    scope: Sequence[int],
    codes: npt.ArrayLike,
    values: Sequence[Exact | None] | Ints,
    suppressed: npt.ArrayLike | None,
) -> tuple[Ints, Bools]:
    """The cells' levels, and which of them are suppressed."""
    if len(set(scope)) < len(scope):
        raise InvalidInput(f"The table {name} names a variable twice.")
    # A table of no variables has one cell, the total.
    cells = np.asarray(codes, dtype=np.int64).reshape(len(values), len(scope))
    if cells.min(initial=0) < 0:
        raise InvalidInput(f"The table {name} has a level below zero: levels count from 0.")
    if group(cells)[1] < len(cells):
        raise InvalidInput(f"The table {name} lists a cell twice.")
    hidden = np.array([value is None for value in values], dtype=bool)
    if suppressed is not None:
        hidden |= np.asarray(suppressed, dtype=bool)
    return cells, hidden


def _known(name: str, values: Sequence[Exact | None] | Ints, hidden: Bools) -> list[Fraction]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [_exact(name, value) for value, unseen in zip(listed, hidden.tolist(), strict=True) if not unseen]


def _exact(name: str, value: Exact | None) -> Fraction:
    if isinstance(value, float):
        raise InvalidInput(f"The table {name} has floats: give whole numbers, Fractions, Decimals or text.")
    try:
        return Fraction(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise InvalidInput(f"A value of the table {name} is no number.") from None


def _whole(name: str, values: list[Fraction], what: str) -> Ints:
    if any(value.denominator != 1 for value in values):
        raise InvalidInput(f"A value of the table {name} does not fit: {what}.")
    if any(abs(value) > _LARGEST for value in values):
        raise InvalidInput(f"The values of the table {name} add up to more than 10^18.")
    return _below_limit(name, np.array([int(value) for value in values], dtype=np.int64))


def _below_limit(name: str, values: npt.NDArray[np.integer]) -> Ints:
    if values.min(initial=0) < 0:
        raise InvalidInput(f"A value of the table {name} is below zero.")
    if float(values.astype(np.float64).sum()) > _LARGEST:
        raise InvalidInput(f"The values of the table {name} add up to more than 10^18.")
    return values.astype(np.int64)


def margin(table: Released, variables: tuple[int, ...]) -> Released:
    """The exact counts of fewer variables, from a table that knows its counts."""
    codes = table.codes[:, [table.scope.index(v) for v in variables]]
    of, groups = group(codes)
    sums = np.zeros(groups, dtype=np.int64)
    assert isinstance(table.content, Counts)
    np.add.at(sums, of, table.content.lower)
    first = np.zeros(groups, dtype=np.int64)
    first[of] = np.arange(len(of))
    return counts(table.name, variables, codes[first], sums)
