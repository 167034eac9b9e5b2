"""Tokens: who may do what. A secret is shown once, when its token is made; only its hash is kept."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, Select, bindparam, insert, or_, select, update

from auditor.errors import ConfigError, StoreError, Unauthorised
from auditor.store._schema import tokens
from auditor.store._store import Store, clock, now

Scope = Literal["read", "run", "define", "repair"]

SCOPES: tuple[Scope, ...] = get_args(Scope)

INCLUDED: Mapping[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"read", "run"}),
    "define": frozenset({"read", "run", "define"}),
    "repair": frozenset({"read", "run", "repair"}),
}
"""What a token of each scope may do."""

PREFIX = "aud_"
"""What a secret begins with, so that programs that look for leaked ones know it."""

SESSION = "session "
"""What the names of the tokens begin with that are sessions of people who logged in with a token of theirs."""

NOTED = dt.timedelta(minutes=1)
"""How precisely the last use is known."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    name: str
    scope: Scope
    made: dt.datetime
    expires: dt.datetime | None
    revoked: dt.datetime | None
    last_used: dt.datetime | None

    @property
    def is_session(self) -> bool:
        """Whether this is somebody's session, which lists of tokens need not show."""
        return self.name.startswith(SESSION)

    def allows(self, scope: Scope) -> bool:
        """Whether this token may do what that scope is needed for."""
        return scope in INCLUDED[self.scope]


def create(store: Store, *, name: str, scope: Scope, expires: dt.datetime | None = None) -> str:
    """Make a token and return its secret, which nobody can read again. Raises ConfigError where a living token has the name."""
    if scope not in SCOPES:
        raise ConfigError(f"there is no scope {scope!r}; write one of {', '.join(SCOPES)}")
    if not name or not name.isprintable() or len(name) > 100:
        raise ConfigError("a token's name has 1 to 100 printable characters")
    secret = PREFIX + secrets.token_urlsafe(32)

    def work(connection: Connection) -> None:
        at = now(connection)
        if expires is not None and expires <= at:
            raise ConfigError(f"the token would have expired already, at {expires:%Y-%m-%d %H:%M:%S} UTC")
        ended = or_(tokens.c.revoked.is_not(None), tokens.c.expires <= at)
        connection.execute(update(tokens).where(tokens.c.living == name, ended).values(living=None))
        if connection.execute(select(tokens.c.number).where(tokens.c.living == name)).first() is not None:
            raise ConfigError(f"there is a token {name!r} already; choose another name, or: auditor token revoke {name}")
        connection.execute(insert(tokens).values(name=name, living=name, hash=_hash(secret), scope=scope, made=at, expires=expires))

    store.write(work)
    return secret


def check(store: Store, secret: str, note: Callable[[Callable[[], None]], object] = lambda work: work()) -> Token:
    """The token of a secret. Raises Unauthorised, in one sentence for whatever is wrong with it.

    Its last use is written down by the work that ``note`` is given, at once or later, as far as the store lets it.
    """
    wanted = _hash(secret)
    with store.reading() as connection:
        row = connection.execute(_by_hash(connection.dialect.name), {"wanted": wanted}).first()
    known = hmac.compare_digest(row.hash if row else "0" * len(wanted), wanted)
    if row is None or not known or not _valid(row, row.now):
        raise Unauthorised("there is no such token, or it has expired, or was revoked")
    if row.last_used is None or row.now - row.last_used >= NOTED:
        note(lambda: _used(store, row.number, row.now))
    return _token(row)


@cache
def _by_hash(database: str) -> Select[Any]:
    return select(tokens, clock(database).label("now")).where(tokens.c.hash == bindparam("wanted"))


def _used(store: Store, number: int, at: dt.datetime) -> None:
    with suppress(StoreError):  # a store that may only be read knows its tokens all the same
        store.write(lambda connection: connection.execute(update(tokens).where(tokens.c.number == number).values(last_used=at)) and None)


def listed(store: Store) -> list[Token]:
    """All tokens that were ever made, the newest first."""
    with store.reading() as connection:
        return [_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.number.desc()))]


def revoke(store: Store, name: str) -> Token:
    """End the living token of that name. Raises ConfigError where there is none."""

    def work(connection: Connection) -> Token:
        row = connection.execute(select(tokens).where(tokens.c.living == name).with_for_update()).first()
        if row is None:
            raise ConfigError(f"there is no token {name!r}; see: auditor token list")
        connection.execute(update(tokens).where(tokens.c.number == row.number).values(revoked=now(connection), living=None))
        return _token(connection.execute(select(tokens).where(tokens.c.number == row.number)).one())

    return store.write(work)


def any_valid(store: Store) -> bool:
    """Whether anybody could come in; a session is worth nothing without the token that it was made from."""
    with store.reading() as connection:
        at = now(connection)
        living = connection.execute(select(tokens).where(tokens.c.living.is_not(None)))
        return any(_valid(row, at) and not _token(row).is_session for row in living)


def _valid(row: Row[tuple[object, ...]], at: dt.datetime) -> bool:
    return row.revoked is None and (row.expires is None or row.expires > at)


def _token(row: Row[tuple[object, ...]]) -> Token:
    return Token(row.name, row.scope, row.made, row.expires, row.revoked, row.last_used)


def _hash(secret: str) -> str:
    # A secret of 32 random bytes cannot be guessed from its hash, so that a slow hash would protect nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
