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
    """A `creator` for `create_engine("duckdb://", creator=...)`, which opens guarded connections for its pool.

    Refusals are raised as PolicyRefusal, UnsupportedQuery or BudgetExhausted, not wrapped in SQLAlchemy's errors.
    """

    def connect() -> ConnectionWrapper:
        guarded: Any = duckanon.connect(database, role="analyst", read_only=read_only)
        return _Guarded(guarded)

    return connect


class _Guarded(ConnectionWrapper):
    """A guarded connection without transactions.

    SQLAlchemy begins a transaction before the first statement. The guard refuses protected tables in a transaction,
    which would not see the answers that the guard stores. An analyst can write to temporary tables only, so nothing
    is lost without one.
    """

    def begin(self) -> Any:
        """Do nothing, and so do `commit` and `rollback`."""
        return self

    def commit(self) -> Any:
        return self

    def rollback(self) -> Any:
        return self
