"""One session of the page: the source, the lanes of work on it, and the release that may be confirmed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from duckanon.connection import connect
from duckanon.errors import InvalidInput
from duckanon.integrations.explore.catalog import Catalog
from duckanon.integrations.explore.choices import Choices
from duckanon.integrations.explore.jobs import Job, Jobs, Lane, Running
from duckanon.integrations.explore.kept import Kept
from duckanon.integrations.explore.questions import questions
from duckanon.integrations.explore.questions.suppressed_tables import ForPrint
from duckanon.integrations.explore.release_kinds import KINDS
from duckanon.integrations.explore.releases import Plans, make, planned
from duckanon.integrations.explore.report_page import report_page
from duckanon.integrations.explore.source import Source
from duckanon.integrations.reading import Reading


class _Messages(logging.Handler):
    """Shows duckanon's log messages, such as that its engines are being compiled, as what a job does."""

    def __init__(self, lanes: dict[str, Lane]) -> None:
        super().__init__(logging.INFO)
        self._lanes = lanes

    def emit(self, record: logging.LogRecord) -> None:
        for lane in self._lanes.values():
            if lane.job is not None and record.levelno < logging.ERROR:
                lane.job.step = record.getMessage()


class Explorer:
    """A session about one file. Raises as `Source`; close it at the end.

    Work that tells its progress runs in the lane `long`, quick questions in `short`, and simulations in a database of
    their own. session: the file that it may be kept in, if not beside the data. report: the latest privacy report, as
    HTML. printed: the latest table for print, with the file's name.
    """

    def __init__(self, path: Path, reading: Reading | None = None, session: Path | None = None) -> None:
        self.kept = Kept(path, session)
        self.source = Source(path, lambda step, share: self._lanes["long"].tell(step, share), reading)
        self._lanes = {
            "short": Lane("short", self.source.cursor),
            "long": Lane("long", self.source.cursor),
            "simulation": Lane("simulation", self._made_up),
        }
        self.jobs = Jobs(self._lanes)
        self.report: str | None = None
        self.printed: tuple[str, bytes] | None = None
        self._plans = Plans()
        self._kinds = questions()
        self._seen = monotonic()
        self._messages = _Messages(self._lanes)
        logging.getLogger("duckanon").addHandler(self._messages)
        self._read_catalog()

    def _made_up(self) -> Any:
        return connect(role="steward", progress=self._lanes["simulation"].tell)

    def _read_catalog(self) -> None:
        with self.source.cursor() as con:
            self.catalog = Catalog.of(con)

    def see(self) -> None:
        """Note that somebody is there."""
        self._seen = monotonic()

    @property
    def idle(self) -> float:
        """For how many seconds nobody has asked and nothing has run."""
        if self.jobs.is_busy:
            self.see()
        return monotonic() - self._seen

    def ask(self, kind: object, value: object) -> Job:
        """The job that answers a question. Raises InvalidInput for a question that is none."""
        found = self._kinds.get(kind) if isinstance(kind, str) else None
        if found is None:
            raise InvalidInput("There is no such question.")
        choices = Choices(value, self.catalog)
        question = found.read(choices)
        choices.finish()
        return self.jobs.ask(found.lane, question.answer, (question, self.source.version))

    def plan(self, kind: object, value: object) -> Job:
        """The job that plans a release, so that it can be confirmed. It reads budgets and changes nothing."""
        found = KINDS.get(kind) if isinstance(kind, str) else None
        if found is None:
            raise InvalidInput("There is no such release.")
        choices = Choices(value, self.catalog)
        wanted = found.read(choices)
        choices.finish()

        def work(run: Running) -> object:
            return self._plans.offer(planned(wanted, self.source, self.catalog, run)).told()

        return self.jobs.ask("short", work)

    def confirm(self, nonce: object) -> Job:
        """The job that makes the planned release. Raises InvalidInput if the nonce is not that of the latest plan."""
        plan = self._plans.take(nonce)

        def work(_: Running) -> object:
            until = Event()
            try:
                waits = self._lanes["short"].held(until)
                self._lanes["long"].rest()
                waits.wait()
                return make(plan, self.source)
            finally:
                until.set()
                self._read_catalog()

        return self.jobs.ask("long", work, is_final=True)

    def write_report(self) -> Job:
        """The job that makes the privacy report of the database, to be fetched as `report`."""

        def work(run: Running) -> object:
            self.report = report_page(run.con, self.source)
            return {"bytes": len(self.report)}

        return self.jobs.ask("long", work)

    def print_table(self, value: object) -> Job:
        """The job that writes a suppressed table for print, to be fetched as `printed`. Raises InvalidInput."""
        choices = Choices(value, self.catalog)
        wanted = ForPrint.read(choices)
        choices.finish()

        def work(run: Running) -> object:
            self.printed = wanted.name, wanted.file(run)
            return {"name": wanted.name, "bytes": len(self.printed[1])}

        return self.jobs.ask("long", work)

    def told(self) -> str:
        """What the page shows at its head, as JSON."""
        return json.dumps(
            {
                "name": self.source.path.name,
                "is_database": self.source.is_database,
                "version": self.source.version,
                "told": self.source.told,
                "kept": self.kept.told(),
                "keeps_in": self.kept.path.name,
            }
        )

    def close(self) -> None:
        """Cancel what runs, and close everything."""
        logging.getLogger("duckanon").removeHandler(self._messages)
        self.jobs.stop_all()
        for lane in self._lanes.values():
            lane.close()
        self.source.close()
