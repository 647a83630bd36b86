"""k_utility: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions import hierarchies, released_labels
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.encoding import is_text as is_string
from duckanon.functions.encoding import joined
from duckanon.functions.hierarchies import Labels
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_number, is_text
from duckanon.functions.sqltext import MEMORY, ROW, absent, bytes_of, call, check, fill, hashed, struct
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.kanon.fidelity.cells import Categories, Numbers
    from duckanon.engines.kanon.hierarchy import Hierarchy

Floats = npt.NDArray[np.float64]
_COLUMNS = columns_of("k_utility")
# What stands for a column in a release, by the names' ends; the column's own name comes last.
_ENDS = ("lo", "hi", "set", "label", "own")
# Bytes of a cell while it is handed over, as a list, in Arrow and in NumPy.
_BYTES = 120
_DAY = 86_400.0


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_utility on a database instance."""
    on.function(KUtility)
    register_check(on, "k_utility", _check, KUtility)
    kind = f"{row_type(_COLUMNS)}[]"
    register_engine(on, "_dk_k_utility", partial(_utility, host.progress), "rows", kind, KUtility)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KUtility(Request):
    """A call of k_utility. columns: with the target among them, if there is one. labels: their hierarchies."""

    function = "k_utility"
    before: str
    after: str
    columns: tuple[str, ...]
    bands: tuple[str, ...]
    labels: tuple[Labels, ...]
    target: str | None
    queries: int

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        columns, target = checked["columns"], checked["target"]
        known = {fold(name) for name in columns}
        for name in checked["bands"]:
            if fold(name) not in known:
                raise InvalidInput(
                    f'Column "{name}" is in bands but not in columns: add it to columns, or take it out of bands.'
                )
        if target is not None and fold(target) not in known:
            checked["columns"] = (*columns, target)
        labels = hierarchies.read(checked.pop("hierarchies"), checked["columns"], checked["bands"], among="columns")
        return cls(**checked, labels=labels)

    def tree_of(self, name: str) -> Labels | None:
        """The hierarchy of a column, if it has one."""
        return next((label for label in self.labels if fold(label.name) == fold(name)), None)

    def query(self) -> str:
        own = {f"own{i}": name for i, name in enumerate(self.columns)}
        released = {f"{end}{i}": named for i, name in enumerate(self.columns) for end, named in _released(name).items()}
        return fill(
            "k_utility",
            before=literal(self.before),
            after=literal(self.after),
            problem=check(
                "k_utility",
                self.literal,
                after_names="after_names",
                after_types="after_types",
                rows=f"[{_rows(self.before)}, {_rows(self.after)}]",
                memory=MEMORY,
            ),
            before_values=_fields(own, {f"own{i}" for i, name in enumerate(self.columns) if self.tree_of(name)}),
            after_values=_fields(released),
            before_columns=", ".join(_columns(own)),
            before_hash=hashed(_columns(own)),
            after_columns=", ".join(_columns(released)),
            after_hash=hashed(_columns(released)),
            before_absent=absent(own.values(), own=False),
            after_absent=absent(released.values(), own=False),
            answer=call(
                "_dk_k_utility",
                request=self.literal,
                before=_packed("_dk_before"),
                after=_packed("_dk_after"),
                names="after_names",
                types="after_types",
                trees=struct({label.name: label.rows for label in self.labels}) if self.labels else "NULL",
            ),
            trees="".join(label.defined for label in self.labels),
        )


def _released(name: str) -> dict[str, str]:
    """The columns that may stand for a column in a release."""
    return {end: name if end == "own" else f"{name}_{end}" for end in _ENDS}


def _fields(columns: Mapping[str, str], as_text: Container[str] = ()) -> str:
    """SQL: the fields of a struct, by our names. as_text: those whose values are handed over as texts."""
    fields = {key: f"{ROW}.{identifier(name)}" for key, name in columns.items()}
    return ", ".join(
        f"{literal(key)}: CAST({column} AS VARCHAR)" if key in as_text else f"{literal(key)}: {column}"
        for key, column in fields.items()
    )


def _columns(columns: Mapping[str, str]) -> list[str]:
    """Columns of a row as SQL, each once."""
    return [f"{ROW}.{identifier(name)}" for name in dict.fromkeys(columns.values())]


def _packed(source: str) -> str:
    """SQL: the rows of `source` as one list."""
    return f'(SELECT system.main.list("duckanon.cells") FROM {source})'


def _rows(table: str) -> str:
    """SQL: the number of rows of a table."""
    return f"(SELECT system.main.count(*) FROM system.main.query_table({literal(table)}))"


def _check(
    request: KUtility,
    names: list[str],
    types: list[str],
    after_names: list[str],
    after_types: list[str],
    rows: list[int],
    memory: str,
) -> None:
    table, release = Table(request.before, names, types), Table(request.after, after_names, after_types)
    table.has(request.columns)
    table.plain(request.columns, "column to compare")
    for name in request.columns:
        kind = table.kind(name)
        form = _form(release, name, request.tree_of(name))
        if form is None:
            raise InvalidInput(
                f'Nothing in {request.after} stands for column "{name}": it has neither "{name}" nor "{name}_lo" and '
                f'"{name}_hi" nor "{name}_set" nor "{name}_label". Leave the column out of columns.'
            )
        if form == ("label",):
            _check_label(request, release, name, kind)
            continue
        for end in form:
            expected, other = kind + ("[]" if end == "set" else ""), release.kind(_released(name)[end])
            if not _alike(expected, other) or (len(form) == 2 and is_text(kind)):
                raise InvalidInput(
                    f'Column "{_released(name)[end]}" of {request.after} has not the type that a release of column '
                    f'"{name}" has: cast it.'
                )
    for name in request.bands:
        if _form(release, name, None) not in (("lo", "hi"), ("label",)) or not _is_banded(table.kind(name)):
            raise InvalidInput(f'Column "{name}" has no bands in {request.after}: take it out of bands.')
    needed, limit = len(request.columns) * (rows[0] + 2 * rows[1]) * _BYTES, bytes_of(memory)
    if needed > limit:
        raise InvalidInput(
            f"k_utility would need about {needed / 2**20:,.0f} MiB beside DuckDB, more than memory_limit "
            f"({limit / 2**20:,.0f} MiB): raise memory_limit, or name fewer columns."
        )


def _check_label(request: KUtility, release: Table, name: str, kind: str) -> None:
    """Check that it is known what the labels of a column stand for."""
    label = f"{name}_label"
    if not release.holds(label):
        raise InvalidInput(f'Column "{name}" has no labels in {request.after}: take it out of hierarchies.')
    if not is_text(release.kind(label)):
        raise InvalidInput(f'Column "{label}" of {request.after} holds no labels, which are text: cast it to VARCHAR.')
    banded = fold(name) in {fold(band) for band in request.bands} and _is_banded(kind)
    if request.tree_of(name) is None and not banded:
        raise InvalidInput(
            f'Column "{name}" is released as labels: name it in hierarchies, as in the call of k_anonymize, or in '
            "bands if they are labels of bands, or leave it out of columns."
        )


def _form(release: Table, name: str, tree: Labels | None) -> tuple[str, ...] | None:
    """How a column stands in a release: the ends of its columns' names; None if it does not. tree: of its labels."""
    ends = _released(name)
    if tree is not None:
        return ("label",)
    for form in (("lo", "hi"), ("set",), ("label",), ("own",)):
        if all(release.holds(ends[end]) for end in form):
            return form
    return None


def _is_banded(kind: str) -> bool:
    """Whether values of the type are numbers, dates or times, which may be released in bands."""
    return is_number(kind) or kind.startswith(("DATE", "TIME"))


def _alike(kind: str, other: str) -> bool:
    """Whether values of both types can be compared: the same type, numbers, or texts and ENUMs."""
    if kind == other:
        return True
    if kind.endswith("[]") != other.endswith("[]"):
        return False
    kind, other = kind.removesuffix("[]"), other.removesuffix("[]")
    words = [sql_type.startswith(("VARCHAR", "ENUM")) for sql_type in (kind, other)]
    return all(words) or (is_number(kind) and is_number(other))


# --- the engine's call ------------------------------------------------------------------------------------------------


def _utility(
    progress: Progress,
    request: KUtility,
    before: pa.Scalar,
    after: pa.Scalar,
    names: pa.Scalar,
    types: pa.Scalar,
    trees: pa.Scalar,
) -> pa.Array:
    from duckanon.engines.kanon.fidelity.cells import Cells
    from duckanon.engines.kanon.fidelity.measures import Compared, measures
    from duckanon.engines.kanon.hierarchy import hierarchy

    if not before.is_valid or not after.is_valid:
        raise InvalidInput("One of the tables has no rows: there is nothing to compare.")
    release = Table(request.after, names.as_py(), types.as_py())
    own_cells, other = before.values, after.values
    pairs, writers = [], []
    in_bands = {fold(name) for name in request.bands}
    levels = trees.as_py() or {}
    for i, name in enumerate(request.columns):
        tree = request.tree_of(name)
        form = _form(release, name, tree) or ()
        held = [other.field(f"{end}{i}") for end in form]
        if tree is not None:
            pair, write = _labelled(name, hierarchy(name, levels[tree.name] or []), own_cells.field(f"own{i}"), held[0])
        elif form == ("label",):
            pair, write = _band_labels(name, own_cells.field(f"own{i}"), held[0])
        elif fold(name) in in_bands:
            pair, write = _banded(name, own_cells.field(f"own{i}"), *held)
        else:
            pair, write = _column(name, own_cells.field(f"own{i}"), held, form == ("set",))
        pairs.append(pair)
        writers.append(write)
    tables = [
        Cells(columns, cells.field("duckanon.records").to_numpy().astype(np.float64)).canonical()
        for columns, cells in zip(zip(*pairs, strict=True), (own_cells, other), strict=True)
    ]
    compared = Compared(tables[0], tables[1], request.columns, writers)
    measured = list(measures(compared, request.queries, partial(progress, "k_utility")))
    if request.target is not None:
        from duckanon.engines.kanon.fidelity.prediction import predictions

        places = {fold(name): i for i, name in enumerate(request.columns)}
        measured += predictions(compared, places[fold(request.target)])
    return rows(map(asdict, measured), _COLUMNS)


_Pair = tuple["Numbers | Categories", "Numbers | Categories"]
_Write = Callable[[float], str]


def _column(name: str, own: pa.Array, cells: Sequence[pa.Array], is_set: bool) -> tuple[_Pair, _Write]:
    """A column of the table and of its release, and how its numbers are written."""
    from duckanon.engines.kanon.fidelity.cells import Categories, Numbers

    kind = own.type
    if not is_set and not is_string(kind) and not pa.types.is_dictionary(kind) and not pa.types.is_boolean(kind):
        whole = pa.types.is_integer(kind) or pa.types.is_date(kind)
        numbers, low, high = (_floats(name, column) for column in (own, cells[0], cells[-1]))
        return (Numbers.of(numbers, numbers, whole=whole), Numbers.of(low, high, whole=whole)), _writer(kind)
    held = [cell.flatten() if is_set else cell for cell in cells]
    names, (codes, *ends) = _coded([own, *held])
    before = Categories.single(codes, names)
    if is_set:
        sizes = pc.list_value_length(cells[0]).fill_null(0).to_numpy()
        return (before, Categories.of(ends[0], np.append(0, np.cumsum(sizes)), names)), str
    if len(ends) == 1:
        return (before, Categories.single(ends[0], names)), str
    # An interval of an ENUM: every value from one end to the other.
    sizes = np.where(ends[0] < 0, 0, ends[1] - ends[0] + 1)
    starts = np.append(0, np.cumsum(sizes))
    members = np.repeat(ends[0] - starts[:-1], sizes) + np.arange(starts[-1])
    return (before, Categories.of(members, starts, names)), str


def _banded(name: str, own: pa.Array, low: pa.Array, high: pa.Array) -> tuple[_Pair, _Write]:
    """A column of which the release has the ends of bands. Where both are open, nothing is shown."""
    starts, ends = (_floats(name, end) for end in (low, high))
    return _open_bands(name, own, starts, ends, np.isnan(starts) & np.isnan(ends))


def _band_labels(name: str, own: pa.Array, labels: pa.Array) -> tuple[_Pair, _Write]:
    """A column of which the release has labels of bands, as '[30, 40)'. All values are under '*'."""
    kind = pa.date32() if pa.types.is_timestamp(own.type) else own.type
    kind = pa.float64() if pa.types.is_integer(kind) or pa.types.is_decimal(kind) else kind
    sides, missing = released_labels.band_ends(name, labels, kind)
    starts, ends = (_floats(name, side) for side in sides)
    return _open_bands(name, own, starts, ends, missing)


def _labelled(name: str, tree: Hierarchy, own: pa.Array, labels: pa.Array) -> tuple[_Pair, _Write]:
    """A column of which the release has labels of a hierarchy: all leaves below a label are equally likely."""
    from duckanon.engines.kanon.fidelity.cells import Categories

    before = Categories.single(released_labels.leaves(name, tree, own), tree.names)
    spans, index = np.unique(released_labels.below(name, tree, labels), axis=0, return_inverse=True)
    members = [np.arange(first, last + 1) if first >= 0 else np.zeros(0, np.int64) for first, last in spans.tolist()]
    starts = np.append(0, np.cumsum([len(member) for member in members]))
    after = Categories.of(np.concatenate(members), starts, tree.names)
    return (before, replace(after, index=after.index[index.ravel()])), str


def _open_bands(
    name: str, own: pa.Array, starts: Floats, ends: Floats, missing: npt.NDArray[np.bool_]
) -> tuple[_Pair, _Write]:
    """A column of which the release has bands. An open end, NaN, is the table's least or greatest value."""
    from duckanon.engines.kanon.fidelity.cells import Numbers

    kind = own.type
    whole = pa.types.is_integer(kind) or pa.types.is_date(kind)
    numbers = _floats(name, own)
    if not np.isnan(numbers).all():
        starts = np.where(np.isnan(starts) & ~missing, np.fmin(np.nanmin(numbers), ends - whole), starts)
        ends = np.where(np.isnan(ends) & ~missing, np.maximum(np.nanmax(numbers), starts) + whole, ends)
    pair = Numbers.of(numbers, numbers, whole=whole), Numbers.of(starts, ends - whole, whole=whole)
    return pair, _writer(kind)


def _floats(name: str, column: pa.Array) -> Floats:
    """Numbers as floats, dates and times in days and seconds, NULL as NaN. Raises InvalidInput for infinity and NaN."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("us")).cast(pa.int64())
    numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
    if not np.isfinite(numbers[column.is_valid().to_numpy(zero_copy_only=False)]).all():
        raise InvalidInput(f'Column "{name}" holds NaN or infinity: replace them by NULL, or leave those rows out.')
    if pa.types.is_timestamp(kind):
        return np.asarray(numbers / (1e6 * _DAY))
    return np.asarray(numbers / 1e6) if pa.types.is_time(kind) else numbers


def _writer(kind: pa.DataType) -> _Write:
    """How numbers of a type are written."""
    if pa.types.is_date(kind):
        return lambda days: str(date(1970, 1, 1) + timedelta(days=round(days)))
    if pa.types.is_timestamp(kind):
        return lambda days: str(datetime(1970, 1, 1) + timedelta(seconds=round(days * _DAY)))
    if pa.types.is_time(kind):
        return lambda seconds: str((datetime(1970, 1, 1) + timedelta(seconds=round(seconds))).time())
    return lambda number: f"{number:.15g}"


def _coded(parts: Sequence[pa.Array]) -> tuple[list[str], list[npt.NDArray[np.int64]]]:
    """Names of the values of several columns, in order, and each column's values as numbers of names, -1 for NULL."""
    order: list[str] = []
    if pa.types.is_dictionary(parts[0].type):
        order = parts[0].dictionary.cast(pa.string()).to_pylist()
    plain = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    kind = pa.string() if pa.types.is_boolean(plain[0].type) else plain[0].type
    whole = joined([part.cast(kind) for part in plain])
    distinct = pc.unique(whole).drop_null()
    ordered = distinct.take(pc.sort_indices(distinct))
    names = ordered.cast(pa.string()).to_pylist()
    rank = {name: i for i, name in enumerate(dict.fromkeys([*order, *names]))}
    place = np.append(np.array([rank[name] for name in names], np.int64), -1)
    codes = place[pc.index_in(whole, value_set=ordered).fill_null(len(ordered)).to_numpy(zero_copy_only=False)]
    return list(rank), np.split(codes, np.cumsum([len(part) for part in parts])[:-1])
