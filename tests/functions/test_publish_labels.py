"""publish in SQL, of labels: of hierarchies that are open, and of bands."""

import json

import duckdb
import pytest

from tests.functions.test_publish import refused, said
from tests.shared_connection import Begun

POLICY = "epsilon := 1, quasi_identifiers := ['age', 'town'], sensitive := ['disease'], k := 4"
LEVELS = "hierarchies := {'town': 'towns'}"
BANDS = "bands := {'age': {'width': 10, 'bottom': 30, 'top': 60}}"
CALL = f"k_anonymize('persons', ['age', 'town'], {LEVELS}, {BANDS}, drop := ['id']"
END = "analysts read it as {}."


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE persons AS SELECT i AS id, CASE WHEN i % 30 > 0 THEN 20 + i % 50 END AS age, "
        "CASE WHEN i % 23 > 0 THEN 't' || hash(i) % 6 END AS town, CASE WHEN i % 3 = 0 THEN 'flu' ELSE 'none' END "
        "AS disease FROM range(240) r(i); "
        "CREATE TABLE towns AS SELECT 't' || i AS leaf, CASE WHEN i < 3 THEN 'north' ELSE 'south' END AS above "
        "FROM range(6) r(i)"
    ).fetchall()
    con.execute(f"SELECT protect('persons', {POLICY})").fetchall()
    con.execute(f"CREATE TABLE one AS FROM {CALL}, k := 4)").fetchall()


@pytest.fixture
def protected(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def test_labels_of_an_open_hierarchy(protected: duckdb.DuckDBPyConnection) -> None:
    protected.execute(
        "UPDATE persons SET age = coalesce(age, 33), town = coalesce(town, 't0'); CREATE OR REPLACE TABLE one AS "
        f"FROM {CALL}, k := 4, method := 'mondrian')"
    ).fetchall()
    assert "name the table of their hierarchy, which must be open" in refused(protected, "publish('one')")
    call = f"publish('one', {LEVELS})"
    assert "is no open table of this database" in refused(protected, call)
    assert "is no open table of this database" in refused(protected, "publish('one', hierarchies := {'town': 'gone'})")
    said(protected, "open_table('towns')")
    assert said(protected, call).endswith(END.format("one"))
    ((told,),) = protected.execute("SELECT detail FROM duckanon.ledger WHERE action = 'publish'").fetchall()
    assert json.loads(told)["hierarchies"] == {"town": "towns"}
    # A second one follows from the first, whose classes lie in one of its own each.
    protected.execute(
        "CREATE TABLE two AS SELECT NULL::BIGINT AS age_lo, NULL::BIGINT AS age_hi, coalesce(above, town_label) AS "
        "town_label, disease FROM one LEFT JOIN towns ON leaf = town_label"
    ).fetchall()
    protected.execute(f"CREATE TABLE other AS FROM {CALL}, k := 9, method := 'greedy')").fetchall()
    assert "is published already (one)" in refused(protected, f"publish('other', {LEVELS})")
    assert said(protected, f"publish('two', {LEVELS})").endswith(END.format("two"))


WRONG = {
    "SELECT * REPLACE (CASE town_label WHEN 'north' THEN 'south' WHEN 't1' THEN 't4' ELSE town_label END AS "
    "town_label) FROM one": "rows that no record",
    "SELECT * REPLACE ('a flu in the north' AS town_label) FROM one": "holds a label that the hierarchy",
    "SELECT * REPLACE (7 AS town_label) FROM one": "must be of the type",
    "SELECT * EXCLUDE (town_label), 1 AS x FROM one": "has no labels of",
    "SELECT * REPLACE (if(row_number() OVER () = 1, '*', town_label) AS town_label) FROM one": "not proven to hold 4",
}


@pytest.mark.parametrize("change", WRONG)
def test_false_labels(protected: duckdb.DuckDBPyConnection, change: str) -> None:
    said(protected, "open_table('towns')")
    protected.execute("ALTER TABLE one DROP class_id").fetchall()
    protected.execute(f"CREATE TABLE changed AS {change}").fetchall()
    assert WRONG[change] in refused(protected, f"publish('changed', {LEVELS})")


def test_a_hierarchy_must_be_a_tree_with_all_values(protected: duckdb.DuckDBPyConnection) -> None:
    protected.execute(
        "CREATE TABLE bad AS FROM towns UNION ALL SELECT 't1', 'south'; CREATE TABLE few AS FROM towns WHERE leaf <> "
        "'t5'; CREATE TABLE flat AS SELECT leaf FROM few; UPDATE one SET town_label = '*' WHERE town_label IS NOT NULL"
    ).fetchall()
    for table in ("bad", "few", "flat"):
        said(protected, f"open_table('{table}')")
    assert "is no tree" in refused(protected, "publish('one', hierarchies := {'town': 'bad'})")
    for table in ("few", "flat"):
        assert "value that its hierarchy lacks" in refused(
            protected, f"publish('one', hierarchies := {{'town': '{table}'}})"
        )
    said(protected, "open_table('towns')")
    assert "no quasi-identifier of the policy" in refused(
        protected, "publish('one', hierarchies := {'disease': 'towns'})"
    )
    assert "must give an open table" in refused(protected, "publish('one', hierarchies := {'town': ['left(town, 1)']})")
    assert "leave value out" in refused(protected, f"publish('one', value := 'n', {LEVELS})")
    assert "names a column twice" in refused(
        protected, "publish('one', hierarchies := MAP {'town': 'towns', 'Town': 'towns'})"
    )


def test_labels_of_bands_say_themselves_what_they_hold(protected: duckdb.DuckDBPyConnection) -> None:
    said(protected, "open_table('towns')")
    protected.execute(
        f"CREATE TABLE whole AS FROM {CALL}, k := 4, method := 'global', max_suppression := 0.1)"
    ).fetchall()
    shown = {row[0] for row in protected.execute("SELECT DISTINCT age_label FROM whole").fetchall()}
    assert {"[, 30)", "[30, 40)", "[60, )"} <= shown
    for label in ("[thirty, 40)", "30 to 40", "[30, 40) flu"):
        protected.execute(
            f"CREATE OR REPLACE TABLE odd AS SELECT * EXCLUDE (class_id) REPLACE ('{label}' AS age_label) FROM whole"
        ).fetchall()
        assert "for which values the labels" in refused(protected, f"publish('odd', {LEVELS})")
    protected.execute(
        "CREATE TABLE moved AS SELECT * EXCLUDE (class_id) REPLACE (CASE age_label WHEN '[30, 40)' THEN '[130, 140)' "
        "ELSE age_label END AS age_label) FROM whole"
    ).fetchall()
    assert "rows that no record" in refused(protected, f"publish('moved', {LEVELS})")
    assert said(protected, f"publish('whole', {LEVELS})").endswith(END.format("whole"))
