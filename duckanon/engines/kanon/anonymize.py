"""From quasi-identifiers to class labels: the engine's entry point."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from duckanon.engines.kanon.blocks import BLOCK, block_count, blocks
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.methods import METHODS, Method
from duckanon.engines.kanon.methods.freeform import FREEFORM
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Records, check_k
from duckanon.engines.kanon.ties import Hashes, settle
from duckanon.engines.parallel import spread
from duckanon.engines.registry import named
from duckanon.errors import InvalidInput

# Rows are numbered by int32.
_NUMBERED = 2**31 - 1
# A method that would take longer needs a time limit.
_MOST_MINUTES = 5
# Bytes of a record that is held: its hash, place on the curve, block, class; and its code in each column.
_HELD, _HELD_COLUMN = 32, 4
# Bytes of a record that a search works on: orders, near points, classes; and its points, codes and sorted lists.
_AT_WORK, _AT_WORK_COLUMN = 400, 40


def check_method(method: str) -> None:
    """Raise InvalidInput unless the registry knows `method`."""
    if method in FREEFORM:
        raise InvalidInput(
            f"Method '{method}' is freeform: fewer than k records may share their released values, which is not "
            "k-anonymity by Definition 2. Only k_compare runs it."
        )
    if method == "global":
        raise InvalidInput("Method 'global' makes labels for whole columns: call k_anonymize with it, in DuckDB.")
    named(METHODS, method)


def check_seconds(seconds: float | None, method: str) -> None:
    """Raise InvalidInput for a time limit that the method would ignore."""
    if seconds is not None and not METHODS[method].timed:
        timed = ", ".join(f"'{m.name}'" for m in METHODS.values() if m.timed)
        raise InvalidInput(f"Method '{method}' takes no time limit: leave seconds out, or choose one of {timed}.")


def check_duration(method: str, n: int, m: int, k: int, *, seconds: float | None, options: Mapping[str, int]) -> None:
    """Raise InvalidInput if the method would take many minutes for n records with m attributes, and has no limit."""
    takes = METHODS[method].takes
    if takes is None or seconds is not None:
        return
    minutes = takes(n, m, k, options) / 60
    if minutes > _MOST_MINUTES:
        raise InvalidInput(
            f"Method '{method}' would take about {minutes:,.0f} minutes for {n:,} rows with {m} quasi-identifiers and "
            f"k = {k}, perhaps ten times as long: say how long it may search, as in seconds := 60, or take 'auto'."
        )


def check_options(options: Mapping[str, int], methods: Sequence[str]) -> None:
    """Raise InvalidInput for an option that none of the methods has, or that is too small."""
    least: dict[str, int] = {}
    for name in methods:
        least |= METHODS[name].options
    for option, setting in options.items():
        if option not in least:
            having = "; ".join(f"'{m.name}' has {', '.join(m.options)}" for m in METHODS.values() if m.options)
            raise InvalidInput(f"There is no option '{option}' of the method: {having}.")
        if setting < least[option]:
            raise InvalidInput(f"Option '{option}' must be {least[option]} or more.")


def check_memory(what: str, n: int, columns: int, threads: int, limit: int, *, blocks: bool) -> None:
    """Raise InvalidInput if work on n records of so many columns would hold more than `limit` bytes.

    The memory of an engine is its own: DuckDB does not count it. blocks: whether the work is done block by block.
    """
    if n > _NUMBERED:
        raise InvalidInput(f"{what} takes at most {_NUMBERED:,} rows at a time: work on the table in parts.")
    at_work = min(n, threads * BLOCK) if blocks else n
    needed = n * (_HELD + _HELD_COLUMN * columns) + at_work * (_AT_WORK + _AT_WORK_COLUMN * columns)
    if needed > limit:
        raise InvalidInput(
            f"{what} would need about {needed / 2**20:,.0f} MiB beside DuckDB for {n:,} rows, more than memory_limit "
            f"({limit / 2**20:,.0f} MiB): raise memory_limit, or work on the table in parts, one view a part."
            + ("" if blocks else " Methods 'order', 'refine' and 'auto' work in blocks and need less.")
        )


def anonymize(
    records: Records, k: int, method: str = "auto", *, content: Hashes | None = None, control: Control | None = None
) -> Labels:
    """Partition n records into classes of at least k that lose little. Returns labels of shape (n,), int32.

    content: a hash of each row's full content, shape (n,), which decides between rows with equal quasi-identifiers.
    The classes do not depend on the order of the records, nor on threads. Raises InvalidInput if k < 2, k > n, or the
    method is unknown. Source: Liang and Samavi 2020; see the registry for each method's own.
    """
    check_k(k, len(records))
    check_method(method)
    control = control or Control()
    chosen = METHODS[method]
    if not chosen.blocks or block_count(len(records), k) == 1:
        return _partition(records, k, chosen, content, control)
    return _by_blocks(records, k, chosen, content, control)


def _partition(records: Records, k: int, method: Method, content: Hashes | None, control: Control) -> Labels:
    """What the method makes of records in any order."""
    order = canonical(records)
    ordered = records.take(order, control.threads)
    if control.conditions is not None:
        control = replace(control, conditions=control.conditions.take(order))
    ordered_labels = method.run(ordered, k, control)
    if content is not None:
        order = settle(ordered, order, ordered_labels, content)
    labels = np.empty_like(ordered_labels)
    labels[order] = ordered_labels
    return labels


def _by_blocks(records: Records, k: int, method: Method, content: Hashes | None, control: Control) -> Labels:
    """What the method makes of each block on its own, several side by side. A time limit is shared out evenly."""
    n, parts = len(records), blocks(records, k, content, control.threads)
    seconds = control.seconds
    if seconds is not None:
        seconds *= min(control.threads, len(parts)) / len(parts)
    labels, classes, done = np.empty(n, np.int32), np.zeros(len(parts), np.int64), np.zeros(len(parts))

    def run_block(b: int) -> None:
        def report(share: float) -> None:
            done[b] = share * len(parts[b])
            control.progress(float(done.sum()) / n)

        block, conditions = parts[b], control.conditions
        within = replace(
            control,
            threads=1,
            progress=report,
            seconds=seconds,
            table=n,
            conditions=None if conditions is None else conditions.take(block),
        )
        block_labels = _partition(records.take(block), k, method, None if content is None else content[block], within)
        labels[block], classes[b] = block_labels, block_labels.max() + 1

    spread(run_block, range(len(parts)), control.threads)
    for block, before in zip(parts, np.cumsum(classes) - classes, strict=True):
        labels[block] += before
    return labels
