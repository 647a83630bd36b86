"""dp_group_sizes: from a call to the query that counts and releases, and from its counts to a release charged once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa

from duckanon.accounting import Charge, parallel, rational, sequential, written
from duckanon.catalog.names import fold, literal
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.arrow import integers, one_list, struct
from duckanon.functions.group_counts import Groups, query
from duckanon.functions.sqltext import call, fill, seen
from duckanon.functions.udf import Host, Instance, register_engine
from duckanon.renyi import Renyi

if TYPE_CHECKING:
    from duckanon.engines.groups.release import Plan
    from duckanon.engines.groups.request import Request

_REGIONS = "STRUCT(level BIGINT, region BIGINT, groups BIGINT[], low BIGINT[], high BIGINT[])[]"
# Columns of the answer beside those of the hierarchy.
RELEASED = ("level", "size", "groups", "low", "high")
# Cells of the last level: a release of so many needs some 8 GiB.
_MOST_CELLS = 20_000_000


def register(on: Instance, host: Host) -> None:
    """Put the functions behind dp_group_sizes on a database instance."""
    on.function(DpGroupSizes)
    register_engine(
        on,
        "_dk_dp_group_sizes",
        releaser(host.governance.stored_or_drawn, host.governance.renyi_of),
        "regions",
        _REGIONS,
        DpGroupSizes,
    )


class ChargeAndDraw(Protocol):
    """Charges for a release and then draws it, or returns the stored one and charges nothing."""

    def __call__(
        self,
        table: str,
        lookup: Mapping[str, Any],
        content: Mapping[str, Any],
        charge: Charge,
        draw: Callable[[], pa.Array],
        *,
        person: str | None = None,
    ) -> pa.Array:
        """table: its name. lookup: the tables that the caller sees. content: all else that the release depends on.

        person: the column in which each value was checked to occur once.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class DpGroupSizes(Groups):
    """A call of dp_group_sizes."""

    function = "dp_group_sizes"
    epsilon: Fraction
    max_size: int
    mechanism: str
    totals: str
    split: tuple[Fraction, ...] | None
    intervals: str

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.roles(arguments)
        if checked["regions"] is not None and not checked["hierarchy"]:
            raise InvalidInput("regions is given without a hierarchy: name its columns, as in hierarchy := ['state'].")
        if checked["quantity"] is None and checked["bound"] is not None:
            raise InvalidInput("bound is given without a quantity: it says how much one person may add to a quantity.")
        if checked["quantity"] is not None and checked["bound"] is None:
            raise InvalidInput("quantity needs a bound: the most that one person may add to it, as in bound := 1.")
        check_cells(checked["max_size"])
        split = _split(checked.pop("split"), len(checked["hierarchy"]) + 1)
        request = cls(**checked, split=split)
        request.engine.check(depth=len(request.hierarchy) + 1)
        return request

    def query(self, tallies: str | None = None) -> str:
        ranks = ", ".join(f"r{i}" for i in range(len(self.hierarchy) + 1))
        answer = call(
            "_dk_dp_group_sizes",
            request=self.literal,
            seen=seen(self.tbl),
            problem="problem",
            leaves="leaves",
            sizes="sizes",
            groups="groups",
            content="_dk_packed.content",
            ranks="ranks",
            regions="_dk_tree.content",
        )
        result = fill(
            "dp_group_sizes",
            answer=answer,
            ranks=f"[{ranks}]",
            region=", ".join([*self.keys, ranks]),
            first=str(self.first),
            released=self.own_names,
        )
        shown = f"TRY_CAST(system.main.least(size, {self.max_size}) AS BIGINT)"
        return query(self, shown=shown, result=result, columns=RELEASED, tallies=tallies)

    @property
    def first(self) -> int:
        """The smallest size. Where the groups are public, those whose quantity adds up to 0 are counted too."""
        return 0 if self.quantity is not None and self.totals == "public" else 1

    @property
    def engine(self) -> Request:
        """What the engine is asked, whatever the data. A whole group has as many sizes as are shown."""
        # Not before: the engine takes its time to load.
        from duckanon.engines.groups.request import Request

        return Request(
            epsilon=self.epsilon,
            mechanism=self.mechanism,
            totals=self.totals,  # type: ignore[arg-type] # Request.check looks at it
            split=self.split,
            sensitivity=self.bound or 1,
            contributions=self.max_size if self.is_whole else 1,
            unit="group" if self.is_whole else "record",
            intervals=self.intervals,  # type: ignore[arg-type]
        )

    def bought(self, renyi: Renyi | None, sizes: int) -> Request:
        """As `engine`. renyi: of the table's population, if it has a delta.

        Then its ledger is charged what pure noise of epsilon costs, and of the two kinds of noise for that price the
        one is taken which is nearer to the truth.
        """
        pure = self.engine
        if renyi is None:
            return pure
        rho = renyi.rho(renyi.of_pure(self.epsilon))
        is_nearer = pure.is_gaussian_nearer(rho, depth=len(self.hierarchy) + 1, sizes=sizes)
        return replace(pure, epsilon=None, rho=rho) if is_nearer else pure

    @property
    def written(self) -> dict[str, Any]:
        """The arguments other than the table, as the ledger writes them: fractions as text."""
        return {
            "unit": self.unit,
            "hierarchy": list(self.hierarchy),
            "epsilon": written(self.epsilon),
            "max_size": self.max_size,
            "mechanism": self.mechanism,
            "totals": self.totals,
            "quantity": self.quantity,
            "bound": self.bound,
            "regions": self.regions,
            "split": self.split and list(map(str, self.split)),
            "person": self.person,
            "intervals": self.intervals,
        }

    @property
    def key(self) -> dict[str, Any]:
        """What a release depends on. Tables are compared by their content, and names ignore case."""
        parts = self.written
        listed = parts.pop("regions") is not None
        for name in ("unit", "quantity", "person"):
            parts[name] = parts[name] and fold(parts[name])
        return {**parts, "hierarchy": [fold(name) for name in self.hierarchy], "listed": listed}

    def __str__(self) -> str:
        """The call, as the ledger shows it."""
        shown = [(name, argument) for name, argument in self.written.items() if name != "unit" and argument]
        rest = ", ".join(f"{name} := {_shown(argument)}" for name, argument in shown)
        return f"dp_group_sizes({_shown(self.tbl)}, {_shown(self.unit)}, {rest})"

    def neighbours(self) -> str:
        """The pairs of tables that the release protects: what one row, or one unit, may differ in."""
        from duckanon.engines.groups.request import RELATIONS

        if self.is_whole:
            return "one group added or removed, with all of its records"
        difference: str = RELATIONS[self.totals]  # type: ignore[index] # checked when the call was written
        if self.quantity is None:
            return difference
        return f"{difference}; a person adds 0 to {self.bound} to the quantity"


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value) if isinstance(value, int) else literal(str(value))


def _split(split: object, levels: int) -> tuple[Fraction, ...] | None:
    """Shares of epsilon that add up to one, exact, from positive numbers in their proportion."""
    if split is None:
        return None
    numbers = [rational(part) for part in split] if isinstance(split, list) else []
    if len(numbers) != levels or any(number is None or number <= 0 for number in numbers):
        raise InvalidInput(
            f"split must give a number above zero for each of the {levels} levels, the root first, "
            f"as in split := {[1] * levels}."
        )
    shares = [number or Fraction(0) for number in numbers]
    return tuple(share / sum(shares) for share in shares)


# --- the engine's call ------------------------------------------------------------------------------------------------


def releaser(
    charge_and_draw: ChargeAndDraw, renyi_of: Callable[[str, Mapping[str, Any]], Renyi | None]
) -> Callable[..., pa.Array]:
    """The function behind dp_group_sizes. It gets a table's counts; every refusal comes before the charge.

    renyi_of: how the population of a table accounts, if it has a delta.
    """

    def answer(request: DpGroupSizes, seen: pa.Scalar, **counted: pa.Scalar) -> pa.Array:
        from duckanon.engines.groups.release import plan

        table = Counted(**counted)
        if table.problem.is_valid:
            raise InvalidInput(table.problem.as_py())
        if not table.ranks.is_valid:
            raise InvalidInput("The table has no rows, so it has no regions: name them by regions := 'a_table'.")
        parents = _parents(table.ranks, len(request.hierarchy))
        counts = table.matrix(request, len(parents[-1]) if parents else 1)
        engine_request = request.bought(renyi_of(request.tbl, seen.as_py()), counts.shape[1])
        planned = plan(_hierarchy(parents), counts, engine_request)
        charge, key = _charge(request, planned), table.key(request, counts)
        return charge_and_draw(
            request.tbl, seen.as_py(), key, charge, lambda: _packed(planned.release()), person=request.person
        )

    return answer


@dataclass(frozen=True)
class Counted:
    """What the query for the counts hands over.

    problem: why the table is refused; NULL if it is not. leaves, sizes, groups: lists, an entry for each leaf region
    and size that has groups; NULL where there are none. content, regions: hashes of the records, and of the tree of
    regions. ranks: a list with the numbers of each leaf's regions, root to leaf; NULL without regions.
    """

    problem: pa.Scalar
    leaves: pa.Scalar
    sizes: pa.Scalar
    groups: pa.Scalar
    content: pa.Scalar
    ranks: pa.Scalar
    regions: pa.Scalar

    def matrix(self, request: DpGroupSizes, regions: int) -> Any:
        """How many groups of each size each leaf region has: int64 of shape (regions, sizes)."""
        shape = regions, request.max_size - request.first + 1
        check_cells(shape[0] * shape[1])
        counts = np.zeros(shape, dtype=np.int64)
        if self.leaves.is_valid:
            place, size, number = (integers(column.values) for column in (self.leaves, self.sizes, self.groups))
            counted = size >= request.first
            counts[place[counted], size[counted] - request.first] = number[counted]
        return counts

    def key(self, request: DpGroupSizes, counts: Any) -> dict[str, Any]:
        """All that the release depends on. counts: the matrix."""
        return {
            **request.key,
            "content": self.content.as_py(),
            "regions": self.regions.as_py(),
            # If two contents ever had the same hash, the release of other counts would still not be given.
            "counts": sha256(repr(counts.shape).encode() + counts.tobytes()).hexdigest(),
        }


def _charge(request: DpGroupSizes, planned: Plan) -> Charge:
    """The charge of a release. Raises DuckanonError where its levels do not add up to what was asked.

    Regions of a level are disjoint, levels are not. Each size is measured in one of the ways.
    """
    regions_of, split = planned.hierarchy.sizes, planned.split
    ways = (
        sequential(parallel(repeat(share, regions)) for share, regions in zip(way, regions_of, strict=True))
        for way in split.ways
    )
    engine_request = planned.request
    if sequential([split.look, parallel(ways)]) != (
        request.epsilon if engine_request.rho is None else engine_request.rho
    ):
        raise DuckanonError("The charges of the levels do not add up: this is a bug in duckanon, nothing was released.")
    unit = f"one {request.person or 'record'}"
    return Charge(request.epsilon, str(request), request.neighbours(), unit, rho=engine_request.rho)


def _parents(ranks: pa.Scalar, depth: int) -> list[Any]:
    """From the numbers of each leaf's regions, root to leaf, to the parents of each level's regions."""
    tree = integers(ranks.values.flatten()).reshape(-1, depth + 1)
    parents = []
    for level in range(depth):
        parent_of = np.zeros(int(tree[:, level + 1].max()) + 1, dtype=np.int64)
        parent_of[tree[:, level + 1]] = tree[:, level]
        parents.append(parent_of)
    return parents


def _hierarchy(parents: list[Any]) -> Any:
    from duckanon.engines.groups.hierarchy import Hierarchy

    return Hierarchy(tuple(parents))


def check_cells(cells: int) -> None:
    """Raises InvalidInput for more cells of regions and sizes than fit into memory."""
    if cells > _MOST_CELLS:
        raise InvalidInput(f"That is more than {_MOST_CELLS:,} cells of regions and sizes: choose a smaller max_size.")


def _packed(release: Any) -> pa.Array:
    """A release as one list of regions, each with a list for each of its columns."""
    levels = [len(level.groups) for level in release.levels]
    starts = np.arange(sum(levels) + 1, dtype=np.int32) * release.levels[0].groups.shape[1]

    def lists(name: str) -> pa.Array:
        flat = np.concatenate([getattr(level, name).reshape(-1) for level in release.levels])
        return pa.ListArray.from_arrays(pa.array(starts), pa.array(flat))

    regions = {
        "level": pa.array(np.repeat(np.arange(len(levels)), levels)),
        "region": pa.array(np.concatenate([np.arange(count) for count in levels])),
        **{name: lists(name) for name in ("groups", "low", "high")},
    }
    return one_list(struct(regions))
