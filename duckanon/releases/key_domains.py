"""The values of keys, as their domains list them: which domains depend on each other, and their combinations."""

from __future__ import annotations

from collections.abc import Sequence

from duckanon.catalog.names import fold, quoted
from duckanon.governance.ledger import schema_of
from duckanon.releases.paid_questions import Key


def dependent_parts(keys: Sequence[Key]) -> list[list[int]]:
    """The positions of the keys, in parts: keys whose domains depend on each other are in one part."""
    parts: list[list[int]] = []
    for at, one in enumerate(keys):
        met = [part for part in parts if any(_depends(one, keys[each]) or _depends(keys[each], one) for each in part)]
        parts = [part for part in parts if part not in met] + [sorted([at, *(each for part in met for each in part)])]
    return sorted(parts)


def _depends(one: Key, other: Key) -> bool:
    """Whether the domain of one key has the column of another, as a domain of counties has their states."""
    return fold(other.column) in one.columns


def combinations(database: str, keys: Sequence[Key], places: Sequence[int]) -> str:
    """A query for the combinations of the keys at these positions that the domains allow: k0, k1, ...

    database: the one that has the domains' copies.
    """
    schema = schema_of(database)
    sources, met = [], []
    for at in places:
        beside = [other for other in places if other != at and _depends(keys[at], keys[other])]
        names = [f"{quoted([keys[at].column])} AS k{at}"] + [
            f"{quoted([keys[one].column])} AS k{one}" for one in beside
        ]
        sources.append(f"(SELECT DISTINCT {', '.join(names)} FROM {schema}.{quoted([keys[at].domain])}) AS d{at}")
        met += [f"d{at}.k{other} IS NOT DISTINCT FROM d{other}.k{other}" for other in beside]
    where = f" WHERE {' AND '.join(met)}" if met else ""
    return f"(SELECT {', '.join(f'd{at}.k{at}' for at in places)} FROM {' CROSS JOIN '.join(sources)}{where})"
