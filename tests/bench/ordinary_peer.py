"""Counts, sums and means by group as OpenDP or SmartNoise SQL draws them; run by ordinary_peers, without duckanon.

Arguments: opendp or smartnoise, a CSV file with the columns key and x, how many draws. Prints JSON: for each of count,
sum and avg the seconds of one draw (the least), and the rows of each draw.
"""

import json
import sys
import time
import warnings

LOW, HIGH, MOST = 1, 99, 100_000


def by_opendp(file, draws):
    import opendp.prelude as dp
    import polars as pl  # type: ignore[import-not-found]

    dp.enable_features("contrib")
    frame = pl.read_csv(file)
    keys = frame.lazy().select("key").unique().collect().lazy()
    domain = dp.lazyframe_domain(
        [
            dp.series_domain("key", dp.atom_domain(T=str)),
            dp.series_domain("x", dp.atom_domain(T="i64")),
        ]
    )
    domain = dp.with_margin(domain, dp.polars.Margin(by=[], max_length=MOST))
    total = pl.col("x").dp.sum((LOW, HIGH)).alias("s")
    plans = {"count": [dp.len(signed=True).alias("n")], "sum": [total], "avg": [total, dp.len(signed=True).alias("n")]}
    for name, told in plans.items():

        def measurement(told=told):
            plan = keys.join(frame.lazy().group_by("key").agg(told), on="key", how="left")
            made = dp.m.make_private_lazyframe(
                domain, dp.symmetric_distance(), dp.max_divergence(), plan, global_scale=float(len(told))
            )
            assert abs(made.map(1) - 1) < 1e-6, made.map(1)
            return made

        def draw(name=name):
            found = measurement()(frame.lazy()).collect().to_dicts()
            value = {"count": lambda r: r["n"], "sum": lambda r: r["s"], "avg": lambda r: r["s"] / max(r["n"], 1)}[name]
            return [[row["key"], value(row)] for row in found]

        yield name, draw


def by_smartnoise(file, draws):
    import pandas as pd
    from snsql import Privacy, from_df  # type: ignore[import-not-found]

    frame = pd.read_csv(file)
    columns = {"key": {"type": "string"}, "x": {"type": "int", "lower": LOW, "upper": HIGH}}
    table = {"row_privacy": True, "rows": MOST, "censor_dims": False, **columns}
    for name, told, epsilon in (("count", "COUNT(*)", 1.0), ("sum", "SUM(x)", 1.0), ("avg", "AVG(x)", 0.5)):
        reader = from_df(frame, privacy=Privacy(epsilon=epsilon, delta=0.0), metadata={"": {"main": {"adult": table}}})
        sql = f"SELECT key, {told} AS v FROM main.adult GROUP BY key"
        assert abs(reader.get_privacy_cost(sql)[0] - 1) < 1e-6
        yield name, lambda reader=reader, sql=sql: reader.execute(sql)[1:]


def main(program, file, draws):
    warnings.simplefilter("ignore")
    found = {}
    for name, draw in {"opendp": by_opendp, "smartnoise": by_smartnoise}[program](file, draws):
        seconds, rows = [], []
        for _ in range(draws):
            started = time.perf_counter()
            rows.append([[key, float(value)] for key, value in draw()])
            seconds.append(time.perf_counter() - started)
        found[name] = {"seconds": min(seconds), "rows": rows}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
