"""What the box bounds of all records prove together."""

from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.records import Records


def box_bound(records: Records, k: int, threads: int = 1) -> float:
    """A number that no k-anonymous partition's information loss is below. 2 <= k <= n; records in canonical order."""
    return float(box_losses(records, k, threads).mean()) + records.floor
