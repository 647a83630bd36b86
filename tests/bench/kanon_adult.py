"""Loss and time of every method on Adult: 30,162 complete training records, eight quasi-identifiers of mixed type.

Run: python -m tests.bench.kanon_adult
"""

import sys
from pathlib import Path

import duckdb

import duckanon
from duckanon.engines.kanon.methods import METHODS

DATA = Path(__file__).parents[3] / "shared" / "data" / "adult.parquet"
QI = ["age", "education_num", "marital_status", "race", "sex", "native_country", "workclass", "occupation"]
TEXT = ["marital_status", "race", "sex", "native_country", "workclass", "occupation"]


def main() -> int:
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return 0
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        con.execute(
            f"CREATE TABLE adult AS SELECT {', '.join(QI)} FROM read_parquet(?) "
            "WHERE part = 'train' AND workclass <> '?' AND occupation <> '?' AND native_country <> '?'",
            [str(DATA)],
        ).fetchall()
        ((n,),) = con.execute("SELECT count(*) FROM adult").fetchall()
        slow = {"auto", "exact", "milp", "split_carry", "bubble_carry"}
        names = [name for name in METHODS if name not in slow] + ["auto"]
        call = "FROM k_compare('adult', ?, k := [5, 10, 50], methods := ?, categorical := ?)"
        # Once to load the compiled kernels, once to measure.
        con.execute(call.replace("[5, 10, 50]", "[50]"), [QI, names, TEXT]).fetchall()
        rows = con.execute(f"SELECT method, k, classes, information_loss, gcp, lower_bound, gap, seconds {call}",
                           [QI, names, TEXT]).fetchall()  # fmt: skip
        print(f"Adult, {n:,} records, duckdb {duckdb.__version__}\n")
        print("| k | method | classes | information loss | GCP | lower bound | gap | seconds |")
        print("|---|---|---|---|---|---|---|---|")
        for method, k, classes, loss, gcp, bound, gap, seconds in rows:
            print(
                f"| {k} | `{method}` | {classes:,} | {loss:.5f} | {gcp:.5f} | {bound:.5f} | {gap:.2f} | {seconds:.2f} |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
