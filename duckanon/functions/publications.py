"""publish, unpublish, publications: releases that a steward makes readable to everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import duckdb
import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.bands import pairs_of
from duckanon.functions.cell_key import magnitude_of, perturbed_by
from duckanon.functions.listing import register_listing
from duckanon.functions.publication_audit import audit
from duckanon.functions.request import Request
from duckanon.functions.sqltext import decision, fill, seen
from duckanon.functions.udf import Host, Instance, register_decision


class Publications(Protocol):
    """The publications of governance. Each call returns a sentence that says what now holds."""

    def publish(
        self,
        release: str,
        seen: Mapping[str, Any],
        of: str | None,
        seen_of: Mapping[str, Any] | None,
        terms: Terms,
        audit: Callable[[duckdb.DuckDBPyConnection, Candidate], bool],
        seen_trees: Sequence[Mapping[str, Any]] = (),
    ) -> str: ...

    def unpublish(self, release: str, seen: Mapping[str, Any]) -> str: ...

    def listed(self) -> list[dict[str, Any]]: ...


def register(on: Instance, host: Host) -> None:
    """Put the functions behind publish, unpublish and publications on a database instance."""
    publications: Publications = host.governance.publications
    register_decision(on, partial(_publish, publications), Publish)
    register_decision(on, partial(_unpublish, publications), Unpublish)
    register_listing(on, "publications", publications.listed)


@dataclass(frozen=True, kw_only=True)
class Publish(Request):
    """A call of publish. terms: its other arguments."""

    function = "publish"
    release: str
    of: str | None
    terms: Terms

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        return cls(release=checked["release"], of=checked["of"], terms=_terms(checked))

    def query(self) -> str:
        answer = decision(
            self.function,
            self.literal,
            seen=seen(self.release),
            seen_of="NULL" if self.of is None else seen(self.of),
            seen_trees=f"[{', '.join(seen(table) for _, table in self.terms.hierarchies)}]",
        )
        return fill("decision", described="SELECT 1", call=answer)


@dataclass(frozen=True, kw_only=True)
class Unpublish(Request):
    """A call of unpublish."""

    function = "unpublish"
    release: str

    def query(self) -> str:
        answer = decision(self.function, self.literal, seen=seen(self.release))
        return fill("decision", described="SELECT 1", call=answer)


def _terms(checked: Mapping[str, Any]) -> Terms:
    """The arguments that describe the release, checked against each other."""
    by, within, value = checked["variables"], checked["given"], checked["value"]
    digits, base = checked["digits"], checked["base"]
    suppressed, perturbation = checked["suppressed"], perturbed_by(checked["key"], checked)
    for name in by:
        if fold(name) in {fold(given_name) for given_name in within}:
            raise InvalidInput(f'Column "{name}" is both in variables and in given: name it in one of them.')
    masked = suppressed is not None or perturbation is not None
    if value is None and (by or within or digits is not None or base is not None or masked):
        raise InvalidInput(
            "variables, given, digits and base are for counts and shares: name their column, as in value := 'n'."
            if not masked
            else "suppressed and key are for tables of counts: name their column, as in value := 'value'."
        )
    for name in (value, suppressed):
        if name is not None and fold(name) in {fold(identifying) for identifying in (*by, *within)}:
            raise InvalidInput(
                f'Column "{name}" cannot be both {"value" if name == value else "suppressed"} and one that identifies '
                "a cell: name it in one of them."
            )
    if within and not by:
        raise InvalidInput("Shares within given need variables that tell them apart: name them.")
    if digits is not None and not within:
        raise InvalidInput("digits are for shares; counts are rounded to multiples: base := 10.")
    if base is not None and within:
        raise InvalidInput("base is for counts; shares are rounded to decimals: digits := 2.")
    if masked and (within or base is not None or (suppressed is not None and perturbation is not None)):
        raise InvalidInput(
            "A table of counts is published rounded, suppressed or perturbed, and not several of these: leave given "
            "and base out, and one of suppressed and key."
        )
    if suppressed is None and (checked["weight"] is not None or (checked["sum"] is not None and perturbation is None)):
        raise InvalidInput(
            "Sums are published with suppressed cells or perturbed, and weighted numbers with suppressed cells only: "
            "say suppressed := 'suppressed' or name key, or leave sum and weight out."
        )
    changed = perturbation is not None and checked["sum"] is not None
    if checked["magnitude"] is not None and not changed:
        raise InvalidInput("magnitude is of sums that cell_key perturbed: name their key and sum, or leave it out.")
    trees = _hierarchies(checked["hierarchies"])
    _check_read(checked, trees)
    return Terms(
        by,
        within,
        value,
        digits,
        base,
        checked["accept_changes"],
        suppressed,
        perturbation,
        checked["width"],
        checked["sum"],
        trees,
        checked["weight"],
        checked["count"],
        magnitude_of(checked["magnitude"]) if changed else None,
    )


def _check_read(checked: Mapping[str, Any], trees: Sequence[tuple[str, str]]) -> None:
    """Check what is said of how the records are read against what is published."""
    value = checked["value"]
    if trees and value is not None and checked["suppressed"] is None:
        raise InvalidInput(
            "hierarchies are for labels of a k-anonymous table, and for codes of one with suppressed cells: leave "
            "value out, say suppressed, or leave hierarchies out."
        )
    if checked["count"] is not None and (value is None or checked["key"] or checked["weight"]):
        raise InvalidInput(
            "Rows that stand for several records are published as counts or shares of records, suppressed or not, or "
            "as sums with suppressed cells: leave key and weight out, or count."
        )


def _hierarchies(value: object) -> tuple[tuple[str, str], ...]:
    """The columns and the tables of their hierarchies. Raises InvalidInput for expressions."""
    example = "hierarchies must give an open table by name, as in hierarchies := {'zip': 'zip_levels'}."
    pairs = pairs_of(value, example)
    if not all(isinstance(table, str) and table for _, table in pairs):
        raise InvalidInput(example)
    if len({fold(name) for name, _ in pairs}) < len(pairs):
        raise InvalidInput("hierarchies names a column twice: name each once.")
    return tuple(pairs)


def _publish(
    publications: Publications, request: Publish, seen: pa.Scalar, seen_of: pa.Scalar, seen_trees: pa.Scalar
) -> pa.Array:
    sentence = publications.publish(
        request.release, seen.as_py(), request.of, seen_of.as_py(), request.terms, audit, seen_trees.as_py()
    )
    return pa.array([sentence])


def _unpublish(publications: Publications, request: Unpublish, seen: pa.Scalar) -> pa.Array:
    return pa.array([publications.unpublish(request.release, seen.as_py())])
