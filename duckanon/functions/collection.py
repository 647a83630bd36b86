"""Columns that a query hands over as DuckDB scans them, and the labels that it asks back for its rows.

A list of a whole column cannot be spilled to disk, and stands in memory several times before an engine sees it. So the
query calls a function with each vector of rows instead: what it hands over is kept in chunks, by the narrowest codes
that tell its values apart. Labels go back the same way, a vector at a time.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import fold, identifier
from duckanon.engines.kanon.records import Attribute, banded_attribute
from duckanon.engines.parallel import spread
from duckanon.errors import DuckanonError
from duckanon.functions.encoding import Chunk, chunk, is_ordered, join, null_apart, sensitive
from duckanon.functions.sqltext import CONTENT, NUMBER, ROW, struct
from duckanon.functions.udf import Instance

if TYPE_CHECKING:
    from duckanon.engines.kanon.hierarchy import Hierarchy
    from duckanon.engines.kanon.risk import Sensitive

# Rows that are encoded together.
_ROWS = 1 << 18
# A statement that was cancelled, or that needs no rows, never asks for its last label. What it left is forgotten when
# nobody has asked for it for so many seconds.
_FORGOTTEN = 3600.0

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows: their numbers from 0, a hash of each one's content, and the columns."""

    rows: npt.NDArray[np.int32]
    content: npt.NDArray[np.uint64]
    columns: dict[str, Chunk]


class Collection:
    """What a query hands over of its rows, in any order and from any thread, and the labels that it gets back."""

    def __init__(self, hierarchies: Mapping[str, Hierarchy]) -> None:
        self.hierarchies = hierarchies
        self.levels: Sequence[int] = ()
        self.touched = monotonic()
        self._lock = Lock()
        self._vectors, self._waiting = list[tuple[Any, Any, Any]](), 0
        self._parts, self._kinds = list[_Part](), dict[str, pa.DataType]()
        self._labels, self._asked = np.zeros(0, np.int32), 0

    def add(self, rows: Any, content: Any, columns: Any) -> None:
        """Take some rows: their numbers from 1, a hash of each one's content, and a struct of columns."""
        with self._lock:
            self._vectors.append((rows, content, columns))
            self._waiting += len(rows)
            if self._waiting < _ROWS:
                return
            vectors = self._drain()
        self._encode(vectors)

    def _drain(self) -> list[tuple[Any, Any, Any]]:
        """The vectors that are not encoded yet; they are from now on the caller's."""
        vectors, self._vectors, self._waiting = self._vectors, [], 0
        return vectors

    def _encode(self, vectors: Sequence[tuple[Any, Any, Any]]) -> None:
        rows, content, columns = (_whole(parts) for parts in zip(*vectors, strict=True))
        named = {columns.type.field(i).name: columns.field(i) for i in range(columns.type.num_fields)}
        coded = _Part(
            (rows.to_numpy() - 1).astype(np.int32),
            content.to_numpy(),
            {name: chunk(column) for name, column in named.items()},
        )
        with self._lock:
            self._kinds = {name: column.type for name, column in named.items()}
            self._parts.append(coded)

    def close(self) -> None:
        """Say that all rows have been handed over."""
        if self._vectors:
            self._encode(self._drain())

    def content(self) -> npt.NDArray[np.uint64]:
        """The hash of each row's content, in the order of the rows' numbers."""
        hashes = np.empty(sum(len(part.rows) for part in self._parts), np.uint64)
        for part in self._parts:
            hashes[part.rows] = part.content
        return hashes

    def attributes(
        self,
        names: Sequence[str],
        categorical: Container[str],
        weights: Sequence[float],
        threads: int,
        banded: Container[str] = (),
        *,
        suppress: bool = False,
        last: bool = False,
    ) -> list[Attribute]:
        """Columns with narrow codes, in the order of the rows' numbers.

        categorical: names in lower case. banded: columns that hold numbers of bands; those with a hierarchy hold
        numbers of leaves, from 1. suppress: whether a class of several values loses all of them. last: whether these
        columns are asked for no more, so that each is let go when it is joined.
        """

        def attribute_of(column: tuple[str, float]) -> Attribute:
            attribute = whole(*column)
            for part in self._parts if last else ():
                del part.columns[column[0]]
            return attribute

        def whole(name: str, weight: float) -> Attribute:
            if name in self.hierarchies:
                tree, (numbers, null) = self.hierarchies[name], self.places(name)
                codes = np.where(null, tree.leaves, numbers - 1).astype(np.min_scalar_type(tree.leaves))
                return tree.attribute(name, codes, weight)
            if suppress:
                from duckanon.engines.kanon.hierarchy import suppressed

                attribute = self._attribute(name, True, weight)
                return (
                    suppressed(attribute.distinct).attribute(name, attribute.codes, weight)
                    if attribute.distinct
                    else attribute
                )
            if name in banded:
                return banded_attribute(name, *self.places(name), weight)
            return self._attribute(name, fold(name) in categorical, weight)

        return spread(attribute_of, zip(names, weights, strict=True), threads)

    def sensitive(self, names: Sequence[str], threads: int, *, null_is_value: bool) -> list[Sensitive]:
        """Sensitive columns as the engine takes them."""

        def sensitive_column(name: str) -> Sensitive:
            kind = self._kinds[name]
            return sensitive(self._attribute(name, not is_ordered(kind), 1.0), kind, null_is_value=null_is_value)

        return spread(sensitive_column, names, threads)

    def places(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """A column of whole numbers, and where it is NULL, in the order of the rows' numbers."""
        n = sum(len(part.rows) for part in self._parts)
        numbers, null = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        for part in self._parts:
            column = part.columns[name]
            numbers[part.rows] = np.append(column.values.to_numpy().astype(np.int64), 0)[column.codes]
            null[part.rows] = column.codes == len(column.values)
        return numbers, null

    def values(self, name: str) -> npt.NDArray[np.int32]:
        """A column as a number for each distinct value, NULL the last, in the order of the rows' numbers."""
        return self._attribute(name, True, 1.0).codes.astype(np.int32, copy=False)

    def units(self, name: str) -> npt.NDArray[np.int32]:
        """The unit of each row as a number for each distinct value, -1 for NULL, in the order of the rows' numbers."""
        return null_apart(self._attribute(name, True, 1.0))

    def _attribute(self, name: str, categorical: bool, weight: float) -> Attribute:
        chunks = [part.columns[name] for part in self._parts]
        joined = join(
            name,
            self._kinds[name],
            [part_column.values for part_column in chunks],
            categorical=categorical,
            weight=weight,
        )
        n = sum(len(part_column.codes) for part_column in chunks)
        codes = np.empty(n, np.min_scalar_type(joined.attribute.distinct))
        for part, part_column, ranks in zip(self._parts, chunks, joined.ranks, strict=True):
            codes[part.rows] = ranks[part_column.codes]
        return replace(joined.attribute, codes=codes)

    def let_go(self) -> None:
        """Forget what was handed over: nothing more is asked of it."""
        self._parts = []

    def answer(self, labels: Labels) -> None:
        """Let go of what was handed over, and keep the rows' labels, shape (n,), in the order of their numbers."""
        self.let_go()
        self._labels = labels

    def labels(self, rows: npt.NDArray[np.int64]) -> Labels:
        """The labels of rows by their numbers."""
        with self._lock:
            self._asked += len(rows)
        labels: Labels = self._labels[rows - 1]
        return labels

    def is_spent(self, scans: int) -> bool:
        """Whether so many scans of all rows, in any order or side by side, have asked for their labels."""
        return self._asked >= scans * len(self._labels)


def _whole(parts: Sequence[Any]) -> pa.Array:
    """Arrays, chunked or not, as one."""
    flat = [piece for part in parts for piece in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return flat[0] if len(flat) == 1 else pa.concat_arrays(flat)


class Collections:
    """The collections of the statements that run, by handle."""

    def __init__(self) -> None:
        self._lock, self._handles, self._held = Lock(), count(1), dict[int, Collection]()

    def open(self, hierarchies: Mapping[str, Hierarchy] | None = None) -> int:
        """The handle of a new collection. hierarchies: of its columns that hold leaves."""
        now = monotonic()
        with self._lock:
            for old in [handle for handle, collection in self._held.items() if now - collection.touched > _FORGOTTEN]:
                del self._held[old]
            handle = next(self._handles)
            self._held[handle] = Collection(hierarchies or {})
        return handle

    def __getitem__(self, handle: int) -> Collection:
        """Raises DuckanonError if it was forgotten."""
        collection = self._held.get(handle)
        if collection is None:
            raise DuckanonError("This statement stood still for more than an hour: run it again.")
        collection.touched = monotonic()
        return collection

    def drop(self, handle: int) -> None:
        """Forget a collection."""
        self._held.pop(handle, None)

    @contextmanager
    def work(self, handle: int) -> Iterator[Collection]:
        """A collection that holds all rows now. It is not forgotten meanwhile, but dropped if the work fails."""
        collection = self[handle]
        collection.touched = math.inf
        try:
            collection.close()
            yield collection
        except BaseException:
            self.drop(handle)
            raise
        collection.touched = monotonic()


# Those of all statements of this process: functions of an instance are shared by its connections.
COLLECTIONS = Collections()


def collected(opened: str, columns: Iterable[str], instead: Mapping[str, str] | None = None) -> str:
    """SQL: hand over some columns of `_dk_rows`, and return the handle of the collection; an aggregate over the rows.

    opened: the call that opens it, of `records`; it returns a handle or a problem. instead: SQL of what is handed over
    in place of some columns, by name.
    """
    handle = (
        f"(SELECT answer.handle FROM (SELECT {opened} AS answer FROM "
        "(SELECT system.main.count(*) AS records FROM _dk_rows)) WHERE system.main.error(answer.problem) IS NULL)"
    )
    fields = {name: f"{ROW}.{identifier(name)}" for name in columns} | dict(instead or {})
    return f"system.main.max(system.main._dk_collect({handle}, {NUMBER}, {CONTENT}, {struct(fields)}))"


def register_collection(on: Instance) -> None:
    """Register what a query calls with its rows: `_dk_collect`, and `_dk_label` for the label of each.

    _dk_collect(handle, row, content, columns) returns the handle. _dk_label(handle, row, scans) returns the row's
    label; a collection that so many scans have asked for all labels is dropped.
    """

    def collect(handles: Any, rows: Any, content: Any, columns: Any) -> Any:
        COLLECTIONS[handles[0].as_py()].add(rows, content, columns)
        return pa.array(np.full(len(rows), handles[0].as_py()))

    def label(handles: Any, rows: Any, scans: Any) -> pa.Array:
        handle = handles[0].as_py()
        collection = COLLECTIONS[handle]
        labels = collection.labels(_whole([rows]).to_numpy())
        if collection.is_spent(scans[0].as_py()):
            COLLECTIONS.drop(handle)
        return pa.array(labels)

    on.create("_dk_collect", collect, "BIGINT", side_effects=True)
    on.create("_dk_label", label, "INTEGER", side_effects=True)
