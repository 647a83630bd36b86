"""From records to a release in which a suppressed value may stand for any, and back to the records."""

from __future__ import annotations

import numpy as np

from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Records, check_k
from duckanon.engines.kanon.ties import Hashes
from duckanon.engines.kanon.wildcard.matching import Groups, numbered
from duckanon.engines.kanon.wildcard.search import suppress


def release(records: Records, content: Hashes, k: int) -> tuple[list[int], Labels]:
    """Patterns by label, and the label of each record, shape (n,): records of a label are equal and lose the columns of
    its pattern, as bits. content: what tells equal records apart, so that their order in the table does not.
    """
    check_k(k, len(records))
    codes = np.stack([attribute.codes.astype(np.int64) for attribute in records.attributes], axis=1)
    nulls = np.stack([attribute.codes == attribute.distinct for attribute in records.attributes], axis=1)
    bits = 1 << np.arange(codes.shape[1], dtype=np.int64)
    group = numbered(codes)
    order = np.lexsort((content, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    first = order[starts]
    groups = Groups(codes[first], np.bincount(group), (nulls[first] * bits).sum(axis=1))
    costs = np.array([attribute.weight for attribute in records.attributes]) * len(bits)
    kinds = suppress(groups, k, costs).kinds
    labels = np.empty(len(order), np.int32)
    labels[order] = np.repeat(np.arange(len(kinds.counts), dtype=np.int32), kinds.counts)
    return [int(pattern) for pattern in kinds.patterns], labels
