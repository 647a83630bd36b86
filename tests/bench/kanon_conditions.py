"""Conditions on a sensitive column inside the search, beside classes that are joined afterwards: loss and CPU time.

Run: python -m tests.bench.kanon_conditions [ROWS] [K]

Records of adult.parquet in ../../shared/data, whose income must not be learned.
"""

import sys
import time
from fractions import Fraction

import duckdb
import numpy as np

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.criteria.enforcement import measured, settle_classes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import attribute, records
from duckanon.engines.kanon.risk import Sensitive

DATA = "../../shared/data/adult.parquet"
QI = ("age", "workclass", "education", "marital_status", "occupation", "race", "sex", "native_country")


def main(rows: int, k: int) -> int:
    """Categories count as numbers, in the order of their names."""
    sampled = f"SELECT * FROM '{DATA}' ORDER BY hash(age * 31 + fnlwgt) LIMIT {rows}"
    columns = {name.replace("-", "_"): values for name, values in duckdb.execute(sampled).fetchnumpy().items()}

    def codes(name: str) -> np.ndarray:
        values = np.asarray(columns[name])
        return np.unique(values.astype(str), return_inverse=True)[1] if values.dtype == object else values

    table = records([attribute(name, codes(name)) for name in QI])
    income = codes("income").astype(np.int32)
    column, wanted = Sensitive(income, int(income.max()) + 1, False), PrivacyCriteria(k, 2, Fraction(3, 10))
    began = time.process_time()
    joined = settle_classes(table, anonymize(table, k), [column], wanted)
    between = time.process_time()
    inside = private_classes(table, wanted, sensitive=[column])
    ended = time.process_time()
    before, after = (measured(table, one, [column], wanted) for one in (joined, inside))
    old, new = before.utility.information_loss, after.utility.information_loss
    print("| records | k | joined afterwards | CPU seconds | inside the search | CPU seconds | less, % |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {rows:,} | {k} | {old:.4f} | {between - began:.1f} | {new:.4f} | {ended - between:.1f} | "
        f"{100 * (1 - new / old):.1f} |"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 48_842, int(sys.argv[2]) if len(sys.argv) > 2 else 5))
