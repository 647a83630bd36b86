"""Single values suppressed: where NULL is a value, and where it may stand for any, on sdcMicro's test data.

Run: python -m tests.bench.kanon_wildcard [FOLDER WITH sdcmicro_testdata.csv: columns urbrur, roof, walls, water,
electcon, relat, sex]

Containment: how many records agree with a record in all values that both show, as sdcMicro counts; the least of them.
"""

import sys
import time
from pathlib import Path

import duckanon

KEYS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")


def containment(rows: list[tuple[object, ...]]) -> int:
    """The least number of records that agree with one. rows: values and NULLs, and how many records show them."""
    least = sum(int(str(row[-1])) for row in rows)
    for one in rows:
        agreeing = (
            int(str(other[-1]))
            for other in rows
            if all(a == b or a is None or b is None for a, b in zip(one[:-1], other[:-1], strict=True))
        )
        least = min(least, sum(agreeing))
    return least


def main(folder: Path) -> int:
    con = duckanon.connect()
    con.execute(f"CREATE TABLE d AS FROM '{folder / 'sdcmicro_testdata.csv'}'").fetchall()
    empty = f"coalesce({', '.join(f'{name}::TEXT' for name in KEYS)}) IS NULL"
    names, lost = list(KEYS), " + ".join(f"count(*) - count({name})" for name in KEYS)
    print("| k | NULL | values lost | records without any | least containment | CPU seconds |")
    print("|---|---|---|---|---|---|")
    for k in (3, 5):
        for word, said in (("true", "is a value"), ("'wildcard'", "may be any value")):
            began = time.process_time()
            con.execute(
                f"CREATE OR REPLACE TABLE r AS FROM k_anonymize('d', {names}, k := {k}, suppress_cells := {word})"
            ).fetchall()
            seconds = time.process_time() - began
            ((values, nothing),) = con.execute(f"SELECT {lost}, count(*) FILTER ({empty}) FROM r").fetchall()
            rows = con.execute(f"SELECT {', '.join(KEYS)}, count(*) FROM r GROUP BY ALL").fetchall()
            print(f"| {k} | {said} | {values} | {nothing} | {containment(rows)} | {seconds:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../../shared/data")))
