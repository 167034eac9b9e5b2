"""A registry of schemas of Confluent's protocol: those of topics' keys and values (TopicNameStrategy), and schemas by identifier.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from auditor.config import MessageFormat, MessageSettings, RegistrySettings
from auditor.errors import AccessDenied, MessageRefused, RegistryRefused, RegistryUnreachable
from auditor.pipeline.messages.connect_schemas import Schema
from auditor.pipeline.messages.formats import FORMATS, OF_REGISTRY, Register
from dialects import extras

_HTTP_CLIENTS = ("httpx", "httpx2")
"""Packages whose errors the client lets through: which of them it uses depends on its version."""

_UNAVAILABLE = 500
"""The first HTTP status by which a registry says that it fails itself."""


class SchemaRegistry:
    """A registry. It asks for a schema or an identifier once, and can be used by several threads."""

    def __init__(self, settings: RegistrySettings) -> None:
        extras.require("a schema registry", "kafka")
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self._url = settings.url
        options: dict[str, Any] = {"url": settings.url, "timeout": 30, "max.retries": 2, "retries.wait.ms": 200}
        if settings.user is not None:
            options["basic.auth.user.info"] = f"{settings.user}:{settings.password}"
        if settings.ca is not None:
            options["ssl.ca.location"] = settings.ca
        self._client = SchemaRegistryClient(options)
        self._found: dict[int, tuple[MessageFormat, Any, Schema]] = {}

    def check(self) -> None:
        """Ask for the subjects that it has, whatever they are. Raises RegistryUnreachable, AccessDenied and RegistryRefused."""
        with self._translated("its subjects"):
            self._client.get_subjects()

    def registering(self, topic: str, settings: MessageSettings) -> Register:
        """Return what registers schemas of a topic's keys and values, as `Encoder` wants it."""
        return lambda part, text: self.register(f"{topic}-{part}", text, settings)

    def register(self, subject: str, text: str, settings: MessageSettings) -> int:
        """Register a schema and return its identifier. Raises RegistryRefused if it is not compatible with those before it."""
        from confluent_kafka.schema_registry import Schema as Registered

        with self._translated(f"the schema of {subject}"):
            return int(self._client.register_schema(subject, Registered(text, FORMATS[settings.format].registry_type)))

    def is_compatible(self, subject: str, text: str, settings: MessageSettings) -> bool:
        """Return whether a schema may be registered after those that the subject has; also if it has none."""
        from confluent_kafka.schema_registry import Schema as Registered
        from confluent_kafka.schema_registry import SchemaRegistryError

        with self._translated(f"the schema of {subject}"):
            try:
                return bool(self._client.test_compatibility(subject, Registered(text, FORMATS[settings.format].registry_type)))
            except SchemaRegistryError as error:
                if error.http_status_code == 404:
                    return True
                raise

    def schema(self, number: int) -> tuple[MessageFormat, Any, Schema]:
        """Return the format of a schema, its body, and what it is for Connect.

        Raises MessageRefused if the registry has no schema of this identifier, or one that no table has.
        """
        if number not in self._found:
            from confluent_kafka.schema_registry import SchemaRegistryError

            with self._translated(f"the schema {number}"):
                try:
                    found = self._client.get_schema(number)
                except SchemaRegistryError as error:
                    if error.http_status_code == 404:
                        raise MessageRefused(f"the registry has no schema {number}, which the message names") from None
                    raise
            self._found[number] = _read(number, found.schema_type or "AVRO", found.schema_str or "", bool(found.references))
        return self._found[number]

    @contextmanager
    def _translated(self, subject: str) -> Iterator[None]:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            yield
        except SchemaRegistryError as error:
            message = f"{self._url}: {subject}: {error.error_message} (HTTP {error.http_status_code}, code {error.error_code})"
            if error.http_status_code in (401, 403):
                raise AccessDenied(f"{message}; check user: and password: of the registry") from None
            if error.http_status_code >= _UNAVAILABLE or error.http_status_code in (408, 429):
                raise RegistryUnreachable(message) from None
            raise RegistryRefused(message) from None
        except Exception as error:
            if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _HTTP_CLIENTS:
                raise
            raise RegistryUnreachable(f"{self._url}: {subject}: {str(error) or type(error).__name__}") from None


def shared_registry(settings: RegistrySettings) -> SchemaRegistry:
    """Return the one client that this process has of a registry, with the schemas that it has said."""
    return _shared(settings.model_dump_json())


@lru_cache(maxsize=16)
def _shared(settings: str) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings.model_validate_json(settings))


def _read(number: int, kind: str, text: str, has_references: bool) -> tuple[MessageFormat, Any, Schema]:
    if kind not in OF_REGISTRY or has_references:
        read = " and ".join(sorted(FORMATS[name].title for name in OF_REGISTRY.values()))
        raise MessageRefused(f"schema {number} is of the type {kind}{' with references' if has_references else ''}; only {read} are read")
    form, body = OF_REGISTRY[kind], json.loads(text)
    return form, body, FORMATS[form].from_schema(body)
