"""Pieces of long results wait for statements that have just begun, and never for long."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event, Thread
from time import perf_counter

import pytest

from duckanon.server import first_rows
from duckanon.server.first_rows import FirstRows

SHORT, LONG = 0.05, 20.0


def set_in_a_piece(shared: FirstRows) -> Event:
    """An event that a thread sets once it may write a piece."""
    written = Event()

    def write() -> None:
        with shared.behind():
            written.set()

    Thread(target=write, daemon=True).start()
    return written


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> FirstRows:
    monkeypatch.setattr(first_rows, "_YOUNG", LONG)
    monkeypatch.setattr(first_rows, "_MOST", LONG)
    return FirstRows()


def test_a_piece_waits_for_a_statement_that_has_just_begun(patient: FirstRows) -> None:
    with patient.awaited():
        written = set_in_a_piece(patient)
        assert not written.wait(SHORT)
    assert written.wait(LONG)


def test_one_piece_at_a_time(patient: FirstRows) -> None:
    with patient.behind():
        written = set_in_a_piece(patient)
        assert not written.wait(SHORT)
    assert written.wait(LONG)


def test_an_old_statement_holds_up_no_piece(patient: FirstRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "_YOUNG", -1.0)
    with patient.awaited():
        assert set_in_a_piece(patient).wait(LONG / 2)


@pytest.mark.parametrize("context", [FirstRows.awaited, FirstRows.behind])
def test_a_piece_waits_for_a_moment_only(context: Callable[[FirstRows], AbstractContextManager[None]]) -> None:
    shared = FirstRows()
    began = perf_counter()
    with context(shared):
        assert set_in_a_piece(shared).wait(LONG)
    assert perf_counter() - began < LONG / 2


def test_what_fails_holds_up_nobody(patient: FirstRows) -> None:
    for context in (patient.awaited, patient.behind):
        with pytest.raises(ZeroDivisionError), context():
            raise ZeroDivisionError
    assert set_in_a_piece(patient).wait(LONG)
