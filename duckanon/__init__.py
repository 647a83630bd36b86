"""duckanon: privacy functions inside DuckDB.

    >>> import duckanon
    >>> con = duckanon.connect()
    >>> con.execute("CREATE TABLE people AS SELECT i % 7 + 30 AS age, i AS bill FROM range(40) r(i)").fetchall()
    [(40,)]
    >>> con.sql("SELECT min(n) FROM (SELECT count(*) AS n FROM k_anonymize('people', ['age'], k := 4) GROUP BY age_lo)")
    ... # doctest: +ELLIPSIS
    <BLANKLINE>
    ...
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckanon import errors
    from duckanon.connection import Connection, connect, register

__version__ = "0.1.0"

__all__ = ["Connection", "__version__", "connect", "errors", "register"]


def __getattr__(name: str) -> Any:
    if name in {"Connection", "connect", "register"}:
        return getattr(import_module("duckanon.connection"), name)
    if name == "errors":
        return import_module("duckanon.errors")
    raise AttributeError(f"module 'duckanon' has no attribute '{name}'")
