"""Split & Carry (Liang and Samavi 2020, Algorithm 1) and the two variants that its section 6 announces.

The records in variance order are solved piece by piece, each piece together with what is carried over from the one
before; `exact` solves them, where the paper uses its integer program. The classes that hold the last l records of a
piece are carried, whole: records that are equivalent to a boundary record only by way of others (Definition 6) are
then carried too, and none is left without k - 1 others. The paper has l = k.

The paper says ceil(n / kS) pieces in Algorithm 1 and floor in Figure 1; its worked example gives what is left after
the last whole piece to that piece, and so does this. With ceil the example loses 5.0302, not 4.8165.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, sqrt

import numpy as np

from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import class_losses
from duckanon.engines.kanon.kernels.consecutive import Labels, best_consecutive
from duckanon.engines.kanon.methods.exact import exact
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Order, Records

# What the searches of one piece may try.
_STEPS = 3_000_000
# The paper finds that a small S suffices.
SETS = 4
# Classes of a piece that `bubble_carry` keeps.
ACCEPTED = 2
# What a piece of P records with m attributes takes, in seconds: `python -m tests.bench.kanon_carry` measures it. Pieces
# differ by a factor of ten and more; past the last figure the searches end by their own limits.
_AT_TEN, _GROWTH, _LONGEST = 0.02, 0.17, 20.0


def _solve(records: Records, members: Order, k: int, seconds: float | None) -> list[Order]:
    """The best classes of some records, of which there are k or more, in their order."""
    piece = records.take(members)
    _, start = best_consecutive(piece.space, np.arange(len(members), dtype=np.int32), k)
    labels = exact(piece, k, start, Control(seconds=seconds), steps=_STEPS).labels
    edges = np.cumsum(np.bincount(labels))[:-1]
    return [members[part] for part in np.split(by_label(labels), edges)]


def _joined(n: int, classes: list[Order]) -> Labels:
    labels = np.empty(n, dtype=np.int32)
    for label, members in enumerate(classes):
        labels[members] = label
    return labels


def split_carry(
    records: Records,
    k: int,
    control: Control,
    sets: int = SETS,
    boundary: int | None = None,
    report: Callable[[Order, list[Order]], None] | None = None,
) -> Labels:
    """Pieces of `sets` times k records and what is carried. Labels of shape (n,); records in variance order.

    sets: the paper's S. boundary: its l, the number of last records whose classes are carried; k if None. report:
    called with each piece's records and classes. A time limit is shared out evenly among the pieces.
    """
    n, size = len(records), sets * k
    last = k if boundary is None else boundary
    pieces = max(n // size, 1)
    limit = None if control.seconds is None else control.seconds / pieces
    done: list[Order] = []
    carried = np.zeros(0, dtype=np.int32)
    for piece in range(pieces):
        stop = n if piece == pieces - 1 else (piece + 1) * size
        members = np.sort(np.concatenate([carried, np.arange(piece * size, stop, dtype=np.int32)]))
        classes = _solve(records, members, k, limit)
        if report is not None:
            report(members, classes)
        if piece < pieces - 1:
            # Numbers are places in the order, so the boundary is what is largest.
            edge = members[-min(last, len(members))] if last else n
            held = [c for c in classes if c.max() >= edge]
            done += [c for c in classes if c.max() < edge]
            carried = np.concatenate(held) if held else carried[:0]
        else:
            done += classes
        control.progress((piece + 1) / pieces)
    return _joined(n, done)


def split_seconds(n: int, m: int, k: int, options: Mapping[str, int]) -> float:
    """About how many seconds `split_carry` takes for n records with m attributes, without a time limit."""
    sets, boundary = options.get("sets", SETS), options.get("boundary", k)
    # The classes that hold the last l records are carried whole.
    carried = boundary + 3 * k // 2 if boundary else 0
    return _seconds(max(n // (sets * k), 1), min(sets * k + carried, n), m)


def bubble_seconds(n: int, m: int, k: int, options: Mapping[str, int]) -> float:
    """About how many seconds `bubble_carry` takes for n records with m attributes, without a time limit."""
    size = min(max(options.get("size", 5 * k), 2 * k), n)
    # A class has some 4/3 k records, and at least one class of each piece is carried on.
    kept = min(options.get("accepted", ACCEPTED) * 4 * k / 3, max(size - k, 1))
    return _seconds(1 + int((n - size) / kept), size, m)


def _seconds(pieces: int, size: int, m: int) -> float:
    return pieces * min(_AT_TEN * exp(min(_GROWTH * (size - 10) * sqrt(m / 2), 50)), _LONGEST)


def bubble_carry(
    records: Records, k: int, control: Control, size: int | None = None, accepted: int = ACCEPTED
) -> Labels:
    """Pieces of exactly `size` records, of which the `accepted` best classes are kept and all others carried on.

    size: the paper's P; 5k if None. accepted: its A. Labels of shape (n,); records in variance order.
    """
    n = len(records)
    size = max(5 * k if size is None else size, 2 * k)
    done: list[Order] = []
    piece, read = np.arange(min(size, n), dtype=np.int32), min(size, n)
    while True:
        classes = _solve(records, piece, k, None if control.seconds is None else control.seconds * size / n)
        if read == n:
            return _joined(n, done + classes)
        edges = np.append(0, np.cumsum([len(c) for c in classes])).astype(np.int32)
        losses = class_losses(records.space, np.concatenate(classes), edges)
        # At least one class is kept back, so that records left over can always join a class.
        best = np.argsort(losses / np.diff(edges), kind="stable")[: min(accepted, len(classes) - 1) or 1]
        done += [classes[c] for c in best]
        rest = [classes[c] for c in range(len(classes)) if c not in set(best.tolist())]
        more = np.arange(read, min(read + size - sum(map(len, rest)), n), dtype=np.int32)
        read += len(more)
        piece = np.sort(np.concatenate([*rest, more])).astype(np.int32)
        control.progress(read / n)
