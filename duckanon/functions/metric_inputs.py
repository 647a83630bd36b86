"""From what SQL packs for metric privacy to the engine's arrays, with one clear sentence for each mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.errors import InvalidInput
from duckanon.functions.arrow import integers

if TYPE_CHECKING:
    from duckanon.engines.metric.domain import Domain
    from duckanon.functions.metric import Metric

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _numbers(name: str, column: pa.Array) -> Floats:
    if column.null_count:
        raise InvalidInput(f'Column "{name}" holds NULL: fill it in, or leave those rows out.')
    numbers = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        raise InvalidInput(f'Column "{name}" holds NaN or infinity: correct it, or leave those rows out.')
    return np.asarray(numbers, dtype=np.float64)


def _coordinates(name: str, column: pa.Array) -> Floats:
    """One feature column, or several where each value is a list of numbers: shape (records, features)."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)):
        return _numbers(name, column)[:, None]
    if column.null_count:
        raise InvalidInput(f'Column "{name}" holds NULL: fill it in, or leave those rows out.')
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if (lengths != lengths[0]).any():
        raise InvalidInput(f'Column "{name}" holds lists of different lengths: give every record as many numbers.')
    return _numbers(name, column.flatten()).reshape(len(column), int(lengths[0]))


def _points(names: Sequence[str], packed: pa.StructArray) -> Floats:
    return np.concatenate([_coordinates(name, packed.field(i)) for i, name in enumerate(names)], axis=1)


def _pairs(packed: pa.Scalar, table: str, number: str) -> tuple[Ints, Ints, Floats]:
    """Places of two records and a number, line by line."""
    if not packed.is_valid:
        raise InvalidInput(f"The table of {table} has no rows.")
    lines = packed.values
    first, second = lines.field("first"), lines.field("second")
    if first.null_count or second.null_count:
        raise InvalidInput(f"The table of {table} names a record that the first table does not have.")
    numbers = _numbers(number, lines.field("value"))
    return integers(first), integers(second), numbers


def _once(first: Ints, second: Ints, records: int, table: str) -> None:
    if len(np.unique(first * records + second)) < len(first):
        raise InvalidInput(f"The table of {table} has two lines for the same pair: give one.")


def _given_distances(packed: pa.Scalar, records: int) -> Floats:
    first, second, numbers = _pairs(packed, "distances", "distance")
    if (numbers < 0).any():
        raise InvalidInput("A distance is negative: distances are 0 or more.")
    if numbers[first == second].any():
        raise InvalidInput("A record is at a distance above 0 from itself: leave out such lines.")
    _once(first, second, records, "distances")
    distances = np.full((records, records), np.inf)
    distances[first, second] = numbers
    both = np.isfinite(distances) & np.isfinite(distances.T)
    if (distances[both] != distances.T[both]).any():
        raise InvalidInput("The distances are not symmetric: give each pair one distance, once or both ways.")
    distances = np.minimum(distances, distances.T)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances, dtype=np.float64)


def _given_loss(packed: pa.Scalar, records: int) -> tuple[Ints, Floats]:
    """The outputs that a table of losses has, and its matrix."""
    first, second, numbers = _pairs(packed, "losses", "loss")
    _once(first, second, records, "losses")
    outputs, column = np.unique(second, return_inverse=True)
    if len(first) < records * len(outputs):
        raise InvalidInput("The table of losses lacks some pairs: give every output a loss for each record.")
    losses = np.empty((records, len(outputs)))
    losses[first, column] = numbers
    return outputs, losses


def _weights(packed: pa.Array) -> Floats:
    """How likely each destination is: all alike by default."""
    if packed.null_count == len(packed):
        return np.full(len(packed), 1.0 / len(packed))
    numbers = _numbers("weight", packed)
    if (numbers < 0).any() or not numbers.sum() > 0:
        raise InvalidInput('Column "weight" of the destinations must be 0 or more, and not always 0.')
    return np.asarray(numbers / numbers.sum(), dtype=np.float64)


def domain(
    request: Metric, *, values: pa.Scalar, loss: pa.Scalar, distances: pa.Scalar, destinations: pa.Scalar
) -> Domain:
    """The engine's domain: the records' `values`, and the lines of the other tables that the request names."""
    from duckanon.engines.metric.distances import named, pairwise
    from duckanon.engines.metric.domain import MOST_RECORDS, Domain, travel_loss, uniform

    measure = named(request.metric)
    if not values.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to protect.")
    rows, names = values.values, request.features
    records = len(rows)
    if not 2 <= records <= MOST_RECORDS:
        # The domain raises this before any distance is computed.
        nothing: Any = np.zeros((records, 0))
        Domain(nothing, request.epsilon, None, True, uniform(records), np.zeros(0, int), nothing)
    points = _points(names, rows.field("features")) if names else np.zeros((records, 0))
    if request.distances is None:
        lengths, triangle = pairwise(points, measure), measure.triangle
    else:
        lengths, triangle = _given_distances(distances, records), False
    outputs, losses = np.arange(records), lengths
    if request.loss is not None:
        outputs, losses = _given_loss(loss, records)
    elif request.destinations is not None:
        if not destinations.is_valid:
            raise InvalidInput("The table of destinations has no rows.")
        there = _points(names, destinations.values.field("place"))
        if there.shape[1] != points.shape[1]:
            raise InvalidInput("The destinations have another number of features than the records.")
        losses = travel_loss(measure.between(points, there), _weights(destinations.values.field("weight")))
    elif request.distances is not None:
        losses = _along_paths(lengths)
    return Domain(
        lengths,
        request.epsilon,
        request.radius,
        triangle,
        _numbers("prior", rows.field("prior")) if request.prior else uniform(records),
        outputs,
        losses,
        points if names else None,
    )


def _along_paths(lengths: Floats) -> Floats:
    """Shortest paths over the pairs of a table of distances; records without a path are as far as the sum of all."""
    from duckanon.engines.metric.graph import edges_of, shortest_paths

    paths = shortest_paths(edges_of(lengths))
    finite = np.isfinite(paths)
    return np.where(finite, paths, 2 * paths[finite].max() + 1.0)


def published(packed: pa.Scalar, inputs: Domain) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A mechanism's matrix, shape (records, outputs), and the records it withholds."""
    if not packed.is_valid:
        raise InvalidInput("The mechanism has no rows.")
    lines = packed.values
    records = len(inputs.distances)
    withheld = lines.field("withheld").to_numpy(zero_copy_only=False).astype(bool)
    first, second = lines.field("first"), lines.field("second").filter(pa.array(~withheld))
    if first.null_count or second.null_count:
        raise InvalidInput("The mechanism names a record that the table does not have.")
    secret = integers(first)
    probability = _numbers("probability", lines.field("value"))
    if (probability < 0).any():
        raise InvalidInput("The mechanism holds a negative number: probabilities are 0 or more.")
    if (np.bincount(secret, probability, minlength=records) == 0).any():
        raise InvalidInput("The mechanism has no output for some record of the table.")
    suppressed = np.zeros(records, dtype=bool)
    suppressed[secret[withheld]] = True
    column = np.full(records, -1)
    column[inputs.outputs] = np.arange(len(inputs.outputs))
    place = column[integers(second)]
    if (place < 0).any():
        raise InvalidInput("The mechanism has an output that the table of losses does not have.")
    if suppressed[secret[~withheld]].any():
        raise InvalidInput("The mechanism withholds a record and gives it outputs too: it must do one of them.")
    _once(secret[~withheld], place, records, "the mechanism")
    matrix = np.zeros((records, len(inputs.outputs)))
    matrix[secret[~withheld], place] = probability[~withheld]
    return matrix, suppressed
