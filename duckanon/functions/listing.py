"""Functions that list what is stored in the schema `duckanon`: rows from Python, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.request import Request
from duckanon.functions.sqltext import call, fill
from duckanon.functions.udf import Instance, register_engine


@dataclass(frozen=True)
class Listing(Request):
    """A call of a function without arguments."""

    def query(self) -> str:
        return listed(f"_dk_{self.function}", self)


def listed(function: str, request: Request, **fields: str) -> str:
    """The query whose rows are those that one of our functions returns as a list. fields: of its struct, as SQL."""
    return fill("listing", answer=call(function, request=request.literal, **fields))


def register_listing(on: Instance, name: str, read: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
    """Put a function on a database instance whose rows are what `read` gives when it is called."""
    request, columns = _listing(name), columns_of(name)
    on.function(request)

    def answer(request: Listing) -> pa.Array:  # noqa: ARG001 # it has no arguments
        return rows(read(), columns)

    register_engine(on, f"_dk_{name}", answer, "rows", f"{row_type(columns)}[]", request)


@cache
def _listing(name: str) -> type[Listing]:
    return type(name, (Listing,), {"function": name, "__module__": __name__})
