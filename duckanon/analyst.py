"""An analyst's connection: it answers what the guard admits, and has no other door.

It keeps honest people from mistakes. Python hides nothing from who looks for it: whoever may run Python here, or may
open the file, holds the data.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import duckdb

from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.guard import Guard
from duckanon.rewrite.decision import Decision
from duckanon.rewrite.question import Refused

# Settings of an analyst's instance. They hold for the whole instance, in DuckDB 1.4 and 2.0 alike, so no other
# connection of the same process can have the file open with other ones.
LOCKED: dict[str, Any] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "lock_configuration": True,
}


class NoDoor(UnsupportedQuery, AttributeError):
    """What an analyst's connection or result does not have. Programs that ask with `hasattr` get an answer."""


class Answer:
    """The result of a query, run each time it is shown or fetched, as DuckDB's relations are. It only gives rows."""

    def __init__(self, relation: duckdb.DuckDBPyRelation | None) -> None:
        self._relation = relation

    def __getattr__(self, name: str) -> Any:
        if name not in _GIVES:
            raise NoDoor(
                f"An analyst's result has no {name}: it is shown and fetched. To go on from it, write another query."
            )
        if self._relation is None:
            raise UnsupportedQuery("The statement has no result.")
        return getattr(self._relation, name)

    def __repr__(self) -> str:
        return repr(self._relation)

    def __str__(self) -> str:
        return str(self._relation)

    def __len__(self) -> int:
        return len(self.fetchall())


_GIVES = frozenset(
    """alias arrow columns description df dtypes fetch_arrow_reader fetch_arrow_table fetch_df_chunk fetch_record_batch
    fetchall fetchdf fetchmany fetchnumpy fetchone pl shape show to_arrow_table to_df torch tf types""".split()
)
_PASSES = frozenset(
    """arrow begin commit description df fetch_arrow_table fetch_df fetch_df_chunk fetch_record_batch fetchall fetchdf
    fetchmany fetchnumpy fetchone extract_statements interrupt pl rollback rowcount""".split()
)


class Analyst:
    """A guarded connection. decision: what was decided about the last statement; None before the first.

    Every statement is decided about on its way in, and what runs is the guard's own text. Refusals are PolicyRefusal,
    UnsupportedQuery or BudgetExhausted.
    """

    role = "analyst"

    def __init__(self, con: duckdb.DuckDBPyConnection, guard: Guard, more: Any) -> None:
        self._con, self._guard, self._more = con, guard, more
        self.decision: Decision | None = None

    def sql(self, query: Any, *, params: Any = None) -> Answer:
        """The answer to a query. It is lazy: it runs when it is shown or fetched."""
        text = self._admitted(query)
        return Answer(self._con.sql(text) if params is None else self._con.sql(text, params=params))

    def query(self, query: Any, *, params: Any = None) -> Answer:
        """Another name for `sql`."""
        return self.sql(query, params=params)

    def execute(self, query: Any, parameters: Any = None) -> Analyst:
        """Run a statement, and return this connection to fetch from."""
        text = self._admitted(query)
        if parameters is None:
            self._con.execute(text)
        else:
            self._con.execute(text, parameters)
        return self

    def executemany(self, query: Any, parameters: Any = None) -> Analyst:
        """Run a statement once for each set of parameters."""
        self._con.executemany(self._admitted(query), parameters)
        return self

    def explain(self, query: Any) -> Decision:
        """What would become of a statement; nothing runs."""
        return self._guard.explain(query)

    def cursor(self) -> Analyst:
        """A second connection to the same database, guarded too."""
        found: Analyst = self._more()
        return found

    def close(self) -> None:
        self._guard.close()
        self._con.close()

    def _admitted(self, query: Any) -> str:
        self.decision = None
        try:
            self.decision = self._guard.admit(query)
        except Refused as refused:
            self.decision = Decision([refused.step], None)
            raise PolicyRefusal(str(refused)) from None
        text = self.decision.sql
        if text is None:
            raise UnsupportedQuery("The guard wrote nothing to run: this is a bug in duckanon, nothing ran.")
        return text

    def __enter__(self) -> Analyst:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name not in _PASSES:
            raise NoDoor(
                f"An analyst's connection has no {name}: it runs SQL with sql() and execute(), and gives results."
            )
        return getattr(self._con, name)
