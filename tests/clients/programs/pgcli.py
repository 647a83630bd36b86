"""pgcli at a terminal: completion, \\d, a question, a chart, an export, a cancel. Prints one line for each step.

The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE; pgcli is that of this Python's environment.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

_STEPS = (
    ("tables", r"\dt"),
    ("schemas", r"\dn"),
    ("describe", r"\d persons"),
    ("describe more", r"\d+ main.visits"),
    ("views", r"\dv"),
    ("functions", r"\df"),
    ("types", r"\dT"),
    ("roles", r"\du"),
    ("databases", r"\l"),
    ("privileges", r"\dp"),
    ("since", "SELECT count(*) FROM visits WHERE visit_ts >= '2024-02-01';"),
    ("chart", "SELECT date_trunc('month', visit_ts) AS month, count(*) FROM visits GROUP BY 1 ORDER BY 1;"),
    ("protected chart", "SELECT county, count(*) AS n FROM persons GROUP BY county ORDER BY county;"),
    ("explain", "EXPLAIN SELECT county FROM counties;"),
    ("refused", "SELECT name FROM persons;"),
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_END = "step is over"


def main() -> int:
    import pexpect

    home = Path(tempfile.mkdtemp())
    (home / "config").write_text(
        "[main]\nless_chatty = True\nkeyring = False\nenable_pager = False\nmulti_line = False\n"
    )
    command = str(Path(sys.executable).with_name("pgcli"))
    environment = {**os.environ, "TERM": "dumb", "HOME": str(home), "PAGER": "cat"}
    asked = ["--pgclirc", str(home / "config")]
    shell = pexpect.spawn(command, asked, env=environment, encoding="utf-8", timeout=30, dimensions=(60, 200))
    shell.expect("> ")
    time.sleep(3)  # completions are read in another thread
    failed = 0
    for name, text in _STEPS:
        shell.sendline(text)
        time.sleep(1.2)
        shell.sendline(f"\\echo {_END}")
        shell.expect(f"\n{_END}")
        said = _ESCAPES.sub("", shell.before or "")
        problem = next(
            (one for one in said.splitlines() if re.search("Traceback|Error|error|cannot|does not", one)), ""
        )
        failed += bool(problem)
        print(name, problem or "ok", sep="\t", flush=True)
    shell.send("SELECT * FROM cou\t")
    time.sleep(2)
    shell.sendcontrol("c")
    time.sleep(1)
    shell.sendline("SELECT sum(a.visit * b.visit * c.visit) FROM visits a, visits b, visits c;")
    time.sleep(1.5)
    shell.sendcontrol("c")
    print("cancel", (shell.expect(["cancel", pexpect.TIMEOUT], timeout=10) and "not answered") or "ok", sep="\t")
    shell.sendline(r"\q")
    shell.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
