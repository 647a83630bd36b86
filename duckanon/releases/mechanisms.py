"""The mechanisms that answer paid questions. Only here are records of protected tables read for analysts.

Contribution is bounded in this order: the filter, the join with the keys' domains, then a sample of the records of each
privacy unit. They are a sample: which of a unit's records count follows from a hash of the unit and the record, so each
record of a unit is as likely to count as any other, and no other unit has a say in it. Records without a unit or a
group, or with a key outside its domain, are not counted. An answer's form (columns, keys, number of rows) does not
depend on records, and no record can make it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.catalog.names import quoted
from duckanon.engines.randomness import Entropy, Source
from duckanon.releases import layout
from duckanon.releases.key_domains import components
from duckanon.releases.measures import MOST_CELLS, Ints, Measure, Units
from duckanon.releases.paid_questions import AggregatesQuestion, DomainFilter, GroupSizesQuestion, Key, PaidQuestion
from duckanon.releases.sizes import Among, UnitsTable

_RECORD = '"duckanon.row"'


def draw(con: duckdb.DuckDBPyConnection, question: PaidQuestion, source: Source | None = None) -> pa.Table:
    """The answer with noise. con: a connection of governance's own. source: of randomness; None: the system's."""
    return _BY_KIND[type(question)].draw(con, question, source or Entropy())


def bind(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> None:
    """Let DuckDB bind what puts records into cells, without reading one. Raises DuckDB's error where it cannot.

    A question over one table has been bound in all its parts; one over a relation is bound here. The answers of other
    questions that it needs may not be there yet: such a one is left.
    """
    if not isinstance(question, AggregatesQuestion) or question.relation is None:
        return
    if not question.needs:
        con.sql(f"WITH _dk_form AS ({_form(question)}) {_placed(con, question)}")


def exact(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> list[Ints]:
    """The exact values, with bounded contribution and without noise, in the order of the form.

    For aggregates the totals of each measure, as in `totals`; for group sizes one array of shape (leaf regions,
    max_size).
    """
    return _BY_KIND[type(question)].exact(con, question, len(form(con, question)))


def form(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> pa.Table:
    """The columns that identify the answer's cells or leaf regions, in order: k0, k1, ..., then e0, ... for events."""
    told = question.form.cell
    distinct = f"SELECT DISTINCT {', '.join(['cell', *told]) if told else '*'} FROM ({_form(question)})"
    found: pa.Table = con.sql(f"SELECT * EXCLUDE (cell) FROM ({distinct}) ORDER BY cell ASC").to_arrow_table()
    return found


def columns(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> dict[str, str]:
    """The columns of an answer with their types in DuckDB, by name. They follow from the domains: no record is read."""
    told = con.sql(f"SELECT * EXCLUDE (cell) FROM ({_form(question)})")
    return question.types(dict(zip(told.columns, map(str, told.types), strict=True)))


def invented(con: duckdb.DuckDBPyConnection, question: PaidQuestion, number: str) -> str:
    """A query for an answer with its cells, in all of which each number is the same. It reads domains alone."""
    told = [
        name if name in question.form.cell else f"CAST({number} AS {kind}) AS {quoted([name])}"
        for name, kind in columns(con, question).items()
    ]
    return f"SELECT DISTINCT {', '.join(told)} FROM ({_form(question)}) AS _dk_cells"


def cells(con: duckdb.DuckDBPyConnection, question: PaidQuestion, most: int = MOST_CELLS) -> int:
    """The number of cells, or of leaf regions, that the conditions on keys leave.

    It follows from the domains alone. Of more than `most` only that there are more is sure. Raises UnsupportedQuery for
    conditions on keys that would be tried on too many combinations.
    """
    of = question.form
    product = of.outcomes
    if not of.keys:
        product *= len(con.execute(f"SELECT 1{_constants(of.filters)}").fetchall())
    for one in components(question.location.database, of.keys, of.filters):
        product *= one.size(con, most)
    return len(form(con, question)) if of.grouped and product <= most else product


def shows_nothing(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> bool:
    """Whether the conditions on keys leave no cell of an answer. It follows from the domains alone."""
    if not isinstance(question, AggregatesQuestion) or not (question.domain_filters or question.around):
        return False
    return cells(con, replace(question, domain_filters=(*question.domain_filters, *question.around)), 1) == 0


# --- aggregates -------------------------------------------------------------------------------------------------------


def _noisy_aggregates(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, source: Source) -> pa.Table:
    keys = form(con, question)
    # What a unit can change was decided from this number.
    assert all(one.cells in (None, len(keys)) for one, _ in question.measures if isinstance(one, Units))
    found = zip(question.measures, totals(con, question, len(keys)), strict=True)
    noisy = [noised(question, measure, one, source) for (measure, _), one in found]
    return answer(question, keys, noisy)


def totals(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, size: int) -> list[Ints]:
    """The exact totals of each measure: int64, or objects for wide ones, of shape (cells, totals of the measure).

    Of quantiles, int64 of shape (cells, steps + 1): how many records have each value.
    """
    places = [(layout.value(at), one, one.totals(layout.value(at))) for at, (one, _) in enumerate(question.measures)]
    shown = [
        f"CAST({part} AS BIGINT) AS {name}"
        for at, (_, measure, own) in enumerate(places)
        for j, one in enumerate(own)
        for name, part in _halves(layout.total(at, j), one, is_wide=measure.is_wide)
    ]
    rows = _of_cells(con, question, f"SELECT cell, {', '.join(shown)} FROM _dk_bounded GROUP BY cell") if shown else {}
    found = []
    for at, (value, one, own) in enumerate(places):
        if one.steps is not None:
            found.append(_by_value(con, question, value, size, one.steps))
            continue
        found.append(np.zeros((size, len(own)), dtype=object if one.is_wide else np.int64))
        for j in range(len(own)):
            low, *high = (rows[name] for name, _ in _halves(layout.total(at, j), "", is_wide=one.is_wide))
            found[at][rows["cell"], j] = low.astype(object) + _HALF * high[0].astype(object) if high else low
    return found


# Wide totals come as two numbers of 64 bits: the rest and the quotient by this.
_HALF = 2**62


def _halves(name: str, total: str, *, is_wide: bool) -> list[tuple[str, str]]:
    """The columns that a total is read by, with their SQL."""
    return [(name, f"({total}) % {_HALF}"), (f"{name}_high", f"({total}) // {_HALF}")] if is_wide else [(name, total)]


def _by_value(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, value: str, size: int, steps: int) -> Ints:
    """int64 of shape (cells, steps + 1): how many records have each value of a column."""
    counted = f"SELECT cell, {value}, system.main.count(*) AS n FROM _dk_bounded WHERE {value} IS NOT NULL GROUP BY ALL"
    rows, found = _of_cells(con, question, counted), np.zeros((size, steps + 1), dtype=np.int64)
    found[rows["cell"], rows[value]] = rows["n"]
    return found


def _of_cells(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, query: str) -> dict[str, Ints]:
    """The columns of a query over _dk_bounded, the records that count."""
    found = con.execute(
        f"WITH _dk_form AS MATERIALIZED ({_form(question)}), _dk_placed AS ({_placed(con, question)}), "
        f"{_bounded(question)} {query}"
    ).fetchnumpy()
    return {name: np.asarray(one).astype(np.int64) for name, one in found.items()}


def noised(question: AggregatesQuestion, measure: Measure, exactly: Ints, source: Source) -> Ints:
    """The totals of a measure with noise; of quantiles, the numbers of the chosen steps."""
    return measure.noised(exactly, question.noise(measure), source)


def answer(question: AggregatesQuestion, keys: pa.Table, noisy: Sequence[Ints]) -> pa.Table:
    """The answer as it is stored: the keys of the form, and the columns of each measure."""
    columns = [keys.column(one) for one in question.form.cell]
    for (measure, _), one in zip(question.measures, noisy, strict=True):
        columns += map(pa.array, measure.decoded(one))
    return pa.table(columns, names=question.columns)


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
    shown, tests = [f"{question.size.added} AS w"], [*question.filter, *map(_is_among, question.among)]
    if question.privacy_unit is not None:
        shown.append(f"{quoted([question.privacy_unit])} AS u")
        tests.append(f"{quoted([question.privacy_unit])} IS NOT NULL")
    shown += [f"{one} AS {name}" for name, one in question.identifying]
    tests.append(f"{quoted([question.group])} IS NOT NULL")
    shown += _own_keys(question)
    where = " AND ".join(f"({one})" for one in tests)
    records = _by_bytes(
        con,
        f"SELECT {', '.join(shown)} FROM {question.records} AS {_RECORD} WHERE {where}",
        ["u", *(name for name, _ in question.values)],
    )
    met = _keys_met(question)
    return f"SELECT _dk_records.*, cell FROM ({records}) AS _dk_records JOIN _dk_form ON {' AND '.join(met) or 'true'}"


def _is_among(one: Among) -> str:
    return f"{_RECORD}.{quoted([one.own])} IN ({one.values})"


def _groups(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion) -> str:
    """A query for the groups with their cells and sizes, from the records that count."""
    size = f"CAST(system.main.least({question.size.total}, {question.largest}) AS BIGINT) AS size"
    if question.units is not None:
        return _of_units(con, question.units, size)
    names = [name for name, _ in question.identifying]
    return f"SELECT cell, {size} FROM _dk_bounded GROUP BY {', '.join([*names, 'cell'])}"


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
        values = leaves.column(layout.key(level)).combine_chunks().dictionary_encode().indices
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
        values = leaves.column(layout.key(at))
        columns[one.column] = values.take(pa.array(rows)) if at < level else pa.nulls(len(rows), values.type)
    sizes = np.arange(question.least, question.max_size + 1, dtype=np.int64) * question.size.step
    columns["size"] = pa.array(np.tile(sizes, len(first)))
    columns |= {name: pa.array(one.reshape(-1)) for name, one in (("groups", groups), ("low", low), ("high", high))}
    return pa.table(columns)


# --- queries ----------------------------------------------------------------------------------------------------------


def _form(question: PaidQuestion) -> str:
    """A query for all combinations of keys (b0, ...) that the conditions on keys leave, and events (e0, ...), each with
    the number of its cell and what that is shown by (k0, ...).
    """
    of = question.form
    events = list(map(layout.event, range(len(of.events))))
    parts = [one.query for one in components(question.location.database, of.keys, of.filters)]
    parts += [
        f"(SELECT CAST(range AS INTEGER) AS {name} FROM system.main.range({len(one) + 1})) AS _dk_event_{name}"
        for name, one in zip(events, of.events, strict=True)
    ]
    where = "" if of.keys else _constants(of.filters)
    if not parts:
        return f"SELECT 0 AS cell, 0 AS whole{where}"
    keys = list(map(layout.key, range(len(of.keys))))
    base = [f"{one} AS {layout.base(at)}" for at, one in enumerate(keys)]
    shown = [f"{one} AS {layout.key(at)}" for at, one in enumerate(of.grouped)] or keys
    order = ", ".join(f"{one} ASC NULLS LAST" for one in of.cell)
    numbered = f"SELECT system.main.dense_rank() OVER (ORDER BY {order}) - 1 AS cell, *"
    columns = ", ".join([*base, *shown, *events])
    return f"{numbered} FROM (SELECT {columns} FROM {' CROSS JOIN '.join(parts)}{where}) AS _dk_combinations"


def _constants(filters: Sequence[DomainFilter]) -> str:
    """The WHERE of a question without keys: its conditions that read no column, such as `1 = 0`."""
    tests = " AND ".join(f"({one.sql})" for one in filters)
    return f" WHERE {tests}" if tests else ""


def _placed(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> str:
    """A query for the records that may count, each with its unit `u`, its numbers and its cell."""
    shown, tests = [], [*question.filter, *question.of_keys]
    unit = question.privacy_unit
    if unit is not None:
        shown.append(f"{quoted([unit])} AS u")
        tests.append(f"{quoted([unit])} IS NOT NULL")
    shown += _own_keys(question)
    shown += [f"{_outcome(one)} AS {layout.own_event(at)}" for at, one in enumerate(question.events)]
    shown += [f"{value} AS {name}" for name, value in question.values]
    where = f" WHERE {' AND '.join(f'({one})' for one in tests)}" if tests else ""
    told = [*(["u"] if unit is not None else []), "cell", *(name for name, _ in question.values)]
    records = _by_bytes(
        con, f"SELECT {', '.join(shown) or '0 AS whole'} FROM {question.records} AS {_RECORD}{where}", told
    )
    met = _keys_met(question)
    met += [f"{layout.own_event(at)} = {layout.event(at)}" for at in range(len(question.events))]
    return f"SELECT {', '.join(told)} FROM ({records}) JOIN _dk_form ON {' AND '.join(met) or 'true'}"


def _own_keys(question: PaidQuestion) -> list[str]:
    """A record's keys, as they are compared."""
    keys = question.form.keys
    return [f"{_compared(quoted([one.column]), one)} AS {layout.own_key(at)}" for at, one in enumerate(keys)]


def _keys_met(question: PaidQuestion) -> list[str]:
    """That a record has the keys of a cell, as conditions."""
    return [
        f"{layout.own_key(at)} IS NOT DISTINCT FROM {_compared(layout.base(at), one)}"
        for at, one in enumerate(question.form.keys)
    ]


def _outcome(conditions: Sequence[str]) -> str:
    """The position of the first condition that holds for a record; after the last if none does."""
    tried = " ".join(f"WHEN {one} THEN {at}" for at, one in enumerate(conditions))
    return f"(CASE {tried} ELSE {len(conditions)} END)"


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

    A sample of a unit's records counts; or if the unit is the group, those in the leaf region of one of them. Units all
    of whose records count are found first, by counting: putting records in order is slow, and is done for the others.
    """
    if not question.is_cut:
        return "_dk_bounded AS (SELECT * FROM _dk_placed)"
    too_many = f"system.main.count(*) > {question.contributions}"
    counts = f"system.main.row_number() OVER first <= {question.contributions}"
    if question.is_of_one_cell:
        too_many = "system.main.min(cell) <> system.main.max(cell)"
        counts = "cell = system.main.first_value(cell) OVER first"
    same = "_dk_placed.u IS NOT DISTINCT FROM _dk_cut.u"
    return (
        f"_dk_cut AS MATERIALIZED (SELECT u FROM _dk_placed GROUP BY u HAVING {too_many}), "
        f"_dk_copies AS ({_with_copies('_dk_placed SEMI JOIN _dk_cut ON ' + same, question.row)}), "
        f"_dk_bounded AS (SELECT _dk_placed.* FROM _dk_placed ANTI JOIN _dk_cut ON {same} UNION ALL BY NAME "
        f"SELECT * EXCLUDE (copy) FROM _dk_copies WINDOW first AS ({_order(question.row)}) QUALIFY {counts})"
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


class _Mechanism(NamedTuple):
    draw: Callable[[duckdb.DuckDBPyConnection, Any, Source], pa.Table]
    exact: Callable[[duckdb.DuckDBPyConnection, Any, int], list[Ints]]


_BY_KIND: dict[type[PaidQuestion], _Mechanism] = {
    AggregatesQuestion: _Mechanism(_noisy_aggregates, totals),
    GroupSizesQuestion: _Mechanism(_noisy_sizes, lambda con, question, size: [_sizes(con, question, size)]),
}
