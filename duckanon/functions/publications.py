"""publish, unpublish, publications: releases that a steward makes readable to everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import duckdb
import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.listing import register_listing
from duckanon.functions.publication_audit import audit
from duckanon.functions.request import Request
from duckanon.functions.sqltext import call, fill, literal
from duckanon.functions.udf import Host, Instance, register_engine


class Publications(Protocol):
    """The publications of governance. Each call returns a sentence that says what now holds."""

    def publish(
        self,
        release: str,
        seen: Mapping[str, Any],
        of: str | None,
        seen_of: Mapping[str, Any] | None,
        terms: Terms,
        audit: Callable[[duckdb.DuckDBPyConnection, Candidate], None],
    ) -> str: ...

    def unpublish(self, release: str, seen: Mapping[str, Any]) -> str: ...

    def listed(self) -> list[dict[str, Any]]: ...


_MOST_DIGITS = 12


def register(on: Instance, host: Host) -> None:
    """Put the functions behind publish, unpublish and publications on a database instance."""
    publications: Publications = host.governance.publications
    on.function("publish", Publish)
    on.function("unpublish", Unpublish)
    register_engine(on, "_dk_publish", partial(_publish, publications), "said", "VARCHAR", Publish)
    register_engine(on, "_dk_unpublish", partial(_unpublish, publications), "said", "VARCHAR", Unpublish)
    register_listing(on, "publications", publications.listed)


@dataclass(frozen=True, kw_only=True)
class Publish(Request):
    """A call of publish. terms: its other arguments."""

    release: str
    of: str | None
    terms: Terms

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        release, protected = _release(given["release"]), arguments.optional_table(given["of"], "of")
        return cls(release=release, of=protected, terms=_terms(given))

    def query(self) -> str:
        answer = call(
            "_dk_publish",
            request=self.literal,
            seen=f"_dk_seen({literal(self.release)})",
            seen_of="NULL" if self.of is None else f"_dk_seen({literal(self.of)})",
        )
        return fill("decision", described="SELECT 1", call=answer)


@dataclass(frozen=True, kw_only=True)
class Unpublish(Request):
    """A call of unpublish."""

    release: str

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        return cls(release=_release(given["release"]))

    def query(self) -> str:
        answer = call("_dk_unpublish", request=self.literal, seen=f"_dk_seen({literal(self.release)})")
        return fill("decision", described="SELECT 1", call=answer)


def _release(given: object) -> str:
    if not isinstance(given, str) or not given:
        raise InvalidInput("The first argument must be the name of a release: a table or view, in quotes.")
    return given


def _terms(given: Mapping[str, Any]) -> Terms:
    """The arguments that describe the release, checked against each other."""
    value, digits, base, changes = (given[name] for name in ("value", "digits", "base", "accept_changes"))
    by, within = (
        arguments.names(given["variables"], "variables", empty=True),
        arguments.names(given["given"], "given", empty=True),
    )
    for name in by:
        if fold(name) in {fold(one) for one in within}:
            raise InvalidInput(f'Column "{name}" is both in variables and in given: name it in one of them.')
    if value is not None and (not isinstance(value, str) or not value):
        raise InvalidInput("value must be the name of the column that holds the counts or shares, as in value := 'n'.")
    if value is None and (by or within or digits is not None or base is not None):
        raise InvalidInput(
            "variables, given, digits and base are for counts and shares: name their column, as in value := 'n'."
        )
    if value is not None and fold(value) in {fold(one) for one in (*by, *within)}:
        raise InvalidInput(
            f'Column "{value}" cannot be both value and one that identifies a cell: name it in one of them.'
        )
    if within and not by:
        raise InvalidInput("Shares within given need variables that tell them apart: name them.")
    if not isinstance(changes, bool):
        raise InvalidInput("accept_changes must be true or false.")
    return Terms(tuple(by), tuple(within), value, _digits(digits, within), _base(base, within), changes)


def _digits(given: object, within: list[str]) -> int | None:
    if given is None:
        return None
    found = arguments.whole(given, "digits")
    if not within:
        raise InvalidInput("digits are for shares; counts are rounded to multiples: base := 10.")
    if not 0 <= found <= _MOST_DIGITS:
        raise InvalidInput(f"digits must be between 0 and {_MOST_DIGITS}: the decimals of shares between 0 and 1.")
    return found


def _base(given: object, within: list[str]) -> int | None:
    if given is None:
        return None
    found = arguments.whole(given, "base")
    if within:
        raise InvalidInput("base is for counts; shares are rounded to decimals: digits := 2.")
    if found < 2:
        raise InvalidInput("base must be 2 or more: counts are rounded to its multiples.")
    return found


def _publish(publications: Publications, request: Publish, seen: pa.Scalar, seen_of: pa.Scalar) -> pa.Array:
    said = publications.publish(request.release, seen.as_py(), request.of, seen_of.as_py(), request.terms, audit)
    return pa.array([said])


def _unpublish(publications: Publications, request: Unpublish, seen: pa.Scalar) -> pa.Array:
    return pa.array([publications.unpublish(request.release, seen.as_py())])
