"""From records to classes that meet all criteria: a method's classes, and what suppression, subjects and sensitive
columns ask beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from time import monotonic

import numpy as np

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.classes import near_records, record_boxes
from duckanon.engines.kanon.criteria.consecutive import Conditions
from duckanon.engines.kanon.criteria.enforcement import Settled, settle_classes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria, criteria_arrays, present
from duckanon.engines.kanon.criteria.rebuilding import rebuild
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.orders import argsort_words, hilbert, pack
from duckanon.engines.kanon.outliers import outliers
from duckanon.engines.kanon.records import Codes, Order, Records
from duckanon.engines.kanon.risk import Sensitive
from duckanon.engines.kanon.ties import Hashes
from duckanon.engines.parallel import spread
from duckanon.errors import InvalidInput

# What `rebuild` takes at a time: it knows no class outside.
_BLOCK = 65_536
# Visits of each record by `rebuild`, while the classes are small; and the share of a time limit that is the method's.
_VISITS, _SMALL, _METHOD = 20.0, 5, 0.5
# So many times what a record loses where failing classes are joined is the price of one that fails: it takes others
# along.
_DEAR = 2.5


def check_subjects(subjects: int, k: int) -> None:
    """Raise InvalidInput unless records of so many subjects can be k-anonymous."""
    if subjects < k:
        raise InvalidInput(
            f"The unit has fewer than k = {k} distinct values: choose a smaller k, or anonymise more of them together."
        )


def _different(subjects: Codes) -> int:
    """How many subjects there are. subjects: shape (n,), -1 for none."""
    return len(np.unique(subjects[subjects >= 0]))


def private_classes(
    records: Records,
    criteria: PrivacyCriteria,
    method: str = "auto",
    *,
    content: Hashes | None = None,
    control: Control | None = None,
    sensitive: Sequence[Sensitive] = (),
    subjects: Codes | None = None,
) -> Settled:
    """Classes that meet `criteria`, by a method and by what is done to its classes then.

    Without sensitive columns, `criteria.suppress` lets the records be dropped that cost most (`outliers`); with them,
    classes that fail. subjects: shape (n,), the subject of each record, -1 for none: then k and the criteria count
    subjects. Classes that fail are joined, and methods with a time limit search on among classes that meet all criteria
    (`criteria.rebuilding`). Content and control are as for `anonymize`. Raises InvalidInput as `anonymize` does, if a
    criterion fails for all records together, or if there are fewer than k subjects.
    """
    control = control or Control()
    if subjects is None and not sensitive and not criteria.suppress:
        return Settled(anonymize(records, criteria.k, method, content=content, control=control), 0, 0)
    if subjects is not None:
        check_subjects(_different(subjects), criteria.k)
    order = _canonical(records, subjects, content)
    kept = order
    if not sensitive:
        hashes = None if content is None else content[order]
        allowed = int(criteria.suppress * len(records))
        gone = outliers(records.take(order, control.threads), criteria.k, allowed, hashes, control.threads)
        kept = order[~gone]
        if subjects is not None and _different(subjects[kept]) < criteria.k:
            kept = order
    some = records.take(kept, control.threads)
    kept_subjects = None if subjects is None else subjects[kept]
    columns = [replace(column, codes=column.codes[kept]) for column in sensitive]
    dropped = len(records) - len(kept)
    criteria_of_kept = (
        criteria
        if sensitive
        else replace(criteria, suppress=Fraction(int(criteria.suppress * len(records)) - dropped, len(kept)))
    )
    settled = _settled(
        some, criteria_of_kept, method, None if content is None else content[kept], control, columns, kept_subjects
    )
    labels = np.full(len(records), -1, np.int32)
    labels[kept] = settled.labels
    return replace(settled, labels=labels, dropped=settled.dropped + dropped)


def _canonical(records: Records, subjects: Codes | None, content: Hashes | None) -> Order:
    """An order of the records that depends on what they hold alone. Their content contains their subject."""
    words = pack(records, records.by_variance)
    if content is not None:
        words.append((content, 64))
    elif subjects is not None:
        words.append(((subjects.astype(np.int64) + 1).astype(np.uint64), int(subjects.max() + 1).bit_length()))
    return argsort_words(words)


def _settled(
    records: Records,
    criteria: PrivacyCriteria,
    method: str,
    content: Hashes | None,
    control: Control,
    sensitive: Sequence[Sensitive],
    subjects: Codes | None,
) -> Settled:
    """The method's classes, joined and improved where more than k records is asked."""
    if subjects is None and not sensitive:
        return Settled(anonymize(records, criteria.k, method, content=content, control=control), 0, 0)
    until = None if control.seconds is None else monotonic() + control.seconds
    searches = METHODS[method].timed
    part = _METHOD if searches or METHODS[method].conditions else 1.0
    own = replace(
        control,
        progress=lambda share: control.progress(part * share),
        seconds=None if control.seconds is None else part * control.seconds,
    )
    labels = anonymize(records, criteria.k, method, content=content, control=own)
    settled = settle_classes(records, labels, sensitive, criteria, control.threads, subjects)
    if METHODS[method].conditions and (settled.joined or settled.dropped):
        return _sought(records, settled, criteria, method, own, sensitive, subjects)
    if not searches:
        return settled
    later = replace(control, progress=lambda share: control.progress(part + (1 - part) * share))
    return replace(settled, labels=_rebuilt(records, settled.labels, criteria, later, until, sensitive, subjects))


def _sought(
    records: Records,
    joined: Settled,
    criteria: PrivacyCriteria,
    method: str,
    control: Control,
    sensitive: Sequence[Sensitive],
    subjects: Codes | None,
) -> Settled:
    """Classes of a method that looks for those that meet the criteria, or `joined` if these lose no more.

    records: in an order that follows from their content. So equal records stay where the criteria were counted.
    """
    every = np.arange(len(records), dtype=np.int32)
    lost = _lost(records, joined)
    price = min(1.0, _DEAR * lost)
    conditions = Conditions(criteria_arrays(every, sensitive, criteria, subjects), every, price)
    labels = anonymize(records, criteria.k, method, control=replace(control, conditions=conditions))
    sought = settle_classes(records, labels, sensitive, criteria, control.threads, subjects)
    return sought if _lost(records, sought) < lost else joined


def _lost(records: Records, settled: Settled) -> float:
    """The information loss, 1 for each record that is dropped."""
    kept = np.flatnonzero(settled.labels >= 0).astype(np.int32)
    lost = total_loss(records.take(kept).space, settled.labels[kept]) + len(kept) * records.floor
    return float(lost + settled.dropped) / len(records)


def _rebuilt(
    records: Records,
    labels: Labels,
    criteria: PrivacyCriteria,
    control: Control,
    until: float | None,
    sensitive: Sequence[Sensitive],
    subjects: Codes | None,
) -> Labels:
    """The classes, improved part by part. Of a large table with sensitive columns and subjects they stay as they are:
    how many subjects have each value is asked of the whole table.
    """
    kept = np.flatnonzero(labels >= 0).astype(np.int32)
    parts = _parts(records.take(kept, control.threads), labels[kept])
    if subjects is not None and sensitive and len(parts) > 1:
        return labels
    sensitive = [_of_the_release(column, kept) if subjects is None else column for column in sensitive]
    visits = _VISITS * min(1.0, _SMALL / criteria.k) * min(1.0, (_BLOCK / len(records)) ** 0.8)
    done, improved, classes = np.zeros(len(parts)), labels.copy(), np.zeros(len(parts), np.int64)

    def improve_part(b: int) -> None:
        members = kept[parts[b]]
        some, every = records.take(members), np.arange(len(members), dtype=np.int32)
        columns = [replace(column, codes=column.codes[members]) for column in sensitive]
        arrays = criteria_arrays(every, columns, criteria, None if subjects is None else subjects[members])

        def proceed(share: float) -> bool:
            done[b] = share * len(members)
            control.progress(float(done.sum()) / len(kept))
            return until is None or monotonic() < until

        improved[members] = rebuild(record_boxes(some), near_records(some), arrays, labels[members], visits, proceed)
        classes[b] = improved[members].max() + 1

    spread(improve_part, range(len(parts)), control.threads)
    for part, before in zip(parts, np.cumsum(classes) - classes, strict=True):
        improved[kept[part]] += before
    return improved


def _of_the_release(column: Sensitive, kept: Order) -> Sensitive:
    """A column whose parts know how often all records that are kept have each value: closeness is to these."""
    whole = present(column, kept)
    numbered = np.full(len(column.codes), -1, np.int32)
    numbered[kept] = whole.codes
    table = np.bincount(whole.codes[whole.codes >= 0], minlength=whole.distinct)
    return replace(whole, codes=numbered, table=table)


def _parts(records: Records, labels: Labels) -> list[Order]:
    """Whole classes, near ones together, in parts of about as many records as `rebuild` takes at a time."""
    if len(records) < 2 * _BLOCK:
        return [np.arange(len(records), dtype=np.int32)]
    place = np.empty(len(records), np.int64)
    place[hilbert(records)] = np.arange(len(records))
    first = np.full(int(labels.max()) + 1, len(records))
    np.minimum.at(first, labels, place)
    order = np.lexsort((first[labels],)).astype(np.int32)
    changes = np.append(np.flatnonzero(np.diff(labels[order])) + 1, len(records))
    cuts = np.unique(changes[np.searchsorted(changes, np.arange(_BLOCK, len(records) - _BLOCK // 2, _BLOCK))])
    return np.split(order, cuts[cuts < len(records)])
