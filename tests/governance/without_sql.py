"""Governance without SQL functions: charges on tables that need not exist."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge
from duckanon.governance.instance import Governance

CHARGE = Charge(Fraction(1, 10), "a call", "neighbours")


def seen(*names: str, database: str = "memory", definition: str = "") -> dict[str, Any]:
    """What a connection sees whose main schema holds these tables."""
    found = [{"database": database, "schema": "main", "name": name, "definition": definition} for name in names]
    return {"database": database, "schema": "main", "path": "", "found": found}


def governance(con: duckdb.DuckDBPyConnection) -> Governance:
    made = Governance()
    made.cursors.add(con)
    return made


def protect(made: Governance, table: str = "persons", sees: dict[str, Any] | None = None, **terms: Any) -> str:
    """Protect a table that need not exist, with a budget of 1 unless `terms` say another."""
    terms = {"epsilon": Fraction(1), **terms}
    return made.decisions.protect(table, sees or seen(table), {name: one for name, one in terms.items() if one})


def answer(number: int) -> pa.Array:
    return pa.array([[{"level": number, "groups": [number, number]}]])
