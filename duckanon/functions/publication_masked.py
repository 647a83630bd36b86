"""Whether a table with suppressed cells, or one of perturbed counts, is what the protected table gives.

Suppressed tables must have the true number in every other cell; of sums more is asked (`publication_sums`). Perturbed
ones must be what `cell_key` makes of the records as they are, so that a cell has one change in all tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Perturbation, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.cell_key import key_flaw, key_sql, ptable_of
from duckanon.functions.publication_changed import check_changed_sums
from duckanon.functions.publication_numbers import MOST, check_publishable, kind_of, matched, number
from duckanon.functions.publication_sums import CHANGED, amount, check_summed, check_sums
from duckanon.functions.publication_totals import Totals
from duckanon.functions.schema import is_number
from duckanon.functions.suppressed_tables import BY_LEVEL, Margin, form, level_columns, place


def check_masked(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    """Raises InvalidInput for a suppressed or perturbed table that is not what the records give."""
    check_publishable(candidate)
    if candidate.terms.perturbation is not None:
        _check_perturbed(con, candidate, candidate.terms.perturbation)
    else:
        _check_suppressed(con, candidate)


def _check_columns(candidate: Candidate, more: Sequence[str], way: str) -> None:
    """Check the columns of a release. more: those beside variables; way: how to get a release with these."""
    terms = candidate.terms
    expected = [*terms.variables, *more]
    if {fold(column) for column in candidate.columns} != {fold(column) for column in expected}:
        raise InvalidInput(f"The release must have the columns {', '.join(expected)} and no others: {way}.")
    kinds = {fold(name): kind for name, kind in candidate.columns.items()}
    for name in terms.variables:
        if kinds[fold(name)] != kind_of(candidate, name):
            raise InvalidInput(f'Column "{name}" must have the type that it has in {candidate.label}: cast it.')
    if not is_number(kinds[fold(terms.value or "")]):
        raise InvalidInput(f'Column "{terms.value}" must hold numbers.')


# --- suppressed -------------------------------------------------------------------------------------------------------


def _check_suppressed(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    terms = candidate.terms
    hidden = terms.suppressed or ""
    levels = level_columns(candidate.columns)
    _check_columns(candidate, [*levels, terms.value or "", hidden], "publish what suppress gives without audit := true")
    if next(kind for name, kind in candidate.columns.items() if fold(name) == fold(hidden)) != "BOOLEAN":
        raise InvalidInput(f'Column "{hidden}" must hold true or false: whether a cell is suppressed.')
    for name, kind in candidate.columns.items():
        if fold(name) == BY_LEVEL and BY_LEVEL in levels and not kind.endswith("[]"):
            raise InvalidInput(f'Column "{name}" must hold lists of levels: publish what suppress gives.')
    if terms.summed:
        check_summed(con, candidate)
    release_form = form(con, candidate.release, candidate.columns, terms.variables)
    are_right = [cell for margin in release_form.margins for cell in _cells(con, candidate, margin)]
    wrong = sum(not is_right for is_right in are_right)
    if wrong:
        raise InvalidInput(
            f"{wrong} of the {len(are_right)} cells neither are suppressed nor hold what {candidate.label} has: the "
            f"{_measure(terms)}, where a cell that is missing "
            "is zero. Make the release again from the table as it is."
        )
    if terms.summed:
        check_sums(con, candidate, release_form)


def _measure(terms: Terms) -> str:
    """What a cell shows, in words."""
    if terms.sum is None:
        return "number of its records" if terms.weight is None else f"sum of {terms.weight}"
    return f"sum of {terms.sum}" + ("" if terms.weight is None else f" weighted by {terms.weight}")


def hides_totals(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
    """Whether a release leaves unknown how many records a row of shares stands for, or what a total is."""
    terms = candidate.terms
    if terms.suppressed is None:
        return terms.kind == "shares"
    release_form = form(con, candidate.release, candidate.columns, terms.variables)
    totals = Totals.of(release_form, candidate, terms)
    for margin in (margin for margin in release_form.margins if margin.total):
        columns = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in margin.variables) or "NULL"
        hidden = con.execute(
            f"SELECT {columns} FROM {candidate.release} WHERE {margin.levels} AND {identifier(terms.suppressed)}"
        ).fetchall()
        if any(place(margin.nodes, dict(zip(margin.variables, row, strict=False))) in totals for row in hidden):
            return True
    return False


def _cells(con: duckdb.DuckDBPyConnection, candidate: Candidate, margin: Margin) -> list[bool]:
    """Whether each cell of a margin is right. Raises InvalidInput for cells that are listed twice or have no place."""
    terms = candidate.terms
    keys = list(map(identifier, margin.variables))
    rest = [identifier(name) for name in terms.variables if name not in margin.variables]
    value_column, hidden = identifier(terms.value or ""), identifier(terms.suppressed or "")
    rows = f"(SELECT * FROM {candidate.release} WHERE {margin.levels})"
    stray = " OR ".join(
        [f"{hidden} IS NULL", f"{hidden} <> ({value_column} IS NULL)", *(f"{column} IS NOT NULL" for column in rest)]
    )
    ((strays, listed, different),) = con.execute(
        f"SELECT system.main.count(*) FILTER (WHERE {stray}), system.main.count(*), "
        f"(SELECT system.main.count(*) FROM (SELECT DISTINCT {', '.join(keys) or '1'} FROM {rows})) FROM {rows}"
    ).fetchall()
    if strays:
        raise InvalidInput(
            "Some rows are no totals as suppress gives them, or say that they are suppressed and show a number, or the "
            "other way round: publish what it gives as it is."
        )
    if listed != different:
        raise InvalidInput("Cells are in the release more than once: publish what suppress gives as it is.")
    if listed > MOST:
        raise InvalidInput(f"The release has more than {MOST:,} cells: leave columns out.")
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    measure = candidate.records if not terms.summed else f"system.main.sum({amount(candidate)})"
    counted = f"SELECT {', '.join([*keys, f'{measure} AS _dk_n'])} FROM {candidate.of}{by}"
    shown = (
        f"SELECT {', '.join([*keys, f'CAST({value_column} AS VARCHAR) AS _dk_p, {hidden} AS _dk_hidden'])} FROM {rows}"
    )
    cells = con.execute(f"SELECT coalesce(_dk_n, 0), _dk_p, _dk_hidden FROM {matched(counted, shown, keys)}").fetchall()
    return [bool(is_hidden) or _is(written, count) for count, written, is_hidden in cells]


def _is(written: str | None, true: int | Decimal) -> bool:
    """Whether a cell without a number is empty, or its number is the true one."""
    return true == 0 if written is None else number(written) == Fraction(true)


# --- perturbed --------------------------------------------------------------------------------------------------------


def check_key(candidate: Candidate, by: Perturbation) -> None:
    """Raises InvalidInput unless tables may be perturbed so: by record keys, and as all earlier ones."""
    terms = candidate.terms
    if candidate.count is not None:
        raise InvalidInput(
            "Rows that stand for several records have one key for all of them: leave key out, or count single records."
        )
    for earlier in candidate.earlier:
        if earlier.perturbation is not None and earlier.perturbation != by:
            raise InvalidInput(
                f"{earlier.name} was perturbed with {earlier.perturbation.in_words} and key := "
                f"'{earlier.perturbation.key}': perturb all tables of the same records alike, so that a cell "
                "has one change everywhere."
            )
    if fold(by.key) not in {fold(name) for name in candidate.source}:
        raise InvalidInput(f'{candidate.label} has no column "{by.key}" of record keys: name it with key.')
    if not is_number(kind_of(candidate, by.key)) or fold(by.key) in {fold(name) for name in terms.variables}:
        raise InvalidInput(f'Column "{by.key}" must hold record keys, and nobody must see them: name another with key.')


def _check_perturbed(con: duckdb.DuckDBPyConnection, candidate: Candidate, by: Perturbation) -> None:
    terms = candidate.terms
    check_key(candidate, by)
    sums = [CHANGED] if terms.sum is not None else []
    _check_columns(candidate, [terms.value or "", *sums], "publish what cell_key gives")
    record, cell = key_sql(by.key)
    keys = list(map(identifier, terms.variables))
    ((flawed,),) = con.execute(
        f"SELECT system.main.count(*) FROM {candidate.of} "
        f"WHERE {record} IS NULL OR NOT ({record} >= 0 AND {record} < 1)"
    ).fetchall()
    if flawed:
        raise InvalidInput(key_flaw(by.key))
    value_column = f"coalesce(CAST({identifier(terms.value or '')} AS VARCHAR), '') AS _dk_p"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    counted = (
        f"SELECT {', '.join([*keys, f'system.main.count(*) AS _dk_n, CAST({cell} AS BIGINT) AS _dk_key'])} "
        f"FROM {candidate.of}{grouped}"
    )
    shown = f"SELECT {', '.join([*keys, value_column])} FROM {candidate.release}"
    cells = con.execute(
        f"SELECT coalesce(_dk_n, 0), coalesce(_dk_key, 0), _dk_p FROM {matched(counted, shown, keys)} LIMIT {MOST + 1}"
    ).fetchall()
    if len(cells) > MOST:
        raise InvalidInput(f"The release has more than {MOST:,} cells: leave columns out.")
    counts, cell_keys = (np.array([row[at] for row in cells], dtype=np.int64) for at in (0, 1))
    perturbed = ptable_of(by).perturbed(counts, cell_keys)
    published = [written for *_, written in cells]
    wrong = sum(
        n != 0 if written is None else written == "" or n == 0 or number(written) != n
        for n, written in zip(perturbed.tolist(), published, strict=True)
    )
    if wrong:
        raise InvalidInput(
            f"{wrong} of the {len(cells)} cells do not hold what cell_key makes of {candidate.label} with key := "
            f"'{by.key}', {by.in_words}, where a cell that is missing is zero. Make the release again from the table "
            "as it is, with the same perturbation table."
        )
    if terms.sum is not None:
        check_changed_sums(con, candidate, by)
