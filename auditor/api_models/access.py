"""Access to the service: tokens without their secrets, and the log of requests that changed something."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import Field

from auditor.api_models import ApiModel

Scope = Literal["read", "run", "define", "pipeline", "repair", "apply", "admin"]

LIMITABLE: tuple[Scope, ...] = ("read", "run", "repair", "apply")
"""Scopes that can be limited to audits. The others reach more than single audits: tables of all connections, pipelines."""


class Token(ApiModel):
    """A token without its secret."""

    name: str
    scope: Scope
    created_at: dt.datetime
    expires: dt.datetime | None
    revoked: dt.datetime | None
    last_used: dt.datetime | None
    created_by: str
    """The name of the token that created it, over HTTP; empty for one created on the command line."""
    audits: tuple[str, ...]
    """Patterns of the audits that it is limited to; empty for all."""


class Event(ApiModel):
    """An entry of the log of requests that changed something."""

    number: int
    at: dt.datetime
    actor: str = Field(description="The token's name, or the address of a failed login.")
    action: str = Field(examples=["run requested"])
    subject: str = Field(description="What was acted on: a run's id, or the name of an audit or token.")
    detail: dict[str, Any]
