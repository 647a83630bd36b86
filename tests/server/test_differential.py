"""The differential of expressions in short: `python -m tests.server.differential` is the long run."""

from __future__ import annotations

from tests.amounts import many
from tests.server.differential import differences


def test_what_runs_for_an_expression_means_what_was_written() -> None:
    counts, found, _ = differences(many(200, least=60), seed=3)
    assert found == []
    assert counts["DuckDB rows, server rows"] > 10
