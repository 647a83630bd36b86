"""What can be predicted from a table, and from its release: one linear model, learned from each, judged alike.

For categories it is a logistic regression and the measure is accuracy, for numbers a ridge regression and R². Both
models learn from four fifths of their table and are judged on records of the table before its release, of the fifth
that the first has not seen; five times over. (Release and table cannot be matched row by row. So the second may have
seen a record of that fifth in generalised form, which a linear model of many records makes little of.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.fidelity.cells import Categories, Cells, Numbers
from duckanon.engines.kanon.fidelity.measures import Compared, Measure
from duckanon.engines.kanon.fidelity.parts import chances, parts_of
from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_FOLDS, _SEED = 5, 20


def predictions(tables: Compared, target: int) -> Iterator[Measure]:
    """How well the target, a column's number, is predicted from the others. Raises InvalidInput.

    It needs scikit-learn, and a table in which the target has two values or more.
    """
    _ready()
    name = (tables.names[target],)
    before, after = _examples(tables, target)
    if min(before.weights.sum(), after.weights.sum()) < _FOLDS or len(np.unique(before.labels)) < 2:
        raise InvalidInput("The target needs two values or more, in five records or more of both tables.")
    if isinstance(tables.before.columns[target], Numbers):
        yield Measure.of("r_squared", name, "ridge regression", *_judged(before, after, _Ridge()))
    else:
        yield Measure.of("accuracy", name, "commonest value", *_judged(before, after, _Commonest()))
        yield Measure.of("accuracy", name, "logistic regression", *_judged(before, after, _Logistic()))


@dataclass(frozen=True, eq=False)
class _Examples:
    """What a model learns from. features: shape (n, features); labels: numbers or codes, shape (n,).

    weights: how many records each row stands for, shape (n,). whole: the same before a row with several labels was
    divided among them, whole numbers.
    """

    features: Floats
    labels: npt.NDArray[Any]
    weights: Floats
    whole: Floats

    def folds(self, rng: np.random.Generator) -> list[tuple[_Examples, _Examples]]:
        """The records to learn from, and those to judge by, five times: a row's records are dealt out in turn."""
        first = np.floor(rng.random(len(self.labels)) * _FOLDS)
        folds = []
        for fold in range(_FOLDS):
            dealt = self.whole // _FOLDS + ((fold - first) % _FOLDS < self.whole % _FOLDS)
            judged = self.weights * dealt / self.whole
            folds.append((self._weighing(self.weights - judged), self._weighing(judged)))
        return folds

    def _weighing(self, weights: Floats) -> _Examples:
        kept = weights > 0
        return _Examples(self.features[kept], self.labels[kept], weights[kept], self.whole[kept])


def _examples(tables: Compared, target: int) -> tuple[_Examples, _Examples]:
    """Those of the table and of its release, with the same features."""
    features: list[list[Floats]] = [[], []]
    for i, write in enumerate(tables.writers):
        if i == target:
            continue
        columns = [table.columns[i] for table in (tables.before, tables.after)]
        parts = parts_of(tables.before, i, write)
        scale = _scale(tables.before, i)
        for place, column in enumerate(columns):
            if isinstance(column, Numbers):
                scaled = (np.nan_to_num(column.middle, nan=scale[0]) - scale[0]) / scale[1]
                block = np.stack([scaled, column.missing], axis=1)
            else:
                block = chances(parts, column)
            features[place].append(block[column.index])
    examples = [
        _labelled(np.concatenate(blocks, axis=1) if blocks else np.zeros((len(table.weights), 1)), table, target)
        for blocks, table in zip(features, (tables.before, tables.after), strict=True)
    ]
    return examples[0], examples[1]


def _scale(table: Cells, column: int) -> tuple[float, float]:
    """Mean and standard deviation of a column of numbers; of categories none is needed."""
    cells = table.columns[column]
    if not isinstance(cells, Numbers) or cells.missing.all():
        return 0.0, 1.0
    weights = np.where(cells.missing, 0.0, table.weighed(column))
    middles = np.nan_to_num(cells.middle)
    mean = float(weights @ middles / weights.sum())
    return mean, float(np.sqrt(weights @ (middles - mean) ** 2 / weights.sum())) or 1.0


def _labelled(features: Floats, table: Cells, target: int) -> _Examples:
    """A row for each value that a row's target may have; rows without a target are left out."""
    column = table.columns[target]
    if isinstance(column, Categories):
        sizes = np.diff(column.ends)[column.index]
        rows = np.repeat(np.arange(len(sizes)), sizes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        labels = column.members[column.ends[column.index[rows]] + np.arange(len(rows)) - first]
        return _Examples(features[rows], labels, table.weights[rows] / sizes[rows], table.weights[rows])
    there = ~column.missing[column.index]
    return _Examples(features[there], column.middle[column.index][there], table.weights[there], table.weights[there])


def _judged(before: _Examples, after: _Examples, model: Any) -> tuple[float, float]:
    """The mean score of what is learned from each."""
    folds = [examples.folds(np.random.default_rng(_SEED)) for examples in (before, after)]
    scores = [
        [model.score(learned, test), model.score(other, test)]
        for (learned, test), (other, _) in zip(*folds, strict=True)
    ]
    first, second = np.mean(scores, axis=0).tolist()
    return round(first, 12), round(second, 12)


class _Commonest:
    """The value that most records have."""

    def score(self, learned: _Examples, test: _Examples) -> float:
        labels, place = np.unique(learned.labels, return_inverse=True)
        most = labels[np.argmax(np.bincount(place.ravel(), learned.weights))]
        return float(test.weights @ (test.labels == most) / test.weights.sum())


class _Logistic:
    """Multinomial logistic regression."""

    def score(self, learned: _Examples, test: _Examples) -> float:
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(learned.labels)) < 2:
            return _Commonest().score(learned, test)
        model = LogisticRegression(max_iter=2000)
        model.fit(learned.features, learned.labels, sample_weight=learned.weights)
        return float(model.score(test.features, test.labels, sample_weight=test.weights))


class _Ridge:
    """Linear regression with a little shrinkage, which settles columns that follow from others."""

    def score(self, learned: _Examples, test: _Examples) -> float:
        from sklearn.linear_model import Ridge

        model = Ridge()
        model.fit(learned.features, learned.labels, sample_weight=learned.weights)
        return float(model.score(test.features, test.labels, sample_weight=test.weights))


def _ready() -> None:
    """Raises InvalidInput where scikit-learn is missing."""
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "sklearn":
            raise
        raise InvalidInput("target needs scikit-learn: pip install 'duckanon[utility]'.") from None
