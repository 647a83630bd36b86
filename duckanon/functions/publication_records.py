"""Whether a table is a k-anonymous copy that may be published, by its released values alone. Rows do not name records.

A class is what shares all its intervals, sets and single values. Which records are in it is not known, only that they
lie inside: so of all records that do, the fewest units that could fill its rows must be k. An end that is NULL is open,
and an interval counts as closed, although bands end before their upper end: that more records may lie inside makes the
count of units no larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.publication import Candidate, Earlier
from duckanon.errors import InvalidInput
from duckanon.functions.publication_cells import Cell, cells_of
from duckanon.functions.sqltext import hashed, unit_of

_CLASSES = "temp.main._dk_classes"
_FITS = "temp.main._dk_fits"
# A column of no more values is matched by value: which classes hold each value is looked up once.
_MOST_VALUES = 10_000


def check_records(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
    """Raises InvalidInput unless the release is a k-anonymous table of the protected one, as the policy allows it.

    Afterwards the release's classes stand in a temporary table, for `is_within`.
    """
    cells = cells_of(
        con, candidate.policy.quasi_identifiers, candidate.columns, candidate.source, candidate.release, candidate.trees
    )
    hidden = _hidden(candidate, cells)
    for cell in cells:
        cell.check(con, candidate.of)
    _make_classes(con, _CLASSES, candidate.release, cells)
    _check_numbers(con, candidate, cells)
    _check_matched(con, candidate, cells, hidden)
    _check_units(con, candidate, cells)


def is_within(con: duckdb.DuckDBPyConnection, candidate: Candidate, first: Earlier) -> bool:
    """Whether the release is proven to follow from an earlier k-anonymous one.

    Each class of the first must lie inside exactly one class of the release, and together they must have its rows.
    """
    cells = cells_of(
        con, candidate.policy.quasi_identifiers, candidate.columns, candidate.source, candidate.release, candidate.trees
    )
    hidden = _hidden(candidate, cells)
    return first.copy is not None and _joins(con, cells, hidden, candidate.release, first.copy, first.columns)


def is_coarser(
    con: duckdb.DuckDBPyConnection,
    release: tuple[str, Mapping[str, str]],
    first: tuple[str, Sequence[str]],
    source: Mapping[str, str],
    qi: Sequence[str],
) -> bool:
    """Whether a k-anonymous table is proven to follow from another one, without a policy.

    release, first: their names in SQL, with the types of their columns by name, and with the names of their columns.
    source: types of the columns `qi` before they were generalised. Raises InvalidInput if the release lacks one.
    """
    name, columns = release
    cells = cells_of(con, qi, columns, source, name, {})
    cell_columns = {fold(name) for cell in cells for name in cell.names} | {"class_id"}
    hidden = [column for column in columns if fold(column) not in cell_columns]
    _make_classes(con, _CLASSES, name, cells)
    return _joins(con, cells, hidden, name, *first)


def _joins(
    con: duckdb.DuckDBPyConnection,
    cells: Sequence[Cell],
    shown: Sequence[str],
    release: str,
    first: str,
    columns: Sequence[str],
) -> bool:
    """Whether the release, whose classes stand in their table, joins classes of the first, which has these columns."""
    names = [name for cell in cells for name in cell.names]
    hidden = [identifier(name) for name in shown]
    have = {fold(identifier(name)) for name in columns}
    if not {fold(name) for name in [*map(identifier, names), *hidden]} <= have:
        return False
    try:
        _make_classes(con, "temp.main._dk_first", first, cells)
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
            f"SELECT {', '.join(['second', *(f'r.{column}' for column in hidden)])} FROM {first} AS r "
            f"JOIN temp.main._dk_first AS c ON {_same(cells)} JOIN temp.main._dk_map AS m ON m.first = c.c"
        )
        new = (
            f"SELECT {', '.join(['c.c', *(f'r.{column}' for column in hidden)])} FROM {release} AS r "
            f"JOIN {_CLASSES} AS c ON {_same(cells)}"
        )
        return equal(con, old, new)
    except duckdb.Error:
        # For example an ENUM that has lost a value.
        return False


def is_computed(
    con: duckdb.DuckDBPyConnection, columns: Sequence[str], of: str, copy: str, shown: Sequence[str]
) -> bool:
    """Whether counts by some columns follow from a k-anonymous copy: it shows them as they are, of every record."""
    if not {fold(column) for column in columns} <= {fold(name) for name in shown}:
        return False
    keys = ", ".join(map(identifier, columns)) or "1"
    try:
        return equal(con, f"SELECT {keys} FROM {of}", f"SELECT {keys} FROM {copy}")
    except duckdb.Error:
        return False


def equal(con: duckdb.DuckDBPyConnection, first: str, second: str) -> bool:
    """Whether two queries give the same rows, as often."""
    ((left, right),) = con.execute(
        f"SELECT (SELECT system.main.count(*) FROM ({first} EXCEPT ALL {second})), "
        f"(SELECT system.main.count(*) FROM ({second} EXCEPT ALL {first}))"
    ).fetchall()
    return bool(left == right == 0)


def _hidden(candidate: Candidate, cells: Sequence[Cell]) -> list[str]:
    """The columns that are released as they are. Raises InvalidInput for one that the policy does not allow."""
    policy = candidate.policy
    single = [unit for unit in (policy.privacy_unit, policy.unit) if unit is not None]
    may = {fold(name) for name in policy.sensitive} - {fold(column) for column in (*policy.drop, *single)}
    kinds = {fold(name): kind for name, kind in candidate.source.items()}
    cell_columns = {fold(name) for cell in cells for name in cell.names} | {"class_id"}
    names = [name for name in candidate.columns if fold(name) not in cell_columns]
    for name in names:
        if fold(name) not in may:
            raise InvalidInput(
                f'The release has a column "{name}", which the policy does not let out: beside the intervals and sets '
                f"of its quasi-identifiers only {', '.join(policy.sensitive) or 'nothing'} may be shown. Say drop := "
                f"[{literal(name)}] to k_anonymize."
            )
        if candidate.columns[name] != kinds.get(fold(name)):
            raise InvalidInput(f'Column "{name}" must have the type that it has in {candidate.label}: cast it.')
    return names


def _make_classes(con: duckdb.DuckDBPyConnection, name: str, source: str, cells: Sequence[Cell]) -> None:
    """A table of the classes: their cells, a hash of these, how many rows have them (n), and a number (c).

    Beside them stand the ends for which a label stands.
    """
    keys = ", ".join(
        f"{identifier(name)} AS {key}" for cell in cells for name, key in zip(cell.names, cell.keys, strict=True)
    )
    ends = "".join(f", {expression} AS {end}" for cell in cells for end, expression in cell.derived.items())
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT *{ends}, system.main.row_number() OVER () AS c FROM "
        f"(SELECT {keys}, {_hash('r', cells)} AS h, system.main.count(*) AS n FROM {source} AS r GROUP BY ALL)"
    ).fetchall()


def _hash(alias: str, cells: Sequence[Cell]) -> str:
    """SQL: a hash of the cells of a row. It distinguishes what a collation takes for equal and a reader does not."""
    return hashed(f"{alias}.{identifier(name)}" for cell in cells for name in cell.names)


def _check_numbers(con: duckdb.DuckDBPyConnection, candidate: Candidate, cells: Sequence[Cell]) -> None:
    """Refuse a class_id from which more follows than from the released values."""
    own = next((name for name in candidate.columns if fold(name) == "class_id"), None)
    if own is None:
        return
    names = {fold(name) for cell in cells for name in cell.names}
    order = [f"{identifier(name)} ASC NULLS LAST" for name in candidate.columns if fold(name) in names]
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
    row_values = [f"{cell.value()} AS v{at}" for at, cell in enumerate(cells)]
    shown = [f"{identifier(name)} AS s{at}" for at, name in enumerate(hidden)]
    people = [*row_values, *shown, f"{unit_of(unit)} AS u"]
    kept = [f"s{at}" for at in range(len(hidden))]
    classes, tests = _matching(con, candidate, cells)
    stray = " OR ".join(f"{_all_null('b', cell)} AND v{at} IS NOT NULL" for at, cell in enumerate(cells))
    grouped = ", ".join(["c", "u", "stray", *kept])
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {_FITS} AS SELECT b.c, u, {stray} AS stray, {', '.join([*kept, ''])}"
        "system.main.sum(m) AS m FROM (SELECT *, system.main.count(*) AS m "
        f"FROM (SELECT {', '.join(people)} FROM {candidate.of}) GROUP BY ALL) AS a "
        f"JOIN {classes} AS b ON {tests} GROUP BY {grouped}"
    ).fetchall()
    rows = (
        f"SELECT {', '.join(['c.c', *(f'r.{column}' for column in shown)])}, system.main.count(*) AS rows FROM "
        f"{candidate.release} AS r JOIN {_CLASSES} AS c ON {_same(cells)} GROUP BY ALL"
    )
    same = " AND ".join(["a.c = b.c", *(f"a.{column} IS NOT DISTINCT FROM b.{column}" for column in kept)])
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
    none = [" OR ".join(f"{key} IS NULL" for key in cell.ends) for cell in cells]
    nulls = [bool(_count(con, f"{_CLASSES} WHERE {test}")) for test in none]
    tests = [cell.holds("b", f"v{at}", nulls=nulls[at]) for at, cell in enumerate(cells)]
    few = [at for at, size in enumerate(sizes) if size <= _MOST_VALUES]
    if not few:
        return _CLASSES, " AND ".join(tests)
    best = max(few, key=sizes.__getitem__)
    row_value = cells[best].value()
    tests[best] = f"v{best} IS NOT DISTINCT FROM b._dk_value"
    classes = (
        f"(SELECT b.*, a._dk_value FROM (SELECT DISTINCT {row_value} AS _dk_value FROM {candidate.of}) AS a "
        f"JOIN {_CLASSES} AS b ON {cells[best].holds('b', 'a._dk_value', nulls=nulls[best])})"
    )
    return classes, " AND ".join(tests)


def _check_units(con: duckdb.DuckDBPyConnection, candidate: Candidate, cells: Sequence[Cell]) -> None:
    """Refuse classes that fewer than k units could fill with the records that lie inside."""
    policy, whole = candidate.policy, _count(con, _CLASSES)
    if policy.privacy_unit is None:
        few = _count(con, f"{_CLASSES} WHERE n < {policy.k}")
        if few:
            raise InvalidInput(
                f"{candidate.name} is not published: {few} of its {whole} classes are not proven to hold {policy.k} "
                f"records. Make it with k := {policy.k}."
            )
        return
    con.execute(f"CREATE OR REPLACE TEMP TABLE _dk_few AS {_few_units(_strays(con, candidate, cells), policy.k)}")
    few = _count(con, "temp.main._dk_few")
    if few:
        failing = f"{_CLASSES} JOIN temp.main._dk_few USING (c)"
        missing = [cell.column for cell in cells if _count(con, f"{failing} WHERE {_all_null('_dk_classes', cell)}")]
        apart = " AND ".join(f"{identifier(column)} IS NOT NULL" for column in missing)
        nulls = (
            f" A class that releases NULL of {' or '.join(missing)} may hold records with any value there: if that "
            f"does not help, make it from a view of the records WHERE {apart}."
        )
        raise InvalidInput(
            f"{candidate.name} is not published: {few} of its {whole} classes are not proven to hold {policy.k} values "
            f"of {policy.unit_in_words}: classes overlap, so fewer, of several records each, could have filled these "
            f"by what is released. Make it with method := 'mondrian', whose classes overlap least, or a larger k"
            f"{_enough(con, candidate)}.{nulls if missing else ''}"
        )


def _enough(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> str:
    """Which k suffices whatever the classes: no class of so many rows is filled by fewer than the policy's k units.

    These have as many records as the units with the most, and nobody's records come beside. Nothing where there are
    not so many units.
    """
    unit = f"SELECT {unit_of(candidate.policy.privacy_unit)} AS u FROM {candidate.of}"
    held = f"SELECT u, system.main.count(*) AS m FROM ({unit}) GROUP BY u"
    ((units, nobody, most),) = con.execute(
        f"SELECT system.main.count(u), coalesce(system.main.sum(m) FILTER (WHERE u IS NULL), 0), "
        f"(SELECT coalesce(system.main.sum(m), 0) FROM (SELECT m FROM ({held}) WHERE u IS NOT NULL ORDER BY m DESC "
        f"LIMIT {candidate.policy.k - 1})) FROM ({held})"
    ).fetchall()
    enough = int(nobody) + int(most) + 1
    return f": {enough} is enough" if enough <= units else ""


def _strays(con: duckdb.DuckDBPyConnection, candidate: Candidate, cells: Sequence[Cell]) -> str:
    """SQL: how many rows of a class may be of records that have a value where the class releases NULL, at most.

    A record without a value can only stand behind a row with NULL. So all that are not missing from the release do,
    and of the rows with NULL only the rest is left for others.
    """
    missing = _count(con, candidate.of) - _count(con, candidate.release)
    most = []
    for cell in cells:
        rows = _count(con, f"(SELECT n FROM {_CLASSES}, range(n) WHERE {_all_null('_dk_classes', cell)})")
        without = _count(con, f"{candidate.of} WHERE {identifier(cell.column)} IS NULL")
        most.append(f"CASE WHEN {_all_null('_dk_classes', cell)} THEN {max(rows - without + missing, 0)} ELSE 0 END")
    return " + ".join(most)


def _few_units(strays: str, k: int) -> str:
    """A query of the classes that fewer than k units could fill. strays: SQL, of `_strays`.

    So many units have at most as many records inside as those with the most; and, of records that are no strays, as
    many as those with the most of these, with all strays besides that there may be. Records without a unit are nobody's
    and come first: what they may fill, no unit is needed for.
    """
    held = (
        "SELECT c, u, coalesce(system.main.sum(m) FILTER (WHERE NOT stray), 0) AS own, "
        f"coalesce(system.main.sum(m) FILTER (WHERE stray), 0) AS other FROM {_FITS} GROUP BY c, u"
    )
    of_units = (
        "SELECT c, unnest(system.main.range(system.main.count(*))) AS place, "
        "unnest(system.main.list(own + other ORDER BY own + other DESC)) AS whole, "
        "unnest(system.main.list(own ORDER BY own DESC)) AS own, "
        "unnest(system.main.list(other ORDER BY other DESC)) AS other "
        f"FROM ({held}) WHERE u IS NOT NULL GROUP BY c"
    )
    of_nobody = f"SELECT c, own AS own0, other AS other0 FROM ({held}) WHERE u IS NULL"
    most = (
        "SELECT c, place, n, own0 + least(strays, other0) AS nobody, "
        "least(own0 + other0 + system.main.sum(whole) OVER places, "
        "own0 + system.main.sum(own) OVER places + least(strays, other0 + system.main.sum(other) OVER places)) AS most "
        "FROM (SELECT * REPLACE (coalesce(own0, 0) AS own0, coalesce(other0, 0) AS other0) "
        f"FROM ({of_units}) JOIN (SELECT c, n, {strays} AS strays FROM {_CLASSES}) USING (c) "
        f"LEFT JOIN ({of_nobody}) USING (c)) WINDOW places AS (PARTITION BY c ORDER BY place)"
    )
    before = f"coalesce(system.main.lag(most) OVER (PARTITION BY c ORDER BY place), nobody) AS before FROM ({most})"
    return (
        f"SELECT c FROM {_CLASSES} LEFT JOIN (SELECT c, system.main.count(*) FILTER (WHERE before < n) AS units "
        f"FROM (SELECT c, n, {before}) GROUP BY c) USING (c) WHERE coalesce(units, 0) < {k}"
    )


def _all_null(alias: str, cell: Cell) -> str:
    """SQL: whether a class releases NULL of a quasi-identifier, and so may hold any value, or none."""
    return "(" + " AND ".join(f"{alias}.{key} IS NULL" for key in cell.keys) + ")"


def _same(cells: Sequence[Cell]) -> str:
    """SQL: whether row r is in class c."""
    ends = [(name, key) for cell in cells for name, key in zip(cell.names, cell.keys, strict=True)]
    same = (f"r.{identifier(name)} IS NOT DISTINCT FROM c.{key}" for name, key in ends)
    return " AND ".join([f"{_hash('r', cells)} = c.h", *same])


def _count(con: duckdb.DuckDBPyConnection, source: str) -> int:
    ((count,),) = con.execute(f"SELECT system.main.count(*) FROM {source}").fetchall()
    return int(count)
