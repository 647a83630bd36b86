"""Whether a table of counts or shares has the true number of every cell of the protected table, and no other cells."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import duckdb

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate
from duckanon.errors import InvalidInput
from duckanon.functions.schema import is_number

# The most cells: nobody reads a larger table.
MOST = 200_000
# The largest relative error of a DOUBLE that stands for a quotient: a few roundings.
_NEAR = Fraction(4, 2**53)


def check_numbers(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
    """Whether every half was rounded up, where the release is rounded.

    Raises InvalidInput unless the release holds the true numbers of all cells, exact, or rounded as its arguments say.
    """
    _check_columns(candidate)
    cells = _cells(con, candidate)
    if len(cells) > MOST:
        raise InvalidInput(f"The release has more than {MOST:,} cells: leave columns out.")
    terms = candidate.terms
    wrong, half_up = 0, True
    for count, total, written in cells:
        if written is None:
            wrong += count > 0
            continue
        published = number(written)
        if terms.kind == "counts":
            wrong += not _is_count(published, count, terms.base)
        elif total == 0:
            raise InvalidInput(
                "The release has shares of combinations of given of which the table has no record: leave them out."
            )
        elif terms.digits is None:
            wrong += not _is_share(
                published, Fraction(count, total), candidate.columns[_own(candidate, terms.value or "")]
            )
        else:
            share = Fraction(count, total) * 10**terms.digits
            wrong += not _is_rounded(published * 10**terms.digits, share)
            half_up &= published * 10**terms.digits == (share + Fraction(1, 2)) // 1
    if wrong:
        raise InvalidInput(
            f"{wrong} of the {len(cells)} cells do not hold what {candidate.label} has: the number of its records "
            f"{'by' if terms.kind == 'counts' else 'as a share within'} {', '.join(terms.given or terms.variables)}"
            f"{_rounding(candidate)}, where a cell that is missing is zero. Make the release again from the table as "
            "it is."
        )
    if terms.digits is not None and any(written is not None and not count for count, _, written in cells):
        raise InvalidInput("Leave cells without records out of rounded shares: there a 0 stands for a small share.")
    return half_up


def check_publishable(candidate: Candidate) -> None:
    """Raises InvalidInput for columns by which numbers are not published."""
    terms, policy = candidate.terms, candidate.policy
    may = [*policy.public, *policy.hierarchy, *policy.quasi_identifiers, *policy.sensitive]
    allowed = policy.publishable
    shown = ", ".join(dict.fromkeys(name for name in may if fold(name) in allowed)) or "none"
    for name in terms.columns:
        if fold(name) not in allowed:
            raise InvalidInput(
                f'Numbers are not published by "{name}": variables and given must be columns that the policy of '
                f"{candidate.label} calls public, hierarchy, quasi_identifiers or sensitive ({shown})."
            )


def _check_columns(candidate: Candidate) -> None:
    check_publishable(candidate)
    terms = candidate.terms
    if {fold(column) for column in candidate.columns} != {
        fold(column) for column in (*terms.columns, terms.value or "")
    }:
        raise InvalidInput(
            f"The release must have the columns {', '.join([*terms.columns, terms.value or ''])} and no others: every "
            f"column beside value must be in variables or given, and be named as in {candidate.label}."
        )
    for name in terms.columns:
        if candidate.columns[_own(candidate, name)] != kind_of(candidate, name):
            raise InvalidInput(f'Column "{name}" must have the type that it has in {candidate.label}: cast it.')
    kind = candidate.columns[_own(candidate, terms.value or "")]
    if not is_number(kind):
        raise InvalidInput(f'Column "{terms.value}" must hold numbers.')


def kind_of(candidate: Candidate, name: str) -> str:
    """The type of a column of the protected table; '' if it has none of that name."""
    return next((kind for own, kind in candidate.source.items() if fold(own) == fold(name)), "")


def _own(candidate: Candidate, name: str) -> str:
    return next(own for own in candidate.columns if fold(own) == fold(name))


def _cells(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> list[tuple[int, int, str | None]]:
    """Of every cell: how many records, how many in its row, and the published number; None where it is missing."""
    terms = candidate.terms
    keys, rows = [*map(identifier, terms.columns)], [*map(identifier, terms.given)]
    published = ", ".join([*keys, f"CAST({identifier(terms.value or '')} AS VARCHAR) AS _dk_p"])
    by = f"GROUP BY {', '.join(keys)}" if keys else ""
    ((twice,),) = con.execute(
        f"SELECT system.main.count(*) FROM (SELECT 1 FROM {candidate.release} {by} HAVING system.main.count(*) > 1)"
    ).fetchall()
    if twice:
        raise InvalidInput(f"{twice} cells are in the release more than once: GROUP BY {', '.join(terms.columns)}.")
    ((nothing,),) = con.execute(
        f"SELECT system.main.count(*) FROM {candidate.release} WHERE {identifier(terms.value or '')} IS NULL"
    ).fetchall()
    if nothing:
        raise InvalidInput(
            f"{nothing} numbers are NULL: of a table with suppressed cells say so, as in suppressed := 'suppressed'."
        )
    counted = f"SELECT {', '.join([*keys, f'{candidate.records} AS _dk_n'])} FROM {candidate.of} {by}"
    whole = f"SELECT {', '.join([*rows, f'{candidate.records} AS _dk_t'])} FROM {candidate.of}"
    whole += f" GROUP BY {', '.join(rows)}" if rows else ""
    shown = f"SELECT {published} FROM {candidate.release}"
    answer = con.execute(
        f"SELECT coalesce(_dk_n, 0), coalesce(_dk_t, 0), _dk_p FROM {matched(counted, shown, keys)} AS a "
        f"LEFT JOIN ({whole}) AS b ON {_same(rows)} LIMIT {MOST + 1}"
    )
    return answer.fetchall()


def matched(counted: str, shown: str, keys: Sequence[str]) -> str:
    """A relation of the cells of two queries, each with these columns: those of records, and those of a release."""
    names = ", ".join(keys)
    others = f"* EXCLUDE ({names})" if keys else "*"
    shown_cells = f"(SELECT *, true AS _dk_shown FROM ({shown}))"
    joined = f"({counted}) AS a FULL JOIN {shown_cells} AS b ON {_same(keys)}"
    return f"(SELECT {', '.join([*_either(keys), f'a.{others}', f'b.{others}'])} FROM {joined})"


def _either(keys: Sequence[str]) -> list[str]:
    return [f"CASE WHEN b._dk_shown THEN b.{key} ELSE a.{key} END AS {key}" for key in keys]


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys) or "1 = 1"


def number(written: str) -> Fraction:
    """A published number. Raises InvalidInput for infinity and NaN."""
    try:
        return Fraction(written)
    except (ValueError, ZeroDivisionError):
        raise InvalidInput("A published number cannot be read: it is infinite or NaN.") from None


def _is_count(published: Fraction, count: int, base: int | None) -> bool:
    if base is None:
        return published == count
    return (published / base).denominator == 1 and abs(published - count) * 2 <= base


def _is_share(published: Fraction, share: Fraction, kind: str) -> bool:
    return abs(published - share) <= _NEAR * share if kind == "DOUBLE" else published == share


def _is_rounded(published: Fraction, share: Fraction) -> bool:
    return published.denominator == 1 and abs(published - share) * 2 <= 1


def _rounding(candidate: Candidate) -> str:
    terms = candidate.terms
    if terms.base is not None:
        return f", rounded to multiples of {terms.base}"
    return "" if terms.digits is None else f", rounded to {terms.digits} decimals"
