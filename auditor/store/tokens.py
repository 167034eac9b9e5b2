"""API tokens and their scopes. A secret is returned once, when its token is created; the store holds only its hash."""

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
from auditor.escaping import shell_word
from auditor.store._schema import tokens
from auditor.store._store import Store, database_time, time_expression

Scope = Literal["read", "run", "define", "pipeline", "repair", "apply"]

SCOPES: tuple[Scope, ...] = get_args(Scope)

GRANTED_BY: Mapping[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"read", "run"}),
    "define": frozenset({"read", "run", "define"}),
    "pipeline": frozenset({"read", "run", "pipeline"}),
    "repair": frozenset({"read", "run", "repair"}),
    "apply": frozenset({"read", "run", "repair", "apply"}),
}
"""The scopes that a token of each scope includes."""

DESCRIPTIONS: Mapping[Scope, str] = {
    "read": "read everything",
    "run": "also request, cancel and resume runs",
    "define": "what `run` may; also define audits of configured connections or run them once, pause audits, manage tokens below it",
    "pipeline": "what `run` may; also pause, unpause and start pipelines, let them send existing rows, and let them skip events",
    "repair": "what `run` may; also propose patches, and record repairs that were made elsewhere",
    "apply": "what `repair` may; also have proposed patches applied and undone",
}
"""What a token of each scope permits, for people."""

SECRET_PREFIX = "aud_"
"""The prefix of every secret, by which scanners recognise leaked ones."""

SESSION_PREFIX = "session "
"""The prefix of the names of tokens that are login sessions."""

LAST_USED_PRECISION = dt.timedelta(minutes=1)
"""How often at most the last use of a token is written."""


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
        """Whether this is a login session, not a token that a person created."""
        return self.name.startswith(SESSION_PREFIX)

    def allows(self, scope: Scope) -> bool:
        """Return whether the token's scope includes ``scope``."""
        return scope in GRANTED_BY[self.scope]


def create_token(store: Store, *, name: str, scope: Scope, expires: dt.datetime | None = None) -> str:
    """Create a token and return its secret, which cannot be read again.

    Raises ConfigError for a name that is invalid or belongs to a valid token, an unknown scope, or an expiry in the past.
    """
    if scope not in SCOPES:
        raise ConfigError(f"there is no scope {scope!r}; use one of {', '.join(SCOPES)}")
    if not name or not name.isprintable() or len(name) > 100:
        raise ConfigError(f"the token name {name[:100]!r} is invalid; use 1 to 100 printable characters")
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)

    def work(connection: Connection) -> None:
        at = database_time(connection)
        if expires is not None and expires <= at:
            raise ConfigError(f"the expiry {expires:%Y-%m-%d %H:%M:%S} UTC is in the past; choose a later one")
        ended = or_(tokens.c.revoked.is_not(None), tokens.c.expires <= at)
        connection.execute(update(tokens).where(tokens.c.living == name, ended).values(living=None))
        if connection.execute(select(tokens.c.number).where(tokens.c.living == name)).first() is not None:
            raise ConfigError(f"a token {name!r} already exists; choose another name, or: auditor token revoke {shell_word(name)}")
        connection.execute(insert(tokens).values(name=name, living=name, hash=_hash(secret), scope=scope, made=at, expires=expires))

    store.write(work)
    return secret


def verify_token(store: Store, secret: str, run: Callable[[Callable[[], None]], object] = lambda work: work()) -> Token:
    """Return the token of a secret. Raises Unauthorised, with the same message for every reason.

    ``run`` is called with a function that records the token's last use; it may call it later, in another thread. Errors of the store
    while recording are ignored.
    """
    secret_hash = _hash(secret)
    with store.reading() as connection:
        row = connection.execute(_select_by_hash(connection.dialect.name), {"secret_hash": secret_hash}).first()
    matches = hmac.compare_digest(row.hash if row else "0" * len(secret_hash), secret_hash)
    if row is None or not matches or not _is_valid(row, row.now):
        raise Unauthorised("the token is unknown, expired or revoked; create one with: auditor token create")
    if row.last_used is None or row.now - row.last_used >= LAST_USED_PRECISION:
        run(lambda: _record_use(store, row.number, row.now))
    return _to_token(row)


@cache
def _select_by_hash(database: str) -> Select[Any]:
    return select(tokens, time_expression(database).label("now")).where(tokens.c.hash == bindparam("secret_hash"))


def _record_use(store: Store, number: int, at: dt.datetime) -> None:
    with suppress(StoreError):  # tokens of a read-only store remain valid
        store.write(lambda connection: connection.execute(update(tokens).where(tokens.c.number == number).values(last_used=at)) and None)


def list_tokens(store: Store) -> list[Token]:
    """Return all stored tokens, newest first, including sessions and those that ended."""
    with store.reading() as connection:
        return [_to_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.number.desc()))]


def revoke_token(store: Store, name: str) -> Token:
    """Revoke the valid token with this name. Raises ConfigError if there is none."""

    def work(connection: Connection) -> Token:
        row = connection.execute(select(tokens).where(tokens.c.living == name).with_for_update()).first()
        if row is None:
            raise ConfigError(f"there is no token {name!r}; list the tokens with: auditor token list")
        connection.execute(update(tokens).where(tokens.c.number == row.number).values(revoked=database_time(connection), living=None))
        return _to_token(connection.execute(select(tokens).where(tokens.c.number == row.number)).one())

    return store.write(work)


def has_valid_token(store: Store) -> bool:
    """Return whether there is a valid token. Sessions do not count: they are valid only with the token that they were created with."""
    with store.reading() as connection:
        at = database_time(connection)
        rows = connection.execute(select(tokens).where(tokens.c.living.is_not(None)))
        return any(_is_valid(row, at) and not _to_token(row).is_session for row in rows)


def _is_valid(row: Row[tuple[object, ...]], at: dt.datetime) -> bool:
    return row.revoked is None and (row.expires is None or row.expires > at)


def _to_token(row: Row[tuple[object, ...]]) -> Token:
    return Token(row.name, row.scope, row.made, row.expires, row.revoked, row.last_used)


def _hash(secret: str) -> str:
    # A secret is 32 random bytes, which cannot be guessed from its hash; a slow hash would add nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
