"""A whole configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from auditor.config._audit import Audit
from auditor.config._base import Duration, Strict, closest
from auditor.config._connection import Connection, limited
from auditor.config._service import Service
from auditor.errors import UnknownAudit

Occasion = Literal["mismatch", "recovery", "unknown", "digest"]


class Store(Strict):
    """Where runs are kept."""

    url: str = Field(repr=False)


class Keep(Strict):
    """How long runs are kept: the newest ``runs`` of each audit, none older than ``days``."""

    runs: int | None = Field(400, ge=1)
    days: float | None = Field(180, gt=0)


class Channel(Strict):
    """Where messages go: a URL as apprise reads it (mailto://, slack://, json://, ...), and on what occasions."""

    url: str = Field(repr=False)
    on: tuple[Occasion, ...] = ("mismatch", "recovery", "unknown")
    audits: tuple[str, ...] = ()
    """Only these; all without it."""


class Notify(Strict):
    """Who is told what."""

    channels: dict[str, Channel] = {}
    again: Duration = 86400.0
    """An audit that stays as it was is told again after this time."""
    most: int = Field(20, ge=1)
    """Messages to a channel in an hour; what is more is told in one."""


class Settings(Strict):
    """A whole configuration."""

    connections: Annotated[dict[str, Connection], AfterValidator(limited)]
    audits: dict[str, Audit]
    store: Store | None = None
    """Without it a configuration read from a file keeps its runs in auditor.db beside that file."""
    keep: Keep = Keep()
    notify: Notify = Notify()
    service: Service = Service()

    @model_validator(mode="after")
    def _names_exist(self) -> Settings:
        unknown: list[tuple[tuple[str, ...], str]] = [
            (("audits", name, place), f"there is no connection {ref.connection!r}{closest(ref.connection, self.connections)}")
            for name, audit in self.audits.items()
            for place, ref in (("source", audit.source), ("target", audit.target), ("via", audit.via))
            if ref and ref.connection not in self.connections
        ]
        unknown += [
            (("notify", "channels", name, "audits"), f"there is no audit {audit!r}{closest(audit, self.audits)}")
            for name, channel in self.notify.channels.items()
            for audit in channel.audits
            if audit not in self.audits
        ]
        if unknown:
            told = "; ".join(f"{'.'.join(where)}: {sentence}" for where, sentence in unknown)
            raise PydanticCustomError("unknown_connection", "{told}", {"told": told, "unknown": unknown})
        return self

    def audit(self, name: str) -> Audit:
        """The audit of that name. Raises UnknownAudit."""
        if name not in self.audits:
            known = ", ".join(sorted(self.audits)) or "none"
            raise UnknownAudit(f"there is no audit {name!r}{closest(name, self.audits)} (audits here: {known})")
        return self.audits[name]
