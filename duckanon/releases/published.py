"""Conditional tables and counts that follow from a publication: exactly, or by adding up its counts or shares.

These are pure functions: from what the recognisers found in a query, and from the publications, they make SQL over an
immutable copy. No protected record is read, and there is no answer unless it follows from a publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import sqlglot

from duckanon.catalog.names import TableName, fold, literal, literals, quoted, spelled
from duckanon.governance.ledger_state import Publication
from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, Nested, Star, Unclear, Window, walk
from duckanon.rewrite.algebra.filters import is_total
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.recognize import Conditional, Counts
from duckanon.rewrite.recognize.findings import Found, Role
from duckanon.rewrite.rule_context import RuleContext, type_of_count, written_columns

_MOST_DIGITS = 12
# One over the precision of sums of shares: each share is the DOUBLE nearest to its quotient.
_SHARP = 10**12


def answer(conditionals: Sequence[Conditional], publications: Sequence[Publication], database: str) -> str | None:
    """A query for the shares of one query, of columns k0, ... (rows, then cols) and p0, ..., over a publication's copy.

    conditionals: the shares that the query shows, in order. publications: of the database. p0, ... have the scale and
    the rounding of each share, as in `round(100 * share, 1)`. The newest publication that has them is read. None if
    there is none, or if the shares have another form than those handled here.
    """
    first = conditionals[0]
    rows, keys = _columns(first.rows), _columns([*first.rows, *first.cols])
    if (
        rows is None
        or keys is None
        or not all(_is_one_table(conditional) and _is_form(conditional, rows) for conditional in conditionals)
    ):
        return None
    used = {
        *keys,
        *_names(condition for conditional in conditionals for condition in (*conditional.of, *conditional.event)),
    }
    for publication in _newest(first, publications, database):
        if not used <= set(_cells_by(publication)) or not _are_total(
            (condition for conditional in conditionals for condition in (*conditional.of, *conditional.event)),
            publication,
        ):
            continue
        if publication.kind == "counts" and publication.exact:
            return _from_counts(conditionals, publication, database)
        folds = {fold(name) for name in publication.given}
        if publication.kind == "shares" and publication.exact and folds <= set(rows):
            return _from_shares(conditionals, publication, database)
        if publication.kind == "shares" and _is_as_rounded(conditionals, rows, keys, publication):
            return _as_rounded(conditionals, publication, database)
    return None


def count_columns(context: RuleContext, found: Counts, node: Node, source: str) -> Node | None:
    """The query's own columns over a source with the keys k0, ... and the count n; None if one is something else."""
    if any(role.what == "derived" for role in found.columns):
        return None
    shown = [
        f"{_shown(found, role, written_column)} AS {quoted([name])}"
        for role, name, written_column in zip(
            found.columns,
            context.names(found.table, node, found.columns),
            written_columns(node, found.columns),
            strict=True,
        )
    ]
    return sqlglot.parse_one(f"SELECT {', '.join(shown)} FROM {source}", read=DIALECT)


def _shown(found: Counts, role: Role, node: Node | None) -> str:
    if role.what == "key" and role.expr is not None:
        return f"k{found.keys.index(role.expr)}"
    kind = type_of_count(node)
    return "n" if kind == "BIGINT" else f"CAST(n AS {kind})"


def counts(found: Counts, publications: Sequence[Publication], database: str) -> str | None:
    """A query for counts of records, of columns k0, ... and n, over a published table of counts; None if none has them.

    A combination of keys without records has no row, as in a query over the records.
    """
    keys = _columns(found.keys)
    whole = (tuple(range(len(found.keys))),)
    if keys is None or not _is_one_table(found) or found.unit is not None or found.kept or len(found.events) != 1:
        return None
    if found.sets not in ((), whole):
        return None
    conditions = [*found.filter, *found.events[0]]
    for publication in _newest(found, publications, database):
        if publication.kind != "counts" or not publication.exact or not _are_total(conditions, publication):
            continue
        if not {*keys, *_names(conditions)} <= set(_cells_by(publication)):
            continue
        write, number = Renderer(), _value(publication)
        shown = [f"{write.text(key)} AS k{at}" for at, key in enumerate(found.keys)]
        total = f"coalesce(sum({number}){_only(found.events[0])}, 0)"
        where = " AND ".join([f"{number} > 0", *([_all_of(found.filter)] if found.filter else [])])
        return (
            f"SELECT {', '.join([*shown, f'CAST({total} AS BIGINT) AS n'])} FROM {_copy(publication, database)} "
            f'AS "duckanon.row" WHERE {where}{" GROUP BY ALL" if shown else ""} ORDER BY ALL ASC NULLS LAST'
        )
    return None


def suggestion(
    conditionals: Sequence[Conditional], label: str, columns: Sequence[str], taken: Iterable[str] = ()
) -> str | None:
    """The statements with which a steward could publish the shares of one query; None if they cannot be published.

    label: the table's name for people. columns: of the table, as stored. taken: names that are not free.
    """
    first = conditionals[0]
    rows, keys = _columns(first.rows), _columns([*first.rows, *first.cols])
    if (
        rows is None
        or keys is None
        or not all(_is_one_table(conditional) and _is_form(conditional, rows) for conditional in conditionals)
    ):
        return None
    conditions = [condition for conditional in conditionals for condition in (*conditional.of, *conditional.event)]
    spelled = {fold(column): column for column in columns}
    texts = [spelled.get(row, row) for row in rows]
    variables = [spelled.get(key, key) for key in dict.fromkeys([*keys, *_names(conditions)]) if key not in rows]
    if not variables:
        # Within a row all shares are 1 or 0: they follow from counts of the rows.
        texts, variables = [], texts
    places = {conditional.decimals for conditional in conditionals}
    digits = next(iter(places)) if len(places) == 1 and not conditions and texts else None
    value = _free("share" if texts else "n", spelled)
    name = _free("_".join(filter(str.isidentifier, [label.rpartition(".")[2], "by", *texts, *variables])), taken)
    number = "count(*)" + (f" / sum(count(*)) OVER (PARTITION BY {_list(texts)})" if texts else "")
    number = number if digits is None else f"round({number}, {digits})"
    by = _list([*texts, *variables])
    return (
        f"CREATE TABLE {name} AS SELECT {by}, {number} AS {value} FROM {label} GROUP BY {by}; "
        f"SELECT publish({literal(name)}, of := {literal(label)}, variables := {literals(variables)}"
        f"{f', given := {literals(texts)}' if texts else ''}, value := {literal(value)}"
        f"{'' if digits is None else f', digits := {digits}'})"
    )


def columns_of(conditionals: Sequence[Conditional]) -> set[str]:
    """Every column on which shares depend, folded."""
    exprs = [
        row
        for conditional in conditionals
        for row in (*conditional.rows, *conditional.cols, *conditional.of, *conditional.event)
    ]
    return set(_names(exprs))


# --- what can be followed ---------------------------------------------------------------------------------------------


def _newest(found: Found, publications: Sequence[Publication], database: str) -> list[Publication]:
    """The publications of the table that can be read, the newest first."""
    own = [
        publication
        for publication in publications
        if not publication.withdrawn
        and publication.kind != "records"
        and TableName(fold(database), fold(publication.of.schema or ""), fold(publication.of.name)) == found.table
    ]
    return sorted(own, key=lambda item: item.number, reverse=True)


def _is_one_table(conditional: Found) -> bool:
    return len(conditional.sources) == 1 and isinstance(conditional.sources[0].relation, Table)


def _is_form(conditional: Conditional, rows: Sequence[str]) -> bool:
    """Whether these are shares of records within `rows`, filtered by the rows' columns, and rounded to decimals."""
    own = _columns(conditional.rows)
    places = conditional.decimals
    return (
        conditional.weight is None
        and own is not None
        and set(own) == set(rows)
        and all(map(_is_plain, (*conditional.filter, *conditional.kept, *conditional.of, *conditional.event)))
        and set(_names((*conditional.filter, *conditional.kept))) <= set(rows)
        and (places is None or 0 <= places <= _MOST_DIGITS)
    )


def _columns(exprs: Sequence[Expr]) -> list[str] | None:
    """The names of plain columns; None if one of them is something else."""
    names = [expr.name for expr in exprs if isinstance(expr, Column)]
    return names if len(names) == len(exprs) else None


def _names(conditions: Iterable[Expr]) -> list[str]:
    ordered = sorted(conditions, key=Renderer().text)
    return [part.name for expression in ordered for part in walk(expression) if isinstance(part, Column)]


def _is_plain(condition: Expr) -> bool:
    return not any(isinstance(node, Nested | Aggregate | Window | Star | Unclear) for node in walk(condition))


def _are_total(conditions: Iterable[Expr], publication: Publication) -> bool:
    types = {fold(name): kind for name, kind in zip(publication.columns, publication.types, strict=True)}
    return all(_is_plain(condition) and is_total(condition, types) for condition in conditions)


def _cells_by(publication: Publication) -> list[str]:
    """The columns that identify a publication's cells, folded."""
    return [fold(variable) for variable in (*publication.given, *publication.variables)]


def _is_as_rounded(
    conditionals: Sequence[Conditional], rows: Sequence[str], keys: Sequence[str], publication: Publication
) -> bool:
    """Whether rounded shares are asked for exactly as they were published: sums of them would be wrong."""
    whole = set(rows) == {fold(name) for name in publication.given} and set(keys) == set(_cells_by(publication))
    return whole and all(
        not conditional.of and not conditional.event and conditional.decimals == publication.digits
        for conditional in conditionals
    )


# --- the queries ------------------------------------------------------------------------------------------------------


def _from_counts(conditionals: Sequence[Conditional], publication: Publication, database: str) -> str:
    number = _value(publication)

    def total(conditions: frozenset[Expr]) -> str:
        return f"coalesce(sum({number}){_only(conditions)}, 0)"

    sums = [
        f"{total(conditions)} AS {letter}{at}"
        for at, conditional in enumerate(conditionals)
        for letter, conditions in (("a", conditional.of | conditional.event), ("b", conditional.of))
    ]
    shares = [_quotient(conditional, f"a{at}", f"b{at}") for at, conditional in enumerate(conditionals)]
    return _query(conditionals, publication, database, sums, shares)


def _from_shares(conditionals: Sequence[Conditional], publication: Publication, database: str) -> str:
    value = f'CAST("duckanon.row".{quoted([publication.value or ""])} AS DOUBLE)'
    within = {fold(name) for name in publication.given} == set(_columns(conditionals[0].rows) or ())

    def total(conditions: frozenset[Expr]) -> str:
        only = _only(conditions)
        # Decimals add up to the same in any order; a share that stands alone stays what it is.
        added = f"CAST(sum(CAST({value} AS DECIMAL(38, 18))){only} AS DOUBLE)"
        return f"CASE WHEN count(*){only} = 1 THEN min({value}){only} ELSE coalesce({added}, 0) END"

    sums = [
        f"{total(conditions)} AS {letter}{at}"
        for at, conditional in enumerate(conditionals)
        for letter, conditions in (("a", conditional.of | conditional.event), ("b", conditional.of))
    ]
    shares = [
        # All shares within one combination of given add up to one.
        _rescaled(conditional, f"a{at}" if within and not conditional.of else f"a{at} / nullif(b{at}, 0)")
        for at, conditional in enumerate(conditionals)
    ]
    return _query(conditionals, publication, database, sums, shares)


def _as_rounded(conditionals: Sequence[Conditional], publication: Publication, database: str) -> str:
    value = f'"duckanon.row".{quoted([publication.value or ""])}'
    power = 10 ** (publication.digits or 0)
    units = f"CAST(round(min(CAST({value} AS DOUBLE)) * {power}) AS HUGEINT)"
    sums = [f"{units} AS a{at}, 1 AS b{at}" for at in range(len(conditionals))]
    shares = [_moved(f"a{at}", conditional.digits or 0) for at, conditional in enumerate(conditionals)]
    return _query(conditionals, publication, database, sums, shares, every=True)


def _query(
    conditionals: Sequence[Conditional],
    publication: Publication,
    database: str,
    sums: Sequence[str],
    shares: Sequence[str],
    *,
    every: bool = False,
) -> str:
    """A query for shares: numbers added up in each cell (a0, b0, ...), b0, ... added up within rows, and the quotients.

    every: whether cells with a published 0 are kept: a rounded share of 0 may have records.
    """
    write, first = Renderer(), conditionals[0]
    named = [f"{write.text(key)} AS k{at}" for at, key in enumerate([*first.rows, *first.cols])]
    own = [f"k{at}" for at in range(len(named))]
    where = "" if every else f' WHERE "duckanon.row".{quoted([publication.value or ""])} > 0'
    cells = (
        f'SELECT {", ".join([*named, *sums])} FROM {_copy(publication, database)} AS "duckanon.row"{where}'
        f"{' GROUP BY ALL' if named else ''}"
    )
    partition = ", ".join(own[: len(first.rows)])
    over = f"OVER ({'PARTITION BY ' + partition if partition else ''})"
    # Totals first: DuckDB 1.4 takes no window inside nullif.
    totals = [f"a{at}, sum(b{at}) {over} AS b{at}" for at in range(len(conditionals))]
    summed = f"SELECT {', '.join([*own, *totals])} FROM ({cells})"
    shown = [f"{share} AS p{at}" for at, share in enumerate(shares)]
    return f"SELECT {', '.join([*own, *shown])} FROM ({summed}) ORDER BY ALL ASC NULLS LAST"


def _quotient(conditional: Conditional, above: str, below: str) -> str:
    """A share of two counts in SQL: exact, or rounded half upwards."""
    scale, places = Fraction(conditional.scale), conditional.decimals
    count, total = f"CAST({above} AS HUGEINT)", f"CAST({below} AS HUGEINT)"
    if places is None:
        return f"CAST({count} * {scale.numerator} AS DOUBLE) / nullif(CAST({total} * {scale.denominator} AS DOUBLE), 0)"
    return _moved(f"({count} * {2 * 10**places} + {total}) // nullif(2 * {total}, 0)", conditional.digits or 0)


def _rescaled(conditional: Conditional, share: str) -> str:
    """A share that is a DOUBLE, with the scale and rounding that are asked for."""
    scale, places = Fraction(conditional.scale), conditional.decimals
    if places is None:
        return share if scale == 1 else f"({share}) * {scale.numerator} / CAST({scale.denominator} AS DOUBLE)"
    units = f"CAST(round(({share}) * {_SHARP}) AS HUGEINT)"
    return _moved(f"({units} * {2 * 10**places} + {_SHARP}) // {2 * _SHARP}", conditional.digits or 0)


def _moved(whole: str, digits: int) -> str:
    """A whole number of units of 10^-digits in SQL, as a DOUBLE."""
    return f"CAST({whole} AS DOUBLE) {'/' if digits >= 0 else '*'} {10 ** abs(digits)}"


def _value(publication: Publication) -> str:
    return f'CAST("duckanon.row".{quoted([publication.value or ""])} AS HUGEINT)'


def _copy(publication: Publication, database: str) -> str:
    return quoted([database, "duckanon", publication.name])


def _only(conditions: frozenset[Expr]) -> str:
    return f" FILTER (WHERE {_all_of(conditions)})" if conditions else ""


def _all_of(conditions: Iterable[Expr]) -> str:
    write = Renderer()
    return " AND ".join(sorted(f"({write.text(condition)})" for condition in conditions))


# --- text for people --------------------------------------------------------------------------------------------------


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, or the name with a number, so that it is not taken."""
    used, text, number = {fold(name) for name in taken}, name, 1
    while fold(text) in used:
        number += 1
        text = f"{name}_{number}"
    return text


def _list(names: Sequence[str]) -> str:
    return ", ".join(spelled([name]) for name in names)
