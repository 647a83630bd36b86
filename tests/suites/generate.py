"""Generates the suites' tables and queries. tests/suites/data.py runs it, in an environment with DuckDB 1.5.5."""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from pathlib import Path

import duckdb

# The queries of the Star Schema Benchmark, which are in no package.
OWN = Path(__file__).parents[2] / "fixtures" / "suites" / "ssb"
TPC = {"tpch": ("dbgen", (0.01, 1)), "tpcds": ("dsdgen", (0.01, 0.1))}
HITS = 50_000
# Each column of `hits` that a query reads, from the row's number i and the visitor's number u. The other columns are
# filled by their types. A query looks for each of the constants here.
VISITOR = "floor(4000 * pow(random(), 2))::INTEGER"
COLUMNS = {
    "WatchID": "(hash(i, 'watch') >> 1)::BIGINT",
    "UserID": "(hash(u, 'user') % 1000000000000000)::BIGINT",
    "ClientIP": "(SELECT ClientIP FROM addresses WHERE place = visits.u % 400)",
    "RegionID": "1 + u % 120",
    "CounterID": "CASE WHEN random() < 0.4 THEN 62 ELSE 1 + floor(random() * 61)::INTEGER END",
    "EventTime": "TIMESTAMP '2013-07-01' + to_seconds(floor(second)::BIGINT)",
    "EventDate": "(TIMESTAMP '2013-07-01' + to_seconds(floor(second)::BIGINT))::DATE",
    "AdvEngineID": "CASE WHEN random() < 0.8 THEN 0 ELSE 1 + floor(random() * 5)::INTEGER END",
    "SearchEngineID": "CASE WHEN random() < 0.7 THEN 0 ELSE 1 + floor(random() * 5)::INTEGER END",
    "TraficSourceID": "floor(random() * 10)::INTEGER - 1",
    "ResolutionWidth": "[0, 800, 1024, 1280, 1366, 1600, 1920, 2560][1 + floor(random() * 8)::INTEGER]",
    "WindowClientWidth": "20 * floor(random() * 96)::INTEGER",
    "WindowClientHeight": "20 * floor(random() * 64)::INTEGER",
    "IsRefresh": "(random() < 0.15)::INTEGER",
    "IsLink": "(random() < 0.1)::INTEGER",
    "IsDownload": "(random() < 0.05)::INTEGER",
    "DontCountHits": "(random() < 0.1)::INTEGER",
    "SearchPhrase": "(SELECT SearchPhrase FROM phrases WHERE place = visits.phrase)",
    "MobilePhone": "(SELECT MobilePhone FROM phones WHERE place = visits.phone)",
    "MobilePhoneModel": "(SELECT MobilePhoneModel FROM phones WHERE place = visits.phone)",
    "URL": "(SELECT URL FROM pages WHERE place = visits.page)",
    "URLHash": "(SELECT URLHash FROM pages WHERE place = visits.page)",
    "Title": "(SELECT Title FROM pages WHERE place = visits.page)",
    "Referer": "(SELECT Referer FROM referers WHERE place = visits.referer)",
    "RefererHash": "(SELECT RefererHash FROM referers WHERE place = visits.referer)",
}
# What a company would publish about its pages, and lists of which it would not hide that they exist.
LOOKUPS = {
    "pages": """
        SELECT i AS place, CASE WHEN i = 0 THEN '' WHEN i % 7 = 0 THEN 'http://maps.google.com/?place=' || i
            WHEN i % 11 = 0 THEN 'http://news.test/google/' || i ELSE 'http://shop.test/item/' || i END AS URL,
          CASE WHEN i % 9 = 0 THEN '' WHEN i % 5 = 0 THEN 'About Google ' || i ELSE 'Item ' || i END AS Title,
          CASE WHEN i = 3 THEN 2868770270353813622 ELSE (hash(i, 'page') >> 1)::BIGINT END AS URLHash
        FROM range(60) r(i)""",
    "referers": """
        SELECT i AS place, CASE WHEN i = 0 THEN '' ELSE 'http' || ['', 's'][1 + i % 2] || '://'
            || ['', 'www.'][1 + i // 2 % 2] || 'site' || i // 4 || '.test/from/' || i END AS Referer,
          CASE WHEN i = 2 THEN 3594120000172545465 ELSE (hash(i, 'referer') >> 1)::BIGINT END AS RefererHash
        FROM range(24) r(i)""",
    "phrases": """
        SELECT i AS place, CASE WHEN i = 0 THEN '' ELSE 'phrase ' || i END AS SearchPhrase FROM range(400) r(i)""",
    "phones": """
        SELECT i AS place, (i + 2) // 3 AS MobilePhone,
          CASE WHEN i = 0 THEN '' ELSE 'model ' || i END AS MobilePhoneModel
        FROM range(30) r(i)""",
    "addresses": """
        SELECT i AS place, ((hash(i, 'address') % 4294967296)::BIGINT - 2147483648)::INTEGER AS ClientIP
        FROM range(400) r(i)""",
}
# The tables of the Star Schema Benchmark (O'Neil, O'Neil and Chen 2009), section 2, from those of TPC-H. Prices are in
# cents. A city is a nation's name, cut to nine characters, and a digit.
CITY = "rpad(n_name, 9, ' ')[:9]"
SSB = {
    "date": """
        SELECT strftime(day, '%Y%m%d')::INTEGER AS d_datekey, day::DATE AS d_date, dayname(day) AS d_dayofweek,
          monthname(day) AS d_month, year(day)::INTEGER AS d_year, strftime(day, '%Y%m')::INTEGER AS d_yearmonthnum,
          strftime(day, '%b%Y') AS d_yearmonth, (1 + dayofyear(day) // 7)::INTEGER AS d_weeknuminyear
        FROM range(TIMESTAMP '1992-01-01', TIMESTAMP '1999-01-01', INTERVAL 1 DAY) r(day)""",
    "cities": f"""
        SELECT {CITY} || digit AS city, n_name AS nation, r_name AS region
        FROM nation JOIN region ON n_regionkey = r_regionkey, range(10) r(digit)""",
    "part": """
        SELECT p_partkey, p_name, 'MFGR#' || (1 + p_partkey % 5) AS maker, maker || (1 + p_partkey // 5 % 5) AS kind,
          maker AS p_mfgr, kind AS p_category, kind || (1 + p_partkey // 25 % 40) AS p_brand1
        FROM part""",
    "supplier": f"""
        SELECT s_suppkey, s_name, {CITY} || (hash(s_suppkey) % 10) AS s_city, n_name AS s_nation, r_name AS s_region
        FROM supplier JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey""",
    "customer": f"""
        SELECT c_custkey, c_name, {CITY} || (hash(c_custkey) % 10) AS c_city, n_name AS c_nation, r_name AS c_region
        FROM customer JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey""",
    "lineorder": """
        SELECT l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, o_custkey AS lo_custkey,
          l_partkey AS lo_partkey, l_suppkey AS lo_suppkey, strftime(o_orderdate, '%Y%m%d')::INTEGER AS lo_orderdate,
          l_quantity::INTEGER AS lo_quantity, (100 * l_extendedprice)::INTEGER AS lo_extendedprice,
          (100 * l_discount)::INTEGER AS lo_discount, lo_extendedprice * (100 - lo_discount) // 100 AS lo_revenue,
          6 * (lo_extendedprice // lo_quantity) // 10 AS lo_supplycost
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey""",
}
BY_TYPE = {"VARCHAR": "''", "TIMESTAMP": "TIMESTAMP '2013-07-15'", "DATE": "DATE '2013-07-15'"}


def loaded(extension: str) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    with as_file(files(f"duckdb_extension_{extension}") / "extensions") as folder:
        con.execute(f"LOAD '{next(folder.glob('*/*.duckdb_extension'))}'")
    return con


def write(con: duckdb.DuckDBPyConnection, folder: Path, tables: dict[str, str]) -> None:
    """One file for each table, of a query."""
    folder.mkdir(parents=True, exist_ok=True)
    for table, sql in tables.items():
        con.execute(f"COPY ({sql}) TO '{folder / table}.parquet'")


def transactions(folder: Path, suite: str) -> None:
    """The tables of TPC-H or TPC-DS at each scale, and the queries."""
    generator, scales = TPC[suite]
    for scale in scales:
        with loaded(suite) as con:
            con.execute(f"CALL {generator}(sf = {scale})")
            listed = con.execute("SHOW TABLES").fetchall()
            write(con, folder / f"{suite}-{scale}", {table: f"FROM {table}" for (table,) in listed})
            if suite == "tpch":
                write(con, folder / f"ssb-{scale}", SSB)
            asked = con.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall()
    queries(folder / suite, dict(asked))


def hits(folder: Path, source: Path) -> None:
    """ClickBench's table with visits of a few thousand visitors, and its queries."""
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SELECT setseed(0.43)")
        for name, sql in LOOKUPS.items():
            con.execute(f"CREATE TABLE {name} AS {sql}")
        con.execute((source / "create.sql").read_text(encoding="utf-8"))
        described = con.execute("SELECT column_name, column_type FROM (DESCRIBE hits)").fetchall()
        values = ", ".join(COLUMNS.get(name, BY_TYPE.get(kind, "i % 3")) for name, kind in described)
        con.execute(
            f"""CREATE TABLE visits AS SELECT i, {VISITOR} AS u, random() * 31 * 86400 AS second,
              floor(60 * pow(random(), 2))::INTEGER AS page, floor(24 * pow(random(), 2))::INTEGER AS referer,
              CASE WHEN random() < 0.6 THEN 0 ELSE floor(400 * pow(random(), 2))::INTEGER END AS phrase,
              CASE WHEN random() < 0.7 THEN 0 ELSE floor(random() * 30)::INTEGER END AS phone
            FROM range({HITS}) r(i)"""
        )
        con.execute(f"INSERT INTO hits SELECT {values} FROM visits ORDER BY i")
        lookups = {name: f"SELECT * EXCLUDE (place) FROM {name}" for name in LOOKUPS}
        write(con, folder / "clickbench-1", {"hits": "FROM hits", **lookups})
    text = (source / "queries.sql").read_text(encoding="utf-8").strip().splitlines()
    queries(folder / "clickbench", dict(enumerate(text, start=1)))


def queries(folder: Path, asked: dict[int, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, sql in asked.items():
        (folder / f"{number:02}.sql").write_text(sql.strip() + "\n", encoding="utf-8")


def main(folder: Path, clickbench: Path) -> None:
    for suite in TPC:
        transactions(folder, suite)
    queries(folder / "ssb", {int(path.stem): path.read_text(encoding="utf-8") for path in OWN.glob("*.sql")})
    hits(folder, clickbench / "duckdb")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
