"""The complete configuration, and its texts that nothing may show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from auditor.config._audit import Audit, AuditGroup, split_groups
from auditor.config._base import Duration, Strict, check_key, suggest
from auditor.config._carriers import find_unalignable, find_unordered
from auditor.config._connection import ConnectionSettings, find_unverified, share_statement_limits
from auditor.config._pipeline import Pipeline, SegmentAudit, find_problems, find_segment_problems
from auditor.errors import UnknownAudit, UnknownPipeline

Occasion = Literal["mismatch", "recovery", "unknown", "patch", "pipeline", "digest"]


class Store(Strict):
    """The store, a database for runs and their results."""

    url: str = Field(repr=False)
    """A database for runs and their results: ``sqlite:///file``, ``postgresql://...`` or ``mysql://...``."""


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


class Retention(Strict):
    """Which runs are stored: the newest ``runs`` of each audit that are not older than ``days``. ``null`` is no limit."""

    runs: int | None = Field(400, ge=1)
    """The newest runs of each audit that are stored; ``null`` for any number."""
    days: float | None = Field(180, gt=0)
    """Age in days beyond which a run is deleted; ``null`` for no limit."""
    journal: Duration = 30 * 86400.0
    """How long the rows of applied patches are stored, by which these can be undone."""
    journal_key: Annotated[str, AfterValidator(check_key)] | None = Field(None, repr=False)
    """The key by which values of masked columns are encrypted in these rows: ``${AUDITOR_JOURNAL_KEY}``. By default they are not stored,
    and a patch of a table with masked columns cannot be undone."""


class Channel(Strict):
    """A notification channel: an apprise URL (mailto://, slack://, json://, ...), and the occasions for messages."""

    url: str = Field(repr=False)
    """Where messages go, as a URL of apprise."""
    on: tuple[Occasion, ...] = ("mismatch", "recovery", "unknown", "patch", "pipeline")
    """Occasions for a message: ``mismatch``, ``recovery``, ``unknown``, ``patch``, ``pipeline``, ``digest``."""
    audits: tuple[str, ...] = ()
    """Audits that it is notified about; by default all. With any it is not notified about pipelines."""


class Notify(Strict):
    """Notifications."""

    channels: dict[str, Channel] = {}
    """Channels by name."""
    repeat_after: Duration = 86400.0
    """Time after which a notification is repeated while the verdict of an audit does not change."""
    max_per_hour: int = Field(20, ge=1)
    """Maximum messages per hour to a channel; further ones are summarised in one message later."""


def _check_place(text: str) -> str:
    bucket = text.removeprefix("s3://").partition("/")[0]
    if text not in ("messages", "target") and not (text.startswith("s3://") and re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", bucket)):
        raise ValueError(f"{text!r} is no place for heads of chains; write messages, target, or a bucket with a prefix: s3://bucket/prefix")
    return text


def _check_public_key(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"{text!r} is not a public key in 64 hexadecimal digits, as auditor verify prints it")
    return text


class Evidence(Strict):
    """Evidence of runs: each that ends adds a signed link to its audit's chain."""

    key: str
    """The file with the private key that signs links, which ``auditor evidence --new-key`` makes; relative to the configuration file."""
    former: tuple[Annotated[str, AfterValidator(_check_public_key)], ...] = ()
    """Public keys, in hexadecimal, of the keys that signed earlier links."""
    publish: tuple[Annotated[str, AfterValidator(_check_place)], ...] = ()
    """Where the head of a chain is written after each run, so that the owner of the store alone cannot sign all again: ``messages`` (to the
    channels under ``notify:``), ``target`` (a row of the table auditor_evidence_heads beside the target, by ``write:`` of its connection),
    and buckets with object lock: ``s3://bucket/prefix``."""
    lock: Duration = 365 * 86400.0
    """How long objects in buckets are locked."""


class Settings(Strict):
    """The complete configuration."""

    connections: Annotated[dict[str, ConnectionSettings], AfterValidator(share_statement_limits)]
    """Databases by name, which audits and pipelines refer to."""
    audits: dict[str, Audit]
    """What is compared, by name."""
    groups: dict[str, AuditGroup] = {}
    """The entries under ``audits:`` that have ``tables:``: which audits they are, the databases know."""
    pipelines: dict[str, Pipeline] = {}
    """What is replicated, by name."""
    segments: dict[str, SegmentAudit] = {}
    """Which writers of one change stream are compared, by name."""
    store: Store | None = None
    """By default auditor.db in the directory of the configuration file."""
    keep: Retention = Retention()
    """How long runs are stored."""
    notify: Notify = Notify()
    """The channels that are notified, and of which verdicts."""
    evidence: Evidence | None = None
    """Whether runs leave evidence that can be shown to others. By default none."""
    service: Service = Service()
    """How ``auditor serve`` listens and works."""
    require_tls: Literal["verified"] | None = None
    """Written below ``connections:``: with ``verified``, a URL to another machine is refused unless it verifies the server by TLS."""

    @model_validator(mode="before")
    @classmethod
    def _groups_apart(cls, values: Any) -> Any:
        return split_groups(_policy_apart(values))

    @property
    def urls(self) -> dict[tuple[str, ...], str]:
        """All URLs of databases, by where they stand."""
        urls: dict[tuple[str, ...], str] = {("connections", name, "url"): connection.url for name, connection in self.connections.items()}
        urls |= {
            ("connections", name, "write", "url"): connection.write.url for name, connection in self.connections.items() if connection.write
        }
        urls |= {
            ("pipelines", name, "tracker", "url"): pipeline.tracker.url for name, pipeline in self.pipelines.items() if pipeline.tracker
        }
        urls |= {
            ("pipelines", name, "master"): pipeline.master for name, pipeline in self.pipelines.items() if pipeline.master.startswith("sc:")
        }
        return urls | ({("store", "url"): self.store.url} if self.store else {})

    @model_validator(mode="after")
    def _names_exist(self) -> Settings:
        unknown: list[tuple[tuple[str, ...], str]] = [
            (("audits", name, place), f"there is no connection {ref.connection!r}{suggest(ref.connection, self.connections)}")
            for name, audit in self.audits.items()
            for place, ref in (*(("source", source) for source in audit.sources), ("target", audit.target), ("via", audit.via))
            if ref and ref.connection not in self.connections
        ]
        unknown += [
            (("audits", name, side), f"there is no connection {ref.connection!r}{suggest(ref.connection, self.connections)}")
            for name, group in self.groups.items()
            for side, ref in group.template.places.items()
            if ref.connection not in self.connections
        ]
        unknown += [
            (("notify", "channels", name, "audits"), f"there is no audit {audit!r}{suggest(audit, self.audits)}")
            for name, channel in self.notify.channels.items()
            for audit in channel.audits
            if audit not in (*self.audits, *self.segments) and audit.partition(".")[0] not in self.groups
        ]
        unknown += [
            ((*place, "connection"), f"there is no connection {connection!r}{suggest(connection, self.connections)}")
            for name, pipeline in self.pipelines.items()
            for place, connection in (
                (("pipelines", name, "source"), pipeline.source.connection),
                *(
                    (("pipelines", name, "targets", target), target_settings.connection)
                    for target, target_settings in pipeline.targets.items()
                ),
            )
            if connection not in self.connections
        ]
        unknown += find_problems(self.pipelines, self.connections)
        unknown += find_unalignable(self.audits, self.pipelines, self.connections)
        unknown += find_unordered(self.audits, self.pipelines, self.connections)
        unknown += find_segment_problems(self.segments, self.pipelines, {*self.audits, *self.groups})
        unknown += [
            (("service", "pipelines"), f"there is no pipeline {name!r}{suggest(name, self.pipelines)}")
            for name in self.service.pipelines
            if name not in self.pipelines
        ]
        unknown += [
            (("service", "heartbeats"), f"there is no connection {name!r}{suggest(name, self.connections)}")
            for name in self.service.heartbeats
            if name not in self.connections
        ]
        if self.require_tls:
            unknown += [(where, f"{sentence} (connections: require_tls)") for where, sentence in find_unverified(self.urls)]
        if unknown:
            message = "; ".join(f"{'.'.join(where)}: {sentence}" for where, sentence in unknown)
            raise PydanticCustomError("unknown_connection", "{message}", {"message": message, "unknown": unknown})
        return self

    def audit(self, name: str) -> Audit:
        """Return the audit with this name. Raises UnknownAudit."""
        if name not in self.audits:
            known = ", ".join(sorted(self.audits)) or "none"
            raise UnknownAudit(f"there is no audit {name!r}{suggest(name, self.audits)} (audits here: {known})")
        return self.audits[name]

    def segment_audit(self, name: str) -> SegmentAudit:
        """Return the segment audit with this name. Raises UnknownAudit."""
        if name not in self.segments:
            known = ", ".join(sorted(self.segments)) or "none"
            raise UnknownAudit(f"there is no segment audit {name!r}{suggest(name, self.segments)} (segment audits here: {known})")
        return self.segments[name]

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline with this name. Raises UnknownPipeline."""
        if name not in self.pipelines:
            known = ", ".join(sorted(self.pipelines)) or "none"
            raise UnknownPipeline(f"there is no pipeline {name!r}{suggest(name, self.pipelines)} (pipelines here: {known})")
        return self.pipelines[name]


def _policy_apart(values: Any) -> Any:
    """Move ``require_tls`` from below ``connections``, where it applies to all of them. Raises ValueError."""
    if not isinstance(values, Mapping) or not isinstance(values.get("connections"), Mapping):
        return values
    if "require_tls" in values:
        raise ValueError("unknown setting 'require_tls'; write it below connections:")
    connections = dict(values["connections"])
    if not isinstance(connections.get("require_tls", {}), str):  # as of a connection that is so named
        return values
    return {**values, "require_tls": connections.pop("require_tls"), "connections": connections}


SECRET_OPTIONS = ("token", "password", "sslpassword", "secret_access_key", "session_token", "client_secret", "web_identity_token")
"""Options of URLs that are secrets."""


def find_secrets(settings: Settings) -> list[str]:
    """Return the texts of a configuration that logs must not show: passwords, keys, and the URLs of notification
    channels."""
    urls = [connection.url for connection in settings.connections.values()] + ([settings.store.url] if settings.store else [])
    urls += [connection.write.url for connection in settings.connections.values() if connection.write]
    urls += [pipeline.tracker.url for pipeline in settings.pipelines.values() if pipeline.tracker]
    secrets = [channel.url for channel in settings.notify.channels.values()] + [settings.keep.journal_key or ""]
    urls += [pipeline.master for pipeline in settings.pipelines.values()]
    for url in urls:
        try:
            password, options = urlsplit(url).password or "", parse_qs(urlsplit(url).query)
            tokens = [value for name in SECRET_OPTIONS for value in options.get(name, [])]
        except ValueError:  # not a URL: hide all of it
            password, tokens = url, []
        secrets += [password, unquote(password), *tokens]
    return [secret for secret in secrets if secret]
