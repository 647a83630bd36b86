"""Coarser releases of bands, and of labels of hierarchies."""

from collections import defaultdict

import duckdb
import pytest

from tests.shared_connection import Begun

PLACES = {f"c{i}": ("north" if i < 3 else "south" if i < 6 else "isle", "land" if i < 6 else "isle") for i in range(7)}
QI = "['age', 'city', 'born', 'pay']"
AGES = "'age': {'width': 5, 'bottom': 20, 'top': 50}"


def called(ages: str = AGES, tree: str = "'places'") -> str:
    bands = f"bands := {{{ages}, 'born': '3 months'}}"
    return f"k_anonymize('people', {QI}, hierarchies := {{'city': {tree}}}, {bands}"


CALL = called()


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE people AS SELECT CASE WHEN i % 40 > 0 THEN (hash(i) % 60)::INT END AS age, "
        "CASE WHEN i % 31 > 0 THEN 'c' || hash(i + 1) % 7 END AS city, DATE '1990-01-01' + (hash(i + 5) % 900)::INT "
        "AS born, (hash(i + 9) % 30)::INT AS pay, i AS id FROM range(400) r(i)"
    ).fetchall()
    con.execute("CREATE TABLE places (leaf VARCHAR, above VARCHAR, top VARCHAR)").fetchall()
    con.executemany("INSERT INTO places VALUES (?, ?, ?)", [(leaf, *above) for leaf, above in PLACES.items()])
    con.execute(f"CREATE TABLE finer AS FROM {CALL}, k := 3)").fetchall()


@pytest.fixture
def people(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def above(labels: set[str | None]) -> str | None:
    """The lowest label that stands above all of these, by the tree itself."""
    chains = []
    for one in labels:
        if one is None:
            return None
        leaf = next(leaf for leaf, upwards in PLACES.items() if one == "*" or one in (leaf, *upwards))
        chain = [leaf, *PLACES[leaf], "*"]
        chains.append(chain[chain.index(one) :])
    return next(one for one in chains[0] if all(one in chain for chain in chains))


def test_classes_of_bands_and_labels_are_joined(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(f"CREATE TABLE coarse AS FROM {CALL}, k := 10, within := 'finer')").fetchall()
    rows = people.execute(
        "SELECT c.class_id, {'was': f.city_label, 'is': c.city_label, 'age': [f.age_lo, f.age_hi, c.age_lo, c.age_hi, "
        "f.age_lo IS NULL AND f.age_hi IS NULL], 'born': [f.born_lo, f.born_hi, c.born_lo, c.born_hi]} "
        "FROM finer f JOIN coarse c USING (id)"
    ).fetchall()
    assert len(rows) == 400
    classes = defaultdict(list)
    for number, cells in rows:
        classes[number].append(cells)
    assert min(map(len, classes.values())) >= 10
    assert len(classes) > 5
    for cells in classes.values():
        assert {cell["is"] for cell in cells} == {above({cell["was"] for cell in cells})}
        ages = [cell["age"] for cell in cells]
        nothing = any(age[4] for age in ages)
        low = None if nothing or any(age[0] is None for age in ages) else min(age[0] for age in ages)
        high = None if nothing or any(age[1] is None for age in ages) else max(age[1] for age in ages)
        assert {(age[2], age[3]) for age in ages} == {(low, high)}
        born = [cell["born"] for cell in cells]
        assert {tuple(one[2:]) for one in born} == {(min(one[0] for one in born), max(one[1] for one in born))}
    assert len({cell["is"] for _, cell in rows}) > 3
    assert len({tuple(cell["age"][2:4]) for _, cell in rows}) > 3


def test_what_is_one_class_already_stays(people: duckdb.DuckDBPyConnection) -> None:
    again = people.execute(f"FROM {CALL}, k := 3, within := 'finer')").fetchall()
    assert again == people.execute("FROM finer").fetchall()


def test_labels_of_a_whole_column(people: duckdb.DuckDBPyConnection) -> None:
    """Nothing of the table is added: an open band stays open, a label is replaced by none below it."""
    people.execute("UPDATE people SET city = 'c6' WHERE city IS NULL").fetchall()
    people.execute(
        "CREATE TABLE wide AS SELECT '[20, 25)' AS age_label, 'isle' AS city_label, id FROM people WHERE id < 0"
    ).fetchall()
    people.execute(
        "INSERT INTO wide SELECT CASE WHEN age IS NULL THEN NULL WHEN id % 3 = 0 THEN '*' WHEN age < 20 THEN '[, 20)' "
        "WHEN age >= 50 THEN '[50, )' ELSE concat('[', age // 5 * 5, ', ', age // 5 * 5 + 5, ')') END, "
        "above, id FROM people JOIN places ON city = leaf"
    ).fetchall()
    people.execute("ALTER TABLE people DROP born").fetchall()
    call = "FROM k_anonymize('people', ['age', 'city'], hierarchies := {'city': 'places'}, bands := "
    call += f"{{{AGES}}}, drop := ['pay'], within := 'wide', max_suppression := 0.1, k := "
    found = people.execute(f"{call} 2)").fetchall()
    assert len(found) > 360
    # 'isle' has one leaf, which was not released.
    assert {row[3] for row in found} == {"isle", "north", "south"}
    people.execute(f"CREATE TABLE joined AS {call} 12)").fetchall()
    pairs = people.execute(
        "SELECT DISTINCT w.age_label, j.age_lo, j.age_hi FROM wide w JOIN joined j USING (id)"
    ).fetchall()
    assert all((low, high) == (None, None) for label, low, high in pairs if label in ("*", None))
    assert all(low is None for label, low, _ in pairs if label == "[, 20)")
    assert all(high is None for label, _, high in pairs if label == "[50, )")
    assert any(label == "[20, 25)" and low == 20 and high in range(25, 51, 5) for label, low, high in pairs)


def test_only_the_labels_are_looked_at(people: duckdb.DuckDBPyConnection) -> None:
    first = people.execute(f"FROM {CALL}, k := 12, within := 'finer')").fetchall()
    people.execute(
        "CREATE OR REPLACE TABLE people AS SELECT p.* REPLACE (coalesce(lead(p.city) OVER (PARTITION BY f.class_id "
        "ORDER BY p.id), first_value(p.city) OVER (PARTITION BY f.class_id ORDER BY p.id)) AS city) "
        "FROM people p JOIN finer f USING (id) WHERE f.city_label IS NOT NULL UNION ALL "
        "SELECT p.* FROM people p JOIN finer f USING (id) WHERE f.city_label IS NULL"
    ).fetchall()
    assert people.execute(f"FROM {CALL}, k := 12, within := 'finer')").fetchall() == first


REFUSED = {
    f"{called(ages=AGES.replace('5,', '10,'))}, within := 'finer')": "has not these bands",
    f"{CALL}, within := 'other')": "holds a label that the hierarchy",
    called(tree="['left(city, 1)']") + ", within := 'finer')": "as a table",
    called(tree="'few'") + ", within := 'finer')": "value that its hierarchy lacks|holds a label",
    f"{CALL}, within := 'twice')": "has the bands of .* and labels of them",
    f"{CALL}, within := 'numbers')": "has not the type",
    f"{CALL}, within := 'words')": "has not the type",
    f"{CALL}, suppress_cells := true, within := 'finer')": "leave categorical, bands",
    f"{CALL}, within := 'elsewhere')": "is no release of this table",
}


@pytest.mark.parametrize("call", REFUSED)
def test_mistakes(people: duckdb.DuckDBPyConnection, call: str) -> None:
    people.execute(
        "CREATE TABLE other AS SELECT * REPLACE ('west' AS city_label) FROM finer; "
        "CREATE TABLE few AS FROM places WHERE leaf <> 'c1'; "
        "CREATE TABLE twice AS SELECT *, '[20, 25)' AS age_label FROM finer; "
        "CREATE TABLE numbers AS SELECT * REPLACE (7 AS city_label) FROM finer; "
        "CREATE TABLE words AS SELECT * REPLACE (age_lo::VARCHAR AS age_lo) FROM finer; "
        "CREATE TABLE elsewhere AS SELECT * REPLACE ('isle' AS city_label) FROM finer"
    ).fetchall()
    with pytest.raises(duckdb.InvalidInputException, match=REFUSED[call]):
        people.execute(f"FROM {call}").fetchall()
