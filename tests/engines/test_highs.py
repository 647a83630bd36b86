"""All solvers of one thread get on with each other, in any order."""

import ast
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from threading import Timer
from time import monotonic

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from duckanon.cancellation import Flag, Stopped, working_for
from duckanon.engines import highs
from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.records import attribute, records
from duckanon.engines.metric.highs import Model
from duckanon.engines.suppression.solver import Choice, Program
from tests.engines.kanon import plain


def _k_anonymity(method: str) -> None:
    table = records([attribute("a", [1, 2, 5, 6, 9, 11])])
    assert plain.total_loss(table, plain.classes_of(anonymize(table, 3, method))) == pytest.approx(6 * 0.45)


def _metric() -> None:
    model = Model(np.ones(2), np.ones(2))
    found = model.solve(9.0)
    assert found is not None
    assert found.objective == pytest.approx(2)


def _suppression() -> None:
    program = Program(np.ones(2), np.ones(2), np.full(2, 3.0), primal=True)
    program.add(csr_array(np.ones((1, 2))), np.array([3.0]), np.array([6.0]))
    found = program.solve()
    assert found is not None
    assert found.objective == pytest.approx(3)


def _choice() -> None:
    choice = Choice(np.array([1.0, 2.0]), 9)
    choice.add(csr_array(np.ones((1, 2))))
    found = choice.solve()
    assert found is not None
    assert found.y.tolist() == [True, False]


SOLVERS: list[Callable[[], None]] = [
    lambda: _k_anonymity("exact"),
    lambda: _k_anonymity("milp"),
    _metric,
    _suppression,
    _choice,
]


def test_one_after_the_other() -> None:
    for one, other in permutations(SOLVERS, 2):
        one()
        other()


def test_an_integer_program_stops_with_its_statement() -> None:
    """A market split of 60 columns (Cornuejols and Dawande 1999), which takes hours."""
    random, columns = np.random.default_rng(35), 60
    rows = np.floor(100 * random.random((7, columns)))
    half = np.floor(rows.sum(axis=1) / 2)
    box = np.zeros(columns), np.ones(columns)
    program = highs.Program(np.ones(columns), csc_array(rows), half, half, *box, whole=np.ones(columns, np.bool_))
    flag = Flag()
    with working_for(flag):
        Timer(0.3, flag.set).start()
        began = monotonic()
        with pytest.raises(Stopped):
            highs.solved(program)
        assert monotonic() - began < 4


def test_every_program_of_an_engine_can_stop() -> None:
    """SciPy's `milp` and `linprog` cannot."""
    for path in Path(highs.__file__).parent.rglob("*.py"):
        text = path.read_text()
        names = {
            one.name
            for node in (ast.walk(ast.parse(text)) if "scipy.optimize" in text else ())
            if isinstance(node, ast.ImportFrom) and node.module == "scipy.optimize"
            for one in node.names
        }
        assert not names & {"milp", "linprog"}, path
