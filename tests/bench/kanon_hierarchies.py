"""Hierarchies of ARX on Adult: `global` on a lattice of 12,960 nodes, and local recoding to labels and to sets.

Run: python -m tests.bench.kanon_hierarchies [METHOD ...]
A release of sets is also measured by the labels that its classes would have, one of labels by the sets; and no release
of labels loses less than the proven lower bound in the last row.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import duckdb

import duckanon

DATA = Path(__file__).parents[3] / "shared" / "data"
# Columns of the table, and the files of their hierarchies.
FILES = {
    name: DATA / "adult_hierarchies" / f"adult_hierarchy_{file}.csv"
    for name, file in {
        "age": "age",
        "education": "education",
        "marital_status": "marital-status",
        "native_country": "native-country",
        "occupation": "occupation",
        "race": "race",
        "sex": "sex",
        "workclass": "workclass",
        "income": "salary-class",
    }.items()
}
QI = list(FILES)
K = 5
# Of the search for the lower bound.
SECONDS = 120


def labels_loss(con: duckdb.DuckDBPyConnection, release: str, records: int) -> float:
    """The mean of (leaves below the label - 1) / (leaves - 1); a record that is not released loses 1."""
    lost = 0.0
    for name in QI:
        ((part,),) = con.execute(
            f"SELECT sum((below - 1) / (leaves - 1)) FROM {release} "
            f"JOIN below ON below.name = ? AND label = {name}_label",
            [name],
        ).fetchall()
        lost += part / len(QI)
    ((kept,),) = con.execute(f"SELECT count(*) FROM {release}").fetchall()
    return float((lost + records - kept) / records)


def recoded_loss(con: duckdb.DuckDBPyConnection, release: str) -> float:
    """The loss by labels of the same classes if each showed its lowest common labels."""
    lost = 0.0
    for name in QI:
        ((part,),) = con.execute(
            "SELECT sum(size * (below - 1) / (leaves - 1)) / sum(size) FROM ("
            "  SELECT class_id, size, arg_min(label, level) AS label FROM ("
            "    SELECT class_id, level, any_value(label) AS label, count(*) AS size, "
            "      count(DISTINCT label) AS labels "
            f"    FROM {release} JOIN paths ON paths.name = ? AND leaf = own_{name}::VARCHAR GROUP BY ALL"
            "  ) WHERE labels = 1 GROUP BY ALL"
            ") AS found JOIN below ON below.name = ? AND below.label = found.label",
            [name, name],
        ).fetchall()
        lost += part / len(QI)
    return lost


def values_loss(con: duckdb.DuckDBPyConnection, release: str) -> float:
    """The loss of the same classes if each showed its own values: the range of ages, the sets of the others."""
    parts = [
        f"(SELECT sum(size * (most - least) / (SELECT max(age) - min(age) FROM adult)) FROM "
        f"(SELECT count(*) AS size, max(own_age) AS most, min(own_age) AS least FROM {release} GROUP BY class_id))",
        *(
            f"(SELECT sum(size * (held - 1) / (SELECT count(DISTINCT {name}) - 1 FROM adult)) FROM "
            f"(SELECT count(*) AS size, count(DISTINCT own_{name}) AS held FROM {release} GROUP BY class_id))"
            for name in QI[1:]
        ),
    ]
    ((lost,),) = con.execute(f"SELECT ({' + '.join(parts)}) / {len(QI)} / (SELECT count(*) FROM {release})").fetchall()
    return float(lost)


def released(con: duckdb.DuckDBPyConnection, method: str, more: str) -> float:
    """Make the release of a call; how long that took."""
    began = perf_counter()
    con.execute(
        f"CREATE OR REPLACE TABLE released AS FROM k_anonymize('adult', ?, k := {K}, method := '{method}', {more})",
        [QI],
    ).fetchall()
    return perf_counter() - began


def main(methods: Sequence[str]) -> int:
    if not all(path.exists() for path in FILES.values()):
        print(f"skipped: {DATA} is not here")
        return 0
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        own = ", ".join(f"{name} AS own_{name}" for name in QI)
        con.execute(
            f"CREATE TABLE adult AS SELECT {', '.join(QI)}, {own} FROM read_parquet(?) "
            "WHERE part = 'train' AND workclass <> '?' AND occupation <> '?' AND native_country <> '?'",
            [str(DATA / "adult.parquet")],
        ).fetchall()
        con.execute("CREATE TABLE paths (name VARCHAR, leaf VARCHAR, level INTEGER, label VARCHAR)").fetchall()
        con.execute("CREATE TABLE below (name VARCHAR, label VARCHAR, below INTEGER, leaves INTEGER)").fetchall()
        for name, path in FILES.items():
            con.execute(
                "INSERT INTO paths SELECT ?, labels[1], generate_subscripts(labels, 1), unnest(labels) "
                "FROM (SELECT [*COLUMNS(*)] AS labels FROM read_csv(?, header := false, all_varchar := true))",
                [name, str(path)],
            ).fetchall()
            con.execute(
                "INSERT INTO below SELECT name, label, count(DISTINCT leaf), "
                "(SELECT count(DISTINCT leaf) FROM paths WHERE name = $1) FROM paths WHERE name = $1 GROUP BY ALL",
                [name],
            ).fetchall()
        ((n,),) = con.execute("SELECT count(*) FROM adult").fetchall()
        files = ", ".join(f"'{name}': '{path}'" for name, path in FILES.items())
        trees = f"hierarchies := {{{files}}}"
        sets = f"categorical := {QI[1:]}"
        print(f"Adult, {n:,} records, {len(QI)} quasi-identifiers, k = {K}, duckdb {duckdb.__version__}\n")
        print("| method | released | records dropped | loss by labels | loss by values | seconds |")
        print("|---|---|---|---|---|---|")
        for share in (0, 0.01, 0.05):
            took = released(con, "global", f"{trees}, max_suppression := {share}")
            ((kept,),) = con.execute("SELECT count(*) FROM released").fetchall()
            loss = labels_loss(con, "released", n)
            print(f"| `global` | labels | {n - kept:,} | {loss:.4f} | | {took:.1f} |", flush=True)
        for method in methods:
            for shown, more in (("labels", trees), ("sets", sets)):
                took = released(con, method, more)
                by_labels = labels_loss(con, "released", n) if shown == "labels" else recoded_loss(con, "released")
                by_values = values_loss(con, "released")
                print(f"| `{method}` | {shown} | 0 | {by_labels:.4f} | {by_values:.4f} | {took:.1f} |", flush=True)
        began = perf_counter()
        ((bound,),) = con.execute(
            "SELECT sum(records * price) / sum(records) "
            f"FROM k_certificate('adult', ?, k := {K}, {trees}, seconds := {SECONDS})",
            [QI],
        ).fetchall()
        print(f"| lower bound | labels | 0 | {bound:.4f} | | {perf_counter() - began:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["order", "refine"]))
