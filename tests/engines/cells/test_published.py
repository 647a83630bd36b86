"""Tables 1 to 9 of Wright and Smucker 2014."""

import csv
from pathlib import Path

import numpy as np
import pytest

from duckanon.engines.cells import reachable_sums as sums_module
from duckanon.engines.cells import viability as viability_module
from duckanon.engines.cells.audit import audit_table
from duckanon.engines.cells.knapsack import FREE, Feasible, knapsack
from duckanon.engines.cells.methods import METHODS
from duckanon.engines.cells.reduction import Reduced, reduce
from tests.engines.cells import plain

PUBLISHED = Path(__file__).parents[3] / "fixtures" / "published"
EXACT = [method for method in METHODS.values() if method.every_value]


def read(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / f"wright_smucker_{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table_1(which: str) -> list[list[int]]:
    return [[int(line["alpha"]), int(line["beta"])] for line in read("table_1") if line["table"] == which]


def table_8() -> list[list[int]]:
    return [[int(line[name]) for name in ("poor", "modest", "excellent")] for line in read("table_8")]


def reduced(table: list[list[int]]) -> Reduced:
    return reduce(*plain.arrays(table))


def test_tables_1_and_2() -> None:
    """The two tables are the only ones with their proportions and N = 48; their reduced sums are those of Table 2."""
    found = {tuple(map(tuple, table_1(which))) for which in "ab"}
    assert set(plain.tables_like(table_1("a"))) == found
    for which in "ab":
        table = reduced(table_1(which))
        assert table.sums.tolist() == [7, 8, 5, 9]
        assert (table.total, table.reduced_total, table.target) == (48, 29, 19)


@pytest.mark.parametrize("which", ["a", "b"])
def test_table_6(which: str) -> None:
    table = reduced(table_1(which))
    found = audit_table(table)
    unit = np.array(table_1(which)) // table.divisors[:, None]
    bounds = np.stack([unit * found.lower[:, None], unit * found.upper[:, None]], axis=2)
    printed = [[int(line["lower"]), int(line["upper"])] for line in read("table_6")]
    assert bounds.reshape(-1, 2).tolist() == printed
    values = {"A": [0, 2], "B": [0], "C": [1, 2], "D": [0, 1]}
    assert [found.feasible.values(k) for k in found.kind.tolist()] == list(values.values())


@pytest.mark.parametrize(("table", "target"), [("3", 19), ("4", 19), ("9", 34)])
def test_tables_3_4_and_9(table: str, target: int) -> None:
    listed = np.zeros(1, dtype=np.int64)
    viable = viability_module._cut(1, target)
    for line in read("remainders"):
        if line["table"] != table:
            continue
        printed = sorted(int(x) for name in ("remainders", "left_out_in_print") for x in line[name].split())
        listed = sums_module._update(listed, int(line["r"]), FREE, target)
        assert listed.tolist() == printed
        viable = viability_module._update(viable, int(line["r"]), FREE, plain=True)
        assert [c for c in range(target + 1) if c in viable] == printed


@pytest.mark.parametrize("table", ["5", "7"])
def test_tables_5_and_7(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide and conquer takes rows in, and copies what it has, in the printed order."""
    printed = {int(line["optimized"]): line["order"] for line in read("reuse") if line["table"] == table}
    rows = len(printed)
    first = 1000
    past: list[tuple[object, list[int]]] = []
    read_in: dict[int, str] = {}

    def history(viable: object) -> list[int]:
        return next((taken for one, taken in past if one is viable), [])

    def update(viable: object, item: int, supply: int, *, plain: bool) -> object:
        if supply == 0:
            return viable
        fresh = viability_module._Viable(1, 10**6)
        past.append((fresh, [*history(viable), item - first]))
        return fresh

    def note(viable: object, item: int, upper: int, target: int) -> list[range]:
        read_in[item - first] = " ".join(map(str, history(viable)))
        return [range(1)]

    monkeypatch.setattr(viability_module, "_update", update)
    monkeypatch.setattr(viability_module, "_read", note)
    problem, _ = knapsack(first + np.arange(1, rows + 1), 10**6)
    viability_module.viability(problem)
    assert read_in == printed
    assert list(read_in) == list(printed)


def test_table_8() -> None:
    table = reduced(table_8())
    assert table.sums.tolist() == [int(line["r"]) for line in read("table_8")]
    assert (table.total, table.target) == (193, 34)
    problem, kind = knapsack(table.sums, table.target)
    for method in EXACT:
        found = method.run(problem)
        assert isinstance(found, Feasible)
        assert found.values(int(kind[4])) == [0, 1, 2, 3, 5, 6, 8, 9, 11, 14, 17], method.name
    fifth = audit_table(table)
    assert (fifth.lower[4], fifth.upper[4], fifth.count[4]) == (1, 18, 11)
