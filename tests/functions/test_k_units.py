"""k_anonymize, k_compare and k_report where a person has several records, and suppression without conditions."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import duckanon

# A stay; patients 0 to 9 have five each.
_STAYS = """
CREATE TABLE stays AS
SELECT CASE WHEN i < 50 THEN i // 5 ELSE i END AS patient, 20 + i * 7 % 60 AS age, 'z' || i * i % 7 AS zip,
  ['flu', 'asthma', 'ulcer', 'gout'][1 + i * i % 11 % 4] AS illness FROM range(200) r(i)
"""


def stays() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    duckanon.register(con)
    con.execute(_STAYS).fetchall()
    return con


@pytest.mark.parametrize("method", ["auto", "order", "mondrian"])
@pytest.mark.parametrize("drop", ["[]", "['Patient']"])
def test_every_class_holds_k_patients(method: str, drop: str) -> None:
    con = stays()
    con.execute(
        "CREATE TABLE released AS FROM k_anonymize('stays', ['age', 'zip'], k := 4, categorical := ['zip'], "
        f"unit := 'patient', drop := {drop}, method := '{method}')"
    ).fetchall()
    columns = [name for name, *_ in con.execute("DESCRIBE released").fetchall()]
    assert ("patient" in columns) == (drop == "[]")
    assert con.execute("SELECT count(*) FROM released").fetchall() == [(200,)]
    if drop == "[]":
        found = con.execute("SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM released GROUP BY class_id)")
        assert found.fetchone()[0] >= 4  # type: ignore[index]
        seen = con.execute("SELECT k FROM k_report('released', ['age_lo', 'age_hi', 'zip_set'], unit := 'patient')")
        assert seen.fetchone()[0] >= 4  # type: ignore[index]


def test_without_unit_a_patient_may_be_a_class_of_five() -> None:
    con = stays()
    con.execute("CREATE TABLE same AS SELECT patient, 30 + patient AS age FROM stays WHERE patient < 10").fetchall()
    query = "SELECT k FROM k_report('same', ['age']{})"
    assert con.execute(query.format("")).fetchall() == [(5,)]
    assert con.execute(query.format(", unit := 'patient'")).fetchall() == [(1,)]
    con.execute("CREATE TABLE released AS FROM k_anonymize('same', ['age'], k := 5, unit := 'patient')").fetchall()
    assert con.execute(
        "SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM released GROUP BY class_id)"
    ).fetchall() == [(5,)]


def plain(rows: list[tuple[object, ...]]) -> tuple[int, int, int, int, float | None]:
    """records, classes, k, l and t of rows of a unit, a class and a sensitive value."""
    classes, pairs = defaultdict(set), defaultdict(set)
    for unit, of, value in rows:
        if unit is not None:
            classes[of].add(unit)
            pairs[of].add((unit, value))
    whole = {(unit, value) for unit, _, value in rows if unit is not None}
    values = {value for _, value in whole}
    share = {v: sum(x == v for _, x in whole) / len(whole) for v in values}
    far = 0.0
    for mine in pairs.values():
        far = max(far, sum(abs(sum(x == v for _, x in mine) / len(mine) - share[v]) for v in values) / 2)
    least = min(len({v for _, v in mine}) for mine in pairs.values())
    records = sum(unit is not None for unit, *_ in rows)
    return records, len(classes), min(map(len, classes.values())), least, far


_CELL = st.tuples(st.none() | st.integers(0, 4), st.integers(0, 3), st.sampled_from("abc"))


@given(st.lists(_CELL, min_size=2, max_size=25))
@settings(deadline=None, max_examples=20)
def test_the_report_counts_as_its_definition_does(rows: list[tuple[object, ...]]) -> None:
    assume(any(unit is not None for unit, *_ in rows))
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t (unit INTEGER, q INTEGER, s VARCHAR)").fetchall()
        for row in rows:
            con.execute("INSERT INTO t VALUES (?, ?, ?)", row).fetchall()
        asked = "SELECT records, classes, k, l, t FROM k_report('t', ['q'], sensitive := ['s'], unit := 'unit')"
        found = con.execute(asked).fetchone()
        short = con.execute("SELECT records, classes, k FROM k_report('t', ['q'], unit := 'unit')").fetchone()
    wanted = plain(rows)
    assert found[:4] == wanted[:4]
    assert found[4] == pytest.approx(wanted[4])
    assert short == wanted[:3]


def test_conditions_count_a_patient_once_for_each_value() -> None:
    con = stays()
    con.execute(
        "CREATE TABLE released AS FROM k_anonymize('stays', ['age'], k := 3, unit := 'patient', "
        "sensitive := ['illness'], l := 2, diversity := 'entropy', drop := ['zip'])"
    ).fetchall()
    seen = con.execute(
        "SELECT k, entropy_l "
        "FROM k_report('released', ['age_lo', 'age_hi'], sensitive := ['illness'], unit := 'patient')"
    ).fetchone()
    assert seen is not None
    assert seen[0] >= 3
    assert seen[1] >= 2


def test_k_compare_counts_units_too() -> None:
    con = duckdb.connect()
    duckanon.register(con)
    con.execute("CREATE TABLE same AS SELECT i // 5 AS patient, 30 + i // 5 AS age FROM range(50) r(i)").fetchall()
    query = "SELECT information_loss FROM k_compare('same', ['age'], k := [5], methods := ['auto']{})"
    # Five stays of one patient have one age: no loss, unless five patients are to share a class.
    assert con.execute(query.format("")).fetchall() == [(0.0,)]
    assert con.execute(query.format(", unit := 'patient'")).fetchall() == [(pytest.approx(4 / 9),)]


def test_a_coarser_release_counts_units() -> None:
    con = stays()
    con.execute("CREATE TABLE fine AS FROM k_anonymize('stays', ['age'], k := 2, unit := 'patient')").fetchall()
    con.execute(
        "CREATE TABLE coarse AS FROM k_anonymize('stays', ['age'], k := 6, unit := 'patient', within := 'fine')"
    ).fetchall()
    least = con.execute("SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM coarse GROUP BY age_lo, age_hi)")
    assert least.fetchone()[0] >= 6  # type: ignore[index]


def test_a_record_without_a_unit_is_released_and_not_counted() -> None:
    con = stays()
    con.execute("UPDATE stays SET patient = NULL WHERE patient % 3 = 0").fetchall()
    con.execute("CREATE TABLE released AS FROM k_anonymize('stays', ['age'], k := 4, unit := 'patient')").fetchall()
    assert con.execute("SELECT count(*) FROM released").fetchall() == [(200,)]
    found = con.execute("SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM released GROUP BY class_id)")
    assert found.fetchone()[0] >= 4  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("k_anonymize('stays', ['age'], unit := 'age')", 'Column "age" is in both qi and unit'),
        ("k_anonymize('stays', ['age'], unit := 'nobody')", "nobody"),
        (
            "k_anonymize('stays', ['age'], k := 170, unit := 'patient')",
            "The unit has fewer than k = 170 distinct values",
        ),
        ("k_report('stays', ['age'], unit := 'patient', weight := 'zip')", "and unit whose it is: give one of them"),
        (
            "k_anonymize('stays', ['age'], unit := 'illness', sensitive := ['illness'], l := 2)",
            'Column "illness" is in both sensitive and unit',
        ),
    ],
)
def test_what_does_not_fit(call: str, says: str) -> None:
    with pytest.raises(duckdb.Error, match=says):
        stays().execute(f"FROM {call}").fetchall()


# --- suppression ------------------------------------------------------------------------------------------------------


def test_the_dearest_records_are_dropped() -> None:
    con = duckanon.connect()
    con.execute("CREATE TABLE t AS SELECT 60 + i AS age FROM range(30) r(i) UNION ALL SELECT 104").fetchall()
    con.execute("CREATE TABLE released AS FROM k_anonymize('t', ['age'], k := 3, max_suppression := 0.05)").fetchall()
    assert con.execute("SELECT count(*), max(age_hi) FROM released").fetchall() == [(30, 89)]
    found = con.execute("SELECT suppressed FROM k_compare('t', ['age'], k := [3], max_suppression := 0.05)").fetchall()
    assert found == [(1,)]


def test_which_records_are_dropped_does_not_depend_on_other_columns() -> None:
    con = duckanon.connect()
    con.execute(
        "CREATE TABLE t AS SELECT i AS id, hash(i) % 20 AS a, hash(i + 5000) % 9 AS b, hash(i * 7) % 5 AS c "
        "FROM range(300) r(i)"
    ).fetchall()
    qi = ["a", "b", "c"]
    query = f"SELECT count(*), sum(hash(a, b, c)) FROM k_anonymize('t', {qi}, k := 4, suppress_cells := true, {{}})"
    share = "max_suppression := 0.05"
    found = {con.execute(query.format(f"{share}{drop}")).fetchone() for drop in ("", ", drop := ['id']")}
    assert len(found) == 1
    ((gone,),) = con.execute(
        f"SELECT suppressed FROM k_compare('t', {qi}, k := 4, suppress_cells := true, {share}, methods := ['auto'])"
    ).fetchall()
    assert {300 - gone} == {kept for kept, _ in found}


def test_one_level_for_each_column_counts_patients() -> None:
    con = duckdb.connect()
    duckanon.register(con)
    con.execute("CREATE TABLE same AS SELECT i // 5 AS patient, 30 + i // 5 AS age FROM range(50) r(i)").fetchall()
    query = "SELECT DISTINCT age_label FROM k_anonymize('same', ['age'], k := 6, method := 'global', {})"
    found = [
        con.execute(query.format(f"bands := {{'age': 5}}{unit}")).fetchall() for unit in ("", ", unit := 'patient'")
    ]
    assert [sorted(one) for one in found] == [[("[30, 35)",), ("[35, 40)",)], [("*",)]]


# --- the policy's unit ------------------------------------------------------------------------------------------------


@pytest.fixture
def protected(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(tmp_path / "stays.duckdb")
    duckanon.register(con)
    con.execute("CREATE SCHEMA open; CREATE TABLE open.stays AS SELECT 1 AS age FROM range(9)").fetchall()
    con.execute("CREATE TABLE stays AS SELECT i // 5 AS patient, 30 + i // 5 AS age FROM range(50) r(i)").fetchall()
    con.execute("SELECT protect('stays', epsilon := 1.0, privacy_unit := 'patient', rows_per_unit := 5)").fetchall()
    return con


def k_of(con: duckdb.DuckDBPyConnection, table: str, more: str = "") -> int:
    ((k,),) = con.execute(f"SELECT k FROM k_report('{table}', ['age']{more})").fetchall()
    return int(k)


def test_k_counts_the_unit_of_the_policy(protected: duckdb.DuckDBPyConnection) -> None:
    assert k_of(protected, "stays") == k_of(protected, '"main".STAYS') == 1
    assert k_of(protected, "stays", ", unit := ''") == 5
    protected.execute("CREATE TABLE released AS FROM k_anonymize('stays', ['age'], k := 5)").fetchall()
    least = protected.execute("SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM released GROUP BY age_lo)")
    assert least.fetchall() == [(5,)]
    compared = "SELECT information_loss FROM k_compare('stays', ['age'], k := [5], methods := ['auto']{})"
    assert protected.execute(compared.format("")).fetchall() == [(pytest.approx(4 / 9),)]
    assert protected.execute(compared.format(", unit := ''")).fetchall() == [(0.0,)]


def test_the_policy_is_of_the_table_that_the_name_means(protected: duckdb.DuckDBPyConnection) -> None:
    assert k_of(protected, "open.stays") == 9
    protected.execute("SET search_path = 'open,main'").fetchall()
    assert k_of(protected, "stays") == 9
    assert k_of(protected, "stays.main.stays") == 1
    protected.execute("SET search_path = 'main'").fetchall()
    protected.execute("CREATE VIEW ages AS SELECT age FROM stays").fetchall()
    assert k_of(protected, "ages") == 5
    protected.execute("SELECT unprotect('stays')").fetchall()
    assert k_of(protected, "stays") == 5


def test_the_unit_of_the_policy_is_no_quasi_identifier(protected: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="names the privacy unit in the policy of stays: leave it out of qi"):
        protected.execute("FROM k_report('stays', ['patient'])").fetchall()
    found = protected.execute("SELECT k FROM k_report('stays', ['Patient'], unit := '')").fetchall()
    assert found == [(5,)]


def test_the_policy_of_a_table_that_the_transaction_has_made(tmp_path: Path) -> None:
    con = duckdb.connect(tmp_path / "new.duckdb")
    duckanon.register(con)
    con.execute(
        "BEGIN; CREATE TABLE stays AS SELECT i // 5 AS patient, 30 + i // 5 AS age FROM range(50) r(i)"
    ).fetchall()
    con.execute("SELECT protect('stays', epsilon := 1, privacy_unit := 'patient', rows_per_unit := 5)").fetchall()
    assert k_of(con, "stays") == 1


@pytest.mark.parametrize(
    "call",
    [
        "k_report('stays', ['age'], sensitive := ['patient'])",
        "k_compare('stays', ['age'], target := 'Patient')",
        "k_anonymize('stays', ['age'], sensitive := ['patient'], l := 2)",
    ],
)
def test_the_unit_is_nothing_else(protected: duckdb.DuckDBPyConnection, call: str) -> None:
    with pytest.raises(duckdb.Error, match="and unit: name it in one of them"):
        protected.execute(f"FROM {call}").fetchall()


CELLS = st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from([None, "a", "A", "b", "c"]))


@settings(max_examples=20)
@given(st.lists(CELLS, min_size=1, max_size=9), st.booleans(), st.booleans())
def test_units_that_are_alone_are_counted_once(
    records: list[tuple[int, int, str | None]], sensitive: bool, population: bool
) -> None:
    """Against plain sets: a unit that is alone in two classes is one unit."""
    assume(any(unit for *_, unit in records))
    con = duckdb.connect()
    duckanon.register(con)
    con.execute("CREATE TABLE homes (age INT, sex INT, home VARCHAR)")
    con.executemany("INSERT INTO homes VALUES (?, ?, ?)", [list(one) for one in records])
    con.execute("CREATE TABLE everybody AS FROM homes UNION ALL SELECT age, sex, home || 'x' FROM homes").fetchall()
    qi = "['age']" if sensitive else "['age', 'sex']"
    more = ", sensitive := ['sex']" if sensitive else ""
    more += ", population := 'everybody'" if population else ""
    found = con.execute(f"SELECT units, units_alone, singletons FROM k_report('homes', {qi}, unit := 'home'{more})")
    classes = defaultdict(set)
    for age, sex, unit in records:
        if unit is not None:
            classes[age if sensitive else (age, sex)].add(unit)
    alone = [one for one in classes.values() if len(one) == 1]
    units = {unit for *_, unit in records if unit is not None}
    assert found.fetchall() == [(len(units), len(set().union(*alone)), len(alone))]
    assert con.execute("SELECT units, units_alone FROM k_report('homes', ['age'])").fetchall() == [(None, None)]
