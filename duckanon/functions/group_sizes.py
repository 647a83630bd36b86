"""group_sizes: from a call to the query that counts groups by region and size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from duckanon.functions.group_counts import Groups, check_regions, check_table, query
from duckanon.functions.sqltext import fill
from duckanon.functions.udf import Host, Instance, register_check

# Columns of the answer beside those of the hierarchy.
RELEASED = ("level", "size", "groups")


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind group_sizes on a database instance."""
    on.function(GroupSizes)
    register_check(on, "groups", check_table, Groups)
    register_check(on, "regions", check_regions, Groups)


@dataclass(frozen=True)
class GroupSizes(Groups):
    """A call of group_sizes."""

    function = "group_sizes"

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        return cls(**cls.roles(arguments))

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
