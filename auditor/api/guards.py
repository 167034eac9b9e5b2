"""What every request passes before anything else: how much it may hold, how often one may ask, what every answer carries."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auditor import telemetry
from auditor.api.limits import Limit
from auditor.api.problems import answer

log = logging.getLogger(__name__)

SLASH = "\ue000"
"""Stands for a slash within one part of a path until the part is read, so that an audit's name may hold one (%2F)."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
CALLERS = 10
"""Callers with tokens that an address may have, as far as its rate goes."""

HSTS = "max-age=31536000; includeSubDomains"


class Shield:
    """The outermost layer: headers, a name for the request, a line and a span for it, and an answer where the service itself fails."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["auditor.request"] = request = secrets.token_hex(8)
        began, status = time.monotonic(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _headers(message["headers"], scope, request)}
            await send(message)

        # A name may hold what one of a route's parts may not; logs and traces show the path, never the query.
        with telemetry.bound(request=request), telemetry.span("request", method=scope["method"], path=scope["path"]):
            try:
                await self.app(scope, receive, guarded)
            except Exception:
                log.exception("the service failed", extra={"action": "request_failed"})
                if not status:
                    sentence = "this is a fault of the service; its log says more under the name of this request"
                    await answer(scope, 500, sentence)(scope, receive, guarded)
            finally:
                about = {"method": scope["method"], "path": scope["path"], "status": status}
                log.info("request", extra={"action": "request", **about, "seconds": round(time.monotonic() - began, 4)})
                telemetry.count("requests", method=scope["method"], status=str(status))


def _headers(given: list[tuple[bytes, bytes]], scope: Scope, request: str) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in given if name.lower() not in (b"server", b"x-powered-by")]
    there = {name.lower() for name, _ in kept}
    more = HEADERS | {"X-Request-Id": request} | ({"Strict-Transport-Security": HSTS} if scope.get("scheme") == "https" else {})
    if b"cache-control" not in there:
        more["Cache-Control"] = "no-store"
    return kept + [(name.lower().encode(), value.encode()) for name, value in more.items() if name.lower().encode() not in there]


class Slashes:
    """Lets %2F be part of a name, under the prefix of the API: other servers decode it and cannot tell it from a slash."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app = app
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and b"%2f" in raw.lower() and scope["path"].startswith(self.prefix):
            parts = raw.decode("ascii", "replace").partition("?")[0].split("/")
            scope = {**scope, "path": "/".join(unquote(part).replace("/", SLASH) for part in parts)}
        await self.app(scope, receive, send)


class Rate:
    """Refuses an address that asks too often: less often where no token comes along, since those who send one are counted by it too."""

    def __init__(self, app: ASGIApp, rate: int) -> None:
        self.app = app
        self.unknown = Limit(rate)
        self.known = Limit(CALLERS * rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse it, or hand it on."""
        if scope["type"] == "http":
            sent = any(name in (b"authorization", b"cookie") for name, _ in scope["headers"])
            client: Any = scope.get("client") or ("",)
            if wait := (self.known if sent else self.unknown).take(str(client[0])):
                sentence = "too many requests came from this address; try again later"
                await answer(scope, 429, sentence, headers={"Retry-After": str(int(wait) + 1)})(scope, receive, send)
                return
        await self.app(scope, receive, send)


class Size:
    """Refuses bodies beyond a size, whatever their header says, or does not say, of it."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on with its body counted."""
        told = dict(scope.get("headers", [])).get(b"content-length", b"")
        too_large = int(told) > self.most if told.isdigit() else False
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive() if not too_large else {"type": "http.request"}
            got += len(message.get("body", b""))
            if too_large or got > self.most:
                raise HTTPException(413, f"a request may hold {self.most:,} bytes; service: max_body says so")
            return message

        await self.app(scope, counted if scope["type"] == "http" else receive, send)
