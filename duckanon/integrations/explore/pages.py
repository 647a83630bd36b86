"""The page's addresses: its files, questions, and releases. Everything that does something is a POST of JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duckanon.errors import InvalidInput
from duckanon.integrations.explore.explorer import Explorer
from duckanon.integrations.explore.jobs import Job

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# How long an answer waits for the work, so that quick work needs no second request. Seconds.
_WAIT, _GLANCE = 0.4, 0.005
# How long a cancelled job is interrupted before it is left to end by itself.
_INTERRUPTED = 0.25

Handler = Callable[[Any], Awaitable["Job | str | None"]]


def _files() -> dict[str, tuple[bytes, str]]:
    """The page's own files by address. All are read here, so no address can name another file."""
    folder = Path(__file__).parent / "static"
    paths = {f"/{path.name}": path for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
    paths["/"] = folder / "page.html"
    return {address: (path.read_bytes(), _TYPES[path.suffix]) for address, path in paths.items()}


def application(explorer: Explorer) -> Starlette:
    """The application about one session, without the checks of `access`."""
    files, jobs = _files(), _Jobs(explorer)

    async def file(request: Request) -> Response:
        content, kind = files[request.url.path]
        return Response(content, media_type=kind)

    async def session(_: Request) -> Response:
        return _json(explorer.told())

    async def report(_: Request) -> Response:
        return _report(explorer)

    async def printed(_: Request) -> Response:
        return _printed(explorer)

    gets = {**dict.fromkeys(files, file), "/session": session, "/report": report, "/printed": printed}
    posts = [
        Route(address, _posted(handler, known), methods=["POST"]) for address, (handler, known) in jobs.handlers.items()
    ]
    return Starlette(routes=[*(Route(address, handler) for address, handler in gets.items()), *posts])


def _report(explorer: Explorer) -> Response:
    if explorer.report is None:
        return JSONResponse({"error": "No report has been made yet."}, 404)
    return _download(explorer.report, f"{explorer.source.path.stem}-report.html", "text/html")


def _printed(explorer: Explorer) -> Response:
    if explorer.printed is None:
        return JSONResponse({"error": "No table has been made for print yet."}, 404)
    name, content = explorer.printed
    return _download(content, name, "application/octet-stream")


def _download(content: str | bytes, name: str, kind: str) -> Response:
    """A file to save. name: its name, from which other signs than ASCII's are left out."""
    plain = "".join(
        text for text in name.encode("ascii", "replace").decode() if text.isprintable() and text not in '"\\/'
    )
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{plain}"'})


class _Jobs:
    """What begins work, looks at it, or ends it. Each takes the fields of a request, and returns the job.

    What is done at once, to the file that the session is kept in, returns JSON.
    """

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    @property
    def handlers(self) -> dict[str, tuple[Handler, set[str]]]:
        """By address, each with the fields that it knows."""
        return {
            "/ask": (self._ask, {"question", "given"}),
            "/plan": (self._plan, {"kind", "given"}),
            "/confirm": (self._confirm, {"nonce"}),
            "/write-report": (self._write_report, set()),
            "/print": (self._print, {"given"}),
            "/keep": (self._keep, {"at", "solutions"}),
            "/forget": (self._forget, set()),
            "/poll": (self._poll, {"job"}),
            "/cancel": (self._cancel, {"job"}),
        }

    async def _ask(self, value: Any) -> Job | None:
        return self._explorer.ask(value.get("question"), value.get("given"))

    async def _plan(self, value: Any) -> Job | None:
        return self._explorer.plan(value.get("kind"), value.get("given"))

    async def _confirm(self, value: Any) -> Job | None:
        return self._explorer.confirm(value.get("nonce"))

    async def _write_report(self, _: Any) -> Job | None:
        return self._explorer.write_report()

    async def _print(self, value: Any) -> Job | None:
        return self._explorer.print_table(value.get("given"))

    async def _keep(self, value: Any) -> str:
        self._explorer.kept.keep(value.get("at"), value.get("solutions"))
        return "{}"

    async def _forget(self, _: Any) -> str:
        self._explorer.kept.forget()
        return "{}"

    async def _poll(self, value: Any) -> Job | None:
        return self._explorer.jobs.find(value.get("job"))

    async def _cancel(self, value: Any) -> Job | None:
        jobs = self._explorer.jobs
        job = jobs.cancel(value.get("job"))
        if job is None or job.is_final:
            return job
        if not await _ended(job, _INTERRUPTED, lambda: jobs.cancel(job.id)):
            job.abandon()
        return job


def _posted(handler: Handler, known: set[str]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that hands the JSON of a request to `handler`, and answers with where its job stands."""

    async def answered(request: Request) -> Response:
        try:
            content = json.loads(await request.body())
        except (ValueError, RecursionError):
            return JSONResponse({"error": "A request must be JSON."}, 400)
        if not isinstance(content, dict) or not set(content) <= known:
            return JSONResponse({"error": "A request must be a JSON object with the fields of its kind."}, 400)
        try:
            job = await handler(content)
        except InvalidInput as error:
            return JSONResponse({"error": str(error)}, 400)
        if job is None:
            return JSONResponse({"error": "This work is not known any more: ask again."}, 404)
        if isinstance(job, str):
            return _json(job)
        await _ended(job, _WAIT)
        return _json(job.told())

    return answered


async def _ended(job: Job, seconds: float, again: Callable[[], object] = lambda: None) -> bool:
    """Whether the job ends within so many seconds. again: called while it does not."""
    clock = asyncio.get_running_loop()
    until = clock.time() + seconds
    while not job.done.is_set() and clock.time() < until:
        await asyncio.sleep(_GLANCE)
        again()
    return job.done.is_set()


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
