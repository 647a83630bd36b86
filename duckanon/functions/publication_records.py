"""Whether a table is a k-anonymous copy that may be published, by its released values alone. Rows do not name records.

A class is what shares all its intervals and sets. Which records are in it is not known, only that they lie inside: so
of all records that do, the fewest units that could fill its rows must be k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from duckanon.catalog.names import fold
from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Earlier
from duckanon.errors import InvalidInput
from duckanon.functions.sqltext import identifier

_CLASSES = "temp.main._dk_classes"
_FITS = "temp.main._dk_fits"
# A column of no more values is matched by value: which classes hold each value is looked up once.
_MOST_VALUES = 10_000


@dataclass(frozen=True)
class Cell:
    """What is released of one quasi-identifier.

    kind: the column's type in the protected table. names: of its columns; a set has one, an interval two.
    """

    column: str
    kind: str
    names: tuple[str, ...]

    def _ends(self, alias: str) -> list[str]:
        """Its columns in SQL, in the type of the protected table: copies keep an ENUM as text."""
        kind = self.kind if len(self.names) == 2 else f"{self.kind}[]"
        return [f"CAST({alias}.{identifier(name)} AS {kind})" for name in self.names]

    def value(self) -> str:
        """A record's value, in SQL. The cast removes a collation, since a set distinguishes spellings."""
        return f"CAST({identifier(self.column)} AS {self.kind})"

    def holds(self, alias: str, value: str, *, nulls: bool = True) -> str:
        """Whether a value lies inside. NULL for a cell holds everything; nulls: whether there are such cells.

        Without them DuckDB joins by ranges, which is faster.
        """
        ends = self._ends(alias)
        if len(ends) == 1:
            inside = f"system.main.list_contains({ends[0]}, {value})"
        else:
            inside = f"{value} BETWEEN {ends[0]} AND {ends[1]}"
        return f"({ends[0]} IS NULL OR {inside})" if nulls else inside

    def inside(self, inner: str, outer: str) -> str:
        """Whether one table's cell lies inside another's."""
        one, other = self._ends(inner), self._ends(outer)
        if len(one) == 1:
            within = f"system.main.list_has_all({other[0]}, {one[0]})"
        else:
            within = f"{one[0]} >= {other[0]} AND {one[1]} <= {other[1]}"
        return f"({other[0]} IS NULL OR ({one[0]} IS NOT NULL AND {within}))"


def check_records(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    """Raises InvalidInput unless the release is a k-anonymous table of the protected one, as the policy allows it.

    Afterwards the release's classes stand in a temporary table, for `is_within`.
    """
    cells = _cells(candidate.policy, candidate.columns, candidate.source)
    hidden = _hidden(candidate, cells)
    _check_halves(con, candidate, cells)
    names = [name for cell in cells for name in cell.names]
    _make_classes(con, _CLASSES, candidate.release, names)
    _check_numbers(con, candidate, names)
    _check_matched(con, candidate, cells, hidden)
    _check_units(con, candidate)


def is_within(con: duckdb.DuckDBPyConnection, candidate: Candidate, first: Earlier) -> bool:
    """Whether the release is proven to follow from an earlier k-anonymous one.

    Each class of the first must lie inside exactly one class of the release, and together they must have its rows.
    """
    cells = _cells(candidate.policy, candidate.columns, candidate.source)
    names = [name for cell in cells for name in cell.names]
    hidden = [identifier(name) for name in _hidden(candidate, cells)]
    have = {fold(identifier(name)) for name in first.columns}
    if first.copy is None or not {fold(one) for one in [*map(identifier, names), *hidden]} <= have:
        return False
    try:
        _make_classes(con, "temp.main._dk_first", first.copy, names)
        inside = " AND ".join(cell.inside("a", "b") for cell in cells)
        con.execute(
            "CREATE OR REPLACE TEMP TABLE _dk_map AS SELECT a.c AS first, system.main.min(b.c) AS second, "
            f"system.main.count(b.c) AS many FROM temp.main._dk_first AS a LEFT JOIN {_CLASSES} AS b ON {inside} "
            "GROUP BY a.c"
        ).fetchall()
        ((unclear,),) = con.execute("SELECT system.main.count(*) FROM temp.main._dk_map WHERE many <> 1").fetchall()
        if unclear:
            return False
        old = (
            f"SELECT {', '.join(['second', *(f'r.{one}' for one in hidden)])} FROM {first.copy} AS r "
            f"JOIN temp.main._dk_first AS c ON {_same(names)} JOIN temp.main._dk_map AS m ON m.first = c.c"
        )
        new = (
            f"SELECT {', '.join(['c.c', *(f'r.{one}' for one in hidden)])} FROM {candidate.release} AS r "
            f"JOIN {_CLASSES} AS c ON {_same(names)}"
        )
        return equal(con, old, new)
    except duckdb.Error:
        # For example an ENUM that has lost a value.
        return False


def is_computed(
    con: duckdb.DuckDBPyConnection, columns: Sequence[str], of: str, copy: str, shown: Sequence[str]
) -> bool:
    """Whether counts by some columns follow from a k-anonymous copy: it shows them as they are, of every record."""
    if not {fold(one) for one in columns} <= {fold(one) for one in shown}:
        return False
    keys = ", ".join(map(identifier, columns)) or "1"
    try:
        return equal(con, f"SELECT {keys} FROM {of}", f"SELECT {keys} FROM {copy}")
    except duckdb.Error:
        return False


def equal(con: duckdb.DuckDBPyConnection, one: str, other: str) -> bool:
    """Whether two queries give the same rows, as often."""
    ((left, right),) = con.execute(
        f"SELECT (SELECT system.main.count(*) FROM ({one} EXCEPT ALL {other})), "
        f"(SELECT system.main.count(*) FROM ({other} EXCEPT ALL {one}))"
    ).fetchall()
    return bool(left == right == 0)


def _cells(policy: Policy, columns: Mapping[str, str], source: Mapping[str, str]) -> list[Cell]:
    """The cell of each quasi-identifier, in the policy's order. Raises InvalidInput where the release has none."""
    own = {fold(name): name for name in columns}
    kinds = {fold(name): (name, kind) for name, kind in source.items()}
    if not policy.quasi_identifiers:
        raise InvalidInput(
            "The policy names no quasi_identifiers, so no k-anonymous table can be published: protect the table with "
            "them, or name the value column of a table of counts or shares."
        )
    found = []
    for wanted in policy.quasi_identifiers:
        if fold(wanted) not in kinds:
            raise InvalidInput(f'The protected table has no column "{wanted}" any more, which its policy names.')
        name, kind = kinds[fold(wanted)]
        for parts, type_ in (((f"{name}_lo", f"{name}_hi"), kind), ((f"{name}_set",), f"{kind}[]")):
            if not all(fold(part) in own for part in parts):
                continue
            named = tuple(own[fold(part)] for part in parts)
            if any(columns[part] != type_ for part in named):
                raise InvalidInput(f'What the release says of "{name}" must be of the type that k_anonymize gives it.')
            found.append(Cell(name, kind, named))
            break
        else:
            raise InvalidInput(
                f'The release says nothing of "{name}", which the policy calls a quasi-identifier: k_anonymize with '
                f"all of them ({', '.join(policy.quasi_identifiers)}), or name the value column of a table of counts "
                "or shares."
            )
    return found


def _hidden(candidate: Candidate, cells: Sequence[Cell]) -> list[str]:
    """The columns that are released as they are. Raises InvalidInput for one that the policy does not allow."""
    policy = candidate.policy
    single = [one for one in (policy.privacy_unit, policy.unit) if one is not None]
    may = {fold(one) for one in policy.sensitive} - {fold(one) for one in (*policy.drop, *single)}
    kinds = {fold(name): kind for name, kind in candidate.source.items()}
    taken = {fold(name) for cell in cells for name in cell.names} | {"class_id"}
    found = [name for name in candidate.columns if fold(name) not in taken]
    for name in found:
        if fold(name) not in may:
            raise InvalidInput(
                f'The release has a column "{name}", which the policy does not let out: beside the intervals and sets '
                f"of its quasi-identifiers only {', '.join(policy.sensitive) or 'nothing'} may be shown. Say drop := "
                f"['{name}'] to k_anonymize."
            )
        if candidate.columns[name] != kinds.get(fold(name)):
            raise InvalidInput(f'Column "{name}" must have the type that it has in {candidate.label}: cast it.')
    return found


def _check_halves(con: duckdb.DuckDBPyConnection, candidate: Candidate, cells: Sequence[Cell]) -> None:
    halves = [cell.names for cell in cells if len(cell.names) == 2]
    tests = [f"({identifier(lo)} IS NULL) <> ({identifier(hi)} IS NULL)" for lo, hi in halves]
    if tests and _count(con, f"{candidate.release} WHERE {' OR '.join(tests)}"):
        raise InvalidInput("Some intervals have one end only: both ends are values, or both are NULL.")


def _make_classes(con: duckdb.DuckDBPyConnection, name: str, relation: str, names: Sequence[str]) -> None:
    keys = ", ".join(map(identifier, names))
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT *, system.main.row_number() OVER () AS c FROM "
        f"(SELECT {keys}, system.main.count(*) AS n FROM {relation} GROUP BY {keys})"
    ).fetchall()


def _check_numbers(con: duckdb.DuckDBPyConnection, candidate: Candidate, names: Sequence[str]) -> None:
    """Refuse a class_id from which more follows than from the released values."""
    own = next((name for name in candidate.columns if fold(name) == "class_id"), None)
    if own is None:
        return
    cells = {fold(name) for name in names}
    order = [f"{identifier(name)} ASC NULLS LAST" for name in candidate.columns if fold(name) in cells]
    wrong = _count(
        con,
        f"(SELECT {identifier(own)} AS told, system.main.dense_rank() OVER (ORDER BY {', '.join(order)}) AS place FROM "
        f"{candidate.release}) WHERE CAST(told AS VARCHAR) IS DISTINCT FROM CAST(place AS VARCHAR)",
    )
    if wrong:
        raise InvalidInput("class_id must number the classes in the order of what is released: leave it out.")


def _check_matched(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, cells: Sequence[Cell], hidden: Sequence[str]
) -> None:
    """Every row must be matched by a record inside its cell, with the same values in the columns shown as they are."""
    unit = candidate.policy.privacy_unit
    values = [f"{cell.value()} AS v{at}" for at, cell in enumerate(cells)]
    shown = [f"{identifier(name)} AS s{at}" for at, name in enumerate(hidden)]
    people = [*values, *shown, f"{identifier(unit) if unit is not None else 'NULL'} AS u"]
    kept = [f"s{at}" for at in range(len(hidden))]
    classes, tests = _matching(con, candidate, cells)
    grouped = ", ".join(["b.c", "u", *kept])
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {_FITS} AS SELECT {grouped}, system.main.sum(m) AS m "
        f"FROM (SELECT {', '.join(people)}, system.main.count(*) AS m FROM {candidate.of} GROUP BY ALL) AS a "
        f"JOIN {classes} AS b ON {tests} GROUP BY {grouped}"
    ).fetchall()
    names = [name for cell in cells for name in cell.names]
    rows = (
        f"SELECT {', '.join(['c.c', *(f'r.{one}' for one in shown)])}, system.main.count(*) AS rows FROM "
        f"{candidate.release} AS r JOIN {_CLASSES} AS c ON {_same(names)} GROUP BY ALL"
    )
    same = " AND ".join(["a.c = b.c", *(f"a.{one} IS NOT DISTINCT FROM b.{one}" for one in kept)])
    fits = f"SELECT {', '.join(['c', *kept])}, system.main.sum(m) AS m FROM {_FITS} GROUP BY ALL"
    lost = _count(con, f"({rows}) AS a LEFT JOIN ({fits}) AS b ON {same} WHERE rows > coalesce(m, 0)")
    if lost or _count(con, candidate.release) > _count(con, candidate.of):
        raise InvalidInput(
            f"The release has rows that no record of {candidate.label} stands behind: make it again from the table as "
            "it is."
        )


def _matching(con: duckdb.DuckDBPyConnection, candidate: Candidate, cells: Sequence[Cell]) -> tuple[str, str]:
    """A relation of classes, and the condition on which a record (v0, ...) lies inside all cells of one of them."""
    sizes = [_count(con, f"(SELECT DISTINCT {identifier(cell.column)} FROM {candidate.of})") for cell in cells]
    nulls = [bool(_count(con, f"{_CLASSES} WHERE {identifier(cell.names[0])} IS NULL")) for cell in cells]
    tests = [cell.holds("b", f"v{at}", nulls=nulls[at]) for at, cell in enumerate(cells)]
    few = [at for at, size in enumerate(sizes) if size <= _MOST_VALUES]
    if not few:
        return _CLASSES, " AND ".join(tests)
    best = max(few, key=sizes.__getitem__)
    value = cells[best].value()
    tests[best] = f"v{best} IS NOT DISTINCT FROM b._dk_value"
    classes = (
        f"(SELECT b.*, a._dk_value FROM (SELECT DISTINCT {value} AS _dk_value FROM {candidate.of}) AS a "
        f"JOIN {_CLASSES} AS b ON {cells[best].holds('b', 'a._dk_value', nulls=nulls[best])})"
    )
    return classes, " AND ".join(tests)


def _check_units(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    policy = candidate.policy
    if policy.privacy_unit is None:
        held = f"SELECT c, n AS units FROM {_CLASSES}"
    else:
        # The units with the most records inside first: how many of them fill the rows of the class?
        held = (
            "SELECT c, system.main.count(*) FILTER (WHERE coalesce(before, 0) < n) AS units FROM ("
            "SELECT c, n, system.main.sum(m) OVER (PARTITION BY c ORDER BY m DESC "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "
            f"FROM (SELECT c, u, system.main.sum(m) AS m FROM {_FITS} GROUP BY c, u) JOIN {_CLASSES} USING (c)) "
            "GROUP BY c"
        )
    few, whole = _count(con, f"({held}) WHERE units < {policy.k}"), _count(con, _CLASSES)
    if few:
        what = "records" if policy.privacy_unit is None else f"values of {policy.privacy_unit}"
        more = "" if policy.privacy_unit is None else ", or with a larger k"
        raise InvalidInput(
            f"{candidate.name} is not published: {few} of its {whole} classes are not proven to hold {policy.k} "
            f"{what}. Make it with k := {policy.k}{more}."
        )


def _same(names: Sequence[str]) -> str:
    return " AND ".join(f"r.{identifier(name)} IS NOT DISTINCT FROM c.{identifier(name)}" for name in names)


def _count(con: duckdb.DuckDBPyConnection, relation: str) -> int:
    ((found,),) = con.execute(f"SELECT system.main.count(*) FROM {relation}").fetchall()
    return int(found)
