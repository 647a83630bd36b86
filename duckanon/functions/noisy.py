"""Counts with noise: from the query for exact ones to a query for noisy ones."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput

_EXACT, _NOISE = '"temp"."main"."_dk_exact"', "_dk_noise"
# More cells than anybody reads, most of them noise.
_MOST = 100_000


def count(con: duckdb.DuckDBPyConnection, exact: str) -> None:
    """Compute the counts of `exact`, its column n, and keep them on the connection.

    Raises InvalidInput for more than 100,000 counts, and where they cannot be computed, without a word of the data.
    """
    try:
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE {_EXACT} AS "
            f'SELECT *, system.main.row_number() OVER () AS "_dk_at" FROM ({exact})'
        ).fetchall()
    except duckdb.Error:
        raise InvalidInput("The counts cannot be computed: compare columns with constants of their own type.") from None
    ((cells,),) = con.execute(f"SELECT system.main.count(*) FROM {_EXACT}").fetchall()
    if cells > _MOST:
        raise InvalidInput(f"There are more than {_MOST:,} combinations of public values: count by fewer columns.")


def noisy(con: duckdb.DuckDBPyConnection, scale: Fraction) -> str:
    """The query that gives the counts kept by `count`, with double geometric noise of that scale added to each."""
    from duckanon.engines.randomness import Entropy, double_geometric

    ((cells,),) = con.execute(f"SELECT system.main.count(*) FROM {_EXACT}").fetchall()
    noise = pa.table({"_dk_at": np.arange(1, cells + 1), "_dk_noise": double_geometric(scale, cells, Entropy())})
    con.register(_NOISE, noise)
    return (
        f'SELECT * EXCLUDE ("_dk_at", "_dk_noise") REPLACE (n + "_dk_noise" AS n) '
        f'FROM {_EXACT} JOIN {_NOISE} USING ("_dk_at") ORDER BY "_dk_at"'
    )


def forget(con: duckdb.DuckDBPyConnection) -> None:
    """Drop what `count` and `noisy` kept."""
    con.execute(f"DROP TABLE IF EXISTS {_EXACT}").fetchall()
    con.unregister(_NOISE)
