"""Access tokens, without their secrets."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from auditor.shapes._shape import Shape

Scope = Literal["read", "run", "define", "pipeline", "repair", "apply"]


class Token(Shape):
    """A token without its secret."""

    name: str
    scope: Scope
    created_at: dt.datetime
    expires: dt.datetime | None
    revoked: dt.datetime | None
    last_used: dt.datetime | None
    created_by: str
    """The name of the token that created it, over HTTP; empty for one created on the command line."""
