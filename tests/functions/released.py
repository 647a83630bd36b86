"""An independent check of a release: plain Python over fetched rows, nothing of duckanon's."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb


def frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check(
    con: duckdb.DuckDBPyConnection,
    table: str,
    release: str,
    qi: Sequence[str],
    categorical: Sequence[str],
    k: int,
) -> list[tuple[Any, ...]]:
    """Assert that `release`, a table, is a k-anonymous version of `table`; every row has a unique column `id`.

    Returns the release's rows as they come.
    """
    described = con.execute(f"DESCRIBE {release}").fetchall()
    names = [row[0] for row in described]
    kinds = {row[0]: row[1] for row in described}
    source = {row[0]: row[1] for row in con.execute(f"DESCRIBE {table}").fetchall()}
    expected = ["class_id"]
    for name in qi:
        expected += [f"{name}_set"] if name in categorical else [f"{name}_lo", f"{name}_hi"]
        for column in expected[-2:]:
            if column.startswith(f"{name}_"):
                assert kinds[column] == source[name] + ("[]" if column.endswith("_set") else "")
    others = [name for name in source if name not in qi]
    assert names == expected + others

    rows = con.execute(f"FROM {release}").fetchall()
    tuples = [tuple(frozen(v) for v in row[1 : len(expected)]) for row in rows]
    sizes = Counter(tuples)
    assert min(sizes.values()) >= k
    ids = [row[0] for row in rows]
    assert ids == sorted(ids)
    assert set(ids) == set(range(1, len(sizes) + 1))
    assert len(set(zip(ids, tuples, strict=True))) == len(sizes)

    originals = {
        row[-1]: row
        for row in con.execute(f"SELECT {', '.join(map(quoted, [*qi, *others]))}, id FROM {table}").fetchall()
    }
    at = names.index("id")
    assert sorted(row[at] for row in rows) == sorted(originals)
    for row, cells in zip(rows, tuples, strict=True):
        original = originals[row[at]]
        assert tuple(map(frozen, row[len(expected) :])) == tuple(map(frozen, original[len(qi) : -1]))
        shown = iter(cells)
        for name, value in zip(qi, original, strict=False):
            if name in categorical:
                held = next(shown)
                assert held is None or value in held
                if held is not None and not source[name].startswith("ENUM"):
                    assert list(held) == sorted(set(held))
            else:
                low, high = next(shown), next(shown)
                assert (low is None) == (high is None)
                # Ordinals of an ENUM do not come out; DuckDB compares them in the statement below.
                if low is not None and not source[name].startswith("ENUM"):
                    assert low <= value <= high
    for name in qi:
        if name not in categorical:
            low, high, value = quoted(f"{name}_lo"), quoted(f"{name}_hi"), quoted(name)
            outside = con.execute(
                f"SELECT count(*) FROM {release} r JOIN {table} t USING (id) "
                f"WHERE r.{low} IS NOT NULL AND NOT t.{value} BETWEEN r.{low} AND r.{high}"
            ).fetchall()
            assert outside == [(0,)]
    return rows


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
