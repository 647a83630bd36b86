"""What the labels of a release stand for: leaves of a hierarchy, or a band as `[30, 40)` has it in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.engines.kanon.hierarchy import ROOT
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from duckanon.engines.kanon.hierarchy import Hierarchy

_BAND = re.compile(r"\[([^\s,\[\]()]*), ([^\s,\[\]()]*)\)")


def leaves(name: str, tree: Hierarchy, values: pa.Array) -> npt.NDArray[np.int64]:
    """The leaf of each of a column's values as texts, shape (n,), -1 for NULL. Raises InvalidInput for no leaf."""
    positions = pc.index_in(values, value_set=pa.array(tree.names, pa.string())).fill_null(-1)
    codes: npt.NDArray[np.int64] = positions.to_numpy(zero_copy_only=False).astype(np.int64)
    if ((codes < 0) & values.is_valid().to_numpy(zero_copy_only=False)).any():
        raise InvalidInput(
            f'Column "{name}" holds a value that its hierarchy lacks: give the hierarchy a row for each value.'
        )
    return codes


def below(name: str, tree: Hierarchy, labels: pa.Array) -> npt.NDArray[np.int64]:
    """The first and the last leaf below each label, shape (n, 2), -1 for NULL. Raises InvalidInput for no label."""
    coded = pc.dictionary_encode(labels)
    spans = np.full((len(coded.dictionary) + 1, 2), -1, np.int64)
    for place, label in enumerate(coded.dictionary.to_pylist()):
        if label not in tree.meanings:
            raise InvalidInput(
                f'Column "{name}_label" holds a label that the hierarchy of "{name}" lacks: give the hierarchy that '
                "the release was made with."
            )
        first, end = tree.meanings[label]
        spans[place] = first, end - 1
    places = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
    ends: npt.NDArray[np.int64] = spans[places]
    return ends


def band(name: str, label: str) -> tuple[str, str]:
    """The lower and the upper end of a band from its label, '' where it is open. Raises InvalidInput."""
    if label == ROOT:
        return "", ""
    if match := _BAND.fullmatch(label):
        return match[1], match[2]
    raise InvalidInput(
        f'Column "{name}_label" holds a label that is none of a band, as in [30, 40): name the column in hierarchies, '
        "with the hierarchy that the release was made with."
    )


def band_ends(name: str, labels: pa.Array, kind: pa.DataType) -> tuple[Sequence[pa.Array], npt.NDArray[np.bool_]]:
    """The lower and the upper end of bands from their labels, and where the label is NULL, each of shape (n,).

    kind: the type of the ends, NULL where they are open. Raises InvalidInput for other labels.
    """
    coded = pc.dictionary_encode(labels)
    ends = [band(name, label) for label in coded.dictionary.to_pylist()]
    try:
        sides = [pa.array([end or None for end in side], pa.string()).cast(kind) for side in zip(*ends, strict=True)]
    except pa.ArrowInvalid:
        raise InvalidInput(
            f'Column "{name}_label" holds labels of bands whose ends are not of the column\'s type: name the column in '
            "hierarchies, with the hierarchy that the release was made with."
        ) from None
    sides = sides or [pa.nulls(0, kind)] * 2
    return [side.take(coded.indices) for side in sides], labels.is_null().to_numpy(zero_copy_only=False)
