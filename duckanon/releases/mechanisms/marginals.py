"""What is prepared: marginals of a protected table, exactly and with noise, and the answers that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, quoted
from duckanon.engines.discrete_gaussian import discrete_gaussian
from duckanon.engines.randomness import Source
from duckanon.governance.preparations import OF_NUMBER
from duckanon.releases import layout
from duckanon.releases.key_domains import numbered
from duckanon.releases.measures import Ints, Sums
from duckanon.releases.mechanisms import contribution, forms, reading
from duckanon.releases.preparations import PLACE, FollowingQuestion, PreparationQuestion

# So many marginals are counted by one query.
_AT_ONCE = 64

# The records that count, with their places in the keys' domains: of the connection alone, for one draw.
_CODED = "_dk_coded"


def noisy_marginals(con: duckdb.DuckDBPyConnection, question: PreparationQuestion, source: Source) -> pa.Table:
    """The measured marginals with noise, as rows: the number of the marginal, and of its cell, and what is told."""
    tables = list(question.design.measured)
    exactly = marginals(con, question)
    noisy = [
        (exactly[table] + discrete_gaussian(question.variances[table], exactly[table].shape, source)).reshape(-1)
        for table in tables
    ]
    sizes = [len(marginal) for marginal in noisy]
    return pa.table(
        {
            "marginal": np.repeat(np.arange(len(tables), dtype=np.int32), sizes),
            "cell": np.concatenate([np.arange(size, dtype=np.int64) for size in sizes]),
            "n": np.concatenate(noisy),
        }
    )


def marginals(con: duckdb.DuckDBPyConnection, question: PreparationQuestion) -> dict[tuple[int, ...], Ints]:
    """The exact marginals that are measured, each of its shape: of numbers in parts, so that all are whole."""
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {_CODED} AS WITH _dk_placed AS ({_coded(con, question)}), "
        f"{contribution.bounded(question)} {_counted(question)} FROM _dk_bounded GROUP BY ALL"
    ).fetchall()
    tables = list(question.design.measured)
    try:
        exact: dict[tuple[int, ...], Ints] = {}
        for first in range(0, len(tables), _AT_ONCE):
            exact |= _marginals(con, question, tables[first : first + _AT_ONCE])
        return exact
    finally:
        con.execute(f"DROP TABLE {_CODED}").fetchall()


def _coded(con: duckdb.DuckDBPyConnection, question: PreparationQuestion) -> str:
    """A query for all records with a unit, with their places in the keys' domains: the last for values outside."""
    counts = {fold(lookup.name): lookup.counts for lookup in question.looked_up}
    shown = reading.own_keys(question) + [f"{expression} AS {name}" for name, expression in question.values]
    shown += [f"{quoted([name])} AS {quoted([name])}" for name in counts.values()]
    where = ""
    if question.privacy_unit is not None:
        shown.append(f"{quoted([question.privacy_unit])} AS u")
        where = f" WHERE {quoted([question.privacy_unit])} IS NOT NULL"
    columns = ", ".join(shown) or "0 AS whole"
    records = reading.by_bytes(con, f"SELECT {columns} FROM {question.records} AS {reading.RECORD}{where}", ["u"])
    records = reading.within_steps([(layout.value(at), number) for at, number in enumerate(question.numbers)], records)
    joined, codes = "", []
    for at, (key, size) in enumerate(zip(question.keys, question.design.sizes, strict=True)):
        listed = (
            f"SELECT {reading.compared('k0', key)} AS value, place FROM {numbered(question.location.database, key)}"
        )
        met = f"{layout.own_key(at)} IS NOT DISTINCT FROM d{at}.value"
        if fold(key.column) in counts:
            met += f" AND {quoted([counts[fold(key.column)]])}"
        # A domain that is complete has a place for each record, as far as the plan knew the column.
        how = "JOIN" if key.column in question.design.complete else "LEFT JOIN"
        joined += f" {how} ({listed}) AS d{at} ON {met}"
        codes.append(f"CAST(coalesce(d{at}.place, {size}) AS INTEGER) AS {layout.key(at)}")
    unit = ["u"] if question.privacy_unit is not None else []
    selected = ", ".join([*unit, *codes, *(name for name, _ in question.values)])
    return f"SELECT {selected or '0 AS whole'} FROM ({records}) AS _dk_records{joined}"


def _counted(question: PreparationQuestion) -> str:
    """Combinations of places with the records that have them: their number, and of each number how many and the sum."""
    keys = [layout.key(at) for at in range(len(question.keys))]
    numbers = [
        f"{total} AS {name}{at}"
        for at, (value, _) in enumerate(question.values)
        for name, total in (("c", f"system.main.count({value})"), ("s", f"coalesce(system.main.sum({value}), 0)"))
    ]
    return f"SELECT {', '.join([*keys, 'system.main.count(*) AS n', *numbers])}"


def _marginals(
    con: duckdb.DuckDBPyConnection, question: PreparationQuestion, tables: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], Ints]:
    key_count = len(question.keys)
    sets = list(dict.fromkeys(tuple(at for at in table if at < key_count) for table in tables))
    keys = sorted({at for numbers in sets for at in numbers})
    totals = ["n", *(f"{name}{at}" for at in range(len(question.numbers)) for name in "cs")]
    summed = ", ".join(f"CAST(coalesce(system.main.sum({total}), 0) AS BIGINT) AS {total}" for total in totals)
    grouped = ", ".join(f"({', '.join(map(layout.key, numbers))})" for numbers in sets)
    # A place is never NULL, so it is NULL where a set does not group by it.
    shown = "".join(f"coalesce({layout.key(at)}, -1) AS {layout.key(at)}, " for at in keys)
    rows = con.execute(f"SELECT {shown}{summed} FROM {_CODED} GROUP BY GROUPING SETS ({grouped})").fetchnumpy()
    columns = {name: np.asarray(row).astype(np.int64) for name, row in rows.items()}
    exact = {}
    for table in tables:
        own = [at for at in table if at < key_count]
        met = np.ones(len(columns["n"]), dtype=bool)
        for at in keys:
            met &= (columns[layout.key(at)] >= 0) == (at in own)
        cells = tuple(columns[layout.key(at)][met] for at in own)
        exactly = np.zeros(question.design.workload.shape(table), dtype=np.int64)
        if len(own) == len(table):
            exactly[cells] = columns["n"][met] if own else columns["n"][met][0]
        else:
            steps, at = question.design.workload.whole(table), table[-1] - key_count
            n, counted, total = (columns[name][met] for name in ("n", f"c{at}", f"s{at}"))
            parts = (steps * counted - total, total, steps * (n - counted))
            exactly[cells] = np.stack(parts, axis=-1)
        exact[table] = exactly
    return exact


def following(con: duckdb.DuckDBPyConnection, question: FollowingQuestion) -> pa.Table:
    """An answer that follows from what was measured: no record is read."""
    estimated = _estimate(con, question)
    rows = places(con, question)
    at = rows.column(PLACE).to_numpy()
    columns = [rows.column(name) for name in question.form.cell]
    for measure, _ in question.measures:
        cells = estimated.marginal(question.with_number(measure))
        if isinstance(measure, Sums):
            low, high = float(Fraction(measure.number.low)), float(measure.number.high)
            if measure.number.column in question.of_keys:
                ((listed,),) = con.execute(question.ways(measure.number)).fetchall()
                ways = np.array(listed)[np.unravel_index(at, cells.shape)[question.axis(measure.number)]]
                own = np.where(np.isnan(ways), 0.0, cells.reshape(-1)[at])
                up = own * np.nan_to_num(ways)
                down, missing = own - up, []
            else:
                down, up, none = np.moveaxis(cells.reshape(-1, OF_NUMBER)[at], -1, 0)
                missing = [pa.array(none)] if measure.missing else []
            columns += [pa.array(down + up), pa.array(low * down + high * up), *missing]
        else:
            columns.append(pa.array(cells.reshape(-1)[at]))
    return pa.table([*columns, rows.column(PLACE)], names=question.columns)


def places(con: duckdb.DuckDBPyConnection, question: FollowingQuestion) -> pa.Table:
    """The combinations of keys, with what they are shown by, and their places among the cells of the prepared table."""
    shown, joined, place = list(question.form.cell), "", "0"
    shape = question.preparation.design.shape
    for at, key in enumerate(question.keys):
        listed = numbered(question.location.database, key)
        own, theirs = reading.compared(layout.base(at), key), reading.compared(f"d{at}.k0", key)
        joined += f" JOIN {listed} AS d{at} ON {own} IS NOT DISTINCT FROM {theirs}"
        place = f"({place}) * {shape[question.table[at]]} + d{at}.place"
    listed = ", ".join([*(f"_dk_cells.{name}" for name in shown), f"CAST({place} AS BIGINT) AS {PLACE}"])
    rows = f"SELECT {listed} FROM ({forms.cells_of(question)}) AS _dk_cells{joined}"
    return forms.to_send(con, rows, f"({rows}) ORDER BY ALL ASC")


def _estimate(con: duckdb.DuckDBPyConnection, question: FollowingQuestion) -> Any:
    """The best estimate of all marginals from those that were measured."""
    from duckanon.engines.marginals.estimate import estimate

    known = question.preparation
    path = (question.location.database, "duckanon", f"answer_{known.key}")
    rows = con.execute(f"SELECT marginal, n FROM {quoted(path)} ORDER BY marginal ASC, cell ASC").fetchnumpy()
    marginal, numbers = (np.asarray(rows[name]).astype(np.int64) for name in ("marginal", "n"))
    design = known.design
    noisy = {
        table: numbers[marginal == at].reshape(design.workload.shape(table)) for at, table in enumerate(design.measured)
    }
    return estimate(design.plan, noisy)
