"""Numbers of groups by size in each region of a hierarchy, exactly and with noise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.catalog.names import quoted
from duckanon.engines.randomness import Source
from duckanon.releases import layout
from duckanon.releases.measures import Ints
from duckanon.releases.mechanisms import contribution, forms, reading
from duckanon.releases.paid_questions import GroupSizesQuestion
from duckanon.releases.sizes import Among, UnitsTable


def noisy_sizes(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion, source: Source) -> pa.Table:
    """The answer with noise."""
    from duckanon.engines.groups.hierarchy import Hierarchy
    from duckanon.engines.groups.release import plan

    leaves = forms.form(con, question)
    ranks = ranks_of(leaves, len(question.hierarchy))
    parents = tuple(parents_of(upper, lower) for upper, lower in pairwise(ranks))
    released = plan(Hierarchy(parents), exact_sizes(con, question, len(leaves)), question.engine).release(source)
    tables = [
        level_rows(question, leaves, ranks, level, level_release.groups, level_release.low, level_release.high)
        for level, level_release in enumerate(released.levels)
    ]
    return pa.concat_tables(tables)


def exact_sizes(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion, leaves: int) -> Ints:
    """int64 of shape (leaf regions, sizes): how many groups of each size there are, from the least size on."""
    rows = con.execute(
        f"WITH _dk_form AS MATERIALIZED ({forms.cells_of(question)}), _dk_placed AS ({_members(con, question)}), "
        f"{contribution.bounded(question)}, _dk_groups AS ({_groups(con, question)}) "
        "SELECT cell, size, system.main.count(*) AS n FROM _dk_groups GROUP BY ALL"
    ).fetchnumpy()
    sizes = np.zeros((leaves, question.sizes), dtype=np.int64)
    cell, size, n = (np.asarray(rows[name]).astype(np.int64) for name in ("cell", "size", "n"))
    sizes[cell, size - question.least] = n
    return sizes


def _members(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion) -> str:
    """A query for the records that may count: the unit `u`, the group `g0`, ..., the cell, and what each adds, `w`."""
    shown, tests = [f"{question.size.added} AS w"], [*question.filter, *map(_is_among, question.among)]
    if question.privacy_unit is not None:
        shown.append(f"{quoted([question.privacy_unit])} AS u")
        tests.append(f"{quoted([question.privacy_unit])} IS NOT NULL")
    shown += [f"{expression} AS {name}" for name, expression in question.identifying]
    tests.append(f"{quoted([question.group])} IS NOT NULL")
    shown += reading.own_keys(question)
    where = " AND ".join(f"({test})" for test in tests)
    records = reading.by_bytes(
        con,
        f"SELECT {', '.join(shown)} FROM {question.records} AS {reading.RECORD} WHERE {where}",
        ["u", *(name for name, _ in question.values)],
    )
    met = reading.keys_met(question)
    return f"SELECT _dk_records.*, cell FROM ({records}) AS _dk_records JOIN _dk_form ON {' AND '.join(met) or 'true'}"


def _is_among(condition: Among) -> str:
    return f"{reading.RECORD}.{quoted([condition.own])} IN ({condition.values})"


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
    tests = " AND ".join(f"({test})" for test in (*units.filter, f"{column} IS NOT NULL"))
    all_units = f"SELECT {column} AS u FROM {quoted(units.location.path)} AS {reading.RECORD} WHERE {tests}"
    return (
        f"SELECT 0 AS cell, coalesce(size, 0) AS size "
        f"FROM (SELECT DISTINCT u FROM ({reading.by_bytes(con, all_units, ['u'])})) AS _dk_known "
        f"LEFT JOIN (SELECT g0 AS u, {size} FROM _dk_bounded GROUP BY ALL) AS _dk_own ON _dk_known.u = _dk_own.u"
    )


def ranks_of(leaves: pa.Table, depth: int) -> list[Ints]:
    """For each level, the root first, the number of the region in which each leaf lies; leaves and regions are in
    order.
    """
    ranks = [np.zeros(len(leaves), dtype=np.int64)]
    new = np.zeros(len(leaves), dtype=bool)
    for level in range(depth):
        names = leaves.column(layout.key(level)).combine_chunks().dictionary_encode().indices
        codes = names.fill_null(-1).to_numpy(zero_copy_only=False)
        new = new | np.concatenate([[True], codes[1:] != codes[:-1]])
        ranks.append((np.cumsum(new) - 1).astype(np.int64))
    return ranks


def parents_of(upper: Ints, lower: Ints) -> Ints:
    """The number of each region's parent."""
    return upper[np.unique(lower, return_index=True)[1]]


def level_rows(
    question: GroupSizesQuestion, leaves: pa.Table, ranks: list[Ints], level: int, groups: Ints, low: Ints, high: Ints
) -> pa.Table:
    """One level of a release as rows: level, the regions' columns, size, groups, low, high."""
    first = np.unique(ranks[level], return_index=True)[1]
    rows = np.repeat(first, question.sizes)
    columns: dict[str, Any] = {"level": pa.array(np.full(len(rows), level, dtype=np.int32))}
    for at, key in enumerate(question.hierarchy):
        names = leaves.column(layout.key(at))
        columns[key.column] = names.take(pa.array(rows)) if at < level else pa.nulls(len(rows), names.type)
    sizes = np.arange(question.least, question.max_size + 1, dtype=np.int64) * question.size.step
    columns["size"] = pa.array(np.tile(sizes, len(first)))
    columns |= {
        name: pa.array(numbers.reshape(-1)) for name, numbers in (("groups", groups), ("low", low), ("high", high))
    }
    return pa.table(columns)
