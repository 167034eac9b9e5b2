"""The complete configuration, and its texts that nothing may show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import AfterValidator, model_validator
from pydantic_core import PydanticCustomError

from auditor.config._audit import Audit, AuditGroup, find_topic_problems, split_groups
from auditor.config._base import Strict, describe_unknown, suggest
from auditor.config._broker import Broker, find_unverified_brokers, list_secrets
from auditor.config._carriers import find_history_problems, find_unalignable, find_unordered
from auditor.config._connection import ConnectionSettings, find_unverified, share_statement_limits
from auditor.config._notify import Notify
from auditor.config._pipeline import ANEW, Pipeline, SegmentAudit, find_problems, find_segment_problems
from auditor.config._service import Service
from auditor.config._sides import TopicRef
from auditor.config._store import Evidence, Retention, Store
from auditor.errors import ConfigError, UnknownAudit, UnknownPipeline

Named = TypeVar("Named")


class Settings(Strict):
    """The complete configuration."""

    connections: Annotated[dict[str, ConnectionSettings], AfterValidator(share_statement_limits)]
    """Databases by name, which audits and pipelines refer to."""
    brokers: dict[str, Broker] = {}
    """Kafka clusters by name, to which pipelines refer."""
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

    @property
    def _read_anew(self) -> list[str]:
        """The pipelines whose log the service reads again for segment audits, by the pipelines' own rules."""
        return [audit.sides[0] for audit in self.segments.values() if ANEW in audit.sides]

    @model_validator(mode="after")
    def _names_exist(self) -> Settings:
        unknown: list[tuple[tuple[str, ...], str]] = [
            (("audits", name, place), f"there is no connection {ref.connection!r}{suggest(ref.connection, self.connections)}")
            for name, audit in self.audits.items()
            for place, ref in (*(("source", source) for source in audit.sources), ("target", audit.target), ("via", audit.via))
            if ref and not isinstance(ref, TopicRef) and ref.connection not in self.connections
        ]
        unknown += _find_unpriced({**self.audits, **{name: group.template for name, group in self.groups.items()}}, self.connections)
        unknown += find_topic_problems(self.audits, self.connections, self.brokers)
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
            (("notify", "openlineage", "datasets", name), f"there is no connection {name!r}{suggest(name, self.connections)}")
            for name in (self.notify.openlineage.datasets if self.notify.openlineage else ())
            if name not in self.connections
        ]
        unknown += [
            ((*place, "connection"), f"there is no connection {connection!r}{suggest(connection, self.connections)}")
            for name, pipeline in self.pipelines.items()
            for place, connection in (
                *([(("pipelines", name, "source"), pipeline.log_source.connection)] if pipeline.log_source else []),
                *(
                    (("pipelines", name, "targets", target), target_settings.connection)
                    for target, target_settings in pipeline.table_targets.items()
                ),
            )
            if connection not in self.connections
        ]
        unknown += find_problems(self.pipelines, self.connections, self.brokers)
        unknown += find_unalignable(self.audits, self.pipelines, self.connections)
        unknown += find_history_problems(self.audits, self.pipelines, self.connections)
        unknown += find_unordered(self.audits, self.pipelines, self.connections)
        unknown += find_segment_problems(self.segments, self.pipelines, {*self.audits, *self.groups})
        unknown += [
            (("service", "pipelines"), f"there is no pipeline {name!r}{suggest(name, self.pipelines)}")
            for name in self.service.pipelines
            if name not in self.pipelines
        ]
        unknown += [
            (("service", "functions"), f"the pipeline {name!r} runs {transform.function!r}, which is not allowed here; add it")
            for name in dict.fromkeys([*self.service.pipelines, *self._read_anew])
            if name in self.pipelines
            for transform in self.pipelines[name].transforms
            if transform.function not in self.service.functions
        ]
        unknown += [
            (("service", "heartbeats"), f"there is no connection {name!r}{suggest(name, self.connections)}")
            for name in self.service.heartbeats
            if name not in self.connections
        ]
        if self.require_tls:
            unverified = [*find_unverified(self.urls), *find_unverified_brokers(self.brokers)]
            unknown += [(where, f"{sentence} (connections: require_tls)") for where, sentence in unverified]
        if unknown:
            message = "; ".join(f"{'.'.join(where)}: {sentence}" for where, sentence in unknown)
            raise PydanticCustomError("unknown_connection", "{message}", {"message": message, "unknown": unknown})
        return self

    def audit(self, name: str) -> Audit:
        """Return the audit with this name. Raises UnknownAudit."""
        if name not in self.audits:
            raise UnknownAudit(self.describe_unknown_audit(name))
        return self.audits[name]

    def describe_unknown_audit(self, name: str) -> str:
        """Return why there is no audit of a name: it is that of a group, or which names are the nearest."""
        of_group = sorted(other for other in self.audits if other.startswith(f"{name}."))
        if name in self.groups and (of_group or name in self.unaudited_groups(self.audits)):
            few = f"such as {', '.join(of_group[:3])}" if of_group else f"as {name}.TABLE"
            return f"{name!r} is a group of tables, each of which is an audit of its own; name one of them, {few}"
        return describe_unknown("audit", name, self.audits)

    def unaudited_groups(self, names: Iterable[str]) -> list[str]:
        """Return the groups of which none of these audits is one: where they are all that there are, no table of these ran yet."""
        begun = {name.partition(".")[0] for name in names}
        return [group for group in self.groups if group not in begun]

    def connection(self, name: str) -> ConnectionSettings:
        """Return the connection with this name. Raises ConfigError."""
        if name not in self.connections:
            raise ConfigError(describe_unknown("connection", name, self.connections))
        return self.connections[name]

    def segment_audit(self, name: str) -> SegmentAudit:
        """Return the segment audit with this name. Raises UnknownAudit."""
        if name not in self.segments:
            raise UnknownAudit(describe_unknown("segment audit", name, self.segments))
        return self.segments[name]

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline with this name. Raises UnknownPipeline."""
        if name not in self.pipelines:
            raise UnknownPipeline(describe_unknown("pipeline", name, self.pipelines))
        return self.pipelines[name]


class LimitedSettings(Settings):
    """The configuration as a caller sees it who is limited to audits of some patterns: without other audits."""

    only: tuple[str, ...] = ()
    """The patterns."""

    @classmethod
    def of(cls, settings: Settings, patterns: tuple[str, ...]) -> LimitedSettings:
        """Return these settings with the audits alone that match one of the patterns."""
        values = {name: getattr(settings, name) for name in Settings.model_fields}
        limited = cls.model_construct(**{**values, "only": patterns})
        return limited.model_copy(update={"audits": limited.select(settings.audits), "segments": limited.select(settings.segments)})

    def unaudited_groups(self, names: Iterable[str]) -> list[str]:
        """Return none: the audits of a group that ran may be others than the caller's."""
        return []

    def select(self, named: Mapping[str, Named]) -> dict[str, Named]:
        """Return those whose names match one of the patterns."""
        return {name: value for name, value in named.items() if any(fnmatchcase(name, pattern) for pattern in self.only)}


def _find_unpriced(audits: Mapping[str, Audit], connections: Mapping[str, ConnectionSettings]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield which audits have a budget in USD although what one of their sides costs is not known."""
    for name, audit in audits.items():
        places = {place.connection: place for place in audit.places.values()} if audit.budget.usd is not None else {}
        for connection, place in places.items():
            if isinstance(place, TopicRef):
                yield ("audits", name, "budget"), f"usd: what reading the topic {place.label} costs is not known; use seconds or bytes"
            elif connection in connections and connections[connection].price is None:
                yield (
                    ("audits", name, "budget"),
                    f"usd: the connection {connection} has no price; add e.g. price: {{usd: 1.20, per: hour}}",
                )


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
    secrets += list_secrets(settings.brokers.values())
    secrets += [settings.notify.openlineage.url, settings.notify.openlineage.token or ""] if settings.notify.openlineage else []
    urls += [pipeline.master for pipeline in settings.pipelines.values()]
    for url in urls:
        try:
            password, options = urlsplit(url).password or "", parse_qs(urlsplit(url).query)
            tokens = [value for name in SECRET_OPTIONS for value in options.get(name, [])]
        except ValueError:  # not a URL: hide all of it
            password, tokens = url, []
        secrets += [password, unquote(password), *tokens]
    return [secret for secret in secrets if secret]
