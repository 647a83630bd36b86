"""duckanon: privacy functions inside DuckDB.

>>> import duckanon
>>> with duckanon.connect() as con:
...     con.execute("CREATE TABLE people AS SELECT i // 3 + 30 AS age, i AS bill FROM range(12) r(i)").fetchall()
...     con.sql("SELECT DISTINCT class_id, age_lo, age_hi FROM k_anonymize('people', ['age']) ORDER BY 1").fetchall()
[(12,)]
[(1, 30, 31), (2, 32, 33)]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckanon import errors
    from duckanon.analyst import Analyst
    from duckanon.connection import Connection, connect, register
    from duckanon.integrations.plots import plot

__version__ = "0.1.0"

__all__ = ["Analyst", "Connection", "__version__", "connect", "errors", "plot", "register"]


def __getattr__(name: str) -> Any:
    if name == "Analyst":
        return import_module("duckanon.analyst").Analyst
    if name in {"Connection", "connect", "register"}:
        return getattr(import_module("duckanon.connection"), name)
    if name == "plot":
        return import_module("duckanon.integrations.plots").plot
    if name == "errors":
        return import_module("duckanon.errors")
    if name == "load_ipython_extension":
        return import_module("duckanon.integrations.jupyter").load_ipython_extension
    raise AttributeError(f"module 'duckanon' has no attribute '{name}'")
