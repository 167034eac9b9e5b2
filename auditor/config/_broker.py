"""Kafka brokers, and the schema registries beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pydantic import Field, field_validator, model_validator

from auditor.config._base import Duration, Strict
from auditor.config._messages import RegistrySettings
from dialects.url import LOOPBACK

ENCRYPTED = ("ssl", "sasl_ssl")
"""Values of ``security.protocol`` with which a connection is encrypted, and the broker's certificate verified."""

SECRET = re.compile(r"password|secret|token|\bkey\b|\.pem$|config$")
"""What the names of properties contain whose values are secrets."""

OURS = {
    "bootstrap.servers": "write servers",
    "transactional.id": "it is always the pipeline's and the target's",
    "enable.idempotence": "it is always on",
    "transaction.timeout.ms": "write the target's timeout",
    "message.timeout.ms": "write the target's timeout",
    "enable.auto.commit": "offsets are stored with what was read",
    "enable.auto.offset.store": "offsets are stored with what was read",
    "enable.partition.eof": "where a partition ends must be known",
    "auto.offset.reset": "what is missing is said, and not passed over",
    "allow.auto.create.topics": "a topic that is read must be there",
    "isolation.level": "only what is committed is read",
    "group.id": "it is the pipeline's",
    "acks": "all replicas acknowledge",
}
"""Properties of clients that the auditor sets, and why nobody else does."""


class Broker(Strict):
    """A Kafka cluster."""

    servers: tuple[str, ...] = Field(min_length=1)
    """Some of its brokers, ``host:port`` each; they name the others."""
    properties: dict[str, str] = Field({}, repr=False)
    """Further properties of its clients by librdkafka's names, as ``security.protocol``, ``sasl.mechanism``, ``sasl.username``,
    ``sasl.password`` and ``ssl.ca.location``."""
    registry: RegistrySettings | None = None
    """The schema registry beside it; it is needed for Avro, and for JSON with schemas of a registry."""
    timeout: Duration = 30.0
    """Seconds for which an answer is waited for."""

    @field_validator("servers", mode="before")
    @classmethod
    def _as_list(cls, given: object) -> object:
        return [one.strip() for one in given.split(",")] if isinstance(given, str) else given

    @field_validator("properties", mode="before")
    @classmethod
    def _as_texts(cls, given: object) -> object:
        """Take true, false and numbers as YAML reads them for the texts that they were."""
        if not isinstance(given, Mapping):
            return given
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

    @model_validator(mode="after")
    def _checked(self) -> Broker:
        for server in self.servers:
            if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@]+):\d{1,5}", server):
                raise ValueError(f"{server!r} is no broker; write its host and port: broker1:9092")
        for name in self.properties:
            if why := OURS.get(name):
                raise ValueError(f"properties: {name} is set by the auditor: {why}; remove it")
        return self

    @property
    def identity(self) -> str:
        """What tells this cluster from others, without secrets."""
        return ",".join(sorted(self.servers))

    @property
    def is_verified(self) -> bool:
        """Whether its connections stay on this machine, or are encrypted and made only to brokers whose certificates were verified."""
        hosts = [server.rpartition(":")[0].strip("[]") for server in self.servers]
        proofs = self.properties.get("enable.ssl.certificate.verification", "true").lower() != "false"
        is_encrypted = self.properties.get("security.protocol", "plaintext").lower() in ENCRYPTED and proofs
        return is_encrypted or all(LOOPBACK.fullmatch(host) for host in hosts)

    @property
    def secrets(self) -> list[str]:
        """The texts that nothing may show."""
        hidden = [value for name, value in self.properties.items() if SECRET.search(name)]
        return [*hidden, *([self.registry.password] if self.registry and self.registry.password else [])]


def find_unverified_brokers(brokers: Mapping[str, Broker]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield which brokers on other machines are reached without verifying them, and by what they would be."""
    for name, broker in brokers.items():
        if not broker.is_verified:
            sentence = "its brokers are not verified, so that anybody between could read along; use security.protocol: ssl or sasl_ssl"
            yield ("brokers", name, "properties"), sentence
        if broker.registry and not _is_verified(broker.registry.url):
            yield ("brokers", name, "registry", "url"), "it is not verified, so that anybody between could read along; use https"


def _is_verified(url: str) -> bool:
    host = re.sub(r"^https?://(\[[^\]]*\]|[^:/]*).*", r"\1", url).strip("[]")
    return url.startswith("https:") or bool(LOOPBACK.fullmatch(host))


def list_secrets(brokers: Iterable[Broker]) -> list[str]:
    """Return the texts of brokers that nothing may show."""
    return [secret for broker in brokers for secret in broker.secrets]
