"""k per patient on generated stays: what the search that minds units saves, beside joining classes alone.

    python -m tests.bench.kanon_units [--stays 20000] [--patients 14000]

For each k: the loss where k counts stays (fewer than k patients in some classes), the loss of those classes joined
until each has k patients, and that of `k_anonymize(..., unit := 'patient')`.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.enforcement import settle_classes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import records
from duckanon.functions.encoding import encode
from tests.bench.discharges import discharges

_COLUMNS = (("age", "sex", "zip"), ("age", "sex", "zip", "hospital"), ("age", "sex", "zip", "admitted", "hospital"))
_SETS = ("sex", "hospital")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--stays", type=int, default=20_000)
    asked.add_argument("--patients", type=int, default=14_000)
    given = asked.parse_args()
    table = discharges(given.stays, given.patients)
    table = table.set_column(table.column_names.index("zip"), "zip", table["zip"].cast("int32"))
    subjects = np.unique(table["patient"].to_numpy(zero_copy_only=False), return_inverse=True)[1].astype(np.int32)
    control = Control(2)
    print("| columns | k | classes below k | stays | joined | `unit` | seconds, stays | seconds, `unit` |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for columns in _COLUMNS:
        found = records(
            encode(name, table[name].combine_chunks(), categorical=name in _SETS, weight=1.0) for name in columns
        )
        for k in (3, 5, 10):
            began = perf_counter()
            plain = anonymize(found, k, control=control)
            first = perf_counter() - began
            pairs = np.unique(plain.astype(np.int64) * given.stays + subjects) // given.stays
            below = float((np.bincount(pairs) < k).mean())
            joined = settle_classes(found, plain, [], PrivacyCriteria(k), 2, subjects).labels
            began = perf_counter()
            unit = private_classes(found, PrivacyCriteria(k), control=control, subjects=subjects).labels
            second = perf_counter() - began
            losses = [total_loss(found.space, labels) / given.stays for labels in (plain, joined, unit)]
            told = " | ".join(f"{loss:.4f}" for loss in losses)
            print(f"| {', '.join(columns)} | {k} | {below:.0%} | {told} | {first:.1f} | {second:.1f} |", flush=True)


if __name__ == "__main__":
    main()
