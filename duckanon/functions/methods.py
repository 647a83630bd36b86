"""methods: every method of every engine, from their registries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from duckanon.engines.registry import families
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.listing import listed
from duckanon.functions.request import Request
from duckanon.functions.udf import Host, Instance, register_engine


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind methods on a database instance."""
    on.function(Methods)
    register_engine(on, "_dk_methods", _methods, "rows", f"{row_type(columns_of('methods'))}[]", Methods)


@dataclass(frozen=True, kw_only=True)
class Methods(Request):
    """A call of methods. family: None for all."""

    function = "methods"
    family: str | None

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        family = arguments["family"]
        if family is not None and family not in families():
            known = ", ".join(f"'{family}'" for family in families())
            shown = f" '{family}'" if isinstance(family, str) else " of that name"
            raise InvalidInput(f"There is no family{shown}: choose one of {known}.")
        return cls(family=family)

    def query(self) -> str:
        return listed("_dk_methods", self)


def _methods(request: Methods) -> pa.Array:
    names = families() if request.family is None else [request.family]
    lines = [
        {
            "family": family,
            "name": method.name,
            "help": method.help,
            "options": [f"{name} >= {least}" for name, least in method.options.items()],
            "limits": method.limits,
            "source": method.source,
        }
        for family in names
        for method in families()[family].values()
    ]
    return rows(lines, columns_of("methods"))
