"""What stands in the views and macros that analysts use, appears in nothing that they see of a question that is paid.

Each definition holds constants and names that nothing else has. They may be in no decision, error, note or line of the
ledger. What a view or macro gives is seen: those here give nothing of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import duckanon
from duckanon.analyst import Analyst

CANARY = re.compile("77123|canary")
VIEWS = {
    "few": "SELECT hid FROM canary_table WHERE canary_column <> 77123 AND canary_text <> 'canary' AND hid < 9",
    "ages": "SELECT age, max(sex) AS other FROM canary_table WHERE canary_column <> 77123 GROUP BY age",
    "computed": "SELECT hid FROM canary_table WHERE abs(canary_column) <> 77123 AND canary_text LIKE 'c%'",
    "numbered": "SELECT hid, row_number() OVER (ORDER BY canary_column) AS n FROM canary_table",
    "fails": "SELECT hid, CAST(canary_text AS INTEGER) AS age FROM canary_table",
    "behind": "SELECT hid FROM canary_view WHERE hid <> 77123",
    "unlisted": "SELECT hid FROM canary_table WHERE canary_macro(hid) <> 77123",
    "function": "SELECT hid FROM canary_table, glob('canary') WHERE hid <> 77123",
}
MACROS = {
    "above": "(a) AS a > 77123",
    "named": "(a) AS CASE WHEN a > 77123 THEN 'canary' ELSE 'other' END",
    "one_of": "(a) AS a IN (77123, 77124, 5)",
    "pair": "(a, b) AS (a > 77123 AND b <> 'canary')",
    "largest": "() AS (SELECT max(canary_column) FROM canary_table WHERE canary_text = 'canary')",
    "doubled": "(a) AS canary_macro(a, 77123)",
    "mistaken": "(a) AS CAST('canary' AS INTEGER) + a",
    "divided": "(a) AS a // 0 + 77123",
    "those": "(a) AS count(*) FILTER (WHERE a <> 77123)",
    "part": "(a) AS quantile_cont(a, 0.77123)",
    "folk": "() AS TABLE SELECT * FROM persons WHERE age <> 77123 AND sex <> 'canary'",
}
CONDITIONS = (
    *("above(age)", "above(income)", "named(age) = 'other'", "one_of(hid)", "pair(age, sex)", "age > largest()"),
    *("doubled(age) = '3'", "mistaken(age) > 3", "divided(age) > 4"),
    *(f"hid IN (SELECT hid FROM {view})" for view in VIEWS if view != "ages"),
    *("age IN (SELECT age FROM ages)", "EXISTS (FROM few WHERE few.hid = persons.hid)"),
)
SIZES = "SELECT size, count(*) FROM (SELECT hid, {} AS size FROM {} WHERE {} GROUP BY hid) GROUP BY size"
STATEMENTS = (
    *(SIZES.format("count(*)", "persons", one) for one in CONDITIONS),
    *(f"SELECT count(*) FROM persons WHERE {one}" for one in CONDITIONS),
    *(f"SELECT sex, avg(income) FILTER (WHERE {one}) FROM persons GROUP BY sex" for one in CONDITIONS[:9]),
    *(f"SELECT CASE WHEN {one} THEN 1 ELSE 2 END AS k, count(*) FROM persons GROUP BY k" for one in CONDITIONS[:9]),
    *(
        SIZES.format(one, "persons", "true")
        for one in ("those(age)", "those(named(age))", "count(DISTINCT named(hid))")
    ),
    *(f"SELECT sex, {one} FROM persons GROUP BY sex" for one in ("those(age)", "part(income)", "sum(divided(age))")),
    "SELECT size, count(*) FROM (SELECT hid, named(age), count(*) AS size FROM persons GROUP BY ALL) GROUP BY size",
    "SELECT age, count(*) FROM folk() GROUP BY age",
    SIZES.format("count(*)", "folk()", "true"),
    SIZES.format("count(*)", "persons SEMI JOIN few USING (hid)", "true"),
    SIZES.format("count(*)", "persons JOIN few USING (hid)", "true"),
    "SELECT other, count(*) FROM persons JOIN ages USING (age) GROUP BY other",
    "SELECT count(*) FROM persons SEMI JOIN mine USING (hid)",
    SIZES.format("count(*)", "persons SEMI JOIN mine USING (hid)", "true"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("definitions") / "x.duckdb"
    with duckanon.connect(made, role="steward") as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i::INT AS person, (i // 3)::INT AS hid, (i % 90)::INT AS age, "
            "['F', 'M'][1 + i % 2] AS sex, (i % 100)::DOUBLE AS income FROM range(90) r(i)"
        )
        con.execute(
            "CREATE TABLE canary_table AS SELECT i::INT AS canary_column, i::INT AS hid, i::INT AS age, "
            "'canary ' || i AS canary_text, 'F' AS sex FROM range(20) r(i)"
        )
        con.execute("CREATE VIEW canary_view AS SELECT hid FROM canary_table WHERE canary_column <> 77123")
        con.execute("CREATE MACRO canary_macro(a) AS CAST(a AS VARCHAR), (a, b) AS CAST(a + b AS VARCHAR)")
        for name, body in MACROS.items():
            con.execute(f"CREATE MACRO {name}{body}")
        for name, body in VIEWS.items():
            con.execute(f"CREATE VIEW {name} AS {body}")
            con.execute("SELECT open_table(?)", [name]).fetchall()
        con.execute(
            "SELECT protect('persons', privacy_unit := 'person', unit := 'hid', rows_per_unit := 1, epsilon := 10000, "
            "per_query := 50, max_size := 4, public := ['age', 'sex'], bounds := {'income': [0, 100, 1]}, "
            "domains := {'age': {'from': 0, 'to': 89}, 'sex': ['F', 'M']})"
        ).fetchall()
    return made


@pytest.mark.ci("many statements are paid for")
def test_nothing_of_a_definition_is_seen_by_who_pays_for_a_question_with_it(path: Path) -> None:
    answered = 0
    with duckanon.connect(path, role="analyst") as con:
        con.execute("CREATE TEMP VIEW mine AS FROM few")
        for sql in STATEMENTS:
            ran, seen = _outcome(con, sql)
            assert not CANARY.search(seen), (sql, seen)
            answered += ran
        ledger = con.execute("FROM privacy_ledger()").fetchall()
        budget = con.execute("FROM privacy_budget()").fetchall()
    assert answered > 30
    assert len([one for one in ledger if "asked by way of" in str(one)]) > 20
    assert not CANARY.search(str([ledger, budget]))


def test_the_ledger_names_the_view_or_macro_in_the_statement(path: Path) -> None:
    with duckanon.connect(path, role="analyst") as con:
        con.execute("CREATE TEMP VIEW mine AS FROM few WHERE hid > 1")
        con.execute(SIZES.format("count(*)", "persons", "hid IN (SELECT hid FROM mine) AND above(income)")).fetchall()
        con.execute("SELECT count(*) FROM persons WHERE income > 77000").fetchall()
        told = con.execute("SELECT what FROM privacy_ledger() ORDER BY number DESC LIMIT 2").fetchall()
    assert told == [
        ("""count of records of main.persons by nothing where ("income" > CAST('77000.0' AS DOUBLE))""",),
        ("group sizes of main.persons, asked by way of few and above",),
    ]


def _outcome(con: Analyst, sql: str) -> tuple[bool, str]:
    """Whether a statement ran, and all that its sender sees of it."""
    explained, text = con.explain(sql), sql.replace("'", "''")
    seen = [explained, explained.rows(), con.execute(f"FROM explain_privacy('{text}')").fetchall()]
    try:
        con.execute(sql)
        seen += [con.description, con.fetchall(), con.decision]
    except Exception as error:
        return False, f"{seen} {error!r} {error.__cause__!r} {error.__context__!r}"
    return True, str(seen)
