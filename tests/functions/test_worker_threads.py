"""What a thread of DuckDB's keeps from call to call."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa

from duckanon.functions.worker_threads import on_lasting_state


def _states(lasting: bool) -> dict[int, set[int]]:
    """The Python states that each of DuckDB's own threads had while it called a function many times."""
    con = duckdb.connect(config={"threads": 4})
    here, seen = threading.get_ident(), threading.local()
    states: dict[int, set[int]] = {}
    made = iter(range(10**9))

    def identity(values: pa.ChunkedArray) -> pa.Array:
        if threading.get_ident() != here:
            if not hasattr(seen, "state"):
                seen.state = next(made)
            states.setdefault(threading.get_ident(), set()).add(seen.state)
        return pa.array([0] * len(values))

    function = on_lasting_state(identity) if lasting else identity
    con.create_function("identity", function, ["BIGINT"], "BIGINT", type="arrow", side_effects=True)  # type: ignore[call-overload]
    con.execute("CREATE TABLE t AS SELECT i FROM range(1000000) r(i)")
    for _ in range(3):
        con.execute("SELECT sum(identity(i)) FROM t").fetchall()
    return states


def test_a_thread_keeps_its_state() -> None:
    states = _states(lasting=True)
    assert states, "no thread of DuckDB's called the function"
    assert all(len(of_thread) == 1 for of_thread in states.values())


def test_without_it_each_call_has_a_state_of_its_own() -> None:
    assert any(len(of_thread) > 1 for of_thread in _states(lasting=False).values())
