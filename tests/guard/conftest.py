"""The population of `residents`, fresh for each test, and what was drawn of it."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import PaidQuestion
from tests.guard.residents import make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("composition") / "x.duckdb")


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A budget of four questions, two of them an edition."""
    return make(tmp_path_factory.mktemp("poor") / "x.duckdb", epsilon="4", more="per_edition := 2,")


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    copyfile(made, tmp_path / "x.duckdb")
    return tmp_path / "x.duckdb"


@pytest.fixture
def scarce(poor: Path, tmp_path: Path) -> Path:
    copyfile(poor, tmp_path / "x.duckdb")
    return tmp_path / "x.duckdb"


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[PaidQuestion]:
    """What was drawn: all that depends on records passes here."""
    found: list[PaidQuestion] = []
    drawn = mechanisms.draw

    def spy(con: Any, asked: PaidQuestion) -> Any:
        found.append(asked)
        return drawn(con, asked)

    monkeypatch.setattr(mechanisms, "draw", spy)
    return found
