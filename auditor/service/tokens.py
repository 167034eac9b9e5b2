"""Create and revoke access tokens, and record both as events."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.api_models.access import LIMITABLE, Scope
from auditor.api_models.access import Token as ShownToken
from auditor.errors import ConfigError, Forbidden
from auditor.store import events, tokens
from auditor.store.tokens import Token

if TYPE_CHECKING:
    from auditor.store import Store


def create(
    store: Store,
    *,
    name: str,
    scope: Scope,
    expires: dt.datetime | None = None,
    by: str = "",
    creator: Token | None = None,
    audits: Sequence[str] = (),
) -> str:
    """Create a token and return its secret, of which only a hash is stored. With ``audits``, patterns, it is limited to these.

    ``creator`` is the token that the request came with, None on the command line: the new token expires no later, and ends with it. Raises
    ConfigError for a reserved or used name, and Forbidden for a scope that is not below the creator's.
    """
    _check_below(creator, scope)
    if creator is not None and creator.number == tokens.OF_PROXY:
        raise Forbidden("a token ends with the one that it was made with, and a user of the proxy has none; use: auditor token create")
    if name.startswith(tokens.SESSION_PREFIX):
        raise ConfigError(f"token names that start with {tokens.SESSION_PREFIX!r} are reserved for sessions; choose another name")
    if audits and scope not in LIMITABLE:
        raise ConfigError(f"a token with the scope {scope} cannot be limited to audits: it reaches tables of others; choose another scope")
    secret = tokens.create_token(store, name=name, scope=scope, expires=expires, creator=creator, audits=audits)
    detail = {"scope": scope, "expires": expires.isoformat() if expires else None, **({"audits": list(audits)} if audits else {})}
    events.record_event(store, actor=by, action="token made", subject=name, detail=detail)
    return secret


def revoke(store: Store, name: str, by: str = "", holder: Token | None = None) -> Token:
    """Revoke the valid token of that name, and those that it created.

    ``holder`` is the token that the request came with, None on the command line. Raises ConfigError if there is none, and Forbidden if its
    scope is not below the holder's and it is not the holder.
    """
    revoked = tokens.find_token(store, name)
    if holder is None or revoked.number not in (holder.number, holder.created_by):
        _check_below(holder, revoked.scope)
    token = tokens.revoke_token(store, name)
    events.record_event(store, actor=by, action="token revoked", subject=name)
    return token


def list_tokens(store: Store) -> list[ShownToken]:
    """Return all tokens that people created, without login sessions, newest first. Raises StoreError."""
    listed = [token for token in tokens.list_tokens(store) if not token.is_session]
    names = {token.number: token.name for token in listed}
    return [_show(token, names.get(token.created_by or 0, "")) for token in listed]


def _show(token: Token, created_by: str) -> ShownToken:
    return ShownToken(
        name=token.name,
        scope=token.scope,
        created_at=token.created_at,
        expires=token.expires,
        revoked=token.revoked,
        last_used=token.last_used,
        created_by=created_by,
        audits=token.audits,
    )


def _check_below(holder: Token | None, scope: Scope) -> None:
    if holder is not None and not holder.manages(scope):
        raise Forbidden(
            f"a token with the scope {holder.scope} manages those of scopes below its own, not of {scope}; on the command line,"
            " auditor token manages all"
        )
