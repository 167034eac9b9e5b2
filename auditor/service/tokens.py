"""Create and revoke access tokens, and record both as events."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from auditor.errors import ConfigError
from auditor.store import events, tokens
from auditor.store.tokens import Scope, Token

if TYPE_CHECKING:
    from auditor.store import Store


def create(store: Store, *, name: str, scope: Scope, expires: dt.datetime | None = None, by: str = "") -> str:
    """Create a token and return its secret, of which only a hash is stored. Raises ConfigError for a reserved or used name."""
    if name.startswith(tokens.SESSION_PREFIX):
        raise ConfigError(f"token names that start with {tokens.SESSION_PREFIX!r} are reserved for sessions; choose another name")
    secret = tokens.create_token(store, name=name, scope=scope, expires=expires)
    detail = {"scope": scope, "expires": expires.isoformat() if expires else None}
    events.record_event(store, who=by, what="token made", subject=name, detail=detail)
    return secret


def revoke(store: Store, name: str, by: str = "") -> Token:
    """Revoke the valid token of that name. Raises ConfigError if there is none."""
    token = tokens.revoke_token(store, name)
    events.record_event(store, who=by, what="token revoked", subject=name)
    return token
