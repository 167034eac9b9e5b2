"""Middleware in front of the API and the pages: headers and logging, encoded slashes, rate limits, body size, ETags, compression."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Collection
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auditor import telemetry
from auditor.api.errors import problem_response
from auditor.durations import durations

MAX_CALLERS = 10_000
"""Callers that are remembered; beyond that the least recently seen are forgotten."""


class RateLimit:
    """Allow each caller ``rate`` requests per minute. Unused requests accumulate for one minute, as a burst."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, cost: float = 1.0) -> float:
        """Count a request and return 0, or the seconds to wait if the caller has none left. A ``cost`` of 0 only checks."""
        with self._lock:
            now = self._clock()
            left, at = self._tokens.pop(caller, (float(self.rate), now))
            left = min(float(self.rate), left + (now - at) * self.rate / 60)
            wait = 0.0 if left >= 1 else (1 - left) * 60 / self.rate
            self._tokens[caller] = (left if wait else left - cost, now)
            while len(self._tokens) > MAX_CALLERS:
                del self._tokens[next(iter(self._tokens))]
        return wait


def too_many_requests(wait: float, detail: str) -> HTTPException:
    """Return a 429 error with Retry-After, for ``wait`` seconds."""
    return HTTPException(429, detail, {"Retry-After": str(max(1, math.ceil(wait)))})


log = logging.getLogger(__name__)

PEER = "auditor.peer"
"""Under this name a request's state has the address that its connection came from, whatever headers say."""

ENCODED_SLASH = "\ue000"
"""Replaces %2F in a path until the parameter is read, so that an audit's name may contain a slash. A private-use character."""

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
TOKENS_PER_ADDRESS = 10
"""How many times the rate limit a client address may use if its requests carry tokens, which have limits of their own."""

HSTS = "max-age=31536000; includeSubDomains"


class RequestMiddleware:
    """Outermost middleware: request id, response headers, log line, trace span, and a 500 response for unexpected errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["auditor.request"] = request = secrets.token_hex(8)
        started, status = time.monotonic(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _add_headers(message["headers"], scope, request)}
            await send(message)

        # Logs and traces contain the path, never the query, which may hold a token.
        with telemetry.log_context(request=request), telemetry.span("request", method=scope["method"], path=scope["path"]):
            try:
                await self.app(scope, receive, send_with_headers)
            except Exception:
                log.exception("request failed with an unexpected error", extra={"action": "request_failed"})
                if not status:
                    sentence = "internal error; see the service's log for this request id"
                    await problem_response(scope, 500, sentence)(scope, receive, send_with_headers)
            finally:
                fields = {"method": scope["method"], "path": scope["path"], "status": status}
                log.info("request", extra={"action": "request", **fields, "seconds": round(time.monotonic() - started, 4)})
                telemetry.increment_counter("requests", method=scope["method"], status=str(status))


def _add_headers(headers: list[tuple[bytes, bytes]], scope: Scope, request: str) -> list[tuple[bytes, bytes]]:
    passed = [(name, value) for name, value in headers if name.lower() not in (b"server", b"x-powered-by")]
    present = {name.lower() for name, _ in passed}
    more = HEADERS | {"X-Request-Id": request} | ({"Strict-Transport-Security": HSTS} if scope.get("scheme") == "https" else {})
    if b"cache-control" not in present:
        more["Cache-Control"] = "no-store"
    return passed + [(name.lower().encode(), value.encode()) for name, value in more.items() if name.lower().encode() not in present]


class HostMiddleware:
    """Refuse requests to other names than this service's, which a page of another site can have by changing the address of its own name.

    An address cannot be changed so, and programs that send no Host are no browsers.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self.app = app
        self.allowed = {name.lower().rstrip(".") for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, or answer 421."""
        if scope["type"] == "http":
            for host in (value.decode("latin-1") for name, value in scope["headers"] if name == b"host"):
                if not self._is_allowed(host):
                    shown = host[:100] if host.isprintable() else "of this request"
                    sentence = f"the host {shown} is not a name of this service; add it to service: allowed_hosts in auditor.yaml"
                    await problem_response(scope, 421, sentence)(scope, receive, send)
                    return
        await self.app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        name = (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower().rstrip(".")
        try:
            ip_address(name)
        except ValueError:
            above = (name[at:] for at, character in enumerate(name) if character == ".")
            return not host or name == "localhost" or name in self.allowed or any(f"*{domain}" in self.allowed for domain in above)
        return True


class EncodedSlashMiddleware:
    """Keep %2F apart from a slash in paths below ``prefix``; ASGI servers decode both to a slash."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app = app
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request with its decoded path."""
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and b"%2f" in raw.lower() and scope["path"].startswith(self.prefix):
            parts = raw.decode("ascii", "replace").partition("?")[0].split("/")
            scope = {**scope, "path": "/".join(unquote(part).replace("/", ENCODED_SLASH) for part in parts)}
        await self.app(scope, receive, send)


class RateLimitMiddleware:
    """Limit the requests per minute of a client address; the limit is higher for requests with a token, which is limited by itself."""

    def __init__(self, app: ASGIApp, rate: int) -> None:
        self.app = app
        self.anonymous = RateLimit(rate)
        self.with_token = RateLimit(TOKENS_PER_ADDRESS * rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, or answer 429."""
        if scope["type"] == "http":
            has_token = any(name in (b"authorization", b"cookie") for name, _ in scope["headers"])
            client: Any = scope.get("client") or ("",)
            if wait := (self.with_token if has_token else self.anonymous).take(str(client[0])):
                sentence = "too many requests from this address; retry later"
                await problem_response(scope, 429, sentence, headers={"Retry-After": str(int(wait) + 1)})(scope, receive, send)
                return
        await self.app(scope, receive, send)


class HeadMiddleware:
    """Answer HEAD like GET, but send no body; a stream of events is closed at once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, a HEAD as a GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        started = False

        async def receive_until_started() -> Message:
            return {"type": "http.disconnect"} if started else await receive()

        async def send_head(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self.app({**scope, "method": "GET"}, receive_until_started, send_head)


class BodySizeMiddleware:
    """Reject bodies larger than ``max_bytes``, whether or not Content-Length says so, and those that do not end in time."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and raise HTTPException (413) once its body is too large, or (408) too late."""
        declared = dict(scope.get("headers", [])).get(b"content-length", b"")
        too_large = int(declared) > self.max_bytes if declared.isdigit() else False
        limit = durations().request_body
        received, is_whole, until = 0, False, time.monotonic() + limit

        async def counted() -> Message:
            nonlocal received, is_whole
            message: Message = {"type": "http.request"}
            if not too_large:
                try:  # after the body only the end of the connection is waited for
                    message = await (receive() if is_whole else asyncio.wait_for(receive(), until - time.monotonic()))
                except TimeoutError:
                    raise HTTPException(408, f"the request did not arrive within {limit:g} seconds") from None
                is_whole = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if too_large or received > self.max_bytes:
                raise HTTPException(413, f"the request is larger than the {self.max_bytes:,} bytes that service: max_body allows")
            return message

        await self.app(scope, counted if scope["type"] == "http" else receive, send)


COMPRESSED_FROM = 1000
"""Bytes below which a response is sent as it is."""

COMPRESSED_TYPES = ("text/html", "text/css", "text/javascript", "text/plain", "text/markdown", "application/json", "image/svg+xml")
"""Content types that are compressed; streams of events and files of rows are sent as they come."""

REVALIDATED = "private, no-cache"
"""Cache-Control of responses that browsers may keep, and ask for again by their ETag before they show them."""

MAX_PADDING = 100
"""Bytes by which the length of a compressed response varies, so that it says nothing of secrets beside text from a request (BREACH)."""


class CompressionMiddleware:
    """Give lists and pages an ETag and answer 304 for what the caller has, and compress what has a body of text.

    It looks at responses of one piece alone: what is streamed passes unchanged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and change the response."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        start: Message | None = None

        async def send_changed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is None:
                await send(message)
                return
            first, start = start, None
            if not message.get("more_body", False) and first["status"] == 200:
                first, message = await _change(asked, {**first, "headers": list(first["headers"])}, message)
            await send(first)
            await send(message)

        await self.app(scope, receive, send_changed)


async def _change(asked: Headers, start: Message, message: Message) -> tuple[Message, Message]:
    """Return the start and the body of a response with an ETag and compressed, where both apply."""
    headers, body = MutableHeaders(raw=start["headers"]), message.get("body", b"")
    kind = headers.get("content-type", "").partition(";")[0]
    if kind in ("application/json", "text/html") and headers.get("cache-control", REVALIDATED) == REVALIDATED:
        if "etag" not in headers:
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            headers["Cache-Control"] = REVALIDATED
            headers.add_vary_header("Accept, Authorization, Cookie")
        known = [tag.strip().removeprefix("W/") for tag in asked.get("if-none-match", "").split(",")]
        if headers["ETag"] in known:
            del headers["content-length"], headers["content-type"]
            return {**start, "status": 304}, {**message, "body": b""}
    if kind in COMPRESSED_TYPES and "content-encoding" not in headers:
        headers.add_vary_header("Accept-Encoding")
        if len(body) >= COMPRESSED_FROM and "gzip" in asked.get("accept-encoding", ""):
            body = await run_in_threadpool(_compress, body)
            headers["Content-Encoding"], headers["Content-Length"] = "gzip", str(len(body))
            if tag := headers.get("etag"):
                headers["ETag"] = f"W/{tag.removeprefix('W/')}"  # its bytes are others
    return start, {**message, "body": body}


def _compress(body: bytes) -> bytes:
    """Return a body compressed with gzip, whose header has a name of random length."""
    file = io.BytesIO()
    with gzip.GzipFile("a" * (1 + secrets.randbelow(MAX_PADDING)), "wb", 6, file, mtime=0) as compressed:
        compressed.write(body)
    return file.getvalue()
