"""A served database: a protected table, an open one, and five users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

from tests.guard.residents import make
from tests.server.served import Served, serving


@pytest.fixture(scope="session")
def residents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("served") / "people.duckdb")


@pytest.fixture
def database(residents: Path, tmp_path: Path) -> Path:
    """A copy of its own."""
    copyfile(residents, tmp_path / "people.duckdb")
    return tmp_path / "people.duckdb"


@pytest.fixture
def served(database: Path) -> Iterator[Served]:
    with serving(database) as found:
        yield found
