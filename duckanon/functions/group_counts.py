"""The query that counts groups by region and size, or raises why a table cannot be counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_integer, is_number
from duckanon.functions.sqltext import absent, check, fill, literals, renamed

# What may be wrong with a group, the worst last.
_TOO_MUCH, _TOO_LARGE, _TOO_LITTLE, _NO_QUANTITY, _TWO_REGIONS, _NO_REGION, _NO_UNIT = range(1, 8)
_PERSON_TWICE = "system.main.count(*) <> system.main.count(DISTINCT p)"


@dataclass(frozen=True)
class Groups(Request):
    """What is counted: the names of tables and columns that a call gives."""

    tbl: str
    unit: str
    hierarchy: tuple[str, ...]
    quantity: str | None = None
    bound: int | None = None
    regions: str | None = None
    person: str | None = None

    @classmethod
    def roles(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked against each other: a column of the table has one role."""
        checked = cls.checked(arguments)
        named = [fold(checked["unit"])]
        for name in checked["hierarchy"]:
            if fold(name) in named:
                raise InvalidInput(f'Column "{name}" is both unit and in hierarchy: name it in one of them.')
        named += map(fold, checked["hierarchy"])
        for argument in ("quantity", "person"):
            name = checked.get(argument)
            if argument == "person" and name is not None and fold(name) == named[0]:
                continue  # the group itself is whose records are protected
            if name is not None and fold(name) in named:
                raise InvalidInput(f'Column "{name}" is {argument} and something else too: name it once.')
            named += [fold(name)] if name is not None else []
        return checked

    @property
    def is_whole(self) -> bool:
        """Whether the groups themselves are the units: then each of their records is one of several."""
        return self.person is not None and fold(self.person) == fold(self.unit)

    @property
    def keys(self) -> list[str]:
        """Our names for the columns of the hierarchy."""
        return [f"h{i}" for i in range(1, len(self.hierarchy) + 1)]

    @property
    def as_keys(self) -> str:
        """The columns of the hierarchy, under our names."""
        return renamed(self.hierarchy, self.keys)

    @property
    def own_names(self) -> str:
        """Our columns of the hierarchy under the caller's names, each with a comma."""
        return "".join(f"{key} AS {identifier(name)}, " for key, name in zip(self.keys, self.hierarchy, strict=True))

    @property
    def columns(self) -> list[str]:
        """All columns of the table that the call names."""
        extra = [name for name in (self.quantity, self.person) if name is not None]
        return [self.unit, *self.hierarchy, *extra]


def query(counted: Groups, *, shown: str, result: str, columns: Sequence[str], tallies: str | None = None) -> str:
    """The statement that counts, and then runs `result`.

    shown: the size a group is counted under, from its `size`. columns: those of the result, less the hierarchy's.
    tallies: a table of groups that were counted elsewhere, as `sql/queries/group_tallies.sql` reads it.
    """
    keys = counted.keys
    ranks = [
        f"system.main.dense_rank() OVER (ORDER BY {', '.join(keys[:i])}) - 1 AS r{i}" for i in range(1, len(keys) + 1)
    ]
    tree = {
        "regions": _leaves(counted),
        "ranks": ", ".join(["0 AS r0", *ranks]),
        "leaf": f"r{len(keys)}",
        "place": f"LEFT JOIN _dk_regions USING ({', '.join(keys)})" if keys else "CROSS JOIN _dk_regions",
    }
    if tallies is None:
        groups = fill("group_units", **_units(counted, columns), shown=shown, **tree)
    else:
        numbers = {"no_unit": str(_NO_UNIT), "no_region": str(_NO_REGION)}
        groups = fill("group_tallies", table=literal(tallies), **numbers, **tree)
    return fill(
        "group_counts",
        counted=groups,
        sentence=_sentence(counted, "system.main.bool_or(twice)" if tallies else _PERSON_TWICE),
        named=_every_region(keys),
        result=result,
    )


def _units(counted: Groups, columns: Sequence[str]) -> dict[str, str]:
    """How persons are counted: the parts of group_units.sql about a group."""
    source = [f"{identifier(counted.unit)} AS u", *([counted.as_keys] if counted.keys else [])]
    source += [f"TRY_CAST({identifier(counted.quantity)} AS BIGINT) AS q"] if counted.quantity else []
    source += [f"{identifier(counted.person)} AS p"] if counted.person and not counted.is_whole else []
    return {
        "table": literal(counted.tbl),
        "absent": absent(counted.columns),
        "problem": check("groups", counted.literal, released=literals(columns)),
        "taken": ", ".join(source),
        "size": "system.main.sum(q)" if counted.quantity else "system.main.count(*)",
        "measures": _measures(counted),
        "content": "u, leaf, persons, amounts" if counted.quantity else "u, leaf, persons",
        "flaws": flaws(counted, "leaf < 0", "leaf <> other"),
    }


def flaws(counted: Groups, no_region: str, two_regions: str) -> str:
    """SQL: the worst that is wrong with a group, as a number; 0 if nothing is. The arguments are tests of its regions.

    It is of the unit `u`, its `size`, and with a quantity `amiss`: plain SQL, which Spark reads too.
    """
    return (
        f"CASE WHEN u IS NULL THEN {_NO_UNIT} WHEN {no_region} THEN {_NO_REGION} "
        f"WHEN {two_regions} THEN {_TWO_REGIONS} {'WHEN amiss > 0 THEN amiss' if counted.quantity else ''} "
        f"WHEN size > {2**63 - 1} THEN {_TOO_MUCH} ELSE 0 END"
    )


def amiss(counted: Groups) -> str:
    """SQL: the worst that is wrong with a person's quantity `q`, as a number; plain SQL, which Spark reads too."""
    cases = [(_NO_QUANTITY, "q IS NULL"), (_TOO_LITTLE, "q < 0")]
    cases += [(_TOO_LARGE, f"q > {counted.bound}")] if counted.bound is not None else []
    worst = " ".join(f"WHEN {test} THEN {number}" for number, test in cases)
    return f"CASE {worst} ELSE 0 END"


def _measures(counted: Groups) -> str:
    """More aggregates of a group: what else its content is, and the worst that is wrong with its quantities."""
    measures = "system.main.count(*) AS persons"
    if counted.quantity is None:
        return measures
    return f"{measures}, system.main.sum(system.main.hash(q)) AS amounts, system.main.max({amiss(counted)}) AS amiss"


def _leaves(counted: Groups) -> str:
    """All leaf regions: those of the table of regions, or those that the data has."""
    keys = ", ".join(counted.keys)
    if not keys:
        return "SELECT 1 AS whole"
    if counted.regions is None:
        complete = " AND ".join(f"{key} IS NOT NULL" for key in counted.keys)
        return f"SELECT DISTINCT {keys} FROM _dk_source WHERE {complete}"
    listed = fill(
        "regions",
        table=literal(counted.regions),
        absent=absent(counted.hierarchy, own=False),
        problem=check("regions", counted.literal, theirs="theirs"),
        columns=counted.as_keys,
    )
    return f"SELECT DISTINCT {keys} FROM {listed}"


def _every_region(keys: Sequence[str]) -> str:
    """The regions of all levels. The leaves come first, so that their columns' types are those of the rest."""
    branches = []
    for level in reversed(range(len(keys) + 1)):
        shown = "".join(f", {key if i < level else 'NULL AS ' + key}" for i, key in enumerate(keys))
        branches.append(f"SELECT DISTINCT {level} AS level, r{level} AS region{shown} FROM _dk_regions")
    return " UNION ALL ".join(branches)


def _sentence(counted: Groups, twice: str) -> str:
    """What is wrong with the table, in SQL; NULL if nothing is. No value of the data is in it.

    twice: whether a person is in two rows.
    """
    wrong = [
        (
            f"flaw = {_NO_UNIT}",
            f'Column "{counted.unit}" holds NULL: give every person a group, or leave those rows out.',
        ),
        *_about_regions(counted),
    ]
    if counted.quantity is not None:
        holds = f'Column "{counted.quantity}" holds'
        wrong += [
            (
                f"flaw = {_NO_QUANTITY}",
                f"{holds} NULL, or a number beyond 64 bits: replace it, or leave those rows out.",
            ),
            (f"flaw = {_TOO_LITTLE}", f"{holds} a negative number: a quantity is zero or more."),
            (f"flaw = {_TOO_LARGE}", f"{holds} a number above bound := {counted.bound}: raise the bound, or clip it."),
            (f"flaw = {_TOO_MUCH}", f'Column "{counted.quantity}" adds up to a number beyond 64 bits: scale it down.'),
        ]
    if counted.person is not None and not counted.is_whole:
        wrong.append(
            (
                f"(SELECT {twice} FROM _dk_source)",
                f'Column "{counted.person}" holds NULL, or a person in more than one row: a person is in one group.',
            )
        )
    return "CASE " + " ".join(f"WHEN {test} THEN {literal(sentence)}" for test, sentence in wrong) + " END"


def _about_regions(counted: Groups) -> list[tuple[str, str]]:
    """Tests and sentences: what may be wrong with the hierarchy."""
    where, regions = ", ".join(f'"{name}"' for name in counted.hierarchy), counted.regions
    wrong = []
    if regions is None:
        lost = (
            f"There is NULL in {where}: every branch of the hierarchy must reach its last level. Replace NULL, or "
            "leave those rows out."
        )
    else:
        lost = f"Persons are in a region by {where} that {regions} does not list: list it, or leave those rows out."
        empty = f"{regions} has no rows: list the regions in it."
        wrong.append(("(SELECT system.main.count(*) FROM _dk_regions) = 0", empty))
    wrong.append((f"flaw = {_NO_REGION}", lost))
    for name, key in zip(counted.hierarchy, counted.keys, strict=True):
        if regions is not None:
            test = f"EXISTS (SELECT 1 FROM _dk_regions WHERE {key} IS NULL)"
            wrong.append((test, f'Column "{name}" of {regions} holds NULL: every region needs a name.'))
    for i in range(1, len(counted.hierarchy)):
        key, upper = counted.keys[i], f"r{i}"
        twice = f"GROUP BY {key} HAVING system.main.min({upper}) <> system.main.max({upper})"
        sentence = (
            f'Column "{counted.hierarchy[i]}" has a value in more than one value of "{counted.hierarchy[i - 1]}": '
            "correct them, or make the names of regions unique."
        )
        wrong.append((f"EXISTS (SELECT {key} FROM _dk_regions {twice})", sentence))
    unit, region = identifier(counted.unit), identifier(counted.hierarchy[-1]) if counted.hierarchy else ""
    two = (
        f'Column "{counted.unit}" has a value in more than one region of {where}: a group lies in one region. '
        f"Correct the regions; or count the group in each of them, by a view with {unit} || ' ' || {region} as the "
        f"unit; or in the first one only, by a view with QUALIFY {region} = min({region}) OVER (PARTITION BY {unit})."
    )
    return [*wrong, (f"flaw = {_TWO_REGIONS}", two)]


# --- checks that need the table's columns -----------------------------------------------------------------------------


def check_table(request: Groups, names: list[str], types: list[str], released: list[str]) -> None:
    """Check the columns of the table of persons. released: those of the result."""
    table = Table(request.tbl, names, types)
    table.has(request.columns)
    if request.quantity is not None and not is_integer(table.kind(request.quantity)):
        raise InvalidInput(
            f'Column "{request.quantity}" is no whole number and cannot be quantity: cast it to INTEGER.'
        )
    table.apart(request.hierarchy, released)


def check_regions(request: Groups, names: list[str], types: list[str], theirs: dict[str, list[str]]) -> None:
    """Check the columns of the table of regions. theirs: names and types of those of the table of persons."""
    table, persons = Table(request.regions or "", names, types), Table(request.tbl, theirs["names"], theirs["types"])
    table.has(request.hierarchy)
    for name in request.hierarchy:
        if not persons.holds(name):
            # The check of the table of persons says so.
            continue
        ours, other = table.kind(name), persons.kind(name)
        if ours != other and not (is_number(ours) and is_number(other)):
            raise InvalidInput(
                f'Column "{name}" has one type in {request.tbl} and another in {request.regions}: cast one of them.'
            )
