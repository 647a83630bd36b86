"""A line on stderr with what runs and how far it is, shown if it takes over two seconds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from duckanon.integrations.terminal.output import printable

_PATIENCE = 2.0
_REFRESH = 0.1


class _Clock(ProgressColumn):
    """The time since the start. Rich's own column stops for good when a step is done, although the next one runs."""

    def render(self, task: Task) -> Text:
        return Text(str(timedelta(seconds=int(task.get_time() - (task.start_time or 0)))))


class ProgressLine(logging.Handler):
    """The progress line. It may be updated from any thread. It appears only on a terminal, and is erased at the end."""

    def __init__(self, console: Console, patience: float = _PATIENCE) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self._patience = patience
        self._step = ""
        self._share: float | None = None

    def tell(self, step: str, share: float | None = None) -> None:
        """Set what runs, and the share done (0 to 1) if known."""
        self._step, self._share = step, share

    def emit(self, record: logging.LogRecord) -> None:
        """Show duckanon's log messages, such as that its engines are being compiled."""
        self.tell(record.getMessage())

    @contextmanager
    def shown(self, step: str) -> Iterator[None]:
        """Show the line while the body runs, once it has taken longer than `patience` seconds."""
        self.tell(step)
        log = logging.getLogger("duckanon")
        log.addHandler(self)
        done = Event()
        drawer = Thread(target=self._draw, args=(done,), daemon=True) if self._console.is_terminal else None
        try:
            if drawer:
                drawer.start()
            yield
        finally:
            done.set()
            if drawer and drawer.ident:
                drawer.join()
            log.removeHandler(self)

    def _draw(self, done: Event) -> None:
        if done.wait(self._patience):
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            _Clock(),
        )
        # Answers are printed after the line is erased, so stdout need not be redirected.
        with Progress(
            *columns, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
        ) as bar:
            bar.add_task("", total=None)
            task = bar.tasks[0]
            task.start_time = bar.get_time() - self._patience
            while True:
                share = self._share
                task.description = printable(self._step)
                task.total, task.completed = None if share is None else 1.0, share or 0.0
                if done.wait(_REFRESH):
                    return
