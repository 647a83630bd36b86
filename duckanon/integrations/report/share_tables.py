"""Tables of published shares: how they are recognised, and what follows from them and the number of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from duckanon.catalog.names import identifier, literal
from duckanon.catalog.types import NUMBERS, WHOLE, base

# Wider and longer tables are no tables of shares that somebody prints.
_MOST_KEYS, _MOST_ROWS = 6, 100_000


@dataclass(frozen=True)
class ShareTable:
    """Where a table holds shares: column p, of the combinations of `cols` within each combination of `rows`."""

    rows: list[str]
    cols: list[str]
    p: str


def recognised(con: Any, name: str, types: Sequence[tuple[str, str]]) -> ShareTable | None:
    """The shares in a table; None if it holds none. Each row must be a cell, and the shares of a row add up to one.

    con: a DuckDB connection. name: the table's, as the functions take it. types: its columns with their types.
    Raises duckdb.Error.
    """
    source = f"system.main.query_table({literal(name)})"
    ((many,),) = con.execute(f"SELECT system.main.count(*) FROM {source}").fetchall()  # noqa: S608 - columns are quoted
    if not 1 < many <= _MOST_ROWS:
        return None
    for p in (column for column, kind in types if base(kind) in NUMBERS - set(WHOLE)):
        keys = [column for column, _ in types if column != p]
        if not 2 <= len(keys) <= _MOST_KEYS or not _is_cells(con, source, keys, p):
            continue
        for many in range(1, len(keys)):
            for rows in combinations(keys, many):
                if _adds_up(con, source, rows, p):
                    return ShareTable(list(rows), [key for key in keys if key not in rows], p)
    return None


def _is_cells(con: Any, source: str, keys: Sequence[str], p: str) -> bool:
    """Whether each row is another combination of keys, with a number from 0 to 1."""
    key, share = _listed(keys), identifier(p)
    ((many, distinct, least, most),) = con.execute(
        f"SELECT system.main.count(*), system.main.count(DISTINCT ({key})), system.main.min({share}), "  # noqa: S608
        f"system.main.max({share}) FROM {source}"
    ).fetchall()
    return bool(many == distinct and least is not None and least >= 0 and most <= 1)


def _adds_up(con: Any, source: str, rows: Sequence[str], p: str) -> bool:
    """Whether the shares of each row add up to one, as far as rounding to two decimals allows."""
    ((rows_, wrong, cells),) = con.execute(
        "SELECT system.main.count(*), system.main.count(*) FILTER (abs(total - 1) > 0.005 * cells + 1e-9), "  # noqa: S608
        f"system.main.max(cells) FROM (SELECT system.main.sum({identifier(p)}) AS total, system.main.count(*) AS cells "
        f"FROM {source} GROUP BY {_listed(rows)})"
    ).fetchall()
    return bool(rows_ and not wrong and cells > 1)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(identifier(name) for name in names)


def figures(con: Any, bounds: str, rows: Sequence[str], cols: Sequence[str], n: int, small: int) -> dict[str, Any]:
    """What the bounds of a table of shares give away, in the columns of disclosure_report that they tell.

    bounds: the name of a table with a result of conditional_bounds. small: counts below it are small.
    """
    found = con.execute(
        f"""
        WITH cells AS (
          SELECT *, bool_and(lower = upper) OVER row AND max(upper) OVER row > 0 AS known,
            row_number() OVER row AS place
          FROM {bounds} WINDOW row AS (PARTITION BY {_listed(rows)})
        )
        SELECT count(DISTINCT ({_listed(rows)})) AS row_count, count(DISTINCT ({_listed(cols)})) AS col_count,
          count(*) FILTER (known AND place = 1) AS disclosed_rows,
          count(*) FILTER (lower = upper AND lower BETWEEN 1 AND {small - 1}) AS disclosed_small_cells,
          count(*) FILTER (upper = 0) AS zero_cells
        FROM cells
        """  # noqa: S608 - columns are quoted
    )
    names = [column[0] for column in found.description]
    return {"n": n, **dict(zip(names, found.fetchall()[0], strict=True))}
