"""The guard of an analyst's connection: it wires the rules to the database that they decide about.

It reads the catalog and the policies, lets `rewrite` decide, has DuckDB itself parse what came out, verifies that, and
makes the copies that must stand first. What it hands back is the text to run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

import duckdb
from sqlglot import exp

from duckanon.accounting import Charge
from duckanon.errors import DuckanonError, InvalidInput, PolicyRefusal, UnsupportedQuery
from duckanon.functions import noisy, shares
from duckanon.functions.templates import table_functions
from duckanon.governance.books import Books
from duckanon.governance.ledger import SCHEMA
from duckanon.rewrite.admit import Kind, Statement, admit
from duckanon.rewrite.bind import LISTED
from duckanon.rewrite.catalog import Catalog, Macro, Protection, Stored, View
from duckanon.rewrite.decide import decide
from duckanon.rewrite.decision import Copy, Decision, Noisy, Shares, Step, Verdict
from duckanon.rewrite.question import Refused, quoted
from duckanon.rewrite.rules import conditional_tables
from duckanon.rewrite.spot.names import TableName, fold
from duckanon.rewrite.verify import Allowed, call, verify

_MACROS = """
SELECT function_name, database_name, schema_name, parameters, macro_definition, function_type = 'table_macro'
FROM system.main.duckdb_functions()
WHERE NOT internal AND function_type IN ('macro', 'table_macro') AND database_name <> 'temp'
"""
_SEARCH = """
SELECT system.main.current_database(), system.main.current_schema(), system.main.current_setting('search_path')
"""
_COLUMNS = """
SELECT database_name, schema_name, table_name, column_name, data_type FROM system.main.duckdb_columns()
WHERE NOT internal ORDER BY database_name, schema_name, table_name, column_index
"""
_TABLES = """
SELECT database_name, schema_name, table_name, temporary FROM system.main.duckdb_tables() WHERE NOT internal
"""
_VIEWS = """
SELECT database_name, schema_name, view_name, "sql" FROM system.main.duckdb_views() WHERE NOT internal
"""
_TRANSACTION = "SELECT system.main.txid_current()"
_SERIALIZE = "SELECT system.main.json_serialize_sql(?::VARCHAR)"


class Guard:
    """Decides about the statements of one connection.

    con: the connection that will run them; its temporary tables are looked up. own: another connection to the same
    instance, with duckanon on it, on which the guard does its own work.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, own: duckdb.DuckDBPyConnection, books: Books) -> None:
        self._con, self._own, self._books = con, own, books
        # A connection does one thing at a time.
        self._turn = RLock()
        self._functions = table_functions()
        # An analyst cannot make macros, and nobody else is in an analyst's instance: they are read once.
        self._macros, self._definitions = _macros(own.execute(_MACROS).fetchall())

    def decide(self, statement: object) -> Decision:
        """What becomes of a statement; nothing is run, charged or made.

        statement: text, or what DuckDB's `extract_statements` gives. Raises UnsupportedQuery and PolicyRefusal.
        """
        decision = self._decide(statement)
        self._share(decision, make=False)
        return decision

    def _decide(self, statement: object) -> Decision:
        """As `decide`, but for what only the data can say: whether a conditional table is safe."""
        admitted = admit(_text(statement))
        try:
            catalog = self._catalog(admitted)
            decision = decide(admitted, catalog, self._functions)
            if decision.query is not None:
                self._verify(decision, catalog)
        except RecursionError:
            raise UnsupportedQuery("The statement is nested too deeply: split it with temporary tables.") from None
        return decision

    def admit(self, statement: object) -> Decision:
        """As `decide`; what must stand before the statement runs is made."""
        decision = self._decide(statement)
        if decision.copies and self._in_transaction():
            # What is made now would not be seen there, and would have been charged.
            raise UnsupportedQuery(
                "A protected table answers outside of transactions only: COMMIT or ROLLBACK, and ask again."
            )
        self._share(decision, make=True)
        for copy in decision.copies:
            if not isinstance(copy, Shares):
                with self._turn:
                    self._make(copy)
        return decision

    def _in_transaction(self) -> bool:
        """Whether somebody began a transaction: without one, each statement has its own."""
        first, second = (self._con.execute(_TRANSACTION).fetchall() for _ in range(2))
        return bool(first == second)

    def _share(self, decision: Decision, *, make: bool) -> None:
        """Audit the statement's conditional tables, and have them stand. Raises Refused where one is not safe."""
        asked = [one for one in decision.copies if isinstance(one, Shares)]
        if not asked:
            return

        def audit(number: int, before: Sequence[str]) -> None:
            try:
                unsafe = shares.disclosed(self._own, _published(asked[number]), before)
            except duckdb.Error:
                # Its own words might hold a value.
                raise InvalidInput("The shares cannot be audited: ask by other columns.") from None
            if unsafe:
                raise Refused(self._unsafe(asked[number], unsafe, before))

        tables = [
            (
                one.table,
                one.path,
                {"rows": one.rows, "cells": _published(one).variables, "used": one.used},
                one.what,
                one.made,
            )
            for one in asked
        ]
        with self._turn:
            try:
                self._books.shares(self._own, tables, audit, make=make)
            except Refused:
                raise
            except (PolicyRefusal, InvalidInput) as error:
                raise Refused(Step(conditional_tables.KIND, asked[0].label, Verdict.REFUSED, str(error))) from None

    def _unsafe(self, asked: Shares, cells: int, before: Sequence[str]) -> Step:
        """Why a conditional table is refused, and the nearest ones that would not be."""
        ways = shares.nearest(self._own, _published(asked), before)
        found = [conditional_tables.suggestion(asked.label, *way) for way in ways]
        how = (
            f"What is safe and nearest: {'; '.join(found)}."
            if found
            else "No choice of rows and columns among these is safe: ask by fewer columns, or count with noise."
        )
        one = "1 cell" if cells == 1 else f"{cells} cells"
        reason = f"The shares would disclose {one} of few records. {how}"
        return Step(conditional_tables.KIND, asked.label, Verdict.REFUSED, reason)

    def explain(self, statement: object) -> Decision:
        """As `decide`, and a refusal is an answer like any other."""
        try:
            return self.decide(statement)
        except Refused as refused:
            return Decision([refused.step], None)
        except DuckanonError as error:
            return Decision([Step("statement", None, Verdict.REFUSED, str(error))], None)

    def _make(self, copy: Copy | Noisy) -> None:
        if isinstance(copy, Copy):
            self._books.copy(self._own, copy.table, copy.call, copy.path, copy.columns)
            return
        charge = Charge(copy.epsilon, copy.what, "one unit's records, or one record where the policy has no unit")
        try:
            self._books.counts(
                self._own,
                copy.table,
                copy.path,
                charge,
                lambda con: noisy.count(con, copy.exact),
                lambda con: noisy.noisy(con, copy.scale),
            )
        finally:
            noisy.forget(self._own)

    def close(self) -> None:
        """Close the guard's own connection: nothing is admitted any more."""
        self._own.close()

    def _verify(self, decision: Decision, catalog: Catalog) -> None:
        readable = frozenset(name for name in catalog.tables if name not in catalog.protected)
        copies = frozenset(TableName(*(fold(part) for part in copy.path)) for copy in decision.copies)
        calls = tuple(call(self._serialized(f"SELECT * FROM {one}")) for one in decision.calls)
        allowed = Allowed(readable | copies | {LISTED}, calls, self._macros, catalog.objects)
        verify(self._serialized(decision.query or ""), allowed)

    def _serialized(self, text: str) -> Any:
        """DuckDB's own tree of a query."""
        with self._turn:
            return json.loads(self._own.execute(_SERIALIZE, [text]).fetchall()[0][0])

    def _catalog(self, admitted: Statement) -> Catalog:
        """What the connection sees; nothing where the statement names no table."""
        if admitted.kind in (Kind.TRANSACTION, Kind.TABLES):
            return Catalog()
        if admitted.kind is Kind.QUERY and admitted.tree.find(exp.Table) is None:
            called = {fold(str(one.name)) for one in admitted.tree.find_all(exp.Anonymous)} if self._macros else set()
            if not called & self._macros:
                return Catalog()
        read = self._con.execute
        ((database, schema, path),) = read(_SEARCH).fetchall()
        columns: dict[TableName, dict[str, str]] = {}
        for *owner, column, kind in read(_COLUMNS).fetchall():
            columns.setdefault(_name(owner), {})[column] = kind
        tables, views = {}, {}
        for *whole, temporary in read(_TABLES).fetchall():
            if fold(whole[1]) != SCHEMA:
                tables[_name(whole)] = Stored(_path(whole), columns.get(_name(whole), {}), temporary)
        for *whole, query in read(_VIEWS).fetchall():
            if fold(whole[1]) != SCHEMA:
                views[_name(whole)] = View(_path(whole), query)
        search, protected = _search(database, schema, path), self._protected(tables, views)
        return Catalog(search, tables, views, self._macros, self._definitions, protected)

    def _protected(
        self, tables: Mapping[TableName, Stored], views: Mapping[TableName, View]
    ) -> dict[TableName, Protection]:
        found: dict[TableName, Protection] = {}
        policies = self._books.policies()
        for database, schema, name, policy, remaining in policies:
            protection = Protection(
                policy.epsilon,
                remaining,
                policy.per_query,
                policy.unit,
                policy.hierarchy,
                policy.max_size,
                policy.public,
                policy.quasi_identifiers,
                policy.k,
                policy.sensitive,
                policy.drop,
                policy.small,
            )
            found[_name((database, schema, name))] = protection
            # The ledger takes names for equal whose letters differ in case only, whatever the alphabet.
            for known in [*tables, *views]:
                if (known.catalog, known.schema.lower(), known.object.lower()) == (
                    fold(database),
                    schema.lower(),
                    name.lower(),
                ):
                    found[known] = protection
        return found


def _published(asked: Shares) -> shares.Published:
    digits = asked.shares[0].digits if len(asked.shares) == 1 else None
    return shares.Published(
        quoted(asked.table),
        asked.rows,
        asked.cols,
        tuple((one.of, one.event) for one in asked.shares),
        digits,
        asked.linkable,
        asked.unit,
        asked.small,
        asked.k,
    )


def _macros(rows: Sequence[tuple[Any, ...]]) -> tuple[frozenset[str], dict[str, Macro]]:
    """The names of all macros, and what stands behind those that have one meaning: no namesakes, no overloads."""
    found: dict[str, list[Macro]] = {}
    for name, database, schema, parameters, body, is_table in rows:
        macro = Macro(name, (fold(database), fold(schema)), tuple(map(fold, parameters)), body, is_table)
        found.setdefault(fold(name), []).append(macro)
    return frozenset(found), {name: same[0] for name, same in found.items() if len(same) == 1}


def _text(statement: object) -> str:
    if isinstance(statement, str):
        return statement
    if isinstance(statement, duckdb.Statement):
        return str(statement.query)
    raise UnsupportedQuery("A statement is a text, or what extract_statements gives.")


def _name(path: Sequence[str]) -> TableName:
    return TableName(*(fold(part) for part in path))


def _path(path: Sequence[str]) -> tuple[str, str, str]:
    catalog, schema, name = path
    return catalog, schema, name


def _search(database: str, schema: str, path: str) -> list[tuple[str, str]]:
    """Where a name is looked for, in DuckDB's order."""
    entries = [entry.strip().replace('"', "").split(".") for entry in (path or "").split(",") if entry.strip()]
    search = [(fold(entry[0] if len(entry) > 1 else database), fold(entry[-1])) for entry in entries]
    return list(dict.fromkeys([*search, (fold(database), fold(schema)), (fold(database), "main")]))
