"""Attacks on what publications tell together, and together with paid answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import duckdb
import pytest

import duckanon
from tests.amounts import sampled
from tests.guard.residents import POLICY, analyst, decide, make, refused, run, seen, spent

DROP = "['person', 'household', 'county', 'state', 'insured', 'income', 'name']"
CHANGED = "the records of main.persons have changed"
TOGETHER = "it is not proven safe"
SMALL = "hold 1 to 4 values of person"
SECOND_COPY = "a k-anonymous table of main.persons is published already"
BESIDE_COPY = "a k-anonymous table is published"
AGAIN = ("SELECT unprotect('persons')", POLICY.format(epsilon="100", more=""))


def shares(name: str, variable: str, given: str, where: str = "true") -> tuple[str, str]:
    """What makes a table of shares, and what publishes it."""
    return (
        f"CREATE TABLE {name} AS WITH c AS (SELECT {given}, {variable}, count(*) AS n FROM persons WHERE {where} "
        f"GROUP BY ALL) SELECT {given}, {variable}, n / sum(n) OVER (PARTITION BY {given}) AS share FROM c",
        f"SELECT publish('{name}', variables := ['{variable}'], given := ['{given}'], of := 'persons', "
        "value := 'share')",
    )


def counts(name: str, *by: str, of: str = "persons", where: str = "true") -> tuple[str, str]:
    return (
        f"CREATE TABLE {name} AS SELECT {', '.join(by)}, count(*) AS n FROM {of} WHERE {where} GROUP BY ALL",
        f"SELECT publish('{name}', of := '{of}', variables := {list(by)}, value := 'n')",
    )


def copy(name: str, k: int = 5) -> tuple[str, str]:
    return (
        f"CREATE TABLE {name} AS FROM k_anonymize('persons', ['age', 'sex'], categorical := ['sex'], k := {k}, "
        f"drop := {DROP})",
        f"SELECT publish('{name}', of := 'persons')",
    )


DX = shares("dx_shares", "dx", "county")
N = counts("dx_counts", "state", "dx")
COPY = copy("ka")
GONE = "SELECT unpublish('dx_counts')"
ANOTHER = "another table with the same population"
FEWER = "DELETE FROM persons WHERE person = 8"
# How many persons have each county, diagnosis and insurance. No table of two of them has a small number, and any two
# tables are safe together. All three, with the counties of each state, tell that 1 to 4 insured persons of a1 have hiv.
TABLE = {
    "a1": {"flu": (9, 9), "hiv": (6, 2), "none": (5, 2)},
    "b1": {"flu": (0, 9), "hiv": (0, 6), "none": (0, 5)},
    "b2": {"flu": (0, 9), "hiv": (1, 4), "none": (9, 2)},
}
PLACES = [
    f"('{county}', upper('{county[0]}'), '{dx}', {insured == 1})"
    for county, rows in TABLE.items()
    for dx, both in rows.items()
    for insured, count in enumerate(both)
    for _ in range(count)
]
CYCLE = (
    f"CREATE TEMP TABLE places AS SELECT *, row_number() OVER () - 1 AS person FROM (VALUES {', '.join(PLACES)}) "
    "v(county, state, dx, insured)",
    "CREATE OR REPLACE TABLE persons AS SELECT a.* REPLACE (b.county AS county, b.state AS state, b.dx AS dx, "
    "b.insured AS insured) FROM persons AS a JOIN places AS b USING (person)",
    "DROP TABLE places",
)
DI = counts("dx_insured", "dx", "insured")
# name: (what came before, the call that must be refused, why). Those refused for what is told TOGETHER are of CYCLE.
REFUSED: dict[str, tuple[tuple[str, ...], tuple[str, str], str]] = {
    "shares whose columns determine each other": ((*DX, *DI), shares("r", "insured", "state"), TOGETHER),
    "shares by the other column of the two": ((*DX, *DI), shares("r", "insured", "county"), TOGETHER),
    "a share of few": ((), shares("r", "age", "state"), SMALL),
    "a count of few": ((), counts("r", "state", "insured", "sex"), SMALL),
    "a count of few by a finer column": ((), counts("r", "county", "insured", "sex"), SMALL),
    "counts that cross small": ((), counts("r", "dx", "sex", "age"), SMALL),
    "counts after shares": ((*DX, *DI), counts("r", "state", "insured"), TOGETHER),
    "shares after counts": ((*counts("c", "county", "dx"), *DI), shares("r", "insured", "state"), TOGETHER),
    "counts that close a cycle": ((*DI, *counts("c", "state", "insured")), counts("r", "county", "dx"), TOGETHER),
    "rounded counts that close it": (
        (*DX, *DI),
        (
            counts("r", "state", "insured")[0].replace("count(*) AS n", "5 * round(count(*) / 5)::BIGINT AS n"),
            counts("r", "state", "insured")[1].replace("value :=", "base := 5, value :="),
        ),
        TOGETHER,
    ),
    "withdrawn shares": ((*DX, *DI, "SELECT unpublish('dx_shares')"), shares("r", "insured", "state"), TOGETHER),
    "all withdrawn": (
        (*DX, *DI, "SELECT unpublish('dx_shares')", "SELECT unpublish('dx_insured')"),
        shares("r", "insured", "state"),
        TOGETHER,
    ),
    "shares over two editions": (
        (*DX, *DI, "SELECT new_edition('persons')"),
        shares("r", "insured", "state"),
        TOGETHER,
    ),
    "shares over two policies": ((*DX, *DI, *AGAIN), shares("r", "insured", "state"), TOGETHER),
    "shares of those without one": (
        (),
        shares("r", "dx", "county", "person <> 8"),
        "do not hold what main.persons has",
    ),
    "counts of those without one": ((), counts("r", "state", "dx", where="person <> 8"), "do not hold"),
    "counts before and without one": (N, counts("r", "state", "dx", where="person <> 8"), "do not hold"),
    "counts before one left": ((*N, FEWER), counts("r", "state", "dx"), CHANGED),
    "shares before one left": ((*DX, FEWER), shares("r", "dx", "county"), CHANGED),
    "other counts after one left": ((*N, FEWER), counts("r", "sex"), CHANGED),
    "a copy before one left": ((*COPY, FEWER), copy("r"), CHANGED),
    "counts withdrawn before one left": (
        (*N, "SELECT unpublish('dx_counts')", FEWER),
        counts("r", "state", "dx"),
        CHANGED,
    ),
    "an edition later": ((*N, FEWER, "SELECT new_edition('persons')"), counts("r", "state", "dx"), CHANGED),
    "protected again": ((*N, FEWER, *AGAIN), counts("r", "state", "dx"), CHANGED),
    "a table made again": (
        (*N, "CREATE OR REPLACE TABLE persons AS FROM persons WHERE person <> 8"),
        counts("r", "state", "dx"),
        CHANGED,
    ),
    "one person's place changed": (
        (*N, "UPDATE persons SET dx = 'hiv' WHERE person = 8"),
        counts("r", "state", "dx"),
        CHANGED,
    ),
    "another table of the population": (
        N,
        counts("r", "clinic", of="visits"),
        "another table with the same population",
    ),
    "another table, withdrawn": (
        (*N, "SELECT unpublish('dx_counts')"),
        counts("r", "clinic", of="visits"),
        "another table with the same population",
    ),
    "a table without one of the population": (
        (
            *N,
            "CREATE TABLE others AS FROM persons WHERE person <> 8",
            POLICY.format(epsilon="100", more="").replace("protect('persons'", "protect('others'"),
        ),
        counts("r", "state", "dx", of="others"),
        "another table with the same population",
    ),
    "a second copy": (COPY, copy("r", 7), SECOND_COPY),
    "a second copy with a smaller k": (copy("ka", 7), copy("r", 5), SECOND_COPY),
    "a second copy, the first withdrawn": ((*COPY, "SELECT unpublish('ka')"), copy("r", 7), SECOND_COPY),
    "a second copy, an edition later": ((*COPY, "SELECT new_edition('persons')"), copy("r", 7), SECOND_COPY),
    "a second copy under a new policy": ((*COPY, *AGAIN), copy("r", 7), SECOND_COPY),
    "counts beside a copy": (COPY, counts("r", "state", "dx"), BESIDE_COPY),
    "shares beside a copy": (COPY, shares("r", "dx", "county"), BESIDE_COPY),
    "counts beside a withdrawn copy": ((*COPY, "SELECT unpublish('ka')"), counts("r", "state", "dx"), BESIDE_COPY),
    "counts by what the copy hides": (COPY, counts("r", "age"), BESIDE_COPY),
    "a copy of less than k": ((), copy("r", 3), "not proven to hold 5 values of person"),
    "a name once used": (
        (*N, "SELECT unpublish('dx_counts')", "DROP TABLE dx_counts"),
        counts("dx_counts", "sex"),
        "another name",
    ),
    "a dropped column": ((), counts("r", "name"), 'Numbers are not published by "name"'),
    "a column of nobody's": ((), counts("r", "income"), 'Numbers are not published by "income"'),
    "a table that names persons": (
        ("CREATE TABLE bare AS SELECT person, dx FROM persons",),
        ("SELECT 1", "SELECT publish('bare', of := 'persons')"),
        "does not let out|says nothing",
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("published") / "x.duckdb")


@pytest.fixture(scope="module")
def cyclic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("cyclic") / "x.duckdb", *CYCLE)


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    copyfile(made, tmp_path / "x.duckdb")
    return tmp_path / "x.duckdb"


@pytest.mark.parametrize("name", sampled(REFUSED))
def test_what_discloses_together_is_refused(made: Path, cyclic: Path, tmp_path: Path, name: str) -> None:
    before, (making, publishing), why = REFUSED[name]
    path = copyfile(cyclic if why == TOGETHER else made, tmp_path / "x.duckdb")
    with duckanon.connect(path, role="steward") as steward:
        run(steward, *before, making)
        traces = (
            "FROM publications()",
            "FROM privacy_ledger()",
            "SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL",
        )
        first = [steward.execute(sql).fetchall() for sql in traces]
        with pytest.raises((duckdb.Error, duckanon.errors.DuckanonError), match=why):
            run(steward, publishing)
        assert [steward.execute(sql).fetchall() for sql in traces] == first


@pytest.mark.parametrize(
    "name",
    [
        "shares whose columns determine each other",
        "a share of few",
        "counts before one left",
        "a table that names persons",
    ],
)
def test_what_is_refused_is_invisible(made: Path, cyclic: Path, tmp_path: Path, name: str) -> None:
    """An analyst who asks before and after does not see that it was tried."""
    before, (making, publishing), why = REFUSED[name]
    path = Path(copyfile(cyclic if why == TOGETHER else made, tmp_path / "x.duckdb"))
    decide(path, *before, making)
    looks = (
        "FROM publications()", "FROM privacy_ledger()", "SHOW TABLES", "FROM information_schema.columns",
        "FROM policies()", "FROM editions()", "FROM r",
        "FROM explain_privacy('SELECT state, avg(insured::INTEGER) FROM persons GROUP BY state')",
    )  # fmt: skip
    with analyst(path) as con:
        first = [seen(con, sql) for sql in looks]
    with (
        duckanon.connect(path, role="steward") as steward,
        pytest.raises((duckdb.Error, duckanon.errors.DuckanonError), match=why),
    ):
        run(steward, publishing)
    with analyst(path) as con:
        assert [seen(con, sql) for sql in looks] == first
        assert seen(con, "FROM r") == seen(con, "FROM nothing")
        assert seen(con, "FROM duckanon.r") == seen(con, "FROM duckanon.nothing")


@pytest.mark.parametrize("left_out", range(3))
def test_two_tables_of_a_cycle_are_published(cyclic: Path, tmp_path: Path, left_out: int) -> None:
    """So what is refused above is what all three tell."""
    calls = [DX, DI, shares("a", "insured", "state")]
    del calls[left_out]
    with duckanon.connect(copyfile(cyclic, tmp_path / "x.duckdb"), role="steward") as con:
        run(con, *(sql for call in calls for sql in call))
        assert len(con.execute("FROM publications()").fetchall()) == 2


@pytest.mark.parametrize(
    "calls",
    sampled(
        (calls,)
        for calls in [
            (DX, counts("a", "county", "dx")),
            # Each of these is refused above, beside another.
            (shares("a", "insured", "state"),),
            (shares("a", "insured", "county"), counts("b", "state", "insured")),
            (counts("a", "clinic", of="visits"),),
            (copy("a", 7),),
            (N, counts("a", "dx"), counts("b", "state")),
            (counts("a", "county", "dx"), DX, N),
            (COPY, counts("a", "dx")),
            # Their joint table has small cells, which they leave open.
            (DX, shares("a", "insured", "state")),
            (N, shares("a", "insured", "county"), counts("b", "sex", "insured")),
            (DX, ("CREATE TABLE a AS FROM dx_shares", DX[1].replace("'dx_shares'", "'a'"))),
        ]
    ),
)
def test_what_tells_nothing_more_is_published(path: Path, calls: tuple[tuple[str, str], ...]) -> None:
    """So the refusals above are not those of an audit that refuses everything."""
    with duckanon.connect(path, role="steward") as con:
        run(con, *(sql for call in calls for sql in call))
        assert len(con.execute("FROM publications()").fetchall()) == len(calls)


# --- publications and paid answers ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make(tmp_path_factory.mktemp("told") / "x.duckdb")
    decide(path, *DX)
    return path


@pytest.fixture
def shown(told: Path, tmp_path: Path) -> Iterator[duckanon.Analyst]:
    copyfile(told, tmp_path / "y.duckdb")
    with analyst(tmp_path / "y.duckdb") as con:
        yield con


EXACT = (
    "SELECT county, dx, count(*) / sum(count(*)) OVER (PARTITION BY county) AS s FROM persons GROUP BY ALL ORDER BY ALL"
)


@pytest.mark.parametrize(
    "sql",
    [
        EXACT,
        "SELECT county, avg((dx = 'hiv')::INTEGER) AS s FROM persons GROUP BY county",
        "SELECT county, count(*) FILTER (WHERE dx = 'hiv') / count(*) AS s FROM persons GROUP BY county",
        "SELECT county, round(100 * avg((dx = 'hiv')::INTEGER), 1) AS s FROM persons GROUP BY county",
        "SELECT county, avg((dx IN ('hiv', 'flu'))::INTEGER) AS s FROM persons GROUP BY county",
        "SELECT dx, share FROM dx_shares",
        "SELECT max(share) FROM dx_shares",
    ],
)
def test_what_is_published_is_free(shown: duckanon.Analyst, sql: str) -> None:
    run(shown, sql)
    assert spent(shown) == 0


@pytest.mark.parametrize(
    "sql",
    sampled(
        [
            EXACT.replace("FROM persons", "FROM persons WHERE person <> 8"),
            EXACT.replace("FROM persons", "FROM persons WHERE age < 1000"),
            EXACT.replace("FROM persons", "FROM persons WHERE age = 30"),
            EXACT.replace("county", "state"),
            EXACT.replace("dx", "insured"),
            "SELECT dx, count(*) / sum(count(*)) OVER () AS s FROM persons GROUP BY dx",
            "SELECT avg((dx = 'hiv')::INTEGER) FROM persons",
            "SELECT county, avg((dx = 'hiv' AND age = 30)::INTEGER) AS s FROM persons GROUP BY county",
            "SELECT county, count(*) AS n FROM persons GROUP BY county",
            "SELECT county, dx, n * share FROM (SELECT county, count(*) AS n FROM persons GROUP BY county) "
            "JOIN dx_shares USING (county)",
        ]
    ),
)
def test_what_is_more_than_published_is_paid(shown: duckanon.Analyst, sql: str) -> None:
    """A filter that all fulfil, a column that another determines, totals to multiply shares with: none is exact."""
    run(shown, sql)
    assert spent(shown) == 1


def test_a_withdrawn_publication_answers_no_more(path: Path) -> None:
    decide(path, *DX, "SELECT unpublish('dx_shares')")
    with analyst(path) as con:
        assert seen(con, "FROM dx_shares") == seen(con, "FROM nothing")
        run(con, EXACT)
        assert spent(con) == 1


@pytest.mark.parametrize(
    "change",
    ["UPDATE dx_shares SET share = 1", "DROP TABLE dx_shares", "CREATE OR REPLACE TABLE dx_shares AS FROM persons",
     "UPDATE persons SET dx = 'hiv'", "DELETE FROM persons", "SELECT new_edition('persons')"],
)  # fmt: skip
def test_what_is_published_stays_as_it_was(path: Path, change: str) -> None:
    decide(path, *DX)
    with analyst(path) as con:
        first = con.execute("FROM dx_shares ORDER BY ALL").fetchall(), con.execute(EXACT).fetchall()
    decide(path, change)
    with analyst(path) as con:
        assert (con.execute("FROM dx_shares ORDER BY ALL").fetchall(), con.execute(EXACT).fetchall()) == first
        assert spent(con) == 0
        refused(con, "SELECT name FROM persons")


def test_a_temporary_table_does_not_pass_for_a_publication(shown: duckanon.Analyst) -> None:
    """Nor the other way round: what an analyst makes under its name is read by them alone."""
    first = shown.execute(EXACT).fetchall()
    with shown.cursor() as other:
        run(other, "CREATE TEMP TABLE dx_shares AS SELECT 1 AS county, 2 AS dx, 3 AS share")
        assert other.execute("FROM dx_shares").fetchall() == [(1, 2, 3)]
        assert other.execute(EXACT).fetchall() == first
    assert len(shown.execute("FROM dx_shares").fetchall()) == 9


def test_a_publication_has_no_order_of_the_records(path: Path) -> None:
    """A steward who sorts by what is hidden lets nothing out by it."""
    making, publishing = COPY
    ordered = making.replace("AS FROM", "AS SELECT k.* FROM", 1) + " AS k ORDER BY hash(k.dx), k.age_hi DESC"
    decide(path, ordered, publishing)
    with analyst(path) as con:
        rows = con.execute("SELECT class_id, dx FROM ka").fetchall()
    assert rows == sorted(rows)
