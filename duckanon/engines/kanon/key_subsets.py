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

    columns: numbers of keys, falling. classes: how many there are; members: the sizes of all together; least: the size
    of the smallest; singletons: classes of size 1. alone: records in such a class, at least those that are in none by
    the subset without its last column; it is overwritten by the next subset. units_alone: how many units are alone in a
    class at least; None where records count.
    """

    columns: tuple[int, ...]
    classes: int
    members: int
    least: int
    singletons: int
    alone: Codes
    units_alone: int | None = None


def subsets_up_to(keys: int, size: int) -> int:
    """The number of subsets of so many keys that have 1 to `size` of them."""
    return sum(comb(keys, subset_size) for subset_size in range(1, size + 1))


def check_size(n: int, keys: int, size: int) -> None:
    """Raise InvalidInput if the subsets are too many to search on n records."""
    if size < 1:
        raise InvalidInput("size must be 1 or more: the number of columns in the largest subsets.")
    count = subsets_up_to(keys, size)
    if count > MOST_SUBSETS or count * n > MOST_STEPS:
        raise InvalidInput(
            f"{keys} columns have {count:,} subsets of up to {size}, too many to search with {n:,} records: "
            "choose a smaller size, or name fewer columns."
        )


def memory(n: int, keys: int, size: int) -> int:
    """The bytes that `subsets` holds for n records, beside the keys' own and with units."""
    return n * (4 * keys + 8 * (size + 5))


def subsets(
    keys: Sequence[Key], size: int, progress: Progress = lambda _: None, units: Codes | None = None
) -> Iterator[Subset]:
    """Every subset of 1 to `size` keys, each after all subsets that it contains.

    units: of each record the unit to which it belongs, shape (n,), -1 for none; the size of a class is then the number
    of its units, and records without one are left out. None: each record is one.

    The classes of a subset are split by one column to get those of a larger one, and records that are alone are left
    out of everything that follows; so the time is at most proportional to records times subsets. progress: called with
    the share that is done. Raises InvalidInput as `check_size` does.
    """
    n = len(keys[0].codes)
    size = min(size, len(keys))
    check_size(n, len(keys), size)
    room, shared = [_room(n) for _ in range(size)], _Shared.of(keys, n, units)
    done, total = 0, subsets_up_to(len(keys), size)

    def below(above: _Classes, columns: tuple[int, ...]) -> Iterator[Subset]:
        nonlocal done
        # A column has a smaller number than those before it, so a subset comes after all that it contains.
        for column in range(columns[-1] if columns else len(keys)):
            classes, subset = shared.split(above, (*columns, column), room[len(columns)])
            done += 1
            progress(done / total)
            yield subset
            if len(subset.columns) < size:
                yield from below(classes, subset.columns)

    return below(_Classes.whole(n) if units is None else _Classes.by_unit(units), ())


def class_labels(keys: Sequence[Key]) -> Codes:
    """The class of each record by all keys together, shape (n,), numbered from 0 in no particular order."""
    n = len(keys[0].codes)
    labels, shared = np.empty(n, np.int32), _Shared.of(keys, n)
    classes, columns = _Classes.whole(n), tuple(range(len(keys)))
    for j in columns:
        classes, subset = shared.split(classes, columns[: j + 1], _room(n))
        labels[subset.alone] = np.arange(classes.singletons - len(subset.alone), classes.singletons)
    ends = classes.ends[: classes.count]
    sizes = np.diff(ends, prepend=np.int32(0))
    if classes.count:
        labels[classes.members[: ends[-1]]] = classes.singletons + np.repeat(np.arange(classes.count), sizes)
    return labels


def units_by_label(labels: Codes, units: Codes) -> npt.NDArray[np.int64]:
    """How many units the records of each label have, shape (labels,). units: shape (n,), not negative."""
    pairs = np.unique(labels.astype(np.int64) * (int(units.max()) + 1) + units)
    return np.bincount(pairs // (int(units.max()) + 1))


def _room(n: int) -> tuple[Codes, Codes]:
    """Arrays for the classes of n records: their members and ends."""
    return np.empty(n, np.int32), np.empty(n // 2 + 1, np.int32)


@dataclass(frozen=True, eq=False)
class _Classes:
    """Classes of two or more records, as `split` holds them, and how many records are alone.

    apart: by unit, whether a record of it is alone, shape (units,); None where records count.
    """

    members: Codes
    ends: Codes
    count: int
    singletons: int
    apart: npt.NDArray[np.bool_] | None = None

    @staticmethod
    def whole(n: int) -> _Classes:
        """All n records in one class."""
        return _Classes(np.arange(n, dtype=np.int32), np.array([n], np.int32), 1, 0)

    @staticmethod
    def by_unit(units: Codes) -> _Classes:
        """All records with a unit in one class, those of a unit one after the other: `split` keeps their order."""
        order = np.argsort(units, kind="stable").astype(np.int32)
        order = order[np.searchsorted(units[order], 0) :]
        return _Classes(order, np.array([len(order)], np.int32), 1, 0, np.zeros(int(units.max(initial=-1)) + 1, bool))


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all splits work with: the keys, the units if they count, and arrays to work in."""

    keys: Sequence[Key]
    units: Codes | None
    count: Codes
    alone: Codes
    tallies: npt.NDArray[np.int64]

    @staticmethod
    def of(keys: Sequence[Key], n: int, units: Codes | None = None) -> _Shared:
        most = max(key.distinct for key in keys)
        return _Shared(keys, units, np.zeros(most, np.int32), np.empty(n, np.int32), np.zeros(3, np.int64))

    def split(self, above: _Classes, columns: tuple[int, ...], room: tuple[Codes, Codes]) -> tuple[_Classes, Subset]:
        """The classes `above`, split by the last of the columns."""
        members, ends = room
        codes = self.keys[columns[-1]].codes
        split(above.members, above.ends, above.count, codes, self.count, members, ends, self.alone, self.tallies)
        count, alone, least = self.tallies.tolist()
        single = above.singletons + alone
        if self.units is not None and above.apart is not None:
            apart = above.apart.copy()
            apart[self.units[self.alone[:alone]]] = True
            classes = _Classes(members, ends, count, single, apart)
            return classes, self._of_units(self.units, classes, columns, self.alone[:alone])
        classes = _Classes(members, ends, count, single)
        grouped = int(ends[count - 1]) if count else 0
        subset = Subset(columns, count + single, grouped + single, 1 if single else least, single, self.alone[:alone])
        return classes, subset

    def _of_units(self, units: Codes, classes: _Classes, columns: tuple[int, ...], alone: Codes) -> Subset:
        """A subset where units count. alone: records in classes of their own since the last split."""
        ends, single = classes.ends[: classes.count], classes.singletons
        members = classes.members[: ends[-1] if classes.count else 0]
        own = units[members]
        is_new = np.ones(len(own), bool)
        is_new[1:] = own[1:] != own[:-1]
        starts = np.concatenate([[0], ends[:-1]]).astype(np.intp)[: classes.count]
        is_new[starts] = True
        sizes = np.add.reduceat(is_new, starts, dtype=np.int64) if classes.count else np.zeros(0, np.int64)
        is_alone = np.repeat(sizes == 1, np.diff(ends, prepend=np.int32(0)))
        assert classes.apart is not None
        apart = classes.apart.copy()
        apart[own[is_alone]] = True
        return Subset(
            columns,
            classes.count + single,
            int(sizes.sum()) + single,
            1 if single else int(sizes.min()),
            single + int((sizes == 1).sum()),
            np.concatenate([alone, members[is_alone]]),
            int(apart.sum()),
        )
