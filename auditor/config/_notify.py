"""Notification channels, and when each is sent a message."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from auditor.config._base import Duration, Strict

Occasion = Literal["mismatch", "recovery", "unknown", "patch", "pipeline", "digest"]


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
