"""Runs dbt several times in one process, as its own tests do, and prints what came of each run as JSON.

usage: python -m tests.integrations.dbt.dbt_driver '[["build"], ["run", "--select", "a"]]'
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    # Collecting the tests imports this module; dbt's oldest version warns when it is loaded.
    from dbt.cli.main import dbtRunner

    said: list[str] = []
    done: list[dict[str, Any]] = []

    def listen(event: Any) -> None:
        if event.info.level != "debug":
            said.append(str(event.info.msg))

    runner = dbtRunner(callbacks=[listen])
    for arguments in json.loads(sys.argv[1]):
        said.clear()
        result = runner.invoke([*arguments, "--quiet"])
        nodes = getattr(result.result, "results", None) or []
        done.append(
            {
                "success": result.success,
                "nodes": {
                    one.node.name: [str(one.status), str(one.message or "")] for one in nodes if hasattr(one, "node")
                },
                "said": list(said),
                "exception": str(result.exception or ""),
            }
        )
    print("\n" + json.dumps(done))


if __name__ == "__main__":
    main()
