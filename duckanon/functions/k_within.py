"""k_anonymize(..., within := 'earlier_release'): a coarser release, made of the classes of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.collection import COLLECTIONS
from duckanon.functions.encoding import joined, sensitive_columns, unit_codes
from duckanon.functions.k_cells import PlainCell
from duckanon.functions.k_release import CLASSES, Release
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import NUMBER, RESERVED_NAMES, ROW, THREADS, absent, call, check, packed, struct
from duckanon.functions.udf import Instance, register_check, register_engine

_CLASS = "class_id"


@dataclass(frozen=True, kw_only=True)
class Coarser(Request):
    """A call of k_anonymize with `within`: the table, and its earlier release."""

    tbl: str
    qi: tuple[str, ...]
    k: int
    weights: tuple[float, ...]
    categorical: tuple[str, ...]
    drop: tuple[str, ...]
    criteria: Criteria
    within: str

    @classmethod
    def of(cls, asked: Mapping[str, Any], criteria: Criteria, within: str) -> Coarser:
        """The call of k_anonymize with these arguments. Raises InvalidInput for those that it does not take."""
        if asked["seconds"] is not None or asked["method"] != "auto" or asked["options"] is not None:
            raise InvalidInput("within joins the classes of an earlier release: leave method, seconds and options out.")
        if asked["how"].all or asked["how"].suppress:
            raise InvalidInput(
                "within joins the classes of a release with intervals and sets: leave bands, hierarchies and "
                "suppress_cells out."
            )
        own = {name: asked[name] for name in ("tbl", "qi", "k", "weights", "categorical", "drop")}
        return cls(**own, criteria=criteria, within=within)

    def query(self) -> str:
        """The query of a release that joins the classes of `within`."""
        cells = [PlainCell.over(name, categorical=name in self.sets) for name in self.qi]
        replaced = [name for cell in cells for name in cell.names]
        table = f"system.main.query_table({literal(self.tbl)})"
        described = "(SELECT {'names': system.main.list(column_name), 'types': system.main.list(column_type)} "
        described += f"FROM (DESCRIBE FROM {table}))"
        apart = ", ".join(map(identifier, RESERVED_NAMES))
        own = (
            f"(SELECT {packed(self.qi)} FROM (FROM (SELECT * EXCLUDE ({apart}) FROM (FROM {table} "
            f"UNION ALL BY NAME SELECT {absent(self.qi)} WHERE false))) AS {ROW})"
        )
        return Release(
            source=self.within,
            cells=cells,
            k=self.k,
            criteria=self.criteria,
            dropped=[*self.drop, _CLASS],
            replaced=replaced,
            suppressed=(
                f"records + (SELECT {self.criteria.allowed('system.main.count(*)')} - system.main.count(*) "
                f"FROM {table})"
            ),
            problem=check("k_within", self.literal, described=described),
            collected=struct(
                {
                    "rows": packed(replaced),
                    "numbers": f"system.main.list({NUMBER})",
                    "sensitive": packed(self.criteria.sensitive),
                    "unit": packed([] if self.criteria.unit is None else [self.criteria.unit]),
                }
            ),
            classes=call("_dk_k_coarser", request=self.literal, packed="collected", table=own, threads=THREADS),
        ).query

    @property
    def sets(self) -> frozenset[str]:
        """The quasi-identifiers that are released as sets, named as in `qi`."""
        named = {fold(name) for name in self.categorical}
        return frozenset(name for name in self.qi if fold(name) in named)


def register_coarser(on: Instance) -> None:
    """Put the functions behind coarser releases on a database instance."""
    register_check(on, "k_within", _check, Coarser)
    register_engine(on, "_dk_k_coarser", _coarser, "classes", CLASSES, Coarser)


def _check(request: Coarser, names: list[str], types: list[str], described: dict[str, list[str]]) -> None:
    found, release = Table(request.tbl, described["names"], described["types"]), Table(request.within, names, types)
    found.has(request.qi)
    found.plain(request.qi, "quasi-identifier")
    found.ordered(request.qi, request.categorical)
    for name in request.qi:
        ends = PlainCell.of(name, categorical=name in request.sets).names
        release.has(ends)
        wanted = found.kind(name) + ("[]" if len(ends) == 1 else "")
        if any(release.kind(end) != wanted for end in ends):
            raise InvalidInput(
                f'Column "{ends[0]}" of {release.name} has not the type that a release of column "{name}" has: cast it.'
            )
    # What the earlier release has dropped already may be named again: the call is then that of the earlier one.
    release.has([name for name in request.drop if not found.holds(name)])
    release.has(request.criteria.columns)
    release.plain(request.criteria.sensitive, "sensitive column")
    _nothing_finer(found, release, request.qi, request.drop)


def _nothing_finer(found: Table, release: Table, qi: Sequence[str], drop: Sequence[str]) -> None:
    """Check that no column with the earlier release's cells is left: the coarser one would show them unchanged."""
    named, gone = {fold(name) for name in qi}, {fold(name) for name in drop}
    for name in found.names:
        left = [end for end in (f"{name}_{part}" for part in ("lo", "hi", "set", "label")) if release.holds(end)]
        if fold(name) in named or release.holds(name) or all(fold(end) in gone for end in left):
            continue
        raise InvalidInput(
            f'Column "{name}" is generalised in {release.name}: name it in qi, or what stands for it in drop.'
        )


def _coarser(request: Coarser, packed: pa.Scalar, table: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.coarsening import coarser, is_release
    from duckanon.engines.kanon.records import check_k, records

    rows, sensitive = packed["rows"], packed["sensitive"]
    check_k(request.k, len(rows.values) if rows.is_valid else 0)
    workers = max(1, int(threads.as_py()))
    wanted = request.criteria.engine_criteria(request.k)
    cells, several, place = rows.values, table.values if table.is_valid else None, 0
    released, together = [], []
    for i, weight in enumerate(request.weights):
        if several is None:
            break
        name, values = several.type.field(i).name, several.field(i)
        width = 1 if name in request.sets else 2
        mine = [cells.field(place + j) for j in range(width)]
        place += width
        released.append(_cell(name, mine, None, weight))
        together.append(_cell(name, mine, values, weight))
    if several is None or not is_release(together, workers):
        raise InvalidInput(
            f"{request.within} is no release of this table: it can have no more rows, and each record must lie in one "
            "of its classes, but for those that it dropped. Give the table that it was made from."
        )
    # Dropped records stay dropped: rows come from the earlier release alone.
    left = int(wanted.suppress * len(several)) - (len(several) - len(cells))
    if left < 0:
        raise InvalidInput(
            f"{request.within} lacks more records of this table than max_suppression allows. If it dropped them, "
            "allow for them, as in max_suppression := 0.02: they stay dropped."
        )
    whole = records(cell.attribute for cell in released)
    wanted = replace(wanted, suppress=Fraction(left, len(cells)))
    subjects = unit_codes(packed["unit"].values.field(0)) if request.criteria.unit is not None else None
    columns = sensitive_columns(sensitive, null_is_value=request.criteria.null_is_value)
    found = coarser(released, whole, columns, wanted, workers, subjects)
    labels = np.empty_like(found)
    labels[packed["numbers"].values.to_numpy() - 1] = found
    handle = COLLECTIONS.open()
    COLLECTIONS[handle].answer(labels)
    return pa.array([handle], pa.int64())


def _cell(name: str, cells: list[pa.Array], values: pa.Array | None, weight: float) -> Any:
    """The released cells of one quasi-identifier by the codes of its values; with the table's own, if given."""
    from duckanon.engines.kanon.coarsening import Cells
    from duckanon.functions.encoding import encode

    n = len(cells[0])
    more = [] if values is None else [values]
    if len(cells) == 2:
        coded = encode(name, joined([*cells, *more]), categorical=False, weight=weight)
        low, high, own = np.split(coded.codes, [n, 2 * n])
        return Cells(replace(coded, codes=low[:0]), low, high, None, own)
    inside, count = cells[0].flatten(), pc.list_value_length(cells[0]).fill_null(0).to_numpy()
    coded = encode(name, joined([inside, *more]), categorical=True, weight=weight)
    held, own = np.split(coded.codes, [len(inside)])
    return Cells(replace(coded, codes=held[:0]), held, held, np.append(0, np.cumsum(count)), own)
