"""group_sizes: from a call to the query that counts groups by region and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.group_counts import Groups, check_regions, check_table, query
from duckanon.functions.sqltext import fill
from duckanon.functions.udf import Host, Instance, register_check

# Columns of the answer beside those of the hierarchy.
RELEASED = ("level", "size", "groups")


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind group_sizes on a database instance."""
    on.function("group_sizes", GroupSizes)
    register_check(on, "_dk_groups_problem", check_table, Groups)
    register_check(on, "_dk_regions_problem", check_regions, Groups)


@dataclass(frozen=True)
class GroupSizes(Groups):
    """A call of group_sizes."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        return cls(**roles(given))

    def query(self, tallies: str | None = None) -> str:
        places = [f"r{i}" for i in range(len(self.hierarchy) + 1)]
        result = fill(
            "group_sizes",
            levels=str(list(range(len(places)))),
            places=f"[{', '.join(places)}]",
            leaf=places[-1],
            released=self.own_names,
        )
        return query(self, shown="TRY_CAST(size AS BIGINT)", result=result, columns=RELEASED, tallies=tallies)


def roles(given: Mapping[str, Any]) -> dict[str, Any]:
    """The table and the columns of groups, regions and sizes, checked against each other."""
    table, unit = arguments.table(given["tbl"]), given["unit"]
    if not isinstance(unit, str) or not unit:
        raise InvalidInput("unit must be the name of the column that identifies a group, as in 'household_id'.")
    levels = arguments.names(given["hierarchy"], "hierarchy", empty=True)
    for name in levels:
        if fold(name) == fold(unit):
            raise InvalidInput(f'Column "{name}" is both unit and in hierarchy: name it in one of them.')
    quantity = named(given["quantity"], "quantity", [unit, *levels])
    return {"tbl": table, "unit": unit, "hierarchy": tuple(levels), "quantity": quantity}


def named(given: object, argument: str, taken: Sequence[str]) -> str | None:
    """The name of a column that no other argument names."""
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise InvalidInput(f"{argument} must be the name of a column, in quotes.")
    if fold(given) in {fold(name) for name in taken}:
        raise InvalidInput(f'Column "{given}" is {argument} and something else too: name it once.')
    return given
