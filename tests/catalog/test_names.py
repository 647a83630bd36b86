"""Names as DuckDB reads them: what each spelling means, compared with DuckDB itself."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.catalog.names import TableName, candidates, fold, parts, quoted, search_path
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Catalog, Protected, Stored, View

LETTERS = "abAB.\"' $äÄßİıΣ_0"


@given(st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_quoted_name_is_read_back(path: list[str]) -> None:
    written = quoted(path)
    assert TableName.of(written) == TableName(*([""] * (3 - len(path)) + [fold(one) for one in path]))
    assert parts(written) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.b.c.d", '"a', '"a"b.c.d.e'])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        TableName.of(text)


@given(
    st.text(LETTERS.replace('"', ""), min_size=1, max_size=4), st.text(LETTERS.replace('"', ""), min_size=1, max_size=4)
)
def test_duckdb_folds_the_same_letters(one: str, other: str) -> None:
    """Two names are the same to DuckDB exactly where they fold to the same."""
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE {quoted([one])} (a INTEGER)")
        try:
            con.execute(f"CREATE TABLE {quoted([other])} (a INTEGER)")
            same = False
        except duckdb.CatalogException:
            same = True
    assert same == (fold(one) == fold(other))


@pytest.mark.parametrize("path", ["", "s", "s,t", '"s",t', "main", "t", "y", "s,y.main"])
@pytest.mark.parametrize("name", ["t1", "s.t1", "x.t1", "y.t1", "x.s.t1", "y.main.t1", "main.t1", "t.t1", "x.main.t1"])
def test_a_name_means_what_duckdb_takes_it_for(tmp_path: Path, path: str, name: str) -> None:
    """Along the search path, with two databases. Analysts cannot set the path, and stewards seldom do."""
    with duckdb.connect(str(tmp_path / "x.duckdb")) as con:
        con.execute(f"ATTACH '{tmp_path / 'y.duckdb'}' AS y; CREATE SCHEMA s; CREATE SCHEMA t; CREATE SCHEMA y.s")
        tables = ["x.main", "x.s", "y.main", "y.s"]
        for one in tables:
            con.execute(f"CREATE TABLE {one}.t1 AS SELECT '{one}' AS found")
        if path:
            try:
                con.execute(f"SET search_path = '{path}'")
            except duckdb.Error:
                pytest.skip("DuckDB does not take this search path")
        ((database, schema, setting),) = con.execute(
            "SELECT current_database(), current_schema(), current_setting('search_path')"
        ).fetchall()
        try:
            ((wanted,),) = con.execute(f"SELECT found FROM {name}").fetchall()
        except duckdb.Error:
            wanted = None
    paths = [(*one.split(".", 1), "t1") for one in tables]
    names = {TableName(*each): Stored(each) for each in paths}  # type: ignore[arg-type]
    search = search_path(database, schema, setting)
    found = Catalog(search=search, tables=names).find(TableName.of(name))
    if wanted is not None:
        assert found is not None
        assert f"{found.catalog}.{found.schema}" == wanted
    assert found is None or found in candidates(TableName.of(name), search)


def test_the_table_of_a_name() -> None:
    """Open, behind an open view, or protected; a view is none, and a policy's table may be gone."""
    opened, behind, held = (Stored(("x", "main", name), {"a": "INTEGER"}) for name in ("opened", "behind", "held"))
    view, policy = View(("x", "main", "view"), "CREATE VIEW view AS FROM behind;"), Policy(Fraction(1))

    def named(name: str) -> TableName:
        return TableName("x", "main", name)

    catalog = Catalog(
        tables={named("opened"): opened},
        views={named("view"): view},
        protected={named("held"): Protected(policy, held), named("gone"): Protected(policy)},
        behind={named("behind"): behind, named("inner"): view},
    )
    found = {name: catalog.stored(named(name)) for name in ("opened", "behind", "held")}
    assert found == {"opened": opened, "behind": behind, "held": held}
    for name in ("view", "inner", "gone", "nothing"):
        assert catalog.stored(named(name)) is None


def test_a_publication_is_found_last_and_a_temporary_table_first() -> None:
    def stored(*path: str) -> tuple[TableName, Stored]:
        return TableName(*path), Stored(path)  # type: ignore[arg-type]

    own, open_one = stored("temp", "main", "t"), stored("x", "main", "t")
    copy = stored("x", "duckanon", "t")
    protected = TableName("x", "main", "t")
    held = Protected(Policy(Fraction(1)))
    name = TableName.of("T")
    assert Catalog([("x", "main")], dict([own, open_one, copy])).find(name) == own[0]
    assert Catalog([("x", "main")], dict([open_one, copy])).find(name) == open_one[0]
    assert Catalog([("x", "main")], dict([copy])).find(name) == copy[0]
    assert Catalog([("x", "main")], dict([copy]), protected={protected: held}).find(name) == protected
    assert Catalog([("x", "main")], dict([copy])).find(TableName.of("main.t")) is None
    assert Catalog([("x", "main")], dict([copy])).find(TableName.of("duckanon.t")) == copy[0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("t", "x.main.t", True),
        ("main.t", "x.main.t", True),
        ("x.t", "x.main.t", True),
        ("y.t", "x.main.t", False),
        ("x.main.t", "x.main.u", False),
        # The schema of a full name is no catalog.
        ("x.main.t", "main.s.t", False),
    ],
)
def test_names_that_can_mean_the_same(one: str, other: str, same: bool) -> None:
    assert TableName.of(one).may_be(TableName.of(other)) == same
    assert TableName.of(other).may_be(TableName.of(one)) == same
