"""Governance in SQL: protect, open_table, new_edition and the like, and lists such as policies and privacy_ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, Self

import pyarrow as pa

from duckanon.accounting import rational
from duckanon.catalog.domain_sources import Range
from duckanon.catalog.domain_values import listed_types, of_other_type
from duckanon.catalog.names import literal, parts
from duckanon.catalog.policy import LISTS, OWNER
from duckanon.errors import InvalidInput
from duckanon.functions.listing import register_listing
from duckanon.functions.policy_terms import domain_sources, loaded, plain_terms
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_number
from duckanon.functions.sqltext import absent, check, decision, fill, query_table, seen, unit_of
from duckanon.functions.udf import Host, Instance, register_check, register_decision

_ZONED = "TIMESTAMP WITH TIME ZONE"
_TIMES = ("DATE", "TIMESTAMP", _ZONED)


class Decisions(Protocol):
    """A steward's decisions. Each returns a sentence that says what now holds."""

    def protect(
        self, table: str, seen: Mapping[str, Any], terms: Mapping[str, Any], types: Mapping[str, str] | None = None
    ) -> str: ...

    def unprotect(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def open_table(self, table: str, seen: Mapping[str, Any], columns: Sequence[str]) -> str: ...

    def close_table(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def new_edition(self, table: str, seen: Mapping[str, Any]) -> str: ...

    def allot(self, database: str, user: str, population: str, epsilon: Fraction | None) -> str: ...


class Governance(Protocol):
    """Governance, as SQL sees it."""

    @property
    def decisions(self) -> Decisions: ...

    def lines(self) -> list[dict[str, Any]]: ...

    def budgets(self) -> list[dict[str, Any]]: ...

    def decided(self) -> list[dict[str, Any]]: ...

    def editions(self) -> list[dict[str, Any]]: ...

    def allotments(self) -> list[dict[str, Any]]: ...


def register(on: Instance, host: Host) -> None:
    """Put the functions behind a steward's decisions, and behind the lists of them, on a database instance."""
    governance: Governance = host.governance
    register_decision(on, partial(_protect, governance.decisions), Protect)
    register_decision(on, partial(_open, governance.decisions), OpenTable)
    register_decision(on, partial(_decided, governance.decisions.unprotect), Unprotect)
    register_decision(on, partial(_decided, governance.decisions.close_table), CloseTable)
    register_decision(on, partial(_decided, governance.decisions.new_edition), NewEdition)
    on.function(ProposeDomains)
    register_check(on, "propose_domains", _check_units, ProposeDomains)
    register_listing(on, "privacy_ledger", governance.lines)
    register_listing(on, "policies", governance.decided)
    register_listing(on, "privacy_budget", governance.budgets)
    register_listing(on, "editions", governance.editions)
    register_decision(on, partial(_allot, governance.decisions), Allot)
    register_listing(on, "allotments", governance.allotments)


@dataclass(frozen=True, kw_only=True)
class OfTable(Request):
    """A call whose only argument is a table's name."""

    tbl: str


# The column of a record's unit.
_UNIT = '"duckanon.u"'


@dataclass(frozen=True, kw_only=True)
class ProposeDomains(OfTable):
    """A call of propose_domains. unit: the column that names whose a record is; None: each record is one."""

    function = "propose_domains"
    unit: str | None

    def query(self) -> str:
        return fill(
            "propose_domains",
            table=literal(self.tbl),
            unit="" if self.unit is None else f"{unit_of(self.unit)} AS {_UNIT},",
            others="*" if self.unit is None else f"* EXCLUDE ({_UNIT})",
            owner=literal(OWNER),
            units="records" if self.unit is None else f"system.main.count(DISTINCT {_UNIT})",
            alone="in two records" if self.unit is None else "of two units",
            records=self._records,
        )

    @property
    def _records(self) -> str:
        """SQL: the table, where it has the column of units."""
        table = query_table(self.tbl)
        if self.unit is None:
            return table
        problem = check("propose_domains", self.literal)
        # The empty branch names the column, so that a missing one is told by the check.
        return (
            f"(SELECT * FROM (FROM {table} UNION ALL BY NAME SELECT {absent([self.unit], own=False)} WHERE false) "
            f"WHERE (SELECT system.main.error({problem}) IS NULL FROM (SELECT system.main.list(column_name) AS names, "
            f"system.main.list(column_type) AS types FROM (DESCRIBE FROM {table}))))"
        )


def _check_units(request: ProposeDomains, names: list[str], types: list[str]) -> None:
    if _UNIT.strip('"') in names:
        raise InvalidInput(f"A column may not be named {_UNIT} here: that is duckanon's own column. Rename it.")
    Table(request.tbl, names, types).unit(request.unit)


class _Decision(OfTable):
    """A decision about a table, which may be gone."""

    def query(self) -> str:
        return self.decided("SELECT 1")

    def decided(self, described: str, **fields: str) -> str:
        """The query of a decision. described: one row with the `fields` that it needs to know of the table."""
        answer = decision(self.function, self.literal, seen=seen(self.tbl.removesuffix(".*")), **fields)
        return fill("decision", described=described, call=answer)


class Unprotect(_Decision):
    """A call of unprotect."""

    function = "unprotect"


class CloseTable(_Decision):
    """A call of close_table."""

    function = "close_table"


class NewEdition(_Decision):
    """A call of new_edition."""

    function = "new_edition"


class OpenTable(_Decision):
    """A call of open_table. The name may be that of all tables of a schema, as in `main.*`."""

    function = "open_table"

    def query(self) -> str:
        schema = self.tbl.removesuffix(".*")
        return self.decided(_columns(self.tbl) if schema == self.tbl else tables_of(schema), names="names")


@dataclass(frozen=True, kw_only=True)
class Allot(Request):
    """A call of allot."""

    function = "allot"

    who: str
    population: str
    epsilon: Fraction | None = None

    def query(self) -> str:
        database = "system.main.current_database()"
        return fill("decision", described="SELECT 1", call=decision(self.function, self.literal, database=database))


@dataclass(frozen=True, kw_only=True)
class Protect(_Decision):
    """A call of protect.

    terms: its other arguments, as plain values. listed: the types of the values that domains list, by column.
    """

    function = "protect"
    terms: Mapping[str, Any]
    listed: Mapping[str, Any]

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        sources = domain_sources(arguments.get("domains"))
        listed = {name: listed_types(_listed(source)) for name, source in sources.items()}
        return cls(tbl=cls.checked({"tbl": arguments["tbl"]})["tbl"], terms=plain_terms(arguments), listed=listed)

    def query(self) -> str:
        return self.decided(_columns(self.tbl), names="names", types="types")


def _listed(source: Any) -> Sequence[object]:
    """The values that a domain names itself."""
    if isinstance(source, Range):
        return (source.first, source.last)
    return source if isinstance(source, list | tuple) else ()


def _columns(table: str) -> str:
    """Names and types of a table's columns."""
    described = "SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types"
    return f"{described} FROM (DESCRIBE FROM system.main.query_table({literal(table)}))"


def tables_of(schema: str) -> str:
    """The query for the names of the tables and views of a schema, NULL for one that does not exist."""
    database, name = (["", *parts(schema)])[-2:]
    inside = literal(database) if database else "system.main.current_database()"
    of_schema = (
        f"system.main.lower(database_name) = system.main.lower({inside}) "
        f"AND system.main.lower(schema_name) = system.main.lower({literal(name)})"
    )
    return (
        "SELECT CASE WHEN system.main.count(*) > 0 THEN ("
        "SELECT coalesce(system.main.list(name ORDER BY name), []) FROM ("
        f"SELECT table_name AS name FROM system.main.duckdb_tables() WHERE {of_schema} UNION ALL "
        f"SELECT view_name FROM system.main.duckdb_views() WHERE {of_schema})) END AS names "
        "FROM system.main.duckdb_schemas() JOIN system.main.duckdb_databases() USING (database_name) "
        f"WHERE NOT duckdb_databases.internal AND {of_schema}"
    )


def _protect(decisions: Decisions, request: Protect, seen: pa.Scalar, names: pa.Scalar, types: pa.Scalar) -> pa.Array:
    kinds = dict(zip(names.as_py(), types.as_py(), strict=True))
    return pa.array([decisions.protect(request.tbl, seen.as_py(), fitting(request, kinds), kinds)])


def fitting(request: Protect, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The terms of a call as fields of Policy. kinds: the types of the table's columns, by name.

    Raises InvalidInput for columns that the table does not have, and for bounds and values of another type.
    """
    table, terms = Table(request.tbl, list(kinds), list(kinds.values())), loaded(request.terms)
    single = [terms[name] for name in ("privacy_unit", "unit") if name in terms]
    lists = [column for name in LISTS for column in terms.get(name, ())]
    table.has([*single, *terms["link"], *lists, *terms["domains"], *terms["bounds"]])
    for name, ends in terms["bounds"].items():
        _check_bounds(name, ends, table.kind(name))
        terms["bounds"][name] = _stored_bounds(name, ends, table.kind(name))
    for name, listed in request.listed.items():
        objection = of_other_type(name, listed, table.kind(name))
        if objection is not None:
            raise InvalidInput(objection)
    return terms


def _check_bounds(name: str, ends: Sequence[str], kind: str) -> None:
    """Raises InvalidInput for bounds that are not of the type of their column."""
    are_times = rational(ends[0]) is None
    if is_number(kind) and are_times:
        raise InvalidInput(f'The bounds of "{name}" must be numbers, as in bounds := {{{literal(name)}: [0, 100]}}.')
    if kind in _TIMES and not are_times:
        raise InvalidInput(
            f'The bounds of "{name}" must be dates, as in bounds := '
            f"{{{literal(name)}: [DATE '2020-01-01', DATE '2029-12-31']}}."
        )
    if kind == "VARCHAR":
        lengths = [
            number for number in map(rational, ends) if number is not None and number >= 0 and number.denominator == 1
        ]
        if len(lengths) < len(ends):
            raise InvalidInput(
                f'The bounds of "{name}", which is text, are those of its length: whole numbers, as in bounds := '
                f"{{{literal(name)}: [0, 2000]}}."
            )
        if len(lengths) > 2 and lengths[0] % lengths[2]:
            raise InvalidInput(f'The least length of "{name}" must be a multiple of the step in its bounds.')
        return
    if not is_number(kind) and kind not in _TIMES:
        raise InvalidInput(
            f'bounds names "{name}", which is neither a number nor a text: leave it out, or cast the column.'
        )


def _stored_bounds(name: str, ends: Sequence[str], kind: str) -> tuple[str, ...]:
    """Bounds as the policy has them: times of a type with a time zone in UTC, others without what zone they have."""
    if kind not in _TIMES:
        return tuple(ends)
    times = [datetime.fromisoformat(end) if ":" in end else date.fromisoformat(end) for end in ends]
    if kind != _ZONED:
        return tuple(str(time.replace(tzinfo=None) if isinstance(time, datetime) else time) for time in times)
    zoned = [time for time in times if isinstance(time, datetime) and time.tzinfo is not None]
    if len(zoned) < len(times):
        raise InvalidInput(
            f'The bounds of "{name}", which has a time zone, must be times with an offset, as in bounds := '
            f"{{{literal(name)}: [TIMESTAMPTZ '2020-01-01 00:00:00+00', TIMESTAMPTZ '2029-12-31 00:00:00+00']}}."
        )
    return tuple(str(moment.astimezone(UTC)) for moment in zoned)


def _open(decisions: Decisions, request: OpenTable, seen: pa.Scalar, names: pa.Scalar) -> pa.Array:
    if not names.is_valid:
        schema = request.tbl.removesuffix(".*")
        raise InvalidInput(f"There is no schema {schema}: open_table('main.*') opens main.")
    return pa.array([decisions.open_table(request.tbl, seen.as_py(), names.as_py())])


def _allot(decisions: Decisions, request: Allot, database: pa.Scalar) -> pa.Array:
    return pa.array([decisions.allot(database.as_py(), request.who, request.population, request.epsilon)])


def _decided(decide: Any, request: OfTable, seen: pa.Scalar) -> pa.Array:
    return pa.array([decide(request.tbl, seen.as_py())])
