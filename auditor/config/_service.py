"""Settings of ``auditor serve``: where it listens, whom it answers, and what runs beside it."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from auditor.config._base import Duration, Strict


def _check_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an address or network; write the proxy's address as the service sees it: 10.0.0.7, or 10.0.0.0/24"
        ) from None
    return text


def _check_host(text: str) -> str:
    if not re.fullmatch(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", text):
        raise ValueError(f"{text!r} is not the name of a host; write it without scheme and port: auditor.internal, or *.example.org")
    return text


def _check_public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not a URL of this service; write https://auditor.example.org")
    return text


class Service(Strict):
    """Settings of ``auditor serve``."""

    host: str = "127.0.0.1"
    """The address to listen on; any but loopback needs a token."""
    port: int = Field(8080, ge=0, le=65535)
    """The port to listen on; 0 for any that is free."""
    workers: int = Field(2, ge=1, le=32)
    """Concurrent runs in one process."""
    queue: int = Field(100, ge=1)
    """Maximum number of pending runs; further requests are rejected."""
    grace: Duration = 30.0
    """Seconds that a stopping service waits for running chunks."""
    max_body: int = Field(16 * 1024 * 1024, ge=1024)
    """Maximum bytes of a request, including uploaded summaries."""
    proxies: tuple[Annotated[str, AfterValidator(_check_network)], ...] = ("127.0.0.1", "::1")
    """Addresses and networks of trusted proxies. Only their X-Forwarded-Proto and X-Forwarded-For are used, for whether a request came
    by TLS and from which address."""
    public_url: Annotated[str, AfterValidator(_check_public_url)] | None = None
    """The URL at which people reach the service, as ``https://auditor.example.org``."""
    allowed_hosts: tuple[Annotated[str, AfterValidator(_check_host)], ...] = ()
    """Names by which the service may be reached, besides localhost, addresses, ``host`` and that of ``public_url``: ``auditor.internal``,
    ``*.example.org``. Requests to others are refused, as a page of another site could send them."""
    pipelines: tuple[str, ...] = ()
    """Pipelines that run as processes of the service."""
    functions: tuple[str, ...] = ()
    """Functions in Python that these pipelines may run as their ``transform``, ``package.module:function``, and those whose log a
    segment audit reads again; such a pipeline with another function is refused."""
    heartbeats: tuple[str, ...] = ()
    """Connections to whose databases processes of the service write heartbeats."""
    requests_per_minute: int = Field(600, ge=1)
    """Maximum requests of one caller."""
    connections_per_client: int = Field(100, ge=1)
    """Maximum connections of one address at once; those of ``proxies`` are limited in all alone."""

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names by which the service may be reached, besides localhost and addresses."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return (*self.allowed_hosts, self.host, *((public,) if public else ()))
