"""k_anonymize(..., within := 'earlier_release'): a coarser release, made of the classes of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.k_release import ROW, Cell, absent, structs, write
from duckanon.functions.privacy_criteria import Demanded, columns, conditions
from duckanon.functions.schema import RESERVED, Table
from duckanon.functions.sqltext import identifier, literal, literals
from duckanon.functions.udf import Instance, register_check, register_engine

_CLASS = "class_id"


def register(on: Instance, classes: str) -> None:
    """Put the functions behind coarser releases on a database instance. classes: the type of their answer."""
    register_check(on, "_dk_k_within_problem", _check)
    register_engine(on, "_dk_k_coarser", _coarser, "classes", classes)


def write_coarser(
    table: str,
    qi: Sequence[str],
    k: int,
    weights: Sequence[float],
    sets: Sequence[str],
    dropped: Sequence[str],
    demanded: Demanded,
    within: object,
) -> str:
    """The query of a release that joins the classes of `within`."""
    earlier = arguments.optional_table(within, "within") or ""
    named = {name.lower() for name in sets}
    cells = [Cell.over(name, categorical=name.lower() in named) for name in qi]
    replaced = [name for cell in cells for name in cell.names]
    table_columns = f"(SELECT {{}} FROM (DESCRIBE FROM system.main.query_table({literal(table)})))"  # names, then types
    described = [table_columns.format(f"system.main.list({part})") for part in ("column_name", "column_type")]
    return write(
        earlier,
        cells,
        k,
        demanded,
        dropped=[*dropped, _CLASS],
        replaced=replaced,
        suppressed=(
            f"records + (SELECT {demanded.allowed('system.main.count(*)')} - system.main.count(*) "
            f"FROM system.main.query_table({literal(table)}))"
        ),
        problem=(
            f"system.main._dk_k_within_problem(names, types, {literal(earlier)}, {', '.join(described)}, "
            f"{literal(table)}, {literals(qi)}, {literals(sets)}, {literals(dropped)}, {literals(demanded.sensitive)})"
        ),
        classes=(
            f"system.main._dk_k_coarser({structs(replaced)}, (SELECT {structs(qi)} FROM (FROM (SELECT * EXCLUDE "
            f"({identifier(RESERVED)}) FROM (FROM system.main.query_table({literal(table)}) UNION ALL BY NAME "
            f"SELECT {absent(qi)} WHERE false))) AS {ROW}), {literal(earlier)}, {k}, {list(weights)}, "
            f"{literals(sets)}, {structs(demanded.sensitive)}, {demanded.literal()}, "
            "system.main.current_setting('threads'))"
        ),
    )


def _check(
    names: list[str],
    types: list[str],
    earlier: str,
    table_names: list[str],
    table_types: list[str],
    table: str,
    qi: list[str],
    categorical: list[str],
    drop: list[str],
    sensitive: list[str],
) -> None:
    found, release = Table(table, table_names, table_types), Table(earlier, names, types)
    found.has(qi)
    found.plain(qi, "quasi-identifier")
    found.ordered(qi, categorical)
    sets = {name.lower() for name in categorical}
    for name in qi:
        ends = Cell.of(name, categorical=name.lower() in sets).names
        release.has(ends)
        wanted = found.kind(name) + ("[]" if len(ends) == 1 else "")
        if any(release.kind(end) != wanted for end in ends):
            raise InvalidInput(
                f'Column "{ends[0]}" of {earlier} has not the type that a release of column "{name}" has: cast it.'
            )
    release.has([*drop, *sensitive])
    release.plain(sensitive, "sensitive column")
    _nothing_finer(found, release, qi, drop)


def _nothing_finer(found: Table, release: Table, qi: Sequence[str], drop: Sequence[str]) -> None:
    """Check that no released cells are left that the coarser release would give out as they are."""
    named, gone = {name.lower() for name in qi}, {name.lower() for name in drop}
    for name in found.names:
        left = [end for end in (f"{name}_lo", f"{name}_hi", f"{name}_set") if release.holds(end)]
        if name.lower() in named or release.holds(name) or all(end.lower() in gone for end in left):
            continue
        raise InvalidInput(
            f'Column "{name}" is generalised in {release.name}: name it in qi, or what stands for it in drop.'
        )


def _coarser(
    rows: pa.Scalar,
    table: pa.Scalar,
    earlier: pa.Scalar,
    k: pa.Scalar,
    weights: pa.Scalar,
    categorical: pa.Scalar,
    sensitive: pa.Scalar,
    demanded: pa.Scalar,
    threads: pa.Scalar,
) -> pa.Array:
    from duckanon.engines.kanon.anonymize import check_k
    from duckanon.engines.kanon.coarsening import coarser, is_release
    from duckanon.engines.kanon.records import records
    from duckanon.functions.labels import answer

    check_k(k.as_py(), len(rows.values) if rows.is_valid else 0)
    sets = {name.lower() for name in categorical.as_py()}
    workers = max(1, int(threads.as_py()))
    wanted = conditions(k.as_py(), demanded)
    cells, several, place = rows.values, table.values if table.is_valid else None, 0
    released, together = [], []
    for i, weight in enumerate(map(float, weights.as_py())):
        if several is None:
            break
        name, values = several.type.field(i).name, several.field(i)
        width = 1 if name.lower() in sets else 2
        mine = [cells.field(place + j) for j in range(width)]
        place += width
        released.append(_cell(name, mine, None, weight))
        together.append(_cell(name, mine, values, weight))
    if several is None or not is_release(together, workers):
        raise InvalidInput(
            f"{earlier.as_py()} is no release of this table: it can have no more rows, and each record must lie in one "
            "of its classes, but for those that it dropped. Give the table that it was made from."
        )
    # What was dropped stays dropped: rows come from the earlier release alone.
    left = int(wanted.suppress * len(several)) - (len(several) - len(cells))
    if left < 0:
        raise InvalidInput(
            f"{earlier.as_py()} lacks more records of this table than max_suppression allows. If it dropped them, "
            "allow for them, as in max_suppression := 0.02: they stay dropped."
        )
    whole = records(cell.attribute for cell in released)
    hidden = columns(sensitive.values) if sensitive.is_valid else []
    wanted = replace(wanted, suppress=Fraction(left, len(cells)))
    return answer(coarser(released, whole, hidden, wanted, workers))


def _cell(name: str, cells: list[pa.Array], values: pa.Array | None, weight: float) -> Any:
    """The released cells of one quasi-identifier by the codes of its values; with the table's own, if given."""
    from duckanon.engines.kanon.coarsening import Cells
    from duckanon.functions.encoding import encode

    n = len(cells[0])
    more = [] if values is None else [values]
    if len(cells) == 2:
        coded = encode(name, _joined([*cells, *more]), categorical=False, weight=weight)
        low, high, own = np.split(coded.codes, [n, 2 * n])
        return Cells(replace(coded, codes=low[:0]), low, high, None, own)
    inside, count = cells[0].flatten(), pc.list_value_length(cells[0]).fill_null(0).to_numpy()
    coded = encode(name, _joined([inside, *more]), categorical=True, weight=weight)
    held, own = np.split(coded.codes, [len(inside)])
    return Cells(replace(coded, codes=held[:0]), held, held, np.append(0, np.cumsum(count)), own)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """The arrays one after another; those of an ENUM may each have a dictionary of their own."""
    found = pa.chunked_array(parts, parts[0].type)
    if pa.types.is_dictionary(found.type):
        found = found.unify_dictionaries()
    return found.combine_chunks()
