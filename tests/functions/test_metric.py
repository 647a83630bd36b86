"""metric_mechanism, metric_report and metric_perturb in SQL: what they give, what they refuse, what they keep."""

import math

import duckdb
import pytest

PREFIX = "Invalid Input Error: "


@pytest.fixture
def cells(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A grid of 3 by 3, in kilometres and in degrees, and people on it."""
    con.execute(
        "CREATE TABLE cells AS SELECT 'c' || (x * 3 + y) AS cell, x::DOUBLE AS x, y::DOUBLE AS y, "
        "[x, y]::DOUBLE[2] AS place, 41.9 + x / 100 AS lat, 12.5 + y / 100 AS lon, 1 / 9 AS share, 1 AS ones, "
        "CASE WHEN x = 1 THEN 'nan'::DOUBLE ELSE x END AS gone, 'secret' AS word, [x, 'nan'::DOUBLE] AS lost, "
        "CASE WHEN x = 0 THEN [1.0] ELSE [1.0, 2.0] END AS ragged, CASE WHEN x = 2 THEN 95 ELSE 41 END AS far, "
        "NULLIF(x, 1) AS missing FROM range(3) a(x), range(3) b(y)"
    ).fetchall()
    con.execute("CREATE TABLE people AS SELECT i AS who, 'c' || (i % 9) AS cell FROM range(90) r(i)").fetchall()
    return con


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple]:
    return con.execute(sql).fetchall()


CALL = "metric_mechanism('cells', 'cell', ['x', 'y'], epsilon := 1.0, radius := 1.5)"


def report(con: duckdb.DuckDBPyConnection, call: str, told: str) -> dict[str, float]:
    con.execute(f"CREATE OR REPLACE TABLE m AS FROM {call}").fetchall()
    found = con.execute(f"FROM metric_report('m', {told})")
    names = [column[0] for column in found.description]
    return dict(zip(names, found.fetchall()[0], strict=True))


def test_columns_and_promise(cells: duckdb.DuckDBPyConnection) -> None:
    found = cells.execute(f"FROM {CALL}")
    assert [column[0] for column in found.description] == ["secret", "output", "probability"]
    lines = found.fetchall()
    assert [line[:2] for line in lines] == sorted(line[:2] for line in lines)
    chance = {line[:2]: line[2] for line in lines}
    assert all(value > 0 for value in chance.values())
    names = [f"c{i}" for i in range(9)]
    for name in names:
        assert math.fsum(chance.get((name, output), 0) for output in names) == pytest.approx(1, abs=1e-15)
    for a in names:
        for b in names:
            i, j = int(a[1]), int(b[1])
            d = math.dist(divmod(i, 3), divmod(j, 3))
            if 0 < d <= 1.5:
                for output in names:
                    assert chance.get((a, output), 0) <= math.exp(d) * chance.get((b, output), 0)


def test_a_second_run_and_another_order_give_the_same(cells: duckdb.DuckDBPyConnection) -> None:
    first = rows(cells, f"FROM {CALL}")
    cells.execute("CREATE OR REPLACE TABLE cells AS FROM cells ORDER BY hash(cell)").fetchall()
    assert rows(cells, f"FROM {CALL}") == first
    cells.execute("SET threads = 1").fetchall()
    assert rows(cells, f"FROM {CALL}") == first


def test_the_report_verifies(cells: duckdb.DuckDBPyConnection) -> None:
    told = "'cells', 'cell', ['x', 'y'], epsilon := 1.0, radius := 1.5"
    found = report(cells, CALL, told)
    assert list(found) == [
        "pairs", "max_violation", "row_sum_error", "expected_loss", "exponential_loss", "lower_bound", "gap",
    ]  # fmt: skip
    assert found["pairs"] == 20
    assert -1e-9 < found["max_violation"] <= 0
    assert found["row_sum_error"] < 1e-14
    assert found["lower_bound"] <= found["expected_loss"] < found["exponential_loss"]
    assert 0 <= found["gap"] <= 1e-4
    stricter = rows(cells, f"FROM metric_report('m', {told.replace('1.0', '0.9')}, bound := false)")[0]
    assert stricter[1] == pytest.approx(0.1 * 2**0.5, rel=1e-3)
    assert stricter[5:] == (None, None)
    # One probability moved a little breaks the promise.
    cells.execute("UPDATE m SET probability = probability * 1.001 WHERE secret = 'c4' AND output = 'c0'").fetchall()
    assert rows(cells, f"SELECT max_violation > 0 FROM metric_report('m', {told})") == [(True,)]


@pytest.mark.parametrize("method", ["auto", "columns", "lp", "benders", "exponential"])
def test_methods(cells: duckdb.DuckDBPyConnection, method: str) -> None:
    told = "'cells', 'cell', ['x', 'y'], epsilon := 1.0, radius := 1.5"
    found = report(cells, f"metric_mechanism({told}, method := '{method}')", told)
    assert found["max_violation"] <= 0
    if method == "exponential":
        assert found["expected_loss"] == pytest.approx(found["exponential_loss"], rel=1e-12)
    else:
        assert found["gap"] <= 1.1e-4


@pytest.mark.parametrize(
    "told",
    [
        "['x', 'y'], epsilon := 0.5, metric := 'manhattan'",
        "['place'], epsilon := 0.5, metric := 'euclidean'",
        "['lat', 'lon'], epsilon := 2, metric := 'haversine', radius := 1.2",
        "['lat', 'lon'], epsilon := 2.5, metric := 'cosine'",
        "['x', 'y'], epsilon := 0.5, prior := 'share'",
        "['x', 'y'], epsilon := 0.5, loss := 'losses'",
        "['x', 'y'], epsilon := 0.5, destinations := 'targets', metric := 'manhattan'",
        "[], epsilon := 0.5, distances := 'ways'",
        "[], epsilon := 0.5, distances := 'ways', loss := 'losses', radius := 3",
    ],
)
def test_inputs(cells: duckdb.DuckDBPyConnection, told: str) -> None:
    rows(cells, "CREATE TABLE losses AS SELECT a.cell AS secret, b.cell AS output, abs(a.x - b.x) AS loss "
         "FROM cells a, cells b WHERE b.cell IN ('c0', 'c4', 'c8')")  # fmt: skip
    rows(cells, "CREATE TABLE ways AS SELECT a.cell AS secret, b.cell AS other, abs(a.x - b.x) + abs(a.y - b.y) "
         "AS distance FROM cells a, cells b WHERE a.cell < b.cell AND distance <= 2")  # fmt: skip
    rows(cells, "CREATE TABLE targets AS SELECT 0.5 AS x, 0 AS y, 3 AS weight UNION ALL SELECT 2, 2, 1")
    found = report(cells, f"metric_mechanism('cells', 'cell', {told})", f"'cells', 'cell', {told}")
    assert found["max_violation"] <= 0
    assert found["gap"] <= 1e-4


def test_duplicates_and_isolated(cells: duckdb.DuckDBPyConnection) -> None:
    rows(cells, "CREATE TABLE spots AS FROM (VALUES (1, 0), (2, 0), (3, 1), (4, 50)) t(id, x)")
    call = "metric_mechanism('spots', 'id', ['x'], epsilon := 1, radius := 2, isolated := '{}')"
    with pytest.raises(duckdb.InvalidInputException, match="1 records have no neighbour, which means no protection"):
        rows(cells, "FROM " + call.format("error"))
    kept = rows(cells, "FROM " + call.format("keep"))
    assert [line[1:] for line in kept if line[0] == 1] == [line[1:] for line in kept if line[0] == 2]
    assert [line for line in kept if line[0] == 4] == [(4, 4, 1.0)]
    rows(cells, "CREATE TABLE m AS FROM " + call.format("suppress"))
    assert rows(cells, "FROM m WHERE secret = 4") == [(4, None, 1.0)]
    checked = rows(cells, "SELECT max_violation <= 0, pairs FROM metric_report('m', 'spots', 'id', ['x'], "
                   "epsilon := 1, radius := 2)")  # fmt: skip
    assert checked == [(True, 3)]
    drawn = rows(cells, "SELECT id, perturbed FROM metric_perturb('spots', 'id', 'm') ORDER BY id")
    assert drawn[3] == (4, None)
    # Withholding one of two neighbours tells them apart.
    rows(cells, "CREATE TABLE wrong AS SELECT 1 AS secret, NULL::INT AS output, 1.0 AS probability "
         "UNION ALL SELECT id, 3, 1.0 FROM spots WHERE id > 1")  # fmt: skip
    broken = "SELECT max_violation FROM metric_report('wrong', 'spots', 'id', ['x'], epsilon := 1, radius := 2)"
    assert rows(cells, broken) == [(math.inf,)]


def test_perturb_draws_from_the_mechanism(cells: duckdb.DuckDBPyConnection) -> None:
    rows(cells, f"CREATE TABLE m AS FROM {CALL}")
    rows(cells, "CREATE TABLE many AS SELECT i AS who, 'c' || (i % 2 * 4) AS cell FROM range(100000) r(i)")
    found = cells.execute("FROM metric_perturb('many', 'cell', 'm')")
    assert [column[0] for column in found.description] == ["who", "cell", "perturbed"]
    drawn = found.fetchall()
    assert [line[0] for line in drawn] == list(range(100000))
    chance = {line[:2]: line[2] for line in rows(cells, "FROM m")}
    for secret in ("c0", "c4"):
        mine = [line[2] for line in drawn if line[1] == secret]
        statistic = 0.0
        for output in {output for _, output in chance}:
            expected = chance.get((secret, output), 0) * len(mine)
            count = mine.count(output)
            if expected == 0:
                assert count == 0
            elif expected > 5:
                statistic += (count - expected) ** 2 / expected
        # Chi-square with 8 degrees of freedom is above 60 once in 2 * 10^9 times; another record's row gives thousands.
        assert statistic < 60
    assert rows(cells, "FROM metric_perturb('many', 'cell', 'm')") != drawn


def test_names_of_the_users_tables_do_not_meet_ours(cells: duckdb.DuckDBPyConnection) -> None:
    for name in ("answered", "found", "records", "source", "mechanism", "rows", "side"):
        rows(cells, f"CREATE TABLE {name} AS FROM cells")
        call = f"metric_mechanism('{name}', 'cell', ['x', 'y'], epsilon := 1.0, radius := 1.5)"
        assert rows(cells, f"FROM {call}") == rows(cells, f"FROM {CALL}")


MECHANISM = {
    "['x', 'y']": "epsilon must be a number, as in epsilon := 1.5.",
    "['x', 'y'], epsilon := 0": "epsilon must be a number above 0: the smaller, the more alike neighbours look.",
    "['x', 'y'], epsilon := -1": "epsilon must be a number above 0: the smaller, the more alike neighbours look.",
    "['x', 'y'], epsilon := 'nan'::DOUBLE": "epsilon must be a number, as in epsilon := 1.5.",
    "['x', 'y'], epsilon := 'much'": "epsilon must be a number, as in epsilon := 1.5.",
    "['x', 'y'], epsilon := 1, radius := 0": "radius must be a number above 0: NULL compares all pairs.",
    "['x', 'y'], epsilon := 1, radius := 0.5": (
        "At this radius 9 records have no neighbour, which means no protection: widen the radius, or say isolated := "
        "'keep' to release them as they are or isolated := 'suppress' to withhold them."
    ),
    "['x', 'y'], epsilon := 1, isolated := 'hide'": "isolated must be 'error', 'keep' or 'suppress'.",
    "['x', 'y'], epsilon := 1, gap := 0": (
        "gap must be between 0 and 1, as in gap := 0.0001: the share of the loss left to save."
    ),
    "['x', 'y'], epsilon := 1, time_limit := 0": "time_limit must be a number of seconds above 0.",
    "['x', 'y'], epsilon := 1, metric := 'taxi'": (
        "There is no metric 'taxi': choose one of 'euclidean', 'manhattan', 'haversine', 'cosine'."
    ),
    "['x', 'y'], epsilon := 1, method := 'magic'": (
        "There is no method 'magic': choose one of 'auto', 'columns', 'lp', 'benders', 'exponential'."
    ),
    "['x', 'y'], epsilon := 1, method := 'benders', partition := 'x'": (
        "There is no partition 'x': choose one of 'k-m-dv', 'k-m-rec', 'k-m-adj', 'bsc'."
    ),
    "['x', 'y'], epsilon := 1, parts := 0": "parts must be 1 or more: into so many the records are divided.",
    "['x', 'z'], epsilon := 1": 'There is no column "z" in cells; its columns are cell, x, y, place, lat, lon, share, '
    "ones, gone, word, lost, ragged, far, missing.",
    "['word'], epsilon := 1": 'Column "word" holds no numbers and cannot be a feature: cast it to DOUBLE.',
    "['gone'], epsilon := 1": 'Column "gone" holds NaN or infinity: correct it, or leave those rows out.',
    "['missing'], epsilon := 1": 'Column "missing" holds NULL: fill it in, or leave those rows out.',
    "['lost'], epsilon := 1": 'Column "lost" holds NaN or infinity: correct it, or leave those rows out.',
    "['ragged'], epsilon := 1": (
        'Column "ragged" holds lists of different lengths: give every record as many numbers.'
    ),
    "[], epsilon := 1": "features is empty: name at least one column, as in features := ['age', 'zip'].",
    "['far', 'lon'], epsilon := 1, metric := 'haversine'": (
        "A latitude is beyond 90 degrees: haversine takes latitude first, then longitude, in degrees."
    ),
    "['x'], epsilon := 1, metric := 'haversine'": (
        "haversine needs two features: latitude first, then longitude, in degrees."
    ),
    "['x', 'y'], epsilon := 1, metric := 'cosine'": (
        "A record is zero in every feature and has no direction: cosine cannot place it."
    ),
    "['x', 'y'], epsilon := 1, prior := 'ones'": "The prior does not add up to 1: divide it by its sum.",
    "['x', 'y'], epsilon := 1, prior := 'word'": (
        'Column "word" is not a number and cannot be prior: cast it to DOUBLE.'
    ),
    "['x', 'y'], epsilon := 1, loss := 'people'": 'There is no column "secret" in people; its columns are who, cell.',
    "['x', 'y'], epsilon := 1, loss := 'part'": (
        "The table of losses lacks some pairs: give every output a loss for each record."
    ),
    "['x', 'y'], epsilon := 1, loss := 'strange'": (
        "The table of losses names a record that the first table does not have."
    ),
    "['x', 'y'], epsilon := 1, loss := 'part', destinations := 'cells'": (
        "loss and destinations are both given: a loss comes from one of them."
    ),
    "[], epsilon := 1, distances := 'lopsided'": (
        "The distances are not symmetric: give each pair one distance, once or both ways."
    ),
    "[], epsilon := 1, distances := 'below'": "A distance is negative: distances are 0 or more.",
}


@pytest.fixture
def pairs(cells: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    rows(cells, "CREATE TABLE part AS SELECT 'c1' AS secret, 'c2' AS output, 1 AS loss")
    rows(cells, "CREATE TABLE strange AS SELECT 'secret' AS secret, 'c2' AS output, 1 AS loss")
    rows(cells, "CREATE TABLE lopsided AS FROM (VALUES ('c1', 'c2', 1), ('c2', 'c1', 2)) t(secret, other, distance)")
    rows(cells, "CREATE TABLE below AS FROM (VALUES ('c1', 'c2', -1)) t(secret, other, distance)")
    rows(cells, "CREATE TABLE one AS SELECT 1 AS id, 2 AS x")
    rows(cells, "CREATE TABLE none AS FROM one WHERE id > 1")
    rows(cells, "CREATE TABLE twice AS FROM one UNION ALL FROM one")
    rows(cells, "CREATE TABLE nobody AS FROM one UNION ALL SELECT NULL, 3")
    return cells


def sentence(con: duckdb.DuckDBPyConnection, query: str) -> str:
    """The whole error text, less DuckDB's name for its kind; the connection must work on."""
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(con, query)
    assert rows(con, "SELECT count(*) FROM people") == [(90,)]
    text = str(raised.value)
    assert text.startswith(PREFIX)
    assert "secret'" not in text
    return text.removeprefix(PREFIX)


@pytest.mark.parametrize("told", MECHANISM)
def test_bad_input(pairs: duckdb.DuckDBPyConnection, told: str) -> None:
    assert sentence(pairs, f"FROM metric_mechanism('cells', 'cell', {told})") == MECHANISM[told]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("one", "There is only one record: it has nothing to look like. Give two records or more."),
        ("none", "The table has no rows: there is nothing to protect."),
        ("twice", 'Column "id" names a record twice: give one row for each.'),
        ("nobody", 'Column "id" is NULL in some row: name every record.'),
    ],
)
def test_bad_tables(pairs: duckdb.DuckDBPyConnection, table: str, said: str) -> None:
    assert sentence(pairs, f"FROM metric_mechanism('{table}', 'id', ['x'], epsilon := 1)") == said


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("'people', 'cell', 'cells'", 'There is no column "secret" in cells; its columns are cell, x, y, place, lat, '
         "lon, share, ones, gone, word, lost, ragged, far, missing."),
        ("'people', 'cell', 'half'", "The probabilities of a secret do not add up to 1: take the mechanism as "
         "metric_mechanism gives it."),
        ("'people', 'cell', 'few'", "80 records have a name that the mechanism does not have: make the mechanism from "
         "a table of all of them."),
        ("'people', 'home', 'few'", 'There is no column "home" in people; its columns are who, cell.'),
        ("'people', 'cell', 'words'", 'Column "probability" of words is not a number: cast it to DOUBLE.'),
        ("'people', 'cell', 3", "mechanism must be the name of a table that metric_mechanism filled, in quotes."),
        ("'drawn', 'cell', 'few'", 'The release would have two columns "perturbed": drop or rename the column of the '
         "table."),
    ],
)  # fmt: skip
def test_bad_perturbing(pairs: duckdb.DuckDBPyConnection, query: str, said: str) -> None:
    rows(pairs, "CREATE TABLE few AS SELECT 'c1' AS secret, 'c2' AS output, 1.0 AS probability")
    rows(pairs, "CREATE TABLE half AS SELECT secret, output, 0.5 AS probability FROM few")
    rows(pairs, "CREATE TABLE words AS SELECT secret, output, 'secret' AS probability FROM few")
    rows(pairs, "CREATE TABLE drawn AS SELECT *, 1 AS perturbed FROM people")
    assert sentence(pairs, f"FROM metric_perturb({query})") == said


def test_explain_runs_no_engine(cells: duckdb.DuckDBPyConnection) -> None:
    plan = str(rows(cells, f"EXPLAIN FROM {CALL}"))
    assert "0.3095" not in plan


def test_a_draw_from_a_protected_table_is_recorded_beside_the_budget(cells: duckdb.DuckDBPyConnection) -> None:
    rows(cells, f"CREATE TABLE m AS FROM {CALL}")
    rows(cells, "SELECT protect('people', unit := 'who', epsilon := 2.5)")
    said = "The table is protected, so a draw is recorded: say the mechanism's epsilon, as in epsilon := 1."
    assert sentence(cells, "FROM metric_perturb('people', 'cell', 'm')") == said
    call = "SELECT who, perturbed FROM metric_perturb('people', 'cell', 'm', epsilon := 1) ORDER BY who"
    first = rows(cells, call)
    assert rows(cells, call) == first
    rows(cells, "CREATE OR REPLACE TABLE m AS FROM m ORDER BY random()")
    assert rows(cells, call) == first
    draws = "SELECT action, epsilon_exact, remaining_exact FROM privacy_ledger() WHERE number > 1"
    assert rows(cells, draws) == [("perturb", "1", "2.5")]
    # Another mechanism is another draw.
    rows(cells, f"CREATE OR REPLACE TABLE m AS FROM {CALL.replace('radius := 1.5', 'radius := 1')}")
    assert rows(cells, call) != first
    assert rows(cells, draws) == 2 * [("perturb", "1", "2.5")]
    # No draw is refused for want of a budget, and none takes from it.
    rows(cells, f"CREATE OR REPLACE TABLE m AS FROM {CALL.replace('radius := 1.5', 'radius := 3')}")
    rows(cells, call.replace("epsilon := 1", "epsilon := 100"))
    assert rows(cells, "SELECT spent_exact, remaining_exact, charges FROM privacy_budget()") == [("0", "2.5", 0)]


def test_equal_rows_of_a_protected_table_are_drawn_each(cells: duckdb.DuckDBPyConnection) -> None:
    rows(cells, f"CREATE TABLE m AS FROM {CALL}")
    rows(cells, "CREATE TABLE same AS SELECT 'c4' AS cell FROM range(2000)")
    found = rows(
        cells, "SELECT perturbed, count(*) FROM metric_perturb('same', 'cell', 'm', epsilon := 1) GROUP BY ALL"
    )
    assert len(found) > 1


@pytest.mark.parametrize("where", ["setting", "column"])
def test_a_change_that_a_collation_does_not_see_is_another_draw(cells: duckdb.DuckDBPyConnection, where: str) -> None:
    rows(cells, f"CREATE TABLE m AS FROM {CALL}")
    kind = "VARCHAR" if where == "setting" else "VARCHAR COLLATE nocase"
    if where == "setting":
        rows(cells, "SET default_collation = 'nocase'")
    rows(cells, f"CREATE TABLE said (cell VARCHAR, word {kind}, id INTEGER)")
    rows(cells, "INSERT INTO said SELECT 'c4', 'a', i FROM range(50) r(i)")
    call = "FROM metric_perturb('said', 'cell', 'm', epsilon := 1) ORDER BY id"
    first = rows(cells, call)
    assert rows(cells, call) == first
    rows(cells, "UPDATE said SET word = 'A' WHERE id = 7")
    rows(cells, call)
    assert rows(cells, "SELECT count(*) FROM privacy_ledger() WHERE action = 'perturb'") == [(2,)]
