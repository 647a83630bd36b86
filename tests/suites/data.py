"""Makes the suites' data outside the repository: python -m tests.suites.data --clickbench FOLDER [--data FOLDER].

The packages that generate TPC-H and TPC-DS work with DuckDB 1.5.5 only, so they get an environment of their own in the
folder. --clickbench: a checkout of ClickHouse/ClickBench (Apache 2.0), whose 43 queries and table are read; its `hits`
is made here, from a seed. Everything becomes Parquet, one folder for each suite and scale, and takes half a gigabyte.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "suites-data"
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpch==1.5.5", "duckdb-extension-tpcds==1.5.5")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.data", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--clickbench", type=Path, required=True)
    chosen = parser.parse_args()
    python = chosen.data / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(chosen.data / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    generate = Path(__file__).with_name("generate.py")
    sys.exit(subprocess.run([python, generate, chosen.data, chosen.clickbench], check=False).returncode)


if __name__ == "__main__":
    main()
