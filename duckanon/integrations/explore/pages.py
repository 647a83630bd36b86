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

Handler = Callable[[Any], Awaitable[Job | None]]


def _files() -> dict[str, tuple[bytes, str]]:
    """The page's own files by address. All are read here, so no address can name another file."""
    folder = Path(__file__).parent / "static"
    found = {f"/{path.name}": path for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
    found["/"] = folder / "page.html"
    return {address: (path.read_bytes(), _TYPES[path.suffix]) for address, path in found.items()}


def application(explorer: Explorer) -> Starlette:
    """The application about one session, without the checks of `access`."""
    files = _files()

    async def file(request: Request) -> Response:
        content, kind = files[request.url.path]
        return Response(content, media_type=kind)

    async def session(_: Request) -> Response:
        return _json(explorer.told())

    async def report(_: Request) -> Response:
        if explorer.report is None:
            return JSONResponse({"error": "No report has been made yet."}, 404)
        name = f"{explorer.source.path.stem}-report.html".encode("ascii", "replace").decode().replace('"', "")
        return Response(
            explorer.report, media_type="text/html", headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    async def ask(given: Any) -> Job | None:
        return explorer.ask(given.get("question"), given.get("given"))

    async def plan(given: Any) -> Job | None:
        return explorer.plan(given.get("kind"), given.get("given"))

    async def confirm(given: Any) -> Job | None:
        return explorer.confirm(given.get("nonce"))

    async def write_report(_: Any) -> Job | None:
        return explorer.write_report()

    async def poll(given: Any) -> Job | None:
        return explorer.jobs.find(given.get("job"))

    async def cancel(given: Any) -> Job | None:
        job = explorer.jobs.cancel(given.get("job"))
        if (
            job is not None
            and not job.is_final
            and not await _ended(job, _INTERRUPTED, lambda: explorer.jobs.cancel(job.id))
        ):
            job.abandon()
        return job

    gets = [Route(address, file) for address in files]
    posts = {
        "/ask": (ask, {"question", "given"}),
        "/plan": (plan, {"kind", "given"}),
        "/confirm": (confirm, {"nonce"}),
        "/write-report": (write_report, set()),
        "/poll": (poll, {"job"}),
        "/cancel": (cancel, {"job"}),
    }
    return Starlette(
        routes=[
            *gets,
            Route("/session", session),
            Route("/report", report),
            *(Route(address, _posted(handler, known), methods=["POST"]) for address, (handler, known) in posts.items()),
        ]
    )


def _posted(handler: Handler, known: set[str]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that hands the JSON of a request to `handler`, and answers with where its job stands."""

    async def answered(request: Request) -> Response:
        try:
            given = json.loads(await request.body())
        except (ValueError, RecursionError):
            return JSONResponse({"error": "A request must be JSON."}, 400)
        if not isinstance(given, dict) or not set(given) <= known:
            return JSONResponse({"error": "A request must be a JSON object with the fields of its kind."}, 400)
        try:
            job = await handler(given)
        except InvalidInput as error:
            return JSONResponse({"error": str(error)}, 400)
        if job is None:
            return JSONResponse({"error": "This work is not known any more: ask again."}, 404)
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
