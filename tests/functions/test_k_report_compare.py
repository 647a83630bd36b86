"""k_report and k_compare in SQL."""

import math

import duckdb
import pytest

from duckanon.engines.kanon.methods import METHODS

REPORT = [
    "records",
    "classes",
    "k",
    "singletons",
    "avg_class",
    "max_risk",
    "avg_risk",
    "l",
    "entropy_l",
    "t",
    "recursive_c",
    "journalist_max",
    "journalist_avg",
    "population_uniques",
    "k_map",
    "units",
    "units_alone",
    "k_containment",
    "singletons_containment",
]
# Methods that solve programs have a small table of their own.
QUICK = [name for name in METHODS if name not in ("milp", "exact", "split_carry", "bubble_carry")]
COMPARE = [
    "method", "k", "classes", "min_class", "information_loss", "gcp", "discernibility", "lower_bound", "gap", "seconds",
    "avg_class", "classification", "l", "t", "entropy_l", "recursive_c", "joined", "suppressed",
]  # fmt: skip


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE people AS SELECT (hash(i) % 60)::INT AS age, 'c' || hash(i + 1) % 5 AS city, "
        "['flu', 'hiv', 'cold'][1 + (hash(i + 2) % 3)::INT] AS illness, (hash(i + 3) % 9)::INT AS pay, i AS id "
        "FROM range(400) r(i)"
    ).fetchall()
    return con


def one(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, object]:
    found = con.execute(query)
    names = [column[0] for column in found.description]
    (row,) = found.fetchall()
    return dict(zip(names, row, strict=True))


def test_report_against_sql(people: duckdb.DuckDBPyConnection) -> None:
    found = one(people, "FROM k_report('people', ['age', 'city'], sensitive := ['illness'])")
    assert list(found) == REPORT
    expected = one(
        people,
        "SELECT sum(n)::BIGINT AS records, count(*) AS classes, min(n) AS k, count(*) FILTER (n = 1) AS singletons, "
        "avg(n) AS avg_class, 1 / min(n) AS max_risk, count(*) / sum(n) AS avg_risk, min(d) AS l, "
        "min(2 ** e) AS entropy_l, max(CASE WHEN d = 1 THEN 'inf'::DOUBLE ELSE m / (n - m) END) AS recursive_c "
        "FROM (SELECT list_max(map_values(histogram(illness))) AS m, count(*) AS n, count(DISTINCT illness) AS d, "
        "entropy(illness) AS e FROM people GROUP BY age, city)",
    )
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name


def test_closeness_against_sql(people: duckdb.DuckDBPyConnection) -> None:
    """Equal distance for text, ordered distance for numbers, by their formulas in SQL."""
    people.execute("ALTER TABLE people ADD COLUMN g INT").fetchall()
    people.execute("UPDATE people SET g = age // 20").fetchall()
    equal = people.execute(
        "WITH g AS (SELECT DISTINCT g FROM people), v AS (SELECT DISTINCT illness AS s FROM people) "
        "SELECT max(d) FROM (SELECT g, sum(abs(p - q)) / 2 AS d FROM (SELECT g.g, s, "
        "(SELECT avg((illness = s)::INT) FROM people x WHERE x.g = g.g) AS p, "
        "(SELECT avg((illness = s)::INT) FROM people) AS q FROM g, v) GROUP BY g)"
    ).fetchall()
    assert one(people, "FROM k_report('people', ['g'], sensitive := ['illness'])")["t"] == pytest.approx(equal[0][0])
    ordered = people.execute(
        "WITH g AS (SELECT DISTINCT g FROM people), v AS (SELECT DISTINCT pay AS s FROM people) "
        "SELECT max(d) FROM (SELECT g, sum(abs(p - q)) / ((SELECT count(*) FROM v) - 1) AS d FROM (SELECT g.g, s, "
        "(SELECT avg((pay <= s)::INT) FROM people x WHERE x.g = g.g) AS p, "
        "(SELECT avg((pay <= s)::INT) FROM people) AS q FROM g, v) GROUP BY g)"
    ).fetchall()
    assert one(people, "FROM k_report('people', ['g'], sensitive := ['pay'])")["t"] == pytest.approx(ordered[0][0])


def test_report_without_a_sensitive_column(people: duckdb.DuckDBPyConnection) -> None:
    found = one(people, "FROM k_report('people', ['city'])")
    assert (found["l"], found["entropy_l"], found["t"]) == (None, None, None)


def test_journalists_risk_with_a_population(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(
        "CREATE TABLE everybody AS SELECT age, city FROM people, range(3) WHERE age > 10 OR range = 0"
    ).fetchall()
    found = one(people, "FROM k_report('people', ['age', 'city'], population := 'everybody')")
    expected = one(
        people,
        "SELECT max(1 / n) AS journalist_max, sum(f / n) / 400 AS journalist_avg FROM "
        "(SELECT age, city, count(*) AS f FROM people GROUP BY ALL) "
        "JOIN (SELECT age, city, count(*) AS n FROM everybody GROUP BY ALL) USING (age, city)",
    )
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["records"] == 400
    same = one(people, "FROM k_report('people', ['age', 'city'], population := 'people')")
    assert (same["journalist_max"], same["journalist_avg"]) == pytest.approx((same["max_risk"], same["avg_risk"]))


def test_journalists_risk_with_a_sampling_fraction(people: duckdb.DuckDBPyConnection) -> None:
    found = one(people, "FROM k_report('people', ['age'], fraction := 0.1)")
    sizes = [n for (n,) in people.execute("SELECT count(*) FROM people GROUP BY age").fetchall()]

    def risk(f: int) -> float:
        # The mean of 1 / F, where F people were drawn until f of them were in the sample.
        return sum(math.comb(h - 1, f - 1) * 0.1**f * 0.9 ** (h - f) / h for h in range(f, 2000))

    assert found["journalist_max"] == pytest.approx(max(map(risk, sizes)))
    assert found["journalist_avg"] == pytest.approx(sum(f * risk(f) for f in sizes) / 400)
    whole = one(people, "FROM k_report('people', ['age'], fraction := 1)")
    assert (whole["journalist_max"], whole["journalist_avg"]) == pytest.approx((whole["max_risk"], whole["avg_risk"]))


# The table of ten records of the World Bank's and IHSN's practice guide to statistical disclosure control (Benschop,
# Machingauta and Welch 2022, section "Individual risk"), with its sampling weights.
GUIDE = """
CREATE TABLE guide AS FROM (VALUES
  ('urban', 'female', 'secondary incomplete', 'employed', 180),
  ('urban', 'female', 'secondary incomplete', 'employed', 180),
  ('urban', 'female', 'primary incomplete', 'non-LF', 215), ('urban', 'male', 'secondary complete', 'employed', 76),
  ('rural', 'female', 'secondary complete', 'unemployed', 186), ('urban', 'male', 'secondary complete', 'employed', 76),
  ('urban', 'female', 'primary complete', 'non-LF', 180), ('urban', 'male', 'post-secondary', 'unemployed', 215),
  ('urban', 'female', 'secondary incomplete', 'non-LF', 186), ('urban', 'female', 'secondary incomplete', 'non-LF', 76)
) t(residence, gender, education, labour, weight)
"""


def test_journalists_risk_with_weights(con: duckdb.DuckDBPyConnection) -> None:
    """The guide's table 4.1: the highest risk is that of the seventh record, the global risk is the mean."""
    con.execute(GUIDE).fetchall()
    keys = "['residence', 'gender', 'education', 'labour']"
    found = one(con, f"FROM k_report('guide', {keys}, weight := 'weight')")
    assert found["journalist_max"] == pytest.approx(0.0290, abs=5e-5)
    assert found["journalist_avg"] == pytest.approx(0.01582, abs=5e-6)
    assert found["k_map"] is None


def test_equal_weights_are_a_fraction(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("ALTER TABLE people ADD COLUMN w DOUBLE DEFAULT 12.5").fetchall()
    weighed = one(people, "FROM k_report('people', ['age', 'city', 'pay'], sensitive := ['illness'], weight := 'w')")
    sampled = one(people, "FROM k_report('people', ['age', 'city', 'pay'], sensitive := ['illness'], fraction := 0.08)")
    assert weighed == pytest.approx(sampled)
    assert 0 < sampled["population_uniques"] < sampled["singletons"]  # type: ignore[operator]


def test_population_uniques_and_the_k_map_of_a_known_population(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(
        "CREATE TABLE everybody AS SELECT age, city FROM people, range(3) WHERE age > 10 OR range = 0"
    ).fetchall()
    found = one(people, "FROM k_report('people', ['age', 'city'], population := 'everybody')")
    ((alone,),) = people.execute(
        "SELECT count(*) FROM (SELECT age, city FROM everybody GROUP BY ALL HAVING count(*) = 1) SEMI JOIN "
        "(SELECT age, city FROM people GROUP BY ALL HAVING count(*) = 1) USING (age, city)"
    ).fetchall()
    assert found["population_uniques"] == alone > 0
    assert found["k_map"] == 1 / found["journalist_max"]  # type: ignore[operator]
    old = one(people, "FROM k_report('people', ['age'], population := 'everybody')")
    ((fewest,),) = people.execute("SELECT min(n) FROM (SELECT count(*) AS n FROM everybody GROUP BY age)").fetchall()
    assert old["k_map"] == fewest
    plain = one(people, "FROM k_report('people', ['age'])")
    assert (plain["population_uniques"], plain["k_map"]) == (None, None)


@pytest.mark.parametrize("weight", ["NULL", "0", "-1", "'nan'::DOUBLE", "'inf'::DOUBLE"])
def test_weights_that_are_none(people: duckdb.DuckDBPyConnection, weight: str) -> None:
    people.execute(f"CREATE TABLE bad AS SELECT *, CASE WHEN id = 7 THEN {weight} ELSE 3 END AS w FROM people")
    with pytest.raises(duckdb.InvalidInputException) as raised:
        people.execute("FROM k_report('bad', ['age'], weight := 'w')").fetchall()
    said = 'Column "w" has weights that are missing or not above 0: correct them.'
    assert str(raised.value).removeprefix("Invalid Input Error: ") == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("population := 'people', fraction := 0.1",
         "population and fraction both say how many people there are: give one of them."),
        ("fraction := 0",
         "fraction must be a number above 0 and at most 1: it is the share of the population that is in the table."),
        ("fraction := 2",
         "fraction must be a number above 0 and at most 1: it is the share of the population that is in the table."),
        ("population := 'few'",
         "The population has fewer records of some combination than the table: it must hold everybody who could be in "
         "the table."),
        ("population := 'others'", 'There is no column "age" in others; its columns are pay.'),
        ("weight := 'pay', population := 'people'",
         "population and weight both say how many people there are: give one of them."),
        ("weight := 'age'", 'Column "age" is in both qi and weight: name it in one of them.'),
        ("weight := 'city'", 'Column "city" is not a number and cannot be a weight: cast it to a number.'),
        ("weight := 'half'",
         "The weights of some combination add up to fewer people than it has records: a weight is the number of people "
         "for whom a record stands."),
    ],
)  # fmt: skip
def test_populations_that_cannot_be(people: duckdb.DuckDBPyConnection, arguments: str, said: str) -> None:
    people.execute("CREATE TABLE few AS FROM people WHERE id > 0").fetchall()
    people.execute("ALTER TABLE people ADD COLUMN half DOUBLE DEFAULT 0.5").fetchall()
    people.execute("CREATE TABLE others AS SELECT pay FROM people").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        people.execute(f"FROM k_report('people', ['age'], {arguments})").fetchall()
    assert str(raised.value).removeprefix("Invalid Input Error: ") == said


def test_null_is_a_class_and_a_sensitive_value(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS FROM (VALUES (NULL, 1), (NULL, NULL), (2, 1), (2, 1)) t(q, s)").fetchall()
    found = one(con, "FROM k_report('t', ['q'], sensitive := ['s'], null_sensitive := 'value')")
    assert (found["classes"], found["k"], found["l"]) == (2, 2, 1)
    # The class of NULL is half and half, the table is three quarters to one: a quarter apart.
    assert found["t"] == pytest.approx(0.25)
    assert found["entropy_l"] == 1.0


def test_a_class_of_one_value_and_of_null_has_one_value(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS FROM (VALUES (1, 'hiv'), (1, NULL), (2, 'hiv'), (2, 'flu')) t(q, s)").fetchall()
    measures = "SELECT l, entropy_l, t, recursive_c FROM k_report('t', ['q'], sensitive := ['s']"
    (found,) = con.execute(f"{measures})").fetchall()
    assert found == (1, 1.0, pytest.approx(1 / 3), float("inf"))
    (with_null,) = con.execute(f"{measures}, null_sensitive := 'value')").fetchall()
    assert with_null == (2, 2.0, pytest.approx(0.25), 1.0)
    # A class without any value has none, and differs from nothing.
    con.execute("INSERT INTO t VALUES (3, NULL), (3, NULL)").fetchall()
    assert con.execute(f"{measures})").fetchall() == [(0, 0.0, pytest.approx(1 / 3), float("inf"))]


def test_containment(con: duckdb.DuckDBPyConnection) -> None:
    """As a join of the table with itself has it; neither the population nor a collation changes it."""
    con.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i % 5 > 0 THEN (hash(i) % 3)::INT END AS x, CASE WHEN i % 7 > 0 THEN "
        "['a', 'A', 'b'][1 + (hash(i + 5) % 3)::INT] END AS y, CASE WHEN i % 6 > 0 THEN [hash(i + 9) % 2] END AS z "
        "FROM range(1, 30) r(i); CREATE TABLE collated (x INT, y VARCHAR COLLATE NOCASE, z UBIGINT[]);"
        "INSERT INTO collated FROM t"
    ).fetchall()
    same = " AND ".join(f"(a.{one} = b.{one} OR a.{one} IS NULL OR b.{one} IS NULL)" for one in "xyz")
    (wanted,) = con.execute(
        "SELECT min(n), count(*) FILTER (n = 1) FROM (SELECT count(*) AS n FROM (SELECT *, rowid AS id FROM t) AS a "
        f"JOIN t AS b ON {same} GROUP BY a.id)"
    ).fetchall()
    assert wanted[1] > 0
    for table, more in (("collated", ""), ("t", ", population := 't'")):
        call = f"FROM k_report('{table}', ['x', 'y', 'z'], containment := true{more})"
        assert con.execute(f"SELECT k_containment, singletons_containment {call}").fetchall() == [wanted]
    assert one(con, "FROM k_report('t', ['x', 'y', 'z'])")["k_containment"] is None


def test_columns_named_like_ours(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 3 AS size, 'p' || i % 2 AS people, i AS members FROM range(10) r(i)")
    for more in ("", ", population := 't'", ", sensitive := ['members']"):
        found = one(con, f"FROM k_report('t', ['size', 'people']{more})")
        assert (found["records"], found["classes"], found["k"]) == (10, 6, 1)


def test_report_of_a_release(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(
        "CREATE TABLE released AS FROM k_anonymize('people', ['age', 'city'], k := 6, categorical := ['city'])"
    ).fetchall()
    found = one(people, "FROM k_report('released', ['age_lo', 'age_hi', 'city_set'], sensitive := ['illness', 'pay'])")
    assert found["k"] >= 6  # type: ignore[operator]
    assert found["singletons"] == 0
    assert found["max_risk"] == pytest.approx(1 / found["k"])  # type: ignore[operator]
    assert found["classes"] == people.execute("SELECT max(class_id) FROM released").fetchall()[0][0]


def test_compare(people: duckdb.DuckDBPyConnection) -> None:
    found = people.execute(
        "FROM k_compare('people', ['age', 'city'], k := [2, 7], methods := ?, categorical := ['city'])", [QUICK]
    )
    assert [column[0] for column in found.description] == COMPARE
    rows = [dict(zip(COMPARE, row, strict=True)) for row in found.fetchall()]
    assert [(row["k"], row["method"]) for row in rows] == [(k, name) for k in (2, 7) for name in QUICK]
    for row in rows:
        assert row["min_class"] >= row["k"]
        assert 0 < row["lower_bound"] <= row["information_loss"] <= 1
        assert row["gap"] == pytest.approx(1 - row["lower_bound"] / row["information_loss"])
        assert row["seconds"] > 0
    for k in (2, 7):
        losses = {row["method"]: row["information_loss"] for row in rows if row["k"] == k}
        assert losses["auto"] <= min(losses[name] for name in ("initial", "order", "bestcut", "greedy"))


def test_compare_measures_what_k_anonymize_releases(people: duckdb.DuckDBPyConnection) -> None:
    (row,) = people.execute(
        "SELECT information_loss, classes, min_class, discernibility FROM k_compare('people', ['age', 'pay'], k := 4)"
    ).fetchall()
    (again,) = people.execute(
        "SELECT avg((age_hi - age_lo) / 59 + (pay_hi - pay_lo) / 8) / 2, max(class_id), "
        "(SELECT min(n) FROM (SELECT count(*) AS n FROM released GROUP BY class_id)), "
        "(SELECT sum(n * n) FROM (SELECT count(*) AS n FROM released GROUP BY class_id)) FROM released"
        if people.execute("CREATE TABLE released AS FROM k_anonymize('people', ['age', 'pay'], k := 4)").fetchall()
        else ""
    ).fetchall()
    assert row == pytest.approx(again)


def test_compare_measures_what_a_classifier_would_miss(people: duckdb.DuckDBPyConnection) -> None:
    (row,) = people.execute(
        "SELECT classification, avg_class FROM k_compare('people', ['age', 'pay'], k := 4, target := 'illness')"
    ).fetchall()
    people.execute("CREATE TABLE released AS FROM k_anonymize('people', ['age', 'pay'], k := 4)").fetchall()
    (again,) = people.execute(
        "SELECT 1 - sum(most) / 400, 400 / count(*) FROM (SELECT max(n) AS most FROM (SELECT class_id, count(*) AS n "
        "FROM released GROUP BY class_id, illness) GROUP BY class_id)"
    ).fetchall()
    # Which of several equal records goes where follows their content, of which k_compare sees the columns named.
    assert row[1] == pytest.approx(again[1])
    assert row[0] == pytest.approx(again[0], abs=0.05)
    (none,) = people.execute("SELECT classification FROM k_compare('people', ['age'], methods := 'order')").fetchall()
    assert none == (None,)


def test_what_exact_proves_is_the_bound_of_all(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE few AS FROM people WHERE id < 16").fetchall()
    rows = people.execute(
        "SELECT method, lower_bound, gap, information_loss FROM k_compare('few', ['age', 'pay'], k := 3, "
        "methods := ['exact', 'initial', 'split_carry'])"
    ).fetchall()
    assert rows[0][2] == pytest.approx(0, abs=1e-6)
    for _, bound, gap, loss in rows:
        assert bound == pytest.approx(rows[0][3])
        assert gap == pytest.approx(1 - bound / loss, abs=1e-6)


def test_compare_takes_single_values(people: duckdb.DuckDBPyConnection) -> None:
    rows = people.execute("SELECT k, method FROM k_compare('people', ['age'], k := 3, methods := 'order')").fetchall()
    assert rows == [(3, "order")]


def test_a_table_that_loses_nothing_has_no_gap(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 2 AS q FROM range(20) r(i)").fetchall()
    (row,) = con.execute("SELECT information_loss, lower_bound, gap FROM k_compare('t', ['q'])").fetchall()
    assert row == (0.0, 0.0, 0.0)
    assert math.isfinite(row[2])
