"""Loss and time beside other Python packages, anonypy and anjana, on Adult's 30,162 complete records, k = 5, 10 and 50.

Run, with both installed: python -m tests.bench.kanon_peers [K ...]

All are judged by one neutral score on what they release, per cell: width over the width of all records for numbers,
(distinct - 1) / (domain - 1) for sets, 1 for what is suppressed. anonypy is multidimensional like duckanon. anjana
recodes whole columns by hierarchies and may drop records: age and education_num get ever wider bands, every other
column two levels, itself and '*'. Records that it drops lose everything.
"""

import sys
import time
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import duckanon

DATA = Path(__file__).parents[3] / "shared" / "data" / "adult.parquet"
NUMBERS = ["age", "education_num"]
SETS = ["marital_status", "race", "sex", "native_country", "workclass", "occupation"]
QI = NUMBERS + SETS
# Seconds in which `auto` has to be better than the other programs, too.
LIMIT = 3


def score(cells: pd.DataFrame, domain: pd.DataFrame) -> float:
    """cells: a column of widths (numbers) or counts (sets) for each quasi-identifier, NaN where suppressed."""
    parts = []
    for name in QI:
        if name in NUMBERS:
            loss = cells[name] / (domain[name].max() - domain[name].min())
        else:
            loss = (cells[name] - 1) / (domain[name].nunique() - 1)
        parts.append(loss.fillna(1.0).to_numpy())
    return float(np.concatenate(parts).sum() / (len(domain) * len(QI)))


def ours(
    con: duckdb.DuckDBPyConnection, domain: pd.DataFrame, k: int, method: str, limit: float | None = None
) -> tuple[float, float]:
    started = time.perf_counter()
    con.execute(
        "CREATE OR REPLACE TABLE released AS "
        "FROM k_anonymize('adult', ?, k := ?, method := ?, categorical := ?, seconds := ?)",
        [QI, k, method, SETS, limit],
    ).fetchall()
    seconds = time.perf_counter() - started
    widths = [f"({name}_hi - {name}_lo)::DOUBLE AS {name}" for name in NUMBERS]
    counts = [f"len({name}_set)::DOUBLE AS {name}" for name in SETS]
    return score(con.execute(f"SELECT {', '.join(widths + counts)} FROM released").df(), domain), seconds


def by_anonypy(domain: pd.DataFrame, k: int) -> tuple[float, float]:
    import anonypy

    frame = domain.assign(rest=0)
    for name in SETS:
        frame[name] = frame[name].astype("category")
    started = time.perf_counter()
    partitions = anonypy.Preserver(frame, QI, "rest").modrian.partition(k)  # its own spelling
    seconds = time.perf_counter() - started
    assert min(map(len, partitions)) >= k
    rows = []
    for part in partitions:
        inside = domain.loc[part]
        widths = {name: float(inside[name].max() - inside[name].min()) for name in NUMBERS}
        counts = {name: float(inside[name].nunique()) for name in SETS}
        rows += [{**widths, **counts}] * len(part)
    return score(pd.DataFrame(rows), domain), seconds


def by_anjana(domain: pd.DataFrame, k: int) -> tuple[float, float]:
    from anjana.anonymity import k_anonymity

    frame = domain.reset_index(drop=True)
    hierarchies = {}
    for name in QI:
        values = frame[name].to_numpy()
        levels = [values]
        if name in NUMBERS:
            bands = (5, 10, 20, 40) if name == "age" else (2, 4, 8)
            levels += [np.array([f"[{v // b * b}, {v // b * b + b})" for v in values]) for b in bands]
        hierarchies[name] = dict(enumerate([*levels, np.array(["*"] * len(values))]))
    started = time.perf_counter()
    found = k_anonymity(frame, [], QI, k, 5, hierarchies)
    seconds = time.perf_counter() - started
    cells = pd.DataFrame(index=found.index)
    for name in QI:
        text = found[name].astype(str)
        if name in NUMBERS:
            # Tight bounds, as for the others: the range of the records that share a band.
            cells[name] = frame.loc[found.index].groupby(text)[name].transform(lambda x: float(x.max() - x.min()))
            cells.loc[text == "*", name] = np.nan
        else:
            cells[name] = np.where(text == "*", np.nan, 1.0)
    return score(cells.reindex(frame.index), domain), seconds


def main(ks: list[int]) -> int:
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return 0
    warnings.simplefilter("ignore")
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        con.execute(
            f"CREATE TABLE adult AS SELECT {', '.join(QI)} FROM read_parquet(?) "
            "WHERE part = 'train' AND workclass <> '?' AND occupation <> '?' AND native_country <> '?'",
            [str(DATA)],
        ).fetchall()
        domain = con.execute("FROM adult").df()
        ours(con, domain.head(1000), 50, "auto")
        print("| k | program | score | seconds |")
        print("|---|---|---|---|")
        for k in ks:
            for name, run in (
                ("duckanon `order`", lambda k=k: ours(con, domain, k, "order")),
                ("duckanon `mondrian`", lambda k=k: ours(con, domain, k, "mondrian")),
                (f"duckanon `auto`, `seconds := {LIMIT}`", lambda k=k: ours(con, domain, k, "auto", LIMIT)),
                ("duckanon `auto`", lambda k=k: ours(con, domain, k, "auto")),
                ("anonypy", lambda k=k: by_anonypy(domain, k)),
                ("anjana", lambda k=k: by_anjana(domain, k)),
            ):
                loss, seconds = run()
                print(f"| {k} | {name} | {loss:.4f} | {seconds:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main([int(k) for k in sys.argv[1:]] or [5, 10, 50]))
