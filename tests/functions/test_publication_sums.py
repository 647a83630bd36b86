"""Sums with suppressed cells as publications: true ones, contributions that stay open, and records that stay open."""

from __future__ import annotations

import duckdb
import pytest

from tests.functions.test_publication_masked import refused, said
from tests.shared_connection import Begun

FIRMS = """CREATE TABLE firms AS SELECT i AS firm, i % 4 AS region, (i // 4) % 3 AS branch,
  (20 + hash(i) % 80 + CASE WHEN i = 25 THEN 8000 ELSE 0 END)::INTEGER AS turnover FROM range(120) r(i)
  WHERE NOT (i % 4 = 2 AND (i // 4) % 3 = 1 AND i > 30)"""
PROTECT = (
    "SELECT protect('firms', epsilon := 1, public := ['region', 'branch', 'turnover'], small := {small}, k := 3{more})"
)
RULES = "value := 'turnover', rule := ['p%', 'threshold'], n := 4"
PUBLISH = "publish('{name}', variables := ['region', 'branch'], value := 'value', suppressed := 'suppressed'{more})"
SUMS = ", sum := 'turnover'"


def made(con: duckdb.DuckDBPyConnection, call: str, small: int = 4) -> None:
    """The firms, protected, and an answer of suppress."""
    con.execute(FIRMS).fetchall()
    con.execute(PROTECT.format(small=small, more="")).fetchall()
    con.execute(f"CREATE TABLE sums AS FROM {call}").fetchall()


def make(con: duckdb.DuckDBPyConnection) -> None:
    made(con, f"suppress('firms', ['region'], ['branch'], {RULES})")


@pytest.fixture
def firms(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def test_sums_are_published_and_listed(firms: duckdb.DuckDBPyConnection) -> None:
    assert said(firms, PUBLISH.format(name="sums", more=SUMS)) == (
        "sums, sums of turnover with suppressed cells of main.firms by region, branch, is published: analysts read it "
        "as sums."
    )
    listed = firms.execute("SELECT kind, value, sum FROM publications()").fetchall()
    assert listed == [("suppressed", "value", "turnover")]
    # Counts of the same cells are audited with it, as if it were one of counts.
    found = firms.execute("SELECT variables, at_risk, safe, publications FROM release_audit('firms')").fetchall()
    assert (["region", "branch"], 1, True, ["sums"]) in found


def test_the_counts_of_suppressed_cells_are_refused_beside_their_sums(firms: duckdb.DuckDBPyConnection) -> None:
    said(firms, PUBLISH.format(name="sums", more=SUMS))
    firms.execute("CREATE TABLE n AS SELECT region, branch, count(*) AS n FROM firms GROUP BY ALL").fetchall()
    counts = "publish('n', variables := ['region', 'branch'], value := 'n')"
    assert "1 follow from all of them" in refused(firms, counts)


@pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="the firms are drawn by hashes, which DuckDB 2 changed")
@pytest.mark.parametrize("order", [("sums", "counts"), ("counts", "sums")])
def test_counts_and_sums_of_the_same_cells_are_published_with_one_pattern(
    con: duckdb.DuckDBPyConnection, order: tuple[str, str]
) -> None:
    """By their own rules each shows a cell that the other suppresses."""
    calls = {"sums": f"suppress('firms', ['region'], ['branch'], {RULES}"}
    calls["counts"] = "suppress('firms', ['region'], ['branch'], n := 4"
    more = {"sums": SUMS, "counts": ""}
    con.execute(FIRMS).fetchall()
    con.execute(PROTECT.format(small=4, more="")).fetchall()
    first, second = order
    for name in order:
        con.execute(f"CREATE TABLE {name} AS FROM {calls[name]})").fetchall()
    said(con, PUBLISH.format(name=first, more=more[first]))
    told = refused(con, PUBLISH.format(name=second, more=more[second]))
    assert f"suppress all that {first} does, by an apriori of its lines WHERE suppressed" in told
    con.execute(f"CREATE TABLE gone AS FROM {first} WHERE suppressed").fetchall()
    con.execute(f"CREATE OR REPLACE TABLE {second} AS FROM {calls[second]}, apriori := 'gone')").fetchall()
    assert "is published" in said(con, PUBLISH.format(name=second, more=more[second]))


@pytest.mark.parametrize("rule", ["rule := 'threshold'", "rule := 'threshold', n := 2", "rule := 'p%'"])
def test_cells_of_few_or_dominated_by_one_must_be_suppressed(con: duckdb.DuckDBPyConnection, rule: str) -> None:
    """One firm dominates a cell; another holds three firms' numbers, where p% finds nothing and small is 4."""
    made(con, f"suppress('firms', ['region'], ['branch'], value := 'turnover', {rule})")
    assert "of its sums are shown that tell too much" in refused(con, PUBLISH.format(name="sums", more=SUMS))


def test_a_suppressed_cell_that_follows_from_the_totals(firms: duckdb.DuckDBPyConnection) -> None:
    """All secondary suppressions are taken back."""
    firms.execute(
        f"CREATE TABLE bare AS SELECT a.* EXCLUDE (suppressed, value, status, true_value, lower, upper), "
        "status = 'primary' AS suppressed, CASE WHEN status <> 'primary' THEN true_value END AS value "
        f"FROM suppress('firms', ['region'], ['branch'], {RULES}, audit := true) a"
    ).fetchall()
    told = refused(firms, PUBLISH.format(name="bare", more=SUMS))
    assert "sensitive sums are known too narrowly" in told
    assert "rule := ['p%', 'threshold'] and a larger n, 4 at least" in told


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE sums SET value = value + 1 WHERE row_level = 0 AND col_level = 0", "1 of the 20 cells neither"),
        ("DELETE FROM sums WHERE col_level = 0", "lacks cells or totals"),
        ("ALTER TABLE sums DROP row_level", "must have the columns region, branch, value, suppressed"),
        ("UPDATE firms SET turnover = -1 WHERE firm = 1", "holds NULL, negative numbers, or more decimals"),
        ("UPDATE firms SET turnover = NULL WHERE firm = 1", "holds NULL, negative numbers, or more decimals"),
        ("UPDATE firms SET turnover = 2000000000", "neither are suppressed nor hold"),
    ],
)
def test_sums_that_are_not_true_are_refused(firms: duckdb.DuckDBPyConnection, change: str, says: str) -> None:
    firms.execute(change).fetchall()
    assert says in refused(firms, PUBLISH.format(name="sums", more=SUMS))


def test_counts_said_to_be_sums_and_the_other_way_round(firms: duckdb.DuckDBPyConnection) -> None:
    assert "number of its records" in refused(firms, PUBLISH.format(name="sums", more=""))
    firms.execute("CREATE TABLE n AS FROM suppress('firms', ['region'], ['branch'])").fetchall()
    assert "the sum of turnover" in refused(firms, PUBLISH.format(name="n", more=SUMS))
    assert 'no column "profit" of numbers' in refused(firms, PUBLISH.format(name="n", more=", sum := 'profit'"))


def test_a_second_table_of_sums_and_numbers_by_the_summed_column(firms: duckdb.DuckDBPyConnection) -> None:
    """Which firms are where follows from sums by both columns, even where no cell of both is known."""
    said(firms, PUBLISH.format(name="sums", more=SUMS))
    firms.execute(f"CREATE TABLE more AS FROM suppress('firms', ['region'], [], {RULES})").fetchall()
    more = "publish('more', variables := ['region'], value := 'value', suppressed := 'suppressed', sum := 'turnover')"
    assert "two tables of sums of one column are not proven safe" in refused(firms, more)
    firms.execute("CREATE TABLE values_ AS SELECT turnover, count(*) AS n FROM firms GROUP BY ALL").fetchall()
    by = "publish('values_', variables := ['turnover'], value := 'n')"
    assert '"turnover" would be summed in one table and identify' in refused(firms, by)
    # The same table may be published again, by another name.
    firms.execute("CREATE TABLE again AS FROM sums").fetchall()
    assert "is published" in said(firms, PUBLISH.format(name="again", more=SUMS))
    said(firms, "unpublish('sums')")
    assert "two tables of sums" in refused(firms, more)


def test_a_candidate_with_sums(firms: duckdb.DuckDBPyConnection) -> None:
    form = "{tbl: 'sums', vars: ['region', 'branch'], value: 'value', suppressed: 'suppressed', sum: 'turnover'}"
    asked = f"FROM release_audit('firms', candidate := {form})"
    found = firms.execute(f"SELECT variables, safe, publications {asked}").fetchall()
    assert (["region", "branch"], True, ["the candidate"]) in found
    said(firms, PUBLISH.format(name="sums", more=SUMS))
    firms.execute("CREATE TABLE more AS FROM sums").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="two tables of sums of one column"):
        firms.execute(asked.replace("'sums'", "'more'")).fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="A candidate with sums has suppressed cells"):
        firms.execute("FROM release_audit('firms', candidate := {vars: ['region'], sum: 'turnover'})").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="table_bounds takes counts"):
        firms.execute(f"FROM table_bounds([{form}])").fetchall()


@pytest.mark.parametrize("dropped", ["['firm', 'turnover']", "['firm']"])
def test_sums_beside_a_k_anonymous_table(con: duckdb.DuckDBPyConnection, dropped: str) -> None:
    """They are refused, even by a column that it shows, unless it shows the summed column too."""
    con.execute(FIRMS).fetchall()
    con.execute(
        "SELECT protect('firms', epsilon := 1, quasi_identifiers := ['region'], sensitive := ['branch', 'turnover'], "
        "small := 2, k := 2)"
    ).fetchall()
    con.execute(f"CREATE TABLE copy AS FROM k_anonymize('firms', ['region'], k := 2, drop := {dropped})").fetchall()
    said(con, "publish('copy')")
    con.execute(f"CREATE TABLE sums AS FROM suppress('firms', ['branch'], [], {RULES})").fetchall()
    call = "publish('sums', variables := ['branch'], value := 'value', suppressed := 'suppressed', sum := 'turnover')"
    if "turnover" in dropped:
        assert "a k-anonymous table is published (copy), and sums are not proven safe" in refused(con, call)
    else:
        assert "is published" in said(con, call)


def test_a_contributor_alone_in_several_cells(con: duckdb.DuckDBPyConnection) -> None:
    """A firm is alone in two cells of a row: they protect each other, and their sum is what it gave to both."""
    con.execute(
        "CREATE TABLE firms AS SELECT 0 AS firm, 0 AS region, i AS branch, 50 AS turnover FROM range(2) r(i) UNION ALL "
        "SELECT 1 + i, i % 3, 2, 40 FROM range(60) r(i) UNION ALL "
        "SELECT 100 + i, 1 + i % 2, i % 2, 30 FROM range(60) r(i) UNION ALL "
        "SELECT 200 + i, 1 + i % 2, 1 - i % 2, 30 FROM range(60) r(i)"
    ).fetchall()
    con.execute(PROTECT.format(small=4, more=", privacy_unit := 'firm', rows_per_unit := 2")).fetchall()
    con.execute(f"CREATE TABLE blind AS FROM suppress('firms', ['region'], ['branch'], {RULES}, unit := '')").fetchall()
    con.execute(f"CREATE TABLE sums AS FROM suppress('firms', ['region'], ['branch'], {RULES})").fetchall()
    assert "sensitive sums are known too narrowly" in refused(con, PUBLISH.format(name="blind", more=SUMS))
    assert "is published" in said(con, PUBLISH.format(name="sums", more=SUMS))


def test_weighted_counts(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(FIRMS).fetchall()
    con.execute("ALTER TABLE firms ADD COLUMN w DECIMAL(6, 2)").fetchall()
    con.execute("UPDATE firms SET w = 1.25 + (firm % 7) / 4").fetchall()
    con.execute(PROTECT.format(small=4, more="")).fetchall()
    con.execute(
        "CREATE TABLE sums AS FROM suppress('firms', ['region'], ['branch'], weight := 'w', digits := 1, n := 4)"
    )
    con.execute(
        f"CREATE TABLE more AS FROM suppress('firms', ['region'], ['branch'], {RULES}, weight := 'w', digits := 1)"
    ).fetchall()
    assert "more decimals than the release" in refused(con, PUBLISH.format(name="sums", more=", sum := 'w'"))
    assert "the sum of turnover weighted by w" in refused(
        con, PUBLISH.format(name="sums", more=", sum := 'turnover', weight := 'w'")
    )
    assert "the sum of turnover, where" in refused(con, PUBLISH.format(name="more", more=SUMS))
    form = "{{tbl: '{}', vars: ['region', 'branch'], value: 'value', suppressed: 'suppressed', weight: 'w'{}}}"
    for one in (form.format("sums", ""), form.format("more", ", sum: 'turnover'")):
        assert con.execute(f"SELECT bool_and(safe) FROM release_audit('firms', candidate := {one})").fetchall() == [
            (True,)
        ]
    assert "sums of turnover weighted by w" in said(con, PUBLISH.format(name="more", more=f"{SUMS}, weight := 'w'"))
    assert "together with more it is not proven" in refused(con, PUBLISH.format(name="sums", more=", weight := 'w'"))
    con.execute("CREATE TABLE same AS SELECT * EXCLUDE (value) FROM more").fetchall()
    con.execute(
        "CREATE TABLE counted AS FROM suppress('firms', ['region'], ['branch'], weight := 'w', digits := 1, n := 4, "
        "apriori := 'same')"
    ).fetchall()
    assert "counts weighted by w with suppressed cells" in said(
        con, PUBLISH.format(name="counted", more=", weight := 'w'")
    )
    listed = con.execute("SELECT name, sum, weight FROM publications()").fetchall()
    assert listed == [("more", "turnover", "w"), ("counted", None, "w")]
    con.execute(f"CREATE TABLE again AS FROM suppress('firms', ['region'], [], {RULES})").fetchall()
    call = "publish('again', variables := ['region'], value := 'value', suppressed := 'suppressed'"
    assert 'sums of "turnover" are published already (more)' in refused(con, f"{call}{SUMS})")


@pytest.mark.parametrize("sold", [False, True])
def test_suppressed_totals_are_known_where_counts_are_sold(con: duckdb.DuckDBPyConnection, sold: bool) -> None:
    """A branch of one region has two firms, and so has its total: with noise the total can be bought."""
    con.execute(
        "CREATE TABLE firms AS SELECT i AS firm, 0 AS region, 0 AS branch, 40 + i AS turnover FROM range(2) r(i) "
        "UNION ALL SELECT 10 + i, i % 2, 1 + i % 3, 60 FROM range(60) r(i)"
    ).fetchall()
    con.execute(PROTECT.format(small=4, more=", per_query := 0.1" if sold else "")).fetchall()
    con.execute(f"CREATE TABLE sums AS FROM suppress('firms', ['region'], ['branch'], {RULES})").fetchall()
    call = PUBLISH.format(name="sums", more=SUMS)
    if sold:
        assert "totals count as known where counts are sold" in refused(con, call)
    else:
        assert "is published" in said(con, call)
