"""Compile every engine ahead of its first call, a process for each group of calls: for container images and CI."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from duckanon.engines.registry import families

# 60 records with numbers, a category that may be NULL, a sensitive value, and two levels of regions.
_TABLE = """
CREATE TABLE t AS SELECT i AS id, i % 5 AS x, i // 5 AS y, i * i % 31 AS age, nullif('c' || i % 7, 'c3') AS city,
  'v' || i % 4 AS vote, i % 9 AS score, 's' || i // 30 AS state, 'h' || i // 3 AS household FROM range(60) r(i);
CREATE VIEW few AS FROM t WHERE id < 9
"""
_KANON = "FROM k_anonymize('t', ['age', 'city'], k := 3, categorical := ['city'], {})"
_SENSITIVE = "sensitive := ['vote', 'score'], {}"
_MILP = "FROM k_anonymize('few', ['age', 'city'], k := 3, categorical := ['city'], method := 'milp')"
_SQUARES = "['age'], k := 3, objective := 'sse'"
_COMPARE = "FROM k_compare('t', ['age', 'city'], k := 3, categorical := ['city'])"
_GROUPS = "FROM dp_group_sizes('t', 'household', ['state'], epsilon := 1, max_size := 5, mechanism := '{}')"
_METRIC = "FROM metric_mechanism('few', 'id', ['x', 'y'], epsilon := 2, method := '{}')"
# Methods of k_anonymize that share most of what they compile.
_EXACT = ("exact", "split_carry", "bubble_carry")


def groups() -> dict[str, list[str]]:
    """Calls that together reach every engine. The groups share few compiled functions, so they can run side by side."""
    methods = families()
    kanon = [name for name in methods["kanon"] if name not in (*_EXACT, "milp") and not name.startswith("doka")]
    asked = ("l := 2", "l := 1.5, diversity := 'entropy'", "l := 2, c := 4, diversity := 'recursive'", "t := 0.5")
    criteria = [_KANON.format("method := 'order', " + _SENSITIVE.format(text)) for text in asked]
    finer = "CREATE TABLE finer AS " + _KANON.format("method := 'order'")
    within = (
        "FROM k_anonymize('t', ['age', 'city'], k := 6, categorical := ['city'], drop := ['id'], within := 'finer')"
    )
    return {
        "k_anonymize": [_KANON.format(f"method := '{name}'") for name in kanon],
        "k_anonymize, exact": [*(_KANON.format(f"method := '{name}'") for name in _EXACT), _MILP],
        "k_anonymize, criteria": [*criteria, finer, within],
        "k_anonymize, units": [_KANON.format("unit := 'household', max_suppression := 0.1")],
        "k_compare": [_COMPARE, "FROM k_certificate('t', ['age', 'city'], k := 3, categorical := ['city'])"],
        "squares": [
            f"CREATE TABLE proof AS FROM k_certificate('t', {_SQUARES})",
            f"FROM k_certificate_check('t', 'proof', {_SQUARES})",
        ],
        "record_risk": ["FROM record_risk('t', ['age', 'city'])"],
        "dp_group_sizes": [_GROUPS.format(name) for name in methods["groups"]],
        "cells": ["FROM cell_bounds('t', ['city'], ['vote'])", "FROM disclosure_report('t', ['city'], ['vote'])"],
        "metric": [_METRIC.format(name) for name in methods["metric"]],
    }


def warm(chosen: Sequence[str] = (), report: Callable[[str], None] = lambda _: None) -> None:
    """Compile the engines that these groups of calls reach, or all, on as many processors as there are.

    report: called with the name of each group when it is done. Raises subprocess.CalledProcessError if a call fails.
    """
    calls = {name: statements for name, statements in groups().items() if not chosen or name in chosen}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in pool.map(lambda item: _run(*item), calls.items()):
            report(name)


def _run(name: str, statements: Sequence[str]) -> str:
    try:
        subprocess.run([sys.executable, "-m", __name__, *statements], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        error.add_note(f"{name} failed with:\n{error.stderr}")
        raise
    return name


if __name__ == "__main__":
    from duckanon.connection import connect

    con = connect()
    for statement in (_TABLE, *sys.argv[1:]):
        con.execute(statement).fetchall()
