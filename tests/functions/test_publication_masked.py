"""Suppressed and perturbed tables as publications: what the audit lets out, what it refuses, and true ones only."""

from __future__ import annotations

from itertools import product

import duckdb
import numpy as np
import pytest

from duckanon.engines.tables.truth import records
from duckanon.functions.publication_readers import _chosen, _Perturbed
from tests.amounts import many
from tests.functions.publication_worlds import broken, chosen, filled, let_out, perturbation, population
from tests.shared_connection import Begun

KEYED = (
    "CREATE TABLE people AS SELECT i % 5 AS town, (i // 5) % 3 AS sex, "
    "md5_number_lower(i::VARCHAR)::DOUBLE / 18446744073709551616 AS record_key FROM range(80) r(i) "
    "WHERE NOT (i % 5 = 1 AND (i // 5) % 3 = 1 AND i > 20)"
)
PROTECT = "SELECT protect('people', epsilon := 1, public := ['town', 'sex'], small := 3, k := 3{more})"
SUPPRESSED = "publish('{name}', variables := ['town', 'sex'], value := 'value', suppressed := 'suppressed'{more})"
PERTURBED = "publish('{name}', variables := {by}, value := 'n', key := 'record_key'{more})"


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(KEYED).fetchall()
    con.execute(PROTECT.format(more="")).fetchall()
    con.execute("CREATE TABLE hidden AS FROM suppress('people', ['town'], ['sex'])").fetchall()
    con.execute("CREATE TABLE changed AS FROM cell_key('people', ['town', 'sex'])").fetchall()


@pytest.fixture
def people(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def said(con: duckdb.DuckDBPyConnection, call: str) -> str:
    ((found,),) = con.execute(f"SELECT {call}").fetchall()
    return str(found)


def refused(con: duckdb.DuckDBPyConnection, call: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as error:
        con.execute(f"SELECT {call}").fetchall()
    return str(error.value)


@pytest.mark.parametrize("seed", range(many(20)))
def test_nothing_of_what_is_let_out_is_broken(own_con: duckdb.DuckDBPyConnection, seed: int) -> None:
    """Against a list of all records that agree; `tests.bench.publications_enumerated` tries 60 populations."""
    random = np.random.default_rng(1000 + seed)
    counts = population(random)
    filled(own_con, counts, random)
    by = perturbation(random)
    out = let_out(own_con, [chosen(random, by) for _ in range(3)], random)
    assert not out or not list(broken(counts, out))


def test_they_are_published_listed_and_read(people: duckdb.DuckDBPyConnection) -> None:
    assert people.execute("SELECT count(*) FROM hidden WHERE suppressed").fetchall() == [(4,)]
    assert said(people, SUPPRESSED.format(name="hidden", more="")) == (
        "hidden, counts with suppressed cells of main.people by town, sex, is published: analysts read it as hidden."
    )
    said(people, PERTURBED.format(name="changed", by=["town", "sex"], more=""))
    assert people.execute("SELECT name, kind, perturbation, width FROM publications()").fetchall() == [
        ("hidden", "suppressed", None, 1),
        ("changed", "perturbed", "max_deviation 5, variance 2, threshold 0", 1),
    ]
    assert people.execute("SELECT count(*) FROM duckanon.hidden").fetchall() == [(24,)]
    found = people.execute("SELECT variables, at_risk, safe, publications FROM release_audit('people')").fetchall()
    assert (["town", "sex"], 1, True, ["hidden", "changed"]) in found
    assert said(people, "unpublish('hidden')").startswith("hidden is withdrawn.")


def test_a_table_with_too_few_suppressed_cells_needs_a_larger_n(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(
        "UPDATE hidden SET suppressed = false, value = (SELECT count(*) FROM people p WHERE p.town = hidden.town AND "
        "p.sex = hidden.sex) WHERE suppressed AND town <> 1"
    ).fetchall()
    told = refused(people, SUPPRESSED.format(name="hidden", more=""))
    assert told.endswith("leave variables out or make them coarser, or suppress with a larger n, 3 at least.")


def test_counts_that_undo_a_suppression_are_refused(people: duckdb.DuckDBPyConnection) -> None:
    said(people, SUPPRESSED.format(name="hidden", more=""))
    people.execute("CREATE TABLE n AS SELECT town, sex, count(*) AS n FROM people WHERE true GROUP BY ALL").fetchall()
    assert "1 follow from all of them" in refused(people, "publish('n', variables := ['town', 'sex'], value := 'n')")
    people.execute("CREATE TABLE s AS SELECT sex, count(*) AS n FROM people GROUP BY ALL").fetchall()
    assert "is published" in said(people, "publish('s', variables := ['sex'], value := 'n')")


@pytest.mark.parametrize("sold", [False, True])
def test_totals_of_suppressed_tables_are_known_where_counts_are_sold(
    con: duckdb.DuckDBPyConnection, sold: bool
) -> None:
    """Two towns are suppressed, and so are their totals: with noise these can be bought."""
    con.execute("CREATE TABLE people AS SELECT (i >= 2)::INTEGER AS town, 0 AS sex FROM range(9) r(i)").fetchall()
    con.execute("INSERT INTO people SELECT 2, 1 FROM range(8)").fetchall()
    con.execute(
        "CREATE TABLE hidden AS SELECT town, sex, 1 - grouping(town) AS row_level, 1 - grouping(sex) AS col_level, "
        "coalesce(town < 2, false) AS suppressed, CASE WHEN NOT suppressed THEN count(*) END AS value "
        "FROM people GROUP BY CUBE (town, sex)"
    ).fetchall()
    con.execute(PROTECT.format(more=", per_query := 0.1" if sold else "")).fetchall()
    call = SUPPRESSED.format(name="hidden", more="")
    if sold:
        assert "1 follow from all of them" in refused(con, call)
    else:
        assert "is published" in said(con, call)


@pytest.mark.parametrize("withdrawn", [False, True])
def test_counts_are_not_sold_after_a_suppressed_total_was_published(
    con: duckdb.DuckDBPyConnection, withdrawn: bool
) -> None:
    """The audit took the totals of two towns for unknown; neither their table nor another of the population sells."""
    con.execute("CREATE TABLE people AS SELECT (i >= 2)::INTEGER AS town, 0 AS sex, i AS person FROM range(9) r(i)")
    con.execute("INSERT INTO people SELECT 2, 1, 100 + i FROM range(8) r(i)").fetchall()
    con.execute(
        "CREATE TABLE hidden AS SELECT town, sex, 1 - grouping(town) AS row_level, 1 - grouping(sex) AS col_level, "
        "coalesce(town < 2, false) AS suppressed, CASE WHEN NOT suppressed THEN count(*) END AS value "
        "FROM people GROUP BY CUBE (town, sex)"
    ).fetchall()
    con.execute("CREATE TABLE visits AS SELECT person FROM people").fetchall()
    more = ", population := 'all', privacy_unit := 'person', rows_per_unit := 1{sold}"
    said(con, PROTECT.format(more=more.format(sold=""))[len("SELECT ") :])
    said(con, SUPPRESSED.format(name="hidden", more=""))
    if withdrawn:
        said(con, "unpublish('hidden')")
    tells = "hidden was published for readers who do not know its suppressed totals, and noisy counts would tell them"
    sold = more.format(sold=", per_query := 0.1")
    assert tells in refused(con, f"protect('visits'{sold})")
    said(con, "unprotect('people')")
    assert tells in refused(con, PROTECT.format(more=sold)[len("SELECT ") :])
    assert "is protected" in said(con, f"protect('visits'{more.format(sold='')})")


def test_counts_are_sold_where_no_total_is_suppressed(people: duckdb.DuckDBPyConnection) -> None:
    said(people, SUPPRESSED.format(name="hidden", more=""))
    said(people, "unprotect('people')")
    assert "is protected" in said(people, PROTECT.format(more=", per_query := 0.1")[len("SELECT ") :])


def test_a_withdrawn_suppressed_table_counts_as_known(people: duckdb.DuckDBPyConnection) -> None:
    said(people, SUPPRESSED.format(name="hidden", more=""))
    said(people, "unpublish('hidden')")
    assert "follow from all of them" in refused(people, PERTURBED.format(name="changed", by=["town", "sex"], more=""))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE hidden SET value = value + 1 WHERE row_level = 0 AND col_level = 0", "1 of the 24 cells neither"),
        ("DELETE FROM hidden WHERE row_level = 1 AND col_level = 1 AND town = 0", "3 of the 24 cells neither"),
        ("UPDATE hidden SET suppressed = NOT suppressed", "are no totals"),
        ("UPDATE hidden SET town = 1 WHERE row_level = 0", "are no totals"),
        ("INSERT INTO hidden FROM hidden LIMIT 1", "more than once"),
        ("DELETE FROM hidden WHERE col_level = 1", "identified by 1 columns"),
        ("ALTER TABLE hidden ADD COLUMN status VARCHAR", "without audit := true"),
        ("ALTER TABLE hidden ALTER value TYPE VARCHAR", 'Column "value" must hold numbers.'),
    ],
)
def test_a_suppressed_table_that_is_not_true_is_refused(
    people: duckdb.DuckDBPyConnection, change: str, says: str
) -> None:
    people.execute(change).fetchall()
    assert says in refused(people, SUPPRESSED.format(name="hidden", more=""))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE changed SET n = n + 1 WHERE town = 0 AND sex = 0", "1 of the 15 cells do not hold"),
        ("DELETE FROM changed WHERE town = 0 AND sex = 0", "1 of the 15 cells do not hold"),
        ("INSERT INTO changed VALUES (9, 9, 0)", "1 of the 16 cells do not hold"),
        ("UPDATE people SET record_key = 1", "not from 0 to below 1"),
        ("ALTER TABLE people DROP record_key", 'no column "record_key" of record keys'),
    ],
)
def test_perturbed_counts_must_be_those_of_cell_key(people: duckdb.DuckDBPyConnection, change: str, says: str) -> None:
    people.execute(change).fetchall()
    assert says in refused(people, PERTURBED.format(name="changed", by=["town", "sex"], more=""))


def test_a_cell_has_one_change_everywhere(people: duckdb.DuckDBPyConnection) -> None:
    said(people, PERTURBED.format(name="changed", by=["town", "sex"], more=""))
    people.execute("CREATE TABLE other AS FROM cell_key('people', ['town'], variance := 3)").fetchall()
    call = PERTURBED.format(name="other", by=["town"], more=", variance := 3")
    assert "perturb all tables of the same records alike" in refused(people, call)
    people.execute("CREATE TABLE same AS FROM cell_key('people', ['town'])").fetchall()
    assert "is published" in said(people, PERTURBED.format(name="same", by=["town"], more=""))


def test_a_width_is_kept_by_all_later_audits(people: duckdb.DuckDBPyConnection) -> None:
    assert "to within less than 90" in refused(people, SUPPRESSED.format(name="hidden", more=", width := 90"))
    said(people, SUPPRESSED.format(name="hidden", more=", width := 2"))
    assert people.execute("SELECT width FROM publications()").fetchall() == [(2,)]


def test_what_a_small_deviation_tells_is_refused(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE near AS FROM cell_key('people', ['town', 'sex'], max_deviation := 1, variance := 0.5)")
    call = PERTURBED.format(name="near", by=["town", "sex"], more=", max_deviation := 1, variance := 0.5")
    assert "perturb with a larger max_deviation" in refused(people, call)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("value := 'n', suppressed := 'suppressed', key := 'record_key'", "and not several of these"),
        ("value := 'n', key := 'record_key', base := 5", "and not several of these"),
        ("suppressed := 'suppressed'", "suppressed and key are for tables of counts"),
        ("value := 'n', variance := 2", "variance is for counts that cell_key perturbed"),
        ("value := 'n', suppressed := 'town'", "cannot be both suppressed and one that identifies a cell"),
        ("value := 'n', width := 0", "width must be 1 or more"),
        ("value := 'n', key := 'record_key', max_deviation := 0", "The largest change is from 1 to 1000"),
    ],
)
def test_arguments_that_do_not_fit(people: duckdb.DuckDBPyConnection, more: str, says: str) -> None:
    assert says in refused(people, f"publish('changed', variables := ['town', 'sex'], {more})")


@pytest.mark.parametrize("seed", range(5))
def test_cells_of_other_results_differ_wherever_the_chosen_combinations_hold_records(seed: int) -> None:
    """Of two tables by (a, b) and (a, c): against all records that agree with what is taken for known."""
    random = np.random.default_rng(seed)
    levels = (2, 2, 2)
    cells = list(product(*map(range, levels)))
    truth = records(levels, np.array(cells), random.integers(0, 3, 8) + np.eye(8, dtype=np.int64)[0])
    tables = []
    for scope in ((0, 1), (0, 2)):
        codes, own = truth.margin(scope)
        # Cells of the same records have the same result.
        members = [[c for c in truth.codes.tolist() if [c[v] for v in scope] == code] for code in codes.tolist()]
        result = np.array([sum(map(sum, one)) % 2 for one in members])
        tables.append(_Perturbed(scope, codes, result, np.maximum(own - 2, 1), own + 2))
    codes, own = truth.margin((0, 1, 2))
    kept = [tuple(cell) for cell in codes[_chosen(tables[0], tables[1], (0, 1, 2), codes, own)].tolist()]
    for world in random.integers(0, 4, (4000, 8)):
        counts = dict(zip(cells, world.tolist(), strict=True))
        sets = [
            [
                frozenset(c for c in cells if counts[c] and [c[v] for v in one.scope] == code)
                for code in one.codes.tolist()
            ]
            for one in tables
        ]
        held = [np.array([sum(counts[c] for c in cell) for cell in table]) for table in sets]
        agrees = all(((one.low <= n) & (n <= one.high)).all() for one, n in zip(tables, held, strict=True))
        if agrees and all(counts[cell] for cell in kept):
            pairs = product(zip(sets[0], tables[0].result, strict=True), zip(sets[1], tables[1].result, strict=True))
            assert all(a != b or x == y for (a, x), (b, y) in pairs)


def test_candidates_are_audited_before_they_are_published(people: duckdb.DuckDBPyConnection) -> None:
    hidden = "{tbl: 'hidden', vars: ['town', 'sex'], value: 'value', suppressed: 'suppressed'}"
    for candidate in (hidden, "{vars: ['town', 'sex'], key: 'record_key'}"):
        audited = f"FROM release_audit('people', candidate := {candidate})"
        found = people.execute(f"SELECT bool_and(safe), sum(at_risk) {audited}").fetchall()
        assert found == [(True, 1)], candidate
    near = "{vars: ['town', 'sex'], key: 'record_key', max_deviation: 1, variance: 0.5}"
    ((safe,),) = people.execute(f"SELECT bool_and(safe) FROM release_audit('people', candidate := {near})").fetchall()
    assert not safe
    rows = "SELECT publishable FROM next_tables('people', candidates := [{candidate}])"
    assert people.execute(rows.replace("{candidate}", near)).fetchall() == [(False,)]
    assert people.execute("FROM publications()").fetchall() == []
    with pytest.raises(duckdb.InvalidInputException, match="no column"):
        people.execute("FROM release_audit('people', candidate := {vars: ['town'], key: 'nothing'})").fetchall()
