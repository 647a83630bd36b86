"""Every example in sql/examples runs as it stands."""

from pathlib import Path

import duckdb
import pytest

EXAMPLES = Path(__file__).parents[1] / "sql" / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.sql")), ids=lambda file: file.stem)
def test_example(con: duckdb.DuckDBPyConnection, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    statements = con.extract_statements(file.read_text(encoding="utf-8"))
    assert statements
    for statement in statements:
        con.execute(statement).fetchall()
