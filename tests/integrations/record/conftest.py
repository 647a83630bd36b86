"""The office whose record the tests check."""

from __future__ import annotations

from pathlib import Path

import pytest

CALL = "suppress('people', ['town'], ['sex'])"


@pytest.fixture(scope="package")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, a suppressed table as a file, a key, and the record."""
    # The extra of records may be missing where tests are collected.
    from tests.integrations.record.offices import make, recorded, run

    folder = tmp_path_factory.mktemp("office")
    make(
        folder,
        "CREATE TABLE people AS SELECT 'town ' || i % 5 AS town, (i // 5) % 3 AS sex FROM range(80) r(i) "
        "WHERE NOT (i % 5 = 1 AND (i // 5) % 3 = 1 AND i > 20)",
        "SELECT protect('people', epsilon := 1, public := ['town', 'sex'], small := 3, k := 3)",
        f"CREATE TABLE hidden AS FROM {CALL}",
        "SELECT publish('hidden', variables := ['town', 'sex'], value := 'value', suppressed := 'suppressed')",
        f"COPY duckanon.hidden TO '{folder}/hidden.csv'",
        f"COPY (FROM people LIMIT 3) TO '{folder}/other.csv'",
    )
    assert run("key", "new", folder / "office.key").exit_code == 0
    done = recorded(folder, "out.json", "--call", CALL)
    assert done.exit_code == 0, done.output
    return folder
