"""Requests to a service, and its error responses as errors of the tree."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from pydantic import ValidationError

from auditor.api_models import AnyApiModel
from auditor.errors import AlreadyRunning, AuditorError, ConfigError, QueueFull, StoreUnavailable, Unreachable, error_named

MAX_ANSWER = 256 * 1024 * 1024
"""Largest response in bytes."""

PROBLEM = "urn:auditor:problem:"
"""How the type of each problem of the API begins."""

OTHER_PROBLEMS = frozenset({
    "", "BadRequest", "InternalError", "InvalidRequest", "MethodNotAllowed", "NotFound", "RequestTooLarge", "RequestTooSlow",
    "TooManyRequests", "Unavailable", "WrongHost",
})  # fmt: skip
"""Names of the API's problems that are no errors of the tree; '' of what is no problem of it, as a proxy's answer."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: they could send the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None: do not follow."""


class Transport:
    """The URL and token of a service. ``timeout`` is in seconds, per request."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ConfigError("not a URL of a service; write https://host:port without user and password")
        if token and (not token.isascii() or not token.isprintable() or " " in token):
            raise ConfigError("the token contains spaces or characters that are not printable ASCII; it has the form aud_...")
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)

    def model(self, model: type[AnyApiModel], method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> AnyApiModel:
        """Return what a response holds."""
        return self.parse(model, self.json(method, path, body, headers))

    def models(self, model: type[AnyApiModel], path: str, parameters: Mapping[str, Any] = {}) -> Iterator[AnyApiModel]:
        """Yield the items of a list, page by page."""
        return (self.parse(model, item) for item in self.pages(path, parameters))

    def model_list(self, model: type[AnyApiModel], method: str, path: str, body: Any = None) -> list[AnyApiModel]:
        """Return the items of a response that is a list by itself."""
        return [self.parse(model, item) for item in self._json(list, method, path, body)]

    def parse(self, model: type[AnyApiModel], value: Any) -> AnyApiModel:
        """Return a value of a response as what it is. Raises Unreachable."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            wrong = ".".join(map(str, error.errors()[0]["loc"]))
            raise Unreachable(f"{self.url} responded with another {model.__name__} than this version reads ({wrong})") from None

    def pages(self, path: str, parameters: Mapping[str, Any] = {}) -> Iterator[Any]:
        """Yield the items of a list, page by page."""
        cursor: dict[str, str] = {}
        while True:
            query = urlencode({**parameters, **cursor})
            page = self.json("GET", f"{path}?{query}" if query else path)
            yield from page["items"]
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}

    def json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        """Return the JSON object of a response."""
        return self._json(dict, method, path, body, headers)

    def _json(self, kind: type, method: str, path: str, body: Any, headers: Mapping[str, str] = {}) -> Any:
        answer = self.request(method, path, body, headers)
        try:
            parsed = json.loads(answer)
        except ValueError:
            parsed = None
        if not isinstance(parsed, kind):
            raise Unreachable(f"{self.url} did not respond like an auditor service; check the URL")
        return parsed

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> bytes:
        """Return the body of a response."""
        try:
            with self.open(method, path, body, headers) as answer:
                read = answer.read(MAX_ANSWER + 1)
        except (OSError, HTTPException) as error:
            raise self.unreachable(error) from None
        if len(read) > MAX_ANSWER:
            raise Unreachable(f"{self.url} responded with more than {MAX_ANSWER:,} bytes")
        return read

    def open(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> HTTPResponse:
        """Return a response that is open for reading. Raises what the service refuses with, and Unreachable."""
        data = None if body is None else json.dumps(body).encode()
        own = {"Content-Type": "application/json"} if data is not None else {}
        own |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, {**own, **headers, "User-Agent": "auditor"}, method=method)
        try:
            answer: HTTPResponse = self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            raise error_from(self.url, error) from None
        except (OSError, HTTPException) as error:
            raise self.unreachable(error) from None
        return answer

    def unreachable(self, error: BaseException) -> Unreachable:
        """Return the error to raise where a connection failed."""
        why = getattr(error, "reason", error)
        return Unreachable(f"{self.url} could not be reached ({why}); check the URL, and that the service runs")


def quoted(text: str) -> str:
    """Return a name as a part of a path."""
    return quote(text, safe="")


def error_from(url: str, response: urllib.error.HTTPError) -> AuditorError:
    """Return the error that the problem names, else one that corresponds to the HTTP status."""
    try:
        problem = json.loads(response.read(1 << 20))
        message, kind = str(problem["detail"]), str(problem["type"])
        name = kind.removeprefix(PROBLEM) if kind.startswith(PROBLEM) else ""
    except (ValueError, KeyError, TypeError, OSError):
        message, name = f"{url} responded with HTTP status {response.code}", ""
    if response.code == 401:
        message += "; set $AUDITOR_TOKEN to a valid token"
    by_status: Mapping[int, type[AuditorError]] = {409: AlreadyRunning, 422: ConfigError, 429: QueueFull, 503: StoreUnavailable}
    otherwise = by_status.get(response.code, AuditorError)
    return otherwise(message) if name in OTHER_PROBLEMS else error_named(name, message, otherwise)
