"""A certificate from records alone: a good partition first, then prices by its classes."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.certificate.certificate import Certificate, certificate
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Records

# The share of a time limit that is for the partition.
_PARTITION = 0.3


def certify(records: Records, k: int, control: Control) -> Certificate:
    """Prices of n records in any order that prove a lower bound, by the classes of `auto`.

    Without a time limit the effort is counted, and the result is the same every time. Raises InvalidInput as
    `anonymize` does.
    """
    began, seconds = monotonic(), control.seconds
    first = replace(
        control,
        seconds=None if seconds is None else _PARTITION * seconds,
        progress=lambda share: control.progress(_PARTITION * share),
    )
    labels = anonymize(records, k, control=first)
    order = canonical(records)
    ordered = records.take(order, control.threads)
    box = box_losses(ordered, k, control.threads)
    last = replace(
        control,
        seconds=None if seconds is None else max(seconds - (monotonic() - began), 1e-3),
        progress=lambda share: control.progress(_PARTITION + (1.0 - _PARTITION) * share),
    )
    proven = certificate(ordered, k, box, labels[order], last)
    prices = proven.prices.copy()
    prices[order] = proven.prices
    return Certificate(prices, proven.bound)
