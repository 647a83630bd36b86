"""Whether a release may be published: by itself, and together with everything that was published before it.

Readers are taken to know all publications, withdrawn ones too, and the number of all records. A unit is what the policy
protects as a whole: a record, or all records of one person. A table of counts is safe by itself if

- no cell holds 1 to small - 1 units;
- where its variables are not all public, every combination of those that are not sensitive holds k units;
- no combination of all its variables but a sensitive one holds fewer than k units, all with the same value of that one.

A table of shares is safe if the last two hold, and no cell of 1 to small - 1 units is all of its row, or has a number
that follows, or is known to be below `small` (the bounds of Wright and Smucker 2014 for exact shares, those of
`engines/cells/rounded.py` for rounded ones). Where readers may know the numbers of records of rows, because noisy
counts are sold, shares say what counts say, and are audited as such.

Counts with suppressed cells, and perturbed ones, are safe if what must not be known does not follow from them and the
pattern of suppression, or the perturbation table.

Several tables of numbers of one protected table are safe if the joint table of all their variables, counted, is: all of
them follow from it. Otherwise they are safe if each is by itself, and if what must not be known does not follow from
all of them together: `publication_tables` defines that and proves it. A release that follows from an earlier
publication adds nothing. Nothing else is proven, and what is not proven is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

import duckdb
import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Earlier, Terms
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.publication_masked import check_masked, hides_totals
from duckanon.functions.publication_numbers import check_numbers
from duckanon.functions.publication_records import check_records, is_computed, is_within
from duckanon.functions.publication_sums import check_values_unknown
from duckanon.functions.publication_tables import MOST_VARIABLES, Finding, Joint, family
from duckanon.functions.publication_units import check_counted_alike, read_as
from duckanon.functions.sqltext import unit_of

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
# Tables of counts that say less than counts: they are audited by what readers hold for possible.
MASKED = ("suppressed", "perturbed")
_OTHER_DIGITS = "round to other digits: a share lies half-way between two rounded ones, so all are audited as exact"


def audit(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
    """Whether a release is safe for readers who know all totals too, which noisy counts would tell them.

    Raises InvalidInput, with what is wrong and the way out, for one that is not proven true and safe.
    """
    if candidate.terms.kind == "records":
        check_counted_alike(candidate)
        check_records(con, candidate)
        _check_copy(con, candidate)
        return candidate.totals or not hides_totals(con, candidate)
    candidate = read_as(con, candidate)
    if candidate.terms.kind in MASKED:
        check_masked(con, candidate)
        check_table(con, candidate, half_up=True)
    else:
        half_up = check_numbers(con, candidate)
        check_table(con, candidate, half_up)
    return candidate.totals or not hides_totals(con, candidate)


# --- together with what was published before --------------------------------------------------------------------------


def _check_copy(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    """A k-anonymous table: the first one, or within it; and tables of numbers must follow from it."""
    copies = [publication for publication in candidate.earlier if publication.kind == "records"]
    if any(copy.content == candidate.content or is_within(con, candidate, copy) for copy in copies):
        return
    _check_elsewhere(candidate)
    if copies:
        _refuse(
            candidate,
            f"a k-anonymous table of {candidate.label} is published already ({_names(copies)}), and it is not proven "
            "that this one follows from it, so where their classes overlap few may remain. Make it with "
            f"k_anonymize and within := '{copies[0].name}', from all its rows",
        )
    shown = list(candidate.columns)
    for earlier in candidate.earlier:
        if not earlier.same or not is_computed(con, earlier.read, candidate.of, candidate.release, shown):
            _refuse(
                candidate,
                f"{earlier.name} is published, and its numbers cannot be computed from this table, so both together "
                "may tell more. Show the columns of that table as they are, of all records, or do without the "
                "k-anonymous table",
            )


def check_table(con: duckdb.DuckDBPyConnection, candidate: Candidate, half_up: bool) -> None:
    """Raises InvalidInput for a table of counts or shares that is not proven safe with all that is published.

    half_up: whether its halves were rounded up. The release itself is not read.
    """
    terms, copies = candidate.terms, [publication for publication in candidate.earlier if publication.kind == "records"]
    if any(follows(candidate, publication) for publication in candidate.earlier):
        return
    for copy in copies:
        if copy.same and copy.copy and is_computed(con, candidate.read, candidate.of, copy.copy, copy.columns):
            return
    check_values_unknown(candidate)
    _check_elsewhere(candidate)
    if copies:
        _refuse(
            candidate,
            f"a k-anonymous table is published ({_names(copies)}), and these numbers cannot be computed from it, so "
            "both together may tell more. Publish numbers by columns that it shows as they are",
        )
    if candidate.earlier or terms.kind in MASKED or terms.width > 1:
        _check_together(con, candidate, half_up)
    else:
        _check_alone(con, candidate, half_up)


def follows(candidate: Candidate, publication: Earlier) -> bool:
    """Whether a table of numbers can be computed from an earlier one, made of the same records, exactly."""
    terms = candidate.terms
    if not publication.same or publication.kind == "records":
        return False
    if publication.content == candidate.content and _as_said(terms, publication):
        return True
    if not publication.exact:
        return False
    if publication.kind == "counts":
        return _folded(terms.columns) <= _folded(publication.variables)
    return (
        terms.kind == "shares"
        and _folded(terms.given) == _folded(publication.given)
        and _folded(terms.variables) <= _folded(publication.variables)
    )


def _as_said(terms: Terms, publication: Earlier) -> bool:
    same = (terms.kind, terms.digits, terms.base) == (publication.kind, publication.digits, publication.base)
    same &= (terms.suppressed, terms.perturbation) == (publication.suppressed, publication.perturbation)
    same &= (terms.sum, terms.weight, terms.count) == (publication.sum, publication.weight, publication.count)
    return same and (_folded(terms.given), _folded(terms.variables)) == (
        _folded(publication.given),
        _folded(publication.variables),
    )


def _check_together(con: duckdb.DuckDBPyConnection, candidate: Candidate, half_up: bool) -> None:
    named = {
        fold(name): name for publication in candidate.earlier for name in (*publication.given, *publication.variables)
    }
    named |= {fold(name): name for name in candidate.terms.columns}
    keys = {
        fold(publication.perturbation.key) for publication in candidate.earlier if publication.perturbation is not None
    }
    if not set(named) | keys <= _folded(candidate.source):
        _refuse(candidate, f"{candidate.label} has lost a column of an earlier publication, so nothing can be proven")
    if not counts_problems(con, candidate, list(named.values())):
        return
    problem = _together(con, candidate, list(named.values()))
    if problem:
        _refuse_together(con, candidate, problem)
    if candidate.terms.kind not in MASKED:
        _check_alone(con, candidate, half_up)


def _refuse_together(con: duckdb.DuckDBPyConnection, candidate: Candidate, problem: str) -> NoReturn:
    ways = ["leave variables out or make them coarser"]
    if candidate.terms.kind == "suppressed":
        ways.append(f"suppress with a larger n, {max(candidate.policy.small, candidate.policy.k)} at least")
        ways += _same_pattern(candidate)
    if candidate.terms.kind == "perturbed":
        ways.append("perturb with a larger max_deviation and variance")
    if candidate.terms.digits is not None and _has_half(con, candidate):
        ways.append(_OTHER_DIGITS)
    if not candidate.earlier:
        _refuse(candidate, f"it is not proven safe: {problem}. To publish it, {', or '.join(ways)}")
    names = _names(candidate.earlier)
    _refuse(
        candidate,
        f"together with {names} it is not proven safe: {problem}. Publish what can be added up from {names}, or "
        f"{', or '.join(ways)}",
    )


def _same_pattern(candidate: Candidate) -> list[str]:
    """What helps where a cell is suppressed in one of two tables of the same cells only, such as counts and sums."""
    variables = set(map(fold, candidate.terms.variables))
    alike = [
        publication.name
        for publication in candidate.earlier
        if publication.kind == "suppressed" and set(map(fold, publication.variables)) == variables
    ]
    return [f"suppress all that {alike[0]} does, by an apriori of its lines WHERE suppressed"] if alike else []


def _together(con: duckdb.DuckDBPyConnection, candidate: Candidate, names: Sequence[str]) -> str | None:
    """What must not be known and follows from all tables of numbers together; None if nothing does."""
    if len(names) > MOST_VARIABLES:
        return f"they have {len(names)} variables, and no more than {MOST_VARIABLES} are audited together"
    joint = Joint(con, candidate, [*candidate.earlier, candidate.terms])
    finding = next((finding for finding in joint.findings() if not finding.safe), None)
    return None if finding is None else in_words(finding, candidate.policy)


def in_words(finding: Finding, policy: Policy) -> str:
    """A finding in words."""
    by = ", ".join(name for name in finding.variables if name != finding.union_of)
    what = _what(policy)
    if finding.sensitive is not None:
        rows = f"rows by {by}" if by else "tables"
        parts = [
            (finding.narrow, f'all other values of "{finding.sensitive}" are excluded'),
            (finding.unproven, "it is not proven that another is possible"),
        ]
        start = (
            f'of {finding.at_risk} {rows} of fewer than {finding.below} {what} with the same "{finding.sensitive}", '
        )
        return start + ", and ".join(f"for {number} {words}" for number, words in parts if number)
    few = f"hold 1 to {finding.below - 1} {what}"
    if finding.union_of is not None:
        rows = f"combinations of {by}" if by else "tables"
        parts = [
            (finding.determined, "such a number follows from all of them"),
            (finding.narrow, f"it is known to be below {finding.below}{_to_within(finding)}"),
            (finding.unproven, "it is not proven to be open"),
        ]
        start = f'of {finding.at_risk} {rows} of which several values of "{finding.union_of}" together {few}, '
        return start + ", and ".join(f"for {number} {words}" for number, words in parts if number)
    parts = [
        (finding.determined, "follow from all of them"),
        (finding.narrow, f"are known to hold fewer than {finding.below}{_to_within(finding)}"),
        (finding.unproven, "are not proven to be open"),
    ]
    start = f"of {finding.at_risk} cells by {by} that {few}, "
    return start + ", and ".join(f"{number} {words}" for number, words in parts if number)


def _to_within(finding: Finding) -> str:
    return f", or to within less than {finding.width}" if finding.width > 1 else ""


def _check_elsewhere(candidate: Candidate) -> None:
    if candidate.elsewhere:
        _refuse(
            candidate,
            f"{', '.join(candidate.elsewhere)} of another table with the same population is published, and it is not "
            "proven what follows from both together. Publish releases of one table of a population",
        )


def _check_alone(con: duckdb.DuckDBPyConnection, candidate: Candidate, half_up: bool) -> None:
    problems = _problems(con, candidate, half_up)
    if not problems:
        return
    terms, ways = candidate.terms, []
    for name in terms.variables:
        fewer = replace(terms, variables=tuple(variable for variable in terms.variables if variable != name))
        if fewer.variables and not _problems(con, replace(candidate, terms=fewer), False):
            ways.append(name)
    way = f"Without {' or '.join(ways)} it would be safe" if ways else "Leave columns out, or make their values coarser"
    if terms.digits is not None and not half_up and _has_half(con, candidate):
        way += f", or {_OTHER_DIGITS}"
    _refuse(candidate, f"{'; '.join(problems)}. {way}")


def _problems(con: duckdb.DuckDBPyConnection, candidate: Candidate, half_up: bool) -> list[str]:
    """What a table of counts or shares would disclose by itself."""
    if candidate.terms.kind == "counts" or candidate.totals:
        return counts_problems(con, candidate, candidate.terms.columns)
    return _shares_problems(con, candidate, half_up)


# --- safe by itself ---------------------------------------------------------------------------------------------------


def counts_problems(con: duckdb.DuckDBPyConnection, candidate: Candidate, columns: Sequence[str]) -> list[str]:
    """What exact counts by some columns would disclose; nothing if they are safe."""
    policy, of = candidate.policy, candidate.of
    units, keys = _units(candidate), ", ".join(map(identifier, columns))
    ((whole, few),) = con.execute(
        f"SELECT system.main.count(*), system.main.count(*) FILTER (WHERE units < {policy.small}) FROM "
        f"(SELECT {units} AS units FROM {of}{f' GROUP BY {keys}' if keys else ''} HAVING system.main.count(*) > 0)"
    ).fetchall()
    problems = [f"{few} of the {whole} cells hold 1 to {policy.small - 1} {_what(policy)}"] if few else []
    return [*problems, *_linked(con, candidate, columns), *_alike(con, candidate, columns)]


def _linked(con: duckdb.DuckDBPyConnection, candidate: Candidate, columns: Sequence[str]) -> list[str]:
    """Combinations by which few units could be found."""
    policy = candidate.policy
    sensitive, public = _folded(policy.sensitive), _folded((*policy.public, *policy.hierarchy))
    known = [name for name in columns if fold(name) not in sensitive]
    if _folded(known) <= public:
        return []
    few = _few(con, candidate, known, "true")
    return [f"{few} combinations of {', '.join(known)} hold fewer than {policy.k} {_what(policy)}"] if few else []


def _alike(con: duckdb.DuckDBPyConnection, candidate: Candidate, columns: Sequence[str]) -> list[str]:
    """Few units that can be found by all other columns, and share a value of a sensitive one."""
    policy, levels = candidate.policy, candidate.levels
    sensitive, problems = _folded(policy.sensitive), []
    for name in columns:
        if fold(name) not in sensitive:
            continue
        others = [column for column in columns if family(levels, fold(column)) != family(levels, fold(name))]
        own = identifier(name)
        # NULL is a value of its own.
        one_value = (
            f"system.main.count(DISTINCT {own}) + CAST(system.main.count({own}) < system.main.count(*) AS INTEGER) = 1"
        )
        few = _few(con, candidate, others, one_value)
        if few:
            rows = f"rows by {', '.join(others)}" if others else "tables"
            problems.append(f'{few} {rows} of fewer than {policy.k} {_what(policy)} have all the same "{name}"')
    return problems


def _few(con: duckdb.DuckDBPyConnection, candidate: Candidate, keys: Sequence[str], test: str) -> int:
    """How many combinations that pass a test hold fewer than k units."""
    policy, of = candidate.policy, candidate.of
    by = f" GROUP BY {', '.join(map(identifier, keys))}" if keys else ""
    ((count,),) = con.execute(
        f"SELECT system.main.count(*) FROM (SELECT {_units(candidate)} AS units, {test} AS passed FROM {of}{by} "
        f"HAVING system.main.count(*) > 0) WHERE passed AND units < {policy.k}"
    ).fetchall()
    return int(count)


def _units(candidate: Candidate) -> str:
    """How many units some records are of; those without a unit are together one."""
    if candidate.policy.privacy_unit is None:
        return candidate.records
    unit = unit_of(candidate.policy.privacy_unit)
    return (
        f"system.main.count(DISTINCT {unit}) + "
        f"CASE WHEN system.main.count({unit}) < system.main.count(*) THEN 1 ELSE 0 END"
    )


def _shares_problems(con: duckdb.DuckDBPyConnection, candidate: Candidate, half_up: bool) -> list[str]:
    """What shares would disclose to readers who know the number of all records, and nothing else."""
    terms, policy = candidate.terms, candidate.policy
    row, count, units = _cells(con, candidate)
    if not len(row):
        return []
    known = (
        _rounded(candidate, row, count)
        if terms.digits is not None and half_up
        else _exact(row, count, policy, terms.width)
    )
    alone = np.bincount(row)[row] == 1
    few = int(((known | alone) & (units < policy.small)).sum())
    problems = (
        [
            f"of {few} of its {len(row)} cells, which hold 1 to {policy.small - 1} {_what(policy)}, the number follows "
            "from the shares and the number of all records, or they are all of their row"
        ]
        if few
        else []
    )
    return [*problems, *_linked(con, candidate, terms.columns), *_alike(con, candidate, terms.columns)]


def _cells(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> tuple[_Ints, _Ints, _Ints]:
    """Of each cell that holds records: its row's number from 0, ascending, how many records, and how many units."""
    rows = [f"v{at}" for at in range(len(candidate.terms.given))]
    named = [f"{identifier(name)} AS v{at}" for at, name in enumerate(candidate.terms.columns)]
    order = ", ".join(f"v{at}" for at in range(len(named)))
    columns = con.execute(
        f"SELECT system.main.dense_rank() OVER (ORDER BY {', '.join(rows)}) - 1 AS place, n, CAST(units AS BIGINT) AS "
        f"units FROM (SELECT {', '.join(named)}, {candidate.records} AS n, {_units(candidate)} AS units "
        f"FROM {candidate.of} GROUP BY ALL) ORDER BY place, {order}"
    ).fetchnumpy()
    row, count, units = (np.asarray(columns[name]).astype(np.int64) for name in ("place", "n", "units"))
    return row, count, units


def _exact(row: _Ints, count: _Ints, policy: Policy, width: int) -> _Bools:
    """The cells whose counts follow from exact shares, and those that are known to be below `small`."""
    from duckanon.engines.cells.audit import audit_table
    from duckanon.engines.cells.reduction import reduce

    table = reduce(row, count)
    bounds = audit_table(table)
    part = count // table.divisors[row]
    return _known(bounds.lower[row] * part, bounds.upper[row] * part, count, policy.small, width)


def _rounded(candidate: Candidate, row: _Ints, count: _Ints) -> _Bools:
    """As `_exact`, from rounded shares; taken for exact where the table is too large for the bounds of rounded ones."""
    from duckanon.engines.cells.rounded_proportions import rounded_bounds

    digits, n = candidate.terms.digits or 0, int(count.sum())
    scale = 10**digits
    if n * (2 * scale + 1) >= 2**62:
        return _exact(row, count, candidate.policy, candidate.terms.width)
    total = np.bincount(row, count).astype(np.int64)[row]
    published, left = np.divmod(2 * count * scale + total, 2 * total)
    # Where no published share lies half-way, no other records' share may either: the audit does not guess how halves
    # are rounded.
    ties = "up" if (left == 0).any() else "none"
    try:
        cell_bounds = rounded_bounds(row, published, digits, n, ties, shown=True)
    except InvalidInput:
        return _exact(row, count, candidate.policy, candidate.terms.width)
    return _known(cell_bounds.lower, cell_bounds.upper, count, candidate.policy.small, candidate.terms.width)


def _has_half(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> bool:
    """Whether a true share lies half-way between two rounded ones, where readers do not know all totals anyway."""
    if candidate.totals:
        return False
    row, count, _ = _cells(con, candidate)
    whole, scale = np.bincount(row, count)[row], 10 ** (candidate.terms.digits or 0)
    # In integers of any size.
    pairs = zip(count.tolist(), whole.tolist(), strict=True)
    return any(2 * scale * part % int(total) == 0 and 2 * scale * part // int(total) % 2 for part, total in pairs)


def _known(lower: _Ints, upper: _Ints, count: _Ints, small: int, width: int) -> _Bools:
    if ((lower > count) | (upper < count)).any():
        raise DuckanonError("The bounds of a cell lost its count: this is a bug in duckanon, nothing was published.")
    known: _Bools = (upper - lower < width) | ((lower >= 1) & (upper < small))
    return known


# --- words ------------------------------------------------------------------------------------------------------------


def _refuse(candidate: Candidate, why: str) -> NoReturn:
    raise InvalidInput(f"{candidate.name} is not published: {why}.")


def _what(policy: Policy) -> str:
    return "records" if policy.privacy_unit is None else f"values of {policy.unit_in_words}"


def _names(publications: Sequence[Earlier]) -> str:
    return ", ".join(publication.name for publication in publications)


def _folded(names: Iterable[str]) -> set[str]:
    return {fold(name) for name in names}
