"""Names of columns over the wire: PostgreSQL's, where a statement gives none."""

from __future__ import annotations

import pytest

from duckanon.server.catalog_names import as_postgresql


@pytest.mark.parametrize(
    ("sql", "names", "shown"),
    [
        ("SELECT count(*) FROM t", ["count_star()"], ["count"]),
        ("SELECT a // 10, count(*) + 1 FROM t", ["(a // 10)", "(count_star() + 1)"], ["?column?", "?column?"]),
        ("SELECT state, sum(a) AS s, avg(b) FROM t", ["state", "s", "avg(b)"], ["state", "s", "avg"]),
        ("SELECT upper(state), CASE WHEN a THEN 1 END FROM t", ["upper(state)", "CASE ..."], ["upper", "case"]),
        ("SELECT a::INT, coalesce(a, 1) FROM t", ["CAST(a AS INTEGER)", "COALESCE(a, 1)"], ["a", "coalesce"]),
        ("SELECT * FROM (SELECT count(*) FROM t)", ["count_star()"], ["count_star()"]),
        ("SELECT count(*) FROM t UNION ALL SELECT 1", ["count_star()"], ["count"]),
        ("SELECT count(*) OVER (), sum(a) FILTER (WHERE b) FROM t", ["..."] * 2, ["count", "sum"]),
        ("SELECT mode() WITHIN GROUP (ORDER BY a), bool_or(b) FROM t", ["..."] * 2, ["mode", "bool_or"]),
        ("SELECT mod(a, 2), power(a, 2), a % 2 FROM t", ["..."] * 3, ["mod", "power", "?column?"]),
        ("SELECT strpos(b, 'x'), position('x' IN b) FROM t", ["..."] * 2, ["strpos", "position"]),
        ("SELECT now() AT TIME ZONE 'UTC', INTERVAL '1 day'", ["..."] * 2, ["timezone", "interval"]),
        ('SELECT a AS "x y" FROM t', ["x y"], ["x y"]),
        ("FROM t", ["a b", "c"], ["a b", "c"]),
    ],
)
def test_names(sql: str, names: list[str], shown: list[str]) -> None:
    assert as_postgresql(sql, names) == shown
