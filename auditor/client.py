"""A service's API, called from Python with nothing but the standard library.

::

    from auditor.client import Client

    service = Client("https://auditor.example.org", token)
    run = service.request("orders", reason="after the backfill")
    report = service.report(service.wait(run["run"])["run"])

What the service refuses is raised as the error of `auditor.errors` that the service itself raised, as far as there is one.
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

PERIOD = 1.0
"""Seconds between two looks at a run that is waited for."""

PATIENCE = 300.0
"""Seconds for which a service that cannot be reached is asked again, once a run was requested there."""

LARGEST = 256 * 1024 * 1024
"""Bytes of an answer that are read."""

Run = dict[str, Any]


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it could lead the token elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Nowhere."""


class Client:
    """One service, asked with one token."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ConfigError("write the service's URL as https://host:port, without user and password; the token is $AUDITOR_TOKEN")
        if token and (not token.isascii() or not token.isprintable() or " " in token):
            raise ConfigError("the token is none: it has the form aud_...")
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_Stay)

    def audits(self) -> list[dict[str, Any]]:
        """All audits, each with its latest run."""
        return list(self._every("/audits", {}))

    def audit(self, name: str) -> dict[str, Any]:
        """One audit. Raises UnknownAudit."""
        return self._json("GET", f"/audits/{_part(name)}")

    def request(self, audit: str, *, reason: str = "", overrides: Mapping[str, Any] = {}, idempotency: str | None = None) -> Run:
        """Request a run of an audit, or with ``keys`` or ``times`` among its overrides of a section of its table alone.

        Raises AlreadyRunning where one waits or goes on, UnknownAudit, QueueFull, ...
        """
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        return self._json("POST", f"/audits/{_part(audit)}/runs", {**overrides, "reason": reason}, headers)

    def request_ad_hoc(self, definition: Mapping[str, Any], *, reason: str = "", idempotency: str | None = None) -> Run:
        """Request one run of an audit that is defined here: its ``source`` and ``target``, each a ``connection`` and ``table``, ...

        Raises ConfigError and what keeps it from being planned, Forbidden, QueueFull, ...
        """
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        return self._json("POST", "/runs", {**definition, "reason": reason}, headers)

    def runs(self, audit: str | None = None, state: str | None = None, limit: int = 50) -> list[Run]:
        """The newest runs, of all audits or of one."""
        asked = {"audit": audit, "state": state, "limit": min(max(limit, 1), 1000)}
        found = self._every("/runs", {name: value for name, value in asked.items() if value is not None})
        return list(islice(found, max(limit, 0)))

    def run(self, run: str) -> Run:
        """How far a run is. Raises UnknownRun."""
        return self._json("GET", f"/runs/{_part(run)}")

    def wait(self, run: str, watch: Callable[[Run], None] = lambda _: None, seconds: float | None = None) -> Run:
        """The run once it has ended, or after so many seconds; ``watch`` is told of it at each look."""
        until = None if seconds is None else time.monotonic() + seconds
        heard = time.monotonic()
        while True:
            try:
                found = self.run(run)
                heard = time.monotonic()
            except AuditorError as error:
                if not error.retryable or time.monotonic() - heard > PATIENCE:
                    raise
            else:
                watch(found)
                if found["ended"] is not None or (until is not None and time.monotonic() >= until):
                    return found
            time.sleep(PERIOD)

    def report(self, run: str, format: str = "json") -> Any:
        """The report of a run that has ended: plain values, or with a ``format`` of text, markdown or html a text."""
        body = self._ask("GET", f"/runs/{_part(run)}/report?{urlencode({'format': format})}")
        return json.loads(body) if format == "json" else body.decode()

    def differences(self, run: str, **wanted: str) -> Iterator[dict[str, Any]]:
        """The differences that a run kept, of one ``kind`` or ``state`` if that is wanted."""
        return self._every(f"/runs/{_part(run)}/differences", wanted)

    def cancel(self, run: str) -> Run:
        """Ask a run to end. Raises UnknownRun."""
        return self._json("POST", f"/runs/{_part(run)}/cancel")

    def resume(self, run: str) -> Run:
        """Let a run that ended early go on. Raises UnknownRun and NotResumable."""
        return self._json("POST", f"/runs/{_part(run)}/resume")

    def repairs(self, run: str) -> Iterator[dict[str, Any]]:
        """The repairs that were recorded for a run, the newest first. Raises UnknownRun."""
        return self._every(f"/runs/{_part(run)}/repairs", {})

    def repair(self, repair: str) -> dict[str, Any]:
        """One repair. Raises UnknownRepair."""
        return self._json("GET", f"/repairs/{_part(repair)}")

    def record_repair(self, run: str, kind: str, note: str, *, idempotency: str | None = None, **more: Any) -> dict[str, Any]:
        """Record what was done elsewhere to mend the target after a run; ``more`` are its ``rows`` and ``keys``. Raises UnknownRun."""
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        return self._json("POST", f"/runs/{_part(run)}/repairs", {"kind": kind, "note": note, **more}, headers)

    def _every(self, path: str, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        cursor: dict[str, str] = {}
        while True:
            query = urlencode({**wanted, **cursor})
            page = self._json("GET", f"{path}?{query}" if query else path)
            yield from page["items"]
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}

    def _json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> dict[str, Any]:
        answer = self._ask(method, path, body, headers)
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"{self.url} did not answer as a service of the auditor does; check the URL")
        return found

    def _ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        more = {"Content-Type": "application/json"} if data is not None else {}
        more |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, {**more, **headers, "User-Agent": "auditor"}, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                read: bytes = answer.read(LARGEST + 1)
        except urllib.error.HTTPError as refusal:
            raise _refused(self.url, refusal) from None
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", error)
            raise Unreachable(f"{self.url} could not be reached ({why}); check the URL, and that the service runs") from None
        if len(read) > LARGEST:
            raise Unreachable(f"{self.url} answered with more than {LARGEST:,} bytes")
        return read


def _part(text: str) -> str:
    return quote(text, safe="")


def _refused(url: str, refusal: urllib.error.HTTPError) -> AuditorError:
    """The error that the service raised, by its name, else one that has its status."""
    try:
        told = json.loads(refusal.read(1 << 20))
        sentence, name = str(told["detail"]), str(told["type"]).rpartition(":")[2]
    except (ValueError, KeyError, TypeError, OSError):
        sentence, name = f"{url} answered with the status {refusal.code}", ""
    if refusal.code == 401:
        sentence += "; write the token into $AUDITOR_TOKEN"
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    if kind is None:
        kind = {409: errors.AlreadyRunning, 422: ConfigError, 429: errors.QueueFull, 503: errors.StoreUnavailable}.get(
            refusal.code, AuditorError
        )
    error: AuditorError = kind(sentence)
    return error
