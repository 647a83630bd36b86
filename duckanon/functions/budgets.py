"""protect, unprotect, policies, privacy_ledger, privacy_budget: what SQL says to governance, and gets to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import pyarrow as pa

from duckanon.accounting import epsilon, written
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.schema import Table
from duckanon.functions.templates import fill, identifier, literal
from duckanon.functions.udf import Instance, register_engine, register_writer


class Books(Protocol):
    """Governance, as SQL sees it. Each of its sentences says what now holds."""

    def protect(
        self, table: str, seen: Mapping[str, Any], epsilon: Fraction, unit: str | None, **offers: Any
    ) -> str: ...

    def unprotect(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def lines(self) -> list[dict[str, Any]]: ...

    def budgets(self) -> list[dict[str, Any]]: ...

    def decisions(self) -> list[dict[str, Any]]: ...


_LINE = (
    ("database", "VARCHAR"),
    ("number", "BIGINT"),
    ("recorded_at", "TIMESTAMP"),
    ("who", "VARCHAR"),
    ("tbl", "VARCHAR"),
    ("action", "VARCHAR"),
    ("epsilon", "DOUBLE"),
    ("epsilon_exact", "VARCHAR"),
    ("remaining", "DOUBLE"),
    ("remaining_exact", "VARCHAR"),
    ("what", "VARCHAR"),
    ("neighbours", "VARCHAR"),
)
_BUDGET = (
    ("database", "VARCHAR"),
    ("tbl", "VARCHAR"),
    ("unit", "VARCHAR"),
    ("epsilon", "DOUBLE"),
    ("epsilon_exact", "VARCHAR"),
    ("spent", "DOUBLE"),
    ("spent_exact", "VARCHAR"),
    ("remaining", "DOUBLE"),
    ("remaining_exact", "VARCHAR"),
    ("charges", "BIGINT"),
    ("protected_at", "TIMESTAMP"),
)
_POLICY = (
    ("database", "VARCHAR"),
    ("tbl", "VARCHAR"),
    ("unit", "VARCHAR"),
    ("hierarchy", "VARCHAR[]"),
    ("epsilon", "DOUBLE"),
    ("per_query", "DOUBLE"),
    ("max_size", "BIGINT"),
    ("public", "VARCHAR[]"),
    ("quasi_identifiers", "VARCHAR[]"),
    ("k", "BIGINT"),
    ("sensitive", "VARCHAR[]"),
    ("small", "BIGINT"),
    ("drop", "VARCHAR[]"),
)
_ARROW = {
    "VARCHAR[]": pa.list_(pa.string()),
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
}


def register(on: Instance, books: Books) -> None:
    """Put the functions behind protect, unprotect, privacy_ledger and privacy_budget on a database instance."""
    register_writer(on, "_dk_write_protect", _write_protect)
    register_writer(on, "_dk_write_unprotect", _write_unprotect)
    register_engine(on, "_dk_protect", _protect(books), "said", "VARCHAR")
    register_engine(on, "_dk_unprotect", _unprotect(books), "said", "VARCHAR")
    register_engine(on, "_dk_ledger", _rows(books.lines, _LINE), "rows", _kind(_LINE))
    register_engine(on, "_dk_policies", _rows(books.decisions, _POLICY), "rows", _kind(_POLICY))
    register_engine(on, "_dk_budget", _rows(books.budgets, _BUDGET), "rows", _kind(_BUDGET))


def _kind(columns: Sequence[tuple[str, str]]) -> str:
    return f"STRUCT({', '.join(f'{identifier(name)} {kind}' for name, kind in columns)})[]"


def _rows(read: Callable[[], list[dict[str, Any]]], columns: Sequence[tuple[str, str]]) -> Callable[..., pa.Array]:
    """All rows that `read` gives, as one list."""
    kind = pa.list_(pa.struct([(name, _ARROW[kind]) for name, kind in columns]))

    def answer(_: pa.Scalar) -> pa.Array:
        return pa.array([read()], kind)

    return answer


def _write_protect(
    tbl: object,
    unit: object,
    budget: object,
    hierarchy: object,
    per_query: object,
    max_size: object,
    public: object,
    quasi_identifiers: object,
    k: object,
    sensitive: object,
    small: object,
    drop: object,
) -> str:
    table, whole = arguments.table(tbl), epsilon(budget)
    given = {
        "hierarchy": hierarchy,
        "public": public,
        "quasi_identifiers": quasi_identifiers,
        "sensitive": sensitive,
        "drop": drop,
    }
    said = offers(whole, unit, given, per_query=per_query, max_size=max_size, k=k, small=small)
    column = "NULL::VARCHAR" if unit is None else literal(str(unit))
    return fill(
        "protect",
        table=literal(table),
        unit=column,
        epsilon=literal(written(whole)),
        offers=literal(json.dumps(said)),
    )


def offers(
    budget: Fraction,
    unit: object,
    lists: Mapping[str, object],
    *,
    per_query: object,
    max_size: object,
    k: object,
    small: object,
) -> dict[str, Any]:
    """What a policy says besides its budget and unit, checked. lists: lists of columns, by the argument's name.

    Raises InvalidInput for what contradicts itself.
    """
    if unit is not None and (not isinstance(unit, str) or not unit):
        raise InvalidInput("unit must be the name of the column that tells groups apart, as in 'household_id'.")
    found: dict[str, Any] = {name: arguments.names(one, name, empty=True) for name, one in lists.items()}
    for one, other in _APART:
        _apart(one, found[one], other, [unit] if other == "unit" and unit else found.get(other, []))
    found["k"] = _least(k, "k", 2, "with k = 1 every record may stand alone")
    found["small"] = _least(small, "small", 1, "counts from 1 to small - 1 are small")
    if max_size is not None:
        found["max_size"] = _least(max_size, "max_size", 1, "larger groups are counted as groups of that size")
    if per_query is not None:
        each = epsilon(per_query, "per_query")
        if each > budget:
            raise InvalidInput("per_query must not be more than epsilon: it is what one release may cost of it.")
        found["per_query"] = written(each)
    return found


# Arguments that must not name the same column.
_APART = (
    ("hierarchy", "unit"),
    ("quasi_identifiers", "drop"),
    ("quasi_identifiers", "sensitive"),
    ("sensitive", "drop"),
)


def _apart(one: str, names: list[str], other: str, others: list[str]) -> None:
    taken = {name.lower() for name in others}
    for name in names:
        if name.lower() in taken:
            raise InvalidInput(f'Column "{name}" is both in {one} and in {other}: name it in one of them.')


def _least(given: object, argument: str, least: int, why: str) -> int:
    found = arguments.whole(given, argument)
    if found < least:
        raise InvalidInput(f"{argument} must be {least} or more: {why}.")
    return found


def _write_unprotect(tbl: object) -> str:
    return fill("unprotect", table=literal(arguments.table(tbl)))


def _protect(books: Books) -> Callable[..., pa.Array]:
    def answer(
        names: pa.Scalar,
        types: pa.Scalar,
        tbl: pa.Scalar,
        seen: pa.Scalar,
        unit: pa.Scalar,
        budget: pa.Scalar,
        offers: pa.Scalar,
    ) -> pa.Array:
        found, more = Table(tbl.as_py(), names.as_py(), types.as_py()), json.loads(offers.as_py())
        lists = {name: tuple(one) for name, one in more.items() if isinstance(one, list)}
        found.has([*([unit.as_py()] if unit.is_valid else []), *(name for one in lists.values() for name in one)])
        if "per_query" in more:
            more["per_query"] = epsilon(more["per_query"], "per_query")
        said = books.protect(tbl.as_py(), seen.as_py(), epsilon(budget.as_py()), unit.as_py(), **(more | lists))
        return pa.array([said])

    return answer


def _unprotect(books: Books) -> Callable[..., pa.Array]:
    def answer(tbl: pa.Scalar, seen: pa.Scalar) -> pa.Array:
        return pa.array([books.unprotect(tbl.as_py(), seen.as_py())])

    return answer
