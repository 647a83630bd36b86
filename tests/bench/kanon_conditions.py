"""Conditions on a sensitive column inside the search, beside classes that are joined afterwards: loss and CPU time.

Run: python -m tests.bench.kanon_conditions [ROWS] [K]
     python -m tests.bench.kanon_conditions census [ROWS]

Records of adult.parquet in ../shared/data, of which income, relationship or hours a week must not be learned;
or synthetic census records with eight quasi-identifiers, and values that follow from nothing.
"""

import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.criteria.enforcement import measured, settle_classes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.engines.kanon.risk import Sensitive
from tests.bench.census import census

DATA = Path(__file__).parents[3] / "shared" / "data" / "adult.parquet"
HEAD = """| records | sensitive, l, t | method | joined afterwards | CPU seconds | inside | CPU seconds | less, % |
|---|---|---|---|---|---|---|---|"""
QI = ("age", "workclass", "education", "marital_status", "occupation", "race", "sex", "native_country")


# What must not be learned, whether its values have an order, l and t; and the methods that look for it.
CASES = (
    ("income", False, 2, Fraction(3, 10), ("order", "auto")),
    ("income", False, 2, None, ("order",)),
    ("income", False, None, Fraction(3, 20), ("order",)),
    ("relationship", False, 3, None, ("order",)),
    ("hours_per_week", True, None, Fraction(1, 10), ("order",)),
)


def main(rows: int, k: int) -> int:
    """Categories count as numbers, in the order of their names."""
    sampled = f"SELECT * FROM '{DATA}' ORDER BY hash(age * 31 + fnlwgt) LIMIT {rows}"
    columns = {name.replace("-", "_"): values for name, values in duckdb.execute(sampled).fetchnumpy().items()}

    def codes(name: str) -> np.ndarray:
        values = np.asarray(columns[name])
        return np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1]

    table = records([attribute(name, codes(name)) for name in QI])
    print(HEAD)
    for name, ordered, l, t, methods in CASES:  # noqa: E741
        values = codes(name).astype(np.int32)
        column, wanted = Sensitive(values, int(values.max()) + 1, ordered), PrivacyCriteria(k, l, t)
        for method in methods:
            compare(table, column, wanted, method, f"{name}, {l or '-'}, {float(t) if t else '-'}")
    return 0


def drawn(rows: int) -> int:
    """k = 5 alone first; then a value that a quarter of the records have, one of a twentieth, and eight values."""
    people, rng = census(rows), np.random.default_rng(5)
    table = records([attribute(name, np.asarray(people[name])) for name in people.column_names])
    anonymize(table.take(np.arange(2000, dtype=np.int32)), 5, "order")
    began = time.process_time()
    anonymize(table, 5, "order")
    print(f"k = 5 alone: {time.process_time() - began:.1f} CPU seconds\n\n{HEAD}")
    for name, values, t in (
        ("a quarter", rng.random(rows) < 0.25, None),
        ("a twentieth", rng.random(rows) < 0.05, None),
        ("eight values", np.minimum(rng.geometric(0.35, rows) - 1, 7), Fraction(3, 10)),
    ):
        column = Sensitive(values.astype(np.int32), int(values.max()) + 1, False)
        compare(table, column, PrivacyCriteria(5, 2, t), "order", f"{name}, 2, {float(t) if t else '-'}")
    return 0


def compare(table: Records, column: Sensitive, wanted: PrivacyCriteria, method: str, asked: str) -> None:
    """Print one line. Both ways run once before on a few records, so that no time is that of compiling."""
    few = np.arange(min(len(table), 2000), dtype=np.int32)
    some, part = table.take(few), replace(column, codes=column.codes[few])
    for who, what in ((some, part), (table, column)):
        began = time.process_time()
        joined = settle_classes(who, anonymize(who, wanted.k, method), [what], wanted)
        between = time.process_time()
        inside = private_classes(who, wanted, method, sensitive=[what])
        ended = time.process_time()
    before, after = (measured(table, classes, [column], wanted) for classes in (joined, inside))
    old, new = before.utility.information_loss, after.utility.information_loss
    print(
        f"| {len(table):,} | {asked} | `{method}` | {old:.4f} | {between - began:.1f} | {new:.4f} | "
        f"{ended - between:.1f} | {100 * (1 - new / old):.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["census"]:
        sys.exit(drawn(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000))
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 48_842, int(sys.argv[2]) if len(sys.argv) > 2 else 5))
