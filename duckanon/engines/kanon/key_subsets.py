"""Subsets of the quasi-identifiers: the classes of each, without a scan of the table for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.kernels.partition import split
from duckanon.engines.kanon.records import Codes
from duckanon.errors import InvalidInput

# More subsets than this are not searched: the number grows with the columns to the power of the size.
MOST_SUBSETS = 100_000
# Records times subsets: at 50 to 200 million a second, the most takes some minutes.
MOST_STEPS = 20_000_000_000

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Key:
    """A quasi-identifier of n records. codes: shape (n,), int32, 0..distinct-1; NULL has a code of its own."""

    codes: Codes
    distinct: int


@dataclass(frozen=True, eq=False)
class Subset:
    """A subset of the keys, and the classes that it makes.

    columns: numbers of keys, falling. classes: how many there are; least: the size of the smallest; singletons:
    records that are alone in theirs. alone: those of them that are not alone by the subset without its last column;
    it is overwritten by the next subset.
    """

    columns: tuple[int, ...]
    classes: int
    least: int
    singletons: int
    alone: Codes


def subsets_up_to(keys: int, size: int) -> int:
    """The number of subsets of so many keys that have 1 to `size` of them."""
    return sum(comb(keys, one) for one in range(1, size + 1))


def check_size(n: int, keys: int, size: int) -> None:
    """Raise InvalidInput if the subsets are too many to search on n records."""
    if size < 1:
        raise InvalidInput("size must be 1 or more: the number of columns in the largest subsets.")
    many = subsets_up_to(keys, size)
    if many > MOST_SUBSETS or many * n > MOST_STEPS:
        raise InvalidInput(
            f"{keys} columns have {many:,} subsets of up to {size}, too many to search with {n:,} records: "
            "choose a smaller size, or name fewer columns."
        )


def memory(n: int, keys: int, size: int) -> int:
    """The bytes that `subsets` holds for n records, beside the keys' own."""
    return n * (4 * keys + 8 * (size + 3))


def subsets(keys: Sequence[Key], size: int, progress: Progress = lambda _: None) -> Iterator[Subset]:
    """Every subset of 1 to `size` keys, each after all subsets that it contains.

    The classes of a subset are split by one column to get those of a larger one, and records that are alone are left
    out of everything that follows; so the time is at most proportional to records times subsets. progress: called with
    the share that is done. Raises InvalidInput as `check_size` does.
    """
    n = len(keys[0].codes)
    size = min(size, len(keys))
    check_size(n, len(keys), size)
    room, shared = [_room(n) for _ in range(size)], _Shared.of(keys, n)
    done, total = 0, subsets_up_to(len(keys), size)

    def below(above: _Classes, columns: tuple[int, ...]) -> Iterator[Subset]:
        nonlocal done
        # A column has a smaller number than those before it, so a subset comes after all that it contains.
        for column in range(columns[-1] if columns else len(keys)):
            mine, subset = shared.split(above, (*columns, column), room[len(columns)])
            done += 1
            progress(done / total)
            yield subset
            if len(subset.columns) < size:
                yield from below(mine, subset.columns)

    return below(_Classes.whole(n), ())


def class_labels(keys: Sequence[Key]) -> Codes:
    """The class of each record by all keys together, shape (n,), numbered from 0 in no particular order."""
    n = len(keys[0].codes)
    labels, shared = np.empty(n, np.int32), _Shared.of(keys, n)
    classes, columns = _Classes.whole(n), tuple(range(len(keys)))
    for j in columns:
        classes, subset = shared.split(classes, columns[: j + 1], _room(n))
        labels[subset.alone] = np.arange(classes.singletons - len(subset.alone), classes.singletons)
    ends = classes.ends[: classes.many]
    sizes = np.diff(ends, prepend=np.int32(0))
    if classes.many:
        labels[classes.members[: ends[-1]]] = classes.singletons + np.repeat(np.arange(classes.many), sizes)
    return labels


def _room(n: int) -> tuple[Codes, Codes]:
    """Arrays for the classes of n records: their members and ends."""
    return np.empty(n, np.int32), np.empty(n // 2 + 1, np.int32)


@dataclass(frozen=True, eq=False)
class _Classes:
    """Classes of two or more records, as `split` holds them, and how many records are alone."""

    members: Codes
    ends: Codes
    many: int
    singletons: int

    @staticmethod
    def whole(n: int) -> _Classes:
        """All n records in one class."""
        return _Classes(np.arange(n, dtype=np.int32), np.array([n], np.int32), 1, 0)


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all splits work with: the keys, and arrays to work in."""

    keys: Sequence[Key]
    count: Codes
    alone: Codes
    found: npt.NDArray[np.int64]

    @staticmethod
    def of(keys: Sequence[Key], n: int) -> _Shared:
        most = max(key.distinct for key in keys)
        return _Shared(keys, np.zeros(most, np.int32), np.empty(n, np.int32), np.zeros(3, np.int64))

    def split(self, above: _Classes, columns: tuple[int, ...], room: tuple[Codes, Codes]) -> tuple[_Classes, Subset]:
        """The classes `above`, split by the last of the columns."""
        members, ends = room
        codes = self.keys[columns[-1]].codes
        split(above.members, above.ends, above.many, codes, self.count, members, ends, self.alone, self.found)
        many, alone, least = self.found.tolist()
        singletons = above.singletons + alone
        subset = Subset(columns, many + singletons, 1 if singletons else least, singletons, self.alone[:alone])
        return _Classes(members, ends, many, singletons), subset
