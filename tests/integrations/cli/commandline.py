"""Runs the command line, in this process or in one of its own."""

import csv
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from duckanon.integrations.cli.commands import app
from duckanon.specification import sql_root

VOTERS = str(sql_root() / "examples" / "voters.csv")
ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(
    *arguments: str, stdin: str | bytes | None = None, columns: int | None = None, encoding: str = "utf-8"
) -> Result:
    """encoding: of the output."""
    env = {"COLUMNS": None if columns is None else str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    return CliRunner(encoding, env=env).invoke(app, list(arguments), input=stdin)


def process(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "duckanon.integrations.cli", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    return subprocess.Popen(command, **(pipes | more))


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def smallest(classes):
    return min(Counter(classes).values())
