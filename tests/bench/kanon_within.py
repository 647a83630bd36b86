"""Coarser releases within a finer one, and conditions on sensitive columns: loss and time beside a release made anew.

Run: python -m tests.bench.kanon_within [ROWS]
"""

import sys
import time

import duckdb

import duckanon

LOSS = (
    "SELECT avg((age_hi - age_lo) / 59 + (x_hi - x_lo) / 999 + (y_hi - y_lo) / 99 + (len(city_set) - 1) / 4) / 4, "
    "max(class_id) FROM released"
)


def main(rows: int) -> int:
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        con.execute(
            "CREATE TABLE people AS SELECT (hash(i) % 60)::INT AS age, 'c' || hash(i + 1) % 5 AS city, "
            "(hash(i + 9) % 1000)::INT AS x, (hash(i + 19) % 100)::INT AS y, "
            f"['flu', 'hiv', 'cold'][1 + (hash(i + 2) % 3)::INT] AS illness, i AS id FROM range({rows}) r(i)"
        ).fetchall()
        con.execute("CREATE TABLE few AS FROM people LIMIT 3000").fetchall()

        def make(call: str) -> str:
            clock, cpu = time.perf_counter(), time.process_time()
            con.execute(
                f"CREATE OR REPLACE TABLE released AS FROM k_anonymize({call}, categorical := ['city'])"
            ).fetchall()
            clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            ((loss, classes),) = con.execute(LOSS).fetchall()
            return f"{classes:,} | {loss:.4f} | {clock:.1f} | {cpu:.1f} |"

        qi = "['age', 'city', 'x', 'y']"
        for source in ("few", "people"):  # once to load the compiled kernels
            lines = [("`order`, k = 5", make(f"'{source}', {qi}, k := 5, method := 'order'"))]
            con.execute("CREATE OR REPLACE TABLE finer AS FROM released").fetchall()
            within = f"'{source}', {qi}, k := 20, within := 'finer'"
            lines.append(("k = 20 within it", make(within)))
            lines.append(("k = 20, l = 3 within it", make(f"{within}, sensitive := ['illness'], l := 3")))
            lines.append(("`order`, k = 20, anew", make(f"'{source}', {qi}, k := 20, method := 'order'")))
            anew = f"'{source}', {qi}, k := 5, method := 'order', sensitive := ['illness']"
            lines.append(("`order`, k = 5, l = 3", make(f"{anew}, l := 3")))
            lines.append(("`order`, k = 5, t = 0.3", make(f"{anew}, t := 0.3")))
            lines.append(("`order`, k = 5, l = 3, 1 % dropped", make(f"{anew}, l := 3, max_suppression := 0.01")))
        print(
            "| release | classes | information loss of what is released | seconds | CPU seconds |\n"
            "|---|---|---|---|---|"
        )
        for name, line in lines:
            print(f"| {name} | {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000))
