"""cell_key and cell_key_table: counts perturbed by cell key, and the perturbation tables by which they are changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.listing import listed
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import absent, ascending, call, check, fill, renamed
from duckanon.functions.udf import Host, Instance, register_check, register_engine
from duckanon.specification import functions

if TYPE_CHECKING:
    from duckanon.engines.suppression.cell_key import PTable

# The largest deviation, the variance and the threshold of a perturbation table, by default.
_DEFAULTS = {one.name: json.loads(one.default or "") for one in functions()["cell_key_table"].arguments}
_PTABLE = {"i": "BIGINT", "v": "BIGINT", "first_key": "BIGINT", "beyond_key": "BIGINT"}
_MOST_ROWS = 1_000_000


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind cell_key and cell_key_table on a database instance."""
    on.function(CellKey)
    on.function(CellKeyTable)
    register_check(on, "cell_key", _check, CellKey)
    register_engine(on, "_dk_cell_key", _ptable, "ptable", f"{row_type(_PTABLE)}[]", CellKey)
    kind = f"{row_type(columns_of('cell_key_table'))}[]"
    register_engine(on, "_dk_cell_key_table", _table, "rows", kind, CellKeyTable)


@dataclass(frozen=True, kw_only=True)
class CellKeyTable(Request):
    """A call of cell_key_table."""

    function = "cell_key_table"
    max_deviation: int
    variance: float
    threshold: int

    def query(self) -> str:
        return listed("_dk_cell_key_table", self)

    def made(self) -> PTable:
        """The perturbation table of largest entropy. Raises InvalidInput where there is none."""
        from duckanon.engines.suppression.cell_key import maximum_entropy

        return maximum_entropy(self.max_deviation, self.variance, self.threshold)


@dataclass(frozen=True, kw_only=True)
class CellKey(Request):
    """A call of cell_key. parameters: of the perturbation table, where the caller has none."""

    function = "cell_key"
    tbl: str
    by: tuple[str, ...]
    key: str
    ptable: str | None
    parameters: CellKeyTable

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        asked = cls.checked(given)
        own = {name: value for name in _DEFAULTS if (value := asked.pop(name)) is not None}
        if fold(asked["key"]) in {fold(name) for name in asked["by"]}:
            raise InvalidInput(f'Column "{asked["key"]}" is both key and in by: nobody must see record keys.')
        for name in own:
            if asked["ptable"] is not None:
                raise InvalidInput(f"{name} makes a perturbation table, and ptable is one: leave one of them out.")
        return cls(**asked, parameters=CellKeyTable(**(_DEFAULTS | own)))

    def query(self) -> str:
        own = [f"c{i}" for i in range(1, len(self.by) + 1)]
        released = [f"{key} AS {identifier(name)}, " for key, name in zip(own, self.by, strict=True)]
        record, cell = self._keys
        return fill(
            "cell_key",
            table=literal(self.tbl),
            absent=absent([*self.by, self.key]),
            problem=check("cell_key", self.literal, ptable=self._described),
            keys=renamed(self.by, own) + (", " if own else ""),
            key=cell,
            flaws=f"system.main.max(CASE WHEN {record} IS NULL OR NOT ({record} >= 0 AND {record} < 1) "
            f"THEN {literal(self._flaw)} END)",
            given=self._given,
            answer=call("_dk_cell_key", request=self.literal, given="given"),
            released="".join(released),
            order=ascending(own) or "n",
        )

    @property
    def _flaw(self) -> str:
        return (
            f'Column "{self.key}" holds a number that is not from 0 to below 1, or NULL: draw a record key for each '
            "record once, as random() does, and keep it."
        )

    @property
    def _keys(self) -> tuple[str, str]:
        """A record's key as it is, and a cell's key as an aggregate, a whole number below KEYS."""
        from duckanon.engines.suppression.cell_key import KEYS

        record = f"TRY_CAST({identifier(self.key)} AS DOUBLE)"
        # Whole numbers add up to the same in any order.
        return record, f"system.main.sum(TRY_CAST(system.main.floor({record} * {KEYS}) AS BIGINT)) % {KEYS}"

    @property
    def _described(self) -> str:
        if self.ptable is None:
            return "NULL::VARCHAR[]"
        described = f"DESCRIBE FROM system.main.query_table({literal(self.ptable)})"
        return f"(SELECT system.main.list(column_name) FROM ({described}))"

    @property
    def _given(self) -> str:
        if self.ptable is None:
            return "NULL"
        source = f"system.main.query_table({literal(self.ptable)})"
        change = "coalesce(TRY_CAST(v AS BIGINT), TRY_CAST(j AS BIGINT) - TRY_CAST(i AS BIGINT))"
        row = f"{{'i': TRY_CAST(i AS BIGINT), 'v': {change}, 'p': TRY_CAST(p AS DOUBLE)}}"
        named = f"FROM {source} UNION ALL BY NAME SELECT {absent(['i', 'j', 'v', 'p'], own=False)} WHERE false"
        return f"(SELECT system.main.list({row} ORDER BY i) FROM ({named}) WHERE (SELECT fine FROM _dk_sound))"


def _check(request: CellKey, names: list[str], types: list[str], ptable: list[str] | None) -> None:
    found = Table(request.tbl, names, types)
    found.has([*request.by, request.key])
    found.number(request.key, "key", "DOUBLE")
    found.apart(request.by, ["n"])
    if request.ptable is not None:
        given = Table(request.ptable, ptable or [], [""] * len(ptable or []))
        given.has(["i", "p"])
        if not given.holds("v") and not given.holds("j"):
            given.has(["v"])


# --- the engine's calls -----------------------------------------------------------------------------------------------


def _ptable(request: CellKey, given: pa.Scalar) -> pa.Array:
    """The perturbation table with the keys of each change, from the first one to the one beyond the last."""
    table = request.parameters.made() if request.ptable is None else _read(given)
    found = []
    for i, v, weight, beyond in _changes(table):
        found.append({"i": i, "v": v, "first_key": beyond - weight, "beyond_key": beyond})
    return rows(found, _PTABLE)


def _table(request: CellKeyTable) -> pa.Array:
    from duckanon.engines.suppression.cell_key import KEYS

    found = [{"i": i, "j": i + v, "v": v, "p": weight / KEYS} for i, v, weight, _ in _changes(request.made())]
    return rows(found, columns_of("cell_key_table"))


def _changes(table: PTable) -> Iterator[tuple[int, int, int, int]]:
    """A count, a change that it can have, its number of keys, and the first key beyond them."""
    for i, weights in enumerate(table.weights.tolist()):
        beyond = 0
        for v, weight in enumerate(weights, -table.most):
            beyond += weight
            if weight:
                yield i, v, weight, beyond


def _read(given: pa.Scalar) -> PTable:
    """The caller's perturbation table. Raises InvalidInput if it is not one."""
    from duckanon.engines.suppression.cell_key import PTable

    told: Any = given.values if given.is_valid else None
    if told is None or len(told) > _MOST_ROWS or any(told.field(name).null_count for name in ("i", "v", "p")):
        raise InvalidInput(
            "A ptable has whole numbers i, and v or j, and probabilities p: fill it, and leave out NULL."
        )
    i, v = (told.field(name).to_numpy() for name in ("i", "v"))
    most = int(np.abs(v).max())
    if i.min() < 0 or (int(i.max()) + 1) * (2 * most + 1) > _MOST_ROWS:
        raise InvalidInput("A ptable has a row for each count from 0 on and each change: its numbers are too large.")
    if len(np.unique(i * (2 * most + 1) + v + most)) < len(i):
        raise InvalidInput("A ptable has each count and change once: leave out what is there twice.")
    probabilities = np.zeros((int(i.max()) + 1, 2 * most + 1))
    probabilities[i, v + most] = told.field("p").to_numpy()
    return PTable.of(probabilities)
