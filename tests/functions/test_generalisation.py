"""Bands and hierarchies in SQL: what comes out holds the values, lies on the grid or in the tree, and is measured."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.engines.kanon.methods import METHODS
from tests.amounts import many


@pytest.fixture(scope="module")
def shared() -> Any:
    with duckdb.connect() as connection:
        yield duckanon.register(connection)


QUICK = [name for name in METHODS if name not in ("milp", "exact", "split_carry", "bubble_carry")]


@dataclass
class Banded:
    """A column with bands: how a call gives them, and how a value's band is found by hand."""

    kind: str
    given: str
    values: st.SearchStrategy[Any]
    number: Callable[[Any], int]
    begin: Callable[[int], Any]
    bottom: int | None = None
    top: int | None = None

    def band(self, value: Any) -> int:
        found = self.number(value)
        if self.bottom is not None and found < self.bottom:
            return self.bottom - 1
        return found if self.top is None or found < self.top else self.top


def months(count: int) -> Callable[[date], int]:
    return lambda day: ((day.year - 2000) * 12 + day.month - 1) // count


def month(number: int) -> date:
    return date(2000 + number // 12, number % 12 + 1, 1)


MONDAY = date(2000, 1, 3)
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2010, 12, 31))
DAYS = st.dates(date(1990, 1, 1), date(2010, 12, 31))
BANDED = [
    Banded("INTEGER", "5", st.integers(-30, 60), lambda v: v // 5, lambda n: 5 * n),
    Banded("TINYINT", "10", st.integers(-128, 127), lambda v: v // 10, lambda n: 10 * n),
    Banded("BIGINT", "1000", st.integers(-(2**40), 2**40), lambda v: v // 1000, lambda n: 1000 * n),
    Banded(
        "INTEGER", "{'width': 5, 'bottom': 20, 'top': 40}", st.integers(0, 60), lambda v: v // 5, lambda n: 5 * n, 4, 8
    ),
    Banded("INTEGER", "{'width': 7, 'top': 21}", st.integers(0, 60), lambda v: v // 7, lambda n: 7 * n, None, 3),
    Banded(
        "DECIMAL(9,2)",
        "0.25",
        st.decimals(-3, 3, places=2),
        lambda v: floor(Fraction(v) * 4),
        lambda n: Decimal(n) / 4,
    ),
    Banded(
        "DOUBLE",
        "0.1",
        st.integers(-20, 20).map(lambda x: x / 10) | st.floats(-2, 2),
        # A value as DuckDB compares it with the released end.
        lambda v: next(n for n in range(floor(v * 10) - 2, floor(v * 10) + 3) if n / 10 <= v < (n + 1) / 10),
        lambda n: Decimal(n) / 10,
    ),
    Banded("DATE", "'year'", DAYS, months(12), lambda n: month(12 * n)),
    Banded("DATE", "'2 months'", DAYS, months(2), lambda n: month(2 * n)),
    Banded("TIMESTAMP", "'quarter'", TIMES, lambda v: months(3)(v.date()), lambda n: month(3 * n)),
    Banded(
        "TIMESTAMP",
        "{'width': '10 days', 'bottom': DATE '2000-01-13'}",
        TIMES,
        lambda v: (v.date() - MONDAY).days // 10,
        lambda n: MONDAY + timedelta(days=10 * n),
        1,
    ),
    Banded("DATE", "'week'", DAYS, lambda v: (v - MONDAY).days // 7, lambda n: MONDAY + timedelta(days=7 * n)),
]


@st.composite
def trees(draw: st.DrawFn) -> list[list[str]]:
    """Rows of a hierarchy, in any order: the leaf first. Sometimes the last level has several labels."""
    leaves = draw(st.integers(1, 9))
    rows = [[f"v{leaf}"] for leaf in range(leaves)]
    groups = list(range(leaves))
    for level in range(draw(st.integers(0, 3))):
        into = draw(st.lists(st.integers(0, max(len(set(groups)) - 1, 0)), min_size=leaves, max_size=leaves))
        groups = [into[group] for group in groups]
        for leaf in range(leaves):
            rows[leaf].append(f"l{level}.{groups[leaf]}")
    if draw(st.booleans()):
        for row in rows:
            row.append("all")
    return draw(st.permutations(rows))


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(2, 20))

    def column(value: st.SearchStrategy[Any]) -> list[Any]:
        if draw(st.booleans()):
            value = st.none() | value
        return draw(st.lists(value, min_size=n, max_size=n))

    band, tree = draw(st.sampled_from(BANDED)), draw(trees())
    return {
        "band": band,
        "tree": tree,
        "rows": list(
            zip(
                column(band.values),
                column(st.sampled_from([row[0] for row in tree])),
                column(st.integers(0, 9)),
                range(n),
                strict=True,
            )
        ),
        "k": draw(st.integers(2, n)),
        "method": draw(st.sampled_from(QUICK)),
    }


def common(tree: Sequence[Sequence[str]], values: set[str]) -> tuple[str, int]:
    """The label of the lowest node above all values, and how many leaves it has."""
    rows = {row[0]: row for row in tree}
    for level in range(len(tree[0])):
        labels = {rows[value][level] for value in values}
        if len(labels) == 1:
            (label,) = labels
            return label, sum(row[level] == label for row in tree)
    return "*", len(tree)


@given(calls())
def test_every_method_releases_bands_and_labels(shared: duckdb.DuckDBPyConnection, told: dict[str, Any]) -> None:
    con = shared
    band, tree, rows, k = told["band"], told["tree"], told["rows"], told["k"]
    con.execute(f"CREATE OR REPLACE TABLE t (b {band.kind}, v VARCHAR, x INTEGER, id INTEGER)").fetchall()
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    levels = ", ".join(f"l{level} VARCHAR" for level in range(len(tree[0])))
    con.execute(f"CREATE OR REPLACE TABLE v_levels ({levels})").fetchall()
    con.executemany(f"INSERT INTO v_levels VALUES ({', '.join('?' for _ in tree[0])})", tree)
    arguments = f"weights := [1, 2, 3], bands := {{'b': {band.given}}}, hierarchies := {{'v': 'v_levels'}}"
    found = con.execute(
        "SELECT b_lo, b_hi, v_label, x_lo, x_hi, class_id, id "
        f"FROM k_anonymize('t', ['b', 'v', 'x'], k := {k}, method := '{told['method']}', {arguments})"
    ).fetchall()
    classes: dict[Any, list[int]] = {}
    for *cells, _, record in found:
        classes.setdefault(tuple(cells), []).append(record)
    assert len({row[-2] for row in found}) == len(classes)
    assert Counter(row[-1] for row in found) == Counter(range(len(rows)))
    assert min(map(len, classes.values())) >= k

    given = [band.band(row[0]) for row in rows if row[0] is not None]
    numbers = [row[2] for row in rows if row[2] is not None]
    loss = 0.0
    for (low, high, label, x_low, x_high), members in classes.items():
        own = [rows[i][0] for i in members]
        mine = [band.band(value) for value in own if value is not None]
        if len(mine) < len(own):
            assert (low, high) == (None, None)
            part = 1.0 if mine else 1 / (max(given) - min(given) + 1) if given else 0.0
        else:
            first, last = min(mine), max(mine)
            assert low == (None if band.bottom is not None and first < band.bottom else band.begin(first))
            assert high == (None if last == band.top else band.begin(last + 1))
            part = (last - first + 1) / (max(given) - min(given) + 1)
        values = {rows[i][1] for i in members}
        tree_part = 0.0
        if None in values:
            assert label is None
            tree_part = 1.0 if len(values) > 1 else 0.0
        else:
            expected, leaves = common(tree, values)
            assert label == expected
            tree_part = (leaves - 1) / max(len(tree) - 1, 1)
        x_values = {rows[i][2] for i in members}
        if None in x_values:
            x_part = 1.0 if len(x_values) > 1 else 0.0
        else:
            x_part = (max(x_values) - min(x_values)) / max(max(numbers) - min(numbers), 1)
            assert (x_low, x_high) == (min(x_values), max(x_values))
        loss += len(members) * (part + 2 * tree_part + 3 * x_part) / 6
    measured = con.execute(
        "SELECT information_loss, lower_bound, classes, min_class "
        f"FROM k_compare('t', ['b', 'v', 'x'], k := [{k}], methods := ['{told['method']}'], {arguments})"
    ).fetchall()
    # A class of NULLs loses nothing and shows what a class shows that mixes NULL with values, which loses everything.
    assert measured[0][0] <= loss / len(rows) + 1e-9
    if all(value is not None for row in rows for value in row):
        assert measured[0][0] == pytest.approx(loss / len(rows), abs=1e-9)
    assert measured[0][1] <= measured[0][0] + 1e-9
    if band.bottom is None or band.top is None:
        assert measured[0][2:] == (len(classes), min(map(len, classes.values())))


@settings(max_examples=2 * settings().max_examples)
@given(calls(), st.sampled_from(["0", "0.2", "0.5"]))
def test_global_is_the_best_choice_of_levels(
    shared: duckdb.DuckDBPyConnection, told: dict[str, Any], share: str
) -> None:
    con = shared
    band, tree, rows, k = told["band"], told["tree"], told["rows"], told["k"]
    con.execute(f"CREATE OR REPLACE TABLE t (b {band.kind}, v VARCHAR, x INTEGER, id INTEGER)").fetchall()
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    levels = ", ".join(f"l{level} VARCHAR" for level in range(len(tree[0])))
    con.execute(f"CREATE OR REPLACE TABLE v_levels ({levels})").fetchall()
    con.executemany(f"INSERT INTO v_levels VALUES ({', '.join('?' for _ in tree[0])})", tree)
    numbers = [band.band(row[0]) for row in rows if row[0] is not None]
    floor_part = 1 / (max(numbers) - min(numbers) + 1) if numbers else 0.0
    rooted = tree if len({row[-1] for row in tree}) == 1 else [[*row, "*"] for row in tree]
    above = {row[0]: row for row in rooted}

    def band_cell(value: Any, level: int) -> tuple[Any, float]:
        if level == 2 or value is None:
            return None, 1.0 if level == 2 else floor_part
        return (band.band(value), floor_part) if level == 0 else ("*", 1.0)

    def tree_cell(value: Any, level: int) -> tuple[Any, float]:
        if level == len(rooted[0]) or value is None:
            return None, 1.0 if level == len(rooted[0]) else 0.0
        label = above[value][level]
        return label, (sum(row[level] == label for row in rooted) - 1) / max(len(rooted) - 1, 1)

    allowed = int(Fraction(share) * len(rows))
    nodes: dict[tuple[int, int], tuple[float, Counter[Any]]] = {}
    for b in range(2 + any(row[0] is None for row in rows)):
        for v in range(len(rooted[0]) + any(row[1] is None for row in rows)):
            cells = [(band_cell(row[0], b), tree_cell(row[1], v)) for row in rows]
            sizes = Counter((one[0], other[0]) for one, other in cells)
            kept = Counter({cell: size for cell, size in sizes.items() if size >= k})
            loss = sum((one[1] + other[1]) / 2 if kept[one[0], other[0]] else 1.0 for one, other in cells)
            if kept.total() and len(rows) - kept.total() <= allowed:
                nodes[b, v] = loss, kept
    call = (
        f"SELECT b_label, v_label FROM k_anonymize('t', ['b', 'v'], k := {k}, method := 'global', drop := ['x'], "
        f"bands := {{'b': {band.given}}}, hierarchies := {{'v': 'v_levels'}}, max_suppression := {share})"
    )
    found = Counter(con.execute(call).fetchall())
    least = min(loss for loss, _ in nodes.values())
    best = [kept for loss, kept in nodes.values() if loss <= least + 1e-9]
    # Labels of bands are texts; there are as many as bands, each as often, with the other column's labels.
    shapes = [Counter((b is None, b == "*", v, size) for (b, v), size in kept.items()) for kept in best]
    assert Counter((b is None, b == "*", v, size) for (b, v), size in found.items()) in shapes


def test_the_texts_of_bands(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i % 4 * 10 AS age, DATE '1999-05-05' + (i % 2 * 365)::INT AS born FROM range(40) r(i)"
    )
    found = con.execute(
        "SELECT DISTINCT age_label, born_label FROM k_anonymize('t', ['age', 'born'], k := 10, method := 'global', "
        "bands := {'age': {'width': 10, 'bottom': 10, 'top': 30}, 'born': 'year'}) ORDER BY ALL"
    ).fetchall()
    assert found == [
        ("[, 10)", "[1999-01-01, 2000-01-01)"),
        ("[10, 20)", "[2000-01-01, 2001-01-01)"),
        ("[20, 30)", "[1999-01-01, 2000-01-01)"),
        ("[30, )", "[2000-01-01, 2001-01-01)"),
    ]


def test_global_meets_conditions_on_sensitive_columns(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i % 60 AS age, 'c' || i % 7 AS city, CASE WHEN i % 60 < 20 THEN 'flu' ELSE "
        "'d' || hash(i) % 5 END AS illness, CASE WHEN i % 9 > 0 THEN i % 3 END AS grade, i AS id FROM range(900) r(i)"
    ).fetchall()
    call = (
        "FROM k_anonymize('t', ['age', 'city'], k := 5, method := 'global', bands := {'age': [5, 10, 20]}, "
        "hierarchies := {'city': ['CASE WHEN city < ''c3'' THEN ''north'' ELSE ''south'' END']}, drop := ['id']"
    )
    plain = con.execute(f"SELECT DISTINCT age_label, city_label {call})").fetchall()
    assert ("[0, 5)", "c1") in plain
    for more, test in (
        ("l := 3, sensitive := ['illness']", "l >= 3"),
        ("l := 2, t := 0.35, sensitive := ['illness', 'grade']", "l >= 2 AND t <= 0.35 + 1e-9"),
        ("l := 1.8, diversity := 'entropy', sensitive := ['illness']", "entropy_l >= 1.8 - 1e-9"),
        ("l := 3, sensitive := ['illness'], max_suppression := 0.4", "l >= 3"),
    ):
        con.execute(f"CREATE OR REPLACE TABLE r AS {call}, {more})").fetchall()
        columns = "['illness', 'grade']" if "grade" in more else "['illness']"
        report = f"FROM k_report('r', ['age_label', 'city_label'], sensitive := {columns})"
        assert con.execute(f"SELECT k >= 5 AND {test}, records > 500 {report}").fetchall() == [(True, True)], more


@settings(max_examples=many(25))
@given(
    values=st.lists(st.none() | st.integers(-30, 60), min_size=4, max_size=14),
    edges=st.sampled_from([(None, None), (-20, 40), (0, None), (None, 20)]),
    k=st.integers(2, 4),
    allowed=st.sampled_from(["0", "0.3"]),
)
def test_bands_of_several_widths_are_levels(
    shared: duckdb.DuckDBPyConnection,
    values: list[int | None],
    edges: tuple[int | None, int | None],
    k: int,
    allowed: str,
) -> None:
    """All levels by hand: bands of 5, 10 and 20, '*', and NULL for everybody where there are NULLs."""
    bottom, top = edges
    shared.execute("CREATE OR REPLACE TABLE t (v INTEGER)").fetchall()
    shared.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    more = "".join(f", '{side}': {at}" for side, at in zip(("bottom", "top"), edges, strict=True) if at is not None)
    call = (
        f"SELECT v_label FROM k_anonymize('t', ['v'], k := {k}, method := 'global', max_suppression := {allowed}, "
        f"bands := {{'v': {{'width': [5, 10, 20]{more}}}}})"
    )

    def cell(value: int, width: int) -> tuple[int | None, int | None]:
        if bottom is not None and value < bottom:
            return None, bottom
        if top is not None and value >= top:
            return top, None
        return value // width * width, value // width * width + width

    narrow = {cell(value, 5) for value in values if value is not None}
    numbers = sorted(((high or 0) - 5 if low is None else low) // 5 for low, high in narrow)
    every = numbers[-1] - numbers[0] + 1 if numbers else 1

    def shown(value: int | None, level: int) -> tuple[str | None, float]:
        if level == 4:
            return None, 1.0
        if value is None:
            return None, 1 / every if numbers else 0.0
        if level == 3:
            return "*", 1.0
        low, high = cell(value, (5, 10, 20)[level])
        first = numbers[0] if low is None else max(low // 5, numbers[0])
        last = numbers[-1] if high is None else min(high // 5 - 1, numbers[-1])
        text = f"[{'' if low is None else low}, {'' if high is None else high})"
        return text, (last - first + 1) / every

    found = dict[int, tuple[float, Counter[str | None]]]()
    for level in range(4 + (None in values)):
        cells = [shown(value, level) for value in values]
        sizes = Counter(text for text, _ in cells)
        kept = Counter({text: size for text, size in sizes.items() if size >= k})
        if kept and len(values) - kept.total() <= int(Fraction(allowed) * len(values)):
            found[level] = sum(loss if kept[text] else 1.0 for text, loss in cells), kept
    if len(values) < k or not found:
        with pytest.raises(duckdb.Error, match=r"fewer than k|Even on the highest level"):
            shared.execute(call).fetchall()
        return
    least = min(loss for loss, _ in found.values())
    answer = Counter(text for (text,) in shared.execute(call).fetchall())
    assert answer in [kept for loss, kept in found.values() if loss <= least + 1e-9]


def test_several_widths_of_dates_and_what_they_refuse(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT DATE '2001-01-15' + (i * 31)::INT AS born, i AS x FROM range(24) r(i)"
    ).fetchall()
    call = "FROM k_anonymize('t', ['born'], k := {}, bands := {{'born': {}}}, drop := ['x']{})"
    whole = ", method := 'global'"
    levels = "['month', 'quarter', 'year']"
    shown = {k: con.execute(call.format(k, levels, whole)).fetchall()[0][1] for k in (3, 9, 20)}
    assert shown == {3: "[2001-01-01, 2001-04-01)", 9: "[2001-01-01, 2002-01-01)", 20: "*"}
    # A coarser release goes by the narrowest bands.
    con.execute(f"CREATE TABLE w AS {call.format(3, levels, whole)}").fetchall()
    rows = con.execute(call.format(6, levels, ", within := 'w'")).fetchall()
    assert rows[0][1:] == (date(2001, 1, 1), date(2001, 7, 1))
    for bands, more, says in (
        (levels, "", "take method := 'global', or name one width"),
        ("['month', 'week']", whole, "must be a multiple of the one before it"),
        ("['year', 'month']", whole, "must be a multiple of the one before it"),
        ("{'width': ['month', 'year'], 'top': DATE '2001-02-01'}", whole, "must be where a band of every width begins"),
        ("[]", whole, "must be a number above zero"),
    ):
        with pytest.raises(duckdb.Error, match=says):
            con.execute(call.format(3, bands, more)).fetchall()
    with pytest.raises(duckdb.Error, match="name one width"):
        con.execute("FROM k_compare('t', ['x'], k := [2], bands := {'x': [5, 10]})").fetchall()
    with pytest.raises(duckdb.Error, match="name one width"):
        con.execute("FROM k_certificate('t', ['x'], k := 2, bands := {'x': [5, 10]})").fetchall()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("['age', 'x'], bands := {'age': 5}", '"x" has none: name it in hierarchies or bands'),
        ("['age'], bands := {'age': 5}, seconds := 5", "leave seconds and options out"),
        ("['age'], bands := {'age': 5}, options := {'sets': 5}", "leave seconds and options out"),
        ("['age'], bands := {'age': 5}, sensitive := ['x'], t := 0.2, max_suppression := 0.1", "distinct values alone"),
    ],
)
def test_what_global_refuses(con: duckdb.DuckDBPyConnection, given: str, says: str) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS age, i AS x FROM range(20) r(i)").fetchall()
    with pytest.raises(duckdb.Error) as refused:
        con.execute(f"FROM k_anonymize('t', {given}, k := 2, method := 'global')").fetchall()
    assert says in str(refused.value)
    with pytest.raises(duckdb.Error, match="labels for whole columns: call k_anonymize"):
        con.execute("FROM k_compare('t', ['age'], k := [2], methods := ['global'], bands := {'age': 5})").fetchall()


def test_files_of_arx_load_as_they_are(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    levels = [("White", "*"), ("Black", "*"), ("Other", "*")]
    (tmp_path / "race.csv").write_text("".join(";".join(row) + "\n" for row in levels))
    ages = [
        (str(age), f"{age // 5 * 5}-{age // 5 * 5 + 4}", f"{age // 10 * 10}-{age // 10 * 10 + 9}", "*")
        for age in range(100)
    ]
    (tmp_path / "age.csv").write_text("".join(";".join(row) + "\n" for row in ages))
    con.execute(
        "CREATE TABLE t AS SELECT (hash(i) % 90)::INT AS age, "
        "['White', 'Black', 'Other'][1 + (hash(i + 1) % 3)::INT] AS race FROM range(200) r(i)"
    ).fetchall()
    found = con.execute(
        "SELECT age_label, race_label, count(*) FROM k_anonymize('t', ['age', 'race'], k := 4, hierarchies := "
        f"MAP {{'age': '{tmp_path}/age.csv', 'race': '{tmp_path}/race.csv'}}) GROUP BY ALL"
    ).fetchall()
    assert min(count for *_, count in found) >= 4
    assert {race for _, race, _ in found} <= {"White", "Black", "Other", "*"}
    assert {age for age, *_ in found} <= {label for row in ages for label in row}
    assert "0-9" in {age for age, *_ in found} or any("-" in age for age, *_ in found)


def test_expressions_as_levels(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (10000 + hash(i) % 40 * 250)::VARCHAR AS zip, hash(i + 1) % 9 AS x "
        "FROM range(99) r(i)"
    ).fetchall()
    call = "k_anonymize('t', ['zip', 'x'], k := 3, hierarchies := {'ZIP': ['left(zip, 3) -- area', 'left(zip, 2)']})"
    found = con.execute(f"SELECT zip_label, count(*) FROM {call} GROUP BY ALL").fetchall()
    assert {len(label) for label, _ in found} <= {5, 3, 2, 1}
    assert sum(count for _, count in found) == 99


def test_exact_proves_with_both(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (hash(i) % 60)::INT AS age, 'c' || hash(i + 1) % 6 AS city FROM range(60) r(i)"
    ).fetchall()
    con.execute(
        "CREATE TABLE cities AS SELECT 'c' || i AS city, 'r' || i % 2 AS region, 'all' AS country FROM range(8) r(i)"
    ).fetchall()
    ((loss, bound),) = con.execute(
        "SELECT information_loss, lower_bound FROM k_compare('t', ['age', 'city'], k := [3], methods := ['exact'], "
        "bands := {'age': 10}, hierarchies := {'city': 'cities'})"
    ).fetchall()
    assert bound == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("bands := 5", "bands must give a width by name, as in bands := {'age': 5, 'born': 'year'}."),
        ("bands := {'pay': 5}", 'bands names "pay", which is not in qi: quasi-identifiers alone have bands.'),
        ("bands := {'age': -5}", "must be a number above zero"),
        ("bands := {'age': 'fortnight'}", "must be a number above zero"),
        ("bands := {'age': '0 days'}", "must be a number above zero"),
        ("bands := {'age': {'widht': 5}}", "have a width, and may have a bottom and a top"),
        ("bands := {'age': {'width': 5, 'bottom': 20, 'top': 20}}", "must be below their top"),
        ("bands := {'born': 5}", 'Column "born" holds dates: give its bands days'),
        ("bands := {'born': {'width': 'month', 'top': 'x'}}", "must be a date, as in '1950-01-01'"),
        ("bands := {'born': {'width': 'month', 'top': '2000-01-02'}}", "must be where a band begins"),
        ("bands := {'zoned': 'year'}", "is no number, date or timestamp"),
        ("bands := {'city': 5}, categorical := ['city']", "in both categorical and bands"),
        ("bands := {'age': 5}, hierarchies := {'age': 'cities'}", "is in hierarchies and in categorical or bands"),
        ("bands := {'far': 1}", 'Column "far" holds an infinite value, or one too large'),
        ("hierarchies := ['city']", "hierarchies must give a table, or a list of expressions, by name"),
        ("hierarchies := {'pay': 'cities'}", 'hierarchies names "pay", which is not in qi'),
        ("hierarchies := {'city': []}", "must be a table or a list of expressions"),
        ("hierarchies := {'city': 'few'}", 'Column "city" holds a value that its hierarchy lacks'),
        ("hierarchies := {'city': 'none'}", "has no rows"),
        ("hierarchies := {'city': 'twice'}", "is no tree: a value has two labels above it"),
        ("hierarchies := {'city': 'graph'}", "is no tree: a label on level 1 above the values has two labels above it"),
        ("hierarchies := {'city': 'gaps'}", "has a row without a label on some level"),
        ("hierarchies := {'city': 'other'}", "has one label for different sets of values on two levels"),
    ],
)
@pytest.mark.parametrize("function", ["k_anonymize", "k_compare"])
def test_what_is_refused(con: duckdb.DuckDBPyConnection, function: str, given: str, says: str) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i::INT AS age, DATE '1990-01-01' + i::INT AS born, 'c' || i % 4 AS city, "
        "TIMESTAMPTZ '2000-01-01 00:00:00+00' AS zoned, 'inf'::DOUBLE AS far FROM range(20) r(i)"
    ).fetchall()
    for name, rows in {
        "few": "('c0', 'r'), ('c1', 'r')",
        "twice": "('c0', 'r'), ('c0', 's'), ('c1', 'r'), ('c2', 'r'), ('c3', 'r')",
        "gaps": "('c0', 'r'), ('c1', NULL), ('c2', 'r'), ('c3', 'r')",
        "other": "('c0', 'c1'), ('c1', 'c1'), ('c2', 'r'), ('c3', 'r')",
    }.items():
        con.execute(f"CREATE TABLE {name} AS FROM (VALUES {rows})").fetchall()
    con.execute("CREATE TABLE graph AS FROM (VALUES ('c0', 'r', 'x'), ('c1', 'r', 'y'), ('c2', 'r', 'x'))").fetchall()
    con.execute("CREATE TABLE none AS FROM few WHERE false").fetchall()
    con.execute("CREATE TABLE cities AS SELECT DISTINCT city, '*' FROM t").fetchall()
    qi = [name for name in ("age", "born", "city", "zoned", "far") if f"'{name}'" in given] or ["age"]
    with pytest.raises(duckdb.Error) as refused:
        con.execute(f"FROM {function}('t', {qi}, k := 2, {given})").fetchall()
    assert says in str(refused.value)
    assert "c0" not in str(refused.value)
