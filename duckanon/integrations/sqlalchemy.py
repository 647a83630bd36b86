"""SQLAlchemy through duckdb-engine, for an analyst.

A steward's engine needs none of this: `event.listen(engine, "connect", lambda con, record: duckanon.register(con))`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from duckdb_engine import ConnectionWrapper

import duckanon


def analyst(database: str | os.PathLike[str], *, read_only: bool = False) -> Callable[[], ConnectionWrapper]:
    """What `create_engine("duckdb://", creator=...)` takes: opens a guarded connection for the engine's pool.

    Refusals reach the caller as they are, not as SQLAlchemy's errors: PolicyRefusal, UnsupportedQuery, BudgetExhausted.
    """

    def connect() -> ConnectionWrapper:
        guarded: Any = duckanon.connect(database, role="analyst", read_only=read_only)
        return _Guarded(guarded)

    return connect


class _Guarded(ConnectionWrapper):
    """A guarded connection whose statements each stand alone.

    SQLAlchemy begins a transaction before each first statement. Protected tables do not answer in one: it would not see
    what the guard stores for its statements. An analyst's writes go to temporary tables only.
    """

    def begin(self) -> Any:
        """Begin nothing. SQLAlchemy's commit and rollback are then harmless."""
        return self

    def commit(self) -> Any:
        return self

    def rollback(self) -> Any:
        return self
