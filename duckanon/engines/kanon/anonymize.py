"""From quasi-identifiers to class labels: the engine's entry point."""

from collections.abc import Mapping, Sequence

import numpy as np

from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.methods.freeform import FREEFORM
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Records
from duckanon.engines.kanon.ties import Hashes, settle
from duckanon.engines.registry import named
from duckanon.errors import InvalidInput


def check_k(k: int, n: int) -> None:
    """Raise InvalidInput unless n records can be k-anonymous."""
    if k < 2:
        raise InvalidInput("k must be 2 or more: with k = 1 every record may stand alone.")
    if n == 0:
        raise InvalidInput("The table has no rows: there is nothing to anonymise.")
    if n < k:
        raise InvalidInput(
            f"The table has fewer than k = {k} rows: choose a smaller k, or anonymise more rows together."
        )


def check_method(method: str) -> None:
    """Raise InvalidInput unless the registry knows `method`."""
    if method in FREEFORM:
        raise InvalidInput(
            f"Method '{method}' is freeform: fewer than k records may share their released values, which is not "
            "k-anonymity by Definition 2. Only k_compare runs it."
        )
    named(METHODS, method)


def check_seconds(seconds: float | None, method: str) -> None:
    """Raise InvalidInput for a time limit that the method would ignore."""
    if seconds is not None and not METHODS[method].timed:
        timed = ", ".join(f"'{m.name}'" for m in METHODS.values() if m.timed)
        raise InvalidInput(f"Method '{method}' takes no time limit: leave seconds out, or choose one of {timed}.")


def check_options(options: Mapping[str, int], methods: Sequence[str]) -> None:
    """Raise InvalidInput for an option that none of the methods has, or that is too small."""
    least: dict[str, int] = {}
    for name in methods:
        least |= METHODS[name].options
    for option, value in options.items():
        if option not in least:
            having = "; ".join(f"'{m.name}' has {', '.join(m.options)}" for m in METHODS.values() if m.options)
            raise InvalidInput(f"There is no option '{option}' of the method: {having}.")
        if value < least[option]:
            raise InvalidInput(f"Option '{option}' must be {least[option]} or more.")


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
    order = canonical(records)
    control = control or Control()
    ordered = records.take(order, control.threads)
    found = METHODS[method].run(ordered, k, control)
    if content is not None:
        order = settle(ordered, order, found, content)
    labels = np.empty_like(found)
    labels[order] = found
    return labels
