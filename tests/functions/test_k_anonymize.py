"""k_anonymize in SQL: what comes out is k-anonymous, complete, and the same every time."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.engines.kanon.methods import METHODS
from duckanon.functions import k_cells
from tests.functions.released import check, quoted

# Type, and values of it: few and many, far from zero, tiny and huge.
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "INTEGER": st.integers(0, 3) | st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(2**62, 2**62 + 9) | st.integers(-(2**63), 2**63 - 1),
    "UBIGINT": st.integers(0, 2**64 - 1),
    # DuckDB 1.4 takes Python integers near the ends of HUGEINT for floats; `test_columns` has the ends.
    "HUGEINT": st.integers(-(10**37), 10**37) | st.integers(2**100, 2**100 + 9),
    "DECIMAL(9,2)": st.decimals(-100, 100, places=2),
    "DECIMAL(38,6)": st.integers(-(10**37), 10**37).map(lambda x: Decimal(x).scaleb(-6)),
    "FLOAT": st.floats(-10, 10, width=32),
    "DOUBLE": st.sampled_from([0.0, 1e-300, 5e-324, -1.7e308, 1.7e308]) | st.floats(0, 1),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "TIMESTAMP": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    "TIMESTAMP WITH TIME ZONE": st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    "TIME": st.times(),
    "ENUM('low', 'medium', 'high', 'extreme')": st.sampled_from(["low", "medium", "high", "extreme"]),
    "VARCHAR": st.sampled_from(["", "a", "A", "a'b", 'a"b', "é", "z" * 40]),
    "UUID": st.uuids().map(str),
}
# Methods that solve programs are slow at large k; a test of its own calls them.
QUICK = [name for name in METHODS if name not in ("milp", "exact", "split_carry", "bubble_carry")]
NAMES = ["age", "Zip Code", 'qu"ote', "select"]


@st.composite
def typed_tables(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(2, 25))
    columns = []
    for name in NAMES[: draw(st.integers(1, 4))]:
        kind = draw(st.sampled_from(list(TYPES)))
        value = TYPES[kind]
        if draw(st.booleans()):
            value = st.sampled_from(draw(st.lists(value, min_size=1, max_size=3)))
        if draw(st.booleans()):
            value = st.none() | value
        rows = draw(st.lists(value, min_size=n, max_size=n))
        categorical = kind in ("VARCHAR", "UUID") or draw(st.booleans())
        columns.append((name, kind, rows, categorical))
    return {
        "n": n,
        "columns": columns,
        "k": draw(st.integers(2, n)),
        "method": draw(st.sampled_from(QUICK)),
        "weights": draw(
            st.none() | st.lists(st.sampled_from([0.5, 1, 2]), min_size=len(columns), max_size=len(columns))
        ),
        "illness": draw(st.lists(st.sampled_from(["flu", "hiv", None]), min_size=n, max_size=n)),
        "shuffle": draw(st.permutations(range(n))),
    }


def fill(con: duckdb.DuckDBPyConnection, name: str, table: dict[str, Any], order: list[int]) -> None:
    declared = ", ".join(f"{quoted(column)} {kind}" for column, kind, _, _ in table["columns"])
    con.execute(f"CREATE OR REPLACE TABLE {name} ({declared}, illness VARCHAR, tags VARCHAR[], id INTEGER)").fetchall()
    marks = ", ".join("?" for _ in range(len(table["columns"]) + 3))
    for i in order:
        values = [rows[i] for _, _, rows, _ in table["columns"]]
        con.execute(f"INSERT INTO {name} VALUES ({marks})", [*values, table["illness"][i], ["x", None], i]).fetchall()


@pytest.fixture(scope="module")
def shared() -> Any:
    with duckdb.connect() as connection:
        yield duckanon.register(connection)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(table=typed_tables())
def test_every_release_passes_the_check_and_is_the_same_again(shared: Any, table: dict[str, Any]) -> None:
    qi = [name for name, _, _, _ in table["columns"]]
    categorical = [name for name, _, _, yes in table["columns"] if yes]
    call = (
        "CREATE OR REPLACE TABLE {0} AS FROM k_anonymize('{1}', ?, k := ?, method := ?, categorical := ?, weights := ?)"
    )
    arguments = [qi, table["k"], table["method"], categorical, table["weights"]]
    fill(shared, "people", table, list(range(table["n"])))
    shared.execute("SET threads = 1").fetchall()
    shared.execute(call.format("released", "people"), arguments).fetchall()
    first = check(shared, "people", "released", qi, categorical, table["k"])
    fill(shared, "shuffled", table, table["shuffle"])
    shared.execute("SET threads = 4").fetchall()
    shared.execute(call.format("again", "shuffled"), arguments).fetchall()
    assert shared.execute("FROM again").fetchall() == first


def test_a_large_table_is_the_same_shuffled_and_on_other_threads(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE people AS SELECT (hash(i) % 80)::INT AS age, "
        "['a', 'b', 'c', NULL][1 + (hash(i + 1) % 4)::INT] AS city, "
        "(hash(i * 3) % 5)::INT AS illness, i AS id FROM range(30000) r(i)"
    ).fetchall()
    con.execute("CREATE TABLE shuffled AS FROM people ORDER BY hash(id + 7)").fetchall()
    found = []
    for table, threads in [("people", 1), ("shuffled", 1), ("people", 4), ("shuffled", 4)]:
        con.execute(f"SET threads = {threads}").fetchall()
        found.append(
            con.execute(f"FROM k_anonymize('{table}', ['age', 'city'], k := 7, categorical := ['city'])").fetchall()
        )
    assert found[0] == found[1] == found[2] == found[3]
    con.execute(
        "CREATE TABLE released AS FROM k_anonymize('people', ['age', 'city'], k := 7, categorical := ['city'])"
    ).fetchall()
    assert check(con, "people", "released", ["age", "city"], ["city"], 7) == found[0]


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(QUICK)))
def test_programs_release_what_passes_the_check(con: duckdb.DuckDBPyConnection, method: str) -> None:
    con.execute(
        "CREATE TABLE people AS SELECT (i * 7) % 11 AS age, ['a', 'b', NULL][1 + i % 3] AS city, i AS id "
        "FROM range(9) r(i)"
    ).fetchall()
    call = "CREATE OR REPLACE TABLE released AS FROM k_anonymize('people', ['age', 'city'], k := 3, method := ?, "
    con.execute(call + "categorical := ['city'])", [method]).fetchall()
    first = check(con, "people", "released", ["age", "city"], ["city"], 3)
    con.execute(call + "categorical := ['city'], seconds := 20)", [method]).fetchall()
    assert check(con, "people", "released", ["age", "city"], ["city"], 3) == first


def test_options_reach_the_method(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (hash(i) % 9)::INT AS a, (hash(i + 5) % 7)::INT AS b FROM range(24) r(i)"
    ).fetchall()
    call = "SELECT information_loss FROM k_compare('t', ['a', 'b'], k := 2, methods := ?, options := {})"
    found = [
        con.execute(call.format(options), [methods]).fetchall()
        for options, methods in (
            ("NULL", ["split_carry"]),
            ("{'sets': 4, 'boundary': 2}", ["split_carry", "order"]),
            ("{'SETS': 1, 'boundary': 0}", ["split_carry"]),
            ("{'sets': 100}", ["split_carry", "exact"]),
        )
    ]
    assert found[0][0] == found[1][0]
    assert found[2][0] > found[0][0]
    assert found[3][0][0] == pytest.approx(found[3][1][0])
    rows = con.execute(
        "FROM k_anonymize('t', ['a', 'b'], k := 2, method := 'bubble_carry', options := {'size': 6, 'accepted': 1})"
    ).fetchall()
    assert len(rows) == 24
    for options, said in (
        ("{'depth': 3}", "There is no option 'depth' of the method: 'split_carry' has sets, boundary; "
         "'bubble_carry' has size, accepted."),
        ("{'sets': 0}", "Option 'sets' must be 1 or more."),
        ("{'sets': 1.5}", "options must give whole numbers by name, as in options := {'sets': 6}."),
        ("3", "options must give whole numbers by name, as in options := {'sets': 6}."),
    ):  # fmt: skip
        with pytest.raises(duckdb.InvalidInputException) as raised:
            con.execute(f"FROM k_compare('t', ['a', 'b'], methods := 'split_carry', options := {options})").fetchall()
        assert str(raised.value).removeprefix("Invalid Input Error: ") == said


def test_rows_of_a_class_are_sorted_by_what_is_released(con: duckdb.DuckDBPyConnection) -> None:
    # If the original ages sorted the rows of a class, the first row of each class would be its youngest.
    con.execute("CREATE TABLE people AS SELECT i AS age, 1000 - i AS pay FROM range(100) r(i)").fetchall()
    rows = con.execute("SELECT class_id, pay FROM k_anonymize('people', ['age'])").fetchall()
    assert rows == sorted(rows)


def test_null_is_a_value_of_its_own(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE people AS SELECT * FROM (VALUES (NULL), (NULL), (1), (2), (3), (NULL)) t(age)").fetchall()
    rows = con.execute(
        "SELECT age_lo, age_hi, count(*) FROM k_anonymize('people', ['age'], k := 3) GROUP BY ALL"
    ).fetchall()
    assert sorted(rows, key=str) == [(1, 3, 3), (None, None, 3)]
    mixed = con.execute("SELECT DISTINCT age_lo, age_hi FROM k_anonymize('people', ['age'], k := 6)").fetchall()
    assert mixed == [(None, None)]


def test_classes_that_share_their_cells_are_one(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE people AS SELECT i % 2 AS age, i AS id FROM range(40) r(i)").fetchall()
    rows = con.execute(
        "SELECT class_id, count(*) FROM k_anonymize('people', ['age'], k := 3) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert rows == [(1, 20), (2, 20)]


def test_the_whole_range_of_double(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT [-1.7e308, 0.0, 5e-324, 1.7e308][1 + (i % 4)::INT] AS x, i AS id FROM range(16) r(i)"
    ).fetchall()
    for weights in ("NULL", "{'x': 1e-9}", "{'id': 1e-9}"):
        con.execute(
            f"CREATE OR REPLACE TABLE released AS SELECT *, id_lo AS id FROM k_anonymize('t', ['x', 'id'], k := 4, "
            f"weights := {weights})"
        ).fetchall()
        assert con.execute("SELECT min(x_lo), max(x_hi) FROM released").fetchall() == [(-1.7e308, 1.7e308)]
        assert con.execute("SELECT information_loss <= 1 FROM k_compare('t', ['x', 'id'], k := 4)").fetchall()


def test_an_enum_has_the_order_of_its_declaration(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TYPE size AS ENUM ('small', 'medium', 'large', 'huge')").fetchall()
    con.execute(
        "CREATE TABLE t AS SELECT ['small', 'medium', 'large', 'huge'][1 + i % 4]::size AS size, i AS id "
        "FROM range(8) r(i)"
    ).fetchall()
    con.execute("CREATE TABLE released AS FROM k_anonymize('t', ['size'], k := 4)").fetchall()
    rows = con.execute("SELECT DISTINCT size_lo, size_hi FROM released ORDER BY size_lo").fetchall()
    assert rows == [("small", "medium"), ("large", "huge")]


def test_weights_steer_the_loss(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (hash(i) % 50)::INT AS a, (hash(i + 1000) % 50)::INT AS b, i AS id "
        "FROM range(500) r(i)"
    ).fetchall()

    def spans(weights: str) -> tuple[float, float]:
        query = f"SELECT avg(a_hi - a_lo), avg(b_hi - b_lo) FROM k_anonymize('t', ['a', 'b'], weights := {weights})"
        return con.execute(query).fetchall()[0]

    heavy_a, heavy_b = spans("{'a': 9, 'b': 1}"), spans("{'A': 1, 'B': 9}")
    assert heavy_a[0] < heavy_a[1]
    assert heavy_b[0] > heavy_b[1]
    assert spans("MAP {'a': 9}") == heavy_a
    assert spans("[9, 1]") == spans("[0.9, 0.1]") == heavy_a


def test_drop_leaves_columns_out(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS age, 'x' AS name, i AS pay FROM range(9) r(i)").fetchall()
    found = con.execute("FROM k_anonymize('t', ['age'], drop := ['NAME'])")
    assert [column[0] for column in found.description] == ["class_id", "age_lo", "age_hi", "pay"]


def test_only_quasi_identifiers(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS age FROM range(12) r(i)").fetchall()
    rows = con.execute("FROM k_anonymize('t', ['AGE'], k := 4)").fetchall()
    assert rows == [(1 + i // 4, i // 4 * 4, i // 4 * 4 + 3) for i in range(12)]


def test_tables_may_have_the_names_our_queries_use(con: duckdb.DuckDBPyConnection) -> None:
    for name in ("described", "source", "packed", "answered", "labelled", "cells", "classes", "tallies", "verdict"):
        con.execute(f"CREATE TABLE {name} AS SELECT i AS age FROM range(12) r(i)").fetchall()
        for function in ("k_anonymize", "k_report", "k_compare"):
            assert con.execute(f"FROM {function}('{name}', ['age'])").fetchall()


@pytest.mark.parametrize(
    "source",
    ["t", "main.t", "memory.main.t", '"t"', "a view", "temporary", "other.t"],
)
def test_any_table_that_duckdb_can_name(con: duckdb.DuckDBPyConnection, source: str) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS age FROM range(12) r(i)").fetchall()
    con.execute('CREATE VIEW "a view" AS FROM t').fetchall()
    con.execute("CREATE TEMP TABLE temporary AS FROM t").fetchall()
    con.execute("CREATE SCHEMA other").fetchall()
    con.execute("CREATE TABLE other.t AS FROM t").fetchall()
    assert len(con.execute("FROM k_anonymize(?, ['age'])", [source]).fetchall()) == 12


def test_common_table_expressions_data_frames_and_files(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    assert (
        len(con.execute("WITH c AS (SELECT i AS age FROM range(12) r(i)) FROM k_anonymize('c', ['age'])").fetchall())
        == 12
    )
    frame = pa.table({"age": list(range(12))})
    assert len(con.execute("FROM k_anonymize('frame', ['age'])").fetchall()) == 12
    file = tmp_path / "people.csv"
    file.write_text("age\n" + "\n".join(map(str, range(12))) + "\n", encoding="utf-8")
    assert len(con.execute("FROM k_anonymize(?, ['age'])", [str(file)]).fetchall()) == 12
    assert frame.num_rows == 12


def test_nested_columns_that_are_not_quasi_identifiers_pass_through(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i AS age, [i] AS l, {'a': i} AS s, MAP {i: 'x'} AS m, '1 day'::INTERVAL AS v, "
        "'\\x00'::BLOB AS b, i::BIT AS bits, i::HUGEINT AS h FROM range(9) r(i)"
    ).fetchall()
    before = con.execute("SELECT l, s, m, v, b, bits, h FROM t").fetchall()
    after = con.execute("SELECT l, s, m, v, b, bits, h FROM k_anonymize('t', ['age'])").fetchall()
    assert sorted(map(str, before)) == sorted(map(str, after))


def test_columns_may_have_the_names_our_queries_use(con: duckdb.DuckDBPyConnection) -> None:
    names = ["label", "labels", "size", "content", "rows", "records", "answer", "names", "types", "members", "problem"]
    columns = ", ".join(f"(i * {j + 1}) % 5 AS {name}" for j, name in enumerate(names))
    con.execute(f"CREATE TABLE t AS SELECT {columns}, i AS id FROM range(40) r(i)").fetchall()
    for qi in (["label", "size", "content"], ["records", "answer", "rows", "problem"]):
        con.execute("CREATE OR REPLACE TABLE released AS FROM k_anonymize('t', ?, k := 4)", [qi]).fetchall()
        check(con, "t", "released", qi, [], 4)
        rest = [name for name in names if name not in qi]
        assert con.execute("SELECT records FROM k_report('t', ?, sensitive := ?)", [qi, rest]).fetchall() == [(40,)]


def test_calls_side_by_side(own_con: duckdb.DuckDBPyConnection) -> None:
    own_con.execute(
        "CREATE TABLE t AS SELECT hash(i) % 90 AS age, hash(i + 1) % 50 AS zip FROM range(1200) r(i)"
    ).fetchall()
    expected = own_con.execute("FROM k_anonymize('t', ['age', 'zip'])").fetchall()

    def call(cursor: duckdb.DuckDBPyConnection) -> Any:
        return duckanon.register(cursor).execute("FROM k_anonymize('t', ['age', 'zip'])").fetchall()

    with ThreadPoolExecutor(max_workers=4) as pool:
        for found in pool.map(call, [own_con.cursor() for _ in range(8)]):
            assert found == expected


def test_a_users_macros_do_not_get_in_the_way(con: duckdb.DuckDBPyConnection) -> None:
    for name in ("list", "min", "max", "count", "sum", "hash", "list_contains", "query", "query_table", "list_select"):
        con.execute(f"CREATE MACRO {name}(x) AS 42").fetchall()
    con.execute("CREATE TABLE t AS SELECT i AS age, 'x' AS c FROM range(9) r(i)").fetchall()
    assert len(con.execute("FROM k_anonymize('t', ['age', 'c'], categorical := ['c'])").fetchall()) == 9
    assert con.execute("SELECT k FROM k_report('t', ['age'], sensitive := ['c'])").fetchall() == [(1,)]
    assert len(con.execute("FROM k_compare('t', ['age'])").fetchall()) == 1


def test_settings_of_the_session_do_not_change_the_result(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT nullif(i % 7, 3) AS age, nullif(i % 5, 2) AS pay FROM range(40) r(i)"
    ).fetchall()
    call = "FROM k_anonymize('t', ['age'], k := 4)"
    first = con.execute(call).fetchall()
    con.execute("SET default_null_order = 'nulls_first'").fetchall()
    con.execute("SET preserve_insertion_order = false").fetchall()
    assert con.execute(call).fetchall() == first


@pytest.mark.parametrize("where", ["setting", "column"])
def test_a_collation_hides_nothing_and_leaves_no_order_open(con: duckdb.DuckDBPyConnection, where: str) -> None:
    if where == "setting":
        con.execute("SET default_collation = 'nocase'").fetchall()
    kind = "VARCHAR" if where == "setting" else "VARCHAR COLLATE nocase"
    con.execute(f"CREATE TABLE t (c {kind}, o {kind}, id INT)").fetchall()
    con.execute(
        "INSERT INTO t SELECT ['a', 'A', 'b', 'B', 'é'][1 + (i % 5)::INT], ['x', 'X'][1 + (i * 7 % 2)::INT], i "
        "FROM range(40) r(i)"
    ).fetchall()
    con.execute(f"CREATE TABLE s (c {kind}, o {kind}, id INT)").fetchall()
    con.execute("INSERT INTO s FROM t ORDER BY hash(id)").fetchall()
    for k in (6, 9, 30):
        call = f"FROM k_anonymize('{{}}', ['c'], k := {k}, categorical := ['c'], drop := ['id'])"
        first = con.execute(call.format("t")).fetchall()
        assert con.execute(call.format("s")).fetchall() == first
        sizes = Counter(tuple(row[1]) for row in first)
        assert min(sizes.values()) >= k
        assert len({row[0] for row in first}) == len(sizes)
    # Eight of each of five values, to anybody who can read.
    assert con.execute("SELECT classes, k, l FROM k_report('t', ['c'], sensitive := ['o'])").fetchall() == [(5, 8, 2)]


@pytest.mark.parametrize("kind", ["VARCHAR", "JSON", "VARCHAR[]", "STRUCT(v VARCHAR)"])
def test_a_collation_leaves_no_order_open_in_columns_of_any_type(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    con.execute("SET default_collation = 'nocase'").fetchall()
    values = {
        "JSON": """['"a"', '"A"', '"b"']""", "VARCHAR[]": "[['a'], ['A'], ['b']]",
        "STRUCT(v VARCHAR)": "[{'v': 'a'}, {'v': 'A'}, {'v': 'b'}]",
    }.get(kind, "['a', 'A', 'b']")  # fmt: skip
    con.execute(
        f"CREATE TABLE t AS SELECT 1 AS age, {values}[1 + (i % 3)::INT]::{kind} AS other FROM range(30) r(i); "
        "CREATE TABLE s AS FROM t ORDER BY hash(other::VARCHAR, rowid)"
    ).fetchall()
    first = con.execute("FROM k_anonymize('t', ['age'])").fetchall()
    assert con.execute("FROM k_anonymize('s', ['age'])").fetchall() == first


def test_explain_runs_nothing(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS age FROM range(9) r(i)").fetchall()
    con.execute("EXPLAIN FROM k_anonymize('t', ['age'], k := 100)").fetchall()


def test_dates_come_out_as_dates(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT DATE '2020-02-28' + i::INT AS born FROM range(6) r(i)").fetchall()
    rows = con.execute("SELECT DISTINCT born_lo, born_hi FROM k_anonymize('t', ['born'], k := 3) ORDER BY 1").fetchall()
    first = date(2020, 2, 28)
    assert rows == [(first + timedelta(d), first + timedelta(d + 2)) for d in (0, 3)]


def test_the_check_sees_a_small_class(monkeypatch: pytest.MonkeyPatch, con: duckdb.DuckDBPyConnection) -> None:
    """A partitioner that does wrong is caught by SQL, not by itself."""
    from duckanon.engines.kanon import private_classes

    def lonely(records: Any, k: int, method: str, **rest: Any) -> Any:
        return np.arange(len(records), dtype=np.int32)

    monkeypatch.setattr(private_classes, "anonymize", lonely)
    con.execute("CREATE TABLE t AS SELECT i AS age FROM range(9) r(i)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="made a class of fewer than k records"):
        con.execute("FROM k_anonymize('t', ['age'])").fetchall()


@pytest.mark.parametrize(
    ("end", "broken"),
    [
        ("highest", "system.main.min({})"),
        ("lowest", "system.main.max({})"),
        ("set_of", "[system.main.min({})]"),
        ("highest", "CASE WHEN system.main.count({}) < 0 THEN 0 END"),
    ],
)
def test_the_check_sees_a_value_outside_its_cell(
    monkeypatch: pytest.MonkeyPatch, con: duckdb.DuckDBPyConnection, end: str, broken: str
) -> None:
    monkeypatch.setattr(k_cells, end, broken.format)
    con.execute("CREATE TABLE t AS SELECT i AS age, 'c' || i AS city FROM range(9) r(i)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="left a value outside its interval or set"):
        con.execute("FROM k_anonymize('t', ['age', 'city'], categorical := ['city'])").fetchall()


def test_the_check_sees_a_lost_row(monkeypatch: pytest.MonkeyPatch, con: duckdb.DuckDBPyConnection) -> None:
    from duckanon.functions.collection import Collection

    honest = Collection.labels

    def losing(self: Collection, rows: Any) -> Any:
        return np.where(rows == 1, -1, honest(self, rows)).astype(np.int32)

    con.execute("CREATE TABLE t AS SELECT i // 3 AS age, i AS id FROM range(60) r(i)").fetchall()
    monkeypatch.setattr(Collection, "labels", losing)
    with pytest.raises(duckdb.InvalidInputException, match="dropped too many records"):
        con.execute("FROM k_anonymize('t', ['age'], k := 2)").fetchall()


def test_many_parts_and_blocks_change_nothing_but_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    from duckanon.engines.kanon import blocks
    from duckanon.functions import collection

    monkeypatch.setattr(blocks, "BLOCK", 1000)
    before = set(collection.COLLECTIONS._held)
    query = "FROM k_anonymize('t', ['age', 'city', 'born'], k := 4, method := 'order', categorical := ['city'])"
    found = []
    for rows, threads in ((1 << 18, 1), (1500, 3)):
        monkeypatch.setattr(collection, "_ROWS", rows)
        with duckdb.connect(config={"threads": threads}) as con:
            duckanon.register(con)
            con.execute(
                "CREATE TABLE t AS SELECT nullif(hash(i) % 90, 7)::INT AS age, 'c' || hash(i, 1) % 20 AS city, "
                "DATE '1950-01-01' + (hash(i, 2) % 9000)::INT AS born, i AS id FROM range(9000) r(i)"
            ).fetchall()
            found.append(con.execute(query).fetchall())
        assert set(collection.COLLECTIONS._held) == before
    assert found[0] == found[1]
    assert len(found[0]) == 9000
    assert min(Counter(row[0] for row in found[0]).values()) >= 4


def test_what_a_cancelled_statement_left_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, con: duckdb.DuckDBPyConnection
) -> None:
    from duckanon.functions import collection

    con.execute("CREATE TABLE t AS SELECT i // 3 AS age FROM range(60) r(i)").fetchall()
    left = collection.COLLECTIONS.open()
    con.execute("FROM k_anonymize('t', ['age'], k := 2)").fetchall()
    assert left in collection.COLLECTIONS._held
    monkeypatch.setattr(collection, "_FORGOTTEN", 0.0)
    collection.COLLECTIONS.drop(collection.COLLECTIONS.open())
    assert not collection.COLLECTIONS._held


def test_no_room(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i // 3 AS age FROM range(100000) r(i)").fetchall()
    con.execute("SET memory_limit = '40MB'").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match=r"about \d+ MiB beside DuckDB for 100,000 rows, more than"):
        con.execute("FROM k_anonymize('t', ['age'])").fetchall()


def test_progress_is_told() -> None:
    told: list[tuple[str, float]] = []
    with duckdb.connect() as watched:
        duckanon.register(watched, progress=lambda step, share: told.append((step, share)))
        watched.execute("CREATE TABLE t AS SELECT i AS age FROM range(50) r(i)").fetchall()
        watched.execute("FROM k_anonymize('t', ['age'])").fetchall()
    assert told
    assert all(0 <= share <= 1 for _, share in told)
