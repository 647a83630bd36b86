"""Answers by another program, in its own environment; run by tests.bench.peers, without duckanon.

Arguments: the program, and a JSON file with `adult` and `orders` (CSV files with the columns key and x, and unit and
key), `rows` (the most orders of a customer), `draws`, `seconds` (after which no further answer is drawn), and for
programs that read SQL `tables` (columns with their kinds, keys, ranges and lists), `units` and `queries`. Prints JSON:
for each question the seconds of one answer (the least) and the rows of each, and how many queries are accepted.

Each answer costs epsilon 1; a mean that a program can only make of a sum and a count gets half of it for each. The
programs know the keys beforehand and get the same bounds.
"""

import json
import os
import sys
import time
import warnings
from typing import Any

LOW, HIGH, MOST = 1, 99, 100_000
STATUSES = 3
DELTA = 1e-6


def by_opendp(job):
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    adult = pl.read_csv(job["adult"])
    keys = adult.lazy().select("key").unique().collect().lazy()
    series = [dp.series_domain("key", dp.atom_domain(T=str)), dp.series_domain("x", dp.atom_domain(T="i64"))]
    domain = dp.with_margin(dp.lazyframe_domain(series), dp.polars.Margin(by=[], max_length=MOST))
    total, length = pl.col("x").dp.sum((LOW, HIGH)).alias("s"), dp.len(signed=True).alias("n")
    plans = {"count": [length], "sum": [total], "mean": [total, length]}
    values = {"count": lambda r: r["n"], "sum": lambda r: r["s"], "mean": lambda r: r["s"] / max(r["n"], 1)}
    for name, told in plans.items():

        def draw(name=name, told=told):
            plan = keys.join(adult.lazy().group_by("key").agg(told), on="key", how="left")
            made = dp.m.make_private_lazyframe(
                domain, dp.symmetric_distance(), dp.max_divergence(), plan, global_scale=float(len(told))
            )
            assert abs(made.map(1) - 1) < 1e-6, made.map(1)
            return [[row["key"], values[name](row)] for row in made(adult.lazy()).collect().to_dicts()]

        yield name, draw
    # Scanned, not read: what is read is copied whenever a measurement is tried while its scale is looked for.
    orders = pl.scan_csv(job["orders"])
    statuses = orders.select("key").unique().collect().lazy()

    def units():
        context = dp.Context.compositor(
            data=orders,
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("unit")),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=["key"], max_length=MOST), dp.polars.Margin(by=[], max_length=MOST)],
        )
        once = context.query().truncate_per_group(1, by=["key"]).truncate_per_group(STATUSES)
        found = once.group_by("key").agg(length).with_keys(statuses).release().collect()
        return [[row["key"], row["n"]] for row in found.to_dicts()]

    yield "units", units


def by_smartnoise(job):
    import pandas as pd
    from snsql import Privacy, from_df  # type: ignore[import-not-found]

    adult: dict[str, Any] = {"row_privacy": True, "rows": MOST, "censor_dims": False, "key": {"type": "string"}}
    adult["x"] = {"type": "int", "lower": LOW, "upper": HIGH}
    orders: dict[str, Any] = {"max_ids": job["rows"], "rows": MOST, "censor_dims": False, "key": {"type": "string"}}
    orders["unit"] = {"type": "int", "private_id": True}
    plans = (
        ("count", "adult", "COUNT(*)", 1.0),
        ("sum", "adult", "SUM(x)", 1.0),
        ("mean", "adult", "AVG(x)", 0.5),
        ("units", "orders", "COUNT(DISTINCT unit)", 1.0),
    )
    for name, table, told, epsilon in plans:
        frame, metadata = pd.read_csv(job[table]), {"": {"main": {table: adult if table == "adult" else orders}}}
        reader = from_df(
            frame, privacy=Privacy(epsilon=epsilon, delta=DELTA if name == "units" else 0.0), metadata=metadata
        )
        sql = f"SELECT key, {told} AS v FROM main.{table} GROUP BY key"
        assert abs(reader.get_privacy_cost(sql)[0] - 1) < 1e-6, reader.get_privacy_cost(sql)
        yield name, lambda reader=reader, sql=sql: reader.execute(sql)[1:]


def accepted_by_smartnoise(job):
    """Statements of which it can say what they cost. Tables have their private key, columns their kinds and ranges."""
    import pandas as pd
    from snsql import Privacy, from_df

    kinds = {"INT": "int", "FLO": "float", "BOO": "boolean", "VAR": "string", "DAT": "datetime"}
    tables = {}
    for table, columns in job["tables"].items():
        unit = job["units"].get(table)
        told: dict[str, Any] = {"rows": MOST, "max_ids": job["rows"]} if unit else {"rows": MOST, "row_privacy": True}
        for column in columns:
            made = {"type": kinds[column["type"][:3]]}
            if column["range"] and made["type"] in ("int", "float"):
                made |= {"lower": column["range"][0], "upper": column["range"][1]}
            told[column["name"]] = made | ({"private_id": True} if column["name"] == unit else {})
        tables[table] = told
    empty = {f"main.{name}": pd.DataFrame({one["name"]: [] for one in each}) for name, each in job["tables"].items()}
    reader = from_df(empty, privacy=Privacy(epsilon=1.0, delta=DELTA), metadata={"": {"main": tables}})
    names = sorted(tables, key=len, reverse=True)
    return [title for title, sql in job["queries"].items() if _accepts(reader.get_privacy_cost, _in_schema(sql, names))]


def _in_schema(sql, names):
    """Tables with the schema that SmartNoise asks for."""
    import re

    return re.sub(rf"(?i)\b(from|join)\s+({'|'.join(names)})\b", r"\1 main.\2 AS \2", sql)


def _accepts(run, sql):
    try:
        run(sql)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


def _dataset(frames, columns):
    """Tables for Qrlew, in SQLite, which it reads names, types and sizes from."""
    import sqlalchemy as sa
    from pyqrlew import dataset_from_database  # type: ignore[import-not-found]

    engine = sa.create_engine("sqlite:///:memory:", poolclass=sa.pool.StaticPool)
    for table, frame in frames.items():
        frame.to_sql(table, engine, index=False, dtype=_types(sa, columns[table]))
    made = dataset_from_database("data", engine, None)
    for table, each in columns.items():
        for one in each:
            if one["range"]:
                made = made.with_range(None, table, one["name"], *one["range"])
            if one["list"]:
                made = made.with_possible_values(None, table, one["name"], one["list"])
    return made


def _types(sa, columns):
    kinds = {"INT": sa.Integer, "FLO": sa.Float, "BOO": sa.Boolean, "VAR": sa.String, "DAT": sa.Date}
    return {one["name"]: kinds[one["type"][:3]]() for one in columns}


def _rewritten(made, unit, sql, rows, groups, epsilon=1.0):
    relation = made.relation(sql)
    cost = {"epsilon": epsilon, "delta": DELTA}
    found = relation.rewrite_with_differential_privacy(made, unit, cost, float(rows), 1.0, groups)
    return found.relation().to_query()


def by_qrlew(job):
    import duckdb
    import pandas as pd

    adult = pd.read_csv(job["adult"])
    adult.insert(0, "unit", range(len(adult)))
    frames = {"adult": adult, "orders": pd.read_csv(job["orders"])}
    column = lambda name, kind, span=None, values=None: {"name": name, "type": kind, "range": span, "list": values}  # noqa: E731
    lists = {name: sorted(frame["key"].unique()) for name, frame in frames.items()}
    columns = {
        "adult": [column("unit", "INT"), column("key", "VAR", None, lists["adult"]), column("x", "INT", (LOW, HIGH))],
        "orders": [column("unit", "INT"), column("key", "VAR", None, lists["orders"])],
    }
    made, con = _dataset(frames, columns), duckdb.connect()
    for name, frame in frames.items():
        con.register("frame", frame)
        con.execute(f"CREATE TABLE {name} AS FROM frame")
    plans = (
        ("count", "adult", "COUNT(*)", 1, 1, 1.0),
        ("sum", "adult", "SUM(x)", 1, 1, 1.0),
        ("mean", "adult", "AVG(x)", 1, 1, 0.5),
        ("units", "orders", "COUNT(DISTINCT unit)", job["rows"], STATUSES, 1.0),
    )
    for name, table, told, rows, groups, epsilon in plans:
        sql = f"SELECT key, {told} AS v FROM {table} GROUP BY key"
        unit: Any = [(table, [], "unit")]

        def draw(sql=sql, unit=unit, rows=rows, groups=groups, epsilon=epsilon):
            return con.execute(_rewritten(made, unit, sql, rows, groups, epsilon)).fetchall()

        yield name, draw


def accepted_by_qrlew(job):
    """Statements that it can rewrite. Tables without a unit are public to it."""
    import pandas as pd

    frames = {name: pd.DataFrame({one["name"]: [] for one in each}) for name, each in job["tables"].items()}
    made = _dataset(frames, job["tables"])
    unit: Any = [(table, [], column) for table, column in job["units"].items()]
    run = lambda sql: _rewritten(made, unit, sql, job["rows"], job["rows"])  # noqa: E731
    return [title for title, sql in job["queries"].items() if _accepts(run, sql)]


def by_tumult(job):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import (  # type: ignore[import-not-found]
        AddOneRow,
        AddRowsWithID,
        KeySet,
        MaxGroupsPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.sql.warehouse.dir": os.path.dirname(job["adult"])}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frames = {name: pd.read_csv(job[name]) for name in ("adult", "orders")}
    keys = {name: KeySet.from_dict({"key": sorted(frame["key"].unique())}) for name, frame in frames.items()}
    grouped = QueryBuilder("adult").groupby(keys["adult"])
    owners = QueryBuilder("orders").enforce(MaxGroupsPerID("key", STATUSES)).groupby(keys["orders"])
    plans = {
        "count": ("adult", grouped.count(name="v")),
        "sum": ("adult", grouped.sum("x", LOW, HIGH, name="v")),
        "mean": ("adult", grouped.average("x", LOW, HIGH, name="v")),
        "units": ("orders", owners.count_distinct(["unit"], name="v")),
    }
    changes = {"adult": AddOneRow(), "orders": AddRowsWithID("unit")}
    data = {name: spark.createDataFrame(frame) for name, frame in frames.items()}
    for name, (table, query) in plans.items():

        def draw(table=table, query=query):
            budget = PureDPBudget(1)
            session = Session.from_dataframe(budget, table, data[table], protected_change=changes[table])
            return [[row["key"], row["v"]] for row in session.evaluate(query, budget).collect()]

        yield name, draw


PROGRAMS = {"opendp": by_opendp, "smartnoise": by_smartnoise, "qrlew": by_qrlew, "tumult": by_tumult}
ACCEPTED = {"smartnoise": accepted_by_smartnoise, "qrlew": accepted_by_qrlew}


def main(program, file):
    warnings.simplefilter("ignore")
    with open(file, encoding="utf-8") as read:
        job = json.load(read)
    found: dict[str, Any] = {}
    for name, draw in PROGRAMS[program](job):
        seconds: list[float] = []
        rows: list[Any] = []
        began = time.perf_counter()
        try:
            while len(rows) < job["draws"] and (len(rows) < 3 or time.perf_counter() - began < job["seconds"]):
                started = time.perf_counter()
                rows.append([[key, float(value)] for key, value in draw()])
                seconds.append(time.perf_counter() - started)
        except Exception as error:
            found[name] = {"failed": " ".join(str(error).split())[:200]}
            continue
        found[name] = {"seconds": min(seconds), "rows": rows}
    if program in ACCEPTED:
        found["accepted"] = ACCEPTED[program](job)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
