"""Asks the statements of bi.sql: a line for each. The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import psycopg

_TOOL = re.compile(r"^-- tool: (.*)\n", re.MULTILINE)


def main() -> int:
    failed = 0
    parts = _TOOL.split(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))[1:]
    with psycopg.connect(autocommit=True) as con:
        for tool, texts in zip(parts[::2], parts[1::2], strict=True):
            for text in texts.split(";\n"):
                if not text.strip():
                    continue
                said = "ok"
                try:
                    con.execute(text.encode())
                except psycopg.Error as error:
                    failed += 1
                    said = " ".join(f"error {error}".split())[:200]
                print(tool, said, " ".join(text.split())[:60], sep="\t", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
