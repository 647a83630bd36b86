"""Labels of records as the query takes them: row numbers, class after class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def answer(labels: npt.NDArray[np.int32]) -> pa.Array:
    """The members of the classes, their labels, and the rows that are dropped (label -1)."""
    from duckanon.engines.kanon.orders import by_label

    dropped, members = np.split(by_label(labels + 1), [int((labels < 0).sum())])
    return pa.StructArray.from_arrays(
        [_one_list(members + 1), _one_list(labels[members]), _one_list(dropped + 1)],
        ["members", "labels", "dropped"],
    )


def _one_list(values: npt.NDArray[Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), pa.array(values))
