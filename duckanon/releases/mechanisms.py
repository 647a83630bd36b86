"""The mechanisms that answer paid questions. Only here are records of protected tables read for analysts.

Contribution is bounded in this order: the filter, the join with the keys' domains, then the first records of each
privacy unit. They are a sample: which of a unit's records count follows from a hash of the unit and the record, so each
record of a unit is as likely to count as any other, and no other unit has a say in it. Records without a unit or a
group, or with a key outside its domain, are not counted. An answer's form (columns, keys, number of rows) does not
depend on records, and no record can make it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import quoted
from duckanon.engines.quantiles import quantile
from duckanon.engines.randomness import Entropy, Source, double_geometric
from duckanon.releases.key_domains import components
from duckanon.releases.paid_questions import (
    AggregatesQuestion,
    Different,
    DomainFilter,
    GroupSizesQuestion,
    Key,
    Measure,
    Number,
    PaidQuestion,
    Quantiles,
    Records,
    Sums,
    Units,
    columns_of,
)
from duckanon.releases.sizes import Among, Size, UnitsTable

Ints = npt.NDArray[np.int64]
_RECORD = '"duckanon.row"'
# The most cells of an answer, and combinations of keys behind them.
MOST_CELLS = 1_000_000


def draw(con: duckdb.DuckDBPyConnection, question: PaidQuestion, source: Source | None = None) -> pa.Table:
    """The answer with noise. con: a connection of governance's own. source: of randomness; None: the system's."""
    return _BY_KIND[type(question)](con, question, source or Entropy())


def exact(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> list[Ints]:
    """The exact values, with bounded contribution and without noise, in the order of the form.

    For aggregates the totals of each measure, as in `totals`; for group sizes one array of shape (leaf regions,
    max_size).
    """
    size = len(form(con, question))
    if isinstance(question, GroupSizesQuestion):
        return [_sizes(con, question, size)]
    assert isinstance(question, AggregatesQuestion)
    return totals(con, question, size)


def form(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> pa.Table:
    """The columns that identify the answer's cells or leaf regions, in order: k0, k1, ..., then e0, ... for events."""
    columns = len(_grouped(question) or _keys(question))
    told = [f"k{at}" for at in range(columns)] + [f"e{at}" for at in range(len(_events(question)))]
    distinct = f"SELECT DISTINCT {', '.join(['cell', *told]) if told else '*'} FROM ({_form(question)})"
    found: pa.Table = con.sql(f"SELECT * EXCLUDE (cell) FROM ({distinct}) ORDER BY cell").to_arrow_table()
    return found


def columns(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> dict[str, str]:
    """The columns of an answer with their types in DuckDB, by name. They follow from the domains: no record is read."""
    told = con.sql(f"SELECT * EXCLUDE (cell) FROM ({_form(question)})")
    kinds = dict(zip(told.columns, map(str, told.types), strict=True))
    if isinstance(question, GroupSizesQuestion):
        regions = {one.column: kinds[f"k{at}"] for at, one in enumerate(question.hierarchy)}
        return {"level": "INTEGER", **regions, **dict.fromkeys(("size", "groups", "low", "high"), "BIGINT")}
    assert isinstance(question, AggregatesQuestion)
    found = {one: kinds[one] for one in question.columns if one in kinds}
    for at, (one, _) in enumerate(question.measures):
        found |= dict.fromkeys(columns_of(at, one), "DOUBLE" if isinstance(one, Sums | Quantiles) else "BIGINT")
    return found


def cells(con: duckdb.DuckDBPyConnection, question: PaidQuestion, most: int = MOST_CELLS) -> int:
    """The number of cells, or of leaf regions, that the conditions on keys leave.

    It follows from the domains alone. Of more than `most` only that there are more is sure. Raises UnsupportedQuery for
    conditions on keys that would be tried on too many combinations.
    """
    product = question.outcomes if isinstance(question, AggregatesQuestion) else 1
    for one in components(question.location.database, _keys(question), _domain_filters(question)):
        product *= one.size(con, most)
    return len(form(con, question)) if _grouped(question) and product <= most else product


# --- aggregates -------------------------------------------------------------------------------------------------------


def _noisy_aggregates(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, source: Source) -> pa.Table:
    keys = form(con, question)
    found = zip(question.measures, totals(con, question, len(keys)), strict=True)
    noisy = [noised(question, measure, one, source) for (measure, _), one in found]
    return answer(question, keys, noisy)


def totals(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, size: int) -> list[Ints]:
    """The exact totals of each measure: int64 of shape (cells, totals of the measure).

    Of quantiles, int64 of shape (cells, steps + 1): how many records have each value.
    """
    places = [(at, one) for at, (one, _) in enumerate(question.measures)]
    summed = [(at, one, _totals(at, one)) for at, one in places if not isinstance(one, Quantiles)]
    shown = ", ".join(f"CAST({one} AS BIGINT) AS t{at}_{j}" for at, _, own in summed for j, one in enumerate(own))
    found: dict[int, Ints] = {}
    if summed:
        rows = _of_cells(con, question, f"SELECT cell, {shown} FROM _dk_bounded GROUP BY cell")
        for at, _, own in summed:
            found[at] = np.zeros((size, len(own)), dtype=np.int64)
            for j in range(len(own)):
                found[at][rows["cell"], j] = rows[f"t{at}_{j}"]
    for at, one in places:
        if isinstance(one, Quantiles):
            counted = (
                f"SELECT cell, i{at}, system.main.count(*) AS n FROM _dk_bounded WHERE i{at} IS NOT NULL GROUP BY ALL"
            )
            rows = _of_cells(con, question, counted)
            found[at] = np.zeros((size, one.number.steps + 1), dtype=np.int64)
            found[at][rows["cell"], rows[f"i{at}"]] = rows["n"]
    return [found[at] for at, _ in places]


def _of_cells(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, query: str) -> dict[str, Ints]:
    """The columns of a query over _dk_bounded, the records that count."""
    found = con.execute(
        f"WITH _dk_form AS MATERIALIZED ({_form(question)}), _dk_placed AS ({_placed(con, question)}), "
        f"{_bounded(question)} {query}"
    ).fetchnumpy()
    return {name: np.asarray(one).astype(np.int64) for name, one in found.items()}


def _totals(at: int, measure: Measure) -> list[str]:
    """The totals of a measure over the records of a cell, as SQL; i<at> is what `_values` shows of it."""
    if isinstance(measure, Records):
        return ["system.main.count(*)"]
    if isinstance(measure, Units):
        return ["system.main.count(DISTINCT u)"]
    if isinstance(measure, Different):
        return [f"system.main.count(DISTINCT i{at})"]
    assert isinstance(measure, Sums)
    up, down = f"i{at}", f"({measure.number.steps} - i{at})"
    parts = [f"{down} * {down}", f"2 * {up} * {down}", f"{up} * {up}"] if measure.squares else [down, up]
    found = [f"coalesce(system.main.sum({one}), 0)" for one in parts]
    missing = f"system.main.count(*) FILTER (WHERE i{at} IS NULL) * {measure.whole}"
    return [*found, missing] if measure.missing else found


def noised(question: AggregatesQuestion, measure: Measure, exactly: Ints, source: Source) -> Ints:
    """The totals of a measure with noise; of quantiles, the numbers of the chosen steps.

    Quantiles are chosen by permute-and-flip. A record moves the losses of one cell only, each by at most their
    sensitivity, so the records of one unit change all choices together by no more than a shift of the counts by as many
    records.
    """
    scale = question.noise(measure)
    if isinstance(measure, Quantiles):
        price = 1 / (scale * len(measure.at))
        return np.array(
            [[quantile(one, Fraction(place), price, source) for place in measure.at] for one in exactly], dtype=np.int64
        ).reshape(len(exactly), len(measure.at))
    whole = measure.whole if isinstance(measure, Sums) else 1
    return exactly + double_geometric(scale * whole, exactly.shape, source)


def answer(question: AggregatesQuestion, keys: pa.Table, noisy: Sequence[Ints]) -> pa.Table:
    """The answer as it is stored: the keys of the form, and the columns of each measure."""
    shown = [one for one in keys.column_names if one[0] in "ke"]
    columns = [keys.column(one) for one in shown]
    for (measure, _), one in zip(question.measures, noisy, strict=True):
        columns += map(pa.array, _columns(measure, one))
    return pa.table(columns, names=question.columns)


def _columns(measure: Measure, noisy: Ints) -> list[Any]:
    """The columns of a measure, in the order of the question's."""
    if isinstance(measure, Records | Units | Different):
        return [noisy[:, 0]]
    low, step = float(Fraction(measure.number.low)), float(Fraction(measure.number.step))
    if isinstance(measure, Quantiles):
        return [low + noisy[:, at] * step for at in range(len(measure.at))]
    parts, width = noisy / measure.whole, float(measure.number.high) - low
    ends = parts[:, : measure.degree + 1]
    n = ends.sum(axis=1)
    way = ends[:, 1] / 2 + ends[:, 2] if measure.squares else ends[:, 1]
    squares = [low**2 * n + 2 * low * width * way + width**2 * ends[:, 2]] if measure.squares else []
    return [n, low * n + width * way, *squares, *([parts[:, -1]] if measure.missing else [])]


# --- group sizes ------------------------------------------------------------------------------------------------------


def _noisy_sizes(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion, source: Source) -> pa.Table:
    from duckanon.engines.groups.hierarchy import Hierarchy
    from duckanon.engines.groups.release import plan

    leaves = form(con, question)
    ranks = _ranks(leaves, len(question.hierarchy))
    parents = tuple(_parents(upper, lower) for upper, lower in pairwise(ranks))
    released = plan(Hierarchy(parents), _sizes(con, question, len(leaves)), **question.engine).release(source)
    tables = [
        _level(question, leaves, ranks, level, one.groups, one.low, one.high)
        for level, one in enumerate(released.levels)
    ]
    return pa.concat_tables(tables)


def _sizes(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion, leaves: int) -> Ints:
    """int64 of shape (leaf regions, sizes): how many groups of each size there are, from the least size on."""
    found = con.execute(
        f"WITH _dk_form AS MATERIALIZED ({_form(question)}), _dk_placed AS ({_members(con, question)}), "
        f"{_bounded(question)}, _dk_groups AS ({_groups(con, question)}) "
        "SELECT cell, size, system.main.count(*) AS n FROM _dk_groups GROUP BY ALL"
    ).fetchnumpy()
    sizes = np.zeros((leaves, question.sizes), dtype=np.int64)
    cell, size, n = (np.asarray(found[name]).astype(np.int64) for name in ("cell", "size", "n"))
    sizes[cell, size - question.least] = n
    return sizes


def _members(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion) -> str:
    """A query for the records that may count: the unit `u`, the group `g0`, ..., the cell, and what each adds, `w`."""
    shown, tests = [f"{_added(question.size)} AS w"], [*question.filter, *map(_is_among, question.among)]
    if question.privacy_unit is not None:
        shown.append(f"{quoted([question.privacy_unit])} AS u")
        tests.append(f"{quoted([question.privacy_unit])} IS NOT NULL")
    shown += [f"{one} AS g{at}" for at, one in enumerate(_group(question))]
    tests.append(f"{quoted([question.group])} IS NOT NULL")
    shown += [f"{_compared(quoted([one.column]), one)} AS c{at}" for at, one in enumerate(question.hierarchy)]
    where = " AND ".join(f"({one})" for one in tests)
    records = _by_bytes(
        con,
        f"SELECT {', '.join(shown)} FROM {quoted(question.location.path)} AS {_RECORD} WHERE {where}",
        ["w", *(["u"] if question.privacy_unit is not None else []), *_group_names(question)],
    )
    met = [f"c{at} IS NOT DISTINCT FROM {_compared(f'k{at}', one)}" for at, one in enumerate(question.hierarchy)]
    return f"SELECT _dk_records.*, cell FROM ({records}) AS _dk_records JOIN _dk_form ON {' AND '.join(met) or 'true'}"


def _is_among(one: Among) -> str:
    where = f" WHERE {' AND '.join(f'({test})' for test in one.filter)}" if one.filter else ""
    rows = f"SELECT {quoted([one.column])} FROM {quoted(one.location.path)} AS _dk_open{where}"
    return f"{_RECORD}.{quoted([one.own])} IN ({rows})"


def _group(question: GroupSizesQuestion) -> list[str]:
    """What identifies a group, as SQL."""
    return list(question.computed) or [quoted([one]) for one in (question.group, *question.within)]


def _group_names(question: GroupSizesQuestion) -> list[str]:
    """What `_members` calls the columns that identify a group."""
    return [f"g{at}" for at in range(len(_group(question)))]


def _added(size: Size) -> str:
    """What a record adds to its group, as SQL that cannot fail: a number of steps, or for 'distinct' a value."""
    counts = " AND ".join(f"({one})" for one in size.where) or "true"
    if size.column is None:
        return f"CASE WHEN {counts} THEN 1 ELSE 0 END"
    if size.what == "distinct":
        return f"CASE WHEN {counts} THEN {quoted([size.column])} END"
    # NaN is the largest number in DuckDB.
    value = f"system.main.round(CAST({quoted([size.column])} AS DOUBLE) / {float(size.step)!r})"
    clamped = f"system.main.least(system.main.greatest({value}, {float(size.low)!r}), {float(size.high)!r})"
    return f"CASE WHEN {counts} THEN CAST({clamped} AS BIGINT) ELSE 0 END"


def _groups(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion) -> str:
    """A query for the groups with their cells and sizes, from the records that count."""
    counted = "system.main.count(DISTINCT w)" if question.size.what == "distinct" else "system.main.sum(w)"
    size = f"CAST(system.main.least({counted}, {question.largest}) AS BIGINT) AS size"
    if question.units is not None:
        return _of_units(con, question.units, size)
    return f"SELECT cell, {size} FROM _dk_bounded GROUP BY {', '.join([*_group_names(question), 'cell'])}"


def _of_units(con: duckdb.DuckDBPyConnection, units: UnitsTable, size: str) -> str:
    """A query for all units of a table with their sizes."""
    column = quoted([units.column])
    tests = " AND ".join(f"({one})" for one in (*units.filter, f"{column} IS NOT NULL"))
    all_units = f"SELECT {column} AS u FROM {quoted(units.location.path)} AS {_RECORD} WHERE {tests}"
    return (
        f"SELECT 0 AS cell, coalesce(size, 0) AS size "
        f"FROM (SELECT DISTINCT u FROM ({_by_bytes(con, all_units, ['u'])})) AS _dk_known "
        f"LEFT JOIN (SELECT g0 AS u, {size} FROM _dk_bounded GROUP BY ALL) AS _dk_own ON _dk_known.u = _dk_own.u"
    )


def _ranks(leaves: pa.Table, depth: int) -> list[Ints]:
    """For each level, the root first, the number of the region in which each leaf lies; leaves and regions are in
    order.
    """
    ranks = [np.zeros(len(leaves), dtype=np.int64)]
    new = np.zeros(len(leaves), dtype=bool)
    for level in range(depth):
        values = leaves.column(f"k{level}").combine_chunks().dictionary_encode().indices
        codes = values.fill_null(-1).to_numpy(zero_copy_only=False)
        new = new | np.concatenate([[True], codes[1:] != codes[:-1]])
        ranks.append((np.cumsum(new) - 1).astype(np.int64))
    return ranks


def _parents(upper: Ints, lower: Ints) -> Ints:
    """The number of each region's parent."""
    return upper[np.unique(lower, return_index=True)[1]]


def _level(
    question: GroupSizesQuestion, leaves: pa.Table, ranks: list[Ints], level: int, groups: Ints, low: Ints, high: Ints
) -> pa.Table:
    """One level of a release as rows: level, the regions' columns, size, groups, low, high."""
    first = np.unique(ranks[level], return_index=True)[1]
    rows = np.repeat(first, question.sizes)
    columns: dict[str, Any] = {"level": pa.array(np.full(len(rows), level, dtype=np.int32))}
    for at, one in enumerate(question.hierarchy):
        values = leaves.column(f"k{at}")
        columns[one.column] = values.take(pa.array(rows)) if at < level else pa.nulls(len(rows), values.type)
    sizes = np.arange(question.least, question.max_size + 1, dtype=np.int64) * question.size.step
    columns["size"] = pa.array(np.tile(sizes, len(first)))
    columns |= {name: pa.array(one.reshape(-1)) for name, one in (("groups", groups), ("low", low), ("high", high))}
    return pa.table(columns)


# --- queries ----------------------------------------------------------------------------------------------------------


def _keys(question: PaidQuestion) -> tuple[Key, ...]:
    return question.hierarchy if isinstance(question, GroupSizesQuestion) else question.keys  # type: ignore[attr-defined]


def _domain_filters(question: PaidQuestion) -> tuple[DomainFilter, ...]:
    return question.domain_filters if isinstance(question, AggregatesQuestion) else ()


def _form(question: PaidQuestion) -> str:
    """A query for all combinations of keys (b0, ...) that the conditions on keys leave, and events (e0, ...), each with
    the number of its cell and what that is shown by (k0, ...).
    """
    keys, events, grouped = _keys(question), _events(question), _grouped(question)
    parts = [one.query for one in components(question.location.database, keys, _domain_filters(question))]
    parts += [
        f"(SELECT CAST(range AS INTEGER) AS e{at} FROM system.main.range({len(one) + 1})) AS _dk_event{at}"
        for at, one in enumerate(events)
    ]
    if not parts:
        return "SELECT 0 AS cell, 0 AS whole"
    shown = [f"{one} AS k{at}" for at, one in enumerate(grouped)] if grouped else [f"k{at}" for at in range(len(keys))]
    base = [f"k{at} AS b{at}" for at in range(len(keys))]
    told = [f"k{at}" for at in range(len(shown))] + [f"e{at}" for at in range(len(events))]
    columns = ", ".join([*base, *shown, *(f"e{at}" for at in range(len(events)))])
    order = ", ".join(f"{one} ASC NULLS LAST" for one in told)
    numbered = f"SELECT system.main.dense_rank() OVER (ORDER BY {order}) - 1 AS cell, *"
    return f"{numbered} FROM (SELECT {columns} FROM {' CROSS JOIN '.join(parts)}) AS _dk_combinations"


def _placed(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> str:
    """A query for the records that may count, each with its unit `u`, its numbers and its cell."""
    shown, tests = [], list(question.filter)
    unit = question.privacy_unit
    if unit is not None:
        shown.append(f"{quoted([unit])} AS u")
        tests.append(f"{quoted([unit])} IS NOT NULL")
    shown += [f"{_compared(quoted([one.column]), one)} AS c{at}" for at, one in enumerate(_keys(question))]
    shown += [f"{_outcome(one)} AS d{at}" for at, one in enumerate(_events(question))]
    values = _values(question)
    shown += [f"{value} AS i{at}" for at, value in values]
    path = quoted(question.location.path)
    where = f" WHERE {' AND '.join(f'({one})' for one in tests)}" if tests else ""
    told = [*(["u"] if unit is not None else []), "cell", *(f"i{at}" for at, _ in values)]
    records = _by_bytes(con, f"SELECT {', '.join(shown) or '0 AS whole'} FROM {path} AS {_RECORD}{where}", told)
    met = [f"c{at} IS NOT DISTINCT FROM {_compared(f'b{at}', one)}" for at, one in enumerate(_keys(question))]
    met += [f"d{at} = e{at}" for at in range(len(_events(question)))]
    return f"SELECT {', '.join(told)} FROM ({records}) JOIN _dk_form ON {' AND '.join(met) or 'true'}"


def _events(question: PaidQuestion) -> tuple[tuple[str, ...], ...]:
    return question.events if isinstance(question, AggregatesQuestion) else ()


def _grouped(question: PaidQuestion) -> tuple[str, ...]:
    return question.grouped if isinstance(question, AggregatesQuestion) else ()


def _values(question: PaidQuestion) -> list[tuple[int, str]]:
    """What is measured of each record, as SQL, with the position of its measure: a number's steps, or a value."""
    measures = question.measures if isinstance(question, AggregatesQuestion) else ()
    found = []
    for at, (one, _) in enumerate(measures):
        if isinstance(one, Sums | Quantiles):
            found.append((at, _step(one.number)))
        elif isinstance(one, Different):
            found.append((at, quoted([one.column])))
    return found


def _outcome(conditions: Sequence[str]) -> str:
    """The position of the first condition that holds for a record; after the last if none does."""
    tried = " ".join(f"WHEN {one} THEN {at}" for at, one in enumerate(conditions))
    return f"(CASE {tried} ELSE {len(conditions)} END)"


def _step(one: Number) -> str:
    """A number of a record as steps from the least value; NULL for NULL. It cannot fail: NaN is the largest."""
    value = f"CAST({quoted([one.column])} AS DOUBLE)"
    low, high, step = (
        f"CAST('{float(each)!r}' AS DOUBLE)" for each in (Fraction(one.low), one.high, Fraction(one.step))
    )
    clamped = f"system.main.least(system.main.greatest({value}, {low}), {high})"
    steps = f"CAST(system.main.round(({clamped} - {low}) / {step}) AS BIGINT)"
    kept = f"system.main.least(system.main.greatest({steps}, 0), {one.steps})"
    return f"(CASE WHEN {quoted([one.column])} IS NOT NULL THEN {kept} END)"


def _compared(name: str, one: Key) -> str:
    """A key as it is compared with its domain: text by its bytes, so that each record lies in one cell.

    Under a collation that ignores case, a record with 'a' would lie in the cells of 'a' and of 'A', and count twice.
    """
    return _bytes(name) if one.kind == "VARCHAR" else name


def _bytes(text: str) -> str:
    return f"system.main.encode(CAST({text} AS VARCHAR))"


def _by_bytes(con: duckdb.DuckDBPyConnection, query: str, names: Sequence[str]) -> str:
    """The query, with bytes for text in those of its columns that are among `names`.

    A collation, which may be the connection's, takes different texts for equal. Two units would be one then, until one
    of them leaves; and their hashes would differ.
    """
    told = con.sql(query)
    kinds = dict(zip(told.columns, told.types, strict=True))
    texts = [one for one in names if one in kinds and kinds[one].id in ("varchar", "enum")]
    if not texts:
        return query
    return f"SELECT * REPLACE ({', '.join(f'{_bytes(one)} AS {one}' for one in texts)}) FROM ({query})"


# --- contribution -----------------------------------------------------------------------------------------------------


def _bounded(question: PaidQuestion) -> str:
    """CTEs of which the last, _dk_bounded, has the records of _dk_placed that count.

    A unit's first records count; or if the unit is the group, those in the leaf region of its first record. Units all
    of whose records count are found first, by counting: putting records in order is slow, and is done for the others.
    """
    if question.privacy_unit is None:
        return "_dk_bounded AS (SELECT * FROM _dk_placed)"
    too_many = f"system.main.count(*) > {question.contributions}"
    counts = f"system.main.row_number() OVER first <= {question.contributions}"
    if isinstance(question, GroupSizesQuestion):
        row = ["cell", *_group_names(question), "w"]
        if question.units is not None:
            return "_dk_bounded AS (SELECT * FROM _dk_placed)"
        if question.is_unit:
            too_many = "system.main.min(cell) <> system.main.max(cell)"
            counts = "cell = system.main.first_value(cell) OVER first"
    else:
        row = ["cell", *(f"i{at}" for at, _ in _values(question))]
    same = "_dk_placed.u IS NOT DISTINCT FROM _dk_cut.u"
    return (
        f"_dk_cut AS MATERIALIZED (SELECT u FROM _dk_placed GROUP BY u HAVING {too_many}), "
        f"_dk_copies AS ({_with_copies('_dk_placed SEMI JOIN _dk_cut ON ' + same, row)}), "
        f"_dk_bounded AS (SELECT _dk_placed.* FROM _dk_placed ANTI JOIN _dk_cut ON {same} UNION ALL BY NAME "
        f"SELECT * EXCLUDE (copy) FROM _dk_copies WINDOW first AS ({_order(row)}) QUALIFY {counts})"
    )


def _with_copies(records: str, row: Sequence[str]) -> str:
    """A query that numbers the equal records of each unit, from 1, in the column `copy`.

    row: the columns that make a difference. Records that are equal in them are interchangeable, so it does not matter
    which of them gets which number.
    """
    equal = ", ".join(["u", *row])
    return f"SELECT _dk_placed.*, system.main.row_number() OVER (PARTITION BY {equal}) AS copy FROM {records}"


def _order(row: Sequence[str]) -> str:
    """A window: each unit's records in an order that differs from unit to unit as if it were drawn.

    Without the unit in the hash, all units would lose the same cells; without the copies' numbers, equal records would
    count together or not at all. DuckDB's hash of several values ends in an XOR with the last one's, and XOR with a
    fixed number does not put three numbers into each order equally often: so the hash is hashed again.
    """
    mixed = ", ".join(["u", *row, "copy"])
    ties = ", ".join(f"{one} ASC NULLS LAST" for one in [*row, "copy"])
    return f"PARTITION BY u ORDER BY system.main.hash(system.main.hash({mixed})) ASC, {ties}"


_BY_KIND: dict[type[PaidQuestion], Callable[[duckdb.DuckDBPyConnection, Any, Source], pa.Table]] = {
    AggregatesQuestion: _noisy_aggregates,
    GroupSizesQuestion: _noisy_sizes,
}
