"""What SQL asks of governance: release once, protect, unprotect, and read the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from hashlib import sha256
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge, written
from duckanon.errors import InvalidInput
from duckanon.governance.copies import Copies, Path
from duckanon.governance.door import Door
from duckanon.governance.ledger import Account, Ledger, Line, accounts
from duckanon.governance.places import expected, locate
from duckanon.governance.policy import Policy
from duckanon.governance.releases import Releases

_OPEN: dict[str, Books] = {}


def books_of(instance: str, con: duckdb.DuckDBPyConnection) -> Books:
    """The books of the instance of that identity, to which `con` is connected. They hold no connection."""
    books = _OPEN.setdefault(instance, Books())
    books.door.admit(con)
    return books


class Books:
    """The ledgers, policies and stored releases of all databases of one instance."""

    def __init__(self) -> None:
        self.door = Door()
        self._ledger = Ledger(self.door)
        self._releases = Releases(self.door, self._ledger)
        self._copies = Copies(self._ledger)

    def once(
        self,
        table: str,
        seen: Mapping[str, Any],
        content: Mapping[str, Any],
        charge: Charge,
        draw: Callable[[], pa.Array],
    ) -> pa.Array:
        """The release of this table and content: the stored one, or what `draw` makes, charged before it is drawn.

        table: a name as the caller wrote it. seen: what the caller's connection sees of the catalog, as for
        `places.locate`. content: all else that the release depends on.
        """
        place = locate(table, seen)
        # A view's SQL is part of the key: that two filters give the same rows must not show by an equal release.
        whole = {"table": place.identity, "definition": place.definition, **content}
        key = sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        return self._releases.once(place, key, charge, draw)

    def protect(self, table: str, seen: Mapping[str, Any], epsilon: Fraction, unit: str | None, **offers: Any) -> str:
        """Set the policy of a table. Saying the same twice is harmless. Returns a sentence that says what now holds.

        offers: more of the policy, by the names of its fields.
        Raises InvalidInput for what is no table or view of a database, and for a table that has another policy.
        """
        place, policy = locate(table, seen), Policy(epsilon, unit, **offers)
        if not place.lasting:
            raise InvalidInput(
                f"{table} is no table or view that lasts, so it cannot be protected: make it a table of a database."
            )

        def free(account: Account) -> None:
            if account.policy is not None and account.policy != policy:
                raise InvalidInput(
                    f"{place.label} is protected already: unprotect('{place.label}') first. What was spent stays spent."
                )

        if self._ledger.account(place).policy != policy:
            self._ledger.decide(place, policy, f"protect: {policy.dump()}", free)
        account = self._ledger.account(place)
        spent, left = account.spent, max(policy.epsilon - account.spent, Fraction(0))
        return (
            f"{place.label} is protected: of epsilon {written(policy.epsilon)} in all, {written(spent)} is spent and "
            f"{written(left)} left."
        )

    def unprotect(self, table: str, seen: Mapping[str, Any]) -> str:
        """End the policy of a table, which may be gone. Returns a sentence that says what now holds."""
        place = expected(table, seen)
        if self._ledger.account(place).policy is None:
            return f"{place.label} is not protected: nothing has changed."
        self._ledger.decide(place, None, "unprotect", lambda _: None)
        return f"{place.label} is no longer protected: releases are recorded, and no budget limits them."

    def protected(self, table: str, seen: Mapping[str, Any]) -> bool:
        """Whether the table has a policy."""
        return self._ledger.account(locate(table, seen)).policy is not None

    def lines(self) -> list[dict[str, Any]]:
        """Every line of every ledger, as privacy_ledger shows it."""
        return [
            _shown(database, line, account)
            for database in self._ledger.databases()
            for line, account in accounts(self._ledger.lines(database))
        ]

    def copy(
        self, con: duckdb.DuckDBPyConnection, table: Path, call: str, copy: Path, columns: Sequence[str] = ()
    ) -> None:
        """Have a k-anonymous copy of a table stand under the name `copy`; see `Copies.keep`."""
        self._copies.keep(con, table, call, copy, columns)

    def shares(
        self,
        con: duckdb.DuckDBPyConnection,
        tables: Sequence[tuple[Path, Path, Mapping[str, Any], str, str]],
        audit: Callable[[int, Sequence[str]], None],
        *,
        make: bool,
    ) -> None:
        """Have tables of shares stand, if they are safe; see `Copies.share`."""
        self._copies.share(con, tables, audit, make=make)

    def counts(
        self,
        con: duckdb.DuckDBPyConnection,
        table: Path,
        copy: Path,
        charge: Charge,
        prepare: Callable[[duckdb.DuckDBPyConnection], None],
        noisy: Callable[[duckdb.DuckDBPyConnection], str],
    ) -> None:
        """Have counts with noise stand under the name `copy`; see `Copies.draw`."""
        self._copies.draw(con, table, copy, charge, prepare, noisy)

    def policies(self) -> list[tuple[str, str, str, Policy, Fraction]]:
        """Every protected table: database, schema, name, policy, and what is left of its budget."""
        found = []
        for database in self._ledger.databases():
            last = {line.place.identity: (line, account) for line, account in accounts(self._ledger.lines(database))}
            for line, account in last.values():
                if account.policy is not None and account.budget is not None and line.schema_name is not None:
                    left = account.budget.remaining
                    found.append((database, line.schema_name, line.table_name, account.policy, left))
        return sorted(found, key=lambda one: one[:3])

    def decisions(self) -> list[dict[str, Any]]:
        """Every policy that holds, as policies() shows it."""
        return [
            {
                "database": database,
                "tbl": f"{schema}.{name}",
                **{one.name: getattr(policy, one.name) for one in fields(policy)},
                "epsilon": float(policy.epsilon),
                "per_query": None if policy.per_query is None else float(policy.per_query),
            }
            for database, schema, name, policy, _ in self.policies()
        ]

    def budgets(self) -> list[dict[str, Any]]:
        """Every protected table, as privacy_budget shows it."""
        found = []
        for database in self._ledger.databases():
            last = {line.place.identity: (line, account) for line, account in accounts(self._ledger.lines(database))}
            for line, account in last.values():
                if account.policy is not None and account.budget is not None:
                    found.append(
                        {
                            "database": database,
                            "tbl": line.place.label,
                            "unit": account.policy.unit,
                            **_amount("epsilon", account.policy.epsilon),
                            **_amount("spent", account.spent),
                            **_amount("remaining", account.budget.remaining),
                            "charges": account.charges,
                            "protected_at": account.since,
                        }
                    )
        return sorted(found, key=lambda one: (one["database"], one["tbl"]))


def _shown(database: str, line: Line, account: Account) -> dict[str, Any]:
    return {
        "database": database,
        "number": line.number,
        "recorded_at": line.recorded_at,
        "who": line.who,
        "tbl": line.place.label,
        "action": line.action,
        **_amount("epsilon", None if line.epsilon is None else line.charge),
        **_amount("remaining", None if account.budget is None else account.budget.remaining),
        "what": line.what,
        "neighbours": line.neighbours,
    }


def _amount(name: str, value: Fraction | None) -> dict[str, Any]:
    """An epsilon as a number, and exactly."""
    return {
        name: None if value is None else float(value),
        f"{name}_exact": None if value is None else written(value),
    }
