"""Settings of ``auditor serve``: where it listens, whom it answers, and what runs beside it."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from auditor.api_models.access import LIMITABLE, Scope
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


def _check_header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", text) or text.lower() in ("authorization", "cookie", "host", "x-forwarded-for"):
        raise ValueError(f"{text!r} is not a header of a proxy's own; write the one that it sets: X-Auth-Request-User")
    return text


Header = Annotated[str, AfterValidator(_check_header)]


class ProxyGroup(Strict):
    """What the people of a group may do."""

    scope: Scope = "read"
    """The scope that they have, as that of a token."""
    audits: tuple[str, ...] = ()
    """Names or patterns of the audits that they are limited to, such as ``shop.*``; by default all."""

    @model_validator(mode="after")
    def _can_be_limited(self) -> ProxyGroup:
        if self.audits and self.scope not in LIMITABLE:
            raise ValueError(f"the scope {self.scope} cannot be limited to audits: it reaches tables of others; write another one")
        return self


EVERYBODY = "*"
"""The group of those who are in none of the others."""


class Auth(Strict):
    """An authenticating proxy, whose header says who asks. Single sign-on, as by OIDC or SAML, is the proxy's work."""

    proxy_header: Header
    """The header with the user's name, which the proxy sets, and removes where a client sent it."""
    from_: tuple[Annotated[str, AfterValidator(_check_network)], ...] = Field(alias="from", min_length=1)
    """Addresses and networks of the proxy as the connections to the service come from them. From others the header is refused."""
    groups_header: Header | None = None
    """The header with the user's groups, separated by commas."""
    groups: dict[str, ProxyGroup] = {EVERYBODY: ProxyGroup()}
    """What each group may do; of several groups of a user the first one here counts, and ``*`` is everybody else. By default all read."""

    @model_validator(mode="after")
    def _groups_are_known(self) -> Auth:
        if self.groups_header is None and (named := [name for name in self.groups if name != EVERYBODY]):
            raise ValueError(f"groups: {named[0]} needs groups_header, the header by which the proxy says who is in it")
        return self

    def find_group(self, names: Collection[str]) -> ProxyGroup | None:
        """Return what a user of these groups may do; None if nothing."""
        return next((group for name, group in self.groups.items() if name != EVERYBODY and name in names), self.groups.get(EVERYBODY))


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
    auth: Auth | None = None
    """A proxy that authenticates people. By default nobody is believed who asks without a token."""
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
