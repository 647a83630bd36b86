"""Settings for all tests."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from typing import Any

# Read where numpy is imported. Threads that wait for work take time from the processes beside them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import duckdb
import pytest
from hypothesis import settings

import duckanon
from duckanon.engines import randomness
from duckanon.rewrite import rule_context
from tests.amounts import PROFILE, not_with_oldest, seldom
from tests.extras import Extras
from tests.shared_connection import Beginnings, Begun, Make, SharedConnection

# A recogniser's failure fails the test; in production it is logged, and nothing is recognised.
rule_context.STRICT = True
# Draws from a seed are the same whatever tests came before in the process.
randomness._is_loaded = lambda: False
# Most tests are about any release. Those about the best ones take the fixture `whole_search`.
refine: Any = import_module("duckanon.engines.kanon.methods.refine")
refine.TRIES, _WHOLE = 10_000, refine.TRIES

# Nothing that is imported and collected is garbage.
gc.disable()

# The first example of a test may compile a kernel, so no example has a deadline.
settings.register_profile("oldest", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("quick", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("short", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("ci", deadline=None, max_examples=14, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile(PROFILE)

_MEMORY, _ROOM = "/dev/shm", 4 << 30
# Each commit of a database waits for the disk: where a folder in memory has room, databases of tests stand there.
if "TMPDIR" not in os.environ and os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY


def pytest_xdist_auto_num_workers() -> int:
    """Two processes for each core: tests wait half of their time, for a server, a browser or a program they started."""
    return 2 * (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    """Registered as a plugin of its own, it sees the modules of duckanon too, whose examples are tests."""
    config.pluginmanager.register(Extras())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in seldom(items):
        item.add_marker(pytest.mark.long("most cases of long lists, where most tests open a database"))
    if PROFILE == "oldest":
        left_out = not_with_oldest(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [one for one in items if one not in set(left_out)]


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end, so the garbage collector looks through it seldom.

    (Not never, by `gc.freeze`: Hypothesis 6.115 asks the collector who holds its generator of random numbers.)
    """
    gc.set_threshold(20_000, 50, 100)
    gc.enable()


@pytest.fixture(scope="session")
def shared_connection() -> Iterator[SharedConnection]:
    with closing(SharedConnection()) as connection:
        yield connection


@pytest.fixture
def con(shared_connection: SharedConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A plain DuckDB connection with duckanon on it, and an empty database `memory`.

    For a test that makes cursors or replaces macros there is `own_con`: a cursor does not begin in the database that is
    in use, and macros stay.
    """
    yield shared_connection.begin()
    shared_connection.end()


@pytest.fixture(scope="session")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Beginnings:
    return Beginnings(tmp_path_factory.mktemp("beginnings"))


@pytest.fixture
def begun(con: duckdb.DuckDBPyConnection, beginnings: Beginnings) -> Begun:
    """`begun(make)` is `con` with what the function `make` leaves in its database, for which it is called once."""

    def filled(make: Make) -> duckdb.DuckDBPyConnection:
        beginnings.fill(con, make)
        return con

    return filled


@pytest.fixture(scope="module")
def whole_search() -> Iterator[None]:
    """k_anonymize tries as often as it does for users."""
    refine.TRIES, brief = _WHOLE, refine.TRIES
    yield
    refine.TRIES = brief


@pytest.fixture
def own_con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A plain DuckDB connection of the test's own, with duckanon on it."""
    with duckdb.connect() as connection:
        yield duckanon.register(connection)


def pytest_unconfigure() -> None:
    """Hypothesis leaves a callback with the garbage collector, which keeps modules alive to the interpreter's end.

    DuckDB's bindings would report that as leaks, after pytest's last line.
    """
    gc.callbacks.clear()
