"""How exposed a table is by its quasi-identifiers: re-identification risk, l-diversity, t-closeness.

Sources: Samarati and Sweeney 1998 (k); Machanavajjhala et al. 2007 (distinct, entropy, recursive l-diversity); Li, Li
and Venkatasubramanian 2007 (t-closeness, section 4: equal and ordered distance); Sweeney 2002 (k-map).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.population_uniques import population_uniques
from duckanon.engines.kanon.records import Codes
from duckanon.errors import InvalidInput

Sizes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sensitive:
    """One sensitive column: codes of shape (n,) in 0..distinct-1, and whether they are ordered. -1: no value.

    table: how often the whole table has each code, shape (distinct,), if these records are a part of it; where subjects
    count, how many have it.
    """

    codes: Codes
    distinct: int
    ordered: bool
    table: Sizes | None = None


@dataclass(frozen=True)
class Report:
    """One row of k_report.

    k: size of the smallest class. singletons: classes of one record. max_risk = 1 / k and avg_risk = classes / records:
    the chance of a right guess for the most exposed record and on average (prosecutor's and marketer's risk). l: fewest
    distinct values of a sensitive column in a class; entropy_l: least exp(entropy), to twelve digits, 0 where a class
    has no value; t: largest distance between a class and the table, to twelve digits, of the classes that have values;
    recursive_c: the table is recursively (c, l)-diverse for
    every c above it and the l that was asked for, infinity where a class has fewer values than that. Over several
    sensitive columns the worst counts; None without one. journalist_max, journalist_avg: the greatest and the mean
    chance of a right guess by an attacker who does not know who is in the table; population_uniques: how many records
    are alone in the population too, expected unless it is known; None unless a population or a sampling fraction is
    given. k_map: people of the class that has fewest in the population, None without one. k_containment,
    singletons_containment: the fewest records that agree with one where NULL agrees with every value, and records with
    which no other does; None unless they are counted. units, units_alone: how many
    units there are, and how many are alone in a class at least; None where records count.
    """

    records: int
    classes: int
    k: int
    singletons: int
    avg_class: float
    max_risk: float
    avg_risk: float
    l: int | None  # noqa: E741 - the column's name in k_report
    entropy_l: float | None
    t: float | None
    recursive_c: float | None
    journalist_max: float | None
    journalist_avg: float | None
    population_uniques: float | None
    k_map: int | None
    units: int | None = None
    units_alone: int | None = None
    k_containment: int | None = None
    singletons_containment: int | None = None


def journalist(sizes: Sizes, population: Sizes | None, fraction: float | Floats | None) -> Floats | None:
    """The chance of a right guess for a record of each class, by an attacker who does not know who is in the table.

    population: people of each class, shape (classes,): 1 / F (El Emam and Dankar 2008). fraction: the share of the
    population that is in the table, or of the people of each class, shape (classes,), each person with the same chance:
    the mean of 1 / F given f, where F - f is negative binomial (Benedetti and Franconi 1998), which is
    p / f 2F1(1, 1; f + 1; 1 - p). Raises InvalidInput if a class has more records than people.
    """
    if population is not None:
        if (population < sizes).any():
            raise InvalidInput(
                "The population has fewer records of some combination than the table: it must hold everybody who could "
                "be in the table."
            )
        return 1.0 / population
    if fraction is None:
        return None
    if np.any(np.asarray(fraction) > 1):
        raise InvalidInput(
            "The weights of some combination add up to fewer people than it has records: a weight is the number of "
            "people for whom a record stands."
        )
    from scipy.special import hyp2f1

    return np.asarray(fraction / sizes * hyp2f1(1.0, 1.0, sizes + 1.0, 1.0 - fraction))


def report(
    sizes: Sizes,
    sensitive: Sequence[Sensitive],
    population: Sizes | None = None,
    fraction: float | Floats | None = None,
    least: int = 2,
    times: Sizes | None = None,
    subjects: Codes | None = None,
    records: int | None = None,
) -> Report:
    """Measure classes of the given sizes, shape (classes,), whose members follow one another in each column.

    population, fraction: as for `journalist`. least: the l of recursive_c. times: how many classes each entry of
    `sizes` and `population` stands for, one if None; without sensitive columns. subjects: of each member, shape (n,),
    -1 for none, if a class has as many as it has subjects, and each of them counts once for each value that it has.
    records: how many there are, if `sizes` are numbers of subjects.
    """
    class_counts = np.ones_like(sizes) if times is None else times
    label = np.repeat(np.arange(len(sizes)), sizes) if sensitive else np.zeros(0, np.intp)
    if subjects is None:
        counts = [_Counts.of(label, len(sizes), column) for column in sensitive]
    else:
        counts = [_Counts.of_subjects(label, len(sizes), column, subjects) for column in sensitive]
        sizes = np.bincount(_distinct(label, subjects)[0], minlength=len(sizes)).astype(np.int64)
        records = int((subjects >= 0).sum())
    n, k, classes = int(sizes @ class_counts), int(sizes.min()), int(class_counts.sum())
    outside = journalist(sizes, population, fraction)
    return Report(
        records=n if records is None else records,
        classes=classes,
        k=k,
        singletons=int(class_counts[sizes == 1].sum()),
        avg_class=n / classes,
        max_risk=1.0 / k,
        avg_risk=classes / n,
        l=min((c.distinct_l() for c in counts), default=None),
        entropy_l=min((c.entropy_l() for c in counts), default=None),
        t=max((c.closeness() for c in counts), default=None),
        recursive_c=max((c.recursive_c(least) for c in counts), default=None),
        journalist_max=None if outside is None else float(outside.max()),
        journalist_avg=None if outside is None else fsum(outside * (sizes * class_counts)) / n,
        population_uniques=_population_uniques(sizes, class_counts, population, fraction),
        k_map=None if population is None else int(population.min()),
    )


def _population_uniques(
    sizes: Sizes, class_counts: Sizes, population: Sizes | None, fraction: float | Floats | None
) -> float | None:
    """How many records are alone in their class and in the population."""
    if population is not None:
        return float(class_counts[population == 1].sum())
    if fraction is None:
        return None
    return population_uniques(sizes, class_counts, fsum(sizes * class_counts / fraction))


def _distinct(label: npt.NDArray[np.intp], of: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """The distinct pairs of a label and what is not negative, by label. Both of shape (pairs,)."""
    kept = of >= 0
    width = int(of.max(initial=0)) + 1
    label, partners = np.divmod(np.unique(label[kept].astype(np.int64) * width + of[kept]), width)
    return label.astype(np.intp), partners


@dataclass(frozen=True, eq=False)
class _Counts:
    """How often each class holds each sensitive value: only pairs that occur, by class, then by value.

    classes: how many there are, those without any value too.
    """

    classes: int
    label: npt.NDArray[np.intp]
    value: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]  # of the class
    overall: npt.NDArray[np.float64]  # share of each value in the table, shape (distinct,)
    ordered: bool

    @staticmethod
    def of(label: npt.NDArray[np.intp], classes: int, column: Sensitive) -> "_Counts":
        known = column.codes >= 0
        label, codes = label[known], column.codes[known]
        pair = label.astype(np.int64) * column.distinct + codes
        occurring, count = np.unique(pair, return_counts=True)
        held, value = np.divmod(occurring, max(column.distinct, 1))
        overall = np.bincount(codes, minlength=column.distinct) / max(len(codes), 1)
        return _Counts.shared(classes, held.astype(np.intp), value, count, overall, ordered=column.ordered)

    @staticmethod
    def of_subjects(label: npt.NDArray[np.intp], classes: int, column: Sensitive, subjects: Codes) -> "_Counts":
        """Where each subject of a class counts once for each value, and in the table once for each value too."""
        width = max(column.distinct, 1)
        pair = subjects.astype(np.int64) * width + column.codes
        held, keys = _distinct(label, np.where((subjects < 0) | (column.codes < 0), -1, pair))
        occurring, value = np.unique(keys % width, return_inverse=True)
        held_column = Sensitive(value.ravel().astype(np.int32), len(occurring), column.ordered)
        once = np.bincount(np.searchsorted(occurring, np.unique(keys) % width), minlength=len(occurring))
        return replace(_Counts.of(held, classes, held_column), overall=once / max(once.sum(), 1))

    @staticmethod
    def shared(
        classes: int,
        label: npt.NDArray[np.intp],
        value: npt.NDArray[np.int64],
        count: npt.NDArray[np.int64],
        overall: npt.NDArray[np.float64],
        *,
        ordered: bool,
    ) -> "_Counts":
        """With each count's share of its class."""
        share = count / np.bincount(label, weights=count, minlength=classes)[label]
        return _Counts(classes, label, value, count, share, overall, ordered)

    @property
    def _by_class(self) -> npt.NDArray[np.int64]:
        """How many values each class has, shape (classes,)."""
        return np.bincount(self.label, minlength=self.classes)

    def distinct_l(self) -> int:
        return int(self._by_class.min())

    def entropy_l(self) -> float:
        """As many digits as are certain: a class of two values, half each, has 2 and not a little less."""
        if self.distinct_l() == 0:
            return 0.0
        entropy = np.bincount(self.label, weights=-self.share * np.log(self.share))
        return float(f"{np.exp(entropy.min()):.12g}")

    def recursive_c(self, least: int) -> float:
        """Largest ratio, over classes, of the commonest value to all but the `least` - 1 commonest ones together."""
        if self.distinct_l() == 0:
            return float("inf")
        first = np.flatnonzero(np.concatenate(([True], self.label[1:] != self.label[:-1])))
        falling = self.count[np.lexsort((-self.count, self.label))]
        rank = np.arange(len(falling)) - first[self.label]
        others = np.bincount(self.label, weights=falling * (rank >= least - 1))
        return float("inf") if (others == 0).any() else float((falling[first] / others).max())

    def closeness(self) -> float:
        """As many digits as are certain, as for entropy."""
        return float(f"{self._ordered_distance() if self.ordered else self._equal_distance():.12g}")

    def _equal_distance(self) -> float:
        """Earth mover's distance when all values are equally far apart: half the sum of the differences."""
        above = np.maximum(self.share - self.overall[self.value], 0.0)
        return float(np.bincount(self.label, weights=above).max(initial=0.0))

    def _ordered_distance(self) -> float:
        """Earth mover's distance over ranks: mean gap between the cumulative distributions.

        A class's distribution is flat between the values it holds, so each flat stretch is summed at once: left of
        where the table's own curve crosses it the table lies below, right of it above.
        """
        m = len(self.overall)
        if m < 2 or not len(self.label):
            return 0.0
        curve = np.cumsum(self.overall)
        area = np.concatenate(([0.0], np.cumsum(curve)))
        first = np.concatenate(([True], self.label[1:] != self.label[:-1]))
        last = np.concatenate((first[1:], [True]))
        running = np.cumsum(self.share)
        height = running - (running - self.share)[first][np.cumsum(first) - 1]
        start = self.value
        stop = np.where(last, m - 1, np.concatenate((self.value[1:], [m - 1])))
        stop = np.maximum(stop, start)
        cross = np.clip(np.searchsorted(curve, height), start, stop)
        below = height * (cross - start) - (area[cross] - area[start])
        above = (area[stop] - area[cross]) - height * (stop - cross)
        before = np.where(first, area[self.value], 0.0)
        distance = np.bincount(self.label, weights=below + above + before) / (m - 1)
        return float(distance.max())


@dataclass(frozen=True)
class Worst:
    """The worst of some classes, on one sensitive column; l, entropy_l, t and recursive_c are those of `Report`."""

    l: int  # noqa: E741 - the column's name in k_report
    entropy_l: float
    t: float
    recursive_c: float


def worst(
    label: npt.NDArray[np.intp],
    value: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    overall: npt.NDArray[np.float64],
    *,
    ordered: bool,
    least: int,
) -> Worst:
    """Measure some classes of a table, from how often each class holds each value: shapes (pairs,).

    The pairs are sorted by label, then by value, and each occurs once; a value of -1 is none. overall: share of each
    value in the whole table, shape (distinct,). ordered: whether values lie on a line. least: the l of recursive_c.
    """
    known = value >= 0
    pairs = _Counts.shared(int(label.max()) + 1, label[known], value[known], count[known], overall, ordered=ordered)
    return Worst(pairs.distinct_l(), pairs.entropy_l(), pairs.closeness(), pairs.recursive_c(least))
