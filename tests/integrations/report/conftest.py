"""A database for the tests of all pages."""

from pathlib import Path

import pytest

from tests.integrations.report import databases


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with everything that a page may show."""
    return databases.shop(tmp_path_factory.mktemp("shop") / "shop.duckdb")
