"""The values of keys, as their domains list them: which domains depend on each other, and their combinations.

Conditions on keys leave out combinations. They may join keys whose domains are independent (`a = b`), so combinations
are made of components: keys of different components have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import duckdb

from duckanon.catalog.names import fold, quoted
from duckanon.errors import UnsupportedQuery
from duckanon.governance.ledger_tables import schema_of
from duckanon.releases.paid_questions import DomainFilter, Key

# The most combinations on which a condition on keys of independent domains is tried.
MOST_TRIED = 10_000_000


@dataclass(frozen=True)
class Component:
    """Keys whose values depend on each other, by their domains or by conditions.

    parts: queries for the values of its independent domains, each with the conditions on it alone. query: for the
    combinations of the parts that meet all conditions, as the columns k0, k1, ...
    """

    parts: tuple[str, ...]
    query: str

    def size(self, con: duckdb.DuckDBPyConnection, most: int) -> int:
        """How many combinations there are; more than `most` are not all counted.

        Raises UnsupportedQuery for conditions that would be tried on too many.
        """
        if len(self.parts) > 1:
            tried = prod(_count(con, part, MOST_TRIED) for part in self.parts)
            if tried > MOST_TRIED:
                raise UnsupportedQuery(
                    f"A condition of WHERE compares keys that have more than {MOST_TRIED:,} combinations of values: "
                    "leave out one of the keys, or narrow them by conditions on each alone."
                )
        return _count(con, self.query, most)


def components(database: str, keys: Sequence[Key], filters: Sequence[DomainFilter] = ()) -> list[Component]:
    """The components of the combinations that the domains and the conditions on keys allow.

    database: the one that has the domains' copies.
    """
    if not keys:
        return []
    parts = dependent_parts(keys)
    own = [[domain_filter for domain_filter in filters if set(domain_filter.keys) <= set(part)] for part in parts]
    rest = [
        domain_filter for domain_filter in filters if not any(set(domain_filter.keys) <= set(part) for part in parts)
    ]
    queries = [
        _where(combinations(database, keys, part), part, own_filters)
        for part, own_filters in zip(parts, own, strict=True)
    ]
    joined = _joined([{*part} for part in parts], [{*domain_filter.keys} for domain_filter in rest])
    separate = []
    for places in joined:
        own_queries = tuple(query for part, query in zip(parts, queries, strict=True) if set(part) <= places)
        across = [domain_filter for domain_filter in rest if set(domain_filter.keys) <= places]
        separate.append(Component(own_queries, _where(" CROSS JOIN ".join(own_queries), sorted(places), across)))
    return separate


def _where(source: str, places: Sequence[int], filters: Sequence[DomainFilter]) -> str:
    """A query for the columns of keys, where all conditions hold."""
    where = f" WHERE {' AND '.join(domain_filter.sql for domain_filter in filters)}" if filters else ""
    return f"(SELECT {_names(places)} FROM {source}{where})"


def _names(places: Iterable[int]) -> str:
    return ", ".join(f"k{at}" for at in places)


def _joined(sets: Sequence[set[int]], links: Sequence[set[int]]) -> list[set[int]]:
    """The sets, those that a link meets made one, in order of their least numbers."""
    merged = [set(numbers) for numbers in sets]
    for link in links:
        met = [numbers for numbers in merged if numbers & link]
        merged = [numbers for numbers in merged if not numbers & link] + [set().union(*met)]
    return sorted(merged, key=min)


def _count(con: duckdb.DuckDBPyConnection, query: str, most: int) -> int:
    """How many rows a query has; of more than `most`, one more than that."""
    limited = f"SELECT 1 FROM {query} AS _dk_combinations LIMIT {most + 1}"
    ((size,),) = con.execute(f"SELECT system.main.count(*) FROM ({limited}) AS _dk_counted").fetchall()
    return int(size)


def dependent_parts(keys: Sequence[Key]) -> list[list[int]]:
    """The positions of the keys, in parts: keys whose domains depend on each other are in one part."""
    parts: list[list[int]] = []
    for at, key in enumerate(keys):
        met = [
            part
            for part in parts
            if any(_depends(key, keys[position]) or _depends(keys[position], key) for position in part)
        ]
        parts = [part for part in parts if part not in met] + [
            sorted([at, *(position for part in met for position in part)])
        ]
    return sorted(parts)


def _depends(key: Key, other: Key) -> bool:
    """Whether the domain of one key has the column of another, as a domain of counties has their states."""
    return fold(other.column) in key.columns


def combinations(database: str, keys: Sequence[Key], places: Sequence[int]) -> str:
    """A query for the combinations of the keys at these positions that the domains allow: k0, k1, ...

    database: the one that has the domains' copies.
    """
    schema = schema_of(database)
    sources, met = [], []
    for at in places:
        beside = [other for other in places if other != at and _depends(keys[at], keys[other])]
        own = keys[at]
        names = [f"{_listed(own, own)} AS k{at}", *(f"{_listed(own, keys[other])} AS k{other}" for other in beside)]
        table = f"{schema}.{quoted([own.domain])}" if own.path is None else quoted(own.path)
        if own.constants:
            constants = ", ".join(f"({constant})" for constant in own.constants)
            table = f"(VALUES {constants}) AS v({quoted([own.column])})"
        if own.sought is not None:
            # None is known until they are found.
            table = f"(SELECT CAST(NULL AS {own.kind}) AS {quoted([own.named(own.column)])} LIMIT 0)"
        nothing = f" UNION SELECT {', '.join('NULL' for _ in names)}" if own.nullable else ""
        sources.append(f"(SELECT DISTINCT {', '.join(names)} FROM {table}{nothing}) AS d{at}")
        met += [f"d{at}.k{other} IS NOT DISTINCT FROM d{other}.k{other}" for other in beside]
    where = f" WHERE {' AND '.join(met)}" if met else ""
    return f"(SELECT {', '.join(f'd{at}.k{at}' for at in places)} FROM {' CROSS JOIN '.join(sources)}{where})"


def numbered(database: str, key: Key) -> str:
    """A relation of a key's values, k0, each with its place among them, from 0 on."""
    order = "system.main.row_number() OVER (ORDER BY k0 ASC NULLS LAST) - 1 AS place"
    return f"(SELECT k0, {order} FROM {combinations(database, [key], [0])} AS _dk_values)"


def _listed(domain: Key, key: Key) -> str:
    """A key's values as the domain of a key lists them. Text of an open table is taken without its collation."""
    name = quoted([domain.named(key.column)])
    is_text = domain.path is not None and key.kind == "VARCHAR"
    return f"system.main.decode(system.main.encode(CAST({name} AS VARCHAR)))" if is_text else name
