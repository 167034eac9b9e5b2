"""Client of a service's HTTP API. It needs only the standard library.

::

    from auditor.client import Client

    service = Client("https://auditor.example.org", token)
    run = service.request("orders", reason="after the backfill")
    report = service.report(service.wait(run["run"])["run"])

Errors of the service are raised as the class of `auditor.errors` that the service raised, if there is one, else by HTTP status.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from auditor import errors
from auditor.errors import AuditorError, ConfigError, Unreachable

POLL_INTERVAL = 1.0
"""Seconds between two requests while waiting for a run."""

MAX_OUTAGE = 300.0
"""Seconds for which `Client.wait` retries while requests fail with errors that may pass."""

MAX_ANSWER = 256 * 1024 * 1024
"""Largest response in bytes."""

Run = dict[str, Any]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: they could send the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None: do not follow."""


class Client:
    """A service and the token to use it with. ``timeout`` is in seconds, per request.

    Every method raises Unreachable if the service cannot be reached, and Unauthorised or Forbidden for a token that does not allow it.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ConfigError("not a URL of a service; write https://host:port without user and password")
        if token and (not token.isascii() or not token.isprintable() or " " in token):
            raise ConfigError("the token contains spaces or characters that are not printable ASCII; it has the form aud_...")
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)

    def audits(self) -> list[dict[str, Any]]:
        """Return all audits, each with its latest run."""
        return list(self._pages("/audits", {}))

    def audit(self, name: str) -> dict[str, Any]:
        """Return one audit. Raises UnknownAudit."""
        return self._json("GET", f"/audits/{_quote(name)}")

    def request(self, audit: str, *, reason: str = "", overrides: Mapping[str, Any] = {}, idempotency: str | None = None) -> Run:
        """Request a run of an audit; ``overrides`` are settings of this run, such as ``method``, or ``keys`` or ``times`` for a slice.

        ``idempotency`` is a key with which the request can be repeated without creating a second run. Raises AlreadyRunning if a run of
        the audit is waiting or running, UnknownAudit, ConfigError and QueueFull.
        """
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        return self._json("POST", f"/audits/{_quote(audit)}/runs", {**overrides, "reason": reason}, headers)

    def request_ad_hoc(self, definition: Mapping[str, Any], *, reason: str = "", idempotency: str | None = None) -> Run:
        """Request one run of an audit that ``definition`` defines: ``source`` and ``target`` with ``connection`` and ``table``, ...

        Raises ConfigError, the error that prevents its planning, and QueueFull.
        """
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        return self._json("POST", "/runs", {**definition, "reason": reason}, headers)

    def runs(self, audit: str | None = None, state: str | None = None, limit: int = 50) -> list[Run]:
        """Return the newest runs, of all audits or of one."""
        parameters = {"audit": audit, "state": state, "limit": min(max(limit, 1), 1000)}
        found = self._pages("/runs", {name: value for name, value in parameters.items() if value is not None})
        return list(islice(found, max(limit, 0)))

    def run(self, run: str) -> Run:
        """Return the progress and result of a run. Raises UnknownRun."""
        return self._json("GET", f"/runs/{_quote(run)}")

    def wait(self, run: str, watch: Callable[[Run], None] = lambda _: None, seconds: float | None = None) -> Run:
        """Return the run once it has ended, or after ``seconds``. Calls ``watch`` with the run after each request."""
        deadline = None if seconds is None else time.monotonic() + seconds
        last_response = time.monotonic()
        while True:
            try:
                found = self.run(run)
                last_response = time.monotonic()
            except AuditorError as error:
                if not error.retryable or time.monotonic() - last_response > MAX_OUTAGE:
                    raise
            else:
                watch(found)
                if found["ended"] is not None or (deadline is not None and time.monotonic() >= deadline):
                    return found
            time.sleep(POLL_INTERVAL)

    def report(self, run: str, format: str = "json") -> Any:
        """Return the report of a run that has ended: parsed JSON, or a string for the formats text, markdown and html."""
        body = self._request("GET", f"/runs/{_quote(run)}/report?{urlencode({'format': format})}")
        return json.loads(body) if format == "json" else body.decode()

    def differences(self, run: str, **filters: str) -> Iterator[dict[str, Any]]:
        """Yield the stored differences of a run, optionally only those of one ``kind`` or ``state``."""
        return self._pages(f"/runs/{_quote(run)}/differences", filters)

    def cancel(self, run: str) -> Run:
        """Request that a run be cancelled. Raises UnknownRun."""
        return self._json("POST", f"/runs/{_quote(run)}/cancel")

    def resume(self, run: str) -> Run:
        """Resume a run that ended early. Raises UnknownRun and NotResumable."""
        return self._json("POST", f"/runs/{_quote(run)}/resume")

    def repairs(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield the repairs recorded for a run, newest first. Raises UnknownRun."""
        return self._pages(f"/runs/{_quote(run)}/repairs", {})

    def repair(self, repair: str) -> dict[str, Any]:
        """Return one repair. Raises UnknownRepair."""
        return self._json("GET", f"/repairs/{_quote(repair)}")

    def record_repair(self, run: str, kind: str, note: str, *, idempotency: str | None = None, **more: Any) -> dict[str, Any]:
        """Record what was done elsewhere to correct the target after a run; ``more``: its ``rows`` and ``keys``. Raises UnknownRun."""
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        return self._json("POST", f"/runs/{_quote(run)}/repairs", {"kind": kind, "note": note, **more}, headers)

    def _pages(self, path: str, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        cursor: dict[str, str] = {}
        while True:
            query = urlencode({**parameters, **cursor})
            page = self._json("GET", f"{path}?{query}" if query else path)
            yield from page["items"]
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}

    def _json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> dict[str, Any]:
        answer = self._request(method, path, body, headers)
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"{self.url} did not respond like an auditor service; check the URL")
        return found

    def _request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        own = {"Content-Type": "application/json"} if data is not None else {}
        own |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, {**own, **headers, "User-Agent": "auditor"}, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                read: bytes = answer.read(MAX_ANSWER + 1)
        except urllib.error.HTTPError as error:
            raise _error_from(self.url, error) from None
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", error)
            raise Unreachable(f"{self.url} could not be reached ({why}); check the URL, and that the service runs") from None
        if len(read) > MAX_ANSWER:
            raise Unreachable(f"{self.url} responded with more than {MAX_ANSWER:,} bytes")
        return read


def _quote(text: str) -> str:
    return quote(text, safe="")


def _error_from(url: str, response: urllib.error.HTTPError) -> AuditorError:
    """Return the error that the problem names, else one that corresponds to the HTTP status."""
    try:
        problem = json.loads(response.read(1 << 20))
        message, name = str(problem["detail"]), str(problem["type"]).rpartition(":")[2]
    except (ValueError, KeyError, TypeError, OSError):
        message, name = f"{url} responded with HTTP status {response.code}", ""
    if response.code == 401:
        message += "; set $AUDITOR_TOKEN to a valid token"
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    if kind is None:
        kind = {409: errors.AlreadyRunning, 422: ConfigError, 429: errors.QueueFull, 503: errors.StoreUnavailable}.get(
            response.code, AuditorError
        )
    error: AuditorError = kind(message)
    return error
