"""Tokens, with the events that making and ending them are."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from auditor.errors import ConfigError
from auditor.store import events, tokens
from auditor.store.tokens import Scope, Token

if TYPE_CHECKING:
    from auditor.store import Store


def create(store: Store, *, name: str, scope: Scope, expires: dt.datetime | None = None, by: str = "") -> str:
    """Make a token and return its secret, which nobody can read again. Raises ConfigError."""
    if name.startswith(tokens.SESSION):
        raise ConfigError(f"a token's name does not begin with {tokens.SESSION!r}, as those of sessions do; choose another")
    secret = tokens.create(store, name=name, scope=scope, expires=expires)
    detail = {"scope": scope, "expires": expires.isoformat() if expires else None}
    events.note(store, who=by, what="token made", subject=name, detail=detail)
    return secret


def revoke(store: Store, name: str, by: str = "") -> Token:
    """End the living token of that name. Raises ConfigError where there is none."""
    token = tokens.revoke(store, name)
    events.note(store, who=by, what="token revoked", subject=name)
    return token
