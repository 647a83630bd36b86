"""dbt-postgres as a steward: debug, seed, run (a table, a view, an incremental model), test, docs, list.

The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE; dbt is that of this Python's environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_FILES = {
    "dbt_project.yml": "name: served\nversion: 1.0\nprofile: served\nmodel-paths: [models]\nseed-paths: [seeds]\n"
    "flags: {send_anonymous_usage_stats: false}\n",
    "seeds/regions.csv": "region,label\nr1,North\nr2,South\n",
    "models/by_shop.sql": "{{ config(materialized='table') }} SELECT shop, count(*) AS n FROM main.visits GROUP BY 1",
    "models/labelled.sql": "{{ config(materialized='view') }} SELECT county, label FROM main.counties",
    "models/days.sql": "{{ config(materialized='incremental', unique_key='day') }} "
    "SELECT day, count(*) AS n FROM main.visits "
    "{% if is_incremental() %} WHERE day > DATE '2024-02-01' {% endif %} GROUP BY day",
    "models/schema.yml": "models:\n  - name: by_shop\n    columns:\n"
    "      - {name: shop, data_tests: [not_null, unique]}\n",
}
_COMMANDS = (["debug"], ["seed"], ["run"], ["run"], ["test"], ["docs", "generate"], ["list"])


def main() -> int:
    home = Path(tempfile.mkdtemp())
    for name, text in _FILES.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    of = os.environ
    (home / "profiles.yml").write_text(
        "served:\n  target: own\n  outputs:\n"
        f"    own: {{type: postgres, host: {of['PGHOST']}, port: {of['PGPORT']}, user: {of['PGUSER']}, "
        f"password: {of['PGPASSWORD']}, dbname: {of['PGDATABASE']}, schema: main, threads: 1}}\n"
    )
    failed = 0
    for given in _COMMANDS:
        run = [sys.executable, "-m", "dbt.cli.main", *given, "--profiles-dir", str(home), "--project-dir", str(home)]
        done = subprocess.run(run, text=True, capture_output=True, timeout=120, check=False, cwd=home)
        problem = next(
            (one for one in done.stdout.splitlines() if "rror" in one and "ERROR=0" not in one), "no message"
        )
        print(" ".join(given), "ok" if done.returncode == 0 else f"error {problem[:300]}", sep="\t", flush=True)
        failed += done.returncode != 0
        if done.returncode:
            print(done.stdout[-3000:], file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
