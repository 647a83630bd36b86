"""The process's memory is limited, as DuckDB does not count what an expression makes of 2,048 rows at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from duckanon.governance import ledger
from duckanon.governance.draws import Draws
from duckanon.server.errors import pg_error
from duckanon.server.memory import most, size_in_bytes

_GIB = 1 << 30
# In a process of its own, since the limit is the process's. The text makes 2,048 texts of 100 MB.
_TAKES_ALL = """
import resource, duckdb
from duckanon.server import memory

memory._ITSELF = 200 << 20
limit, con = memory.ProcessMemory(), duckdb.connect(config={"threads": 1})
limit.limit(100 << 20)
try:
    con.execute("SELECT sum(length(repeat('x', 100000000 + x::INT))) FROM range(2048) r(x)").fetchall()
except duckdb.OutOfMemoryException:
    print("refused")
with limit.lifted():
    print(resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY)
print(resource.getrlimit(resource.RLIMIT_DATA)[0] < 20 << 30, con.execute("SELECT 1").fetchall())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_short_text_does_not_take_the_machine() -> None:
    done = subprocess.run([sys.executable, "-c", _TAKES_ALL], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["refused", "True", "True [(1,)]"]


@pytest.mark.parametrize(
    ("duckdbs", "machines", "expected"),
    [(_GIB, 64 * _GIB, 4 * _GIB), (50 * _GIB, 64 * _GIB, int(0.9 * 64 * _GIB)), (6 * _GIB, 8 * _GIB, 8 * _GIB)],
)
def test_how_much_the_process_may_have(duckdbs: int, machines: int, expected: int) -> None:
    assert most(duckdbs, machines) == expected
    assert size_in_bytes("1.5 GiB") == 3 * _GIB // 2


def test_where_others_have_the_memory_a_draw_is_made_again_alone() -> None:
    """Python and numpy raise errors of their own at the limit."""
    draws, tries, kept = Draws(), list[int](), list[int]()
    draws.start()

    def draw() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError
        return 7

    draws.begin(("a question", 1), draw, kept.append, lambda _: kept.append(-1)).result(10)  # type: ignore[arg-type]
    draws.end()
    assert kept == [7]
    assert pg_error(MemoryError(), all_words=False).code == "53200"


@pytest.mark.parametrize("refuse", [ledger._busy, ledger._cannot_write])
def test_what_cannot_be_recorded_is_no_fault_of_the_statement(refuse: Callable[[str], Exception]) -> None:
    assert pg_error(refuse("x"), all_words=False).code == "58000"
