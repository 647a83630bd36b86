"""release_audit and next_tables: what publications disclose together, and what may be published in addition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Protocol, Self, TypeVar

import duckdb
import pyarrow as pa

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.cell_key import magnitude_of, perturbed_by
from duckanon.functions.publication_audit import MASKED, check_table, follows
from duckanon.functions.publication_changed import check_sums_before
from duckanon.functions.publication_masked import check_key, check_masked
from duckanon.functions.publication_numbers import check_publishable
from duckanon.functions.publication_sums import CHANGED, check_values_unknown
from duckanon.functions.publication_tables import Joint
from duckanon.functions.publication_units import read_as
from duckanon.functions.request import Request
from duckanon.functions.sqltext import call, fill, seen
from duckanon.functions.table_bounds import PublishedTable
from duckanon.functions.udf import Host, Instance, register_engine

Answer = TypeVar("Answer")
Row = dict[str, Any]
# The widest sets of columns that are proposed.
_WIDEST = 3


class Publications(Protocol):
    """A protected table with its publications, as governance has them, in one snapshot."""

    def examined(
        self,
        of: str,
        seen: Mapping[str, Any],
        look: Callable[[duckdb.DuckDBPyConnection, Candidate], Answer],
        release: tuple[str, Mapping[str, Any]] | None,
        hierarchies: Sequence[tuple[str, str]] = (),
        seen_trees: Sequence[Mapping[str, Any]] = (),
    ) -> Answer: ...


def register(on: Instance, host: Host) -> None:
    """Put the functions behind release_audit and next_tables on a database instance."""
    publications: Publications = host.governance.publications
    for name, request, look in (("release_audit", ReleaseAudit, _audit), ("next_tables", NextTables, _next)):
        on.function(request)
        kind = f"{row_type(columns_of(name))}[]"
        register_engine(on, f"_dk_{name}", partial(_examined, publications, look, name), "rows", kind, request)


@dataclass(frozen=True, kw_only=True)
class _About(Request):
    """A call about a protected table."""

    of: str

    def listing(self, function: str) -> str:
        of_release = "NULL" if self.release is None else seen(self.release)
        trees = f"[{', '.join(seen(table) for _, table in self.hierarchies)}]"
        answer = call(function, request=self.literal, seen=seen(self.of), seen_release=of_release, seen_trees=trees)
        return fill("listing", answer=answer)

    @property
    def release(self) -> str | None:
        """The table that is read beside it."""
        return None

    @property
    def hierarchies(self) -> tuple[tuple[str, str], ...]:
        """The tables of codes of that table, by column."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ReleaseAudit(_About):
    """A call of release_audit."""

    function = "release_audit"
    candidate: PublishedTable | None

    @property
    def release(self) -> str | None:
        return None if self.candidate is None else self.candidate.tbl

    @property
    def hierarchies(self) -> tuple[tuple[str, str], ...]:
        return () if self.candidate is None else self.candidate.hierarchies

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        form = checked["candidate"]
        return cls(of=checked["of"], candidate=None if form is None else _form(form, "candidate"))

    def query(self) -> str:
        return self.listing("_dk_release_audit")


@dataclass(frozen=True, kw_only=True)
class NextTables(_About):
    """A call of next_tables. candidates: None for those that are proposed."""

    function = "next_tables"
    candidates: tuple[PublishedTable, ...] | None

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        forms = checked["candidates"]
        if forms is not None and (not isinstance(forms, list) or not forms):
            raise InvalidInput("candidates must be a list of tables, as in candidates := [{vars: ['age']}].")
        tables = None if forms is None else tuple(_form(form, "candidates") for form in forms)
        return cls(of=checked["of"], candidates=tables)

    def query(self) -> str:
        return self.listing("_dk_next_tables")


def _form(value: object, argument: str) -> PublishedTable:
    example = "candidates := [{vars: ['age']}]" if argument == "candidates" else "candidate := {vars: ['age']}"
    published = PublishedTable.read(value, argument, example)
    if published.suppressed is not None and argument == "candidate":
        if published.tbl is None or published.value is None:
            raise InvalidInput("A candidate with suppressed cells is a table: say its tbl, vars, value and suppressed.")
    elif (published.sum is not None and published.key is None) or published.weight is not None:
        raise InvalidInput(
            "A candidate with sums has suppressed cells, or is perturbed: say its tbl, vars, value, suppressed and "
            "sum, or its vars, key and sum."
        )
    elif published.tbl is not None or published.value is not None or published.suppressed is not None:
        raise InvalidInput(
            "A candidate is made from the protected table: say vars, given, digits and base of it, and no tbl or value."
        )
    if not published.vars:
        raise InvalidInput("A candidate has no vars: name them, as in {vars: ['age']}.")
    return published


def _of(candidate: Candidate, form: PublishedTable) -> Candidate:
    """The candidate of that form. Perturbed sums that are no table yet have a column, which says their decimals."""
    sums = form.key is not None and form.sum is not None
    columns = {CHANGED: f"DECIMAL(38, {form.digits or 0})"} if sums else candidate.columns
    return replace(candidate, terms=_terms(form), columns=columns)


def _terms(form: PublishedTable) -> Terms:
    # Any name will do: there is no table yet.
    own = {"max_deviation": form.max_deviation, "variance": form.variance, "threshold": form.threshold}
    perturbation = perturbed_by(form.key, own)
    return Terms(
        form.vars,
        form.given,
        form.value or "value",
        form.digits if form.given else None,
        form.base,
        suppressed=form.suppressed,
        perturbation=perturbation,
        sum=form.sum,
        weight=form.weight,
        count=form.count,
        magnitude=magnitude_of(form.magnitude) if perturbation is not None and form.sum is not None else None,
        hierarchies=form.hierarchies,
    )


def _examined(
    publications: Publications,
    look: Callable[[duckdb.DuckDBPyConnection, Candidate, Any], list[Row]],
    name: str,
    request: _About,
    seen: pa.Scalar,
    seen_release: pa.Scalar,
    seen_trees: pa.Scalar,
) -> pa.Array:
    lines = publications.examined(
        request.of,
        seen.as_py(),
        lambda con, candidate: look(con, candidate, request),
        None if request.release is None else (request.release, seen_release.as_py()),
        request.hierarchies,
        seen_trees.as_py(),
    )
    return rows(lines, columns_of(name))


def _audit(con: duckdb.DuckDBPyConnection, candidate: Candidate, request: ReleaseAudit) -> list[Row]:
    # What there is of the table already says how its rows count.
    if request.candidate is None:
        candidate = replace(candidate, terms=Terms(count=_count_of(candidate)))
    else:
        candidate = _of(candidate, request.candidate)
    candidate = read_as(con, candidate)
    terms = candidate.terms
    tables: list[tuple[str, Any]] = [
        (publication.name, publication) for publication in candidate.earlier if publication.kind != "records"
    ]
    if request.candidate is not None:
        if terms.kind in MASKED and candidate.release:
            check_masked(con, candidate)
            check_values_unknown(candidate)
        else:
            _check_form(candidate)
            check_values_unknown(candidate)
            _check_sums(con, candidate)
        tables.append(("the candidate", terms))
    if not tables:
        return []
    findings = []
    for finding in Joint(con, candidate, [table for _, table in tables]).findings():
        involved = {fold(name) for name in finding.variables}
        names = [name for name, table in tables if involved & _columns(table)]
        findings.append(
            {**vars(finding), "variables": list(finding.variables), "safe": finding.safe, "publications": names}
        )
    return findings


def _count_of(candidate: Candidate) -> str | None:
    return candidate.earlier[0].count if candidate.earlier else None


def _check_form(candidate: Candidate) -> None:
    check_publishable(candidate)
    if candidate.terms.perturbation is not None:
        check_key(candidate, candidate.terms.perturbation)


def _check_sums(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    """Raises InvalidInput for sums that would be perturbed too little."""
    if candidate.terms.sum is not None and candidate.terms.perturbation is not None:
        check_sums_before(con, candidate, candidate.terms.perturbation)


def _columns(table: Any) -> set[str]:
    return {fold(name) for name in (*table.given, *table.variables)}


def _next(con: duckdb.DuckDBPyConnection, candidate: Candidate, request: NextTables) -> list[Row]:
    proposed = _proposed(candidate) if request.candidates is None else []
    count = _count_of(candidate)
    candidate = read_as(con, replace(candidate, terms=Terms(count=count)))
    candidates = [replace(candidate, terms=terms) for terms in proposed]
    candidates += [_of(candidate, form) for form in request.candidates or ()]
    judged = [_judged(con, replace(variant, terms=replace(variant.terms, count=count))) for variant in candidates]
    return sorted(judged, key=lambda row: (not row["publishable"], -row["information"], len(row["variables"])))


def _proposed(candidate: Candidate) -> list[Terms]:
    """Counts by all sets of few columns that may be published, and that do not follow from earlier publications."""
    allowed = candidate.policy.publishable
    names = sorted((name for name in candidate.source if fold(name) in allowed), key=fold)
    sets = [chosen for size in range(1, _WIDEST + 1) for chosen in combinations(names, size)]
    every = [Terms(chosen, (), "value") for chosen in sets]
    return [
        terms
        for terms in every
        if not any(follows(replace(candidate, terms=terms), publication) for publication in candidate.earlier)
    ]


def _judged(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> Row:
    _check_form(candidate)
    terms, reason = candidate.terms, None
    try:
        candidate.check_changes()
        _check_sums(con, candidate)
        check_table(con, candidate, half_up=True)
    except InvalidInput as refused:
        reason = str(refused)
    cells, entropy = _entropy(con, candidate, terms.columns)
    known = [
        _entropy(con, candidate, [name for name in terms.columns if fold(name) in _columns(publication)])[1]
        for publication in candidate.earlier
        if publication.kind != "records"
    ]
    return {
        "variables": list(terms.variables),
        "given": list(terms.given),
        "digits": terms.digits,
        "base": terms.base,
        "key": None if terms.perturbation is None else terms.perturbation.key,
        "sum": terms.sum,
        "publishable": reason is None,
        "cells": cells,
        "information": round(entropy - max(known, default=0.0), 9) + 0.0,
        "reason": reason,
    }


def _entropy(con: duckdb.DuckDBPyConnection, candidate: Candidate, columns: Sequence[str]) -> tuple[int, float]:
    """How many cells hold records, and the entropy of which cell a record is in, in bits."""
    by: Iterable[str] = map(identifier, columns)
    if not columns:
        return 1, 0.0
    ((cells, entropy),) = con.execute(
        "SELECT system.main.count(*), coalesce(-system.main.sum(p * system.main.log2(p) ORDER BY p), 0) FROM "
        "(SELECT n / system.main.sum(n) OVER () AS p FROM "
        f"(SELECT {candidate.records} AS n FROM {candidate.of} GROUP BY {', '.join(by)}))"
    ).fetchall()
    return int(cells), float(entropy)
