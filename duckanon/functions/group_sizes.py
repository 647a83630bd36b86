"""group_sizes and dp_group_sizes: from a call to the query that counts, and for the second the call that releases."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from duckanon.accounting import epsilon, rational, written
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.dp_group_sizes import Call, Once, check_cells, releaser
from duckanon.functions.group_counts import Counted, query
from duckanon.functions.schema import Table, is_integer, is_number
from duckanon.functions.sqltext import fill, literal
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer

_RELEASED = "STRUCT(level BIGINT, region BIGINT, groups BIGINT[], low BIGINT[], high BIGINT[])[]"


def register(on: Instance, once: Once) -> None:
    """Put the functions behind group_sizes and dp_group_sizes on a database instance.

    once: what charges for a release and remembers it.
    """
    register_writer(on, "_dk_write_group_sizes", _write_exact)
    register_writer(on, "_dk_write_dp_group_sizes", _write_private)
    register_check(on, "_dk_groups_problem", _check)
    register_check(on, "_dk_regions_problem", _check_regions)
    register_engine(on, "_dk_dp_group_sizes", releaser(once), "regions", _RELEASED)


# --- from a call to a query -------------------------------------------------------------------------------------------


def _write_exact(tbl: object, unit: object, hierarchy: object, quantity: object) -> str:
    table, groups, levels = _roles(tbl, unit, hierarchy)
    summed = _named(quantity, "quantity", [groups, *levels])
    places = [f"r{i}" for i in range(len(levels) + 1)]
    counted = Counted(table, groups, levels, summed)
    result = fill(
        "group_sizes",
        levels=str(list(range(len(places)))),
        places=f"[{', '.join(places)}]",
        leaf=places[-1],
        released=counted.own_names,
    )
    return query(counted, shown="TRY_CAST(size AS BIGINT)", result=result, columns=["level", "size", "groups"])


def _write_private(
    tbl: object,
    unit: object,
    hierarchy: object,
    budget: object,
    max_size: object,
    mechanism: object,
    totals: object,
    quantity: object,
    bound: object,
    regions: object,
    split: object,
    person: object,
    intervals: object,
) -> str:
    table, groups, levels = _roles(tbl, unit, hierarchy)
    summed = _named(quantity, "quantity", [groups, *levels])
    known = _named(person, "person", [groups, *levels, *([summed] if summed else [])])
    listed = None if regions is None else arguments.text(regions, "regions")
    if listed is not None and not levels:
        raise InvalidInput("regions is given without a hierarchy: name its columns, as in hierarchy := ['state'].")
    call = Call(
        table=table,
        unit=groups,
        hierarchy=tuple(levels),
        epsilon=written(epsilon(budget)),
        max_size=_max_size(max_size),
        mechanism=arguments.text(mechanism, "mechanism"),
        totals=arguments.text(totals, "totals"),
        quantity=summed,
        bound=_bound(bound, summed),
        regions=listed,
        split=_split(split, len(levels) + 1),
        person=known,
        intervals=arguments.text(intervals, "intervals"),
    )
    # Not before: DuckDB 1.4 tries a writer with made-up arguments, and the engine takes its time to load.
    from duckanon.engines.groups.release import check

    check(depth=len(levels) + 1, **call.engine)
    counted = Counted(table, groups, levels, summed, call.bound, listed, known)
    ranks = ", ".join(f"r{i}" for i in range(len(levels) + 1))
    result = fill(
        "dp_group_sizes",
        call=literal(call.dump()),
        ranks=f"[{ranks}]",
        region=", ".join([*counted.keys, ranks]),
        table=literal(table),
        first=str(call.first),
        released=counted.own_names,
    )
    shown = f"TRY_CAST(system.main.least(size, {call.max_size}) AS BIGINT)"
    return query(counted, shown=shown, result=result, columns=["level", "size", "groups", "low", "high"])


def _roles(tbl: object, unit: object, hierarchy: object) -> tuple[str, str, list[str]]:
    table = arguments.table(tbl)
    if not isinstance(unit, str) or not unit:
        raise InvalidInput("unit must be the name of the column that tells groups apart, as in 'household_id'.")
    levels = arguments.names(hierarchy, "hierarchy", empty=True)
    for name in levels:
        if name.lower() == unit.lower():
            raise InvalidInput(f'Column "{name}" is both unit and in hierarchy: name it in one of them.')
    return table, unit, levels


def _named(given: object, argument: str, taken: Sequence[str]) -> str | None:
    """The name of a column that no other argument names."""
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise InvalidInput(f"{argument} must be the name of a column, in quotes.")
    if given.lower() in {name.lower() for name in taken}:
        raise InvalidInput(f'Column "{given}" is {argument} and something else too: name it once.')
    return given


def _max_size(given: object) -> int:
    most = arguments.whole(given, "max_size")
    if most < 1:
        raise InvalidInput("max_size must be 1 or more: larger groups are counted as groups of that size.")
    check_cells(most)
    return most


def _bound(given: object, quantity: str | None) -> int | None:
    if quantity is None:
        if given is not None:
            raise InvalidInput("bound is given without a quantity: it says how much one person may add to a quantity.")
        return None
    if given is None:
        raise InvalidInput("quantity needs a bound: the most that one person may add to it, as in bound := 1.")
    most = arguments.whole(given, "bound")
    if not 1 <= most <= 10**9:
        raise InvalidInput("bound must be 1 or more, and at most 10^9.")
    return most


def _split(given: object, levels: int) -> tuple[str, ...] | None:
    """Shares of epsilon that add up to one, exact, from positive numbers in their proportion."""
    if given is None:
        return None
    numbers = [rational(one) for one in given] if isinstance(given, list) else []
    if len(numbers) != levels or any(one is None or one <= 0 for one in numbers):
        raise InvalidInput(
            f"split must give a number above zero for each of the {levels} levels, the root first, "
            f"as in split := {[1] * levels}."
        )
    shares = [one or Fraction(0) for one in numbers]
    return tuple(str(share / sum(shares)) for share in shares)


# --- checks that need the table's columns -----------------------------------------------------------------------------


def _check(
    names: list[str],
    types: list[str],
    table: str,
    wanted: list[str],
    quantity: list[str],
    levels: list[str],
    released: list[str],
) -> None:
    found = Table(table, names, types)
    found.has(wanted)
    for name in quantity:
        if not is_integer(found.kind(name)):
            raise InvalidInput(f'Column "{name}" is no whole number and cannot be quantity: cast it to INTEGER.')
    for name in levels:
        if name.lower() in released:
            raise InvalidInput(f'The result would have two columns "{name}": rename the column of the table.')


def _check_regions(
    names: list[str], types: list[str], regions: str, levels: list[str], theirs: dict[str, list[str]], table: str
) -> None:
    found, persons = Table(regions, names, types), Table(table, theirs["names"], theirs["types"])
    found.has(levels)
    for name in levels:
        if not persons.holds(name):
            # The check of the table of persons says so.
            continue
        ours, other = found.kind(name), persons.kind(name)
        if ours != other and not (is_number(ours) and is_number(other)):
            raise InvalidInput(f'Column "{name}" has one type in {table} and another in {regions}: cast one of them.')
