"""Notification channels, and when each is sent a message."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from auditor.config._base import Duration, Strict

Occasion = Literal["mismatch", "warning", "recovery", "unknown", "patch", "pipeline", "digest"]


class Channel(Strict):
    """A notification channel: an apprise URL (mailto://, slack://, json://, ...), and the occasions for messages."""

    url: str = Field(repr=False)
    """Where messages go, as a URL of apprise."""
    on: tuple[Occasion, ...] = ("mismatch", "warning", "recovery", "unknown", "patch", "pipeline")
    """Occasions for a message: ``mismatch``, ``warning``, ``recovery``, ``unknown``, ``patch``, ``pipeline``, ``digest``."""
    audits: tuple[str, ...] = ()
    """Audits that it is notified about; by default all. With any it is not notified about pipelines."""
    owners: tuple[str, ...] = ()
    """Owners (``owner`` of audits) of whose audits it is notified; by default all. With any it is not notified about pipelines."""


def _check_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("write the URL that takes events, as https://marquez:5000/api/v1/lineage, without user and password")
    return text


class LineageDatasets(Strict):
    """How other producers of lineage name the tables of a connection."""

    namespace: str = Field(min_length=1)
    """Their namespace, such as ``redshift://wh.us-east-1:5439``."""
    name: str = Field("{table}", pattern=r"\{table\}")
    """Their name, in which ``{table}`` is the target's table as its audit names it: ``analytics.public.{table}``."""


class OpenLineage(Strict):
    """A receiver of OpenLineage's events. Each run that ends sends one, with what its verdict asserts of the target's table."""

    url: Annotated[str, AfterValidator(_check_url)] = Field(repr=False)
    """The URL that takes events, such as ``https://marquez:5000/api/v1/lineage``."""
    token: str | None = Field(None, repr=False)
    """Sent as ``Authorization: Bearer``."""
    namespace: str = Field("auditor", min_length=1)
    """The namespace of jobs; a job has the name of its audit."""
    datasets: dict[str, LineageDatasets] = Field(min_length=1)
    """The targets of which events are sent, by connection."""


class Notify(Strict):
    """Notifications."""

    channels: dict[str, Channel] = {}
    """Channels by name."""
    openlineage: OpenLineage | None = None
    """Where events of OpenLineage are sent."""
    repeat_after: Duration = 86400.0
    """Time after which a notification is repeated while the verdict of an audit does not change."""
    max_per_hour: int = Field(20, ge=1)
    """Maximum messages per hour to a channel; further ones are summarised in one message later."""
