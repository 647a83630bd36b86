"""What a publication answers is what the query gives on the records themselves."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest

from duckanon.governance.ledger_state import Publication
from duckanon.governance.locations import Location
from duckanon.releases.published import answer, counts, suggestion
from duckanon.rewrite.recognize import Conditional, Counts, Schema, findings_in

DATABASE = "memory"
COLUMNS = ("state", "sex", "disease", "age", "ok")


@pytest.fixture
def raw() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE persons AS SELECT ['A', 'B', NULL][1 + i % 3] AS state, ['f', 'm'][1 + i // 5 % 2] AS sex, "
        "['flu', 'hiv', 'none', 'none'][1 + i * 7 // 3 % 4] AS disease, 20 + i % 4 AS age, i % 11 < 7 AS ok "
        "FROM range(290) r(i) WHERE NOT (i % 3 = 0 AND i * 7 // 3 % 4 = 1)"
    ).fetchall()
    con.execute("CREATE SCHEMA duckanon").fetchall()
    return con


def published(
    con: duckdb.DuckDBPyConnection,
    variables: Sequence[str],
    given: Sequence[str] = (),
    digits: int | None = None,
    **more: object,
) -> Publication:
    """A table of counts or shares, made as a steward would."""
    number = "count(*)"
    if given:
        number = f"count(*) / sum(count(*)) OVER (PARTITION BY {', '.join(given)})"
    if digits is not None:
        number = f"round({number}, {digits})"
    by = ", ".join([*given, *variables])
    name = f"r_{len(con.execute('SHOW ALL TABLES').fetchall())}"
    con.execute(f"CREATE TABLE duckanon.{name} AS SELECT {by}, {number} AS v FROM persons GROUP BY {by}").fetchall()
    described = con.execute(f"DESCRIBE duckanon.{name}").fetchall()
    return Publication(
        name,
        Location("", "main", "persons"),
        "shares" if given else "counts",
        tuple(one[0] for one in described),
        tuple(one[1] for one in described),
        tuple(variables),
        tuple(given),
        "v",
        digits,
        number=int(name[2:]),
        **more,  # type: ignore[arg-type] # fields of Publication
    )


def found(con: duckdb.DuckDBPyConnection, sql: str) -> list[Conditional | Counts]:
    types = {name: kind for name, kind, *_ in con.execute("DESCRIBE persons").fetchall()}
    schema = Schema.of({"memory.main.persons": types}, protected=["memory.main.persons"])
    told = findings_in(sql.replace("persons", "memory.main.persons"), schema)
    return [one for one in told if isinstance(one, Conditional | Counts)]


def expected(con: duckdb.DuckDBPyConnection, sql: str, told: Sequence[Conditional]) -> list[tuple[object, ...]]:
    """The query's own rows, with keys in the order of k0, ... and then the shares."""
    first = told[0]
    keys = [*first.rows, *first.cols]
    roles = list(first.columns)
    places = [next(at for at, role in enumerate(roles) if role.expr == key) for key in keys]
    places += [at for at, role in enumerate(roles) if role.what == "share"]
    return [tuple(row[at] for at in places) for row in con.execute(sql).fetchall()]


def same(one: list[tuple[object, ...]], other: list[tuple[object, ...]], *, exactly: bool) -> bool:
    digits = 14 if exactly else 12

    def plain(row: tuple[object, ...]) -> tuple[str, ...]:
        return tuple(repr(round(value, digits) if isinstance(value, float) else value) for value in row)

    return sorted(map(plain, one)) == sorted(map(plain, other))


SHARE = "count(*) / sum(count(*)) OVER (PARTITION BY state)"
CONDITIONAL = [
    f"SELECT state, disease, {SHARE} AS s FROM persons GROUP BY state, disease",
    f"SELECT disease, state, 100 * {SHARE} AS s FROM persons GROUP BY state, disease",
    f"SELECT state, sex, disease, round({SHARE}, 3) AS s FROM persons GROUP BY state, sex, disease",
    f"SELECT state, disease, round(100 * {SHARE}, 1) AS s FROM persons GROUP BY state, disease",
    "SELECT state, avg((disease = 'hiv')::INT) AS s FROM persons GROUP BY state",
    "SELECT state, round(avg((disease = 'hiv')::INT), 2) AS s, round(avg((sex = 'f')::INT), 2) AS f FROM persons "
    "GROUP BY state",
    "SELECT state, count(*) FILTER (WHERE disease = 'flu' AND sex = 'f') / count(*) FILTER (WHERE sex = 'f') AS s "
    "FROM persons GROUP BY state",
    "SELECT state, count(*) FILTER (WHERE disease IN ('flu', 'hiv')) / count(*) AS s FROM persons WHERE state = 'A' "
    "GROUP BY state",
    "SELECT state, sex, avg((disease <> 'none')::INT) AS s FROM persons GROUP BY state, sex",
    "SELECT state, sex, disease, count(*) / sum(count(*)) OVER (PARTITION BY state, sex) AS s FROM persons "
    "GROUP BY state, sex, disease",
]


@pytest.mark.parametrize("sql", CONDITIONAL)
def test_shares_from_counts_and_from_shares(raw: duckdb.DuckDBPyConnection, sql: str) -> None:
    told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
    assert told
    for publication in (
        published(raw, ["state", "sex", "disease"]),
        published(raw, ["sex", "state", "ok", "disease"]),
        published(raw, ["sex", "disease"], ["state"]),
        published(raw, ["ok", "disease", "sex"], ["state"]),
    ):
        text = answer(told, [publication], DATABASE)
        assert text is not None
        rounded = all(one.digits is not None for one in told)
        got = raw.execute(text).fetchall()
        want = expected(raw, sql, told)
        if "WHERE state" in sql:
            got = [row for row in got if row[0] == "A"]
        assert same(got, want, exactly=rounded), (sql, text)


def test_shares_of_all_records(raw: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT sex, count(*) / sum(count(*)) OVER () AS s FROM persons GROUP BY sex"
    told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
    assert answer(told, [published(raw, ["sex"], ["state"])], DATABASE) is None
    text = answer(told, [published(raw, ["sex", "state"])], DATABASE)
    assert text is not None
    assert same(raw.execute(text).fetchall(), expected(raw, sql, told), exactly=False)


def test_rounded_shares_answer_what_is_asked_just_so(raw: duckdb.DuckDBPyConnection) -> None:
    publication = published(raw, ["disease"], ["state"], 3)
    for scale, digits in (("", 3), ("100 * ", 1)):
        sql = f"SELECT disease, state, round({scale}{SHARE}, {digits}) AS s FROM persons GROUP BY state, disease"
        told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
        text = answer(told, [publication], DATABASE)
        assert text is not None
        assert same(raw.execute(text).fetchall(), expected(raw, sql, told), exactly=True)
    for sql in (
        f"SELECT disease, state, round({SHARE}, 2) AS s FROM persons GROUP BY state, disease",
        f"SELECT disease, state, {SHARE} AS s FROM persons GROUP BY state, disease",
        "SELECT state, round(avg((disease = 'hiv')::INT), 3) AS s FROM persons GROUP BY state",
    ):
        told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
        assert told
        assert answer(told, [publication], DATABASE) is None


@pytest.mark.parametrize(
    "sql",
    [
        # Another column, a cast that may fail, a function, a subquery, other rows, a filter that is no row.
        f"SELECT state, age, {SHARE} AS s FROM persons GROUP BY state, age",
        "SELECT state, avg((disease::INT = 1)::INT) AS s FROM persons GROUP BY state",
        "SELECT state, avg((age > 21)::INT) AS s FROM persons GROUP BY state",
        "SELECT state, avg((strip_accents(disease) = 'flu')::INT) AS s FROM persons GROUP BY state",
        "SELECT sex, avg((disease = 'hiv')::INT) AS s FROM persons GROUP BY sex",
        "SELECT state, avg((disease = 'hiv')::INT) AS s FROM persons WHERE sex = 'f' GROUP BY state",
    ],
)
def test_what_does_not_follow_is_not_answered(raw: duckdb.DuckDBPyConnection, sql: str) -> None:
    told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
    assert told
    assert answer(told, [published(raw, ["sex", "disease"], ["state"])], DATABASE) is None


def test_only_what_can_be_read_of_that_table(raw: duckdb.DuckDBPyConnection) -> None:
    told = [one for one in found(raw, CONDITIONAL[0]) if isinstance(one, Conditional)]
    good = published(raw, ["state", "disease"])
    assert answer(told, [], DATABASE) is None
    assert answer(told, [published(raw, ["state", "disease"], withdrawn=True)], DATABASE) is None
    assert answer(told, [published(raw, ["state", "disease"], base=5)], DATABASE) is None
    assert answer(told, [good], "other") is None
    newest = published(raw, ["state", "disease"])
    assert newest.name in str(answer(told, [newest, good], DATABASE))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT state, count(*) AS n FROM persons GROUP BY state",
        "SELECT count(*) AS n FROM persons",
        "SELECT count(*) AS n FROM persons WHERE disease = 'hiv' AND state = 'A'",
        "SELECT state, count(*) FILTER (WHERE disease = 'hiv') AS n FROM persons GROUP BY state",
        "SELECT state, sex, count(*) AS n FROM persons WHERE disease <> 'none' GROUP BY state, sex",
    ],
)
def test_counts_from_counts(raw: duckdb.DuckDBPyConnection, sql: str) -> None:
    (told,) = [one for one in found(raw, sql) if isinstance(one, Counts)]
    text = counts(told, [published(raw, ["state", "sex", "disease"])], DATABASE)
    assert text is not None
    assert same(raw.execute(text).fetchall(), raw.execute(sql).fetchall(), exactly=True)
    assert counts(told, [published(raw, ["sex", "disease"], ["state"])], DATABASE) is None
    assert counts(told, [published(raw, ["ok"])], DATABASE) is None or sql.endswith("n FROM persons")


def test_counts_that_do_not_follow(raw: duckdb.DuckDBPyConnection) -> None:
    publication = published(raw, ["state", "sex", "disease"])
    for sql in (
        "SELECT age, count(*) AS n FROM persons GROUP BY age",
        "SELECT state, count(*) AS n FROM persons WHERE disease::INT = 3 GROUP BY state",
        "SELECT state, count(*) AS n FROM persons GROUP BY state HAVING count(*) > 3",
        "SELECT state, sex, count(*) AS n FROM persons GROUP BY GROUPING SETS ((state), (sex))",
        "SELECT state, count(DISTINCT disease) AS n FROM persons GROUP BY state",
    ):
        for told in found(raw, sql):
            assert isinstance(told, Counts)
            assert counts(told, [publication], DATABASE) is None


@pytest.mark.parametrize("sql", CONDITIONAL)
def test_what_a_steward_would_run_answers_the_question(raw: duckdb.DuckDBPyConnection, sql: str) -> None:
    told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
    text = suggestion(told, "persons", COLUMNS, ["persons_by_state_disease"])
    assert text is not None
    make, call = text.split("; ")
    assert call.startswith("SELECT publish('persons_by_state_")
    raw.execute(make.replace("CREATE TABLE ", "CREATE TABLE duckanon.")).fetchall()
    name = make.split()[2]
    assert name != "persons_by_state_disease"
    described = raw.execute(f"DESCRIBE duckanon.{name}").fetchall()
    named = [str(one[0]) for one in described]
    given = (
        ("state", "sex") if "given := ['state', 'sex']" in call or "given := ['sex', 'state']" in call else ("state",)
    )
    assert set(given) <= set(named)
    digits = int(call.rpartition("digits := ")[2].rstrip(")")) if "digits" in call else None
    publication = Publication(
        name,
        Location("", "main", "persons"),
        "shares",
        tuple(named),
        tuple(str(one[1]) for one in described),
        tuple(one for one in named if one not in given and one != "share"),
        given,
        "share",
        digits,
    )
    got = answer(told, [publication], DATABASE)
    assert got is not None
    rows = [row for row in raw.execute(got).fetchall() if "WHERE state" not in sql or row[0] == "A"]
    assert same(rows, expected(raw, sql, told), exactly=False)


@pytest.mark.parametrize("share", ["{}", "round({}, 2)"])
def test_a_suggestion_without_rows_is_of_counts_which_are_not_rounded(
    raw: duckdb.DuckDBPyConnection, share: str
) -> None:
    sql = f"SELECT sex, {share.format('count(*) / sum(count(*)) OVER ()')} AS s FROM persons GROUP BY sex"
    told = [one for one in found(raw, sql) if isinstance(one, Conditional)]
    assert suggestion(told, "main.persons", COLUMNS) == (
        "CREATE TABLE persons_by_sex AS SELECT sex, count(*) AS n FROM main.persons GROUP BY sex; "
        "SELECT publish('persons_by_sex', of := 'main.persons', variables := ['sex'], value := 'n')"
    )
