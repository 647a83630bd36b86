"""The engine's side of dp_group_sizes: from counted groups to a release that was charged once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import sha256
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from duckanon.accounting import Charge, parallel, sequential
from duckanon.errors import DuckanonError, InvalidInput

# Cells of the last level: a release of so many needs some 8 GiB.
_MOST_CELLS = 20_000_000


class Once(Protocol):
    """What charges for a release before it is drawn, or gives the stored one and charges nothing."""

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
        """table: its name, and lookup: what the caller sees by it. content: all else that the release depends on.

        person: the column of which it was checked that no value has two rows.
        """
        ...


@dataclass(frozen=True)
class Call:
    """A call of dp_group_sizes whose arguments are checked. epsilon and split are exact, as text."""

    table: str
    unit: str
    hierarchy: tuple[str, ...]
    epsilon: str
    max_size: int
    mechanism: str
    totals: str
    quantity: str | None
    bound: int | None
    regions: str | None
    split: tuple[str, ...] | None
    person: str | None
    intervals: str

    @property
    def first(self) -> int:
        """The smallest size. Where the groups are public, those whose quantity adds up to 0 are counted too."""
        return 0 if self.quantity is not None and self.totals == "public" else 1

    @property
    def engine(self) -> dict[str, Any]:
        """The arguments that the engine takes, whatever the data."""
        return {
            "epsilon": Fraction(self.epsilon),
            "mechanism": self.mechanism,
            "totals": self.totals,
            "split": None if self.split is None else tuple(map(Fraction, self.split)),
            "sensitivity": self.bound or 1,
            "intervals": self.intervals,
        }

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def load(text: str) -> Call:
        given = json.loads(text)
        split = given["split"]
        return Call(
            **{**given, "hierarchy": tuple(given["hierarchy"]), "split": None if split is None else tuple(split)}
        )

    @property
    def key(self) -> dict[str, Any]:
        """What of the call a release depends on. The tables go by their content, and names ignore case."""
        parts = {name: value for name, value in asdict(self).items() if name not in ("table", "regions")}
        for name in ("unit", "quantity", "person"):
            parts[name] = parts[name] and parts[name].lower()
        return {**parts, "hierarchy": [name.lower() for name in self.hierarchy], "listed": self.regions is not None}

    def __str__(self) -> str:
        """The call, as the ledger tells it."""
        named = {name: value for name, value in asdict(self).items() if name not in ("table", "unit") and value}
        rest = ", ".join(f"{name} := {_shown(value)}" for name, value in named.items())
        return f"dp_group_sizes({_shown(self.table)}, {_shown(self.unit)}, {rest})"

    def neighbours(self) -> str:
        """The pairs of tables that the release can hardly tell apart."""
        from duckanon.engines.groups.release import RELATIONS

        said: str = RELATIONS[self.totals]  # type: ignore[index] # checked when the call was written
        if self.quantity is None:
            return said
        return f"{said}; a person adds 0 to {self.bound} to the quantity"


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def releaser(once: Once) -> Callable[..., pa.Array]:
    """The function behind dp_group_sizes. It gets a table's counts, and refuses before anything is charged."""

    def answer(
        call: pa.Scalar,
        seen: pa.Scalar,
        problem: pa.Scalar,
        leaves: pa.Scalar,
        sizes: pa.Scalar,
        groups: pa.Scalar,
        content: pa.Scalar,
        ranks: pa.Scalar,
        regions: pa.Scalar,
    ) -> pa.Array:
        from duckanon.engines.groups.release import plan

        if problem.is_valid:
            raise InvalidInput(problem.as_py())
        asked = Call.load(call.as_py())
        if not ranks.is_valid:
            raise InvalidInput("The table has no rows, so it has no regions: name them by regions := 'a_table'.")
        parents = _parents(ranks, len(asked.hierarchy))
        counts = _matrix(asked, leaves, sizes, groups, len(parents[-1]) if parents else 1)
        planned = plan(_hierarchy(parents), counts, **asked.engine)
        # Regions of a level are disjoint, levels are not.
        levels = zip(planned.charges, planned.hierarchy.sizes, strict=True)
        cost = sequential(parallel(repeat(each, regions)) for each, regions in levels)
        charge = Charge(cost, str(asked), asked.neighbours(), f"one {asked.person or 'record'}")
        if charge.epsilon != Fraction(asked.epsilon):
            raise DuckanonError(
                "The charges of the levels do not add up: this is a bug in duckanon, nothing was released."
            )
        key = {
            **asked.key,
            "content": content.as_py(),
            "regions": regions.as_py(),
            # Should two contents ever share their hashes, a release of other counts is still never given.
            "counts": sha256(repr(counts.shape).encode() + counts.tobytes()).hexdigest(),
        }
        return once(asked.table, seen.as_py(), key, charge, lambda: _packed(planned.release()), person=asked.person)

    return answer


def _parents(ranks: pa.Scalar, depth: int) -> list[Any]:
    """From the numbers of each leaf's regions, root to leaf, to the parents of each level's regions."""
    tree = ranks.values.flatten().to_numpy().astype(np.int64).reshape(-1, depth + 1)
    parents = []
    for level in range(depth):
        found = np.zeros(int(tree[:, level + 1].max()) + 1, dtype=np.int64)
        found[tree[:, level + 1]] = tree[:, level]
        parents.append(found)
    return parents


def _hierarchy(parents: list[Any]) -> Any:
    from duckanon.engines.groups.hierarchy import Hierarchy

    return Hierarchy(tuple(parents))


def check_cells(cells: int) -> None:
    """Raises InvalidInput for more cells of regions and sizes than fit into memory."""
    if cells > _MOST_CELLS:
        raise InvalidInput(f"That is more than {_MOST_CELLS:,} cells of regions and sizes: choose a smaller max_size.")


def _matrix(asked: Call, leaves: pa.Scalar, sizes: pa.Scalar, groups: pa.Scalar, regions: int) -> Any:
    """How many groups of each size each leaf region has: int64 of shape (regions, sizes)."""
    shape = regions, asked.max_size - asked.first + 1
    check_cells(shape[0] * shape[1])
    counts = np.zeros(shape, dtype=np.int64)
    if leaves.is_valid:
        place, size, number = (one.values.to_numpy().astype(np.int64) for one in (leaves, sizes, groups))
        counted = size >= asked.first
        counts[place[counted], size[counted] - asked.first] = number[counted]
    return counts


def _packed(release: Any) -> pa.Array:
    """A release as one list of regions, each with a list for each of its columns."""
    levels = [len(level.groups) for level in release.levels]
    starts = np.arange(sum(levels) + 1, dtype=np.int32) * release.levels[0].groups.shape[1]

    def lists(name: str) -> pa.Array:
        flat = np.concatenate([getattr(level, name).reshape(-1) for level in release.levels])
        return pa.ListArray.from_arrays(pa.array(starts), pa.array(flat))

    regions = pa.StructArray.from_arrays(
        [
            pa.array(np.repeat(np.arange(len(levels)), levels)),
            pa.array(np.concatenate([np.arange(count) for count in levels])),
            *(lists(name) for name in ("groups", "low", "high")),
        ],
        ["level", "region", "groups", "low", "high"],
    )
    return pa.ListArray.from_arrays(pa.array([0, len(regions)], pa.int32()), regions)
