"""publish, unpublish, publications: what a steward lets everybody read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.policies import Columns, kind, rows
from duckanon.functions.publication_audit import audit
from duckanon.functions.sqltext import fill, literal
from duckanon.functions.udf import Instance, register_engine, register_writer


class Publications(Protocol):
    """What was published. Each sentence says what now holds."""

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


_PUBLICATION: Columns = (
    ("database", "VARCHAR"),
    ("name", "VARCHAR"),
    ("of", "VARCHAR"),
    ("population", "VARCHAR"),
    ("kind", "VARCHAR"),
    ("variables", "VARCHAR[]"),
    ("given", "VARCHAR[]"),
    ("value", "VARCHAR"),
    ("digits", "BIGINT"),
    ("base", "BIGINT"),
    ("edition", "BIGINT"),
    ("day", "VARCHAR"),
    ("content_hash", "VARCHAR"),
    ("changes_accepted", "BOOLEAN"),
    ("withdrawn", "BOOLEAN"),
)
_MOST_DIGITS = 12


def register(on: Instance, publications: Publications) -> None:
    """Put the functions behind publish, unpublish and publications on a database instance."""
    register_writer(on, "_dk_write_publish", _write_publish)
    register_writer(on, "_dk_write_unpublish", _write_unpublish)
    register_engine(on, "_dk_publish", _publish(publications), "said", "VARCHAR")
    register_engine(on, "_dk_unpublish", _unpublish(publications), "said", "VARCHAR")
    register_engine(on, "_dk_publications", rows(publications.listed, _PUBLICATION), "rows", kind(_PUBLICATION))


def _write_publish(release: object, of: object, *given: object) -> str:
    table, protected = _release(release), arguments.optional_table(of, "of")
    terms = _terms(*given)
    seen_of = "NULL" if protected is None else f"_dk_seen({literal(protected)})"
    said = literal(json.dumps({"release": table, "of": protected, **terms}))
    return fill(
        "decision",
        described="SELECT 1",
        call=f"system.main._dk_publish({said}, _dk_seen({literal(table)}), {seen_of})",
    )


def _write_unpublish(release: object) -> str:
    table = _release(release)
    call = f"system.main._dk_unpublish({literal(table)}, _dk_seen({literal(table)}))"
    return fill("decision", described="SELECT 1", call=call)


def _release(given: object) -> str:
    if not isinstance(given, str) or not given:
        raise InvalidInput("The first argument must be the name of a release: a table or view, in quotes.")
    return given


def _terms(
    variables: object, given: object, value: object, digits: object, base: object, changes: object
) -> dict[str, Any]:
    """The arguments as fields of Terms, checked among themselves."""
    by, within = arguments.names(variables, "variables", empty=True), arguments.names(given, "given", empty=True)
    for name in by:
        if fold(name) in {fold(one) for one in within}:
            raise InvalidInput(f'Column "{name}" is both in variables and in given: name it in one of them.')
    if value is not None and (not isinstance(value, str) or not value):
        raise InvalidInput("value must be the name of the column that holds the counts or shares, as in value := 'n'.")
    if value is None and (by or within or digits is not None or base is not None):
        raise InvalidInput(
            "variables, given, digits and base are said of counts and shares: name their column, as in value := 'n'."
        )
    if value is not None and fold(value) in {fold(one) for one in (*by, *within)}:
        raise InvalidInput(f'Column "{value}" cannot be value and tell cells apart: name it in one of them.')
    if within and not by:
        raise InvalidInput("Shares within given need variables that tell them apart: name them.")
    if not isinstance(changes, bool):
        raise InvalidInput("accept_changes must be true or false.")
    return {
        "variables": by,
        "given": within,
        "value": value,
        "digits": _digits(digits, within),
        "base": _base(base, within),
        "accept_changes": changes,
    }


def _digits(given: object, within: list[str]) -> int | None:
    if given is None:
        return None
    found = arguments.whole(given, "digits")
    if not within:
        raise InvalidInput("digits are said of shares; counts are rounded to multiples: base := 10.")
    if not 0 <= found <= _MOST_DIGITS:
        raise InvalidInput(f"digits must be between 0 and {_MOST_DIGITS}: the decimals of shares between 0 and 1.")
    return found


def _base(given: object, within: list[str]) -> int | None:
    if given is None:
        return None
    found = arguments.whole(given, "base")
    if within:
        raise InvalidInput("base is said of counts; shares are rounded to decimals: digits := 2.")
    if found < 2:
        raise InvalidInput("base must be 2 or more: counts are rounded to its multiples.")
    return found


def _publish(publications: Publications) -> Callable[..., pa.Array]:
    def answer(said: pa.Scalar, seen: pa.Scalar, seen_of: pa.Scalar) -> pa.Array:
        told = json.loads(said.as_py())
        release, of = told.pop("release"), told.pop("of")
        for name in ("variables", "given"):
            told[name] = tuple(told[name])
        return pa.array([publications.publish(release, seen.as_py(), of, seen_of.as_py(), Terms(**told), audit)])

    return answer


def _unpublish(publications: Publications) -> Callable[..., pa.Array]:
    def answer(release: pa.Scalar, seen: pa.Scalar) -> pa.Array:
        return pa.array([publications.unpublish(release.as_py(), seen.as_py())])

    return answer
