"""protect, unprotect, privacy_ledger and privacy_budget: what SQL says to governance, and what it gets to read."""

from __future__ import annotations

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

    def protect(self, table: str, seen: Mapping[str, Any], epsilon: Fraction, unit: str | None) -> str: ...

    def unprotect(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def lines(self) -> list[dict[str, Any]]: ...

    def budgets(self) -> list[dict[str, Any]]: ...


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
_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TIMESTAMP": pa.timestamp("us")}


def register(on: Instance, books: Books) -> None:
    """Put the functions behind protect, unprotect, privacy_ledger and privacy_budget on a database instance."""
    register_writer(on, "_dk_write_protect", _write_protect)
    register_writer(on, "_dk_write_unprotect", _write_unprotect)
    register_engine(on, "_dk_protect", _protect(books), "said", "VARCHAR")
    register_engine(on, "_dk_unprotect", _unprotect(books), "said", "VARCHAR")
    register_engine(on, "_dk_ledger", _rows(books.lines, _LINE), "rows", _kind(_LINE))
    register_engine(on, "_dk_budget", _rows(books.budgets, _BUDGET), "rows", _kind(_BUDGET))


def _kind(columns: Sequence[tuple[str, str]]) -> str:
    return f"STRUCT({', '.join(f'{identifier(name)} {kind}' for name, kind in columns)})[]"


def _rows(read: Callable[[], list[dict[str, Any]]], columns: Sequence[tuple[str, str]]) -> Callable[..., pa.Array]:
    """All rows that `read` gives, as one list."""
    kind = pa.list_(pa.struct([(name, _ARROW[kind]) for name, kind in columns]))

    def answer(_: pa.Scalar) -> pa.Array:
        return pa.array([read()], kind)

    return answer


def _write_protect(tbl: object, unit: object, budget: object) -> str:
    table = arguments.table(tbl)
    if unit is not None and (not isinstance(unit, str) or not unit):
        raise InvalidInput("unit must be the name of the column that tells groups apart, as in 'household_id'.")
    column = "NULL::VARCHAR" if unit is None else literal(str(unit))
    return fill("protect", table=literal(table), unit=column, epsilon=literal(written(epsilon(budget))))


def _write_unprotect(tbl: object) -> str:
    return fill("unprotect", table=literal(arguments.table(tbl)))


def _protect(books: Books) -> Callable[..., pa.Array]:
    def answer(
        names: pa.Scalar, types: pa.Scalar, tbl: pa.Scalar, seen: pa.Scalar, unit: pa.Scalar, budget: pa.Scalar
    ) -> pa.Array:
        found = Table(tbl.as_py(), names.as_py(), types.as_py())
        found.has([unit.as_py()] if unit.is_valid else [])
        return pa.array([books.protect(tbl.as_py(), seen.as_py(), epsilon(budget.as_py()), unit.as_py())])

    return answer


def _unprotect(books: Books) -> Callable[..., pa.Array]:
    def answer(tbl: pa.Scalar, seen: pa.Scalar) -> pa.Array:
        return pa.array([books.unprotect(tbl.as_py(), seen.as_py())])

    return answer
