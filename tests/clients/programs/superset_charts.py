"""Superset's statements for PostgreSQL: its engine specification writes the time grains and the time filters of charts.

Runs inside the environment where apache-superset is installed. The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and
PGDATABASE. Prints a line for each step.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

SINCE, UNTIL = datetime(2024, 2, 1), datetime(2025, 2, 1)


def specification() -> Any:
    own = Path(tempfile.mkdtemp()) / "superset_config.py"
    none = "{'CACHE_TYPE': 'NullCache'}"
    own.write_text(
        f"SECRET_KEY = 'only for a test'\nFILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {none}\n"
    )
    os.environ["SUPERSET_CONFIG_PATH"] = str(own)
    from superset.app import create_app

    application = create_app()
    application.app_context().push()
    from superset.db_engine_specs.postgres import PostgresEngineSpec

    return PostgresEngineSpec


def statements(spec: Any) -> list[tuple[str, str]]:
    """Charts over time as Superset writes them, of an open table and of a protected one."""
    found = [("version", "SELECT version()")]
    for table, column, kind in (
        ("visits", "visit_ts", "TIMESTAMP"),
        ("visits", "day", "DATE"),
        ("persons", "visit_ts", "TIMESTAMP"),
    ):
        first, last = spec.convert_dttm(kind, SINCE), spec.convert_dttm(kind, UNTIL)
        limits = f"{column} >= {first} AND {column} < {last}"
        grains = spec.get_time_grain_expressions()
        for grain, written in grains.items():
            if table == "persons" and grain not in (None, "P1M"):
                continue
            shown = written.replace("{col}", column)
            found.append((
                f"{table}.{column} by {grain}",
                f"SELECT {shown} AS {column}, COUNT(*) AS count FROM main.{table} WHERE {limits} GROUP BY {shown} "
                "ORDER BY count DESC LIMIT 10000" if grain else
                f"SELECT COUNT(*) AS count FROM main.{table} WHERE {limits} LIMIT 50000",
            ))  # fmt: skip
    found += [
        ("samples", "SELECT * FROM main.visits LIMIT 100"),
        (
            "pie",
            "SELECT county AS county, COUNT(*) AS count FROM main.persons GROUP BY county ORDER BY count DESC LIMIT 9",
        ),
        ("values of a filter", "SELECT DISTINCT shop AS shop FROM main.visits ORDER BY shop ASC LIMIT 1000"),
        ("SQL Lab", "SELECT *\nFROM main.counties\nLIMIT 1001"),
    ]
    return found


def main() -> int:
    import sqlalchemy as sa

    of = os.environ
    address = f"{of['PGUSER']}:{of['PGPASSWORD']}@{of['PGHOST']}:{of['PGPORT']}/{of['PGDATABASE']}"
    spec, engine, failed = specification(), sa.create_engine(f"postgresql+psycopg2://{address}"), 0
    seen = sa.inspect(engine)
    print("tables", "ok", sorted(seen.get_table_names("main") + seen.get_view_names("main")), sep="\t")
    print("columns", "ok", len(seen.get_columns("visits", "main")), sep="\t")
    for name, text in statements(spec):
        try:
            with engine.connect() as con:
                print(name, "ok", len(con.exec_driver_sql(text).fetchall()), sep="\t", flush=True)
        except sa.exc.SQLAlchemyError as error:
            failed += 1
            print(name, "error", str(error).splitlines()[0][:200], text[:200].replace("\n", " "), sep="\t", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
