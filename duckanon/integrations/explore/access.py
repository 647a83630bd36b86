"""Who may talk to the page: the checks that every request passes, and the headers that every answer has.

Other programs on this machine and other sites in the same browser can reach a port of 127.0.0.1. So a request needs
the exact Host, the cookie that the single-use key in the address was exchanged for, and, where it does anything, the
exact Origin. The key is used up by the first request that has it.

Browsers send a cookie to every port of its host. So the page lies below a path that is drawn for each session, and the
cookie is for this path only: another program's page on this machine does not get it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADDRESS = "127.0.0.1"
# Where the key is exchanged for the cookie.
ENTRY = "/open"
_COOKIE = "duckanon"
_LARGEST_BODY = 100_000
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
# The cookie is SameSite=Strict. A browser that came here from another site would not send it when it is redirected, but
# does when this document leads it on. It names the page's icon: a browser may ask for
# /favicon.ico otherwise, which is refused.
_ENTERED = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={path}/">'
    '<link rel="icon" href="{path}/icon.svg" type="image/svg+xml">'
    '<title>duckanon explore</title><p><a href="{path}/">Go on</a></p></html>'
)


class Keys:
    """The key of the address, and the cookie that it is exchanged for. Neither is ever written to a file.

    path: below which the page lies.
    """

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self.path = f"/{secrets.token_urlsafe(16)}"
        self._cookie = secrets.token_urlsafe(32)
        self._is_used = False

    def name(self, port: int) -> str:
        """The cookie's name, which tells sessions at two ports apart."""
        return f"{_COOKIE}_{port}"

    def entered(self, key: str, port: int) -> str | None:
        """The Set-Cookie header for a first use of the key; None for a wrong or used one."""
        if self._is_used or not secrets.compare_digest(key.encode(), self.key.encode()):
            return None
        self._is_used = True
        return f"{self.name(port)}={self._cookie}; Path={self.path}; HttpOnly; SameSite=Strict"

    def holds(self, header: str, port: int) -> bool:
        """Whether a Cookie header has the cookie."""
        try:
            found = SimpleCookie(header).get(self.name(port))
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self._cookie.encode())


class Guarded:
    """An application behind the checks. seen: called for each request that passes them."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int, seen: Callable[[], None]) -> None:
        self._app, self._keys, self._port, self._seen = app, keys, port, seen
        self._host = f"{ADDRESS}:{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        answer = self._entered(scope) if scope["path"] == ENTRY else self._refused(scope)
        if answer is None:
            self._seen()
            scope = {**scope, "path": scope["path"].removeprefix(self._keys.path)}
        await (answer or self._app)(scope, receive, _with_headers(send))

    def _entered(self, scope: Scope) -> Response:
        """The answer to who comes with the key: the cookie."""
        headers = Headers(scope=scope)
        wrong = self._wrong_place(scope, headers)
        if wrong is not None:
            return wrong
        cookie = self._keys.entered(QueryParams(scope["query_string"]).get("key", ""), self._port)
        if cookie is None:
            return _refusal("This address is wrong or was used before. Start duckanon explore again for a new one.")
        page = _ENTERED.format(path=self._keys.path)
        return Response(page, media_type="text/html", headers={"set-cookie": cookie})

    def _refused(self, scope: Scope) -> Response | None:
        """The refusal of a request that must not be answered; None for one that may."""
        headers = Headers(scope=scope)
        wrong = self._wrong_place(scope, headers)
        if wrong is not None:
            return wrong
        is_below = scope["path"].startswith(f"{self._keys.path}/")
        if not is_below or not self._keys.holds(headers.get("cookie", ""), self._port):
            return _refusal("Open the page by the address that duckanon explore has printed.")
        if scope["method"] == "POST":
            return self._wrong_post(headers)
        return None

    def _wrong_place(self, scope: Scope, headers: Headers) -> Response | None:
        if headers.getlist("host") != [self._host]:
            return _refusal("Wrong Host.")
        if scope["method"] not in ("GET", "POST") or (scope["path"] == ENTRY and scope["method"] != "GET"):
            return _refusal("Wrong method.", 405)
        if scope["path"] != ENTRY and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _refusal("Another site asked for this.")
        return None

    def _wrong_post(self, headers: Headers) -> Response | None:
        if headers.getlist("origin") != [f"http://{self._host}"]:
            return _refusal("Wrong Origin.")
        if headers.get("content-type") != "application/json":
            return _refusal("A request must be JSON.", 415)
        size = headers.get("content-length", "")
        if not (size.isascii() and size.isdecimal() and len(size) < 10 and int(size) <= _LARGEST_BODY):
            return _refusal("A request must say its length, which may not be large.", 413)
        return None


def _refusal(sentence: str, status: int = 403) -> Response:
    return JSONResponse({"error": sentence}, status)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sent
