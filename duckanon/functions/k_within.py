"""k_anonymize(..., within := 'earlier_release'): a coarser release, made of the classes of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.catalog.names import fold, identifier, literal
from duckanon.engines.kanon.records import banded_attribute
from duckanon.errors import InvalidInput
from duckanon.functions import released_labels
from duckanon.functions.bands import Bands
from duckanon.functions.collection import COLLECTIONS
from duckanon.functions.earlier_cells import EarlierCells
from duckanon.functions.encoding import joined, sensitive_columns, unit_codes
from duckanon.functions.generalisation import Generalisation
from duckanon.functions.hierarchies import Labels
from duckanon.functions.k_release import CLASSES, Release
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import (
    NUMBER,
    RESERVED_NAMES,
    ROW,
    THREADS,
    absent,
    call,
    check,
    described,
    packed,
    struct,
)
from duckanon.functions.udf import Instance, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.kanon.coarsening import Cells
    from duckanon.engines.kanon.hierarchy import Hierarchy

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
    how: Generalisation
    criteria: Criteria
    within: str

    @classmethod
    def of(cls, checked: Mapping[str, Any], criteria: Criteria, within: str) -> Coarser:
        """The call of k_anonymize with these arguments. Raises InvalidInput for those that it does not take."""
        if checked["seconds"] is not None or checked["method"] != "auto" or checked["options"] is not None:
            raise InvalidInput("within joins the classes of an earlier release: leave method, seconds and options out.")
        if checked["how"].suppress:
            raise InvalidInput("within joins the classes of a release with other cells: leave suppress_cells out.")
        for hierarchy in checked["how"].hierarchies:
            if hierarchy.table is None:
                raise InvalidInput(
                    f'within takes the hierarchy of "{hierarchy.name}" as a table, since expressions read the records '
                    "again: "
                    "make a table of its levels, and name that in hierarchies."
                )
        own = {name: checked[name] for name in ("tbl", "qi", "k", "weights", "categorical", "drop", "how")}
        return cls(**own, criteria=criteria, within=within)

    def query(self) -> str:
        """The query of a release that joins the classes of `within`."""
        cells = EarlierCells.of(self.qi, self.categorical, self.how)
        replaced = [source for cell in cells.cells.values() for source in cell.sources]
        table = f"system.main.query_table({literal(self.tbl)})"
        apart = ", ".join(map(identifier, RESERVED_NAMES))
        own_cells = struct({name: cell.own(name) for name, cell in cells.cells.items()})
        own = (
            f"(SELECT system.main.list({own_cells}) FROM (FROM (SELECT * EXCLUDE ({apart}) FROM (FROM {table} "
            f"UNION ALL BY NAME SELECT {absent(self.qi)} WHERE false))) AS {ROW})"
        )
        handed = struct({name: cell.handed for name, cell in cells.cells.items()})
        levels = (
            struct({hierarchy.name: hierarchy.rows for hierarchy in self.how.hierarchies})
            if self.how.hierarchies
            else "NULL"
        )
        return Release(
            source=self.within,
            cells=list(cells.cells.values()),
            how=cells,
            k=self.k,
            criteria=self.criteria,
            dropped=[*self.drop, _CLASS],
            replaced=replaced,
            suppressed=(
                f"records + (SELECT {self.criteria.allowed('system.main.count(*)')} - system.main.count(*) "
                f"FROM {table})"
            ),
            problem=check("k_within", self.literal, described=described(self.tbl)),
            collected=struct(
                {
                    "rows": f"system.main.list({handed})",
                    "numbers": f"system.main.list({NUMBER})",
                    "sensitive": packed(self.criteria.sensitive),
                    "unit": packed([] if self.criteria.unit is None else [self.criteria.unit]),
                }
            ),
            classes=call(
                "_dk_k_coarser",
                request=self.literal,
                packed="collected",
                table=own,
                trees=levels,
                threads=THREADS,
            ),
        ).query


def register_coarser(on: Instance) -> None:
    """Put the functions behind coarser releases on a database instance."""
    register_check(on, "k_within", _check, Coarser)
    register_engine(on, "_dk_k_coarser", _coarser, "classes", CLASSES, Coarser)


def _check(request: Coarser, names: list[str], types: list[str], described: dict[str, list[str]]) -> None:
    table, release = Table(request.tbl, described["names"], described["types"]), Table(request.within, names, types)
    table.has(request.qi)
    table.plain(request.qi, "quasi-identifier")
    request.how.check(table)
    table.ordered(request.qi, [*request.categorical, *request.how.labelled])
    for name, cell in EarlierCells.of(request.qi, request.categorical, request.how).cells.items():
        cell.check(release, name, table.kind(name))
    # What the earlier release has dropped already may be named again: the call is then that of the earlier one.
    release.has([name for name in request.drop if not table.holds(name)])
    release.has(request.criteria.columns)
    release.plain(request.criteria.sensitive, "sensitive column")
    _nothing_finer(table, release, request.qi, request.drop)


def _nothing_finer(table: Table, release: Table, qi: Sequence[str], drop: Sequence[str]) -> None:
    """Check that no column with the earlier release's cells is left: the coarser one would show them unchanged."""
    named, gone = {fold(name) for name in qi}, {fold(name) for name in drop}
    for name in table.names:
        left = [end for end in (f"{name}_{part}" for part in ("lo", "hi", "set", "label")) if release.holds(end)]
        if fold(name) in named or release.holds(name) or all(fold(end) in gone for end in left):
            continue
        raise InvalidInput(
            f'Column "{name}" is generalised in {release.name}: name it in qi, or what stands for it in drop.'
        )


def _coarser(request: Coarser, packed: pa.Scalar, table: pa.Scalar, trees: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.coarsening import coarser, is_release
    from duckanon.engines.kanon.hierarchy import hierarchy
    from duckanon.engines.kanon.records import check_k, records

    rows, sensitive, levels = packed["rows"], packed["sensitive"], trees.as_py() or {}
    check_k(request.k, len(rows.values) if rows.is_valid else 0)
    workers = max(1, int(threads.as_py()))
    criteria = request.criteria.engine_criteria(request.k)
    cells, several = rows.values, table.values if table.is_valid else None
    released, together = [], []
    for i, (name, weight) in enumerate(zip(request.qi, request.weights, strict=True)):
        if several is None:
            break
        bands = request.how.of(name)
        cell = bands if not isinstance(bands, Labels) else hierarchy(name, levels[name] or [])
        released.append(_cell(name, cell, cells.field(i), None, weight))
        together.append(_cell(name, cell, cells.field(i), several.field(i), weight))
    if several is None or not is_release(together, workers):
        raise InvalidInput(
            f"{request.within} is no release of this table: it can have no more rows, and each record must lie in one "
            "of its classes, but for those that it dropped. Give the table that it was made from."
        )
    # Dropped records stay dropped: rows come from the earlier release alone.
    left = int(criteria.suppress * len(several)) - (len(several) - len(cells))
    if left < 0:
        raise InvalidInput(
            f"{request.within} lacks more records of this table than max_suppression allows. If it dropped them, "
            "allow for them, as in max_suppression := 0.02: they stay dropped."
        )
    whole = records(cell.attribute for cell in released)
    criteria = replace(criteria, suppress=Fraction(left, len(cells)))
    subjects = unit_codes(packed["unit"].values.field(0)) if request.criteria.unit is not None else None
    columns = sensitive_columns(sensitive, null_is_value=request.criteria.null_is_value)
    coarse = coarser(released, whole, columns, criteria, workers, subjects)
    labels = np.empty_like(coarse)
    labels[packed["numbers"].values.to_numpy() - 1] = coarse
    handle = COLLECTIONS.open()
    COLLECTIONS[handle].answer(labels)
    return pa.array([handle], pa.int64())


def _cell(name: str, how: Bands | Hierarchy | None, cells: pa.Array, values: pa.Array | None, weight: float) -> Cells:
    """The released cells of one quasi-identifier by the codes of its values; with the table's own, if given."""
    from duckanon.engines.kanon.coarsening import Cells
    from duckanon.functions.encoding import encode

    if isinstance(how, Bands):
        return _band_cells(how, cells, values, weight)
    if how is not None:
        return _label_cells(name, how, cells, values, weight)
    n, ends = len(cells), cells.flatten()
    more = [] if values is None else [values]
    if len(ends) == 2:
        coded = encode(name, joined([*ends, *more]), categorical=False, weight=weight)
        low, high, own = np.split(coded.codes, [n, 2 * n])
        return Cells(replace(coded, codes=low[:0]), low, high, None, own)
    inside, count = ends[0].flatten(), pc.list_value_length(ends[0]).fill_null(0).to_numpy()
    coded = encode(name, joined([inside, *more]), categorical=True, weight=weight)
    held, own = np.split(coded.codes, [len(inside)])
    return Cells(replace(coded, codes=held[:0]), held, held, np.append(0, np.cumsum(count)), own)


def _band_cells(bands: Bands, cells: pa.Array, values: pa.Array | None, weight: float) -> Cells:
    from duckanon.engines.kanon.coarsening import Cells

    low, high, wrong = cells.flatten()
    if pc.any(wrong).as_py():
        raise InvalidInput(
            f'The earlier release has not these bands of "{bands.name}": give the bands that it was made with.'
        )
    parts = [low, high]
    if values is not None:
        number, lost = values.flatten()
        if pc.any(lost).as_py():
            raise InvalidInput(bands.outside)
        parts.append(number)
    numbers = pa.concat_arrays([part.cast(pa.int64()) for part in parts])
    null = numbers.is_null().to_numpy(zero_copy_only=False)
    coded = banded_attribute(bands.name, numbers.fill_null(0).to_numpy(), null, weight)
    first, last, own = np.split(coded.codes.astype(np.int32), [len(low), 2 * len(low)])
    return Cells(replace(coded, codes=first[:0]), first, last, None, own)


def _label_cells(name: str, tree: Hierarchy, cells: pa.Array, values: pa.Array | None, weight: float) -> Cells:
    from duckanon.engines.kanon.coarsening import Cells

    spans = released_labels.below(name, tree, cells.field(0))
    leaves = np.zeros(0, np.int64) if values is None else released_labels.leaves(name, tree, values)
    first, last, own = (np.where(places < 0, tree.leaves, places).astype(np.int32) for places in (*spans.T, leaves))
    return Cells(tree.attribute(name, first[:0], weight), first, last, None, own)
