"""Random statements, mutated and grown from a grammar: no canary ever comes out."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import duckdb

from tests.guard.canaries import analyst, canary, catalog, database, outcome

COUNT = int(os.environ.get("FUZZED", 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 300))

TABLES = """persons secrets people people_of_people PERSONS "persons" main.persons x.main.persons states other.persons
duckanon.ledger duckanon.releases x.duckanon.releases temp.persons range(3) peeks() query('from_persons')
query_table('persons') duckdb_tables() duckdb_views() pragma_storage_info('persons') information_schema.columns
k_anonymize('persons',['income']) k_report('persons',['name']) cell_bounds('persons',['name'],['sex'])
dp_group_sizes('persons','household_id',epsilon:=0.5,max_size:=6) group_sizes('persons','household_id')
read_csv('x') 'persons' sqlite_master""".split()
COLUMNS = "name income sex pid state secret code * rank household_id sick born persons p.* columns(*) rowid".split()
FUNCTIONS = (
    "max min list string_agg first any_value count sum lower peek hash md5 error histogram mode arg_max length".split()
)


JOINS = [",", "JOIN", "LEFT JOIN", "SEMI JOIN", "POSITIONAL JOIN", ", LATERAL"]


def table(rng: random.Random, depth: int) -> str:
    if depth > 0 and rng.random() < 0.35:
        return f"({query(rng, depth - 1)})"
    return rng.choice(TABLES)


def value(rng: random.Random, depth: int) -> str:
    roll = rng.random()
    if depth > 0 and roll < 0.15:
        return f"({query(rng, depth - 1)})"
    if roll < 0.45:
        return f"{rng.choice(FUNCTIONS)}({rng.choice(COLUMNS)})"
    if roll < 0.55:
        return f"CAST({rng.choice(COLUMNS)} AS {rng.choice(['INTEGER', 'VARCHAR', 'DATE', 'mood'])})"
    if roll < 0.6:
        return f"row_number() OVER (ORDER BY {rng.choice(COLUMNS)})"
    return rng.choice(COLUMNS) if roll < 0.9 else str(rng.randrange(5))


def query(rng: random.Random, depth: int = 2) -> str:
    shown = ", ".join(value(rng, depth) for _ in range(rng.randint(1, 2)))
    text = f"SELECT {shown} FROM {table(rng, depth)}"
    if rng.random() < 0.4:
        text += f" {rng.choice(['p', 'AS persons', 'q(a)', 's'])}"
    if rng.random() < 0.25:
        text += f" {rng.choice(JOINS)} {table(rng, depth)}"
    if rng.random() < 0.2:
        text += f" WHERE {value(rng, depth)} {rng.choice(['=', '>', 'IN', 'LIKE'])} {value(rng, depth)}"
    if rng.random() < 0.25:
        text += rng.choice([" GROUP BY ALL", " GROUP BY 1", " ORDER BY ALL", " LIMIT 3", " QUALIFY true"])
    if rng.random() < 0.2:
        name = rng.choice(["persons", "q", "states", "people"])
        after = rng.choice([f"FROM {name}", "SELECT * FROM persons", f"FROM {name}, states"])
        text = f"WITH {name} AS ({text}) {after}"
    if rng.random() < 0.15:
        text = f"{text} {rng.choice(['UNION ALL', 'EXCEPT', 'INTERSECT', 'UNION BY NAME'])} {query(rng, 0)}"
    return text


WRAPPERS = [
    "{}", "{}", "{}", "{};", "({})", "EXPLAIN {}", "EXPLAIN ANALYZE {}", "DESCRIBE {}", "SUMMARIZE {}",
    "CREATE TEMP TABLE t{n} AS {}", "CREATE TABLE t{n} AS {}", "CREATE VIEW v{n} AS {}", "INSERT INTO states {}",
    "COPY ({}) TO '/tmp/canary.csv'", "PREPARE p AS {}", "SELECT 1; {}", "SET VARIABLE v = ({})", "FROM query('{}')",
    "CREATE MACRO m{n}() AS TABLE {}", "SELECT * FROM ({}) AS z", "WITH z AS ({}) FROM z", "PIVOT ({}) ON 1",
    "FROM explain_privacy('{}')", "CREATE OR REPLACE TEMP TABLE persons AS {}", "FROM t{n}",
]  # fmt: skip
NOISE = [
    "--\n",
    "/* */",
    "/*;*/",
    "\t",
    "\n",
    "\u00a0",
    "\u200b",
    "'",
    '"',
    "$$",
    ";",
    "(",
    ")",
    "\\",
    "E'",
    "::",
    ".",
    "#1",
    "@",
]


# What is admitted: changed a little, it may become what should not be.
SEEDS = [
    "SELECT size, count(*) n FROM (SELECT household_id, count(*) size FROM persons GROUP BY 1) GROUP BY size",
    "SELECT state, n, count(*) FROM (SELECT state, household_id, count(*) n FROM persons GROUP BY ALL) GROUP BY ALL",
    "WITH s AS (SELECT household_id, count(*) n FROM persons GROUP BY 1) SELECT n, count(*) FROM s GROUP BY 1 LIMIT 2",
    "SELECT sum(groups) FROM dp_group_sizes('persons', 'household_id', epsilon := 0.5, max_size := 6) WHERE level = 0",
    "SELECT s.rank, p.pid FROM states s LEFT JOIN other.persons p ON s.rank = p.pid",
    "WITH persons AS (SELECT 1 AS name) SELECT name FROM persons",
    "CREATE OR REPLACE TEMP TABLE persons AS SELECT state AS name FROM states",
    "SELECT table_name FROM information_schema.tables WHERE table_name = 'persons'",
    "SELECT count(*) FROM persons",
    "SELECT sick, count(*) AS n FROM persons GROUP BY sick",
    "SELECT state, avg(sick::INTEGER) FROM persons GROUP BY state",
    "SELECT state, round(100 * avg(CASE WHEN sick THEN 1 ELSE 0 END), 1) p FROM persons WHERE state > 'S0' GROUP BY 1",
    "SELECT state, sick, count(*) / sum(count(*)) OVER (PARTITION BY state) AS p FROM persons GROUP BY 1, 2 ORDER BY p",
    "SELECT DISTINCT state, count(*) FILTER (sick) / count(*) AS p FROM persons GROUP BY state HAVING state <> 'S1'",
    "SELECT n, count(*) FROM (SELECT household_id, count(*) n FROM persons GROUP BY 1) GROUP BY n HAVING count(*) > 1",
    "SELECT sick, count(*) + 1, rank() OVER (ORDER BY count(*)) FROM persons GROUP BY sick QUALIFY count(*) > 2",
    "SELECT n, count(*) FROM (SELECT rank, count(p.household_id) n FROM states LEFT JOIN persons p "
    "ON rank = p.household_id GROUP BY rank) GROUP BY n",
    "SELECT state, sick, count(*) / sum(count(*)) OVER (PARTITION BY state) FROM persons GROUP BY ALL",
]
TOKEN = re.compile(r"\w+|\W")


def crossed(rng: random.Random) -> str:
    """A statement that is admitted, with some of its words exchanged for others."""
    words = TOKEN.findall(rng.choice(SEEDS))
    others = [
        *COLUMNS,
        *FUNCTIONS,
        *TABLES,
        "ALL",
        "DISTINCT",
        "1",
        "state",
        "size",
        "household_id",
        f"({query(rng, 1)})",
    ]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        at = rng.randrange(len(words))
        words[at] = rng.choice(others) if words[at].strip() else words[at]
    return "".join(words)


def statement(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return crossed(rng)
    text = rng.choice(WRAPPERS).replace("{n}", str(rng.randrange(3))).replace("{}", query(rng))
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(text))
        kind = rng.random()
        if kind < 0.5:
            text = text[:at] + rng.choice(NOISE) + text[at:]
        elif kind < 0.75:
            text = text[:at] + text[at + rng.randint(1, 3) :]
        else:
            text = text[:at] + text[at : at + 6].swapcase() + text[at + 6 :]
    return text


def test_no_canary_comes_out(tmp_path: Path) -> None:
    """A seed of its own for each run of the long profile; always the same in the default one."""
    rng = random.Random(None if COUNT > 1000 else 7)
    path = tmp_path / "x.duckdb"
    database(path)
    ran = 0
    with analyst(path) as con:
        for _ in range(COUNT):
            sql = statement(rng)
            admitted, seen = outcome(con, sql)
            ran += admitted
            if admitted:
                assert not canary(seen), sql
            else:
                # The sender's own words may come back; values may not.
                assert not any(
                    re.search(r"canary name \d|canary secret \d|73100[01]\d{4}", str(one)) for one in seen
                ), sql
            # (DuckDB cannot name the tables of a call of duckanon's own.)
            if admitted and con.decision is not None and con.decision.query is not None and not con.decision.calls:
                read = con._con.get_table_names(con.decision.query, qualified=True)
                assert not {"x.main.persons", "x.main.secrets"} & {one.lower().replace('"', "") for one in read}, sql
            if admitted and "temp table persons" in sql.lower():
                con.execute("DROP TABLE IF EXISTS persons")
    assert not canary(catalog(path))
    assert ran > COUNT // 100


def test_the_search_finds_canaries(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    database(path)
    with duckdb.connect(str(path)) as con:
        for column in ("name", "income", "sex", "pid", "income + 1", "upper(name)", "[name]", "{'a': pid}"):
            assert canary(con.execute(f"SELECT {column} FROM persons").fetchall()), column
        assert not canary(con.execute("SELECT household_id, state, sick FROM persons").fetchall())
