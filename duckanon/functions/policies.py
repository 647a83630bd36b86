"""protect, open_table, new_edition and their like, policies, privacy_ledger: what SQL says to governance, and reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from duckanon.catalog.names import parts
from duckanon.catalog.policy import LISTS
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.policy_terms import TERMS, loaded, plain_terms
from duckanon.functions.schema import Table, is_number
from duckanon.functions.sqltext import fill, identifier, literal
from duckanon.functions.udf import Instance, register_engine, register_writer


class Decisions(Protocol):
    """What a steward decides. Each sentence says what now holds."""

    def protect(
        self, table: str, seen: Mapping[str, Any], terms: Mapping[str, Any], types: Mapping[str, str] | None = None
    ) -> str: ...

    def unprotect(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def open_table(self, table: str, seen: Mapping[str, Any], columns: Sequence[str]) -> str: ...

    def close_table(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def new_edition(self, table: str, seen: Mapping[str, Any]) -> str: ...


class Governance(Protocol):
    """Governance, as SQL sees it."""

    @property
    def decisions(self) -> Decisions: ...

    def lines(self) -> list[dict[str, Any]]: ...

    def budgets(self) -> list[dict[str, Any]]: ...

    def decided(self) -> list[dict[str, Any]]: ...

    def editions(self) -> list[dict[str, Any]]: ...


Columns = Sequence[tuple[str, str]]


def _exact(name: str) -> Columns:
    """An epsilon as a number, and exactly."""
    return ((name, "DOUBLE"), (f"{name}_exact", "VARCHAR"))


_LINE: Columns = (
    ("database", "VARCHAR"),
    ("number", "BIGINT"),
    ("recorded_at", "TIMESTAMP"),
    ("who", "VARCHAR"),
    ("tbl", "VARCHAR"),
    ("population", "VARCHAR"),
    ("edition", "BIGINT"),
    ("action", "VARCHAR"),
    *_exact("epsilon"),
    *_exact("remaining"),
    ("what", "VARCHAR"),
    ("unit", "VARCHAR"),
    ("neighbours", "VARCHAR"),
)
_BUDGET: Columns = (
    ("database", "VARCHAR"),
    ("population", "VARCHAR"),
    ("tables", "VARCHAR[]"),
    *_exact("epsilon"),
    *_exact("spent"),
    *_exact("remaining"),
    ("charges", "BIGINT"),
    ("edition", "BIGINT"),
    *_exact("spent_in_edition"),
)
_POLICY: Columns = (
    ("database", "VARCHAR"),
    ("tbl", "VARCHAR"),
    ("population", "VARCHAR"),
    ("privacy_unit", "VARCHAR"),
    ("rows_per_unit", "BIGINT"),
    ("unit", "VARCHAR"),
    ("hierarchy", "VARCHAR[]"),
    ("epsilon", "DOUBLE"),
    ("per_query", "DOUBLE"),
    ("per_edition", "DOUBLE"),
    ("max_size", "BIGINT"),
    ("public", "VARCHAR[]"),
    ("domains", "VARCHAR[]"),
    ("bounds", "VARCHAR[]"),
    ("quasi_identifiers", "VARCHAR[]"),
    ("k", "BIGINT"),
    ("sensitive", "VARCHAR[]"),
    ("small", "BIGINT"),
    ("drop", "VARCHAR[]"),
    ("protected_at", "TIMESTAMP"),
)
_EDITION: Columns = (
    ("database", "VARCHAR"),
    ("population", "VARCHAR"),
    ("edition", "BIGINT"),
    ("began", "TIMESTAMP"),
    *_exact("spent"),
)
_ARROW = {
    "VARCHAR[]": pa.list_(pa.string()),
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
    "BOOLEAN": pa.bool_(),
}


def register(on: Instance, governance: Governance) -> None:
    """Put the functions behind a steward's decisions, and behind what can be read of them, on a database instance."""
    register_writer(on, "_dk_write_protect", _write_protect)
    register_writer(on, "_dk_write_decision", _write_decision)
    register_writer(on, "_dk_write_propose_domains", _write_propose)
    register_engine(on, "_dk_protect", _protect(governance.decisions), "said", "VARCHAR")
    register_engine(on, "_dk_open_table", _open(governance.decisions), "said", "VARCHAR")
    for name in ("unprotect", "close_table", "new_edition"):
        register_engine(on, f"_dk_{name}", _decided(getattr(governance.decisions, name)), "said", "VARCHAR")
    for name, read, columns in (
        ("_dk_ledger", governance.lines, _LINE),
        ("_dk_policies", governance.decided, _POLICY),
        ("_dk_budget", governance.budgets, _BUDGET),
        ("_dk_editions", governance.editions, _EDITION),
    ):
        register_engine(on, name, rows(read, columns), "rows", kind(columns))


def kind(columns: Columns) -> str:
    """The type of a list of rows with these columns, in SQL."""
    return f"STRUCT({', '.join(f'{identifier(name)} {kind}' for name, kind in columns)})[]"


def rows(read: Callable[[], list[dict[str, Any]]], columns: Columns) -> Callable[..., pa.Array]:
    """A function behind a macro: all rows that `read` gives, as one list."""
    of = pa.list_(pa.struct([(name, _ARROW[kind]) for name, kind in columns]))

    def answer(_: pa.Scalar) -> pa.Array:
        return pa.array([read()], of)

    return answer


def _write_protect(tbl: object, *given: object) -> str:
    table, terms = arguments.table(tbl), plain_terms(dict(zip(TERMS, given, strict=True)))
    return fill("protect", table=literal(table), terms=literal(json.dumps(terms)))


def _write_decision(function: object, tbl: object) -> str:
    table = arguments.table(tbl)
    schema = table.removesuffix(".*")
    given = f"{literal(table)}, _dk_seen({literal(schema)})"
    if function != "open_table":
        return fill("decision", described="SELECT 1", call=f"system.main._dk_{function}({given})")
    return fill(
        "decision",
        described=_there(schema) if schema != table else _columns(table),
        call=f"system.main._dk_open_table(names, {given})",
    )


def _columns(table: str) -> str:
    names = "SELECT system.main.list(column_name) AS names"
    return f"{names} FROM (DESCRIBE FROM system.main.query_table({literal(table)}))"


def _there(schema: str) -> str:
    """No names for a schema that is there, NULL for one that is not."""
    database, name = (["", *parts(schema)])[-2:]
    inside = literal(database) if database else "system.main.current_database()"
    return (
        "SELECT CASE WHEN system.main.count(*) > 0 THEN []::VARCHAR[] END AS names "
        "FROM system.main.duckdb_schemas() JOIN system.main.duckdb_databases() USING (database_name) "
        f"WHERE NOT duckdb_databases.internal AND system.main.lower(database_name) = system.main.lower({inside}) "
        f"AND system.main.lower(schema_name) = system.main.lower({literal(name)})"
    )


def _write_propose(tbl: object) -> str:
    return fill("propose_domains", table=literal(arguments.table(tbl)))


def _protect(decisions: Decisions) -> Callable[..., pa.Array]:
    def answer(names: pa.Scalar, types: pa.Scalar, tbl: pa.Scalar, seen: pa.Scalar, terms: pa.Scalar) -> pa.Array:
        found, given = Table(tbl.as_py(), names.as_py(), types.as_py()), loaded(json.loads(terms.as_py()))
        single = [given[name] for name in ("privacy_unit", "unit") if name in given]
        lists = [column for name in LISTS for column in given.get(name, ())]
        found.has([*single, *lists, *given["domains"], *given["bounds"]])
        for name in given["bounds"]:
            if not is_number(found.kind(name)):
                raise InvalidInput(f'bounds names "{name}", which is no number: leave it out, or cast the column.')
        kinds = dict(zip(names.as_py(), types.as_py(), strict=True))
        return pa.array([decisions.protect(tbl.as_py(), seen.as_py(), given, kinds)])

    return answer


def _open(decisions: Decisions) -> Callable[..., pa.Array]:
    def answer(names: pa.Scalar, tbl: pa.Scalar, seen: pa.Scalar) -> pa.Array:
        if not names.is_valid:
            raise InvalidInput(f"There is no schema {tbl.as_py().removesuffix('.*')}: open_table('main.*') opens main.")
        return pa.array([decisions.open_table(tbl.as_py(), seen.as_py(), names.as_py())])

    return answer


def _decided(decide: Callable[[str, Mapping[str, Any]], str]) -> Callable[..., pa.Array]:
    def answer(tbl: pa.Scalar, seen: pa.Scalar) -> pa.Array:
        return pa.array([decide(tbl.as_py(), seen.as_py())])

    return answer
