"""The page of `duckanon explore` on Adult: first paint, all designs, a click to its picture, cancelling, and memory.

    python -m tests.bench.explore ../shared/data/adult.parquet

The part `train` of Adult, 32,561 rows, in a database. The page runs in a process of its own and is used in Chromium.
Engines are compiled before. Times are those that a user waits: until the picture stands. The memory is read on Linux.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

VARIABLES = "age workclass education marital_status occupation race sex native_country".split()
CLICKS = 15
FLAGS = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync".split()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("adult", type=Path, help="adult.parquet")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adult.duckdb"
        with duckdb.connect(path) as con:
            con.execute("CREATE TABLE adult AS SELECT * FROM read_parquet(?) WHERE part = 'train'", [str(given.adult)])
        measure(path)


def measure(path: Path) -> None:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "duckanon.integrations.cli", "explore", str(path), "--no-browser"]
    began = time.perf_counter()
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert served.stdout is not None
    try:
        address = served.stdout.readline().split()[-1]
        print(f"listening after {time.perf_counter() - began:.2f} s")
        with sync_playwright() as play:
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
            use(browser.new_page(viewport={"width": 1280, "height": 800}), address)
            browser.close()
        print(f"peak memory of the page's process: {_peak(served.pid)} MB")
    finally:
        served.terminate()
        served.wait(10)


def use(page: Any, address: str) -> None:
    began = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.get_by_text("32,561 rows").first.wait_for()
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"first paint {paint / 1000:.2f} s, the table with its figures {time.perf_counter() - began:.2f} s")
    # In this order: cancelled work is not kept.
    page.goto(f"{page.url.partition('#')[0]}#designs?table=adult&" + "&".join(f"variables={one}" for one in VARIABLES))
    page.reload()
    button = page.get_by_role("button", name="Compute all designs")
    page.get_by_text("6,050 designs").wait_for()
    for _ in range(2):
        button.click()
        page.get_by_role("button", name="Cancel").wait_for()
        time.sleep(1)
        began = time.perf_counter()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Cancelled.").wait_for()
        print(f"cancelled after {time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    button.click()
    page.get_by_text("6,050 of 6,050 designs shown").wait_for(timeout=120_000)
    print(f"all designs in a picture: {time.perf_counter() - began:.2f} s")
    listed = page.locator(".list button")
    waited = []
    for i in range(min(CLICKS, listed.count())):
        page.evaluate("delete document.body.dataset.bounds")
        began = time.perf_counter()
        listed.nth(i).click()
        page.wait_for_selector("body[data-bounds]")
        waited.append(time.perf_counter() - began)
    print(f"a click to its picture: median {median(waited):.2f} s, most {max(waited):.2f} s, of {len(waited)}")


def _peak(pid: int) -> int:
    """The most memory that a process has had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
