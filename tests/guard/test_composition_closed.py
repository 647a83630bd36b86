"""A table that is closed and one that is not there: nothing that an analyst may send tells them apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duckanon.analyst import Analyst
from tests.guard.residents import analyst, make, seen


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    """For what is refused, and changes nothing."""
    with analyst(make(tmp_path_factory.mktemp("closed") / "x.duckdb")) as con:
        yield con


@pytest.mark.parametrize(
    "spelling",
    [
        "FROM {}",
        "SELECT * FROM main.{}",
        "SELECT * FROM x.main.{}",
        'SELECT * FROM "{}"',
        "SELECT count(*) FROM {}",
        "SELECT x FROM {} WHERE x = 1",
        "SELECT nothing_of_it FROM {}",
        "WITH c AS (FROM {}) FROM c",
        "SELECT * FROM counties, {}",
        "SELECT * FROM counties WHERE EXISTS (FROM {})",
        "SELECT (SELECT max(x) FROM {})",
        "SELECT {}.x FROM counties, {}",
        "FROM counties UNION ALL FROM {}",
        "CREATE TEMP TABLE mine AS FROM {}",
        "INSERT INTO {} VALUES (1)",
        "DROP TABLE {}",
        "FROM k_report('{}', ['x'])",
        "FROM k_anonymize('{}', ['x'], k := 2)",
        "FROM group_sizes('{}', 'x')",
        "FROM dp_group_sizes('{}', 'x', epsilon := 1, max_size := 2)",
        "FROM dp_group_sizes('counties', 'county', ['state'], epsilon := 1, max_size := 2, regions := '{}')",
        "FROM explain_privacy('FROM {}')",
        "DESCRIBE {}",
        "FROM pragma_table_info('{}')",
        "SELECT NULL::{}",
        "SELECT * FROM information_schema.columns WHERE table_name = '{}'",
    ],
)
@pytest.mark.parametrize("closed", ["salaries", "people"])
def test_closed_is_missing(outside: Analyst, spelling: str, closed: str) -> None:
    """A table and a view that are there, but closed, and one that is not: nothing tells them apart."""
    there, missing = spelling.replace("{}", closed), spelling.replace("{}", "nonesuch")

    def told(name: str, sql: str) -> str:
        return str(seen(outside, sql)).replace(name, "<name>")

    assert told(closed, there) == told("nonesuch", missing)
    assert str(outside.explain(there)).replace(closed, "<name>") == (
        str(outside.explain(missing)).replace("nonesuch", "<name>")
    )


@pytest.mark.parametrize("sql", ["FROM salarie", "FROM peopl", "FROM x.mai.salaries", "SELECT salarie.x FROM counties"])
def test_nothing_near_is_suggested(outside: Analyst, sql: str) -> None:
    found = seen(outside, sql)
    assert found[0] == "error"
    assert not {"salaries", "people", "persons", "visits"} & set(found[2].replace(sql, "").replace('"', " ").split())
