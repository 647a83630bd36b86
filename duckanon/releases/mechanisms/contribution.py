"""Which records of a privacy unit count: all, or a sample that a hash of the unit and of each record decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from duckanon.catalog.policy import OWNER
from duckanon.releases.measures import Units
from duckanon.releases.mechanisms import reading
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion

# As `bounded`, where no unit has more records than count.
ALL_COUNT = "_dk_bounded AS (SELECT * FROM _dk_placed)"


def contributing(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> tuple[AggregatesQuestion, bool]:
    """The question as its records are read, and whether some unit may have more of them in cells than count.

    That is found out by how many the filter leaves of each. Most policies let all records of nearly all units count,
    and then neither cells nor numbers have to be kept. What is joined or grouped within units takes longer than keeping
    what is left of it, so it is not made twice to find out.
    """
    if not question.is_cut or question.relation is not None:
        return question, question.is_cut
    counts = _counts_by_link if _is_counted_by_link(con, question) else _counts
    largest, all_owned = counts(con, question)
    if largest > question.contributions:
        return question, True
    return _without_owners(question) if all_owned else question, False


def _without_owners(question: AggregatesQuestion) -> AggregatesQuestion:
    """A question over a linked table as it stands, of which all records have an owner and count.

    Whose a record is makes no difference then, unless owners are counted, and to look that up again takes longer than
    to add up.
    """
    if any(isinstance(measure, Units) for measure, _ in question.measures):
        return question
    return _ownerless(question)


def _ownerless(question: AggregatesQuestion) -> AggregatesQuestion:
    return replace(question, owned=None, privacy_unit=None)


def _counts(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> tuple[int, bool]:
    """How many of the records that the filter leaves a unit has at most, and whether all of them have an owner.

    The latter is found out of linked tables alone; of others it is False.
    """
    of_units = f"SELECT system.main.count(*) AS n FROM ({reading.filtered(con, question, [], ['u'])}) GROUP BY u"
    most = f"SELECT coalesce(system.main.max(n), 0), coalesce(system.main.sum(n), 0) FROM ({of_units})"
    ((largest, owned),) = con.execute(most).fetchall()
    if question.owned is None:
        return largest, False
    left = reading.filtered(con, _ownerless(question), [], [])
    ((records,),) = con.execute(f"SELECT system.main.count(*) FROM ({left})").fetchall()
    return largest, records == owned


def _is_counted_by_link(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> bool:
    """Whether records are linked to so many fewer that it is faster to count them by these before the join."""
    owned = question.owned
    if owned is None or not owned.by or any(OWNER in condition for condition in (*question.filter, *question.of_keys)):
        return False
    counts = ", ".join(f"(SELECT system.main.count(*) FROM {table})" for table in (owned.table, owned.above))
    ((records, above),) = con.execute(f"SELECT {counts}").fetchall()
    return bool(records >= 2 * above)


def _counts_by_link(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> tuple[int, bool]:
    """As `_counts`, with records counted by what they are linked to before they are joined with it."""
    owned = question.owned
    assert owned is not None
    by = ", ".join(owned.by)
    left = reading.filtered(con, _ownerless(question), owned.by, [])
    counted = f"(SELECT {by}, system.main.count(*) AS _dk_n FROM ({left}) GROUP BY {by})"
    shown = f"SELECT {owned.owner} AS u, r._dk_n AS n FROM {owned.joined(counted, orphans=True)}"
    of_units = f"SELECT u, system.main.sum(n) AS n FROM ({reading.by_bytes(con, shown, ['u'])}) GROUP BY u"
    most = "coalesce(system.main.max(n) FILTER (WHERE u IS NOT NULL), 0), system.main.count(*) = system.main.count(u)"
    (counts,) = con.execute(f"SELECT {most} FROM ({of_units})").fetchall()
    return counts


def bounded(question: PaidQuestion) -> str:
    """CTEs of which the last, _dk_bounded, has the records of _dk_placed that count.

    A sample of a unit's records counts; or if the unit is the group, those in the leaf region of one of them. Units all
    of whose records count are found first, by counting: putting records in order is slow, and is done for the others.
    """
    if not question.is_cut:
        return ALL_COUNT
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
        f"SELECT * EXCLUDE (copy) FROM _dk_copies WINDOW first AS ({order(question.row)}) QUALIFY {counts})"
    )


def _with_copies(records: str, row: Sequence[str]) -> str:
    """A query that numbers the equal records of each unit, from 1, in the column `copy`.

    row: the columns that make a difference. Records that are equal in them are interchangeable, so it does not matter
    which of them gets which number.
    """
    equal = ", ".join(["u", *row])
    return f"SELECT _dk_placed.*, system.main.row_number() OVER (PARTITION BY {equal}) AS copy FROM {records}"


def order(row: Sequence[str]) -> str:
    """A window: each unit's records in an order that differs from unit to unit as if it were drawn.

    Without the unit in the hash, all units would lose the same cells; without the copies' numbers, equal records would
    count together or not at all. DuckDB's hash of several values ends in an XOR with the last one's, and XOR with a
    fixed number does not put three numbers into each order equally often: so the hash is hashed again.
    """
    mixed = ", ".join(["u", *row, "copy"])
    ties = ", ".join(f"{column} ASC NULLS LAST" for column in [*row, "copy"])
    return f"PARTITION BY u ORDER BY system.main.hash(system.main.hash({mixed})) ASC, {ties}"
