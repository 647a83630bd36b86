"""Programs that show budgets speak of those with a delta in the unit of their ledger."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput
from duckanon.integrations.explore.releases import _left
from duckanon.integrations.jupyter_banner import Charged
from duckanon.integrations.report.words import terms

PROTECT = """
SELECT protect('persons', population := 'people', privacy_unit := 'person', rows_per_unit := 1, epsilon := 3,
  delta := 1e-6, per_query := 0.01)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i AS person FROM range(9) r(i)").fetchall()
        con.execute(PROTECT).fetchall()
    return tmp_path / "x.duckdb"


def test_a_policy_in_words() -> None:
    policy = Policy(Fraction(3), "people", delta=Fraction(1, 10**6))
    assert terms(policy).startswith("Budget 3 with delta 1e-6 for people; a charge protects one record.")


def test_a_charge_in_a_notebook() -> None:
    charged = Charged("people", "0.01", "1.63", "gaussian, rho 1/910")
    assert charged.line == "0.01 (gaussian, rho 1/910) spent on people; 1.63 left."


def test_the_report(path: Path) -> None:
    facts = pytest.importorskip("duckanon.integrations.report.facts")
    with duckdb.connect(str(path)) as con:
        duckanon.register(con)
        told = con.sql("FROM privacy_budget()").to_arrow_table().to_pylist()
    found = SimpleNamespace(policies=[1], budgets=told, unlimited=[])
    (point,) = facts.Facts._budget_points(found)
    assert point.text == (
        "people: 0 of 1.647901930005 (Rényi divergences of order 9.1; epsilon 3, delta 1e-6) is spent, "
        "1.647901930005 is left: about 164 more counts at 0.01 each, within 42 of the truth."
    )


def test_a_release_on_the_page_of_choices(path: Path) -> None:
    with duckdb.connect(str(path)) as con:
        duckanon.register(con)

        def records(sql: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = con.sql(sql).to_arrow_table().to_pylist()
            return found

        run: Any = SimpleNamespace(records=records)
        kind: Any = SimpleNamespace(epsilon=Fraction(1, 10))
        assert _left(kind, run, "people") == ("1.647901930005", "1.607120934325")
        kind = SimpleNamespace(epsilon=Fraction(2))
        with pytest.raises(
            InvalidInput, match=r"^This release costs 1\.98\d+ \(Rényi divergence of order 9\.1\), and 1\.6479"
        ):
            _left(kind, run, "people")
