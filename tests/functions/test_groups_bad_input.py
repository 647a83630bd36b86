"""Every mistake in a call about groups gets one sentence, before anything is charged. The connection works on."""

import duckdb
import pytest

import duckanon
from tests.functions.test_bad_input import sentence

EPSILON = "epsilon must be a number above 0 and at most 1,000,000, as in epsilon := 0.1."
UNIT = "unit must be the name of the column that identifies a group, as in unit := 'household_id'."
NOWHERE = (
    'There is no column "nope" in people; its columns are unit, state, county, cars, age, hole, since, id, twice, '
    "level."
)
HIERARCHY = "hierarchy must be a list of column names, as in hierarchy := ['age', 'zip']."
SPLIT = "split must give a number above zero for each of the 2 levels, the root first, as in split := [1, 1]."
HOLES = (
    'There is NULL in "hole": every branch of the hierarchy must reach its last level. '
    "Replace NULL, or leave those rows out."
)
ROLES = {
    "NULL": UNIT,
    "3": UNIT,
    "''": UNIT,
    "'nope'": NOWHERE,
    "'hole'": 'Column "hole" holds NULL: give every person a group, or leave those rows out.',
    "'unit', 'state'": HIERARCHY,
    "'unit', [1]": HIERARCHY,
    "'unit', ['nope']": NOWHERE,
    "'unit', ['state', 'county', 'State']": 'Column "State" is named twice in hierarchy: name it once.',
    "'unit', ['UNIT']": 'Column "UNIT" is both unit and in hierarchy: name it in one of them.',
    "'unit', ['level']": 'The result would have two columns "level": rename the column of the table.',
    "'unit', ['hole']": HOLES,
    "'unit', ['state', 'twice']": (
        'Column "twice" has a value in more than one value of "state": '
        "correct them, or make the names of regions unique."
    ),
    "'unit', ['id']": (
        'Column "unit" has a value in more than one region of "id": a group lies in one region. Correct the regions; '
        'or count the group in each of them, by a view with "unit" || \' \' || "id" as the unit; or in the first one '
        'only, by a view with QUALIFY "id" = min("id") OVER (PARTITION BY "unit").'
    ),
    "'unit', quantity := 3": "quantity must be the name of a column, in quotes.",
    "'unit', quantity := 'Unit'": 'Column "Unit" is quantity and something else too: name it once.',
}
EXACT = {
    "'unit', quantity := 'nope'": NOWHERE,
    "'unit', quantity := 'state'": 'Column "state" is no whole number and cannot be quantity: cast it to INTEGER.',
    "'unit', quantity := 'age'": 'Column "age" is no whole number and cannot be quantity: cast it to INTEGER.',
    "'unit', quantity := 'hole'": (
        'Column "hole" holds NULL, or a number beyond 64 bits: replace it, or leave those rows out.'
    ),
    "'unit', quantity := 'since'": 'Column "since" holds a negative number: a quantity is zero or more.',
    "'unit', quantity := 'cars'": 'Column "cars" adds up to a number beyond 64 bits: scale it down.',
}
REGIONS = ", ['state'], epsilon := 1, max_size := 3, regions := "
PRIVATE = {
    **{f"'unit', max_size := 3, epsilon := {one}": EPSILON for one in ("0", "-1", "'nan'", "'nan'::DOUBLE", "'1e999'")},
    **{f"'unit', max_size := 3, epsilon := {one}": EPSILON for one in ("1e999", "'much'", "NULL", "1000001", "[1]")},
    "'unit', max_size := 3": EPSILON,
    "'unit', epsilon := 1, max_size := 3, intervals := 'wide'": "intervals must be 'guaranteed' or 'model'.",
    "'unit', epsilon := 1, max_size := 3, mechanism := 'c_dp', intervals := 'model'": (
        "c_dp has no model: its intervals are 'guaranteed'."
    ),
    "'unit', max_size := 3, epsilon := '1e-13'": "epsilon has more than 12 digits after the point: round it.",
    **{
        f"'unit', epsilon := 1, max_size := {one}": (
            "max_size must be 1 or more: larger groups are counted as groups of that size."
        )
        for one in ("0", "-5")
    },
    **{
        f"'unit', epsilon := 1, max_size := {one}": "max_size must be a whole number, as in max_size := 5."
        for one in ("NULL", "2.5", "'3'", "true")
    },
    "'unit', epsilon := 1": "max_size must be a whole number, as in max_size := 5.",
    "'unit', epsilon := 1, max_size := 30000000": (
        "That is more than 20,000,000 cells of regions and sizes: choose a smaller max_size."
    ),
    "'unit', epsilon := 1, max_size := 3, mechanism := 3": "mechanism must be a name in quotes.",
    "'unit', epsilon := 1, max_size := 3, totals := 'both'": "totals must be 'public' or 'private'.",
    "'unit', epsilon := 1, max_size := 3, bound := 2": (
        "bound is given without a quantity: it says how much one person may add to a quantity."
    ),
    "'unit', epsilon := 1, max_size := 3, quantity := 'cars'": (
        "quantity needs a bound: the most that one person may add to it, as in bound := 1."
    ),
    "'unit', epsilon := 1, max_size := 3, quantity := 'cars', bound := 0": (
        "bound must be from 1 to 1,000,000,000: the most that one person may add to a quantity."
    ),
    "'unit', epsilon := 1, max_size := 3, quantity := 'cars', bound := 1": (
        'Column "cars" holds a number above bound := 1: raise the bound, or clip it.'
    ),
    "'unit', epsilon := 1, max_size := 3, person := 'state'": (
        'Column "state" holds NULL, or a person in more than one row: a person is in one group.'
    ),
    "'unit', epsilon := 1, max_size := 3, person := 'hole'": (
        'Column "hole" holds NULL, or a person in more than one row: a person is in one group.'
    ),
    "'unit', epsilon := 1, max_size := 3, regions := 'regions'": (
        "regions is given without a hierarchy: name its columns, as in hierarchy := ['state']."
    ),
    f"'unit'{REGIONS}3": "regions must be the name of a table or view, in quotes.",
    f"'unit'{REGIONS}'few'": (
        'Persons are in a region by "state" that few does not list: list it, or leave those rows out.'
    ),
    f"'unit'{REGIONS}'none'": "none has no rows: list the regions in it.",
    f"'unit'{REGIONS}'unnamed'": 'Column "state" of unnamed holds NULL: every region needs a name.',
    f"'unit'{REGIONS}'numbers'": 'Column "state" has one type in people and another in numbers: cast one of them.',
    f"'unit'{REGIONS}'people_too'": 'There is no column "state" in people_too; its columns are i.',
    **{
        f"'unit', ['state'], epsilon := 1, max_size := 3, split := {one}": SPLIT
        for one in ("[1]", "[1, 0]", "[1, NULL]", "[1, -1]", "[1, 2, 3]", "1", "['a', 'b']", "{'a': 1}")
    },
}


@pytest.fixture(scope="module")
def module_con() -> duckdb.DuckDBPyConnection:
    con = duckanon.register(duckdb.connect())
    for statement in (
        "CREATE TABLE people AS SELECT i // 3 AS unit, 'secret ' || (i // 6) AS state, 'secret' || (i // 3) AS county, "
        "9000000000000000000 AS cars, 1.5 AS age, CASE WHEN i <> 4 THEN i END AS hole, "
        "-1 AS since, i AS id, 'secret' || (i % 2) AS twice, 1 AS level FROM range(9) r(i)",
        "CREATE TABLE few AS SELECT 'secret 0' AS state",
        "CREATE TABLE none AS SELECT 'secret 0' AS state WHERE false",
        "CREATE TABLE unnamed AS SELECT DISTINCT state FROM people UNION ALL SELECT NULL",
        "CREATE TABLE numbers AS SELECT 1 AS state",
        "CREATE TABLE people_too AS SELECT 1 AS i",
        "UPDATE people SET twice = 'secret0' WHERE unit <> 1",
        "UPDATE people SET twice = 'secret0' WHERE unit = 1",
    ):
        con.execute(statement).fetchall()
    return con


@pytest.mark.parametrize("arguments", [*ROLES, *EXACT])
def test_group_sizes(module_con: duckdb.DuckDBPyConnection, arguments: str) -> None:
    assert sentence(module_con, f"FROM group_sizes('people', {arguments})") == {**ROLES, **EXACT}[arguments]


@pytest.mark.parametrize("arguments", [*ROLES, *PRIVATE])
def test_dp_group_sizes(module_con: duckdb.DuckDBPyConnection, arguments: str) -> None:
    rest = "" if arguments in PRIVATE else ", epsilon := 1, max_size := 3"
    if "quantity" in arguments and arguments in ROLES:
        rest += ", bound := 1"
    said = sentence(module_con, f"FROM dp_group_sizes('people', {arguments}{rest})")
    assert said == {**ROLES, **PRIVATE}[arguments]
    assert module_con.execute("FROM privacy_ledger()").fetchall() == []


def test_a_mechanism_that_is_none(module_con: duckdb.DuckDBPyConnection) -> None:
    said = sentence(
        module_con, "FROM dp_group_sizes('people', 'unit', epsilon := 1, max_size := 3, mechanism := 'magic')"
    )
    assert said.startswith("There is no mechanism 'magic': choose one of 'auto', ")
    assert module_con.execute("FROM privacy_ledger()").fetchall() == []


def test_no_rows_no_regions(module_con: duckdb.DuckDBPyConnection) -> None:
    module_con.execute("CREATE OR REPLACE TABLE nobody AS FROM people WHERE false").fetchall()
    said = sentence(module_con, "FROM dp_group_sizes('nobody', 'unit', ['state'], epsilon := 1, max_size := 3)")
    assert said == "The table has no rows, so it has no regions: name them by regions := 'a_table'."


PROTECT = {
    "'people'": (
        "The population main.people has no budget yet: say how much may be spent on it in all, as in epsilon := 1."
    ),
    "'people', epsilon := 0": EPSILON,
    "'people', unit := 3, epsilon := 1": UNIT,
    "'people', unit := 'nope', epsilon := 1": NOWHERE,
    "NULL, epsilon := 1": "The first argument must be the name of a table or view, in quotes.",
    "'passing', epsilon := 1": (
        "passing is no table that lasts, so it cannot be protected: make it a table of a database."
    ),
}


@pytest.mark.parametrize("arguments", PROTECT)
def test_protect(module_con: duckdb.DuckDBPyConnection, arguments: str) -> None:
    module_con.execute("CREATE OR REPLACE TEMP TABLE passing AS FROM people").fetchall()
    assert sentence(module_con, f"SELECT protect({arguments})") == PROTECT[arguments]
    assert module_con.execute("FROM privacy_ledger()").fetchall() == []


def test_a_missing_table(module_con: duckdb.DuckDBPyConnection) -> None:
    for call in (
        "SELECT protect('peopel', epsilon := 1)",
        "FROM dp_group_sizes('peopel', 'a', epsilon := 1, max_size := 1)",
    ):
        with pytest.raises(duckdb.CatalogException, match=r"^Catalog Error: Table with name peopel does not exist!"):
            module_con.execute(call)
