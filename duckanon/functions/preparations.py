"""prepare, prepared: tables that a steward buys at once, and from which answers follow for free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Self

import pyarrow as pa

from duckanon.catalog.names import fold, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arguments import names
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.listing import register_listing
from duckanon.functions.request import Request
from duckanon.functions.sqltext import call, fill, literals, seen
from duckanon.functions.udf import Host, Instance, Prepares, register_engine


def register(on: Instance, host: Host) -> None:
    """Put prepare and prepared on a database instance."""
    on.function(Prepare)
    kind = f"{row_type(columns_of('prepare'))}[]"
    register_engine(on, "_dk_prepare", partial(_prepare, host.prepare), "rows", kind, Prepare)
    register_listing(on, "prepared", host.governance.prepared)


@dataclass(frozen=True, kw_only=True)
class Prepare(Request):
    """A call of prepare. by: the columns of each table."""

    function = "prepare"
    tbl: str
    by: tuple[tuple[str, ...], ...]
    queries: tuple[str, ...]
    file: str | None
    epsilon: Fraction | None
    within: Fraction | None
    buy: bool

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked({**arguments, "queries": None})
        checked["by"] = _tables(arguments["by"])
        checked["queries"] = _queries(arguments["queries"])
        if checked["within"] is not None:
            checked["within"] = Fraction(str(checked["within"]))
        if not checked["by"] and not checked["queries"] and checked["file"] is None:
            raise InvalidInput(
                "prepare needs tables: name their columns, as in by := [['state', 'sex'], ['age']], or give queries or "
                "a file of them."
            )
        if checked["epsilon"] is None and checked["within"] is None:
            raise InvalidInput("prepare needs a price or an accuracy: say epsilon := 0.1, or within := 50.")
        if checked["epsilon"] is not None and checked["within"] is not None:
            raise InvalidInput("Of epsilon and within the one follows from the other: give one of them.")
        return cls(**checked)

    def query(self) -> str:
        """DuckDB reads the file where the query runs, so a connection that may not read it gets DuckDB's refusal."""
        texts = literals([])
        if self.file is not None:
            read = f"system.main.read_text({literal(self.file)})"
            texts = f"(SELECT system.main.list(content ORDER BY filename ASC) FROM {read})"
        return fill("listing", answer=call("_dk_prepare", request=self.literal, seen=seen(self.tbl), texts=texts))


def _tables(value: object) -> tuple[tuple[str, ...], ...]:
    """The columns of each table, each table once, whatever the order of its columns."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(table, list) for table in value):
        raise InvalidInput("by must list the columns of each table, as in by := [['state', 'sex'], ['age']].")
    tables = {
        tuple(sorted(map(fold, name))): tuple(name) for name in (names(columns, "by", empty=True) for columns in value)
    }
    return tuple(tables.values())


def _queries(queries: object) -> tuple[str, ...]:
    if queries is None:
        return ()
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise InvalidInput("queries must be texts, as in queries := ['SELECT state, count(*) FROM t GROUP BY state'].")
    return tuple(dict.fromkeys(queries))


def _prepare(prepare: Prepares, request: Prepare, seen: pa.Scalar, texts: pa.Scalar) -> pa.Array:
    read = texts.as_py()
    if read is None:
        raise InvalidInput(f"There is no file {request.file}: name one that exists, from where the program runs.")
    return rows(prepare(request, read, seen.as_py()), columns_of("prepare"))
